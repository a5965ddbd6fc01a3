"""What strangers' bytes reach: decoders, documents, questions and files of commands, for every mechanism."""

from __future__ import annotations

import io
import json
import random
import zlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from keyveil.campaign.documents import Campaign
from keyveil.campaign.reading import flaws_of, tally_of
from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.wire import Batch, from_json, from_packed, pad, unpad
from keyveil.cli.estimate import estimate
from keyveil.cli.simulate import simulate
from keyveil.cli.tally import tally
from keyveil.core.codecs.payloads import FINE, Payloads, refusal
from keyveil.core.errors import KeyveilError, ReportError
from keyveil.core.estimates import Estimates
from keyveil.core.tally import Tally
from keyveil.lab.coins import SeededCoins
from keyveil.learn.questions import Question, answer
from keyveil.mechanisms import registry
from keyveil.mechanisms.base import Mechanism
from tests.collector.campaigns import snacks
from tests.fuzzing.engine import Mutate, Target, spoilt, spoilt_json

HASH = "ab" * 32
_KEYS = ("burger", "fries", "pepsi")


# -- reports ---------------------------------------------------------------------------------------------------------


def batch_targets() -> list[Target]:
    """Batches of reports in both forms."""
    chance = random.Random(1)
    batches = []
    for number, size in ((1, 0), (2, 5), (3, 29)):
        ids = tuple(chance.randbytes(16) for _ in range(number))
        batches.append(Batch(number, HASH, ids, tuple(chance.randbytes(size) for _ in ids)))

    def refusing(read: Callable[[bytes], Batch], data: bytes) -> Hashable:
        try:
            return len(read(data))
        except ReportError as refused:
            assert refused.code.startswith("report/")
            raise

    seeds = [one.to_json() for one in batches]
    return [
        Target("batches as JSON", seeds, partial(refusing, from_json), spoilt),
        Target("packed batches", [one.to_packed() for one in batches], partial(refusing, from_packed), spoilt),
    ]


def payload_target() -> Target:
    """Padded payloads of every mechanism: the first byte says of which, the next 16 are the report's id.

    What is counted must be what a device would have sent, to the byte; the check and the count must agree.
    """
    rounds = [one for _, one in every_round()]

    def read(data: bytes) -> Hashable:
        number = _number(data, rounds)
        document, public, padded = rounds[number], data[1:17].ljust(16, b"\0"), data[17:]
        publics, column = np.frombuffer(public, np.uint8).reshape(1, 16), Payloads.of([padded])
        counts, flaws = tally_of(document, publics, column)
        assert flaws.tolist() == flaws_of(document, publics, column).tolist()
        assert counts.reports == (flaws[0] == FINE)
        if flaws[0] == FINE:
            sent = unpad(padded, document.report_bytes, document.mechanism.codec.varies)
            again = document.mechanism.encode(document.mechanism.decode(sent, public))
            assert pad(again, document.report_bytes, document.mechanism.codec.varies) == padded
            return number, len(sent)
        raise refusal(int(flaws[0]))

    coins, seeds = SeededCoins(1), []
    for number, document in enumerate(rounds):
        mechanism = document.mechanism
        for record in _records(mechanism)[:2]:
            report = mechanism.perturb_pairs(record, coins)
            padded = pad(mechanism.encode(report), document.report_bytes, mechanism.codec.varies)
            seeds.append(bytes([number]) + report.public + padded)
    return Target("payloads", seeds, read, _after(17, spoilt))


def _records(mechanism: Mechanism) -> list[Any]:
    """A few of the records that a mechanism can answer."""
    return list(islice(mechanism.every_record(), 0, 300, 37))


def _after(start: int, mutate: Mutate) -> Mutate:
    """Spoil what follows a head, which stays; now and then all of it."""
    return lambda data, chance: (
        mutate(data, chance) if chance.random() < 0.1 else data[:start] + mutate(data[start:], chance)
    )


# -- documents -------------------------------------------------------------------------------------------------------


