"""The same reports on Spark: the same tally to the last integer, whatever is tried twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet as parquet
import pytest

import keyveil as kv
from keyveil.campaign.report_schema import parquet_writer, report_schema
from keyveil.campaign.rounds import RoundDocument
from keyveil.core.errors import KeyveilError, MissingExtra, ReportError
from keyveil.engines import spark as engine
from keyveil.engines.fold import Fold
from keyveil.engines.local import count
from keyveil.engines.spark_population import simulated
from keyveil.lab import datasets
from keyveil.lab.datasets.stream import BLOCK, Stream
from keyveil.lab.simulate import simulate
from tests.engines.report_files import PILOT, SNACKS, Rows, first_round, reports, written

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
DOCUMENT = first_round(SNACKS)
BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # a Java that will not live long: half of its time was its compiler
STRANGER = b"\1" * 16  # whom the pilot does not ask


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """Spark on this machine, with two tasks at a time, each tried up to four times."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SPARK_MASTER", "local[2,4]")
        environment.setenv("KEYVEIL_KERNELS", "numpy")  # so few reports are not worth the compiler
        environment.setenv(
            "PYSPARK_SUBMIT_ARGS", f'--conf spark.ui.enabled=false --driver-java-options "{BRIEF}" pyspark-shell'
        )
        environment.setattr(engine, "_TOGETHER", 2)
        with engine.session() as running:
            running.conf.set("spark.sql.shuffle.partitions", "3")  # of which two are added up by one task
            running.conf.set("spark.sql.adaptive.enabled", "false")
            yield running


@pytest.fixture(scope="module")
def rows() -> Rows:
    return reports(DOCUMENT, 500)


def folder(path: Path, *parts: Rows) -> str:
    path.mkdir()
    for number, part in enumerate(parts):
        written(path / f"{number}.parquet", part)
    return str(path)


def test_the_tally_is_that_of_one_machine_and_copies_count_once(spark: Any, rows: Rows, tmp_path: Path) -> None:
    path = folder(tmp_path / "reports", rows[:300], rows[200:])
    assert engine.tally(spark.read.parquet(path), DOCUMENT) == count(Path(path), DOCUMENT).tally


