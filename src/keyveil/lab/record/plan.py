"""Which cells a record has: every contender on all data at every ε; and the grids that have a name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keyveil.core.epsilon import decimal_text, parse_epsilon
from keyveil.core.errors import MechanismError, PopulationError
from keyveil.core.hints import did_you_mean
from keyveil.lab.compare import Caps
from keyveil.lab.contenders import contenders, usual, with_best_caps
from keyveil.lab.datasets.papers import files_of, is_source
from keyveil.lab.datasets.recipes import recipe, recipe_of
from keyveil.lab.decoders import EQUAL, RAW, known
from keyveil.lab.record.cells import Cell, digest, is_file
from keyveil.lab.record.people import Reading
from keyveil.mechanisms.options import spelled


@dataclass(frozen=True)
class Grid:
    """What is crossed with what."""

    about: str
    data: tuple[str, ...]
    people: tuple[int, ...]  # in the place of {n} in the names of synthetic people; files have as many as they have
    epsilons: tuple[str, ...]
    mechanisms: tuple[str, ...]
    decoders: tuple[str, ...] = (RAW,)
    repeats: int = 40
    also: tuple[str, ...] = ()  # beside the usual ones, where mechanisms does not say who

    @property
    def everybody(self) -> tuple[str, ...]:
        """Who is measured."""
        return self.mechanisms or (*usual(), *self.also)


ORACLES = ("grr", "sue", "oue", "olh", "ss", "hr")
STEPS = (RAW, "base-pos", "base-cut", "norm", "norm-mul", "norm-sub", "norm-cut")
_PAIRS = tuple(
    f"synthetic:{name}:{{n}}{rest}"
    for name, rest in (
        ("plaw", ""),
        ("linear-s", ""),
        ("linear-s", ":size=2,keys=6"),
        ("skewed", ""),
        ("heavy", ""),
        ("activity", ""),
    )
)  # the sets of docs/comparison.md

PRESETS: dict[str, Grid] = {
    "single-item": Grid(
        "one item a person: six frequency oracles with seven kinds of post-processing",
        ("synthetic:zipf:{n}", "synthetic:zipf:{n}:exponent=1,keys=128", "synthetic:pckv-uu:{n}"),
        (10**4, 10**5, 10**6),
        ("0.5", "1", "2", "4"),
        ORACLES,
        STEPS,
    ),
    "key-value": Grid(
        "sets of keys with values: everybody who takes them, with the decoders of docs/equal-decoders.md",
        _PAIRS,
        (10**3, 10**4, 10**5, 10**6, 10**8),
        ("0.5", "1", "2", "4"),
        (),
        EQUAL,
        also=("privkv:estimator=em",),
    ),
    "small": Grid(
        "a few cells of both, in a minute: to see that all works",
        ("synthetic:zipf:{n}:keys=32", "synthetic:linear-s:{n}:size=2,keys=6"),
        (2000,),
        ("1", "4"),
        ("oue", "grr", "kvue", "pckv-ue", "ssr"),
        (RAW, "norm-sub"),
        10,
    ),
}
"""Grids by name. Where a mechanism does not take the data, its cell says so and counts for nothing."""


def preset(name: str) -> Grid:
    """A grid by name."""
    if name not in PRESETS:
        hint = did_you_mean(name, PRESETS) or f"; there are {', '.join(PRESETS)}"
        raise MechanismError("compare/preset", f"There is no preset {name!r}{hint}.")
    return PRESETS[name]


def cells(
    grid: Grid,
    *,
    seed: int,
    given: Mapping[str, Any] | None = None,
    reading: Reading = (),
    caps: Caps = "given",
    shortcut: bool = True,
    submitted: Mapping[str, str] | None = None,
) -> list[Cell]:
    """All cells of a grid, people by people; ``submitted`` are digests of code by the names of mechanisms."""
    chosen = contenders(grid.everybody)
    if caps == "best":
        chosen = with_best_caps(chosen)
    options = spelled(given or {})
    for option in options:
        if not any(option in one.known for one in chosen.values()):
            raise MechanismError("mechanism/option", f"Nobody in this comparison has the option {option!r}.")
    if not (grid.data and grid.epsilons and chosen) or grid.repeats < 1:
        raise MechanismError("compare/size", "A comparison needs at least one mechanism, one epsilon and one run.")
    told, foreign = tuple((name, str(value)) for name, value in sorted(options.items())), submitted or {}
    epsilons = list(dict.fromkeys(decimal_text(parse_epsilon(one)) for one in grid.epsilons))
    decoders = known(grid.decoders)
    return [
        Cell(
            data=data,
            epsilon=epsilon,
            who=label,
            decoders=decoders,
            repeats=grid.repeats,
            seed=seed,
            given=told,
            reading=reading if is_file(data) else (),
            shortcut=shortcut,
            file=file,
            submitted=foreign.get(one.name, ""),
        )
        for data, file in _sources(grid)
        for epsilon in epsilons
        for label, one in chosen.items()
    ]


def _sources(grid: Grid) -> Iterable[tuple[str, str]]:
    """The data of a grid, each with the digest of its file."""
    found: dict[str, str] = {}
    for data in grid.data:
        if is_file(data):
            found[data] = _digest(*(files_of(data) if is_source(data) else [Path(data)]))
            continue
        for text in _sized(data, grid.people):
            if recipe_of(text) is None:
                recipe(text.partition(":")[2].partition(":")[0])  # says what there is, before anything is run
            found[text] = ""
    return found.items()


def _sized(data: str, people: Sequence[int]) -> list[str]:
    """Synthetic people in all sizes, where the name leaves them open."""
    if "{n}" not in data:
        kind, _, rest = data.partition(":")
        name, _, more = rest.partition(":")
        if more.partition(":")[0] or not people:
            return [data]
        data = f"{kind}:{name}:{{n}}{more}"
    return [data.replace("{n}", str(n)) for n in people]


def _digest(*paths: Path) -> str:
    try:
        return digest(*paths)
    except OSError as reason:
        told = reason.strerror or reason
        raise PopulationError("population/file", f"{reason.filename} cannot be read: {told}.") from reason
