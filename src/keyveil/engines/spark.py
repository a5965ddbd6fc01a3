"""Reports become the tally of one round on Apache Spark, through the very fold that one machine uses.

    tally = keyveil.engines.spark.tally(frame, document)      # a DataFrame with the columns id and payload

Spark brings each id to one task, a task folds what it has, and tallies are added in a tree. A task that is tried again
or twice at once gives the same tally again, and Spark takes one of them: nothing is counted by side effect. What is
wrong with a report comes back as an answer, not as a failure, so that no task is repeated for it.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from keyveil.campaign.rounds import RoundDocument
from keyveil.core.errors import KeyveilError, MissingExtra, ReportError
from keyveil.core.extras import extra
from keyveil.core.tally import Tally
from keyveil.engines.files import ENDINGS, ReportFiles
from keyveil.engines.fold import FlawedReport, Fold
from keyveil.engines.local import Counted

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

_TOGETHER = 16  # tallies that one task adds up
_ANSWER = "tally binary, code string, what string, id binary"

Batches = Iterable["pyarrow.RecordBatch"]


def tally(reports: DataFrame, document: RoundDocument) -> Tally:
    """The tally of a DataFrame with the columns ``id`` and ``payload`` (both binary); copies count once."""
    from pyspark.sql import functions as sql

    once = reports.groupBy("id").agg(
        sql.min("payload").alias("payload"),
        sql.max("payload").alias("other"),
        sql.count("*").alias("rows"),
        sql.count("payload").alias("kept"),
    )
    counted = once.mapInArrow(partial(_counted, Fold(document)), _ANSWER)
    # As many as the shuffle may have. To ask the frame itself would read and shuffle everything once more.
    parts = int(str(reports.sparkSession.conf.get("spark.sql.shuffle.partitions", "200")))
    while parts > _TOGETHER:
        parts = math.ceil(parts / _TOGETHER)
        counted = counted.repartition(parts).mapInArrow(_added, _ANSWER)
    answers = counted.collect()
    for answer in answers:
        if answer.code is not None and answer.id is None:
            raise ReportError(answer.code, f"A report {answer.what}.")
        if answer.code is not None:
            raise ReportError(
                answer.code, f"The report {bytes(answer.id).hex()}{_files(reports, answer.id)} {answer.what}."
            )
    return sum((Tally.from_bytes(bytes(answer.tally)) for answer in answers), Fold(document).empty)


def _files(reports: DataFrame, id: bytes) -> str:
    """The files that a report is in, where the reports come from files."""
    from pyspark.sql import functions as sql

    rows = reports.where(sql.col("id") == sql.lit(bytearray(id))).select(sql.input_file_name().alias("file")).distinct()
    names = sorted(Path(row.file).name for row in rows.collect() if row.file)
    return f" of {' and '.join(names)}" if names else ""


def _counted(fold: Fold, batches: Batches) -> Iterator[pyarrow.RecordBatch]:
    """One tally of everything that a task has, or what is wrong with the first report that is not right."""
    import pyarrow.compute as compute

    total = fold.empty
    for batch in batches:
        differ = compute.or_(
            compute.not_equal(batch.column("payload"), batch.column("other")),
            compute.and_(
                compute.greater(batch.column("kept"), 0), compute.less(batch.column("kept"), batch.column("rows"))
            ),
        )
        differ = compute.fill_null(differ, False).to_numpy(zero_copy_only=False)
        if differ.any():
            row = int(differ.argmax())
            yield _answer(code="report/twice", what="is there twice and differs", id=batch.column("id")[row].as_py())
            return
        try:
            total = total + fold(batch)
        except FlawedReport as flaw:
            yield _answer(code=flaw.code, what=flaw.what, id=batch.column("id")[flaw.row].as_py())
            return
    yield _answer(tally=total.to_bytes())


def _added(batches: Batches) -> Iterator[pyarrow.RecordBatch]:
    """The sum of some tallies; what is wrong is handed on."""
    total: Tally | None = None
    for batch in batches:
        for row in batch.to_pylist():
            if row["code"] is not None:
                yield _answer(**row)
                return
            one = Tally.from_bytes(row["tally"])
            total = one if total is None else total + one
    if total is not None:
        yield _answer(tally=total.to_bytes())


def _answer(
    tally: bytes | None = None, code: str | None = None, what: str | None = None, id: bytes | None = None
) -> pyarrow.RecordBatch:
    import pyarrow

    return pyarrow.record_batch(
        {
            "tally": pyarrow.array([tally], pyarrow.binary()),
            "code": pyarrow.array([code], pyarrow.string()),
            "what": pyarrow.array([what], pyarrow.string()),
            "id": pyarrow.array([id], pyarrow.binary()),
        }
    )


def count_on_spark(path: Path, document: RoundDocument, threads: int | None = None) -> Counted:
    """The tally of a file or folder of Parquet; on the cluster that Spark is set up for, or on this machine."""
    files = ReportFiles.at(path, document)
    if other := [one.name for one in files.paths if ENDINGS.get(one.suffix, "Parquet") != "Parquet"]:
        raise KeyveilError("input/parquet", f"Spark reads Parquet, and {other[0]} is none; the local engine takes it.")
    with session(threads) as spark, translated():
        frame = spark.read.parquet(*(str(one.absolute()) for one in files.paths))
        counted = tally(frame.select("id", "payload"), document)
    return Counted(counted, len(files.paths), files.reports)


@contextmanager
def translated() -> Iterator[None]:
    """What Spark says when it gives up becomes one sentence."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as reason:
        raise KeyveilError("engine/spark", f"Spark did not count the reports: {_said(reason)}.") from reason


def _said(reason: Exception) -> str:
    """The first sentence of an error; where Java raised it, without the call and the class of the exception."""
    lines = str(reason).strip().splitlines() or ["it does not say why"]
    java = next((line for line in lines if line.startswith(": ")), "")
    return (java.partition("Exception: ")[2] or lines[0]).partition("  SQLSTATE")[0].rstrip(".")


def _started(builder: SparkSession.Builder) -> SparkSession:
    from pyspark.errors import PySparkException

    try:
        return builder.getOrCreate()
    except PySparkException as reason:  # a Java that is not there or too old, or a cluster that does not answer
        why = f"Spark did not start: {_said(reason)}. It needs Java 17 or later (JAVA_HOME, PATH)."
        raise MissingExtra("install/java", why) from reason


_SETTINGS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",  # pages of files from collectors have one
}


@contextmanager
def session(threads: int | None = None) -> Iterator[SparkSession]:
    """Spark as its environment says (``SPARK_MASTER``, spark-defaults.conf), or on all cores of this machine."""
    with extra("spark", "Tallies on Spark"):
        from pyspark.sql import SparkSession
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        raise MissingExtra("install/java", "Spark needs Java 17 or later: there is none on the PATH or in JAVA_HOME.")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers may run another Python
    builder = (
        SparkSession.Builder().appName("keyveil").master(os.environ.get("SPARK_MASTER", f"local[{threads or '*'}]"))
    )
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    spark = _started(builder)
    try:
        yield spark
    finally:
        spark.stop()
