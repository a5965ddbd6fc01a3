"""What an experiment is: people, an axis, series, measures and claims, all declared and nothing run.

A table or figure of a paper is one :class:`Experiment`. Its *cells* (one mechanism on one population at one point of
the axis) follow from the declaration, so the runner needs to know nothing about papers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from keyveil.lab.experiments.rules import Rule

PUBLISHED, EXACT, TIGHT = "published", "exact", "tight"
FORMS = (PUBLISHED, EXACT, TIGHT)
"""As published: the paper's split of the budget at the paper's ε. Exact: the paper's split, with a request at which a
person loses exactly ε. Tight: the tight split of the budget, and exactly ε as well."""

PAPERS = {
    "ye": "Ye, Hu, Meng, Zheng 2019 (PrivKV)",
    "sun": "Sun, Zhao, Ye, Feng, Wang, Bai 2019 (conditional analysis)",
    "li": "Li, Yan, Zheng, Li, Li 2022 (distribution estimation, KV-SW)",
    "dong": "Dong, Lu, Zhang 2023 (fair aggregation, Adaptive)",
    "wang": "Wang, Lopuhaä-Zwakenberg, Li, Škorić, Li 2020 (consistency)",
}

Knob = Literal["epsilon", "n", "keys", "option", "recipe", "points", "none"]


@dataclass(frozen=True)
class People:
    """A population by name: a recipe of ``lab.datasets``, or a file where the user has one (several names: the first).

    ``n`` is the number of people in the paper (0: as many as the recipe or file has). ``stands_for`` names the data of
    the paper where these are others. With ``fresh`` every run draws new people and new means.
    """

    recipe: str
    label: str = ""
    n: int = 0
    keys: int = 0  # only the first so many keys; 0 for all
    options: tuple[tuple[str, float], ...] = ()  # of the recipe
    file: str = ""
    stands_for: str = ""
    fresh: bool = False
    cap: int = 0  # replaces {cap} in the series' text: the padding length of the paper for these people
    cap_of_file: int = 0  # the same where the file is read, if it differs

    @property
    def title(self) -> str:
        return self.label or self.recipe.upper()

    @property
    def names_of_files(self) -> tuple[str, ...]:
        """The names of ``file``, which stand with commas."""
        return tuple(filter(None, self.file.split(",")))

    def told(self, **options: float) -> People:
        """The same people with other options of the recipe."""
        return replace(self, options=tuple(sorted((dict(self.options) | options).items())))


@dataclass(frozen=True)
class Axis:
    """What is varied, and what that changes.

    ``option``: the value replaces {x} in the series' text. ``recipe``: it is the option ``name`` of the recipe.
    ``points``: nothing is run anew, a measure answers for all points at once. ``none``: there is one point only.
    """

    knob: Knob
    values: tuple[float, ...]
    title: str
    name: str = ""
    log: bool = False
    quick: tuple[float, ...] = ()  # the points of a quick run; all where empty

    def points(self, quick: bool) -> tuple[float, ...]:
        return self.quick if quick and self.quick else self.values


NOTHING = Axis("none", (0.0,), "")


@dataclass(frozen=True)
class Series:
    """One line of a picture or row of a table: who is run, what is done with the estimates, at which budget.

    ``who`` is written as in ``keyveil compare`` (``pckv-grr:max_pairs=5``). Where it is empty nobody is asked: measures
    then read the truth alone, or ``formula`` names what is computed. ``exact`` says that the mechanism spends exactly ε
    however it is run, so all forms are one.
    """

    label: str
    who: str = ""
    decoder: str = "raw"
    epsilon: str = ""  # of this series; otherwise the experiment's
    formula: str = ""
    measures: tuple[str, ...] = ()  # that it has; all of the experiment where empty
    exact: bool = False
    tight: str = ""  # who stands for it in the tight form, where split=tight does not say it


@dataclass(frozen=True)
class Claim:
    """What a paper says of its table or figure, in our words, and the rule by which results decide on it."""

    text: str
    rule: Rule
    ours: bool = False  # a question that the paper does not ask and a reader would
    because: str = ""  # why it fails, as far as we know; said where results contradict it or equal ε takes it back


@dataclass(frozen=True)
class Size:
    """How large a run is: at most so many people, so many repeats, and which points of the axis."""

    name: str
    people: int  # 0: those of the paper
    repeats: int
    quick: bool  # only the quick points of the axis


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper."""

    id: str
    title: str
    people: tuple[People, ...]
    series: tuple[Series, ...]
    measures: tuple[str, ...]
    claims: tuple[Claim, ...]
    axis: Axis = NOTHING
    epsilon: str = "1"  # where the axis does not say it
    forms: tuple[str, ...] = FORMS
    quick_people: int = 20_000
    quick_repeats: int = 10
    full_people: int = 0
    full_repeats: int = 50
    judged: tuple[str, ...] = ()  # measures that claims read and no panel shows
    linear: bool = False  # the measures are drawn on a linear scale
    note: str = ""  # what differs from the paper, for the reader of the results

    @property
    def paper(self) -> str:
        return PAPERS[self.id.partition("-")[0]]

    @property
    def name(self) -> str:
        """As one cites it: Ye 2019, Fig. 3."""
        author, kind, number = _parts(self.id)
        return f"{author.title()}, {'Table' if kind == 'table' else 'Fig.'} {number}"

    def size(self, name: str) -> Size:
        if name == "full":
            return Size(name, self.full_people, self.full_repeats, False)
        if name == "tiny":
            return Size(name, 300, 2, True)
        return Size(name, self.quick_people, self.quick_repeats, True)


def _parts(id: str) -> tuple[str, str, int]:
    author, rest = id.split("-")
    kind = rest.rstrip("0123456789")
    return author, kind, int(rest[len(kind) :])


def spelled(x: float) -> str:
    """A point of an axis as options and epsilons are written: 1/32, 0.1, 3."""
    exact = Fraction(x).limit_denominator(1_000_000)
    return str(exact) if float(exact) == x and exact.denominator in (3, 32, 16, 64) else f"{x:g}"


def budgets(who: str, epsilons: Sequence[str]) -> tuple[Series, ...]:
    """The same mechanism at several budgets, a series each."""
    return tuple(Series(f"ε = {epsilon}", who, epsilon=epsilon) for epsilon in epsilons)
