"""Two rounds of TopSel on dense sets: intervals hold what they promise, because hardly a vector is cut."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np
import pytest

from keyveil.lab.coins import SeededCoins
from keyveil.lab.simulate import simulate
from keyveil.mechanisms.rounds.energy import Energy
from keyveil.mechanisms.rounds.topsel_project import Project
from keyveil.mechanisms.size_law import SizeLaw
from keyveil.protocols import lengths, second_round
from keyveil.protocols.lengths import Lengths
from keyveil.protocols.second_round import PilotBeliefs
from keyveil.protocols.topsel_project import TopSelProject
from tests.protocols import dense_panel
from tests.protocols.dense_panel import as_before, drawn, moved

PROMISED = 0.93  # of intervals must hold the truth

Covered = tuple[float, float, int]


def told_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: spread of Beta(8), people all alike, and a radius that cuts one vector of five."""
    learnt = PilotBeliefs.of
    monkeypatch.setattr(second_round.PilotBeliefs, "of", lambda *told: as_before(learnt(*told)))
    monkeypatch.setattr(lengths, "CUTS", (0.8,))


@pytest.mark.parametrize("name", ["panel", "survey"])
def test_cutting_moves_answers_by_less_than_a_third_of_a_standard_error(name: str) -> None:
    """With 100,000 people at ε = 4: a bias of 0.33 would leave 0.937 of 0.95."""
    people, schema = drawn(name, 100_000, 1)
    protocol = TopSelProject(schema, Fraction(4), mode="project")
    project, rest = dense_panel.second_round(protocol, people.records(schema), 2)
    assert isinstance(project, Project)
    found = moved(project, rest)
    assert found.frequency < 1 / 3 and found.mean < 1 / 3


def test_the_radius_of_old_would_move_them_by_more_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    told_as_before(monkeypatch)
    people, schema = drawn("panel", 100_000, 1)
    project, rest = dense_panel.second_round(
        TopSelProject(schema, Fraction(4), mode="project"), people.records(schema), 2
    )
    assert isinstance(project, Project)
    assert moved(project, rest).frequency > 1


def test_lengths_have_the_quantiles_of_people() -> None:
    """Told the truth about sets, the model of lengths is right within a tenth up to the 99th percentile."""
    people, schema = drawn("panel", 20_000, 3)
    truth, records, d = people.truth(schema), people.records(schema), schema.d
    r = np.zeros(records.n)
    np.add.at(r, np.repeat(np.arange(records.n), records.sizes), (records.values / (1 << 16)) ** 2)
    r = r[records.sizes > 0] / records.sizes[records.sizes > 0]
    law = SizeLaw.of((np.bincount(records.sizes) / records.n).tolist())
    energy = Energy(float(r.sum() / records.n), float((r**2).sum() / records.n))
    spread, uneven = second_round._of_values(energy, truth.frequency, truth.mean, law)
    sure = PilotBeliefs(truth.frequency, truth.mean, np.zeros(d), np.zeros(d), spread, uneven, law)
    for project in islice(second_round.projections(schema, Fraction(4), sure, 10**6, 64), 0, None, 7):
        scales = np.array(project.scales, dtype=np.float64)
        model = Lengths.of(sure, scales[:d] ** 2, scales[d:] ** 2)
        held, owners = np.zeros((records.n, 2 * d)), np.repeat(np.arange(records.n), records.sizes)
        held[owners, records.keys], held[owners, d + records.keys] = 1.0, records.values / (1 << 16)
        true = np.sqrt((((held - held.mean(axis=0)) * scales) ** 2).sum(axis=1))
        for quantile in (0.5, 0.9, 0.97, 0.99):
            assert model.radius(quantile) == pytest.approx(float(np.quantile(true, quantile)), rel=0.1)


def test_uneven_sizes_are_priced_and_not_forbidden() -> None:
    """Where a few people hold nearly everything, a vector that is not cut is dearer than asking about one key."""
    people, schema = drawn("heavy", 30_000, 1)
    assert dense_panel.second_round(TopSelProject(schema, Fraction(4)), people.records(schema), 2)[0].name == "topsel"
    forced = TopSelProject(schema, Fraction(4), mode="project")
    project, rest = dense_panel.second_round(forced, people.records(schema), 2)
    assert isinstance(project, Project)
    assert moved(project, rest).frequency < 1 / 3


