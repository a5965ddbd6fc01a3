"""Rows of user, key and value out of the files in which the papers' data are given out, through Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keyveil.core.errors import PopulationError
from keyveil.core.extras import extra


class Rows(NamedTuple):
    """An Arrow table with the columns user, key and value, and how many rows the files had before any were counted."""

    table: Any
    before: int


def csv_rows(path: Path, user: str, key: str, value: str) -> Rows:
    """Rows of one CSV file; without a column of users every row is a person."""
    table = _csv(path, [one for one in (user, key, value) if one])
    users = table.column(user) if user else np.arange(table.num_rows)
    return _rows(users, table.column(key), table.column(value), table.num_rows)


def json_rows(path: Path, user: str, key: str, value: str) -> Rows:
    """Rows of a file with one JSON object a line, gzipped or not; all three are strings there."""
    with extra("local", "These data"):
        import pyarrow
        from pyarrow import json
    names = [user, key, value]
    wanted = pyarrow.schema([(name, pyarrow.string()) for name in names])
    told = json.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore")
    with _readable(path), pyarrow.input_stream(str(path)) as file:
        table = json.read_json(file, parse_options=told)
    empty = [name for name in names if table.column(name).null_count == table.num_rows]
    if empty:
        raise PopulationError("population/columns", f"No line of {path.name} has {', '.join(empty)}.")
    return _rows(table.column(user), table.column(key), table.column(value), table.num_rows)


def counted(paths: Sequence[Path], user: str, key: str) -> Rows:
    """How often every user has every key, over all rows of several CSV files."""
    with extra("local", "These data"):
        import pyarrow
    parts, rows = [], 0
    for path in paths:
        table = _csv(path, [user, key])
        rows += table.num_rows
        parts.append(_grouped(table, [user, key]))
    whole = pyarrow.concat_tables(parts).group_by([user, key]).aggregate([("n", "sum")])
    whole = whole.sort_by([(user, "ascending"), (key, "ascending")])  # groups come in any order
    return _rows(whole.column(user), whole.column(key), whole.column("n_sum"), rows)


def events_by_category(events: Path, app_events: Path, app_labels: Path, label_categories: Path) -> Rows:
    """How many events of every category a device has; a category of an app counts once, however many labels name it.

    Devices without any are people who hold nothing.
    """
    devices = _csv(events, ["event_id", "device_id"])
    happened = _csv(app_events, ["event_id", "app_id"])
    labels = _csv(app_labels, ["app_id", "label_id"])
    categories = _csv(label_categories, ["label_id", "category"])
    named = labels.join(categories, "label_id", join_type="inner").select(["app_id", "category"]).drop_null()
    named = named.group_by(["app_id", "category"]).aggregate([])
    by_app = _grouped(happened.join(devices, "event_id", join_type="inner"), ["device_id", "app_id"])
    pairs = by_app.join(named, "app_id", join_type="inner").group_by(["device_id", "category"])
    summed = pairs.aggregate([("n", "sum")])
    everybody = devices.group_by("device_id").aggregate([])
    whole = everybody.join(summed, "device_id", join_type="left outer")
    whole = whole.sort_by([("device_id", "ascending"), ("category", "ascending")])
    return _rows(whole.column("device_id"), whole.column("category"), whole.column("n_sum"), happened.num_rows)


def occurrences(path: Path, key: str, count: str) -> Rows:
    """A person without a value for everything that was counted."""
    table = _csv(path, [key, count])
    times = table.column(count).to_numpy()
    if times.dtype.kind not in "iu" or (times < 0).any():
        raise PopulationError("population/type", f"{path.name} has counts that are no whole numbers.")
    keys = np.repeat(table.column(key).to_numpy(), times)
    return _rows(np.arange(len(keys)), keys, np.zeros(len(keys)), len(keys))


def _rows(users: Any, keys: Any, values: Any, count: int) -> Rows:
    import pyarrow

    table = pyarrow.table({"user": users, "key": keys, "value": values})
    try:
        number = table.column("value").cast(pyarrow.float64())
    except pyarrow.ArrowException as reason:
        told = str(reason).splitlines()[0].rstrip(".")
        raise PopulationError("population/type", f"Some values are no numbers: {told}.") from reason
    return Rows(table.set_column(2, "value", number), count)


def _grouped(table: Any, names: list[str]) -> Any:
    """How many rows there are of each combination, as the column ``n``."""
    return table.group_by(names).aggregate([([], "count_all")]).rename_columns([*names, "n"])


def _csv(path: Path, columns: list[str]) -> Any:
    with extra("local", "These data"):
        from pyarrow import csv
    with _readable(path):
        with csv.open_csv(path) as head:
            present = head.schema.names
        lost = [name for name in columns if name not in present]
        if lost:
            raise PopulationError(
                "population/columns",
                f"{path.name} has no column {' and none '.join(map(repr, lost))}; it has {', '.join(present[:20])}.",
            )
        return csv.read_csv(
            path,
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(include_columns=columns, strings_can_be_null=True),
        )


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    import pyarrow

    try:
        yield
    except (OSError, pyarrow.ArrowException) as reason:
        told = str(reason).splitlines()[0].rstrip(".")
        raise PopulationError("population/file", f"{path.name} cannot be read: {told}.") from reason
