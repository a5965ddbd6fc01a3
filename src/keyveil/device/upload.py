"""Sending a stored report until the collector has it: the same bytes every time, with growing and jittered pauses.

An answer is believed only if it is well-formed and about this very report; anything else means that it is not known
whether the report arrived, and so it is sent again later. The collector takes the same report twice without harm.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

import msgspec

from keyveil.campaign.transport import HttpAnswer, Transport
from keyveil.campaign.verification import problem
from keyveil.campaign.wire import JSON, PACKED
from keyveil.core.clock import Clock
from keyveil.core.coins import Coins
from keyveil.core.errors import TransportError
from keyveil.core.text import plain
from keyveil.device.outbox import REFUSED, SENT, WAITING, Parcel

Sleep = Callable[[float], None]
_SOON = (408, 425, 429)  # of the 4xx, those after which a client may try again
PASSING = frozenset(  # problems that may pass by themselves, whatever their status
    (
        "campaign/unknown",  # 404: a collector that was restored, or a copy of it that lags behind
        "round/unknown",  # 404
        "round/waiting",  # 409: by the collector's clock it is not open yet
    )
)
_RESOLUTION = 1 << 20


@dataclass(frozen=True)
class Patience:
    """How often to try at once, the first pause in seconds, and the longest one that is waited for.

    A report that was just drawn leaves at a multiple of ``pace`` seconds after its campaign was read: otherwise the
    time between the two requests would tell how long the record took. Zero is for simulation.
    """

    tries: int = 5
    first: float = 1.0
    longest: float = 60.0
    pace: float = 0.25


@dataclass(frozen=True)
class Receipt:
    """What became of an upload: sent, refused for good, or still waiting; and after how many attempts."""

    state: str
    attempts: int
    code: str | None = None


@dataclass(frozen=True)
class _Again:
    """Not known to have arrived: to be sent again, ``after`` so many seconds if the collector said so."""

    code: str
    after: float | None = None


class _Refusal(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    code: str


class _Answer(msgspec.Struct, forbid_unknown_fields=True):
    accepted: int
    duplicates: int
    refused: list[_Refusal]


@dataclass(frozen=True)
class Uploader:
    """Sends stored reports to one collector."""

    transport: Transport
    coins: Coins
    clock: Clock
    patience: Patience = Patience()
    packed: bool = True
    sleep: Sleep = time.sleep
    seconds: Callable[[], float] = time.monotonic

    def keep_pace(self, since: float) -> None:
        """Wait for the next multiple of the pace after a moment of ``seconds``."""
        pace = self.patience.pace
        if pace > 0:
            self.sleep(pace - (self.seconds() - since) % pace)

    def deliver(self, parcel: Parcel) -> Receipt:
        attempt, pause = 0, self.patience.first
        while True:
            attempt += 1
            heard = self._try(parcel)
            if isinstance(heard, Receipt):
                return Receipt(heard.state, attempt, heard.code)
            wait = max(self._jittered(pause), heard.after or 0.0)
            if attempt >= self.patience.tries or wait > self.patience.longest:
                return Receipt(WAITING, attempt, heard.code)
            self.sleep(wait)
            pause = min(2 * pause, self.patience.longest)

    def _try(self, parcel: Parcel) -> Receipt | _Again:
        batch = parcel.batch
        headers = {"Content-Type": PACKED if self.packed else JSON}
        if parcel.token is not None:
            headers["Authorization"] = f"Bearer {parcel.token}"
        body = batch.to_packed() if self.packed else batch.to_json()
        try:
            answer = self.transport.request("POST", f"/v1/campaigns/{parcel.name}/reports", body, headers)
        except TransportError as reason:
            return _Again(reason.code)
        if answer.status == 200:
            return _read(answer, parcel)
        said = problem(answer)
        passing = answer.status in _SOON or (said is not None and said.code in PASSING)
        if said is not None and 400 <= answer.status < 500 and not passing:
            return Receipt(REFUSED, 0, said.code)
        return _Again(said.code if said else "transport/status", self._retry_after(answer))

    def _jittered(self, pause: float) -> float:
        """Between half of the pause and all of it, so that devices do not all try again at the same moment."""
        return pause * (1 + self.coins.below(_RESOLUTION) / _RESOLUTION) / 2

    def _retry_after(self, answer: HttpAnswer) -> float | None:
        text = answer.headers.get("retry-after", "").strip()
        if text.isascii() and text.isdigit():
            return float(text[:9])
        try:
            moment = parsedate_to_datetime(text)
        except (TypeError, ValueError, IndexError, OverflowError):
            return None
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(0.0, (aware - self.clock()).total_seconds())


def _read(answer: HttpAnswer, parcel: Parcel) -> Receipt | _Again:
    try:
        said = msgspec.json.decode(answer.body, type=_Answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Again("transport/answer")
    taken = said.accepted + said.duplicates
    if (taken, said.refused) == (1, []) and 0 <= said.accepted <= 1:
        return Receipt(SENT, 0)
    if taken == said.accepted == 0 and [one.id for one in said.refused] == [parcel.report.hex()]:
        return Receipt(REFUSED, 0, plain(said.refused[0].code)[:80])
    return _Again("transport/answer")
