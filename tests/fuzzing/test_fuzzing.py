"""Whatever strangers write is answered or refused, never anything else; and the search finds what is not."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import pytest

from keyveil.campaign.wire import Batch, from_packed
from tests.collector.running import Collector, running
from tests.fuzzing.engine import Hunt, Target, hunt, spoilt
from tests.fuzzing.targets import (
    HASH,
    all_targets,
    asked_otherwise,
    batch_targets,
    campaigns,
    document_targets,
    file_targets,
    payload_target,
    question_target,
    questions_of,
)

Record = Callable[[str, object], None]


def refuse_crashes(name: str, found: Hunt) -> None:
    """Show one input of each crash."""
    assert not found.crashes, f"{name}: " + "\n".join(f"{data!r}\n{told}" for data, told in found.crashes.values())


# -- the search itself -----------------------------------------------------------------------------------------------


def planted(data: bytes) -> Hashable:
    """A decoder whose last step, the reader of a payload, takes a byte for an index."""
    batch = from_packed(data)
    return [7][batch.payloads[0][2]] if batch.payloads and len(batch.payloads[0]) > 2 else None


def test_a_planted_mistake_is_found_and_only_by_looking_at_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """An IndexError at one pattern of bytes: found with guidance, and not in as many inputs without."""
    from tests.fuzzing import engine

    monkeypatch.setattr(engine, "_OWN", str(Path(__file__).parent))

    def stepwise(data: bytes) -> Hashable:
        if data[:1] != b"K":
            return None
        if data[1:2] != b"V":
            return None
        if data[2:3] != b"!":
            return None
        return [7][len(data)]

    def flip(data: bytes, chance: random.Random) -> bytes:
        whole = bytearray(data)
        whole[chance.randrange(len(whole))] = chance.randrange(256)
        return bytes(whole)

    target = Target("planted", [b"\0\0\0\0"], stepwise, flip)
    found = hunt(target, 20_000, seed=1, traced=1)
    assert list(found.crashes) and "IndexError" in next(iter(found.crashes))
    monkeypatch.setattr(engine, "_tracer", lambda steps: None)
    assert not hunt(target, 20_000, seed=1).crashes


def test_a_broken_reader_of_payloads_is_found() -> None:
    seed = Batch(1, HASH, (bytes(16),), (bytes(5),)).to_packed()
    found = hunt(Target("broken", [seed], planted, spoilt), 12_000, seed=1)
    assert any("IndexError" in told for told in found.crashes)


# -- small searches --------------------------------------------------------------------------------------------------


def test_decoders_answer_or_refuse_hostile_bytes() -> None:
    for target in batch_targets():
        found = hunt(target, 5000, seed=1)
        refuse_crashes(target.name, found)
        assert found.answered > 20 and len(found.corpus) > len(target.seeds)
    target = payload_target()
    found = hunt(target, 400, seed=1)
    refuse_crashes(target.name, found)
    assert found.answered > 50


def test_documents_are_read_or_refused() -> None:
    for target in document_targets():
        found = hunt(target, 500, seed=1)
        refuse_crashes(target.name, found)
        assert found.answered > len(target.seeds)


def test_most_questions_are_answered_and_all_others_refused() -> None:
    target = question_target()
    found = hunt(target, 400, seed=1)
    refuse_crashes(target.name, found)
    assert found.answered >= found.inputs / 2
    assert len({seed[0] for seed in target.seeds}) > len(campaigns()) / 2


def test_files_of_commands_are_read_or_refused(tmp_path: Path) -> None:
    for target in file_targets(tmp_path):
        found = hunt(target, 80, seed=1)
        refuse_crashes(target.name, found)
        assert found.answered


# -- over HTTP -------------------------------------------------------------------------------------------------------


def asked_over_http(collector: Collector, inputs: int, seed: int, every: int = 1) -> dict[int, int]:
    """Spoilt questions to a running collector, to campaigns of every n-th form; how often each status was answered."""
    chance, told = random.Random(seed), dict[int, int]()
    seeds = []
    for number, campaign in enumerate(campaigns()[::every]):
        name = f"c{number}"
        fields: dict[str, Any] = campaign.document()
        first = campaign.protocol.next_round([])
        assert first is not None
        if first.mechanism.takes != "every set":
            continue  # a campaign takes every record
        collector.filled(30, **{**fields, "name": name, "min_reports": 5})
        for question in questions_of(first.mechanism):
            data = json.dumps(question).encode()
            if _ask(collector, name, data) == 200:
                seeds.append((name, data))
    for _ in range(inputs):
        name, data = chance.choice(seeds)
        status = _ask(collector, name, asked_otherwise(data, chance))
        told[status] = told.get(status, 0) + 1
    return told


def _ask(collector: Collector, name: str, body: bytes) -> int:
    return collector.ask("POST", f"/v1/campaigns/{name}/queries", body, collector.analyst).status


def test_no_question_makes_a_collector_fail(tmp_path: Path) -> None:
    with running(tmp_path) as collector:
        told = asked_over_http(collector, 60, seed=1, every=12)
    assert max(told) < 500
    assert told[200] >= 30


# -- the full size ---------------------------------------------------------------------------------------------------

SOAK = {
    "batches as JSON": 900_000,
    "packed batches": 900_000,
    "payloads": 60_000,
    "campaign documents": 60_000,
    "round documents": 90_000,
    "questions": 10_000,
    "tally files": 25_000,
    "mechanism files": 25_000,
    "campaign files": 15_000,
    "reports files": 8_000,
    "data files": 4_000,
    "data in Parquet": 4_000,
}


@pytest.mark.soak
@pytest.mark.parametrize("name", SOAK)
def test_no_input_of_many_crashes_anything(name: str, tmp_path: Path, record_property: Record) -> None:
    """Two million inputs in all; every mechanism is among them."""
    seed = int.from_bytes(os.urandom(4), "little")
    target = next(one for one in all_targets(tmp_path) if one.name == name)
    found = hunt(target, SOAK[name], seed, traced=40)
    for what, value in (("inputs", found.inputs), ("answered", found.answered), ("places", len(found.places))):
        record_property(what, value)
    record_property("crashes", len(found.crashes))
    record_property("seed", seed)
    refuse_crashes(name, found)
    assert name != "questions" or found.answered >= found.inputs / 2


@pytest.mark.soak
def test_no_question_of_many_makes_a_collector_fail(tmp_path: Path, record_property: Record) -> None:
    seed = int.from_bytes(os.urandom(4), "little")
    with running(tmp_path) as collector:
        told = asked_over_http(collector, 20_000, seed)
    record_property("answers by status", dict(sorted(told.items())))
    record_property("seed", seed)
    assert max(told) < 500
    assert told[200] >= 10_000