@cache
def campaigns() -> tuple[Campaign, ...]:
    """A campaign for every mechanism and protocol in each of its forms."""
    found: list[Campaign] = []
    for name in registry.names():
        for options in registry.find(name).examples:
            plain = {key: one if isinstance(one, int) else str(one) for key, one in options.items()}
            document = snacks(name=f"c{len(found)}", protocol={"name": name, "epsilon": "1", **plain}, min_reports=1)
            found.append(Campaign.from_document(document))
    return tuple(found)


def every_round() -> Iterator[tuple[Campaign, RoundDocument]]:
    """The first round of every campaign."""
    for campaign in campaigns():
        first = campaign.protocol.next_round([])
        assert first is not None
        yield campaign, RoundDocument.of(campaign, first)


def document_targets() -> list[Target]:
    """Documents of campaigns, and of rounds of one that stays as it is."""

    def campaign(data: bytes) -> Hashable:
        read = Campaign.from_document(_json(data))
        first = read.protocol.next_round([])
        assert first is not None
        there = RoundDocument.of(read, first)
        assert Campaign.from_document(read.document()).hash == read.hash
        return read.protocol_name, there.report_bytes > 100

    by_hash = {one.hash: one for one in campaigns()}

    def a_round(data: bytes) -> Hashable:
        document = _json(data)
        owner = by_hash.get(str(document.get("campaign"))) if isinstance(document, dict) else None
        read = RoundDocument.from_document(document, owner or campaigns()[0])
        return read.mechanism.name, read.number > 1

    kept = [json.dumps(one.document()).encode() for one in campaigns()]
    rounds = [json.dumps(one.document()).encode() for _, one in every_round()]
    return [
        Target("campaign documents", kept, campaign, spoilt_json),
        Target("round documents", rounds, a_round, spoilt_json),
    ]


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise KeyveilError("input/json", "This is not JSON.") from None


# -- questions -------------------------------------------------------------------------------------------------------


def questions_of(mechanism: Mechanism) -> list[dict[str, Any]]:
    """Questions that make sense; whether a mechanism can answer them is another matter."""
    first, second, third = mechanism.schema.keys
    return [
        {"kind": "conditional", "key": first, "given": {second: True}},
        {"kind": "conditional", "key": first, "given": {second: True, third: False}},
        {"kind": "quantiles", "quantiles": ["0.25", 0.5]},
        {"kind": "quantiles", "quantiles": [0.9], "keys": [second]},
        {"kind": "subset", "keys": [first, second]},
        {"kind": "compare", "keys": [first, third]},
        {"kind": "compare", "keys": [third, second], "of": "mean"},
        {"kind": "top", "count": 2},
    ]


@cache
def counted() -> tuple[tuple[Mechanism, Tally, Estimates], ...]:
    """Every mechanism with the tally of some people and what it says."""
    found = []
    for _, document in every_round():
        mechanism, coins = document.mechanism, SeededCoins(3)
        records = _records(mechanism)
        counts = mechanism.tally(mechanism.perturb_pairs(records[at % len(records)], coins) for at in range(60))
        found.append((mechanism, counts, mechanism.estimate(counts)))
    return tuple(found)


def question_target() -> Target:
    """Questions to every mechanism: the byte before the question says to which. Seeds are those that are answered."""
    asked = counted()

    def read(data: bytes) -> Hashable:
        number = _number(data, asked)
        rows = answer(Question.read(_json(data[1:])), *asked[number])
        json.dumps(rows, allow_nan=False)
        return number, len(rows)

    seeds = []
    for number, (mechanism, _, _) in enumerate(asked):
        for question in questions_of(mechanism):
            data = bytes([number]) + json.dumps(question).encode()
            try:
                read(data)
            except KeyveilError:
                continue
            seeds.append(data)
    return Target("questions", seeds, read, _after(1, asked_otherwise))


