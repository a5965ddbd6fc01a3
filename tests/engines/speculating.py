"""``python -m tests.engines.speculating REPORTS MARKS``: a tally on Spark in which the first try of one task hangs.

Every try leaves a mark when it begins, and another when it has counted. The tally is written as hexadecimal digits.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from keyveil.engines import spark as engine
from tests.engines.report_files import SNACKS, first_round

HANGS = 300.0  # seconds, if nobody ends it
DOCUMENT = first_round(SNACKS)
honest = engine._counted


def slow(marks: str, fold: Any, batches: Any) -> Iterator[Any]:
    """What a task does; the first try of the first task takes very long before it counts."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    here = f"{context.partitionId()}.{context.attemptNumber()}"
    (Path(marks) / here).touch()
    if here == "0.0":
        time.sleep(HANGS)
    answers = list(honest(fold, batches))
    (Path(marks) / f"{here} counted").touch()
    yield from answers


def main() -> None:
    reports, marks = sys.argv[1:]
    engine._counted = partial(slow, marks)
    with engine.session() as spark:
        sys.stdout.write(engine.tally(spark.read.parquet(reports), DOCUMENT).to_bytes().hex() + "\n")


if __name__ == "__main__":
    main()
