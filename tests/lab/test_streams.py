"""More people than memory holds: made in blocks, or drawn by type where a mechanism has an exact law for that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Estimates
from keyveil.core.records import Records
from keyveil.frames.results import csv_of
from keyveil.lab import datasets
from keyveil.lab import simulate as module
from keyveil.lab.coins import SeededCoins
from keyveil.lab.datasets.stream import BLOCK, Stream
from keyveil.lab.simulate import simulate
from keyveil.lab.streams import shares, types_of, weighted
from keyveil.mechanisms.families.subset_response import SubsetResponse
from keyveil.mechanisms.registry import mechanism_names
from keyveil.mechanisms.tally_laws import crowd_law, normal_limit
from tests.lab.test_aggregate import REPEATS, made, people, reported, same_law

EXACT = {"grr", "oue", "sue", "kvue", "privkv", "f2m", "kvoh"}  # as docs/simulate.md says


def stream(name: str = "linear-s", n: int = BLOCK + 5000) -> Stream:
    law = datasets.recipe(name)
    return Stream(law, n, 3, datasets.load(name, n=10).schema)


def drawn(mechanism: Any, records: Records, counts: NDArray[np.int64], runs: int = REPEATS) -> NDArray[Any]:
    law, rng = crowd_law(mechanism), np.random.default_rng(11)
    assert law is not None
    return np.array([law.draw_crowd(records, counts, rng).ravel() for _ in range(runs)])


def written_out(few: Records, at: NDArray[np.int64]) -> Records:
    """The records with these numbers, again and again."""
    keys = np.concatenate([few.keys[few.offsets[i] : few.offsets[i + 1]] for i in at])
    values = np.concatenate([few.values[few.offsets[i] : few.offsets[i + 1]] for i in at])
    return Records(np.concatenate(([0], np.cumsum(few.sizes[at]))), keys, values, few.d)


def test_the_mechanisms_with_a_law_by_type_are_known() -> None:
    assert {name for name in mechanism_names() if crowd_law(made(name)) is not None} == EXACT
    assert crowd_law(made("kvue", bins=3)) is None  # values are told by points


@pytest.mark.parametrize("name", sorted(EXACT))
def test_a_tally_drawn_by_type_has_the_law_of_counted_reports(name: str) -> None:
    """Types of one person each are the people themselves."""
    mechanism = made(name)
    records = people(mechanism)
    same_law(drawn(mechanism, records, np.ones(records.n, dtype=np.int64)), reported(mechanism, records))


def test_a_type_counts_as_often_as_it_is_there() -> None:
    """Types that hold the last key are there nine times: the law of the records written out."""
    mechanism = made("kvue")
    few = people(mechanism).slice(0, 40)
    last = [few.d - 1 in few.keys[few.offsets[i] : few.offsets[i + 1]] for i in range(40)]
    counts = np.where(last, 9, 1)
    at = np.repeat(np.arange(40), counts)
    written = written_out(few, at)
    same_law(drawn(mechanism, few, counts), reported(mechanism, written))
    with pytest.raises(AssertionError):
        same_law(drawn(mechanism, few, np.random.default_rng(1).permutation(counts)), reported(mechanism, written))


@pytest.mark.parametrize("name", ["kvue", "pilot"])
def test_a_stream_gives_what_the_same_people_give_at_once(name: str) -> None:
    made_in_blocks = stream()
    both = [made_in_blocks.block(0), made_in_blocks.block(1)]
    truth = both[0].truth(made_in_blocks.schema) + both[1].truth(made_in_blocks.schema)
    found = [simulate(name, made_in_blocks, made_in_blocks.schema, 1, seed=5, threads=t) for t in (1, 2)]
    assert found[0].tally == found[1].tally and sum(one.tally.reports for one in found[0].history) == truth.n
    assert np.array_equal(found[0].truth.count, truth.count)
    assert np.allclose(found[0].truth.total, truth.total) and np.array_equal(found[0].truth.total, found[1].truth.total)
    assert found[0].document()["metrics"]["wasserstein"] is None and "made in blocks" in found[0].notes[-1]


def test_more_people_than_can_be_asked_are_drawn_by_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_STREAMED", 1000)
    crowd = stream(n=10**9)
    found = simulate("kvue", crowd, crowd.schema, 1, seed=5)
    assert found.tally.reports == found.truth.n == 10**9 and "exact law" in found.notes[-1]
    assert np.abs(found.estimates.frequency.values - found.truth.frequency).max() < 1e-3


def test_the_truth_by_type_is_that_of_the_people_written_out() -> None:
    crowd = stream(n=3 * BLOCK)
    types = types_of(crowd)
    found, one = weighted(types, shares(3 * types.n, types.n), crowd), types.truth(crowd.schema)
    assert found.n == 3 * one.n and np.array_equal(found.count, 3 * one.count)
    assert np.allclose(found.total, 3 * one.total)
    assert shares(10, 4).tolist() == [3, 3, 2, 2]


def test_only_very_many_people_are_a_stream() -> None:
    assert datasets.named("synthetic:gauss:1000", stream=True).stream is None
    large = datasets.named("synthetic:zipf:100000000", stream=True)
    assert large.n == 10**8 and large.population.n == BLOCK and large.stream is not None


@pytest.mark.soak
def test_ten_to_the_eighth_people_under_four_gigabytes(record_property: Callable[[str, object], None]) -> None:
    import resource
    import subprocess
    import sys
    import time

    begin = time.perf_counter()
    command = [sys.executable, "-m", "keyveil", "simulate", "synthetic:zipf:100000000", "--mechanism", "kvue"]
    subprocess.run([*command, "--epsilon", "1", "--threads", "2", "--json"], check=True, stdout=subprocess.DEVNULL)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    record_property("seconds", f"{time.perf_counter() - begin:.0f}")
    record_property("memory", f"{used.ru_maxrss / 2**20:.2f} GB")
    assert used.ru_maxrss < 4 * 2**20


LIMIT: list[tuple[dict[str, Any], int]] = [({}, 0), ({"bins": 3}, 0), ({"bins": 4, "rounding": "cell"}, 0), ({}, 1)]


@pytest.mark.parametrize(("options", "large"), LIMIT, ids=["signs", "points", "cells", "above the cap"])
def test_mean_and_covariance_of_the_normal_limit_are_those_of_counted_reports(
    options: dict[str, Any], large: int
) -> None:
    """Every entry within 6.5 standard errors over 600 collections: below 1e-7 for all of them together."""
    mechanism = made("ssr", max_pairs=1 if large else 4, **options)
    records = people(mechanism)
    assert isinstance(mechanism, SubsetResponse) and (records.sizes > mechanism.cap()).any()
    mean, covariance = mechanism.count_moments(records, np.ones(records.n, dtype=np.int64))
    counts = reported(mechanism, records)
    off = counts - mean
    products = off[:, :, None] * off[:, None, :]
    assert (np.abs(off.mean(axis=0)) < 6.5 * np.sqrt(np.diagonal(covariance) / REPEATS)).all()
    error = products.std(axis=0) / np.sqrt(REPEATS)
    assert (np.abs(products.mean(axis=0) - covariance) < 6.5 * error).all()
    axes = np.linalg.eigh(covariance)[1].T  # sums of counts that tell covariances best
    seen = ((off @ axes.T) ** 2).mean(axis=0)
    ratios = [
        seen / np.einsum("ij,jk,ik->i", axes, one, axes) for one in (covariance, np.diag(np.diagonal(covariance)))
    ]
    assert (np.abs(ratios[0] - 1) < 6.5 * np.sqrt(2 / REPEATS)).all()
    if not options:  # with few symbols their dependence is strong enough to be missed if it is left out
        assert (np.abs(ratios[1] - 1) > 6.5 * np.sqrt(2 / REPEATS)).any()


def test_a_type_counts_in_the_limit_as_often_as_it_is_there() -> None:
    mechanism = made("ssr")
    assert isinstance(mechanism, SubsetResponse)
    few = people(mechanism).slice(0, 40)
    one, nine = (mechanism.count_moments(few, np.full(40, count)) for count in (1, 9))
    assert np.allclose(nine[0], 9 * one[0]) and np.allclose(nine[1], 9 * one[1])


def test_with_an_overflow_group_the_limit_is_that_of_its_parts() -> None:
    """People of a type are parted at random; the question about the cap has an exact law, ssr its limit."""
    mechanism = made("ssr", overflow="0.3")
    records, rng = people(mechanism), np.random.default_rng(4)
    law = normal_limit(mechanism)
    assert law is not None and crowd_law(mechanism) is None
    many = np.full(records.n, 50)
    drawn = np.array([law.draw_limit(records, many, rng).ravel() for _ in range(REPEATS)])
    starts = np.repeat(np.arange(records.n), 50)
    again = written_out(records, starts)
    counted = np.array(
        [mechanism.tally(mechanism.perturb_many(again, SeededCoins(9, run))).counts.ravel() for run in range(60)]
    )
    spread = np.sqrt(counted.var(axis=0) / 60 + drawn.var(axis=0) / REPEATS)
    assert (np.abs(drawn.mean(axis=0) - counted.mean(axis=0)) < 6 * spread).all()
    ratio = drawn.var(axis=0) / counted.var(axis=0)
    assert ((ratio > 0.3) & (ratio < 3.5)).all()


def test_a_normal_limit_is_marked_in_every_output_and_tells_nothing_of_coverage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_STREAMED", 1000)
    crowd = stream(n=10**10)
    found = simulate("ssr", crowd, crowd.schema, 1, seed=5)
    told = found.estimates
    assert found.approximate and found.tally.reports == 10**10 and any("approximate" in note for note in found.notes)
    assert np.abs(told.frequency.values - found.truth.frequency).max() < 1e-3
    assert found.metrics["coverage_frequency"] is None and found.metrics["coverage_mean"] is None
    assert found.document()["approximate"] is True and "approximate" in repr(told)
    assert all(row["approximate"] is True for row in told.rows()) and told.to_frame()["approximate"].all()
    assert "approximate" in told._repr_html_() and "approximate" in csv_of(told)
    assert "approximate" in told.plot().get_suptitle()
    assert Estimates.from_json(told.to_json()).header.approximate
    exact = simulate("kvue", crowd, crowd.schema, 1, seed=5)
    assert not exact.approximate and "approximate" not in exact.document()
    assert exact.metrics["coverage_frequency"] is not None


def test_what_has_neither_law_nor_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_STREAMED", 1000)
    crowd = stream(n=10**9)
    with pytest.raises(MechanismError, match="wheel has neither an exact law of counts for 1,000,000,000") as refusal:
        simulate("wheel", crowd, crowd.schema, 1, seed=5)
    assert refusal.value.code == "simulate/size"
