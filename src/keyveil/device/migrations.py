"""The tables of a device's file, and the steps by which a file of an earlier version becomes one of this version.

Version 1 is written out; each later version is the step from the one before it, and a new file takes the same steps.
Steps run within the caller's transaction, together with the new version number: a crash leaves the file as it was.
A step that was released is never changed; whatever is needed later is a further step.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

FIRST = """
CREATE TABLE device (secret BLOB NOT NULL, day TEXT NOT NULL);
CREATE TABLE caps (document TEXT NOT NULL);
CREATE TABLE consent (
    series TEXT PRIMARY KEY, state TEXT NOT NULL, terms TEXT, campaign TEXT, starts TEXT, ends TEXT
);
CREATE TABLE asked (
    series TEXT, campaign TEXT, round INTEGER, document TEXT NOT NULL, PRIMARY KEY (series, campaign, round)
);
CREATE TABLE entry (
    number INTEGER PRIMARY KEY AUTOINCREMENT, day TEXT NOT NULL, series TEXT NOT NULL, schema TEXT NOT NULL,
    campaign TEXT NOT NULL, round INTEGER NOT NULL, mechanism TEXT NOT NULL, fingerprint TEXT NOT NULL,
    epsilon TEXT NOT NULL, report BLOB NOT NULL, free INTEGER NOT NULL
);
CREATE TABLE outbox (
    series TEXT, campaign TEXT, round INTEGER, document TEXT NOT NULL, report BLOB NOT NULL, payload BLOB, token TEXT,
    state TEXT NOT NULL, attempts INTEGER NOT NULL, code TEXT, PRIMARY KEY (series, campaign, round)
);
CREATE TABLE memo (
    series TEXT NOT NULL, fingerprint TEXT NOT NULL, digest BLOB NOT NULL, report BLOB NOT NULL,
    payload BLOB NOT NULL, PRIMARY KEY (series, fingerprint, digest, report)
);
CREATE TABLE seat (series TEXT, campaign TEXT, public BLOB NOT NULL, PRIMARY KEY (series, campaign));
CREATE TABLE dictionary (hash TEXT PRIMARY KEY, data BLOB NOT NULL);
"""

Step = Callable[[sqlite3.Connection], None]


def create(connection: sqlite3.Connection, secret: bytes, day: str) -> None:
    """The tables of version 1 in an empty file, with the device's secret and the present day."""
    for statement in FIRST.split(";"):
        connection.execute(statement)
    connection.execute("INSERT INTO device (secret, day) VALUES (?, ?)", (secret, day))


def to_version_2(connection: sqlite3.Connection) -> None:
    """The day since which the file is known to exist, and a plain name for the table of rounds that were met."""
    connection.execute("ALTER TABLE asked RENAME TO met_round")
    connection.execute("ALTER TABLE device ADD COLUMN since TEXT")
    connection.execute("UPDATE device SET since = coalesce((SELECT min(day) FROM entry), day)")


def to_version_3(connection: sqlite3.Connection) -> None:
    """Reports stand for periods instead of being remembered by their record: no digest of a record is kept.

    No earlier report becomes a standing one. Seats that were drawn stay, since campaigns with them may still run.
    """
    for statement in _SERIES.split(";"):
        connection.execute(statement)


_SERIES = """
DROP TABLE memo;
CREATE TABLE standing (
    series TEXT, terms TEXT, first TEXT NOT NULL, last TEXT NOT NULL, report BLOB NOT NULL, payload BLOB NOT NULL,
    PRIMARY KEY (series, terms)
);
CREATE TABLE turn (
    series TEXT, terms TEXT, place INTEGER NOT NULL, met INTEGER NOT NULL, campaign TEXT, PRIMARY KEY (series, terms)
);
CREATE TABLE pause (series TEXT PRIMARY KEY, day TEXT NOT NULL, why TEXT NOT NULL, campaign TEXT);
CREATE TABLE reservation (
    series TEXT, campaign TEXT, schema TEXT NOT NULL, epsilon TEXT NOT NULL, until TEXT, PRIMARY KEY (series, campaign)
);
ALTER TABLE device ADD COLUMN changes INTEGER NOT NULL DEFAULT 0;
"""

STEPS: tuple[Step, ...] = (to_version_2, to_version_3)  # the first leads from version 1 to 2, and so on
VERSION = 1 + len(STEPS)


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Take all steps from a version to ``VERSION``, and write down the new version; within a transaction."""
    for number, step in enumerate(STEPS[version - 1 :], start=version + 1):
        step(connection)
        connection.execute(f"PRAGMA user_version = {number}")
