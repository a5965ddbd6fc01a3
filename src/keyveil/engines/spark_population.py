"""Simulated people on Apache Spark: blocks of a stream are made, asked and counted where the tasks run.

    tally, truth = keyveil.engines.spark_population.simulated(spark, mechanism, stream, seed=7)

The coins of a block are those that ``lab.simulate`` gives it, so the tally is the same to the last integer, however
many tasks share the work and whichever of them are tried again.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from keyveil.core.tally import Tally
from keyveil.frames.truth import Truth
from keyveil.lab.datasets.stream import Stream
from keyveil.lab.rounds import coins_of
from keyveil.lab.streams import StreamBlocks
from keyveil.mechanisms.base import Mechanism

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession

    from keyveil.engines.spark import Batches

_ANSWER = "tally binary, count binary, total binary"


def simulated(
    spark: SparkSession, mechanism: Mechanism, stream: Stream, seed: int, tasks: int | None = None
) -> tuple[Tally, Truth]:
    """The tally of everybody in a stream under one mechanism, and the truth about them."""
    places = spark.range(0, len(stream), 1, tasks or min(len(stream), 4 * spark.sparkContext.defaultParallelism))
    answers = places.mapInArrow(partial(_asked, mechanism, stream, seed), _ANSWER).collect()
    empty = Tally.empty(mechanism.fingerprint, mechanism.tally_shape)
    tally = sum((Tally.from_bytes(bytes(answer.tally)) for answer in answers), empty)
    count, total = (
        np.sum([np.frombuffer(bytes(answer[name]), np.int64) for answer in answers], axis=0)
        for name in ("count", "total")
    )
    return tally, StreamBlocks.truth_of(stream, count, total)


def _asked(mechanism: Mechanism, stream: Stream, seed: int, batches: Batches) -> Iterator[pyarrow.RecordBatch]:
    """One tally of all blocks that a task has, and the sums of their truth."""
    import pyarrow

    blocks, tally = StreamBlocks(stream), Tally.empty(mechanism.fingerprint, mechanism.tally_shape)
    for batch in batches:
        for place in batch.column("id").to_pylist():
            records = blocks.records(place)
            tally = tally + mechanism.tally(mechanism.perturb_many(records, coins_of(seed, 0, 1, place)))
    parts = {"tally": tally.to_bytes(), "count": blocks.count.tobytes(), "total": blocks.total.tobytes()}
    yield pyarrow.record_batch({name: pyarrow.array([part], pyarrow.binary()) for name, part in parts.items()})
