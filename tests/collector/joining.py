"""Whoever reads every table with all system columns, and tries to tell whose report is whose.

The reader knows everybody's enrolment token, so that a row can be tied to people: by a token's hash, by its keyed hash
under anything in the database that could be a key, or by its number's bit in a row that stands for many. From there it
goes to reports by the transaction, the place and the order of rows.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from sqlalchemy import inspect, text

from keyveil.collector.participation import Claims
from keyveil.collector.service import Service

Row = Mapping[str, Any]
Place = tuple[float, ...]

XMIN, PLACE = "system xmin", "system place"  # which transaction wrote a row, and where it lies


@dataclass(frozen=True)
class Tables:
    """All rows of all tables, each with the columns that the database itself adds."""

    rows: Mapping[str, Sequence[Row]]

    @classmethod
    def read(cls, service: Service) -> Tables:
        with service.database.read() as connection:
            names = inspect(connection).get_table_names()
            return cls({name: list(_rows(connection, name, service.database.postgresql)) for name in names})

    def tied(self, tokens: Sequence[str]) -> Iterator[tuple[str, Row, set[int]]]:
        """Every row that stands for some people and for no report: its table, itself, and which people."""
        hashes = [hashlib.sha256(token.encode()).digest() for token in tokens]
        keys = [value for rows in self.rows.values() for row in rows for value in row.values() if _is_key(value)]
        marks = {one: person for person, one in enumerate(hashes)}
        if len(keys) < 3 * len(tokens):
            marks |= {hmac.digest(key, one, "sha256"): person for key in keys for person, one in enumerate(hashes)}
        numbers = {marks[row["token_hash"]]: row.get("number", 0) for row in self.rows["enrolment"]}
        for name, rows in self.rows.items():
            for row in rows if name != "report" else ():
                people = {marks[value] for value in row.values() if isinstance(value, bytes) and value in marks}
                if "claimed" in row:
                    people |= {person for person, number in numbers.items() if number in Claims(row["claimed"])}
                if people:
                    yield name, row, people

    def order(self, tokens: Sequence[str]) -> dict[int, int]:
        """The numbers of enrolments, which may tell in which order people came."""
        hashes = {hashlib.sha256(token.encode()).digest(): person for person, token in enumerate(tokens)}
        return {hashes[row["token_hash"]]: row.get("number", 0) for row in self.rows["enrolment"]}


Guesses = Mapping[int, bytes]
Attack = Callable[[Tables, Sequence[str], Random], Iterator[tuple[str, Guesses]]]


def same_transaction(tables: Tables, tokens: Sequence[str], chance: Random) -> Iterator[tuple[str, Guesses]]:
    """A report that was written by the transaction that wrote a row about the person; rows about few count more."""
    reports = tables.rows["report"]
    weights = {person: [0.0] * len(reports) for person in range(len(tokens))}
    for _, row, people in tables.tied(tokens):
        for place, report in enumerate(reports):
            if XMIN in row and row[XMIN] == report[XMIN]:
                for person in people:
                    weights[person][place] += 1 / len(people)
    yield (
        "same transaction",
        {
            person: reports[max(range(len(reports)), key=lambda at: (some[at], chance.random()))]["id"]
            for person, some in weights.items()
        },
    )


def same_rank(tables: Tables, tokens: Sequence[str], chance: Random) -> Iterator[tuple[str, Guesses]]:
    """People in the order of the rows about them, beside reports in the order of theirs."""
    for by in (XMIN, PLACE, "batch_id"):
        reports = [
            row["id"] for row in sorted(tables.rows["report"], key=lambda row: (row.get(by, 0), chance.random()))
        ]
        orders: dict[str, dict[int, Place]] = {
            "numbers": {person: (number,) for person, number in tables.order(tokens).items()}
        }
        for name, row, people in tables.tied(tokens):
            for key in (XMIN, PLACE):
                if key in row:
                    orders.setdefault(f"{name} {key}", {}).update(dict.fromkeys(people, (row[key],)))
        for name, places in orders.items():
            order = sorted(places, key=lambda person: (places[person], chance.random()))
            yield f"rank of {name}, reports by {by}", dict(zip(order, reports, strict=False))


def next_to_it(tables: Tables, tokens: Sequence[str], chance: Random) -> Iterator[tuple[str, Guesses]]:
    """The first report that was written after a row about the person."""
    reports = tables.rows["report"]
    for name in {name for name, *_ in tables.tied(tokens)}:
        guesses: dict[int, bytes] = {}
        for where, row, people in tables.tied(tokens):
            if where == name and XMIN in row:
                later = sorted((one for one in reports if one[XMIN] >= row[XMIN]), key=lambda one: one[XMIN])
                guesses |= {person: (later[0] if later else chance.choice(reports))["id"] for person in people}
        yield f"next to {name}", guesses


ATTACKS: tuple[Attack, ...] = (same_transaction, same_rank, next_to_it)


def linked(service: Service, tokens: Sequence[str], truth: Mapping[int, bytes]) -> dict[str, int]:
    """How many people each attack links to their own report."""
    tables, chance = Tables.read(service), Random(7)
    return {
        name: sum(guesses.get(person) == number for person, number in truth.items())
        for attack in ATTACKS
        for name, guesses in attack(tables, tokens, chance)
    }


def _rows(connection: Any, name: str, postgresql: bool) -> Iterator[Row]:
    if postgresql:
        system = "xmin::text::bigint, cmin::text::bigint, ctid::text"
        for xmin, cmin, ctid, *values in (found := connection.execute(text(f'SELECT {system}, * FROM "{name}"'))):
            page, slot = map(int, re.findall(r"\d+", ctid))
            yield {**_values(list(found.keys())[3:], values), XMIN: xmin + cmin / 1e9, PLACE: page * 1e6 + slot}
        return
    hidden = "0" if "WITHOUT ROWID" in _made(connection, name).upper() else "rowid"
    for place, (rowid, *values) in enumerate(found := connection.execute(text(f'SELECT {hidden}, * FROM "{name}"'))):
        yield {**_values(list(found.keys())[1:], values), PLACE: rowid if hidden == "rowid" else place}


def _made(connection: Any, name: str) -> str:
    return str(connection.execute(text("SELECT sql FROM sqlite_master WHERE name = :name"), {"name": name}).scalar())


def _values(names: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    plain = (bytes(value) if isinstance(value, (bytes, memoryview)) else value for value in values)
    return dict(zip(names, plain, strict=True))


def _is_key(value: Any) -> bool:
    return isinstance(value, bytes) and len(value) == 32