def asked_otherwise(whole: bytes, chance: random.Random) -> bytes:
    """The same question with other keys, levels, counts or confidence; one in five is spoilt as documents are."""
    if chance.random() < 0.2:
        return spoilt_json(whole, chance)
    try:
        question = json.loads(whole)
    except (ValueError, RecursionError):
        return spoilt_json(whole, chance)
    if not isinstance(question, dict):
        return spoilt_json(whole, chance)
    others: dict[str, Callable[[], Any]] = {
        "key": lambda: chance.choice(_KEYS),
        "keys": lambda: chance.sample(_KEYS, 2),
        "quantiles": lambda: [round(chance.random(), 3) for _ in range(chance.randint(1, 5))],
        "count": lambda: chance.randint(1, 5),
        "given": lambda: {key: chance.random() < 0.5 for key in chance.sample(_KEYS, chance.randint(0, 2))},
        "of": lambda: chance.choice(("frequency", "mean")),
        "confidence": lambda: chance.choice(("0.5", 0.9, "0.999", 0.01)),
    }
    if chance.random() < 0.3:
        question["confidence"] = others["confidence"]()
    else:
        name = chance.choice([name for name in question if name in others] or ["confidence"])
        question[name] = others[name]()
    return json.dumps(question).encode()


# -- files of the command line ---------------------------------------------------------------------------------------


def file_targets(folder: Path) -> list[Target]:
    """Files that commands read: tallies and what describes them, campaigns, reports, and people's data."""
    tallies = [one.to_bytes() for _, one, _ in counted()]
    abouts = [json.dumps(one.document()).encode() for one, _, _ in counted()]
    rounds = list(every_round())
    documents = [folder / f"{number}.json" for number in range(len(rounds))]
    for path, (campaign, _) in zip(documents, rounds, strict=True):
        path.write_text(json.dumps(campaign.document()))
    reports = [_reports(document, number) for number, (_, document) in enumerate(rounds)]
    kept = folder / "kept.parquet"
    kept.write_bytes(reports[0])

    def read_tally(data: bytes) -> Hashable:
        (folder / "x.tally.json").write_bytes(abouts[_number(data, abouts)])
        return command(estimate, _file(folder / "x.tally", data[1:]), json=True)

    def read_about(data: bytes) -> Hashable:
        kept_tally = _file(folder / "kept.tally", tallies[_number(data, tallies)])
        return command(estimate, kept_tally, about=_file(folder / "about.json", data[1:]), json=True)

    def read_campaign(data: bytes) -> Hashable:
        return command(tally, kept, campaign=_file(folder / "campaign.json", data), json=True)

    def read_reports(data: bytes) -> Hashable:
        campaign = documents[_number(data, documents)]
        return command(tally, _file(folder / "reports.parquet", data[1:]), campaign=campaign, json=True)

    def read_people(name: str, data: bytes) -> Hashable:
        people = str(_file(folder / name, data))
        return command(simulate, people, mechanism="kvue", epsilon="1", seed=1, json=True)

    people = "user,key,value\n" + "".join(f"u{at % 9},{_KEYS[at % 3]},{at % 5}\n" for at in range(20))
    return [
        Target("tally files", _numbered(tallies), read_tally, _after(1, _summed)),
        Target("mechanism files", _numbered(abouts), read_about, _after(1, spoilt_json)),
        Target("campaign files", [path.read_bytes() for path in documents], read_campaign, spoilt_json),
        Target("reports files", _numbered(reports), read_reports, _after(1, _other_table)),
        Target("data files", [people.encode()], partial(read_people, "people.csv"), spoilt),
        Target("data in Parquet", [_people()], partial(read_people, "people.parquet"), _other_table),
    ]


