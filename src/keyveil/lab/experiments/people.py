"""The people of an experiment: a recipe, or the user's own copy of a file, and a sentence about which it was."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

from keyveil.core.errors import PopulationError
from keyveil.core.schema import Schema
from keyveil.frames.population import Population
from keyveil.frames.truth import Truth
from keyveil.lab import datasets
from keyveil.lab.datasets.dataset import Dataset
from keyveil.lab.datasets.papers import SOURCES
from keyveil.lab.datasets.real import real
from keyveil.lab.datasets.recipes import load, recipe
from keyveil.lab.experiments.shape import Experiment, People
from keyveil.lab.rounds import Blocks
from keyveil.lab.seeds import seed_of

MOST_PAIRS = 40_000_000  # of one population in memory, some 1.6 GB while it is drawn; fewer people are drawn otherwise


@dataclass(frozen=True, eq=False)
class Crowd:
    """People who are there: in blocks for the driver, with the truth about them."""

    population: Population
    schema: Schema
    truth: Truth
    blocks: Blocks


_INSTEAD = {
    "emoji_sentiment": "one emoji each of the tweets that Kralj Novak et al. labelled in 2015; the paper's 884,427 "
    "people and 1,573 emoji are not to be had"
}
"""Files that stand in for others, by name."""
_END = 1 << 20  # bytes from which the two ends of a file are told apart from others
PACKAGED = Path(datasets.__file__).parent / "files"


def file_of(people: People, folder: Path | None) -> Path | None:
    """The file of these people: in the user's folder of data, or among those that come with Keyveil.

    It may have the form in which the data are given out (``datasets.papers``), or the columns user, key and value.
    """
    for name in people.names_of_files:
        given_out = None if folder is None or name not in SOURCES else SOURCES[name].paths(folder)
        if given_out:
            return given_out[0]
        folders = [PACKAGED] if folder is None else [folder, PACKAGED]
        names = [one / f"{name}{suffix}" for one in folders for suffix in (".parquet", ".csv")]
        if found := next((path for path in names if path.is_file()), None):
            return found
    return None


def expected(experiments: Iterable[Experiment]) -> list[str]:
    """The files that some experiments look for in the user's folder."""
    names = dict.fromkeys(name for one in experiments for people in one.people for name in people.names_of_files)
    given_out = (SOURCES[name].files[0][0] if name in SOURCES else f"{name}.parquet" for name in names)
    return list(dict.fromkeys(given_out))


def read(people: People, file: Path) -> Dataset:
    """The data set behind the file that ``file_of`` found."""
    for name in people.names_of_files:
        folder = _folder_of(name, file)
        if folder is not None:
            return SOURCES[name].load(folder)
    try:
        return real(file)
    except PopulationError as reason:
        sentence = f"{reason.sentence.rstrip('.')}. Expected are the columns user, key and value."
        raise PopulationError(reason.code, sentence) from reason


def fingerprint(people: People, file: Path) -> str:
    """The name of a file, and what its bytes are, in short: files of many gigabytes are not read for it."""
    paths = [file]
    for name in people.names_of_files:
        folder = _folder_of(name, file)
        if folder is not None:
            paths = SOURCES[name].paths(folder) or paths
    ends = blake2b(digest_size=6)
    for path in paths:
        size = path.stat().st_size
        with path.open("rb") as opened:
            ends.update(f"{size}".encode() + opened.read(_END))
            opened.seek(max(size - _END, 0))
            ends.update(opened.read())
    return f"{file.name} {ends.hexdigest()}"


def _folder_of(name: str, file: Path) -> Path | None:
    """The folder in which a source has this as its first file."""
    for folder in (file.parent, file.parent.parent):
        paths = SOURCES[name].paths(folder) if name in SOURCES else None
        if paths and paths[0] == file:
            return folder
    return None


@lru_cache(maxsize=256)
def size_of(people: People, most: int) -> int:
    """How many people are drawn where at most so many are wanted (0: as many as the paper has)."""
    wanted = people.n or recipe(people.recipe, **dict(people.options)).people
    pairs = max(float(recipe(people.recipe, **dict(people.options)).profile()[0].sum()), 1.0)
    fitting = min(wanted, int(MOST_PAIRS / pairs))
    return min(fitting, most) if most else fitting


@lru_cache(maxsize=4)
def crowd(people: People, n: int, seed: int, file: Path | None, run: int = 0) -> Crowd:
    """The people of a cell. Those of a recipe follow from the seed, their description and, if fresh, the run."""
    if file is not None:
        data = read(people, file)
        population, schema = data.population, data.schema
    else:
        words = (people.recipe, people.options, n, run if people.fresh else 0)
        data = load(people.recipe, n=n, seed=seed_of(seed, *words), stream=False, **dict(people.options))
        population, schema = data.population, Schema(keys=data.schema.d)
    if people.keys:
        if people.keys > schema.d:
            raise PopulationError("reproduce/keys", f"{people.title} has {schema.d} keys, and {people.keys} are asked.")
        schema = Schema(keys=schema.keys[: people.keys], low=schema.low, high=schema.high)
    everybody = population.keyed(schema)
    return Crowd(everybody, schema, everybody.truth(schema), Blocks.of(everybody, schema))


def said(people: People, file: Path | None, n: int = 0, keys: int = 0) -> str:
    """Which people these are, for the reader of results; empty where they are the paper's own recipe.

    ``n`` people and ``keys`` keys were read from a file; they are held against what was published of it.
    """
    if file is not None and file.stem in _INSTEAD:
        return f"{people.title}: read from {file.name}, {_INSTEAD[file.stem]}."
    if file is not None:
        source = next((SOURCES[name] for name in people.names_of_files if _folder_of(name, file)), None)
        if source is None or not n or people.keys:
            return f"{people.title}: read from {file.name}."
        return f"{people.title}: read from {file.name}; {source.about}; {source.published.told(n, keys)}."
    if people.stands_for:
        return f"{people.title}: synthetic people stand in for {people.stands_for}."
    return ""
