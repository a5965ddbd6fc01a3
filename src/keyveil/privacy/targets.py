"""What is audited: any object with ``perturb``, or a bare function, and the ways in which a report leaves it.

Keyveil's mechanisms have two ways, single devices and bulk; each can hide a mistake of its own. Other people's code has
one. Draws on either way are independent reports of one record, at public bytes that are held fixed where that is
possible: epsilon must hold for every value of them. Besides, reports are made in a row, to see what they share.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keyveil.core.coins import Coins
from keyveil.core.errors import PrivacyError, RecordError
from keyveil.core.pairs import key_in
from keyveil.core.records import Records
from keyveil.core.report import PUBLIC_BYTES
from keyveil.core.schema import Schema
from keyveil.privacy.features import MISSING, Features, Lexicon, Silence, compared, see, see_rows

SINGLE, BULK, IN_A_ROW = "perturb", "respond_many", "perturb, three in a row"


@dataclass(frozen=True)
class Way:
    """One way to draw reports: at fixed public bytes, or (None) at new ones for every report."""

    name: str
    public: bytes | None
    draw: Callable[[Sequence[Any], int, Lexicon], Features]
    """So many reports of each record, as one sample: all of the first record, then all of the second, …"""
    block: int  # reports that are best drawn at once
    cost: int = 1  # calls of the subject for each row of the sample


@dataclass(frozen=True)
class Door:
    """A kind of way out. ``ways`` are searched with many draws each, ``at`` with few at each of many public values."""

    name: str
    share: float  # of the effort, compared with other doors
    ways: tuple[Way, ...]
    at: Callable[[bytes], Way] | None = None
    mixed: Way | None = None  # over all public values: what ``at`` draws at each of them comes from this as well


def doors(subject: Any, neighbour: Any, coins: Coins) -> list[Door]:
    """Every kind of way out of a subject, the simplest first; reports in a row lie between those of a neighbour."""
    perturb, takes_public = _caller(subject, coins)

    def single(public: bytes | None, given: bool) -> Way:
        return Way(SINGLE, public, _single(subject, perturb, coins, public, given), 1 << 12)

    def in_a_row(public: bytes | None) -> Way:
        return Way(IN_A_ROW, public, _in_a_row(perturb, neighbour, public), 1 << 11, cost=3)

    own = single(None, given=False)
    if takes_public:
        mixed = single(None, given=True)
        first = Door(SINGLE, 0.5, (own, mixed), lambda public: single(public, given=True), mixed)
        rows: tuple[Way, ...] = (in_a_row(coins.bytes(PUBLIC_BYTES)), in_a_row(None))
    else:
        first, rows = Door(SINGLE, 0.5, (own,), mixed=own), (in_a_row(None),)
    found = [first]
    if all(hasattr(subject, name) for name in ("respond_many", "words", "read", "schema", "codec")):
        bulk = Way(BULK, None, _bulk(subject, None, coins), 1 << 16)
        at = lambda public: Way(BULK, public, _bulk(subject, public, coins), 1 << 16)  # noqa: E731
        found.append(Door(BULK, 0.3, (bulk,), at, bulk))
    return [*found, Door(IN_A_ROW, 0.2, rows)]


def title(subject: Any) -> str:
    name = getattr(subject, "name", None) or getattr(subject, "__name__", None)
    return str(name or type(subject).__name__)


def usable(subject: Any, records: Iterable[Any] | None, coins: Coins) -> list[Any]:
    """Records to compare: the given ones, or extreme ones of the subject's schema that it does not refuse."""
    schema = getattr(subject, "schema", None)
    if records is not None:
        chosen = list(records)
    elif isinstance(schema, Schema):
        chosen = list(_accepted(subject, extremes(schema, getattr(subject, "max_pairs", None)), coins))
    else:
        raise PrivacyError("audit/records", f"{title(subject)} has no schema; say which records to compare.")
    if len(chosen) < 2:
        raise PrivacyError("audit/records", f"An audit compares at least two records, not {len(chosen)}.")
    _refuse_alike(subject, schema, chosen)
    return chosen


