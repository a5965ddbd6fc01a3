"""A hostile collector and a gullible owner: whatever is asked, in whatever order, what leaves stays within the caps.

What left is counted from the bytes that the collector received, with prices that the test computes from what was
served; the device's own books are not believed. Mutants of the device must be caught by the same machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from keyveil.campaign.documents import Campaign
from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.wire import Batch
from keyveil.core.epsilon import log_ceiling
from keyveil.core.errors import KeyveilError
from keyveil.device import Caps, Device, HttpAnswer, Outcome, Patience
from keyveil.device import device as device_module
from keyveil.device.consent import Consents
from keyveil.device.ledger import Ledger, LedgerEntry, Line
from keyveil.device.outbox import Parcel
from keyveil.device.vault import Vault
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.registry import create, registered
from keyveil.mechanisms.rounds.privkvm import PrivKVRound
from keyveil.mechanisms.rounds.set_size import SizeQuestion
from keyveil.privacy.budget import Budget
from keyveil.protocols.base import EVERYONE, Part, Round
from tests.device.collector import (
    Collector,
    Sleeper,
    Watch,
    accept,
    document,
    json_answer,
    later_round,
    lose_answer,
    problem,
    refuse,
)
from tests.device.overdrawn import Overdrawn

# Near enough to each other that a walk of forty steps meets every one of them.
CAPS = Caps(days=30, schema_period=2, schema_life=Fraction(5, 2), period=Fraction(5, 2), life=3)
NAMES = ["one", "two", "three"]
SCHEMAS = [{"keys": ["a", "b"]}, {"keys": ["a", "b"], "high": 2}, {"keys": ["a", "b", "c"]}]
OVERDRAWN: dict[str, Any] = {"name": "overdrawn", "epsilon": "1.2", "rounds": 3}  # declares more than its budget
PROTOCOLS: list[dict[str, Any]] = [
    {"name": "kvue", "epsilon": "1"},
    {"name": "kvue", "epsilon": "0.4"},
    {"name": "ssr", "epsilon": "0.7", "max_pairs": 2},
    {"name": "privkvm", "epsilon": "1.2", "rounds": 3},
    OVERDRAWN,
    {"name": "pilot", "epsilon": "1.5"},
]
RECORDS: list[dict[str, float]] = [{}, {"a": 1}, {"a": -1, "b": 0.5}, {"c": 0}]
PARTS = [EVERYONE, EVERYONE, Part(Fraction(0), Fraction(1, 2)), Part(Fraction(1, 2), Fraction(1))]
EPSILONS = ["0.2", "0.5", "0.9", "2"]
MEANS = ("privkvm", "overdrawn")  # protocols that announce means

names, schemas, protocols = st.sampled_from(NAMES), st.sampled_from(SCHEMAS), st.sampled_from(PROTOCOLS)
records, parts, epsilons = st.sampled_from(RECORDS), st.sampled_from(PARTS), st.sampled_from(EPSILONS)
kinds, means = (
    st.sampled_from(["declared", "fitting", "kvue", "ssr", "privkv-round", "set-size"]),
    st.sampled_from([-65536, 0, 31]),
)


def server_error(batch: Batch) -> HttpAnswer:
    return problem(503, "storage/unavailable")


def nonsense(batch: Batch) -> HttpAnswer:
    return json_answer({"accepted": "yes"})


def late(batch: Batch) -> HttpAnswer:
    return problem(409, "round/closed")


ANSWERS: list[Callable[[Batch], HttpAnswer]] = [accept, refuse, lose_answer, server_error, nonsense, late]


@pytest.fixture(autouse=True)
def overdrawn() -> Iterator[None]:
    with registered("overdrawn", Overdrawn):
        yield


class HostileCollector(RuleBasedStateMachine):
    """Serves what it likes; the owner agrees to everything."""

    def __init__(self) -> None:
        super().__init__()
        self.watch, self.collector = Watch(), Collector()
        self.device = Device(
            ":memory:", self.collector, CAPS, self.watch, SeededCoins(1), patience=Patience(tries=2), sleep=Sleeper()
        )
        self.campaigns: dict[str, Campaign] = {}  # by name, now
        self.rounds: dict[str, int] = {}  # the last one of each
        self.served: dict[str, tuple[Campaign, RoundDocument]] = {}  # by hash of the round's document, ever
        self.views: list[tuple[str, Any]] = []
        for name in NAMES:
            self._open(name, SCHEMAS[0], PROTOCOLS[0], False)

    def teardown(self) -> None:
        self.device.close()

    # -- the collector --------------------------------------------------------------------------------------------

    @rule(name=names, schema=schemas, protocol=protocols, dated=st.booleans(), record=records)
    def ask(self, name: str, schema: Any, protocol: Any, dated: bool, record: Any) -> None:
        """A new campaign under any name."""
        self._open(name, schema, protocol, dated)
        self._agree_and_report(name, record)

    @rule(name=names, record=records, skip=st.integers(1, 2), kind=kinds, epsilon=epsilons, mean=means, part=parts)
    def ask_on(self, name: str, record: Any, skip: int, kind: str, epsilon: str, mean: int, part: Part) -> None:
        """One more round of a campaign, about anything."""
        self._open_round(name, self.rounds[name] + skip, kind, epsilon, mean, part)
        self._agree_and_report(name, record)

    @rule(name=names, record=records, schema=schemas, epsilon=epsilons, mean=means)
    def ask_more_and_more(self, name: str, record: Any, schema: Any, epsilon: str, mean: int) -> None:
        """All rounds of a protocol that announces means, each at the price that somebody else has declared for it."""
        self._open(name, schema, {**OVERDRAWN, "each": epsilon}, False)
        self._agree_and_report(name, record)
        for number in range(2, OVERDRAWN["rounds"] + 1):
            told = mean if number % 2 else -mean  # another question than in the round before
            self._open_round(name, number, "declared", epsilon, told, EVERYONE)
            self._agree_and_report(name, record)

    @rule(name=names, number=st.integers(1, 5), kind=kinds, epsilon=epsilons, mean=means, part=parts)
    def open_any_round(self, name: str, number: int, kind: str, epsilon: str, mean: int, part: Part) -> None:
        self._open_round(name, number, kind, epsilon, mean, part)

    @rule(which=st.integers(0, 100), name=names, said=epsilons, trick=st.sampled_from(["replay", "mix up", "lie"]))
    def cheat(self, which: int, name: str, said: str, trick: str) -> None:
        """Serve something from the past, the round of another campaign, or a lie about epsilon."""
        past_name, past = self.views[which % len(self.views)]
        if trick == "replay":
            self.collector.views[past_name] = past
        elif trick == "mix up":
            self.collector.views[name] = {**self.collector.views[name], "round": past["round"]}
        else:
            lie = {**past["round"], "document": {**past["round"]["document"], "epsilon": said}}
            self.collector.views[past_name] = {**past, "round": lie}

    @rule(answers=st.lists(st.sampled_from(ANSWERS), max_size=4))
    def decide_answers(self, answers: list[Callable[[Batch], HttpAnswer]]) -> None:
        self.collector.script = list(answers)

    # -- the owner ------------------------------------------------------------------------------------------------

    @rule(name=names, record=records, agree=st.booleans())
    def report(self, name: str, record: Any, agree: bool) -> None:
        if agree:
            self._agree_and_report(name, record)
        else:
            self._quietly(lambda: self.device.report(name, record))

    @rule()
    def flush(self) -> None:
        self._quietly(self.device.flush)

    @rule(name=names)
    def withdraw(self, name: str) -> None:
        self.device.withdraw(name)

    @rule(days=st.sampled_from([1, 7, 31, 400, -1, -40, -500]))
    def time_passes(self, days: int) -> None:
        self.watch.days_later(days)

    # -- what must hold -------------------------------------------------------------------------------------------

    @invariant()
    def released_epsilon_stays_within_the_caps(self) -> None:
        released = self._released()
        assert sum(price for *_, price in released) <= Fraction(CAPS.life)
        for schema in {campaign.schema.hash for campaign, *_ in released}:
            assert sum(price for one, _, price in released if one.schema.hash == schema) <= Fraction(CAPS.schema_life)
        for campaign in {one.hash: one for one, *_ in released}.values():
            spent = sum(price for one, _, price in released if one.hash == campaign.hash)
            assert spent <= campaign.protocol.epsilon

    @invariant()
    def the_ledger_never_shows_less_than_what_left(self) -> None:
        assert sum(one.epsilon for one in self.device.ledger()) >= sum(price for *_, price in self._released())

    @invariant()
    def nobody_answers_a_round_twice(self) -> None:
        reports: dict[tuple[str, int], set[Any]] = {}
        for batch in self.collector.received:
            campaign, asked = self.served[batch.document]
            reports.setdefault((campaign.hash, asked.number), set()).update(batch)
        assert all(len(of_round) == 1 for of_round in reports.values())

    @invariant()
    def every_period_stays_within_its_caps(self) -> None:
        """By the days of the ledger: what was drawn in a period may be sent after it."""
        entries = self.device.ledger()
        days = [entry.day for entry in entries]
        assert days == sorted(days)
        for last in set(days):
            recent = [one for one in entries if 0 <= (last - one.day).days < CAPS.days]
            assert sum(one.epsilon for one in recent) <= Fraction(CAPS.period)

    def _released(self) -> list[tuple[Campaign, RoundDocument, Fraction]]:
        """Every distinct report that the collector holds, with the campaign that got it first and its exact price."""
        distinct: dict[Any, tuple[Campaign, RoundDocument]] = {}
        for batch in self.collector.received:
            campaign, asked = self.served[batch.document]
            for report in batch:
                distinct.setdefault((campaign.name, asked.mechanism.fingerprint, report), (campaign, asked))
        return [(campaign, asked, _price(asked.mechanism)) for campaign, asked in distinct.values()]

    def _open(self, name: str, schema: Any, protocol: Any, dated: bool) -> None:
        rounds = [{"opens": self.watch().date().isoformat()}] if dated else [{}]
        made = document(name=name, schema=schema, protocol=protocol, rounds=rounds)
        self.campaigns[name] = Campaign.from_document(made)
        first = self.campaigns[name].protocol.next_round([])
        assert first is not None
        self._serve(self.campaigns[name], first)

    def _open_round(self, name: str, number: int, kind: str, epsilon: str, mean: int, part: Part) -> None:
        campaign = self.campaigns[name]
        course = campaign.protocol.course
        if kind == "declared" and number <= len(course):
            announced = {"fake": (mean,) * campaign.schema.d} if number > 1 and campaign.protocol.name in MEANS else {}
            self._serve(campaign, later_round(campaign, number, **announced))
        else:
            self._serve(campaign, Round(number, _question(kind, campaign, Fraction(epsilon), mean), part))

    def _serve(self, campaign: Campaign, asked: Round) -> None:
        self.collector.open(campaign.document(), asked)
        written = RoundDocument.of(campaign, asked)
        self.served[written.hash] = campaign, written
        self.rounds[campaign.name] = asked.number
        self.views.append((campaign.name, self.collector.views[campaign.name]))

    def _agree_and_report(self, name: str, record: Any) -> None:
        self._quietly(lambda: self.device.consent(name))
        self._quietly(lambda: self.device.report(name, record))

    def _quietly(self, call: Callable[[], Any]) -> None:
        try:
            call()
        except KeyveilError:
            pass


def _price(mechanism: Mechanism) -> Fraction:
    return Fraction(log_ceiling(mechanism.ratio))


def _question(kind: str, campaign: Campaign, epsilon: Fraction, mean: int) -> Mechanism:
    schema = campaign.schema
    if kind in ("fitting", "declared"):  # the mechanism of the protocol, though at any price, or beyond its end
        kind = campaign.protocol.longest()[-1].mechanism.name
    if kind == "privkv-round":
        return PrivKVRound(schema, epsilon, Fraction(0), (mean,) * schema.d)
    if kind == "set-size":
        return SizeQuestion(schema, epsilon, 2)
    return create(kind, schema, epsilon, **({"max_pairs": 1} if kind == "ssr" else {}))


SEARCH = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck), print_blob=False
)


def test_whatever_a_collector_does_released_epsilon_stays_within_the_caps() -> None:
    run_state_machine_as_test(HostileCollector, settings=SEARCH)


def _unpaid(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "debit", lambda self, entry: None)


def _uncapped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(device_module, "refuse_beyond", lambda cost, lines: None)


def _forgets_life(patch: pytest.MonkeyPatch) -> None:
    whole = Ledger.lines

    def lines(self: Ledger, *about: Any, **more: Any) -> list[Line]:
        return [one for one in whole(self, *about, **more) if "days" in one.what]

    patch.setattr(Ledger, "lines", lines)


def _forgets_the_campaign(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "campaign", lambda self, series, campaign, epsilon: Line("nothing", Budget(epsilon)))


def _forgets_with_consent(patch: pytest.MonkeyPatch) -> None:
    whole = Consents.withdraw

    def withdraw(self: Consents, series: str) -> None:
        whole(self, series)
        self._vault.connection.execute("DELETE FROM entry WHERE series = ?", (series,))

    patch.setattr(Consents, "withdraw", withdraw)


def _draws_for_every_upload(patch: pytest.MonkeyPatch) -> None:
    """Every attempt sends a fresh draw instead of the stored bytes."""
    whole = Device._send

    def send(self: Device, parcel: Parcel, outcome: Outcome) -> Outcome:
        asked = self._read(parcel.name).open_round
        if asked is None or asked.hash != parcel.document:
            return whole(self, parcel, outcome)
        return whole(self, replace(parcel, payload=self._draw(asked, [], parcel.report)), outcome)

    patch.setattr(Device, "_send", send)


def _takes_every_question_for_an_old_one(patch: pytest.MonkeyPatch) -> None:
    """The first answer to a series is paid for; whatever is asked then is drawn, and booked as a repetition."""
    whole = Ledger.debit

    def debit(self: Ledger, entry: LedgerEntry) -> None:
        known = any(earlier.series == entry.series for earlier in self.entries())
        whole(self, replace(entry, epsilon=Fraction(0), free=True) if known else entry)

    patch.setattr(Ledger, "debit", debit)


def _clock_gives_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Vault, "today", lambda self: self._clock().date())


MUTANTS = [
    _unpaid,
    _uncapped,
    _forgets_life,
    _forgets_the_campaign,
    _forgets_with_consent,
    _draws_for_every_upload,
    _takes_every_question_for_an_old_one,
    _clock_gives_back,
]


@pytest.mark.parametrize("mutate", MUTANTS, ids=lambda mutate: mutate.__name__.strip("_"))
def test_a_device_that_cheats_is_caught(
    mutate: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(HostileCollector, settings=settings(SEARCH, phases=[Phase.generate]))
