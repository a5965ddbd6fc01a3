"""What leaves a device over whole trajectories is worth no more than its ledger says; rules that leak are caught."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from keyveil.core.errors import DeviceError, PrivacyError, RecordError
from keyveil.device import Device
from keyveil.device import device as device_module
from keyveil.device.ledger import Ledger, LedgerEntry
from keyveil.device.outbox import WAITING, Outbox, Parcel
from keyveil.device.outcome import Outcome
from keyveil.device.preview import Preview, look_at
from keyveil.device.schedule import Pauses, StandingReports
from tests.device.trajectories import STEPS, Leak, Trajectories

KVUE = {"name": "kvue", "epsilon": "1"}
SSR = {"name": "ssr", "epsilon": "1", "max_pairs": 1}
PERIODS = {"renew_days": 14, "renew_from": "2026-11-20"}
ONE_KEY: list[Any] = [{}, {"0": -1}, {"0": 1}]
TWO_KEYS: list[Any] = [{}, {"0": 1}, {"0": -1, "1": 1}]
EACH: list[tuple[dict[str, Any], list[Any], dict[str, Any]]] = [
    (protocol, records, terms)
    for protocol, records in ((KVUE, ONE_KEY), (SSR, TWO_KEYS))
    for terms in (PERIODS, {}, {"one_in": 2})
]


@pytest.mark.parametrize(("protocol", "records"), [(KVUE, ONE_KEY), (SSR, TWO_KEYS)], ids=["kvue", "ssr"])
def test_no_transcript_of_four_steps_tells_more_than_was_booked(protocol: dict[str, Any], records: list[Any]) -> None:
    """One draw fits the cap, so that after it all is standing or silent."""
    walk = Trajectories(protocol, records, PERIODS, draws=1)
    walk.check(4)
    assert walk.transcripts > 2000


@pytest.mark.parametrize("terms", [PERIODS, {}, {"one_in": 2}], ids=str)
def test_no_transcript_of_three_steps_and_two_draws_tells_more_than_was_booked(terms: dict[str, Any]) -> None:
    walk = Trajectories(KVUE, ONE_KEY, terms)
    walk.check(3)
    assert max(state.booked for state in walk.states) > Fraction(19, 10)  # both were drawn


@pytest.mark.soak
@pytest.mark.parametrize(("protocol", "records", "terms"), EACH, ids=str)
def test_no_transcript_of_four_steps_and_two_draws_tells_more_than_was_booked(
    protocol: dict[str, Any], records: list[Any], terms: dict[str, Any], record_property: Any
) -> None:
    walk = Trajectories(protocol, records, terms)
    walk.check(4)
    _tell(walk, record_property)


@pytest.mark.soak
@pytest.mark.parametrize("terms", [PERIODS, {}, {"one_in": 2}], ids=str)
def test_no_transcript_of_five_steps_tells_more_than_was_booked(terms: dict[str, Any], record_property: Any) -> None:
    walk = Trajectories(KVUE, ONE_KEY, terms)
    walk.check(5)
    _tell(walk, record_property)


def _tell(walk: Trajectories, record_property: Any) -> None:
    record_property("transcripts", f"{walk.transcripts:,}")
    record_property("kinds of steps", len(STEPS))
    record_property("runs of the device", f"{walk.runs:,}")


def test_a_restore_that_is_not_noticed_costs_one_further_epsilon_and_the_bound_is_met() -> None:
    """The ledger of such a file is behind; what was booked on the way, before and after a restore, is the bound."""
    walk = Trajectories(KVUE, ONE_KEY, {}, draws=1, forgotten=True)
    walk.check(3)
    price = walk._asked("snack-survey", 0)[0].cost
    assert max(state.booked for state in walk.states) == 3 * price  # a draw, and one more for each of two restores
    noticed = Trajectories(KVUE, ONE_KEY, {}, draws=1)
    noticed.check(3)
    assert max(state.booked for state in noticed.states) == 2 * price  # silent today; the next campaign is drawn


# -- rules that must not pass -------------------------------------------------------------------------------------

Answer = tuple[Parcel | None, Outcome]


def _remembering(patch: pytest.MonkeyPatch, recall: Callable[..., Answer | None]) -> None:
    """A device that keeps in its file what it answered to which record."""
    whole = Device._answer

    def answer(self: Device, notice: Any, document: Any, record: Any, token: Any) -> Answer:
        memory = self.vault.connection
        memory.execute("CREATE TABLE IF NOT EXISTS memo (series TEXT, record TEXT, report BLOB, payload BLOB)")
        series = notice.campaign.name
        if self._outbox.find(series, document.campaign, document.number) is None:
            rows = memory.execute("SELECT record, report, payload FROM memo WHERE series = ?", (series,)).fetchall()
            found = recall(self, notice, document, str(record), {one: rest for one, *rest in rows})
            if found is not None:
                return found
        parcel, outcome = whole(self, notice, document, record, token)
        if parcel is not None and outcome.used:
            row = (series, str(record), parcel.report, parcel.payload)
            memory.execute("INSERT INTO memo VALUES (?, ?, ?, ?)", row)
        return parcel, outcome

    patch.setattr(Device, "_answer", answer)


def _sent_again(self: Device, notice: Any, document: Any, public: bytes, payload: bytes) -> Answer:
    self._hold(notice, document, notice.campaign.name)
    parcel = Parcel(notice.campaign.name, document.campaign, document.number, document.hash, public, payload)
    self._outbox.put(parcel)
    return parcel, Outcome.of(parcel)


def same_record_same_report(patch: pytest.MonkeyPatch) -> None:
    """The rule of before: a record that was seen in the series is answered with its old id and bytes, for free."""

    def recall(self: Device, notice: Any, document: Any, record: str, memo: dict[str, Any]) -> Answer | None:
        return _sent_again(self, notice, document, *memo[record]) if record in memo else None

    _remembering(patch, recall)


def cap_after_memory(patch: pytest.MonkeyPatch) -> None:
    """Once the cap is used up, a record that is remembered is still answered; the others are met with silence."""

    def recall(self: Device, notice: Any, document: Any, record: str, memo: dict[str, Any]) -> Answer | None:
        try:
            self._pay(notice, document, notice.campaign.name, self.vault.today())
        except PrivacyError:
            if record in memo:
                public = self._identity.of_round(notice.campaign.name, document.hash)
                return _sent_again(self, notice, document, public, memo[record][1])
        return None

    _remembering(patch, recall)


def silence_for_one_record(patch: pytest.MonkeyPatch) -> None:
    whole = Device._answer

    def answer(self: Device, notice: Any, document: Any, record: Any, token: Any) -> Answer:
        if not record:
            raise DeviceError("record/empty", "There is nothing to report.")
        return whole(self, notice, document, record, token)

    patch.setattr(Device, "_answer", answer)


def coins_derived_from_the_record(patch: pytest.MonkeyPatch) -> None:
    """A fresh id and full price for every report, but equal records draw equal noise."""
    drawn: dict[str, bytes] = {}

    def recall(self: Device, notice: Any, document: Any, record: str, memo: dict[str, Any]) -> Answer | None:
        drawn.clear()
        drawn.update({one: payload for one, (_, payload) in memo.items()})
        return None

    whole = Device._draw

    def draw(self: Device, document: Any, pairs: Any, public: bytes) -> bytes:
        held = str({str(key): -1 if value < 0 else 1 for key, value in pairs})
        return drawn[held] if held in drawn else whole(self, document, pairs, public)

    patch.setattr(Device, "_draw", draw)
    _remembering(patch, recall)


def renewal_when_the_record_changes(patch: pytest.MonkeyPatch) -> None:
    """A standing report is drawn anew, and paid for, as soon as the record is another one."""
    whole = Device._id

    def recall(self: Device, notice: Any, document: Any, record: str, memo: dict[str, Any]) -> Answer | None:
        if memo and record != list(memo)[-1]:
            self._standing.end(notice.campaign.name)
        return None

    def identity(self: Device, *about: Any) -> bytes:
        count = self.vault.connection.execute("SELECT count(*) FROM memo").fetchone()[0]
        return bytes([count]) + whole(self, *about)[1:]

    patch.setattr(Device, "_id", identity)
    _remembering(patch, recall)


def raising_for_the_sake_of_a_record(patch: pytest.MonkeyPatch) -> None:
    def strict(record: Any, mechanism: Any) -> Preview:
        if record == {"0": 1}:
            raise RecordError("record/value", "This value looks like a mistake.")
        return Preview(mechanism.read(record))

    patch.setattr(device_module, "look_at", strict)


def half_paid(patch: pytest.MonkeyPatch) -> None:
    whole = Ledger.debit
    patch.setattr(Ledger, "debit", lambda self, entry: whole(self, replace(entry, epsilon=entry.epsilon / 2)))


def draws_booked_as_repetitions(patch: pytest.MonkeyPatch) -> None:
    """A second draw under an id that was used before is booked as a repetition."""
    patch.setattr(Pauses, "refuse", lambda *_: None)
    patch.setattr(StandingReports, "find", lambda *_: None)
    whole = Ledger.debit

    def debit(self: Ledger, entry: LedgerEntry) -> None:
        known = entry.report in [earlier.report for earlier in self.entries()]
        whole(self, replace(entry, epsilon=Fraction(0)) if known else entry)

    patch.setattr(Ledger, "debit", debit)


def drawn_again_until_acknowledged(patch: pytest.MonkeyPatch) -> None:
    """A report of which no answer came is taken for lost: the next attempt draws another one, under the same id."""
    whole = Device._answer

    def answer(self: Device, notice: Any, document: Any, record: Any, token: Any) -> Answer:
        parcel, outcome = whole(self, notice, document, record, token)
        if parcel is not None and not outcome.used and parcel.state == WAITING:
            pairs = look_at(record, document.mechanism).pairs
            parcel = replace(parcel, payload=self._draw(document, pairs, parcel.report))
        return parcel, outcome

    patch.setattr(Device, "_answer", answer)


def given_back_without_a_receipt(patch: pytest.MonkeyPatch) -> None:
    """What was sent and not acknowledged counts as never drawn, and is deleted from the ledger and the outbox."""
    whole = Outbox.mark

    def mark(self: Outbox, parcel: Parcel, state: str, code: str | None, attempts: int) -> None:
        whole(self, parcel, state, code, attempts)
        if state == WAITING:
            for table in ("entry", "outbox", "standing"):
                self._vault.connection.execute(f"DELETE FROM {table} WHERE report = ?", (parcel.report,))

    patch.setattr(Outbox, "mark", mark)


MUTANTS: list[tuple[Callable[[pytest.MonkeyPatch], None], dict[str, Any]]] = [
    (same_record_same_report, {}),
    (cap_after_memory, {}),
    (silence_for_one_record, PERIODS),
    (coins_derived_from_the_record, {}),
    (renewal_when_the_record_changes, PERIODS),
    (raising_for_the_sake_of_a_record, PERIODS),
    (half_paid, {}),
    (draws_booked_as_repetitions, PERIODS),
    (drawn_again_until_acknowledged, {}),
    (given_back_without_a_receipt, {}),
]


@pytest.mark.parametrize(("mutate", "terms"), MUTANTS, ids=lambda one: getattr(one, "__name__", ""))
def test_a_rule_that_leaks_is_rejected(
    mutate: Callable[[pytest.MonkeyPatch], None], terms: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    walk = Trajectories(KVUE, ONE_KEY, terms)
    with pytest.raises(Leak):
        walk.check_up_to(3)
