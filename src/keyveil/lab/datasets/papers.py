"""The real data of the papers, from the user's own copy, in the formats in which they are given out.

Each source says which files and columns it expects, how values become numbers in a public range, what was published of
it (people, keys, rows), and what is not known. Nothing is downloaded. What differs from the published numbers is said,
and the data are used all the same: there may be another release.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from keyveil.core.errors import PopulationError
from keyveil.core.hints import did_you_mean
from keyveil.core.schema import Schema
from keyveil.frames.population import Population
from keyveil.lab.datasets.dataset import Dataset
from keyveil.lab.datasets.paper_files import Rows, counted, csv_rows, events_by_category, json_rows, occurrences
from keyveil.lab.datasets.real import Range

FILE = "population/file"


@dataclass(frozen=True)
class Published:
    """What a paper says of its data."""

    people: int
    keys: int
    rows: int  # ratings, events or records before they are counted
    where: str

    def told(self, people: int, keys: int) -> str:
        """How the people and keys that were read compare with what was published."""
        pairs = ((self.people, people, "people"), (self.keys, keys, "keys"))
        wrong = [
            f"{read:,} {what} where {told:,} were published" for told, read, what in pairs if told and told != read
        ]
        return "; ".join(wrong) if wrong else f"people and keys are as many as published ({self.where})"


@dataclass(frozen=True)
class Source:
    """A data set as it is given out."""

    name: str
    title: str
    files: tuple[tuple[str, ...], ...]  # each with its other names; one of each must be there, but for ``optional``
    columns: str  # that are expected, for the reader
    read: Callable[[Sequence[Path]], Rows]
    scale: Range
    about: str  # how values become numbers
    published: Published
    unknown: str  # what nobody told us
    optional: tuple[str, ...] = ()
    top: int = 0  # only so many keys, those with the most rows

    def paths(self, folder: Path) -> list[Path] | None:
        """The files in a folder; None if one is missing."""
        found = [next((folder / name for name in names if (folder / name).is_file()), None) for names in self.files]
        more = [folder / name for name in self.optional if (folder / name).is_file()]
        return None if any(path is None for path in found) else [*(path for path in found if path), *more]

    def load(self, folder: Path) -> Dataset:
        """The people of the files in a folder, with what was published of them."""
        paths = self.paths(folder)
        if paths is None:
            wanted = ", ".join(" or ".join(names) for names in self.files)
            raise PopulationError(FILE, f"{self.title} is not in {folder}: expected are {wanted} with {self.columns}.")
        try:
            rows = self.read(paths)
            people = Population.from_frame(rows.table)
        except PopulationError as reason:
            raise PopulationError(
                reason.code, f"{reason.sentence.rstrip('.')}. {self.title} is expected with {self.columns}."
            ) from reason
        keys = len(people.schema(-1, 1).keys)
        if self.top:
            kept = people.keyed(Schema(keys=_most_held(people, self.top)))
            people, keys = (
                replace(kept, notes=people.notes),
                kept.names if isinstance(kept.names, int) else len(kept.names),
            )
        schema = people.schema(self.scale.low, self.scale.high, self.scale.map)
        told = self.published.told(people.n, keys)
        if self.published.rows != rows.before:
            told += f"; {rows.before:,} rows where {self.published.rows:,} were published"
        return Dataset(self.name, people, schema, f"{self.about}; {told}", ", ".join(path.name for path in paths))


def _most_held(people: Population, top: int) -> list[str]:
    """The names of the keys that most people hold, ties by number."""
    order = np.argsort(-np.bincount(people.keys), kind="stable")[:top]
    return [str(key) if isinstance(people.names, int) else str(people.names[key]) for key in order]


_COUNTS = "counts from 1 to 100, larger ones cut to 100, on a logarithmic scale; range and scale are ours"
_SOURCES = (
    Source(
        "movielens",
        "MovieLens 20M",
        (("ratings.csv", "ml-20m/ratings.csv"),),
        "the columns userId, movieId, rating, timestamp",
        lambda paths: csv_rows(paths[0], "userId", "movieId", "rating"),
        Range("0.5", 5),
        "stars from 0.5 to 5, linear",
        Published(138_493, 26_744, 20_000_263, "GroupLens' README; keys by Li et al. 2022, Table 2"),
        "Li et al. say 20,000,263 ratings of 26,744 films, as in ml-20m; which release is not said.",
    ),
    Source(
        "movielens_top100",
        "The 100 most rated films of MovieLens 20M",
        (("ratings.csv", "ml-20m/ratings.csv"),),
        "the columns userId, movieId, rating, timestamp",
        lambda paths: csv_rows(paths[0], "userId", "movieId", "rating"),
        Range("0.5", 5),
        "stars from 0.5 to 5, linear; people who rated none of the 100 films hold nothing",
        Published(138_493, 100, 20_000_263, "GroupLens' README"),
        "Sun et al. write 138,000 users and do not say whether those without any of the 100 films stay; they do here.",
        top=100,
    ),
    Source(
        "renttherunway",
        "RentTheRunway",
        (("renttherunway_final_data.json", "renttherunway_final_data.json.gz", "renttherunway.json"),),
        "one JSON object a line with user_id, item_id and rating",
        lambda paths: json_rows(paths[0], "user_id", "item_id", "rating"),
        Range(2, 10),
        "ratings from 2 to 10, linear; a rating that is null is no pair, the person stays",
        Published(105_508, 5_850, 192_544, "Li et al. 2022, Table 2"),
        "Whether Li et al. count reviews without a rating is not said; their 192,544 are all rows.",
    ),
    Source(
        "amazon_beauty",
        "Amazon, ratings of beauty products",
        (("ratings_Beauty.csv",),),
        "the columns UserId, ProductId, Rating, Timestamp",
        lambda paths: csv_rows(paths[0], "UserId", "ProductId", "Rating"),
        Range(1, 5),
        "stars from 1 to 5, linear",
        Published(1_210_271, 249_274, 2_023_070, "Li et al. 2022, Table 2"),
        "The file of SNAP has no line of names; the one of Kaggle, which Li et al. cite, has.",
    ),
    Source(
        "womens_clothing_reviews",
        "Women's E-Commerce Clothing Reviews",
        (("Womens Clothing E-Commerce Reviews.csv",),),
        "the columns Clothing ID and Rating",
        lambda paths: csv_rows(paths[0], "", "Clothing ID", "Rating"),
        Range(1, 5),
        "stars from 1 to 5, linear; a review is a person, since reviewers are not named",
        Published(23_486, 1_206, 23_486, "Li et al. 2022, Table 2"),
        "Li et al. write 23,486 users for 23,486 ratings, so a review is a person there, too.",
    ),
    Source(
        "talkingdata",
        "TalkingData Mobile User Demographics",
        (("events.csv",), ("app_events.csv",), ("app_labels.csv",), ("label_categories.csv",)),
        "events.csv (event_id, device_id), app_events.csv (event_id, app_id), app_labels.csv (app_id, label_id) and "
        "label_categories.csv (label_id, category)",
        lambda paths: events_by_category(*paths[:4]),
        Range(1, 100, "log"),
        _COUNTS,
        Published(60_822, 306, 32_473_067, "Ye et al. 2019, Table III and text"),
        "How an app with several labels counts, whether only active apps do, and how counts become numbers in [-1, 1] "
        "is not said: every category of an app counts once, every row of app_events.csv does, and the scale is ours.",
    ),
    Source(
        "jdata",
        "JData",
        tuple((f"JData_Action_{month}.csv",) for month in ("201602", "201603", "201604")),
        "the columns user_id and brand in each",
        lambda paths: counted(paths, "user_id", "brand"),
        Range(1, 100, "log"),
        _COUNTS,
        Published(105_180, 442, 50_601_736, "Ye et al. 2019, Table III and text"),
        "The paper says sales records and gives the number of all actions; so all types count here. How counts become "
        "numbers is not said.",
        optional=("JData_Action_201603_extra.csv",),
    ),
    Source(
        "emojistats",
        "Counts of an emoji keyboard",
        (("emojistats.csv",),),
        "the columns emoji and count, one line an emoji",
        lambda paths: occurrences(paths[0], "emoji", "count"),
        Range(-1, 1),
        "an occurrence is a person; there are no values, so all are 0",
        Published(884_427, 1_573, 884_427, "Wang et al. 2020"),
        "The format of emojistats.org is not known to us, and its counts of 15 December 2019 are not there any more: "
        "write what you have as these two columns.",
    ),
)
SOURCES: dict[str, Source] = {one.name: one for one in _SOURCES}
"""Every source by name. AppData belongs to a company; nobody else has it."""


def source(name: str) -> Source:
    """A source by name."""
    if name not in SOURCES:
        hint = did_you_mean(name, SOURCES) or f"; there are {', '.join(SOURCES)}"
        raise PopulationError("population/unknown-source", f"There is no data set {name!r}{hint}.")
    return SOURCES[name]


def is_source(data: str) -> bool:
    """Whether a text names a source in a folder, as in ``movielens:downloads/ml-20m``."""
    return data.partition(":")[0] in SOURCES and ":" in data


def of_source(data: str) -> Dataset:
    """The people that such a text names."""
    name, _, folder = data.partition(":")
    return source(name).load(Path(folder or "."))


def files_of(data: str) -> list[Path]:
    """The files behind such a text."""
    name, _, folder = data.partition(":")
    found = source(name).paths(Path(folder or "."))
    return found if found is not None else [Path(folder or ".") / source(name).files[0][0]]