def _refuse_alike(subject: Any, schema: Any, records: list[Any]) -> None:
    """Records that mean the same to the subject cannot be told apart, and finding that out would prove nothing."""
    meanings: list[tuple[Any, Any]] = []
    for record in records:
        if isinstance(schema, Schema) and isinstance(record, Mapping):
            _refuse_unknown(schema, record)
        meaning = _meaning(subject, record)
        same = [earlier for earlier, known in meanings if _equal(known, meaning)]
        if same:
            both = f"{same[0]} and {record}"
            raise PrivacyError(
                "audit/same-record", f"To {title(subject)} the records {both} are the same: nothing differs."
            )
        meanings.append((record, meaning))


def _refuse_unknown(schema: Schema, record: Mapping[Any, Any]) -> None:
    if schema.other is not None:
        return
    for given in record:
        key = key_in(given)
        if key is None or schema.index(key) is None:
            names = f"{schema.keys[0]!r} to {schema.keys[-1]!r}" if schema.d > 1 else f"{schema.keys[0]!r} only"
            raise PrivacyError("audit/unknown-key", f"There is no key {given!r} to compare; the keys are {names}.")


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # arrays, for example, do not say
        return False


def _meaning(subject: Any, record: Any) -> Any:
    """The record as the subject reads it, if it says so; one that it refuses stays as it is."""
    try:
        return subject.read(record) if hasattr(subject, "read") else record
    except Exception:  # an error is something to observe, later
        return record


_SINGLES = 16  # keys that are held alone: all of them up to so many, else evenly spread
_MIDDLES = tuple((2 * cell + 1) / 8 - 1 for cell in range(8))  # of eight cells of [-1, 1]


