"""What docs/honesty.md rests on: truths against counting by hand, and a rule that sees intervals that are too short."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keyveil.core.estimates import Estimates
from keyveil.core.schema import Schema
from keyveil.frames.population import Population
from keyveil.lab.honesty import page
from keyveil.lab.honesty.cells import PARTS, Cell, Count, Measured, Part, enough, measure
from keyveil.lab.honesty.people import crowd
from keyveil.lab.honesty.rule import biased, faults, holm
from keyveil.lab.honesty.truths import Facts, resampled
from keyveil.mechanisms.keyvalue.kvue import KVUE

PEOPLE: list[dict[str, float]] = [{"a": 1.0, "b": 0.0}, {"a": -1.0}, {"a": 0.5, "b": 1.0, "c": 1.0}, {}]
SCHEMA = Schema(keys=["a", "b", "c"])
CELL = Cell("kvue", "skewed", "2", 4000, "people")


@pytest.fixture
def facts() -> Facts:
    return Facts(Population.from_records(PEOPLE).keyed(SCHEMA), SCHEMA)


def test_facts_are_what_counting_by_hand_gives(facts: Facts) -> None:
    assert facts.total([0, 1]) == pytest.approx(5 / 4)
    assert facts.quantile(0.5, 0) == 0.5 and facts.quantile(0.3, 0) == -1
    assert facts.share_given(1, 0) == pytest.approx(2 / 3) and facts.share_given(0, 2) == 1
    assert facts.undercount(2) == pytest.approx([1 / 12, 1 / 12, 1 / 12])
    assert facts.undercount(1) == pytest.approx([(1 / 2 + 2 / 3) / 4, (1 / 2 + 2 / 3) / 4, 1 / 6])


def test_a_sample_has_as_many_people_and_only_theirs(facts: Facts) -> None:
    people, rng = facts.people.records(SCHEMA), np.random.default_rng(1)
    rows, met = [people.pairs(i) for i in range(4)], np.zeros(4)
    for _ in range(500):
        sample = resampled(people, rng)
        assert sample.n == 4
        for i in range(4):
            met[rows.index(sample.pairs(i))] += 1
    assert met / 2000 == pytest.approx([0.25] * 4, abs=0.04)  # four standard deviations


@pytest.mark.parametrize("target", ["people", "population"])
def test_honest_intervals_keep_the_rule(target: Any) -> None:
    """Forty keys, ten runs. At a fresh seed the rule raises a false alarm in one of twenty runs; these are seeded."""
    plain, shrunk = measure(replace(CELL, target=target), 3, tuple(PARTS))
    assert {"frequency", "mean", "sum"} <= set(plain.counts)
    assert {"frequency, shrunk", "mean, shrunk"} == set(shrunk.counts)
    assert plain.counts["frequency"].seen >= 400
    assert not faults([plain, shrunk])


@pytest.mark.parametrize("target", ["people", "population"])
def test_parts_are_the_same_together_and_alone(target: Any) -> None:
    cell = replace(CELL, target=target)
    together = measure(cell, 5, tuple(PARTS), least=100)
    alone = [one for part in PARTS for one in measure(cell, 5, (part,), least=100)]
    assert [replace(one, seconds=0) for one in together] == [replace(one, seconds=0) for one in alone]
    assert sum(one.seconds for one in together) > 0


class Boastful(KVUE):
    """Intervals of half the width."""

    def estimate(self, *given: Any, **named: Any) -> Estimates:
        honest = super().estimate(*given, **named)
        middle, half = honest.frequency.values, (honest.frequency.high - honest.frequency.low) / 4
        return replace(honest, frequency=replace(honest.frequency, low=middle - half, high=middle + half))


def test_intervals_that_are_too_short_break_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    def boastful(self: Any, epsilon: Any, schema: Schema, *_: Any) -> KVUE:
        return Boastful(schema, epsilon)

    monkeypatch.setattr("keyveil.lab.contenders.Contender.at", boastful)
    wrong = faults(measure(CELL, seed=3))
    assert ("frequency", "misses") in {(one.question, one.kind) for one in wrong}
    assert "of the intervals hold the truth" in str(wrong[0])


def count(**given: Any) -> Count:
    flags = Counter(given.pop("flags", {"ok": given.get("tested", 0)}))
    return Count(**given, flags=flags)


@pytest.mark.parametrize(
    ("seen", "kind"),
    [
        (count(tested=1000, covered=950, plain=1000, plain_covered=950), None),
        (count(tested=1000, covered=880), "misses"),
        (count(tested=1000, covered=1000, plain=1000, plain_covered=1000), "too wide"),
        (count(tested=1000, covered=1000), None),
        (count(flags={"truncated": 40}, truncated_rightly=31), "undeserved"),
        (count(flags={"truncated": 40}, truncated_rightly=32), None),
        (count(strong=30, strong_flagged=16), "hides"),
        (count(strong=30, strong_flagged=15), None),
    ],
)
def test_what_breaks_the_rule(seen: Count, kind: str | None) -> None:
    found = faults([Measured(CELL, 1, 1, {"frequency": seen})])
    assert [one.kind for one in found] == ([] if kind is None else [kind])


def test_a_bias_is_measured_on_more_people_too() -> None:
    def seen(who: str, tested: int, above: float) -> Measured:
        return Measured(replace(CELL, contender=who), 1, 1, {"frequency": count(tested=tested, above=above)})

    told = [seen("ssr", 900, -360.0), seen("apart", 900, 360.0), seen("wsr", 900, 180.0), seen("kvoh", 9, -9.0)]
    assert biased(told) == {("ssr", "skewed"), ("apart", "skewed")}  # 0.4 ± 0.03; not 0.2 ± 0.03, nor 1 ± 0.3
    assert biased([*told, seen("ssr", 900, 360.0)]) == {("apart", "skewed")}
    more = page.more_cells(biased(told), page.SOME)
    assert {(one.contender, one.n) for one in more} == {("apart", 10**6)} and len(more) == len(page.EPSILONS)
    assert not page.more_cells(biased(told), 100)


def test_measured_values_say_how_far_they_lie_off() -> None:
    (plain,) = measure(CELL, 3, ("raw",), least=200)
    own = plain.counts["frequency"]
    assert 0 < abs(own.above) / own.tested < 0.3  # about one over the root of 200


def test_after_shrinkage_a_little_less_is_enough() -> None:
    seen = count(tested=20_000, covered=18_480)
    assert faults([Measured(CELL, 1, 1, {"frequency": seen})])
    assert not faults([Measured(CELL, 1, 1, {"frequency, shrunk": seen})])


def test_holm_stops_at_the_first_that_does_not_reject() -> None:
    assert holm(np.array([0.012, 0.04, 0.01, 0.5])).tolist() == [True, False, True, False]
    assert holm(np.array([0.02, 0.02, 0.9])).tolist() == [False, False, False]


def test_a_run_goes_on_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Part, Cell]] = []

    def quick(cell: Cell, seed: int, parts: list[Part], file: Path | None) -> list[Measured]:
        assert file is None
        asked.extend((part, cell) for part in parts)
        counts = {"raw": "frequency", "shrunk": "frequency, shrunk"}
        return [
            Measured(cell, seed, 1, {counts[part]: count(tested=100, covered=95)}, part=part, seconds=360)
            for part in parts
        ]

    class Here:
        """Instead of a pool of processes."""

        def __init__(self, workers: int) -> None: ...
        def __enter__(self) -> Here:
            return self

        def __exit__(self, *_: object) -> None: ...
        def submit(self, call: Any, *given: Any) -> Any:
            done: Future[Any] = Future()
            done.set_result(call(*given))
            return done

    monkeypatch.setattr(page, "measure", quick)
    monkeypatch.setattr(page, "ProcessPoolExecutor", Here)
    wanted, results = list(page.cells(["kvue", "ioh"], ["survey"], 100)), tmp_path / "honesty.jsonl"
    page.measure_all(wanted[:5], results, 1, 1, 1, ["raw"])
    page.measure_all(wanted, results, 1, 1, 1, ["raw"])
    found = page.measure_all(wanted[:9], results, 1, 1, 1)
    assert asked == [("raw", one) for one in wanted] + [("shrunk", one) for one in wanted[:9]]
    assert len(wanted) == 16 and len(found) == 16 + 9
    assert all(json.loads(line)["counts"] for line in results.read_text().splitlines())
    text = page.page([*found, Measured(replace(CELL, contender="grr"), 9, 0, {}, "It takes one key.")], "make it", 20)
    assert "Of 20 cells 9 were measured, with and without shrinkage, 7 in one of these ways,\nand 1 do not" in text
    assert "That took 2.5 hours" in text
    assert "| kvue | 0.950, 0.950, 0% | – | 0.950, 0.950, 0% |" in text and "- grr (1 cell): It takes one key." in text
    assert "Nothing breaks the rule." in text


def test_every_pair_of_contender_and_population_has_a_cell_before_any_has_two() -> None:
    wanted = list(page.cells(["kvue", "ssr", "wsr"], ["survey", "peaks"], 100))
    assert len(set(wanted)) == 3 * 2 * 8
    for start in range(0, len(wanted), 6):
        assert len({(one.contender, one.population) for one in wanted[start : start + 6]}) == 6
    assert len({(one.epsilon, one.target) for one in wanted[:6]}) > 2


def test_real_people_are_a_file_and_their_values_are_cut_to_the_public_range(tmp_path: Path) -> None:
    file = tmp_path / "movietweetings_100k.csv"  # a known name: values from 0 to 10
    file.write_text("user,key,value\n" + "".join(f"{user},{user % 3},{user % 15}\n" for user in range(600)))
    [cell] = page.real_cells(["kvue"], [file])
    assert (cell.n, cell.population) == (600, "movietweetings_100k")
    assert crowd(cell.population, cell.n, 1, file).facts.people.values.max() == 10
    [found] = measure(cell, 1, ("raw",), file, least=3, most_runs=1)
    assert found.counts["frequency"].seen == 3


def test_a_wide_mean_of_a_certain_key_is_no_hidden_one() -> None:
    """privkvm knows who answered a survey at ε = 0.5, and not what; intervals of its means are as long as the range."""
    [found] = measure(Cell("privkvm", "survey", "0.5", 4000, "people"), seed=2, least=100)
    mean = found.counts["mean"]
    assert mean.flags["wide"] > 20 and not mean.strong_flagged


def test_who_cannot_take_the_people_says_why() -> None:
    assert all(one.refused for one in measure(replace(CELL, contender="ioh"), 1, tuple(PARTS)))


def test_a_million_people_are_asked_population_by_population_after_each_turn() -> None:
    wanted = list(page.cells(["kvue", "ssr", "oue"], ["survey", "peaks"]))
    assert len(wanted) == 3 * 2 * 8 + 2 * 2 * 4
    turn = wanted[6:10]
    assert {one.n for one in wanted[:6]} == {page.SOME} and {one.n for one in turn} == {page.LOTS}
    assert [one.population for one in turn] == ["survey", "survey", "peaks", "peaks"]
    assert {one.contender for one in turn} == {"kvue", "ssr"}


@pytest.mark.parametrize(("people", "share"), [(100, 0), (400, 0.04)])
def test_a_question_of_which_nearly_all_intervals_have_a_flag_is_given_up(people: int, share: float) -> None:
    tested = round(people * share)
    few = count(tested=tested, covered=tested, flags={"wide": people - tested, "ok": tested})
    assert enough(few, 400)
    assert not enough(replace(few, flags=few.flags - Counter(wide=1)), 400)


@pytest.mark.soak
def test_the_whole_page(record_property: Callable[[str, object], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """All cells that no earlier run has measured, within four hours; the page is written whatever it says."""
    monkeypatch.chdir(Path(__file__).parents[2])
    monkeypatch.setattr("sys.argv", ["honesty", "docs/honesty.md"])
    page.main()
    measured = page.read(Path("docs/honesty.jsonl"))
    record_property("cells", sum(bool(one.counts) for one in measured))
    assert not faults(measured)
