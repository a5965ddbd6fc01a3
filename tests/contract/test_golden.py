"""Golden vectors: what a device sends for given coins never changes by accident.

``python -m tests.contract.test_golden`` writes them anew after a change that was meant.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from keyveil.core.report import Report
from keyveil.lab.coins import SeededCoins
from tests.contract.cases import IDS, VARIANTS, usual

GOLDEN = Path(__file__).with_name("golden.json")


def vectors(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """The fingerprint, and encoded payloads for a few records and public bytes."""
    mechanism = usual(name, **options)
    records = list(mechanism.reduced().every_record())
    if name in ("duchi", "piecewise", "hybrid", "square-wave", "mean-est"):  # everybody holds every key
        value = records[-1][0][1]
        records = [[(key, value) for key in range(mechanism.schema.d)]]
    payloads = []
    for number in range(6):
        public = bytes(range(number, number + 16))
        payload = mechanism.respond(records[number % len(records)], mechanism.word(public), SeededCoins(7, number))
        payloads.append(mechanism.encode(Report(public, payload)).hex())
    return {"fingerprint": mechanism.fingerprint.hex(), "payloads": payloads}


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=IDS)
def test_golden_vectors(name: str, options: dict[str, Any]) -> None:
    golden = json.loads(GOLDEN.read_text())
    assert vectors(name, options) == golden[IDS[VARIANTS.index((name, options))]]


def test_every_vector_has_its_mechanism() -> None:
    assert set(json.loads(GOLDEN.read_text())) == set(IDS)


if __name__ == "__main__":
    written = {label: vectors(*variant) for label, variant in zip(IDS, VARIANTS, strict=True)}
    GOLDEN.write_text(json.dumps(written, indent=1) + "\n")
