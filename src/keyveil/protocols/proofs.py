"""Proofs and attacks for mechanisms, for protocols and for other people's code alike: ``kv.certify`` and ``kv.audit``.

Of a protocol the certificate is about all rounds together. An audit attacks every round on its own, under the broadcast
that tells most; a round must not spend more than the protocol counts for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from keyveil.core.coins import Coins
from keyveil.core.epsilon import Number, parse_epsilon
from keyveil.privacy import audit as sampling
from keyveil.privacy import certify as enumeration
from keyveil.privacy.audit import Audit, Progress
from keyveil.privacy.certify import Certifiable, Certificate
from keyveil.protocols.base import Protocol


@dataclass(frozen=True)
class ProtocolAudit(Audit):
    """What samples prove about a protocol: whoever answers the round that tells most loses at least that."""

    rounds: tuple[Audit, ...]  # those that differ

    @property
    def violated(self) -> bool:
        """Whether a round is refuted, or the protocol as a whole."""
        return super().violated or any(one.violated for one in self.rounds)

    def document(self) -> dict[str, Any]:
        return {**super().document(), "rounds": [one.document() for one in self.rounds]}


def certify(subject: Certifiable | Protocol) -> Certificate:
    """The exact epsilon of a mechanism, or of all rounds of a protocol together, with what tells two records apart."""
    return subject.certificate() if isinstance(subject, Protocol) else enumeration.certify(subject)


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
    """Attack a mechanism or a protocol: any object with ``perturb(record[, coins][, public=])``, or a function.

    Compares ``records`` (default: extreme ones of the subject's schema). Takes about ``seconds``; with ``draws`` it
    takes about that many reports instead, whatever the time. Every draw must be a new report: a subject that remembers
    its answers is to be wrapped so that it forgets them. Of a protocol every round gets an equal part of the effort and
    of the chance to be wrong, so that all bounds hold together at the stated confidence.
    """
    attacked = _rounds(subject) if isinstance(subject, Protocol) else [_Attacked("", subject, epsilon)]
    compared = None if records is None else list(records)
    share = len(attacked)
    found = tuple(
        sampling.audit(
            one.target,
            epsilon=one.epsilon,
            records=compared,
            confidence=1 - (1 - confidence) / share,
            draws=None if draws is None else max(draws // share, 1),
            seconds=seconds / share,
            coins=coins,
            progress=None if progress is None else _titled(progress, one.title, place, share),
        )
        for place, one in enumerate(attacked)
    )
    if not isinstance(subject, Protocol):
        return found[0]
    worst = max(found, key=lambda one: one.lower_bound)
    requested = subject.epsilon if epsilon is None else parse_epsilon(epsilon)
    return ProtocolAudit(subject.name, requested, worst.lower_bound, confidence, worst.worst, found)


class _Attacked(NamedTuple):
    """What is attacked, and the epsilon that it may spend."""

    title: str
    target: Any
    epsilon: Number | None


def _rounds(protocol: Protocol) -> list[_Attacked]:
    """The rounds of a protocol that differ, each with its own price."""
    from keyveil.protocols.certificate import most_telling  # certificates of mechanisms do not need it

    rounds = {most_telling(one): one for one in reversed(protocol.longest())}
    return [_Attacked(f"Round {one.number}: ", target, one.epsilon) for target, one in reversed(rounds.items())]


def _titled(progress: Progress, title: str, place: int, of: int) -> Progress:
    """The progress of one round as that of all of them."""
    return lambda stage, share: progress(title + stage, (place + share) / of)
