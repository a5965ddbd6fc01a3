"""Every table and figure by its id: 43 of five papers, each in a module of its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module

from keyveil.core.errors import KeyveilError
from keyveil.core.hints import did_you_mean
from keyveil.lab.experiments.shape import PAPERS, Experiment

_PLACES = {
    "ye": ("table3", "table4", *(f"fig{number}" for number in range(3, 13))),
    "sun": ("table4", *(f"fig{number}" for number in range(1, 8))),
    "li": tuple(f"fig{number}" for number in range(2, 11)),
    "dong": tuple(f"fig{number}" for number in range(1, 5)),
    "wang": tuple(f"fig{number}" for number in range(1, 11)),
}
IDS = tuple(f"{paper}-{place}" for paper, places in _PLACES.items() for place in places)


@cache
def experiment(id: str) -> Experiment:
    """One of them; an unknown id is refused."""
    if id not in IDS:
        hint = (
            did_you_mean(id, (*IDS, *PAPERS)) or f"; there are {', '.join(PAPERS)} and their figures, such as ye-fig9"
        )
        raise KeyveilError("reproduce/unknown", f"There is no figure {id!r}{hint}; --list names all.")
    paper, _, place = id.partition("-")
    found = import_module(f"keyveil.lab.experiments.{paper}.{place}").EXPERIMENT
    assert isinstance(found, Experiment) and found.id == id
    return found


def chosen(ids: Sequence[str]) -> list[Experiment]:
    """The experiments of some ids, or of whole papers by name, each once; all where none is given."""
    wanted: dict[str, None] = {}
    for id in (one.strip().lower() for one in ids):
        several = [one for one in IDS if one.startswith(f"{id}-")] if id in PAPERS else [id]
        wanted |= dict.fromkeys(several)
    return [experiment(id) for id in wanted or IDS]
