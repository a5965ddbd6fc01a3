"""Errors of many contenders on the same people: everybody in a few runs, and those who come near in many more.

Estimates are compared in two ways. With ``RAW`` everybody's are unbiased: a protocol that shrinks by itself
(``protocols.unshrunk``) is measured before it does. With ``BAYES`` everybody's are shrunk by empirical Bayes; such a
protocol also takes part with its own way of shrinking.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from keyveil.core.errors import KeyveilError
from keyveil.core.estimates import Estimates
from keyveil.lab.contenders import Contender
from keyveil.lab.datasets import Dataset
from keyveil.lab.decoders import BAYES, RAW, decoded
from keyveil.lab.metrics import metrics
from keyveil.lab.rounds import Blocks, ask
from keyveil.lab.scores import Score, best_form, score
from keyveil.protocols.base import Protocol
from keyveil.protocols.registry import as_protocol
from keyveil.protocols.unshrunk import Unshrunk

DECODERS = (RAW, BAYES)
OWN = " (own average)"  # behind the label of a protocol that is measured with its own way of shrinking

Errors = dict[str, float]
"""Mean squared errors of one run, by quantity."""


class Contest:
    """Contenders by label at the same exact epsilon.

    Left out are those that cannot take the people or cannot spend epsilon, and who is the same as one before.
    ``quantities`` are those of ``lab.metrics`` that are compared.
    """

    def __init__(
        self,
        data: Dataset,
        epsilon: Fraction,
        asked: Mapping[str, Contender],
        quantities: Sequence[str],
        seed: int,
    ) -> None:
        people = data.population.keyed(data.schema)
        self.truth, self.blocks = people.truth(data.schema), Blocks.of(people, data.schema)
        self.quantities, self.seed = tuple(quantities), seed
        self.made: dict[str, Protocol] = {}
        self._runs: dict[tuple[str, str], dict[int, Errors]] = {}
        self.same: dict[str, str] = {}  # labels to those of who is the same and takes part
        known: dict[str, str] = {}
        for label, one in asked.items():
            try:
                made = as_protocol(one.at(epsilon, data.schema, people.sizes, {}))
            except KeyveilError:
                continue
            self.same[label] = known.setdefault(repr(made), label)
            if self.same[label] == label:
                self.made[label] = made

    def run(self, label: str, runs: Iterable[int], decoders: Iterable[str] = (RAW,)) -> None:
        """Collect from all people once a run, and keep the errors with these decoders; a run is made once."""
        protocol, wanted = self.made[label], tuple(decoders)
        for run in runs:
            missing = [one for one in wanted if run not in self._runs.get((label, one), {})]
            if not missing:
                continue
            history = ask(protocol, self.blocks, self.seed, run, shortcut=True)
            alone = isinstance(protocol, Unshrunk)
            told = protocol.unshrunk(history) if isinstance(protocol, Unshrunk) else protocol.estimate(history)
            for decoder in missing:
                try:
                    self._keep(label, decoder, run, decoded(decoder, told))
                except KeyveilError:
                    continue  # without frequencies there is nothing to shrink by
                if alone and decoder == BAYES:
                    self._keep(label + OWN, decoder, run, protocol.estimate(history))

    def _keep(self, label: str, decoder: str, run: int, estimates: Estimates) -> None:
        found = metrics(estimates, self.truth)
        errors = {quantity: error for quantity in self.quantities if (error := found[f"mse_{quantity}"]) is not None}
        self._runs.setdefault((label, decoder), {})[run] = errors

    def errors(self, label: str, decoder: str, quantity: str, runs: Iterable[int]) -> list[float]:
        """The errors of a contender in those of the runs that tell something about a quantity."""
        kept = self._runs.get((label, decoder), {})
        return [kept[run][quantity] for run in runs if run in kept and quantity in kept[run]]

    def labels(self, decoder: str) -> list[str]:
        """Who was measured with a decoder, in any run."""
        return [label for label, known in self._runs if known == decoder]

    def near(
        self, decoder: str, quantity: str, among: Iterable[str], runs: Sequence[int], times: float, most: int
    ) -> list[str]:
        """At most so many contenders, the best first, whose error in these runs is at most ``times`` the least."""
        means = {
            label: math.fsum(errors) / len(errors)
            for label in among
            if (errors := self.errors(label, decoder, quantity, runs))
        }
        ranked = sorted(means, key=means.__getitem__)[:most]
        return [label for label in ranked if means[label] <= times * means[ranked[0]]]

    def score(self, label: str, decoder: str, quantity: str, runs: Sequence[int]) -> Score | None:
        """The error of one contender over all of these runs."""
        errors = self.errors(label, decoder, quantity, runs)
        return score(label, errors) if errors else None

    def best(self, among: Iterable[str], decoder: str, quantity: str, runs: Sequence[int]) -> Score | None:
        """The best of some, found on one half of the runs and measured on the other."""
        found = {label: self.errors(label, decoder, quantity, runs) for label in among}
        return best_form({label: errors for label, errors in found.items() if len(errors) == len(runs)})