def test_a_larger_crowd_has_a_larger_radius() -> None:
    """Noise shrinks with the number of people, and what cutting moves does not."""
    people, schema = drawn("panel", 20_000, 3)
    truth, d = people.truth(schema), schema.d
    law = SizeLaw.of((np.bincount(people.sizes) / people.n).tolist())
    sure = PilotBeliefs(truth.frequency, truth.mean, np.zeros(d), np.zeros(d), 0.3, 0.02, law)
    few, many = (next(second_round.projections(schema, Fraction(4), sure, n, 64)) for n in (1000, 10**7))
    assert few.radius < many.radius and abs(few.tilt) > abs(many.tilt)
    assert few.shrink < many.shrink <= 1


@pytest.mark.parametrize(
    ("energy", "spread", "uneven"),
    [(Energy(0.4, 0.2), 0.2, 0.04), (Energy(-0.1, 0.2), 0.02, 0.0), (Energy(1.2, 1.3), 1.0, 0.0)],
)
def test_what_is_learnt_of_values_stays_possible(energy: Energy, spread: float, uneven: float) -> None:
    """Means of ±1/2 leave 3/4 for the spread: (0.4 - 1/4) / (3/4) = 0.2; noise beyond 0 and 1 is cut off."""
    found = second_round._of_values(energy, np.full(4, 0.5), np.array([0.5, -0.5, 0.5, -0.5]), SizeLaw.read("2"))
    assert list(found) == pytest.approx([spread, uneven])
    half = second_round._of_values(energy, np.full(4, 0.5), np.zeros(4), SizeLaw.read("0:0.5,4:0.5"))
    assert half[0] == pytest.approx(min(max(2 * energy.mean, 0.02), 1))  # who holds nothing has no values


def test_certain_means_leave_the_least_spread() -> None:
    assert second_round._of_values(Energy(1.0, 1.0), np.ones(2), np.ones(2), SizeLaw.read("2"))[0] == 0.02


def test_where_nobody_tells_of_their_sets_the_worst_is_believed() -> None:
    people, schema = drawn("panel", 500, 1)
    direct = TopSelProject(schema, Fraction(4)).direct
    keys = direct.estimate(direct.tally(direct.perturb_many(people.records(schema), SeededCoins(1))), population=True)
    beliefs = PilotBeliefs.of(keys, None, None)
    assert (beliefs.spread, beliefs.uneven, beliefs.law.largest) == (1.0, 0.0, schema.d)


# -- coverage at full size ------------------------------------------------------------------------------------------


def covered(name: str, n: int, epsilon: str, runs: int, first: int, **options: Any) -> Covered:
    """The shares of intervals of f and of m that hold the truth, and the number of either."""
    found: list[tuple[float, float]] = []
    for run in range(runs):
        people, schema = drawn(name, n, first + run)
        result = simulate("topsel-project", people, schema, epsilon, seed=first + run, **options)
        f, m, truth = result.estimates.frequency, result.estimates.mean, result.truth
        found += zip(
            (f.low <= truth.frequency) & (truth.frequency <= f.high),
            (m.low <= truth.mean) & (truth.mean <= m.high),
            strict=True,
        )
    shares = np.mean(found, axis=0)
    return float(shares[0]), float(shares[1]), len(found)


def least(tests: int) -> float:
    """The share below which a promise of 0.93 is refuted: four standard errors, a false alarm in 30,000."""
    return PROMISED - 4 * float(np.sqrt(PROMISED * (1 - PROMISED) / tests))


@pytest.mark.soak
@pytest.mark.parametrize(("n", "runs"), [(30_000, 20), (300_000, 5)])
@pytest.mark.parametrize("name", ["panel", "survey", "heavy"])
def test_intervals_cover_on_dense_sets(
    name: str, n: int, runs: int, record_property: Callable[[str, object], None]
) -> None:
    for epsilon in ("2", "4"):
        f, m, tests = covered(name, n, epsilon, runs if name != "heavy" else max(runs // 4, 2), 1000)
        record_property(f"ε {epsilon}", f"f {f:.3f}, m {m:.3f} of {tests}")
        assert min(f, m) > least(tests)


@pytest.mark.soak
def test_intervals_with_the_radius_of_old_are_refuted(
    monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    told_as_before(monkeypatch)
    f, m, tests = covered("panel", 300_000, "4", 3, 1000, mode="project")
    record_property("ε 4", f"f {f:.3f}, m {m:.3f} of {tests}")
    assert min(f, m) < least(tests)
