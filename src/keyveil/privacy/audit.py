"""The audit: a lower bound on epsilon from samples alone, of any code that makes reports.

Half of the draws search: which two records, at which public bytes, and which events tell them apart best. The other
half is drawn afresh for the few events that were chosen, so that the bound holds at the stated confidence however
eagerly was searched. An audit can refute a promise, never prove one; ``certify`` proves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from keyveil.core.coins import Coins
from keyveil.core.epsilon import Number, parse_epsilon
from keyveil.core.errors import PrivacyError
from keyveil.core.extras import extra
from keyveil.privacy.events import Event, best_events, columns_of, tables
from keyveil.privacy.features import Lexicon, Sights, Silence
from keyveil.privacy.intervals import epsilon_at_least, hunch
from keyveil.privacy.targets import Way, title, usable, ways

Progress = Callable[[str, float], None]

_TESTED = 3  # events that fresh draws decide on, for each way out
_SHARP, _BROAD = 4, 2  # pairs taken into the second round: by their best event, and by all columns together
_SEARCH, _REFINE = 0.3, 0.2  # shares of the effort; the rest proves
_MOST_SEARCH, _MOST_REFINE = 4_000, 30_000  # draws of a record beyond which searching finds little more
_MOST_CELLS = 20_000_000  # draws times columns that are compared at once


@dataclass(frozen=True)
class WorstEvent:
    """The two records, the way out and the event that tell most, and how often it happened in fresh draws."""

    record: Any
    other_record: Any
    way: str
    public: bytes | None
    event: str
    hits: int
    other_hits: int
    draws: int  # of each record
    lower_bound: float

    def document(self) -> dict[str, Any]:
        return {
            "record": _plain(self.record),
            "other_record": _plain(self.other_record),
            "way": self.way,
            "public": None if self.public is None else self.public.hex(),
            "event": self.event,
            "hits": self.hits,
            "other_hits": self.other_hits,
            "draws": self.draws,
        }


@dataclass(frozen=True)
class Audit:
    """What samples prove: with the stated confidence, epsilon is at least ``lower_bound``."""

    mechanism: str
    requested_epsilon: Fraction | None
    lower_bound: float
    confidence: float
    worst: WorstEvent

    @property
    def violated(self) -> bool:
        """Whether the promise is refuted."""
        return self.requested_epsilon is not None and self.lower_bound > self.requested_epsilon

    def document(self) -> dict[str, Any]:
        """The object that ``keyveil audit --json`` prints."""
        return {
            "mechanism": self.mechanism,
            "requested_epsilon": None if self.requested_epsilon is None else float(self.requested_epsilon),
            "lower_bound": self.lower_bound,
            "confidence": self.confidence,
            "worst": self.worst.document(),
        }


def audit(
    subject: Any,
    *,
    epsilon: Number | None = None,
    records: Iterable[Any] | None = None,
    confidence: float = 0.99,
    draws: int | None = None,
    seconds: float = 60.0,
    coins: Coins | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Attack a mechanism: any object with ``perturb(record[, coins][, public=])``, or a function of a record.

    Compares ``records`` (default: extreme ones of the subject's schema). Takes about ``seconds``; with ``draws`` it
    takes about that many reports instead, whatever the time. Every draw must be a new report: a subject that remembers
    its answers is to be wrapped so that it forgets them.
    """
    if not 0 < confidence < 1:
        raise PrivacyError("audit/confidence", f"A confidence lies between 0 and 1; {confidence:g} does not.")
    if seconds <= 0 or (draws is not None and draws < 1):
        raise PrivacyError("audit/effort", "An audit needs some seconds, or some draws.")
    with extra("local", "Audits"):  # the bounds at the end need it; nobody should wait for that
        import scipy.special  # noqa: F401
    coins = coins or Coins()
    requested = epsilon if epsilon is not None else getattr(subject, "epsilon", None)
    compared = usable(subject, records, coins)
    say = progress or (lambda stage, share: None)

    lexicon, doors = Lexicon(), _doors(ways(subject, coins))
    efforts = [_Effort(None if draws is None else draws // len(doors), seconds / len(doors)) for _ in doors]
    finalists = [_search(door, compared, effort, lexicon, say) for door, effort in zip(doors, efforts, strict=True)]

    lexicon.closed = True
    alarm = (1 - confidence) / sum(len(finalist.events) for finalist in finalists)
    proofs = [
        proof
        for finalist, effort in zip(finalists, efforts, strict=True)
        for proof in _prove(finalist, effort, lexicon, alarm, say)
    ]
    worst = max(proofs, key=lambda proof: (proof.lower_bound, proof.hits - proof.other_hits))
    return Audit(
        mechanism=title(subject),
        requested_epsilon=None if requested is None else parse_epsilon(requested),
        lower_bound=worst.lower_bound,
        confidence=confidence,
        worst=worst,
    )


@dataclass(frozen=True)
class _Finalist:
    way: Way
    record: Any
    other: Any
    events: Sequence[Event]


@dataclass
class _Effort:
    """How many draws each stage may take: a share of a number, or what fits into the time."""

    draws: int | None
    seconds: float
    spent: float = 0.0

    def each(self, share: float, samples: int, rate: float, most: int) -> int:
        """Draws for each of so many samples."""
        total = share * (self.seconds * rate if self.draws is None else self.draws)
        return max(1, min(int(total / samples), most))

    def over(self, share: float, began: float) -> bool:
        """Whether a stage that compares much has used up its share of the time."""
        return self.draws is None and time.perf_counter() - began > share * self.seconds

    def left(self, rate: float) -> int:
        """Draws for each of the two last samples."""
        if self.draws is not None:
            return max(1, int((1 - _SEARCH - _REFINE) * self.draws / 2))
        return max(1000, int((self.seconds - self.spent) * rate / 2))


def _doors(found: Sequence[Way]) -> list[list[Way]]:
    names = dict.fromkeys(way.name for way in found)
    return [[way for way in found if way.name == name] for name in names]


def _search(door: list[Way], records: list[Any], effort: _Effort, lexicon: Lexicon, say: Progress) -> _Finalist:
    """The pair of records, the public bytes and the events that promise most, for one kind of way out."""
    began = time.perf_counter()
    columns = len(door[-1].draw(records[-1], 16, lexicon).columns)
    rate = (
        0.0 if effort.draws is not None else _rate(lambda record, count: door[-1].draw(record, count, lexicon), records)
    )
    most = min(_MOST_SEARCH, _MOST_CELLS // (columns * len(records)))
    n = effort.each(_SEARCH, len(door) * len(records), rate, most)
    sharp: list[tuple[float, Way, int, int]] = []
    broad: list[tuple[float, Way, int, int]] = []
    mute = True
    for done, way in enumerate(door):
        samples = [way.draw(record, n, lexicon) for record in records]
        mute = mute and all(_silent(sights, lexicon) for sights in samples)
        worths, differences = _compare(samples, n)
        for a, b in combinations(range(len(records)), 2):
            sharp.append((float(max(worths[a, b], worths[b, a])), way, a, b))
            broad.append((float(differences[a, b]), way, a, b))
        say(f"Searching {way.name}", _SEARCH * (done + 1) / len(door))
        if effort.over(_SEARCH, began):
            break
    if mute:
        raise PrivacyError("audit/silent", "The subject raised an error for every record, so there are no reports.")

    pairs = dict.fromkeys((way, a, b) for _, way, a, b in _top(sharp, _SHARP) + _top(broad, _BROAD))
    n = effort.each(_REFINE, 2 * len(pairs), rate, min(_MOST_REFINE, _MOST_CELLS // (4 * columns)))
    best: _Finalist | None = None
    for done, (way, a, b) in enumerate(pairs):
        one, other = way.draw(records[a], n, lexicon), way.draw(records[b], n, lexicon)
        forth, back = best_events(one, other, _TESTED)
        for finalist in (
            _Finalist(way, records[a], records[b], forth),
            _Finalist(way, records[b], records[a], back),
        ):
            if best is None or finalist.events[0].worth > best.events[0].worth:
                best = finalist
        say(f"Refining {way.name}", _SEARCH + _REFINE * (done + 1) / len(pairs))
        if effort.over(_SEARCH + _REFINE, began):
            break
    effort.spent = time.perf_counter() - began
    assert best is not None, "there are at least two records"
    return best


def _compare(samples: Sequence[Sights], n: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """For all pairs of samples: the promise of the best outcome, and how much all columns differ (chi-square)."""
    worths = np.full((len(samples), len(samples)), -np.inf)
    differences = np.zeros((len(samples), len(samples)))
    for counts in tables(columns_of(samples), samples):
        one, other = counts[:, None, :], counts[None, :, :]
        worths = np.maximum(worths, hunch(one, other, n).max(axis=2))
        differences += ((one - other) ** 2 / np.maximum(one + other, 1) - 1).sum(axis=2)
    return worths, differences


def _prove(finalist: _Finalist, effort: _Effort, lexicon: Lexicon, alarm: float, say: Progress) -> list[WorstEvent]:
    """Count the chosen events in fresh draws. Their number is fixed before the first of them is made."""
    way, events = finalist.way, finalist.events

    def counts(record: Any, count: int) -> list[int]:
        sights = way.draw(record, count, lexicon)
        return [event.count(sights) for event in events]

    n = effort.left(0.0 if effort.draws is not None else _rate(counts, [finalist.record, finalist.other]))
    totals = np.zeros((2, len(events)), dtype=np.int64)
    for start in range(0, n, way.block):
        count = min(way.block, n - start)
        totals += [counts(finalist.record, count), counts(finalist.other, count)]
        say(f"Proving {way.name}", _SEARCH + _REFINE + (1 - _SEARCH - _REFINE) * (start + count) / n)
    return [
        WorstEvent(
            record=finalist.record,
            other_record=finalist.other,
            way=way.name,
            public=way.public,
            event=event.describe(lexicon),
            hits=int(hits),
            other_hits=int(other_hits),
            draws=n,
            lower_bound=epsilon_at_least(int(hits), int(other_hits), n, alarm),
        )
        for event, hits, other_hits in zip(events, *totals, strict=True)
    ]


def _rate(work: Callable[[Any, int], object], records: Sequence[Any]) -> float:
    """Draws a second, over all records, after a first call that may load and compile things."""
    work(records[0], 16)
    count = 64
    while True:
        began = time.perf_counter()
        for record in records:
            work(record, count)
        elapsed = time.perf_counter() - began
        if elapsed > 0.1 or count >= 1 << 16:
            return count * len(records) / max(elapsed, 1e-9)
        count *= 4


def _top(ranked: list[tuple[float, Way, int, int]], most: int) -> list[tuple[float, Way, int, int]]:
    return sorted(ranked, key=lambda entry: -entry[0])[:most]


def _silent(sights: Sights, lexicon: Lexicon) -> bool:
    """Whether nothing but errors came."""
    said = {lexicon.thing(int(code)) for code in np.unique(sights.column("report as text"))}
    return all(isinstance(thing, Silence) and thing != Silence() for thing in said)


def _plain(record: Any) -> Any:
    """A record for JSON: itself where it is plain data, else as Python writes it."""
    if record is None or isinstance(record, bool | int | float | str):
        return record
    if isinstance(record, dict):
        return {str(key): _plain(value) for key, value in record.items()}
    if isinstance(record, list | tuple):
        return [_plain(value) for value in record]
    return repr(record)
