"""Very many encoded reports from Parquet to estimates."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from keyveil.bench.extrapolation import round_document, write_reports
from keyveil.core.errors import MissingExtra
from keyveil.engines import spark as engine
from keyveil.engines.local import count

A_FILE = 1_000_000


def counted(folder: Path, n: int, a_file: int, record: Callable[[str, object], None]) -> None:
    """Reports of ``ssr`` over 100 keys, at most five of a person."""
    document = round_document()
    write_reports(folder, n, a_file)
    wall, cpu = time.perf_counter(), time.process_time()
    tally = count(folder, document).tally
    estimates = document.mechanism.estimate(tally)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert tally.reports == n and np.isfinite(estimates.frequency.values).all()
    record("reports", n)
    record("seconds", f"{wall:.1f}")
    record("reports a second and core", f"{n / cpu:,.0f}")
    record("peak of memory", f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GB")


def test_a_folder_of_many_reports_becomes_estimates(tmp_path: Path) -> None:
    counted(tmp_path / "reports", 20_000, 5000, lambda name, value: None)


@pytest.mark.soak
@pytest.mark.parametrize("n", [10**7, 10**8])
def test_encoded_reports_from_parquet_to_estimates(
    n: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """About 32 bytes a report: 10⁸ of them take some 3 GB in the temporary folder."""
    counted(tmp_path / "reports", n, A_FILE, record_property)


def test_without_the_extra_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingExtra, match=r"keyveil\[spark\]") as refusal, engine.session():
        pass
    assert refusal.value.code.startswith("install/")
