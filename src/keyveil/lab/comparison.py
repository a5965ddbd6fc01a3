"""What comparisons tell: errors of every contender at every epsilon with every decoder, who is best, and who ties."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from keyveil.core.epsilon import decimal_text
from keyveil.core.estimates import Backend
from keyveil.core.rendering import Shown
from keyveil.frames.results import frame_of
from keyveil.lab.contenders import without_best_cap
from keyveil.lab.datasets import Dataset
from keyveil.lab.decoders import RAW
from keyveil.lab.metrics import Metrics
from keyveil.lab.scores import Score, best_form, ties, winner

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUANTITIES = ("frequency", "mean")
ALL_QUANTITIES = (*QUANTITIES, *(f"{quantity}_top" for quantity in QUANTITIES))


@dataclass(frozen=True)
class Measured:
    """One mechanism or protocol at one epsilon with one decoder; ``requested`` is larger where it spends less.

    ``mechanism`` has its options behind a colon where it was given some. ``exact_epsilon`` is what a person spends in
    all. ``spread`` are the standard errors of the mean squared errors over the runs; nothing is known about them after
    a single run. ``runs`` are these errors run by run, without runs that tell nothing about the quantity.
    """

    mechanism: str
    epsilon: Fraction
    requested: Fraction
    exact_epsilon: float | None
    exact_epsilon_decimal: str | None
    options: dict[str, Any]
    bits_per_report: float
    metrics: Metrics
    spread: Metrics
    truncated: bool  # some people hold more than the cap
    seconds: float  # of all decoders together
    decoder: str = RAW
    runs: dict[str, tuple[float, ...]] = field(default_factory=dict)

    def error(self, quantity: str) -> float | None:
        """The mean squared error over all keys that somebody holds; of "…_top" over the 20 most frequent ones."""
        return self.metrics[f"mse_{quantity}"]

    def document(self) -> dict[str, Any]:
        return {**vars(self), "epsilon": float(self.epsilon), "requested": float(self.requested)}


@dataclass(frozen=True, eq=False)
class Standing:
    """The scores of one row of a table, who has the least error, and whom the runs do not tell from it."""

    scores: dict[str, Score]
    best: str | None
    ties: tuple[str, ...]

    def shares(self, name: str) -> bool:
        """Whether somebody shares the first place with others."""
        return bool(self.ties) and name in (self.best, *self.ties)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """All contenders on one data set."""

    dataset: Dataset
    epsilons: tuple[Fraction, ...]
    repeats: int
    seed: int
    chosen: tuple[str, ...]
    entries: tuple[Measured, ...]
    refused: dict[str, str]  # contenders that do not apply, and why
    average: dict[str, float]  # squared errors of the average of everyone
    given: dict[str, Any] = field(default_factory=dict)  # options that all were told who have them
    decoders: tuple[str, ...] = (RAW,)

    def __repr__(self) -> str:
        return f"Comparison({self.dataset.name}, {_counted(self)})"

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The labels of those who took part."""
        return tuple(dict.fromkeys(entry.mechanism for entry in self.entries))

    @property
    def capped(self) -> dict[str, list[str]]:
        """The labels of those who took part; their forms with best caps are behind the label without one."""
        found: dict[str, list[str]] = {}
        for label in self.mechanisms:
            found.setdefault(without_best_cap(label), []).append(label)
        return found

    @property
    def first_decoder(self) -> str:
        """The decoder that is meant where none is named: that of plain estimates, if it took part."""
        return RAW if RAW in self.decoders else self.decoders[0]

    def entry(self, mechanism: str, epsilon: Fraction, decoder: str | None = None) -> Measured | None:
        return self._entries.get((mechanism, epsilon, decoder or self.first_decoder))

    def error(self, mechanism: str, epsilon: Fraction, quantity: str, decoder: str | None = None) -> float | None:
        found = self.entry(mechanism, epsilon, decoder)
        return None if found is None else found.error(quantity)

    def spread(self, mechanism: str, epsilon: Fraction, quantity: str, decoder: str | None = None) -> float | None:
        """The standard error of ``error`` over the runs."""
        found = self.entry(mechanism, epsilon, decoder)
        return None if found is None else found.spread[f"mse_{quantity}"]

    def best_of(
        self, labels: Sequence[str], epsilon: Fraction, quantity: str, decoder: str | None = None
    ) -> Score | None:
        """The best of several forms, found on one half of the runs and measured on the other (``lab.scores``)."""
        found = {label: self.entry(label, epsilon, decoder) for label in labels}
        runs = {label: one.runs[quantity] for label, one in found.items() if one is not None and one.runs.get(quantity)}
        return best_form(runs)

    def standing(
        self, groups: Mapping[str, Sequence[str]], epsilon: Fraction, quantity: str, decoder: str | None = None
    ) -> Standing:
        """How groups of forms stand against each other, each with its best form."""
        scores = self.columns(groups, epsilon, quantity, decoder)
        return Standing(scores, winner(scores), ties(scores))

    def columns(
        self, groups: Mapping[str, Sequence[str]], epsilon: Fraction, quantity: str, decoder: str | None = None
    ) -> dict[str, Score]:
        """The scores of groups of forms by their names, each with its best form; without those that tell nothing."""
        found = {
            name: self._scores(epsilon, quantity, labels, decoder).get(labels[0])
            if len(labels) == 1
            else self.best_of(labels, epsilon, quantity, decoder)
            for name, labels in groups.items()
        }
        return {name: one for name, one in found.items() if one is not None}

    def best(
        self, epsilon: Fraction, quantity: str, among: Sequence[str] | None = None, decoder: str | None = None
    ) -> str | None:
        """The mechanism with the smallest error."""
        return winner(self._scores(epsilon, quantity, among, decoder))

    def ties(
        self, epsilon: Fraction, quantity: str, among: Sequence[str] | None = None, decoder: str | None = None
    ) -> tuple[str, ...]:
        """Whom the runs do not tell from the best: their errors differ by less than two standard errors."""
        return ties(self._scores(epsilon, quantity, among, decoder))

    def _scores(
        self, epsilon: Fraction, quantity: str, among: Sequence[str] | None, decoder: str | None
    ) -> dict[str, Score]:
        found = {name: self.entry(name, epsilon, decoder) for name in among or self.mechanisms}
        return {
            name: Score(error, one.spread[f"mse_{quantity}"], (name,))
            for name, one in found.items()
            if one is not None and (error := one.error(quantity)) is not None
        }

    @cached_property
    def _entries(self) -> dict[tuple[str, Fraction, str], Measured]:
        return {(one.mechanism, one.epsilon, one.decoder): one for one in self.entries}

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """A row for every contender, epsilon and decoder, as a frame of pandas, polars or pyarrow.

        ``mse_frequency_se`` and its like are standard errors over the runs; ``best_frequency`` and ``tied_frequency``
        say who has the smallest error and whom the runs do not tell from it, ``best_mean`` and ``tied_mean`` likewise.
        """
        return Comparisons((self,)).to_frame(backend)

    def plot(self) -> Figure:
        """Errors over epsilon, frequencies beside means, with error bars; see ``Comparisons.plot``."""
        return Comparisons((self,)).plot()

    def _repr_html_(self) -> str:
        return Comparisons((self,))._repr_html_()

    def rows(self) -> list[dict[str, Any]]:
        """The rows of ``to_frame``; unknown numbers are NaN."""
        return [self._row(entry) for entry in self.entries]

    def _row(self, entry: Measured) -> dict[str, Any]:
        unknown = float("nan")
        spread = {f"{name}_se": unknown if error is None else error for name, error in entry.spread.items()}
        marks: dict[str, bool] = {}
        for quantity in QUANTITIES:
            place = entry.epsilon, quantity, None, entry.decoder
            marks[f"best_{quantity}"] = self.best(*place) == entry.mechanism
            marks[f"tied_{quantity}"] = entry.mechanism in self.ties(*place)
        return {
            "data": self.dataset.name,
            "n": self.dataset.population.n,
            "keys": self.dataset.schema.d,
            "mechanism": entry.mechanism,
            "epsilon": float(entry.epsilon),
            "decoder": entry.decoder,
            "requested": float(entry.requested),
            "exact_epsilon": unknown if entry.exact_epsilon is None else entry.exact_epsilon,
            "repeats": self.repeats,
            "bits_per_report": entry.bits_per_report,
            **{name: unknown if error is None else error for name, error in entry.metrics.items()},
            **spread,
            **marks,
            "truncated": entry.truncated,
            "seconds": entry.seconds,
        }

    def document(self) -> dict[str, Any]:
        """The object that ``keyveil compare --json`` prints; all but ``seconds`` is the same for a seed."""

        def told(
            ask: Callable[[Fraction, str, None, str], Any], decoder: str = self.first_decoder
        ) -> dict[str, dict[str, Any]]:
            return {
                quantity: {decimal_text(epsilon): ask(epsilon, quantity, None, decoder) for epsilon in self.epsilons}
                for quantity in QUANTITIES
            }

        return {
            "data": self.dataset.name,
            "n": self.dataset.population.n,
            "users": self.dataset.population.n,
            "keys": self.dataset.schema.d,
            "epsilons": [float(epsilon) for epsilon in self.epsilons],
            "repeats": self.repeats,
            "seed": self.seed,
            "best": told(self.best),
            "ties": told(self.ties),
            "decoders": {one: {"best": told(self.best, one), "ties": told(self.ties, one)} for one in self.decoders},
            "mechanisms": [entry.document() for entry in self.entries],
            "baselines": {
                "truth": dict.fromkeys((f"mse_{quantity}" for quantity in QUANTITIES), 0.0),
                "average": {f"mse_{quantity}": error for quantity, error in self.average.items()},
            },
            "not_applicable": self.refused,
        }


