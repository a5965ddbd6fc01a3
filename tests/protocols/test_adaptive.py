"""Adaptive: the published form and the repaired one, their exact budgets and biases, and the paper's errata E1–E9."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property

import numpy as np
import pytest

from keyveil import testing as checks
from keyveil.core.channels import TwoLevel
from keyveil.core.epsilon import exp_floor, keeps, log_ceiling
from keyveil.core.errors import KeyveilError, ProtocolError
from keyveil.core.estimates import Estimates
from keyveil.core.schema import GRID, Schema
from keyveil.core.tally import Tally
from keyveil.core.undercount import Undercount
from keyveil.frames.population import Population
from keyveil.lab import datasets
from keyveil.lab.fairness import with_true_epsilon
from keyveil.lab.simulate import FAIR_RUNS, simulate, summary
from keyveil.mechanisms.base import Mechanism, Pairs
from keyveil.mechanisms.numeric.piecewise import piecewise_window
from keyveil.mechanisms.registry import create
from keyveil.mechanisms.rounds.adaptive import KeyPhase, ValuePhase
from keyveil.mechanisms.rounds.adaptive_budget import PhaseBudget, amplified
from keyveil.privacy.certify import enumerate_worst
from keyveil.protocols.adaptive import Adaptive, Variant
from keyveil.protocols.base import Finished, Protocol, most_spent
from keyveil.protocols.certificate import worst_loss
from tests.mechanisms.keyvalue.exact import expected_counts, spent
from tests.protocols.rounds import finish

THREE, TWENTY = Schema(keys=3), Schema(keys=20)
ONE = Fraction(1)
PHASES = {
    "keys": KeyPhase(THREE, ONE, 2),
    "keys as published": KeyPhase(THREE, ONE, 2, "paper"),
    "values": ValuePhase(THREE, ONE, 2, steps=2),
    "weighted values": ValuePhase(THREE, ONE, 2, (1, 4, 9), steps=2),
    "values as published": ValuePhase(THREE, ONE, 1, (1, 4, 9), variant="published", steps=2),
}


CHECKS = [
    checks.privacy_by_enumeration,
    checks.tightness,
    checks.single_draws_have_the_law,
    checks.bulk_draws_have_the_law,
    checks.reports_travel,
    checks.parts_add_up,
]


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("check", CHECKS)
def test_both_phases_are_mechanisms_like_any_other(phase: str, check: Callable[[Mechanism], None]) -> None:
    check(PHASES[phase])


def test_a_larger_total_than_needed_leaves_budget_over_but_breaks_nothing() -> None:
    phase = ValuePhase(THREE, ONE, 2, (1, 4, 9), reserve=20, steps=2)
    checks.privacy_by_enumeration(phase)
    checks.bulk_draws_have_the_law(phase)


@pytest.mark.parametrize("population", [False, True])
def test_values_have_the_errors_that_they_state(population: bool) -> None:
    mechanism = ValuePhase(Schema(keys=4), Fraction(4), 4, (2, 2, 1, 1), steps=64)
    checks.errors_are_as_stated(mechanism, population=population)


# -- the errata of the fairness paper -------------------------------------------------------------------------------


def estimated(phase: KeyPhase | ValuePhase, crowd: Sequence[Pairs], each: int = 10**12) -> Estimates:
    """What the estimator makes of the tally that one expects, exactly, of so many people with each of these records."""
    counts = sum(expected_counts(phase, pairs) * each for pairs in crowd)
    whole = np.vectorize(round, otypes=[np.int64])(counts)
    return phase.estimate(Tally(phase.fingerprint, each * len(crowd), whole))


@pytest.mark.parametrize("phase", ["keys", "keys as published"])
def test_erratum_E1_the_first_phase_estimates_frequencies_and_not_those_of_the_sampled_key(phase: str) -> None:  # noqa: N802
    """Half of the people hold keys 0 and 2, the others key 0 alone; the sampled key would be found half as often."""
    keys = PHASES[phase]
    assert isinstance(keys, KeyPhase) and keys.max_pairs == 2
    estimates = estimated(keys, [[(0, GRID), (2, -GRID)], [(0, GRID)]])
    assert estimates.frequency.values == pytest.approx([1, 0, 0.5], abs=1e-9)


def test_erratum_E2_answers_add_up_to_the_values_of_those_who_kept_their_key() -> None:  # noqa: N802
    """Answers are those of people whose key survived, a share p₂: products and means come out right only with it."""
    estimates = estimated(ValuePhase(THREE, ONE, 2, (1, 4, 9), steps=2), [[(1, GRID), (2, -GRID // 2)]])
    assert estimates.product == pytest.approx([0, 1, -0.5], abs=1e-9)
    assert estimates.mean.values[1:] == pytest.approx([1, -0.5], abs=1e-9)


def test_erratum_E3_frequencies_at_or_below_zero_have_a_floor() -> None:  # noqa: N802
    for variant in ("repaired", "published"):
        protocol = Adaptive(TWENTY, ONE, 5, variant)
        first = protocol.next_round([])
        assert first is not None
        nothing = Tally(first.mechanism.fingerprint, 50, np.eye(21, dtype=np.int64)[20] * 50)
        following = protocol.next_round([Finished(first, nothing)])
        assert following is not None and following.mechanism.options["weights"] == [1] * 20


def test_erratum_E4_sampling_within_a_record_biases_means_and_constant_inclusion_does_not() -> None:  # noqa: N802
    """Half of the people hold keys 0 and 1, half 0 and 2; the first say +1 of key 0, the others -1: its mean is 0."""
    crowd: list[Pairs] = [[(0, GRID), (1, 0)], [(0, -GRID), (2, 0)]]
    published, repaired = (
        estimated(ValuePhase(THREE, ONE, 2, (1, 1, 9), variant=variant, steps=2), crowd)
        for variant in ("published", "repaired")
    )
    assert published.mean.values[0] == pytest.approx(2 / 3, abs=1e-9)
    assert repaired.mean.values[0] == pytest.approx(0, abs=1e-9)
    assert published.flag[0] == "truncated" and repaired.flag[0] == "ok"


def test_erratum_E5_sampling_amplifies_exactly_as_far_as_no_symbol_can_be_certain() -> None:  # noqa: N802
    assert spent(KeyPhase(THREE, Fraction("0.5"), 2)) == pytest.approx(0.5, abs=1e-8)
    sharp = Fraction(KeyPhase(THREE, Fraction("0.5"), 2).channel.ratio)
    assert math.log(1 + (sharp - 1) / 2) == pytest.approx(0.5, abs=1e-8)
    assert math.log(1 + (math.e - 1) / 2) == pytest.approx(0.6201, abs=1e-4)  # the budget 1 at |S| = 2

    class OneDummy(KeyPhase):
        """All of the null mass on one symbol: certain for an empty record."""

        @cached_property
        def channel(self) -> TwoLevel:
            return TwoLevel(self.schema.d + 1, 1, super().channel.high, super().channel.low)

    assert spent(OneDummy(THREE, Fraction("0.5"), 2)) == pytest.approx(math.log(sharp), abs=1e-8)
    with pytest.raises(AssertionError, match="spends"):
        checks.privacy_by_enumeration(OneDummy(THREE, Fraction("0.5"), 2))


def test_erratum_E5_dummies_of_the_second_phase_are_needed_too() -> None:  # noqa: N802
    class OneDummy(ValuePhase):
        @cached_property
        def budget(self) -> PhaseBudget:
            keys, value = super().budget
            return PhaseBudget(TwoLevel(self.schema.d + 1, 1, keys.high, keys.low), value)

    honest, careless = (kind(THREE, ONE, 3, steps=2) for kind in (ValuePhase, OneDummy))
    checks.privacy_by_enumeration(honest)
    with pytest.raises(AssertionError, match="spends"):
        checks.privacy_by_enumeration(careless)


@pytest.mark.parametrize(
    ("key", "value", "places", "tight"), [("0.7", "1.4", 2, 0.9273), ("1", "1", 4, 0.626), ("1", "1", 1, 1.5)]
)
def test_erratum_E6_a_uniform_fake_costs_half_of_the_value_budget(  # noqa: N802
    key: str, value: str, places: int, tight: float
) -> None:
    window = piecewise_window(2048, Fraction(value))
    ratio = amplified(exp_floor(Fraction(key)), window, Fraction(1, places))
    assert math.log(ratio) == pytest.approx(tight, abs=2e-3)


def test_erratum_E6_a_fake_zero_costs_all_of_it() -> None:  # noqa: N802
    assert spent(ValuePhase(THREE, Fraction(2), 1, variant="published", steps=2)) == pytest.approx(2, abs=1e-8)


def test_erratum_E7_linear_s_has_frequencies_that_add_up_to_the_set_size() -> None:  # noqa: N802
    for slope in (0.1, 1, 5):
        frequencies, _ = datasets.recipe("linear-s", slope=slope).profile()
        assert frequencies.sum() == pytest.approx(5) and 0 < frequencies.min() <= frequencies.max() < 1


def test_erratum_E8_rivals_are_compared_at_their_tight_budgets() -> None:  # noqa: N802
    """n · Var(m) of a key with f = 1/4, m = 0.3 and E v² = 0.2, out of 20, five a person, ε = 1 and 4."""
    f, m = np.array([0.25]), np.array([0.3])
    grr = create("pckv-grr", TWENTY, 1, max_pairs=5)
    var_f, var_u, cov = (part[0] for part in grr.response.spread(f, m, np.array([1.0]), 0.0))  # type: ignore[attr-defined]
    assert (var_u + 0.09 * var_f - 0.6 * cov) / 0.0625 == pytest.approx(814, rel=0.02)
    assert _variance_of_mean(ValuePhase(TWENTY, ONE, 5)) == pytest.approx(1290 * 1.15, rel=0.1)
    assert _variance_of_mean(ValuePhase(TWENTY, Fraction(4), 5)) == pytest.approx(16.7 * 1.15, rel=0.1)
    assert _variance_of_mean(ValuePhase(TWENTY, ONE, 5, variant="published")) > 10 * 1290


def _variance_of_mean(phase: ValuePhase, n: int = 10**9) -> float:
    """From a tally that is what one expects of so many people."""
    (keys, window), share = phase.budget, 0.25 / 5
    hit, miss, gain, radius = (float(x) for x in (keys.hit, keys.miss, window.gain, window.radius))
    own = float(window.noise) + gain * 0.2 * radius**2
    lie = (window.outputs**2 - 1) / 12 if phase.repaired else float(window.noise)
    moments = [
        share * hit + (1 - share) * miss,
        share * hit * gain * radius * 0.3,
        share * hit * own + (1 - share) * miss * lie,
    ]
    counts = np.rint(np.outer(moments, np.full(20, n))).astype(np.int64)
    return float(phase.estimate(Tally(phase.fingerprint, n, counts), population=True).mean.se[0] ** 2 * n)


def test_erratum_E9_fairness_does_not_see_how_large_errors_are_so_errors_stand_beside_it() -> None:  # noqa: N802
    """Ten times the errors of every mean: just as fair, and a hundred times as bad."""
    crowd = datasets.recipe("linear-s").draw(3000, 1)
    truth = crowd.truth(TWENTY)
    protocol = Adaptive(TWENTY, Fraction(4), 5, steps=64)
    small = protocol.estimate(finish(protocol, crowd, 1))
    errors = np.linspace(0.1, 1, 20)

    def stated(scale: float) -> tuple[float, float]:
        off = replace(small, mean=replace(small.mean, values=truth.mean + scale * errors))
        shown = summary([off] * FAIR_RUNS, truth)
        assert shown["fairness_mean"] is not None and shown["mse_mean"] is not None
        return shown["fairness_mean"], shown["mse_mean"]

    (fair, error), (as_fair, larger) = stated(0.01), stated(0.1)
    assert 0 < fair < 1 and as_fair == pytest.approx(fair)
    assert larger == pytest.approx(100 * error) and error > 0


# -- the protocol ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["repaired", "published", "parted"])
def test_nobody_spends_more_than_epsilon_whatever_is_broadcast(variant: str) -> None:
    """A hostile collector chooses the weights of the second phase; what both phases spend is enumerated."""
    protocol = Adaptive(THREE, ONE, 2, variant, steps=2)  # type: ignore[arg-type]
    first = enumerate_worst(protocol.keys()).ratio
    for weights in ((1, 1, 1), (1, 1, 1000), (1, 1000, 1000), (7, 1, 30)):
        second = enumerate_worst(protocol.values(weights)).ratio
        together = Fraction(first) * Fraction(second) if variant == "published" else max(first, second)
        assert keeps(together, ONE), log_ceiling(together)


@pytest.mark.parametrize(("keys", "pairs", "spent"), [(3, 1, 1.0), (5, 5, 0.75)])
def test_the_published_phases_tell_less_together_than_they_add_up_to(keys: int, pairs: int, spent: float) -> None:
    """Enumerated over the records that the closed form names as the worst: it is an upper bound, and they attain it."""
    for epsilon in (1, 2, 4):
        protocol = Adaptive(Schema(keys=keys), Fraction(epsilon), pairs, "published", steps=2)
        full = [[(key, value) for key in range(pairs)] for value in (GRID, -GRID)]
        people: list[Pairs] = [[], *full, [(0, GRID)], [(0, -GRID)], [(keys - 1, GRID)]]
        people = [one for at, one in enumerate(people) if one not in people[:at]]
        second = [protocol.values(weights) for weights in ((1,) * keys, (1000,) + (1,) * (keys - 1))]
        worst = worst_loss([[protocol.keys()], second], people).ratio
        assert math.log(worst) == pytest.approx(spent * epsilon, abs=1e-6)
        assert math.log(protocol.true_ratio()) == pytest.approx(spent * epsilon, abs=1e-6)


def test_the_repaired_form_asks_everybody_once_and_the_published_one_twice() -> None:
    crowd = datasets.recipe("linear-s").draw(2000, 1)
    repaired, published = (finish(Adaptive(TWENTY, ONE, 5, variant), crowd, 1) for variant in ("repaired", "published"))
    assert sum(one.tally.reports for one in repaired) == 2000
    assert [one.tally.reports for one in published] == [2000, 2000]
    assert [one.round.epsilon for one in repaired] == [1, 1]
    assert [one.round.epsilon for one in published] == [Fraction(1, 2)] * 2
    assert most_spent([one.round for one in repaired]) == most_spent([one.round for one in published]) == 1


@pytest.mark.parametrize("total", [1, 12, 10**9])
def test_a_device_refuses_a_total_that_would_undo_the_amplification(total: int) -> None:
    """The heaviest two of (1, 4, 9) weigh 13; with less, a key would be sampled more often than was accounted for."""
    with pytest.raises(ProtocolError, match="announced total") as refusal:
        ValuePhase(THREE, ONE, 2, (1, 4, 9), reserve=total)
    assert refusal.value.code == "protocol/broadcast"


def test_the_repaired_form_is_unbiased_where_values_depend_on_other_keys() -> None:
    """Standardised errors of f·m over 60 runs and 20 keys; bounds of a false-alarm rate below 1e-6."""
    crowd = datasets.recipe("dependent").draw(3000, 2)
    truth = crowd.truth(TWENTY)
    protocol = Adaptive(TWENTY, Fraction(4), 5, theta=ONE, steps=64)
    runs = [protocol.estimate(finish(protocol, crowd, run)) for run in range(60)]
    z = np.array([(one.product - truth.frequency * truth.mean) / one.product_se for one in runs])  # type: ignore[operator]
    assert np.abs(z.mean(axis=0) * math.sqrt(len(z))).max() < 5.5
    assert abs((z**2).mean() - 1) < 5.5 * math.sqrt(2 / z.size)


@pytest.mark.parametrize("slope", [0.1, pytest.param(1, marks=pytest.mark.soak), 5])
def test_repairing_beats_splitting_people_beats_splitting_the_budget(slope: float) -> None:
    """Twenty runs at a true ε of 2: ratios of 1.5 and more, which chance moves by a tenth (false alarms below 1e-4)."""
    crowd = datasets.recipe("linear-s", slope=slope).draw(20_000, 1)
    truth = crowd.truth(TWENTY)

    def errors(protocol: Protocol) -> tuple[float, float]:
        runs = [protocol.estimate(finish(protocol, crowd, run)) for run in range(20)]
        means = [np.nan_to_num(np.clip(one.mean.values, -1, 1)) for one in runs]
        frequencies = [one.frequency.values for one in runs]
        mean = np.mean([(one - truth.mean) ** 2 for one in means])
        return float(np.mean([(one - truth.frequency) ** 2 for one in frequencies])), float(mean)

    variants: tuple[Variant, ...] = ("published", "parted", "repaired")
    published, parted, repaired = (
        errors(with_true_epsilon(Adaptive(TWENTY, Fraction(2), 5, variant, steps=64))) for variant in variants
    )
    assert repaired[0] < parted[0] < published[0]
    assert 2 * repaired[1] < min(parted[1], published[1])


@pytest.mark.parametrize(
    "wrong", [{"max_pairs": 0}, {"max_pairs": 21}, {"variant": "other"}, {"theta": -1}, {"share": 1}], ids=str
)
def test_an_adaptive_that_makes_no_sense_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(KeyveilError):
        Adaptive(TWENTY, ONE, **{"max_pairs": 5, **wrong})  # type: ignore[arg-type]


# -- the cap --------------------------------------------------------------------------------------------------------


def test_a_last_group_tells_how_far_people_exceed_the_cap_and_without_it_the_undercount_is_unknown() -> None:
    """Half of the people hold 2 of 20 keys, half 6, and 4 count: of 8 pairs 6 are kept."""
    crowd = Population.from_records(
        [{str((3 * who + step) % 20): 0.5 for step in range(2 if who % 2 else 6)} for who in range(8000)]
    )
    judged = simulate("adaptive", crowd, TWENTY, 8, seed=5, max_pairs=4)
    found = judged.estimates.header.undercount
    assert found is not None and found.state == "corrected" and found.kept == pytest.approx(6 / 8, abs=0.1)
    truth, column = judged.truth.frequency, judged.estimates.frequency
    assert np.mean((column.low <= truth) & (truth <= column.high)) >= 0.9
    silent = simulate("adaptive", crowd, TWENTY, 8, seed=5, max_pairs=4, overflow="off").estimates
    assert silent.header.undercount == Undercount(4) and (silent.frequency.high < truth).all()


def test_the_group_has_people_of_its_own_and_documents_without_it_are_as_before() -> None:
    grouped = Adaptive(TWENTY, ONE, 5, overflow="0.03")
    assert [one.mechanism.name for one in grouped.course] == ["adaptive-key", "adaptive-value", "overflow"]
    assert most_spent(grouped.course) == ONE and log_ceiling(grouped.certificate().ratio) <= ONE
    assert "overflow" not in Adaptive(TWENTY, ONE, 5).parameters
    assert Adaptive(TWENTY, ONE, 20, overflow="0.03").parameters == Adaptive(TWENTY, ONE, 20).parameters
    for options in ({"variant": "published"}, {"variant": "parted"}, {"share": Fraction(98, 100)}):
        with pytest.raises(ProtocolError, match="repaired form, and room"):
            Adaptive(TWENTY, ONE, 5, overflow="0.03", **options)
