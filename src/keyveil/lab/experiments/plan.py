"""From a declaration to cells: what must be run for an experiment, and which cells each curve is made of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from keyveil.core.errors import KeyveilError
from keyveil.lab.contenders import Contender
from keyveil.lab.experiments.cells import Cell
from keyveil.lab.experiments.people import file_of, fingerprint, size_of
from keyveil.lab.experiments.shape import EXACT, PUBLISHED, TIGHT, Axis, Experiment, People, Series, Size, spelled

CHUNK = 10  # runs of one cell: what is lost at most when a run is stopped

Place = tuple[str, str, str, str]
"""Form, people, series and measure: what names a curve."""


@dataclass(frozen=True)
class Plan:
    """The cells of an experiment, and for every curve its points: the cells of its runs, and the decoder."""

    experiment: Experiment
    size: Size
    points: tuple[float, ...]
    cells: tuple[Cell, ...]
    curves: dict[Place, tuple[tuple[tuple[Cell, ...], str], ...]]
    files: dict[str, Path | None]  # by the title of the people


def planned(experiment: Experiment, size: str, seed: int, folder: Path | None = None) -> Plan:
    """What to run. Cells that two curves share, such as one collection with many decoders, are run once."""
    how = experiment.size(size)
    points = experiment.axis.points(how.quick)
    tiny = size == "tiny"  # a few synthetic people, whatever files there are
    if tiny:
        points = points if experiment.axis.knob == "points" else tuple(dict.fromkeys((points[0], points[-1])))
    files = {people.title: None if tiny else file_of(people, folder) for people in experiment.people}
    curves: dict[Place, list[tuple[Cell, str]]] = {}
    wanted: dict[Cell, dict[tuple[str, str], None]] = {}
    for form in experiment.forms:
        for people in experiment.people:
            for series in experiment.series:
                bases = [
                    _base(experiment, series, people, form, x, how, seed, files[people.title], points)
                    for x in (points if _runs_anew(experiment.axis) else points[:1])
                ]
                for measure in series.measures or (*experiment.measures, *experiment.judged):
                    curves[form, people.title, series.label, measure] = [(base, series.decoder) for base in bases]
                    for base in bases:
                        wanted.setdefault(base, {})[series.decoder, measure] = None
    chunks = {base: _chunks(base, tuple(readings), how.repeats) for base, readings in wanted.items()}
    return Plan(
        experiment,
        how,
        points,
        tuple(cell for some in chunks.values() for cell in some),
        {place: tuple((chunks[base], decoder) for base, decoder in some) for place, some in curves.items()},
        files,
    )


def _runs_anew(axis: Axis) -> bool:
    return axis.knob not in ("points", "none")


def _base(
    experiment: Experiment,
    series: Series,
    people: People,
    form: str,
    x: float,
    size: Size,
    seed: int,
    file: Path | None,
    points: tuple[float, ...],
) -> Cell:
    """The cell of one point of one series, without its readings and runs."""
    axis = experiment.axis
    epsilon = series.epsilon or experiment.epsilon
    most = size.people
    if axis.knob == "epsilon" and not series.epsilon:
        epsilon = spelled(x)
    elif axis.knob == "keys":
        people = replace(people, keys=int(x))
    elif axis.knob == "recipe":
        people = people.told(**{axis.name: x})
    n = 0
    if not series.formula and file is None:
        n = min(int(x), size_of(people, 0)) if axis.knob == "n" else size_of(people, most)
        if axis.knob == "n" and size.name == "tiny":
            n = min(n, most)
    who, matched = _form_of(series, form)
    who = who.replace("{cap}", str((people.cap_of_file if file else 0) or people.cap))
    if axis.knob == "option":
        who = who.replace("{x}", spelled(x))
    return Cell(
        people=people,
        n=n,
        who=who,
        matched=matched,
        epsilon=epsilon if who else "",
        readings=(),
        points=points if axis.knob == "points" else (),
        first=0,
        last=0,
        seed=seed,
        formula=series.formula,
        x=x if series.formula else 0.0,
        source="" if file is None else fingerprint(people, file),
    )


def _form_of(series: Series, form: str) -> tuple[str, bool]:
    """Who is run in a form, and whether the request is raised to spend exactly ε."""
    if not series.who or series.exact:
        return series.who, False
    if form == TIGHT and series.tight:
        return series.tight, True
    name, _, rest = series.who.partition(":")
    if "split" in Contender(name).known and "split=" not in rest:
        told = "split=tight" if form == TIGHT else "split=paper"
        return f"{name}:{rest},{told}" if rest else f"{name}:{told}", form != PUBLISHED
    if form not in (PUBLISHED, EXACT, TIGHT):
        raise KeyveilError("reproduce/form", f"There is no form {form!r} of a series.")
    return series.who, form != PUBLISHED


def _chunks(base: Cell, readings: tuple[tuple[str, str], ...], repeats: int) -> tuple[Cell, ...]:
    """Cells of at most ``CHUNK`` runs; what nobody is asked about, a formula or fixed people, needs one run."""
    runs = repeats if base.who or (base.people.fresh and not base.formula) else 1
    starts = range(0, runs, CHUNK)
    return tuple(replace(base, readings=readings, first=start, last=min(start + CHUNK, runs)) for start in starts)