def command(does: Callable[..., int], *arguments: Any, **options: Any) -> Hashable:
    """Run what a command does, without the reading of its command line and with nowhere to print."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        assert does(*arguments, **options) == 0
    return len(out.getvalue()) > 100


def _file(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def _number(data: bytes, things: Sequence[Any]) -> int:
    """Which of some things the first byte means."""
    return data[0] % len(things) if data else 0


def _numbered(seeds: list[bytes]) -> list[bytes]:
    return [bytes([number]) + data for number, data in enumerate(seeds)]


def _summed(whole: bytes, chance: random.Random) -> bytes:
    """A spoilt tally whose checksum is usually right, so that what it protects is read."""
    if chance.random() < 0.1 or len(whole) < 8:
        return spoilt(whole, chance)
    body = bytearray(whole[:-4])
    if chance.random() < 0.7:  # the same shape with other numbers
        at = 45 + 8 * chance.randrange(-1, max(1, (len(body) - 45) // 8)) + (0 if chance.random() < 0.9 else 4)
        number = chance.choice((0, 1, -1, 7, 60, 61, 10**6, 1 << 40, (1 << 63) - 1, -(1 << 63)))
        body[at : at + 8] = number.to_bytes(8, "little", signed=True)
    else:
        body = bytearray(spoilt(bytes(body), chance))
    return bytes(body) + zlib.crc32(body).to_bytes(4, "little")


def _reports(document: RoundDocument, seed: int) -> bytes:
    mechanism, coins = document.mechanism, SeededCoins(seed)
    records = _records(mechanism)
    sent = sorted((mechanism.perturb_pairs(records[at % len(records)], coins) for at in range(5)), key=_public)
    padded = [pad(mechanism.encode(one), document.report_bytes, mechanism.codec.varies) for one in sent]
    columns = {"round": pa.array([document.number] * 5, pa.int32()), "id": pa.array([one.public for one in sent])}
    return _written(pa.table({**columns, "payload": pa.array(padded, pa.binary())}))


def _public(report: Any) -> bytes:
    public: bytes = report.public
    return public


def _people() -> bytes:
    return _written(pa.table({"user": [1, 1, 2, 3], "key": ["a", "b", "a", "a"], "value": [1.0, 2.0, 3.0, 2.5]}))


def _written(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    parquet.write_table(table, sink)
    return sink.getvalue()


def _other_table(whole: bytes, chance: random.Random) -> bytes:
    """A table with a column of other values, of another kind or another name; or spoilt bytes of one."""
    if chance.random() < 0.4:
        return spoilt(whole, chance)
    try:
        table = parquet.read_table(io.BytesIO(whole))
        at = chance.randrange(table.num_columns)
        name, values = table.column_names[at], table.column(at).to_pylist()
        kind = chance.randrange(6)
        if kind == 0:
            table = table.drop_columns([name])
        elif kind == 1:
            table = table.set_column(at, name, pa.array(chance.choice(_COLUMNS)(values, chance)))
        elif kind == 2:
            table = table.set_column(at, name, pa.array(_with_one(values, chance)))
        elif kind == 3:
            table = pa.concat_tables([table, table.slice(chance.randrange(len(values) + 1))])
        elif kind == 4:
            table = table.append_column(chance.choice((name, "other")), table.column(at))
        else:
            table = table.slice(0, chance.randrange(len(values) + 1))
        return _written(table)
    except (pa.ArrowException, OSError, TypeError, ValueError, OverflowError, IndexError):
        return spoilt(whole, chance)


_COLUMNS: list[Callable[[list[Any], random.Random], list[Any]]] = [
    lambda values, chance: [None] * len(values),
    lambda values, chance: [str(one) for one in values],
    lambda values, chance: [chance.choice((0, 1, -5, 1 << 40)) for _ in values],
    lambda values, chance: [chance.choice((0.5, -1e308, float("nan"), float("inf"))) for _ in values],
    lambda values, chance: [chance.randbytes(chance.choice((0, 1, 16, 17))) for _ in values],
    lambda values, chance: [[one] for one in values],
    lambda values, chance: [chance.random() < 0.5 for _ in values],
]


def _with_one(values: list[Any], chance: random.Random) -> list[Any]:
    """The same with one value replaced, by nothing or by one of its kind."""
    if not values:
        return values
    at, one = chance.randrange(len(values)), chance.choice(values)
    if isinstance(one, bytes):
        one = spoilt(one, chance)
    elif isinstance(one, str):
        one = chance.choice(("", "\0", one * 50, "🥨"))
    elif isinstance(one, int | float):
        one = one * chance.choice((0, -1, 1000, 1 << 30))
    return [*values[:at], chance.choice((None, one, one, one)), *values[at + 1 :]]


def all_targets(folder: Path) -> Iterator[Target]:
    """One after the other, because some take a while to prepare."""
    yield from batch_targets()
    yield payload_target()
    yield from document_targets()
    yield question_target()
    yield from file_targets(folder)
