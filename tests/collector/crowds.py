"""Many devices at once, as far as a collector can tell: prepared batches, sent until they are acknowledged."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from keyveil.campaign.documents import Campaign
from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.transport import HttpAnswer
from keyveil.campaign.wire import PACKED, Batch, pad
from keyveil.core.coins import Coins
from keyveil.core.errors import TransportError
from keyveil.core.tally import Tally
from keyveil.device.transport import HttpTransport
from keyveil.lab.datasets import independent
from keyveil.mechanisms.base import Mechanism
from tests.collector.campaigns import count, snacks
from tests.collector.processes import Served, served
from tests.postgres import PostgreSQL

TOKEN = "an-admin-token-for-tests-only"
SHARES = np.linspace(0.5, 0.05, 20)
MEANS = np.linspace(-0.8, 0.8, 20)


def survey(**fields: Any) -> dict[str, Any]:
    """A campaign with twenty keys whose round never has enough."""
    asked = {"name": "ssr", "epsilon": "1", "max_pairs": 5}
    schema = {"keys": 20, "low": -1, "high": 1}
    return snacks(**{"protocol": asked, "schema": schema, "rounds": [{}], "min_reports": 1, **fields})


class Restarts:
    """What is ended and started again while a test runs, so that whoever waits knows how that goes."""

    def __init__(self) -> None:
        self.pending = 0  # not back yet
        self.finished = 0
        self.failed: Exception | None = None  # why one did not come back

    @contextmanager
    def one(self) -> Iterator[None]:
        """Something is ended and started again in here."""
        self.pending += 1
        try:
            yield
            self.finished += 1
        except Exception as reason:
            self.failed = reason
            raise
        finally:
            self.pending -= 1


class Cluster:
    """Collector processes on one database, each on its own port, which it keeps when it is started again."""

    def __init__(self, folder: Path, url: str, processes: int = 1, **environment: str) -> None:
        self._folder, self._url = folder, url
        self._environment = {**environment, "KEYVEIL_ADMIN_TOKEN_FILE": str(folder / "token")}
        (folder / "token").touch(0o600)
        (folder / "token").write_text(TOKEN)
        self._stacks = [ExitStack() for _ in range(processes)]
        self._ports = [0] * processes
        self.restarts = Restarts()
        self.running: list[Served] = []
        for number in range(processes):
            self.running.append(self._start(number))
            self._ports[number] = self.running[number].port

    def _start(self, number: int) -> Served:
        folder = self._folder / f"collector-{number}"
        flags = "--database", self._url, "--port", str(self._ports[number])
        return self._stacks[number].enter_context(served(folder, *flags, **self._environment))

    def kill(self, number: int) -> None:
        """As a power cut would, and back again."""
        with self.restarts.one():
            self.end(number)
            self.start(number)

    def end(self, number: int) -> None:
        """As a power cut would."""
        self.running[number].process.kill()
        self._stacks[number].close()

    def start(self, number: int) -> None:
        """Bring back a process that was ended."""
        self.running[number] = self._start(number)

    def close(self) -> None:
        for stack in self._stacks:
            stack.close()

    def transports(self) -> list[HttpTransport]:
        return [HttpTransport(f"http://127.0.0.1:{port}", timeout=20) for port in self._ports]

    def ask(self, method: str, path: str, body: Any = None) -> HttpAnswer:
        """What an admin asks the first collector, patiently."""
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        data = b"" if body is None else json.dumps(body).encode()
        return patiently(lambda: self.transports()[0].request(method, path, data, headers), self.restarts)

    def open(self, document: dict[str, Any]) -> RoundDocument:
        """A campaign that takes reports."""
        assert self.ask("POST", "/v1/campaigns", document).status == 201
        assert self.ask("PATCH", f"/v1/campaigns/{document['name']}", {"action": "open"}).status == 200
        return self.round(document["name"])

    def round(self, name: str) -> RoundDocument:
        view = json.loads(self.ask("GET", f"/v1/campaigns/{name}").body)
        return RoundDocument.from_document(view["round"]["document"], Campaign.from_document(view["campaign"]))

    def journal(self) -> list[Any]:
        entries: list[Any] = json.loads(self.ask("GET", "/v1/journal").body)["entries"]
        return entries

    def tally(self, name: str, patience: float = 60) -> Tally:
        """The final counts, once the campaign has been stopped and everything is folded."""
        self.ask("PATCH", f"/v1/campaigns/{name}", {"action": "stop"})
        waiting = Patience(self.restarts, patience, "The round is stuck.")
        while json.loads(self.ask("GET", f"/v1/campaigns/{name}").body)["state"] != "estimated":
            waiting.pause()
        return Tally.from_bytes(self.ask("GET", f"/v1/campaigns/{name}/tally").body)


@contextmanager
def cluster(folder: Path, url: str, processes: int = 1, **environment: str) -> Iterator[Cluster]:
    started = Cluster(folder, url, processes, **environment)
    try:
        yield started
    finally:
        started.close()


def reports(document: RoundDocument, people: int, size: int, seed: int = 1) -> list[Batch]:
    """Batches of reports of a synthetic population."""
    mechanism = document.mechanism
    population = independent(people, SHARES, MEANS, seed)
    batches: list[Batch] = []
    for block in mechanism.reports(population.records(mechanism.schema), Coins()):
        padded = encoded(document, mechanism, block.payloads)
        ids = [row.tobytes() for row in block.publics]
        batches += [
            Batch(document.number, document.hash, tuple(ids[at : at + size]), padded[at : at + size])
            for at in range(0, len(ids), size)
        ]
    return batches


def encoded(document: RoundDocument, mechanism: Mechanism, rows: Any) -> tuple[bytes, ...]:
    codec = mechanism.codec
    return tuple(pad(codec.encode(one), document.report_bytes, codec.varies) for one in codec.unstack(rows))


def direct(document: RoundDocument, mechanism: Mechanism, batches: Sequence[Batch]) -> Tally:
    """The tally of the same reports without any collector."""

    return count(document, [report for batch in batches for report in batch])


class Patience:
    """A wait that ends when nothing has come back for some seconds: on a busy machine a start takes minutes."""

    def __init__(self, restarts: Restarts, seconds: float, otherwise: str) -> None:
        self._restarts, self._seconds, self._otherwise = restarts, seconds, otherwise
        self._finished, self._end = -1, 0.0

    def pause(self) -> None:
        """Wait a moment; fails if nothing happened for too long."""
        seen = self._restarts
        assert seen.failed is None, f"A collector or its database could not be started again: {seen.failed}"
        if seen.pending or seen.finished != self._finished:
            self._finished, self._end = seen.finished, time.monotonic() + self._seconds
        assert time.monotonic() < self._end, self._otherwise
        time.sleep(0.1)


def patiently(request: Callable[[], HttpAnswer], restarts: Restarts | None = None) -> HttpAnswer:
    """What a device does: the same again, until there is an answer that is no plea for patience."""
    waiting = Patience(restarts or Restarts(), 150, "The collector did not come back.")
    while True:
        try:
            answer = request()
        except TransportError:
            waiting.pause()
            continue
        if answer.status not in (429, 503):
            return answer
        waiting.pause()


def send_all(
    cluster: Cluster, name: str, batches: Sequence[Batch], threads: int = 6, late: bool = False
) -> list[dict[str, Any]]:
    """Send every batch until it is acknowledged; some are sent twice, to any of the collectors.

    Where that is expected (``late``), a copy may come when the round has closed already.
    """
    doors = cluster.transports()
    path, headers = f"/v1/campaigns/{name}/reports", {"Content-Type": PACKED}

    def send(number: int) -> dict[str, Any]:
        chance = Random(number)
        body = batches[number].to_packed()
        for _ in range(2 if chance.random() < 0.1 else 1):
            door = chance.choice(doors)
            answer = patiently(partial(door.request, "POST", path, body, headers), cluster.restarts)
            assert answer.status == 200 or (late and b"round/closed" in answer.body), answer.body
        told: dict[str, Any] = json.loads(answer.body)
        return told

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(send, range(len(batches))))


class Killer(threading.Thread):
    """Kills collectors at random moments until told to stop; every fifth time the database instead, if it may."""

    def __init__(self, cluster: Cluster, times: int, database: PostgreSQL | None = None) -> None:
        super().__init__(daemon=True)
        self.kills, self.restarts, self._cluster, self._times = 0, 0, cluster, times
        self._database = database
        self._over = threading.Event()
        self._chance = Random(int.from_bytes(os.urandom(4), "little"))

    def run(self) -> None:
        start = 0.0  # seconds that the last start took: where that is long, answers take long, too
        while self.kills < self._times and not self._over.wait(self._chance.uniform(0.05, 0.8 + start)):
            begin = time.monotonic()
            if self._database is not None and self.kills % 5 == 4 and self.restarts <= self.kills // 5:
                with self._cluster.restarts.one():
                    self._database.stop("immediate")
                    self._database.start()
                self.restarts += 1
            else:
                self._cluster.kill(self._chance.randrange(len(self._cluster.running)))
                self.kills += 1
            start = time.monotonic() - begin

    @property
    def done(self) -> bool:
        return self.kills >= self._times

    def stop(self) -> None:
        self._over.set()
        self.join()
