"""Very many encoded reports from Parquet to estimates."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet as parquet
import pytest

from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.wire import pad
from keyveil.core.coins import Coins
from keyveil.core.errors import MissingExtra
from keyveil.engines import spark as engine
from keyveil.engines.local import count
from keyveil.lab.datasets import independent
from tests.engines.report_files import SNACKS, first_round

KEYS, PAIRS, A_FILE = 100, 5, 1_000_000
WIDE: dict[str, Any] = {
    **SNACKS,
    "schema": {"keys": [f"k{number:03d}" for number in range(KEYS)], "low": -1, "high": 1},
    "protocol": {"name": "ssr", "epsilon": "1", "max_pairs": PAIRS},
}


def payloads(document: RoundDocument, n: int) -> list[bytes]:
    """Encoded reports of n people."""
    mechanism = document.mechanism
    names = [str(key) for key in mechanism.schema.keys]
    people = independent(n, np.full(KEYS, PAIRS / KEYS), np.zeros(KEYS), 1, names).records(mechanism.schema)
    rows = mechanism.codec.unstack(mechanism.perturb_many(people, Coins()).payloads)
    return [pad(mechanism.codec.encode(one), document.report_bytes, mechanism.codec.varies) for one in rows]


def write(folder: Path, some: list[bytes], files: int, a_file: int) -> None:
    """Files of sorted random ids; the payloads are the given ones, again and again."""
    folder.mkdir()
    column = pyarrow.array((some * (a_file // len(some) + 1))[:a_file], pyarrow.binary())
    for number in range(files):
        ids = np.sort(np.frombuffer(os.urandom(16 * a_file), "S16"))
        table = pyarrow.table(
            {
                "id": pyarrow.FixedSizeBinaryArray.from_buffers(
                    pyarrow.binary(16), a_file, [None, pyarrow.py_buffer(ids.tobytes())]
                ),
                "payload": column,
            }
        )
        parquet.write_table(table, folder / f"{number:04d}.parquet")


def counted(folder: Path, n: int, a_file: int, record: Callable[[str, object], None]) -> None:
    document = first_round(WIDE)
    write(folder, payloads(document, min(a_file, 20_000)), n // a_file, a_file)
    wall, cpu = time.perf_counter(), time.process_time()
    tally = count(folder, document).tally
    estimates = document.mechanism.estimate(tally)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert tally.reports == n and np.isfinite(estimates.frequency.values).all()
    record("reports", n)
    record("seconds", f"{wall:.1f}")
    record("reports a second and core", f"{n / cpu:,.0f}")


def test_a_folder_of_many_reports_becomes_estimates(tmp_path: Path) -> None:
    counted(tmp_path / "reports", 20_000, 5000, lambda name, value: None)


@pytest.mark.soak
@pytest.mark.parametrize("n", [10**7, 10**8])
def test_encoded_reports_from_parquet_to_estimates(
    n: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """About 40 bytes a report: 10⁸ of them take some 4 GB in the temporary folder."""
    counted(tmp_path / "reports", n, A_FILE, record_property)


def test_without_the_extra_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingExtra, match=r"keyveil\[spark\]") as refusal, engine.session():
        pass
    assert refusal.value.code.startswith("install/")
