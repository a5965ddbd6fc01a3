"""Real files of user, key and value: known names bring the public range with which their values are read.

The ranges are the public ones that results on these sets should be stated with; a clip is part of the data, and true
means are those after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from keyveil.core.errors import PopulationError
from keyveil.core.schema import Number
from keyveil.frames.population import Population
from keyveil.lab.datasets.dataset import Dataset


@dataclass(frozen=True)
class Range:
    """The range of a file's values and the scale on which it is taken."""

    low: Number
    high: Number
    map: str = "linear"


KNOWN = {
    "womens_clothing_reviews": Range(1, 5),
    "msnbc_page_categories": Range(1, 20),
    "emoji_sentiment": Range(-1, 1),
    "movietweetings_100k": Range(0, 10),
    "online_retail_orders": Range(1, 7),
    "online_retail_units": Range(1, 200, "log"),
    "complete_journey_sample": Range(0, 31),
}

_READERS = {".parquet": Population.from_parquet, ".pq": Population.from_parquet, ".csv": Population.from_csv}


def real(
    path: str | Path,
    *,
    user: str = "user",
    key: str = "key",
    value: str = "value",
    low: Number | None = None,
    high: Number | None = None,
    levels: Sequence[Number] | None = None,
    hierarchy: bool = False,
    groups: Sequence[str] | None = None,
) -> Dataset:
    """People from a Parquet or CSV file; without bounds the range is that known for the name, or that of the data.

    With ``levels`` the range is theirs; with ``hierarchy`` keys such as food/apple lie below others, and with
    ``groups`` keys such as de/fries are products.
    """
    path = Path(path)
    reader = next((_READERS[suffix.lower()] for suffix in path.suffixes if suffix.lower() in _READERS), None)
    if reader is None:
        raise PopulationError("population/format", f"{path.name} is neither a .parquet nor a .csv file.")
    population = reader(path, user, key, value)
    known = KNOWN.get(path.name.partition(".")[0])
    if levels is not None:
        schema = population.schema(low, high, levels=levels, hierarchy=hierarchy, groups=groups)
        about = f"values are rounded to {len(levels)} levels"
    elif known and low is None and high is None:
        schema = population.schema(known.low, known.high, known.map, hierarchy=hierarchy, groups=groups)
        about = f"values clipped to the public range {known.low} to {known.high}, {known.map} scale"
    else:
        schema = population.schema(low, high, hierarchy=hierarchy, groups=groups)
        about = "values clipped to the given range" if None not in (low, high) else "the range is that of the data"
    return Dataset(path.name.partition(".")[0], population, schema, about, path.name)
