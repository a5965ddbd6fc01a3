"""The certificate of a device: everything that leaves it over whole trajectories, enumerated with its own code.

A *transcript* is what a collector served and answered, step by step, and every request that the device made, with its
headers and in its order. A *trajectory* is the record that its owner had at each step. For any transcript and any two
trajectories a and b the certificate asserts

    P[transcript | a] <= exp(epsilon booked on it) * P[transcript | b],    and the same epsilon is booked under both.

A collector that chooses what to serve by what it was sent follows some transcript too, and its choices have no
probability of their own; so to look at all sequences of steps is to look at all such collectors.

``Device`` itself runs, on a file in memory that is put back at every branch. Its coins are ``PathCoins``: each draw of
a whole number is walked through with its exact fraction. Its secret is fixed, so that the ids are symbols of which only
equality means anything; the public word of an id is one of the mechanism's ``every_word``.

Many transcripts lead to the same place: what may follow, and whether it tells too much, depends on the laws of the
hidden state and on the ratios of their probabilities alone. Each such place is walked from once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from fractions import Fraction
from functools import lru_cache
from hashlib import sha256
from typing import Any

import msgspec

from keyveil.campaign import verification
from keyveil.campaign.documents import Campaign
from keyveil.campaign.rounds import RoundDocument
from keyveil.core.epsilon import keeps
from keyveil.core.errors import KeyveilError
from keyveil.device import Caps, Device
from keyveil.device.place import Mark
from keyveil.device.upload import Patience
from keyveil.mechanisms.base import Mechanism
from keyveil.privacy.enumerate import PathCoins
from tests.device.collector import Collector, Request, Sleeper, Watch, lose_answer, view_of
from tests.device.owner import week

MAIN, OTHER = "snack-survey", "other-survey"
PERIOD_WEEKS = 2
STEPS = ("again", "next", "period", "other", "withdraw", "restore", "lost")
"""Served again (and sent again what waited), the next campaign, the first one of the next period, another series,
consent withdrawn and given, the file restored, and reports that arrive while their acknowledgement never does."""

Output = tuple[Request, ...]
Worlds = dict[frozenset[tuple[int, Fraction]], tuple[Fraction, Fraction]]
"""For every law of the hidden state given the transcript: the least and the largest probability of the transcript."""


@dataclass
class PlaceInMemory:
    """The mark beside a file in memory."""

    mark: Mark | None = None

    def number(self) -> int:
        return 1

    def read(self) -> Mark | None:
        return self.mark

    def write(self, mark: Mark) -> None:
        self.mark = mark


@dataclass(frozen=True)
class State:
    """All that a device is between two steps, and what has been booked on the way."""

    file: bytes
    mark: Mark | None
    week: int
    booked: Fraction
    rows: Any  # what the file says, by which states are compared


@dataclass
class Leak(AssertionError):
    """A transcript that tells more than was booked on it."""

    steps: tuple[str, ...]
    why: str

    def __str__(self) -> str:
        return f"{' > '.join(self.steps)}: {self.why}"


@dataclass
class Trajectories:
    """Walks all transcripts of a device that answers two series about one schema."""

    protocol: dict[str, Any]
    records: list[Any]
    terms: dict[str, Any] = field(default_factory=dict)
    draws: int = 2  # so many the cap allows
    forgotten: bool = False  # the restored file takes its mark along: nothing is noticed
    shift: int = 0  # which of the mechanism's public words an id stands for
    look: Callable[[Device], Any] = lambda device: None  # what a mutant keeps besides the file

    def __post_init__(self) -> None:
        self.collector, self.watch = Collector(), Watch()
        self.schema = {"keys": 2 if self.protocol["name"] == "ssr" else 1}
        self._made: dict[tuple[str, int], tuple[RoundDocument, bytes]] = {}
        price = self._asked(MAIN, 0)[0].cost
        caps = Caps(schema_period=100, schema_life=100, period=100, life=self.draws * price)
        self._serve(0)
        self.device = Device(":memory:", self.collector, caps, self.watch, sleep=Sleeper())
        self.device.vault.connection.execute("UPDATE device SET secret = ?", (bytes(32),))
        for name in (MAIN, OTHER):
            self.device.consent(name)
        self.device.vault.place = PlaceInMemory()  # type: ignore[assignment]
        self.device.vault.settle(anew=True)
        self.states: list[State] = []
        self.known: dict[Any, int] = {}
        self.moves: dict[tuple[int, str, int], dict[Output, dict[int, Fraction]]] = {}
        self.runs = self.transcripts = 0
        self.walked: dict[tuple[Any, int], int] = {}
        self.first = self._state(0, Fraction(0))

    def check(self, steps: int) -> None:
        """Raise ``Leak`` at the first transcript that tells more than its ledger says; count the transcripts."""
        with Words(self.shift), LongMemory():
            start: Worlds = {frozenset({(self.first, Fraction(1))}): (Fraction(1), Fraction(1))}
            self.transcripts = self._walk((), start, steps)

    def check_up_to(self, steps: int) -> None:
        """``check`` with two steps, then three, …: what few steps show is found at once."""
        for count in range(2, steps + 1):
            self.check(count)

    def _walk(self, taken: tuple[str, ...], worlds: Worlds, left: int) -> int:
        """How many transcripts of at most ``left`` further steps there are from here, this one included."""
        least = min(low for low, _ in worlds.values())
        place = frozenset((law, low / least, high / least) for law, (low, high) in worlds.items()), left
        if place not in self.walked:
            count = 1
            for step in STEPS if left else ():
                steps = (*taken, step)
                count += sum(self._walk(steps, following, left - 1) for following in self._outcomes(steps, worlds))
            self.walked[place] = count
        return self.walked[place]

    def _outcomes(self, steps: tuple[str, ...], worlds: Worlds) -> Iterator[Worlds]:
        """The worlds after one more step, for every output that it can have; each of them is checked."""
        cases = []
        for law, extremes in worlds.items():
            for record in range(len(self.records)):
                outputs: dict[Output, dict[int, Fraction]] = {}
                for state, share in law:
                    for output, into in self._move(state, steps[-1], record).items():
                        masses = outputs.setdefault(output, {})
                        for target, mass in into.items():
                            masses[target] = masses.get(target, Fraction(0)) + share * mass
                cases.append((extremes, outputs))
        for output in {output for _, outputs in cases for output in outputs}:
            following: Worlds = {}
            for (least, most), outputs in cases:
                if output not in outputs:
                    raise Leak(steps, "it is impossible under another trajectory")
                total = sum(outputs[output].values(), Fraction(0))
                law = frozenset((state, mass / total) for state, mass in outputs[output].items())
                low, high = following.get(law, (least * total, most * total))
                following[law] = min(low, least * total), max(high, most * total)
            self._judge(steps, following)
            yield following

    def _judge(self, steps: tuple[str, ...], worlds: Worlds) -> None:
        booked = {self.states[state].booked for law in worlds for state, _ in law}
        if len(booked) > 1:
            raise Leak(steps, "what is booked differs between trajectories")
        ratio = max(high for _, high in worlds.values()) / min(low for low, _ in worlds.values())
        (epsilon,) = booked
        if ratio > 1 and (not epsilon or not keeps(ratio, epsilon)):
            raise Leak(steps, f"the ratio {float(ratio):.4f} exceeds exp({float(epsilon):.4f})")

    # -- one step of one device ---------------------------------------------------------------------------------

    def _move(self, state: int, step: str, record: int) -> dict[Output, dict[int, Fraction]]:
        """The exact law of what leaves and of the state afterwards; computed once."""
        place = state, step, record
        if place not in self.moves:
            masses: dict[Output, dict[int, Fraction]] = {}
            coins, more = PathCoins(), True
            while more:
                output, after = self._run(self.states[state], step, self.records[record], coins)
                into = masses.setdefault(output, {})
                into[after] = into.get(after, Fraction(0)) + Fraction(*coins.odds)
                more = coins.next_path()
            self.moves[place] = masses
        return self.moves[place]

    def _run(self, state: State, step: str, record: Any, coins: PathCoins) -> tuple[Output, int]:
        self.runs += 1
        device, name = self.device, OTHER if step == "other" else MAIN
        ahead = {"next": 1, "period": PERIOD_WEEKS - state.week % PERIOD_WEEKS}.get(step, 0)
        self._put_back(self.states[self.first] if step == "restore" else state)
        if not (step == "restore" and self.forgotten):
            device.vault.place.mark = state.mark  # type: ignore[union-attr]
        self._serve(state.week + ahead)
        before, device._coins = self._booked(), coins
        self.collector.requests.clear()
        self.collector.script = [lose_answer] * Patience().tries if step == "lost" else []
        try:
            if step == "withdraw":
                device.withdraw(name)
                device.consent(name)
            if step == "again":
                device.flush()
            device.report(name, record)
        except KeyveilError:
            pass
        return tuple(self.collector.requests), self._state(state.week + ahead, state.booked + self._booked() - before)

    def _booked(self) -> Fraction:
        return sum((entry.epsilon for entry in self.device.ledger()), Fraction(0))

    def _state(self, weeks: int, booked: Fraction) -> int:
        connection, mark = self.device.vault.connection, self.device.vault.place.mark  # type: ignore[union-attr]
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = tuple(tuple(connection.execute(f'SELECT * FROM "{name}"')) for name in names)
        key = rows, mark, weeks, booked, self.look(self.device)
        if key not in self.known:
            self.known[key] = len(self.states)
            self.states.append(State(connection.serialize(), mark, weeks, booked, key[-1]))
        return self.known[key]

    def _put_back(self, state: State) -> None:
        self.device.vault.connection.deserialize(state.file)
        self.device.vault.place.mark = state.mark  # type: ignore[union-attr]
        self.watch.now = Watch().now + timedelta(days=7 * state.week)

    def _serve(self, weeks: int) -> None:
        self.watch.now = Watch().now + timedelta(days=7 * weeks)
        for name in (MAIN, OTHER):
            self.collector.views[name] = self._asked(name, weeks)[1]

    def _asked(self, name: str, weeks: int) -> tuple[RoundDocument, bytes]:
        place = name, weeks
        made = self._made
        if place not in made:
            document = week(weeks, name=name, schema=self.schema, protocol=self.protocol, **self.terms)
            campaign = Campaign.from_document(document)
            first = campaign.protocol.next_round([])
            assert first is not None
            asked = RoundDocument.of(campaign, first)
            made[place] = asked, msgspec.json.encode(view_of(campaign, asked))
        return self._made[place]


class Words:
    """While it lasts, the public word of an id is one of those that a mechanism enumerates, chosen by the id."""

    def __init__(self, shift: int) -> None:
        self.shift, self.whole = shift, Mechanism.word

    def __enter__(self) -> None:
        shift = self.shift

        def word(self: Mechanism, public: bytes) -> int:
            words = list(self.every_word())
            return words[(sha256(public).digest()[0] + shift) % len(words)]

        Mechanism.word = word  # type: ignore[method-assign]

    def __exit__(self, *_: object) -> None:
        Mechanism.word = self.whole  # type: ignore[method-assign]


class LongMemory:
    """While it lasts, a device keeps every document that it has read: the walk returns to each many times."""

    def __enter__(self) -> None:
        self.whole = verification._without_dictionary
        verification._without_dictionary = lru_cache(maxsize=None)(self.whole.__wrapped__)

    def __exit__(self, *_: object) -> None:
        verification._without_dictionary = self.whole
