"""Adaptive (FairKV): first which keys are rare, then values, with rare keys sampled more often.

*Published*: everybody answers both phases, with half of the budget each. *Parted*: the same phases, but half of the
people answer each, with the whole ε. *Repaired*: a disjoint group answers the first phase; a key is sampled with the
same probability by all of its holders, so that means are unbiased; and what sampling and uniform fakes gain in privacy
is spent. ``wsr`` behind a ``pilot`` does better than all of them for ε up to about 2. Derivation:
docs/protocols-groups.md; figures: docs/fairness.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

from keyveil.core.errors import ProtocolError
from keyveil.core.estimates import Estimates
from keyveil.mechanisms.overflow.beside import OPTION, read_share
from keyveil.mechanisms.rounds.adaptive import KeyPhase, ValuePhase
from keyveil.mechanisms.rounds.overflow import OverflowQuestion
from keyveil.protocols.base import EVERYONE, History, Protocol, Round, in_parts, part_of
from keyveil.protocols.merged import judged_by, merged
from keyveil.protocols.weights import rare_first

Variant = Literal["repaired", "published", "parted"]

THETA = {"repaired": Fraction(1, 2), "published": Fraction(2), "parted": Fraction(2)}


@dataclass(frozen=True)
class Adaptive(Protocol):
    """Keys are sampled with weights ∝ max(f, τ)^(-``theta``), f from the first phase.

    ``share`` of the people answer the first phase of the repaired form. ``theta`` is 1/2 there and 2 in the others:
    where sampling is the same for everybody, a popular key is not made up for by records without rare ones.
    ``key_to_value`` is ε₂/ε₃, how the second phase shares its budget between a key and its value.
    ``overflow`` of the people, or "off", answer a last round of the repaired form: how far they exceed the cap.
    """

    max_pairs: int
    variant: Variant = "repaired"
    theta: Fraction | None = None
    share: Fraction = Fraction(1, 10)
    steps: int = 1024
    key_to_value: Fraction | None = None
    overflow: str = "off"

    name: ClassVar[str] = "adaptive"
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({"max_pairs": 2},)
    unsaid: ClassVar[frozenset[str]] = frozenset({"key_to_value"})

    def validate(self) -> None:
        if self.variant not in THETA:
            raise _refused(f"adaptive takes variant={'|'.join(THETA)}, not {self.variant!r}.")
        if self.theta is None:
            object.__setattr__(self, "theta", THETA[self.variant])
        if self.exponent < 0 or not 0 < self.share < 1:
            raise _refused("adaptive takes a theta of at least 0 and a share of the people between 0 and 1.")
        if self.group < 0 or self.share + self.group >= 1 or (self.group and not self.repaired):
            raise _refused("adaptive has an overflow group in its repaired form, and room for it beside the share.")
        if self.max_pairs == self.schema.d:
            object.__setattr__(self, "overflow", "off")  # nobody can exceed it
        self.values(None)

    @property
    def parameters(self) -> dict[str, Any]:
        """Without a group its option is left out, so that documents of before it mean what they meant."""
        return {name: one for name, one in super().parameters.items() if name != OPTION or self.group}

    @property
    def group(self) -> Fraction:
        """The share of the people who are asked how far they exceed the cap."""
        return read_share(self.overflow)

    @property
    def exponent(self) -> float:
        assert self.theta is not None
        return float(self.theta)

    @property
    def repaired(self) -> bool:
        return self.variant == "repaired"

    @property
    def both(self) -> bool:
        """Whether the same people answer both phases."""
        return self.variant == "published"

    @property
    def each(self) -> Fraction:
        """What a phase costs those who answer it."""
        return part_of(self.epsilon, Fraction(1, 2)) if self.both else self.epsilon

    def keys(self) -> KeyPhase:
        """The first phase."""
        return KeyPhase(self.schema, self.each, self.max_pairs, "tight" if self.repaired else "paper")

    def values(self, weights: tuple[int, ...] | None) -> ValuePhase:
        """The second phase, with the weights that it broadcasts."""
        form: Literal["repaired", "published"] = "repaired" if self.repaired else "published"
        return ValuePhase(
            self.schema,
            self.each,
            self.max_pairs,
            weights,
            variant=form,
            steps=self.steps,
            key_to_value=self.key_to_value,
        )

    def true_ratio(self) -> Fraction:
        """The largest ratio of the probabilities of both published phases' reports together: less than their product.

        It is one of two. An empty record against a full one: two null symbols, the second of which has no value. A
        pair against its absence: its key in both phases and its value in the second, but in the first phase the pair
        fills only one of ``max_pairs`` places.
        """
        first, second = self.keys(), self.values(None)
        if not self.both:
            return max(Fraction(first.ratio), Fraction(second.ratio))
        keys, value = second.budget
        key, again = Fraction(first.channel.ratio), Fraction(keys.ratio)
        pair = (1 + (key - 1) / self.max_pairs) * again * Fraction(value.channel.ratio)
        return max(key * again, pair)

    def plan(self, finished: History) -> Round | None:
        shares = (self.share, 1 - self.share - self.group, self.group) if self.repaired else (Fraction(1), Fraction(1))
        first, rest, *last = (EVERYONE, EVERYONE) if self.both else in_parts(*filter(None, shares))
        match len(finished):
            case 0:
                return Round(1, self.keys(), first)
            case 1:
                return Round(2, self.values(rare_first(finished[0].estimates(), self.exponent)), rest)
            case 2 if last:
                return Round(3, OverflowQuestion.beside(self.schema, self.epsilon, self.max_pairs), last[0])
        return None

    def estimate(self, finished: History, confidence: float = 0.95, population: bool = False) -> Estimates:
        if self.repaired or len(finished) < 2:
            told = merged(finished, self, confidence, population)
            if len(finished) < 3:
                return told
            surplus = finished[2].seen_as(OverflowQuestion).surplus(finished[2].tally)
            return judged_by(surplus, told, finished[1], population)
        keys, values = (one.estimates(confidence, population) for one in finished)
        return replace(values.under(self.header(values.n, confidence, population)), frequency=keys.frequency)


def _refused(sentence: str) -> ProtocolError:
    return ProtocolError("protocol/option", sentence)