def extremes(schema: Schema, max_pairs: int | None = None) -> list[dict[str, float]]:
    """Records that lie far apart: nothing, one pair, full and disjoint sets, ends and middles of the values."""
    d = schema.d
    cap = min(max_pairs or d, d)
    few, half = sorted({place * (d - 1) // (_SINGLES - 1) for place in range(_SINGLES)}), range(d // 2)
    everything, first, last = range(d), range(cap), range(d - cap, d)
    shapes: list[dict[int, float]] = [
        {},
        *({key: 1.0} for key in few),
        *({key: -1.0} for key in (0, d - 1)),
        dict.fromkeys((0, d - 1), 1.0),
        dict.fromkeys(everything, 1),
        dict.fromkeys(everything, -1),
        dict.fromkeys(everything, 0),
        {key: 1 if key in half else -1 for key in everything},
        {key: (-1) ** key for key in everything},
        dict.fromkeys(first, 1),
        dict.fromkeys(first, -1),
        dict.fromkeys(last, 1),
        dict.fromkeys(half, 1),
        *(dict.fromkeys(first, middle) for middle in _MIDDLES),
    ]
    names = schema.keys
    records = []
    for shape in shapes:
        keys = np.array(sorted(shape), dtype=np.int64)
        values = schema.from_unit(np.array([float(shape[key]) for key in keys.tolist()]), keys)
        record = {names[key]: value for key, value in zip(keys.tolist(), values.tolist(), strict=True)}
        if record not in records:
            records.append(record)
    return records


def _accepted(subject: Any, records: Iterable[Any], coins: Coins) -> Iterator[Any]:
    """Records that are not refused, and that do not mean the same to the subject."""
    perturb, _ = _caller(subject, coins)
    seen = []
    for record in records:
        meaning = _meaning(subject, record)
        try:
            perturb(record, None)
        except RecordError:
            continue
        except Exception:  # an error that is no refusal is something to observe
            meaning = record
        if meaning not in seen:
            seen.append(meaning)
            yield record


def _caller(subject: Any, coins: Coins) -> tuple[Callable[[Any, bytes | None], Any], bool]:
    """``perturb`` of an object, or a bare function, with as many arguments as it takes."""
    call = getattr(subject, "perturb", subject)
    if not callable(call):
        raise PrivacyError("audit/subject", f"A {type(subject).__name__} has no perturb and cannot be called.")
    try:
        parameters = inspect.signature(call).parameters
    except (TypeError, ValueError):  # compiled functions may not say
        parameters = inspect.signature(lambda record: record).parameters
    in_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [one for one in parameters.values() if one.kind in in_place and one.default is one.empty]
    takes_coins = "coins" in parameters or len(required) > 1
    takes_public = "public" in parameters

    def perturb(record: Any, public: bytes | None) -> Any:
        named = {"public": public} if takes_public else {}
        return call(record, coins, **named) if takes_coins else call(record, **named)

    return perturb, takes_public


def _single(
    subject: Any, perturb: Callable[[Any, bytes | None], Any], coins: Coins, public: bytes | None, given: bool
) -> Callable[[Sequence[Any], int, Lexicon], Features]:
    """Reports one by one; public bytes are the ``public`` ones, new ones for each, or left to the subject."""
    encode = getattr(subject, "encode", None)

    def draw(records: Sequence[Any], count: int, lexicon: Lexicon) -> Features:
        n = len(records) * count
        publics = [public or coins.bytes(PUBLIC_BYTES) for _ in range(n)] if given else []
        reports = [_report(perturb, records[row // count], publics[row] if given else None) for row in range(n)]
        features = see(reports, lexicon, publics)
        if callable(encode):
            lengths = [_length(encode, one) for one in reports]
            features.columns["length of the encoding"] = np.array(lengths, dtype=np.int64)
        return features

    return draw


def _in_a_row(
    perturb: Callable[[Any, bytes | None], Any], neighbour: Any, public: bytes | None
) -> Callable[[Sequence[Any], int, Lexicon], Features]:
    """A report between two others of a neighbour: only the one in the middle depends on what is compared.

    Reports are independent, so what all three tell of the record in the middle is what its own report tells. Coins
    that two of them share break this, whichever of its neighbours it shares them with.
    """

    def draw(records: Sequence[Any], count: int, lexicon: Lexicon) -> Features:
        asked = (one for record in records for _ in range(count) for one in (neighbour, record, neighbour))
        reports = [_report(perturb, one, public) for one in asked]
        seen = see(reports, Lexicon(), [public] * len(reports) if public else ())
        before, middle, after = (seen.rows(slice(place, None, 3)) for place in range(3))
        sides = (compared(middle, before, "before"), compared(middle, after, "after"))
        return Features(middle.n, {**sides[0].columns, **sides[1].columns})

    return draw


def _report(perturb: Callable[[Any, bytes | None], Any], record: Any, public: bytes | None) -> Any:
    try:
        return perturb(record, public)
    except Exception as error:  # seen from outside, a report that does not come
        return Silence(type(error).__name__)


def _length(encode: Callable[[Any], Any], report: Any) -> int:
    """How long a report is on the wire, if it can be sent at all."""
    try:
        return MISSING if isinstance(report, Silence) else len(encode(report))
    except Exception:
        return MISSING


def _bulk(mechanism: Any, public: bytes | None, coins: Coins) -> Callable[[Sequence[Any], int, Lexicon], Features]:
    def draw(records: Sequence[Any], count: int, lexicon: Lexicon) -> Features:
        n = len(records) * count
        raw = np.frombuffer(public or coins.bytes(PUBLIC_BYTES * n), np.uint8).reshape(-1, PUBLIC_BYTES)
        words = np.repeat(mechanism.words(raw), n // len(raw), axis=0)
        pairs = [np.array(mechanism.read(record), dtype=np.int32).reshape(-1, 2) for record in records]
        sizes = np.repeat([len(held) for held in pairs], count)
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        held = np.concatenate([np.tile(one, (count, 1)) for one in pairs])
        people = Records(offsets, held[:, 0].copy(), held[:, 1].copy(), mechanism.schema.d)
        rows = mechanism.respond_many(people, words, coins)
        if isinstance(rows, np.ndarray) and rows.ndim <= 2 and rows.dtype.kind in "iuf":
            return see_rows("payload", rows, lexicon)
        return see(mechanism.codec.unstack(rows), lexicon)

    return draw
