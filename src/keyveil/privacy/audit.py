"""The audit: a lower bound on epsilon from samples alone, of any code that makes reports.

Half of the draws search: which two records, at which public bytes, and which events tell them apart best. The other
half is drawn afresh for the few events that were chosen, so that the bound holds at the stated confidence however
eagerly was searched. An audit can refute a promise, never prove one; ``certify`` proves.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.coins import Coins
from keyveil.core.epsilon import Number, parse_epsilon
from keyveil.core.errors import PrivacyError
from keyveil.core.extras import extra
from keyveil.privacy.features import Lexicon
from keyveil.privacy.intervals import epsilon_at_least
from keyveil.privacy.search import RACE, SCAN, Effort, Finalist, Progress, Search, rate
from keyveil.privacy.targets import IN_A_ROW, doors, title, usable

__all__ = ["Audit", "Progress", "WorstEvent", "audit"]

_UNSTATED = 3.0  # the search looks for more than this first, where no epsilon is promised
_DECIDED = 4.0  # nats of evidence, beyond chance, from which all fresh draws go to it; e^-4 of honest searches have it
_FEWEST = 1000  # fresh draws of each record, however little time is left


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
    asked = epsilon if epsilon is not None else getattr(subject, "epsilon", None)
    requested = None if asked is None else parse_epsilon(asked)
    compared = usable(subject, records, coins)
    say = progress or (lambda stage, share: None)

    began, lexicon = time.perf_counter(), Lexicon()
    finalists = _finalists(subject, compared, requested, draws, seconds, lexicon, coins, say)
    lexicon.closed = True
    alarm = (1 - confidence) / sum(len(finalist.events) for finalist in finalists)
    proofs: list[WorstEvent] = []
    for place, finalist in enumerate(finalists):
        waiting = sum(one.weight for one in finalists[place:])
        if draws is not None:
            reports = (1 - SCAN - RACE) * draws * finalist.weight / sum(one.weight for one in finalists)
        else:
            left = max(seconds - (time.perf_counter() - began), 0.0)
            speed = rate(partial(_counts, finalist, lexicon), 2 * finalist.way.cost)
            reports = left * speed * finalist.weight / waiting
        n = max(_FEWEST if draws is None else 1, int(reports / (2 * finalist.way.cost)))
        proofs += _prove(finalist, n, lexicon, alarm, say)
    worst = max(proofs, key=lambda proof: (proof.lower_bound, proof.hits - proof.other_hits))
    return Audit(
        mechanism=title(subject),
        requested_epsilon=requested,
        lower_bound=worst.lower_bound,
        confidence=confidence,
        worst=worst,
    )


def _finalists(
    subject: Any,
    records: list[Any],
    requested: Fraction | None,
    draws: int | None,
    seconds: float,
    lexicon: Lexicon,
    coins: Coins,
    say: Progress,
) -> list[Finalist]:
    """What fresh draws are to decide on: all that speaks against the promise, or else the best of every door."""
    goal = _UNSTATED if requested is None else float(requested)
    found: list[Finalist] = []
    decided: list[Finalist] = []
    ways_out = doors(subject, records[0], coins)
    for door in ways_out:
        if door.name == IN_A_ROW and decided:
            break  # what one report tells by itself, it also tells beside others
        share = door.share / sum(one.share for one in ways_out)
        effort = Effort(None if draws is None else int(share * draws), share * seconds)
        found += Search(door, records, effort, goal, lexicon, coins, say).finalists()
        decided = [one for one in found if requested is not None and one.excess > _DECIDED]
    return decided or found


def _prove(finalist: Finalist, n: int, lexicon: Lexicon, alarm: float, say: Progress) -> list[WorstEvent]:
    """Count the chosen events in ``n`` fresh draws of each record."""
    way = finalist.way
    totals = np.zeros((2, len(finalist.events)), dtype=np.int64)
    for start in range(0, n, way.block):
        totals += _counts(finalist, lexicon, min(way.block, n - start))
        say(f"Proving {way.name}", SCAN + RACE + (1 - SCAN - RACE) * min(start + way.block, n) / n)
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
        for event, hits, other_hits in zip(finalist.events, *totals, strict=True)
    ]


def _counts(finalist: Finalist, lexicon: Lexicon, n: int) -> NDArray[np.int64]:
    """How often each event happens in ``n`` new reports of the one record, and of the other."""
    features = finalist.way.draw([finalist.record, finalist.other], n, lexicon)
    halves = (features.rows(slice(0, n)), features.rows(slice(n, None)))
    return np.array([[event.count(half) for event in finalist.events] for half in halves], dtype=np.int64)


def _plain(record: Any) -> Any:
    """A record for JSON: itself where it is plain data, else as Python writes it."""
    if record is None or isinstance(record, bool | int | float | str):
        return record
    if isinstance(record, dict):
        return {str(key): _plain(value) for key, value in record.items()}
    if isinstance(record, list | tuple):
        return [_plain(value) for value in record]
    return repr(record)