def test_a_task_that_dies_and_is_tried_again_changes_nothing(
    spark: Any, rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, mark = folder(tmp_path / "reports", rows), tmp_path / "died"
    honest = engine._counted

    def dying(mark: str, fold: Fold, batches: Any) -> Iterator[pyarrow.RecordBatch]:
        answers = list(honest(fold, batches))
        if not os.path.exists(mark):
            os.mkdir(mark)
            os._exit(1)
        yield from answers

    monkeypatch.setattr(engine, "_counted", partial(dying, str(mark)))
    assert engine.tally(spark.read.parquet(path), DOCUMENT) == count(Path(path), DOCUMENT).tally
    assert mark.exists()


def test_two_copies_of_a_task_at_the_same_time_say_the_same_bytes(rows: Rows) -> None:
    """What a speculative copy rests on: Spark takes the answer of either, so both must be equal."""
    ids, payloads = (list(column) for column in zip(*rows, strict=True))
    once = {"rows": [1] * len(rows), "kept": [1] * len(rows)}
    batch = pyarrow.record_batch({"id": ids, "payload": payloads, "other": payloads, **once})
    with ThreadPoolExecutor(2) as pool:
        told = list(pool.map(lambda _: list(engine._counted(Fold(DOCUMENT), [batch])), range(2)))
    assert told[0] == told[1] and len(told[0]) == 1


def test_simulated_people_have_the_tally_of_one_machine(spark: Any) -> None:
    """Blocks are numbered, and so are their coins, whichever task works on them."""
    stream = Stream(datasets.recipe("linear-s"), 2 * BLOCK + 100, 3, datasets.load("linear-s", n=10).schema)
    mechanism = kv.mechanism("kvue", stream.schema, 1)
    tally, truth = simulated(spark, mechanism, stream, seed=7, tasks=3)
    here = simulate(mechanism, stream, seed=7)
    assert tally == here.tally and np.array_equal(truth.count, here.truth.count)
    assert np.array_equal(truth.total, here.truth.total)


def test_reports_that_differ_are_named_with_their_files(spark: Any, rows: Rows, tmp_path: Path) -> None:
    id, payload = rows[3]
    assert payload is not None
    path = folder(tmp_path / "reports", rows, [(id, payload + b"\0")])
    with pytest.raises(ReportError, match=r"of 0\.parquet and 1\.parquet is there twice and differs") as refusal:
        engine.tally(spark.read.parquet(path), DOCUMENT)
    assert refusal.value.code == "report/twice" and id.hex() in refusal.value.sentence


@pytest.mark.parametrize(
    ("document", "payload", "kept", "code"),
    [
        (DOCUMENT, reports(DOCUMENT, 1)[0][1], 1, "report/twice"),  # of two rows one has lost its payload
        (DOCUMENT, None, 0, "report/scrubbed"),
        (DOCUMENT, b"\xff\x80", 2, "report/malformed"),
        (first_round(PILOT), reports(first_round(PILOT), 1)[0][1], 2, "report/part"),
    ],
    ids=["scrubbed copy", "scrubbed", "malformed", "part"],
)
def test_what_is_wrong_with_a_report_is_an_answer_and_is_handed_on(
    document: RoundDocument, payload: bytes | None, kept: int, code: str
) -> None:
    good, bad = reports(document, 1)[0], STRANGER
    ids, payloads, counts = [good[0], bad], [good[1], payload], [2, kept]
    batch = pyarrow.record_batch(
        {
            "id": ids,
            "payload": pyarrow.array(payloads, pyarrow.binary()),
            "other": payloads,
            "rows": [2, 2],
            "kept": counts,
        }
    )
    answers = list(engine._counted(Fold(document), [batch]))
    fine = list(engine._counted(Fold(document), [batch[:1]]))

    (said,) = list(engine._added([*fine, *answers]))
    assert said.column("code")[0].as_py() == code and said.column("id")[0].as_py() == bad


def test_a_damaged_file_is_one_sentence(spark: Any, rows: Rows, tmp_path: Path) -> None:
    with parquet_writer(tmp_path / "r.parquet", report_schema(DOCUMENT)) as writer:
        writer.write_batch(pyarrow.record_batch(list(zip(*rows, strict=True)), schema=report_schema(DOCUMENT)))
    octets = bytearray((tmp_path / "r.parquet").read_bytes())
    start = octets.find(rows[20][0])
    octets[start : start + 32] = bytes(32)
    (tmp_path / "r.parquet").write_bytes(octets)
    with (
        pytest.raises(KeyveilError, match=r"did not count the reports: .*r\.parquet\.$") as refusal,
        engine.translated(),
    ):
        engine.tally(spark.read.parquet(str(tmp_path)).select("id", "payload"), DOCUMENT)
    assert refusal.value.code == "engine/spark"


def test_an_id_that_is_missing_is_one_sentence(spark: Any, rows: Rows, tmp_path: Path) -> None:
    path = tmp_path / "reports.parquet"
    parquet.write_table(pyarrow.table({"id": [rows[0][0], None], "payload": [rows[0][1], rows[1][1]]}), path)
    with pytest.raises(ReportError, match="has no id of 16 bytes") as refusal:
        engine.tally(spark.read.parquet(str(path)), DOCUMENT)
    assert refusal.value.code == "report/public"


def test_other_formats_are_for_the_local_engine(rows: Rows, tmp_path: Path) -> None:
    with pytest.raises(KeyveilError, match=r"r\.arrow is none") as refusal:
        engine.count_on_spark(written(tmp_path / "r.arrow", rows), DOCUMENT)
    assert refusal.value.code == "input/parquet"


def test_without_java_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingExtra) as refusal, engine.session():
        pass
    assert refusal.value.code == "install/java"


def test_a_java_that_does_not_start_is_one_sentence(tmp_path: Path) -> None:
    """In a process of its own: a session that runs already would be taken."""
    written(tmp_path / "r.parquet", reports(DOCUMENT, 1))
    (tmp_path / "r.json").write_text(json.dumps(SNACKS), encoding="utf-8")
    command = [sys.executable, "-m", "keyveil", "tally", "r.parquet", "--campaign", "r.json", "--engine", "spark"]
    environment = {**os.environ, "JAVA_HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "Spark did not start" in done.stderr and "[install/java]" in done.stderr


@pytest.mark.soak
def test_two_million_reports_have_the_tally_of_one_machine(
    spark: Any, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Twenty files of a hundred thousand, each report with an id of its own."""
    import time

    payloads = [payload for _, payload in reports(DOCUMENT, 1000)]
    (tmp_path / "reports").mkdir()
    for number in range(20):
        ids = sorted(os.urandom(16) for _ in range(100_000))
        written(tmp_path / "reports" / f"{number:02d}.parquet", list(zip(ids, payloads * 100, strict=True)))
    times = [time.perf_counter()]
    here = count(tmp_path / "reports", DOCUMENT).tally
    times.append(time.perf_counter())
    there = engine.tally(spark.read.parquet(str(tmp_path / "reports")), DOCUMENT)
    times.append(time.perf_counter())
    assert here == there and here.reports == 2_000_000
    record_property("local", f"{times[1] - times[0]:.1f} s")
    record_property("Spark", f"{times[2] - times[1]:.1f} s")
