"""A stranger with eight connections and large requests, valid or not: everybody else is still served."""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from benchmarks.load import Outcome, closed_loop, open_loop, request
from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.wire import LARGEST, Batch
from tests.collector.campaigns import batch_of
from tests.collector.crowds import Cluster, cluster, survey
from tests.collector.processes import COMPILED, served

CONNECTIONS = 8


def wide(keys: int, **fields: Any) -> dict[str, Any]:
    """A campaign whose reports are long."""
    return survey(
        schema={"keys": keys, "low": 0, "high": 1},
        protocol={"name": "pckv-ue", "epsilon": "1", "max_pairs": 2},
        **fields,
    )


def requests(document: RoundDocument, payloads: tuple[bytes, ...], each: int) -> Iterator[bytes]:
    """Requests with ever new ids."""
    for start in count(0, each):
        ids = os.urandom(16 * each)
        some = tuple(payloads[(start + at) % len(payloads)] for at in range(each))
        yield request(
            "snacks",
            Batch(
                document.number, document.hash, tuple(ids[16 * at : 16 * at + 16] for at in range(each)), some
            ).to_packed(),
        )


def spoilt(payload: bytes) -> bytes:
    """Wrong only at its end, so that all of it has to be read."""
    end = len(payload.rstrip(b"\0")) - 2
    return payload[:end] + bytes([payload[end] ^ 0xFF, 0xFF]) + payload[end + 2 :]


def attack(port: int, document: RoundDocument, payloads: tuple[bytes, ...], each: int, seconds: float) -> None:
    closed_loop(port, requests(document, payloads, each), each, CONNECTIONS, seconds)


def others(one: Cluster, keys: int, rate: float, seconds: float, hostile: str | None) -> Outcome:
    """What happens to single uploads of others, with or without a stranger who sends as much as is taken."""
    name = f"k{keys}"
    document, port = one.round("snacks"), one.running[0].port
    payloads = _PAYLOADS.setdefault(name, batch_of(document, 3, ({}, {"1": 1.0})).payloads)
    if hostile is not None:
        each = (LARGEST - 1000) // (document.report_bytes + 16)
        sent = payloads if hostile == "valid" else tuple(spoilt(payload) for payload in payloads)
        stranger = multiprocessing.get_context("spawn").Process(
            target=attack, args=(port, document, sent, min(each, 10_000), seconds + 2), daemon=True
        )
        stranger.start()
        time.sleep(2)
    try:
        return open_loop(port, requests(document, payloads, 1), 1, rate, seconds, most=16)
    finally:
        if hostile is not None:
            stranger.join(120)


_PAYLOADS: dict[str, tuple[bytes, ...]] = {}


def test_others_are_served_while_a_stranger_sends_large_requests(tmp_path: Path) -> None:
    with cluster(tmp_path, f"sqlite:///{tmp_path / 'keyveil.db'}", 1, **COMPILED) as one:
        one.open(wide(3000))
        for hostile in ("valid", "invalid"):
            told = others(one, 3000, 20, 1, hostile)
            assert told.statuses == {200: 20}
            refused = json.loads(one.ask("GET", "/v1/campaigns/snacks/status").body)["refused"]
            assert ("report/malformed" in refused) == (hostile == "invalid")


@pytest.mark.soak
@pytest.mark.parametrize("hostile", ["valid", "invalid"])
def test_a_stranger_makes_nobody_wait_long(
    tmp_path: Path, hostile: str, record_property: Callable[[str, object], None]
) -> None:
    """At as many keys as devices take, the slowest hundredth of others' uploads takes at most five times as long."""
    with cluster(tmp_path, f"sqlite:///{tmp_path / 'keyveil.db'}", 1, KEYVEIL_CONNECTIONS="100", **COMPILED) as one:
        one.open(wide(65_536))
        others(one, 65_536, 5, 3, None)  # warm
        alone = others(one, 65_536, 5, 40, None)
        together = others(one, 65_536, 5, 40, hostile)
    record_property("p99 ms alone", round(1000 * alone.wait(99)))
    record_property("p99 ms beside a stranger", round(1000 * together.wait(99)))
    record_property("answers", dict(together.statuses))
    assert set(together.statuses) == {200}
    assert together.wait(99) <= 5 * alone.wait(99)


# -- heads -----------------------------------------------------------------------------------------------------------


def answer_to(port: int, *pieces: bytes, pause: float = 0.0) -> bytes:
    """What a server says to some bytes before it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as door:
        for piece in pieces:
            try:
                door.sendall(piece)
            except OSError:
                break
            time.sleep(pause)
        said = b""
        try:
            while more := door.recv(65536):
                said += more
        except OSError:
            pass
        return said


def test_heads_have_a_size_and_a_time_and_addresses_a_number_of_connections(tmp_path: Path) -> None:
    limits = {"KEYVEIL_HEAD_SECONDS": "0.5", "KEYVEIL_CONNECTIONS_PER_ADDRESS": "5"}
    with served(tmp_path / "one", **limits) as server:
        whole = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        assert answer_to(server.port, whole).startswith(b"HTTP/1.1 200")
        assert answer_to(
            server.port, b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 20_000 + b"\r\n\r\n"
        ).startswith(b"HTTP/1.1 400")
        endless = answer_to(server.port, b"GET /healthz HTTP/1.1\r\nX: ", *[b"y" * 100_000] * 10)
        assert endless == b"" or endless.startswith(b"HTTP/1.1 400")
        assert answer_to(server.port, b"GET /he").startswith(b"HTTP/1.1 400")  # slow: the rest never comes
        assert answer_to(server.port).startswith(b"HTTP/1.1 400")  # silent
        doors = [socket.create_connection(("127.0.0.1", server.port), timeout=30) for _ in range(5)]
        try:
            time.sleep(0.2)
            assert answer_to(server.port, whole) == b""
        finally:
            for door in doors:
                door.close()
        time.sleep(0.5)
        assert answer_to(server.port, whole).startswith(b"HTTP/1.1 200")
