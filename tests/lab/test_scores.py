"""The best of several forms is found on one half of the runs and measured on the other."""

from __future__ import annotations

import numpy as np
import pytest

from keyveil.lab.ratios import gain
from keyveil.lab.scores import Score, best_form, score, ties, told_apart, winner


def test_each_half_is_measured_with_what_the_other_half_found() -> None:
    found = best_form({"a": [1.0, 9.0, 1.0, 9.0], "b": [2.0, 3.0, 2.0, 3.0]})
    assert found is not None and found.forms == ("b", "a")
    assert found.error == np.mean([2, 2, 9, 9])  # runs 2 and 4 say b, runs 1 and 3 say a


def test_the_best_of_many_lucky_forms_looks_no_better_than_it_is() -> None:
    """Forty forms of the same error 1 ± 0.5. The least mean of 20 runs is 0.76 on average; measured as it should be, 1.

    The mean of 200 such has a standard error below 0.01 (20 runs of spread 0.5), so 0.95 is five of them away.
    """
    rng = np.random.default_rng(1)
    honest, lucky = [], []
    for _ in range(200):
        runs = {str(form): list(rng.normal(1, 0.5, 20)) for form in range(40)}
        found = best_form(runs)
        assert found is not None
        honest.append(found.error)
        lucky.append(min(float(np.mean(errors)) for errors in runs.values()))
    assert abs(np.mean(honest) - 1) < 0.05 and np.mean(lucky) < 0.85  # the second is what the first must not be


def test_a_form_alone_and_a_single_run_stand_for_themselves() -> None:
    assert best_form({}) is None
    assert best_form({"a": [3.0]}) == Score(3.0, None, ("a",))
    assert best_form({"a": [3.0], "b": [1.0]}) == Score(3.0, None, ("a",))  # nothing to find b on
    alone = best_form({"a": [1.0, 3.0]})
    assert alone == score("a", [1.0, 3.0]) and alone.spread == pytest.approx(1.0)


def test_winners_and_ties_are_told_at_two_standard_errors() -> None:
    scores = {"a": Score(1.0, 0.3, ()), "b": Score(1.9, 0.4, ()), "c": Score(2.1, 0.4, ())}
    assert winner(scores) == "a" and ties(scores) == ("b",)
    assert winner({}) is None and ties({}) == ()
    assert told_apart(scores["a"], scores["c"]) == 1 and told_apart(scores["c"], scores["a"]) == -1
    assert told_apart(Score(1.0, None, ()), Score(1.1, None, ())) == 1


def test_a_gain_is_a_geometric_mean_with_wins_ties_and_losses() -> None:
    sure, unsure = 0.01, 9.0
    rows = [
        (Score(1.0, sure, ()), Score(4.0, sure, ())),
        (Score(2.0, sure, ()), Score(1.0, sure, ())),
        (Score(1.0, unsure, ()), Score(4.0, sure, ())),
        (Score(0.0, sure, ()), Score(4.0, sure, ())),  # no ratio
    ]
    found = gain(rows)
    assert found is not None and (found.wins, found.ties, found.losses, found.rows) == (1, 1, 1, 3)
    assert found.ratio == pytest.approx(2.0) and (found.least, found.most) == (0.5, 4.0) and str(found) == "2.00"
    assert gain([]) is None
