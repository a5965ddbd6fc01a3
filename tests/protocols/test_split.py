"""Split: disjoint groups with the whole ε each, one merged answer, and every group's own."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from keyveil.core.errors import KeyveilError
from keyveil.core.schema import Schema
from keyveil.frames.population import Population
from keyveil.lab import datasets
from keyveil.mechanisms.families.key_value import KeyValue
from keyveil.protocols.base import history_document, most_spent, resume
from keyveil.protocols.split import Split
from tests.protocols.rounds import finish

SCHEMA = Schema(keys=6)
SHARES, MEANS = np.linspace(0.15, 0.6, 6), np.linspace(-0.6, 0.7, 6)
GROUPS = "ssr:0.5,kv-sw:0.3,kvue:0.2"


def people(n: int, seed: int) -> Population:
    return datasets.independent(n, SHARES, MEANS, seed)


def test_groups_are_disjoint_and_everybody_pays_once() -> None:
    split = Split(SCHEMA, Fraction(1), GROUPS, max_pairs=6)
    rounds = [one.round for one in finish(split, people(500, 1), 1)]
    assert [one.mechanism.name for one in rounds] == ["ssr", "kv-sw", "kvue"]
    assert all(first.part.stop == second.part.start for first, second in pairwise(rounds))
    assert all(one.mechanism.epsilon == 1 for one in rounds)
    assert most_spent(rounds) == 1
    assert rounds[1].part.stop - rounds[1].part.start == Fraction(3, 10)


def test_options_reach_their_group_as_mapping_or_text() -> None:
    by_text = Split(SCHEMA, Fraction(1), "ssr:1,kvue:1", "ssr.max_pairs=2; kvue.bins=4")
    by_mapping = Split(SCHEMA, Fraction(1), "ssr:1,kvue:1", {"ssr": {"max_pairs": 2}, "kvue": {"bins": 4}})
    assert by_text.mechanism("ssr") == by_mapping.mechanism("ssr")
    assert by_text.mechanism("kvue").options == {"bins": 4}


def test_every_groups_own_answers_are_reachable() -> None:
    split = Split(SCHEMA, Fraction(1), GROUPS, max_pairs=6)
    finished = finish(split, people(4000, 1), 1)
    own = split.answers(finished)
    assert set(own) == {"ssr", "kv-sw", "kvue"}
    assert sum(one.n for one in own.values()) == 4000
    cells = split.group(finished, "kv-sw")
    assert isinstance(cells.round.mechanism, KeyValue)
    assert cells.round.mechanism.histogram(cells.tally).mass.shape[0] == SCHEMA.d


@pytest.mark.parametrize("population", [False, True])
def test_the_merged_answer_has_the_error_that_it_states(population: bool) -> None:
    """Standardised errors over 200 runs and 6 keys; the bounds hold for a correct merge but once in 1e7 runs."""
    split, same = Split(SCHEMA, Fraction(1), GROUPS, max_pairs=6), people(3000, 3)
    truth = same.truth(SCHEMA)
    frequency, product = (SHARES, SHARES * MEANS) if population else (truth.frequency, truth.frequency * truth.mean)
    scores = {"frequency": list[np.ndarray](), "product": list[np.ndarray]()}
    covered = []
    for run in range(200):
        asked = people(3000, 100 + run) if population else same
        estimates = split.estimate(finish(split, asked, 1000 + run), population=population)
        scores["frequency"].append((estimates.frequency.values - frequency) / estimates.frequency.se)
        assert estimates.product is not None and estimates.product_se is not None
        scores["product"].append((estimates.product - product) / estimates.product_se)
        covered.append((estimates.mean.low <= product / frequency) & (product / frequency <= estimates.mean.high))
    for what, rows in scores.items():
        z = np.array(rows)
        assert np.abs(z.mean(axis=0) * math.sqrt(len(z))).max() < 5.5, what
        assert abs((z**2).mean() - 1) < 5.5 * math.sqrt(2 / z.size), what
    assert 0.92 < np.mean(covered) < 0.98


def test_merging_is_better_than_the_best_group_alone() -> None:
    split = Split(SCHEMA, Fraction(1), "ssr:0.5,wsr:0.5", max_pairs=6)
    finished = finish(split, people(20_000, 5), 5)
    together, apart = split.estimate(finished, population=True), split.answers(finished, population=True)
    assert all((together.frequency.se < 0.9 * one.frequency.se).all() for one in apart.values())


def test_groups_that_give_only_one_of_both_still_help() -> None:
    """Frequencies of a group with cells sharpen the means of the group with signs."""
    split = Split(SCHEMA, Fraction(2), "ssr:0.5,kvue:0.5", "kvue.bins=4", max_pairs=6)
    finished = finish(split, people(20_000, 6), 6)
    together, alone = split.estimate(finished), split.answers(finished)["ssr"]
    assert alone.mean.absent == "" and split.answers(finished)["kvue"].mean.absent
    assert np.isfinite(together.mean.values).all() and (together.mean.flag == 0).all()
    assert together.frequency.se.mean() < alone.frequency.se.mean()


def test_a_split_that_was_stopped_goes_on() -> None:
    split = Split(SCHEMA, Fraction(1), GROUPS, max_pairs=6)
    finished = finish(split, people(900, 1), 1)
    half = resume(split, history_document(finished[:2]))
    following = split.next_round(half)
    assert following == finished[2].round
    assert split.estimate(half).n == sum(one.tally.reports for one in half)


@pytest.mark.parametrize(
    "wrong",
    [
        {"groups": "ssr:0.5,ssr:0.5"},
        {"groups": "ssr:0"},
        {"groups": "ssr:x"},
        {"groups": "nonsense:1"},
        {"groups": "kvue:1", "options": "ssr.max_pairs=3"},
        {"groups": "kvue:1", "options": "bins=3"},
        {"groups": "ssr:1"},
    ],
    ids=str,
)
def test_a_split_that_makes_no_sense_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(KeyveilError):
        Split(SCHEMA, Fraction(1), **wrong)  # type: ignore[arg-type]


def test_nobody_has_answered() -> None:
    with pytest.raises(KeyveilError, match="No group"):
        Split(SCHEMA, Fraction(1), "kvue:1").estimate([])