@dataclass(frozen=True, eq=False, repr=False)
class Comparisons(Shown):
    """The same contenders on several data sets.

    ``plot`` draws errors over epsilon on logarithmic scales, a row of two panels per data set and decoder. Bars are one
    standard error over the runs. A ring marks the best; a dashed ring marks all that share the first place, as ≈ does
    in tables.
    """

    shown_as: ClassVar[str] = "comparison"

    every: tuple[Comparison, ...]

    def __repr__(self) -> str:
        names = ", ".join(one.dataset.name for one in self.every)
        return f"Comparisons({names}: {_counted(*self.every)})"

    def __iter__(self) -> Iterator[Comparison]:
        return iter(self.every)

    def __len__(self) -> int:
        return len(self.every)

    def __getitem__(self, place: int) -> Comparison:
        return self.every[place]

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """The rows of all data sets, one below the other, without columns in which nothing is known."""
        rows = [row for one in self.every for row in one.rows()]
        names = [name for name in (rows[0] if rows else ()) if any(row[name] == row[name] for row in rows)]
        return frame_of({name: [row[name] for row in rows] for name in names}, backend)

    def document(self) -> dict[str, Any]:
        return {"comparisons": [one.document() for one in self.every]}


def _counted(*every: Comparison) -> str:
    """Contenders, epsilons and runs in few words."""
    names = {name for one in every for name in one.capped}
    epsilons = sorted({epsilon for one in every for epsilon in one.epsilons})
    runs = max((one.repeats for one in every), default=0)
    return f"{len(names)} contenders, ε={', '.join(f'{float(epsilon):g}' for epsilon in epsilons)}, {runs} runs"
