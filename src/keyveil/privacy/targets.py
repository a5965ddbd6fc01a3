"""What is audited: any object with ``perturb``, or a bare function, and the ways in which a report leaves it.

Keyveil's mechanisms have two ways, single devices and bulk; each can hide a mistake of its own. Other people's code has
one. Draws on either way are independent reports of one record, at public bytes that are held fixed where that is
possible: epsilon must hold for every value of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from keyveil.core.coins import Coins
from keyveil.core.errors import PrivacyError, RecordError
from keyveil.core.pairs import key_in
from keyveil.core.records import Records
from keyveil.core.report import PUBLIC_BYTES
from keyveil.core.schema import Schema
from keyveil.privacy.features import MISSING, Lexicon, Sights, Silence, see, see_rows

PUBLICS = 6
SINGLE, BULK = "perturb", "respond_many"


@dataclass(frozen=True)
class Way:
    """One way out, at one value of the public bytes (None: the subject draws its own, and they are looked at)."""

    name: str
    public: bytes | None
    draw: Callable[[Any, int, Lexicon], Sights]
    block: int  # reports that are best drawn at once


def ways(subject: Any, coins: Coins) -> list[Way]:
    """Every way out of a subject, at several public values."""
    perturb, takes_public = _caller(subject, coins)
    publics = [coins.bytes(PUBLIC_BYTES) for _ in range(PUBLICS)]
    singles: list[bytes | None] = [publics[0], None, *publics[1:]] if takes_public else [None]
    found = [Way(SINGLE, public, _single(subject, perturb, public), 1 << 12) for public in singles]
    if all(hasattr(subject, name) for name in ("respond_many", "words", "read", "schema", "codec")):
        found += [Way(BULK, public, _bulk(subject, public, coins), 1 << 16) for public in publics]
    return found


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


_MIDDLES = tuple((2 * cell + 1) / 8 - 1 for cell in range(8))  # of eight cells of [-1, 1]


def extremes(schema: Schema, max_pairs: int | None = None) -> list[dict[str, float]]:
    """Records that lie far apart: nothing, one pair, full and disjoint sets, ends and middles of the values."""
    d = schema.d
    cap = min(max_pairs or d, d)
    few, half = sorted({0, 1 % d, d // 2, d - 1}), range(d // 2)
    everything, first, last = range(d), range(cap), range(d - cap, d)
    shapes: list[dict[int, float]] = [
        {},
        *({key: 1.0} for key in few),
        *({key: -1.0} for key in (0, d - 1)),
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
    subject: Any, perturb: Callable[[Any, bytes | None], Any], public: bytes | None
) -> Callable[[Any, int, Lexicon], Sights]:
    encode = getattr(subject, "encode", None)

    def report(record: Any) -> Any:
        try:
            return perturb(record, public)
        except Exception as error:  # seen from outside, a report that does not come
            return Silence(type(error).__name__)

    def draw(record: Any, count: int, lexicon: Lexicon) -> Sights:
        reports = [report(record) for _ in range(count)]
        sights = see(reports, lexicon, public)
        if callable(encode):
            lengths = [_length(encode, one) for one in reports]
            sights.columns["length of the encoding"] = np.array(lengths, dtype=np.int64)
        return sights

    return draw


def _length(encode: Callable[[Any], Any], report: Any) -> int:
    """How long a report is on the wire, if it can be sent at all."""
    try:
        return MISSING if isinstance(report, Silence) else len(encode(report))
    except Exception:
        return MISSING


def _bulk(mechanism: Any, public: bytes, coins: Coins) -> Callable[[Any, int, Lexicon], Sights]:
    word = mechanism.words(np.frombuffer(public, np.uint8).reshape(1, -1))

    def draw(record: Any, count: int, lexicon: Lexicon) -> Sights:
        pairs = np.array(mechanism.read(record), dtype=np.int32).reshape(-1, 2)
        offsets = np.arange(count + 1, dtype=np.int64) * len(pairs)
        people = Records(offsets, np.tile(pairs[:, 0], count), np.tile(pairs[:, 1], count), mechanism.schema.d)
        rows = mechanism.respond_many(people, np.repeat(word, count, axis=0), coins)
        if isinstance(rows, np.ndarray) and rows.ndim <= 2 and rows.dtype.kind in "iuf":
            return see_rows("payload", rows, lexicon)
        return see(mechanism.codec.unstack(rows), lexicon)

    return draw
