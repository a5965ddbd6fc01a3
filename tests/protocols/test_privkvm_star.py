from __future__ import annotations

from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from keyveil.core.channels import TwoLevel
from keyveil.core.coins import Coins
from keyveil.core.epsilon import levels
from keyveil.core.errors import ProtocolError
from keyveil.core.schema import GRID, Schema
from keyveil.core.tally import Tally
from keyveil.lab import datasets
from keyveil.lab.rounds import ask
from keyveil.lab.simulate import simulate
from keyveil.mechanisms.keyvalue.kvue import KVUE
from keyveil.mechanisms.rounds.privkvm_star import EndLabels, LabelRound
from keyveil.privacy.certify import certify, enumerate_worst
from keyveil.privacy.enumerate import law
from keyveil.protocols.base import Finished, most_spent
from keyveil.protocols.privkvm_star import PrivKVMStar, usual_bins
from keyveil.protocols.unshrunk import Unshrunk
from tests.protocols.hostile import records, worst_loss

VALUES = (-GRID, -GRID // 2, -1, 0, 7, GRID // 3, GRID - 1, GRID)


def labels(d: int = 1, epsilon: int = 1, **options: Any) -> LabelRound:
    return LabelRound(Schema(keys=d), Fraction(epsilon), **options)


def star(d: int, epsilon: int = 2, **options: Any) -> PrivKVMStar:
    return PrivKVMStar(Schema(keys=d), Fraction(epsilon), **options)


# -- labels ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bins", [1, 2, 3, 4, 16])
@pytest.mark.parametrize("value", VALUES)
def test_the_ends_of_a_value_average_to_it(bins: int, value: int) -> None:
    drawn = EndLabels(bins)
    shares = law(partial(drawn.draw, value))
    ends = [Fraction(end, bins) for end in drawn.ends]
    assert sum(share * ends[label] for label, share in shares.items()) == Fraction(value, GRID)
    cells = {label // 2 for label in shares}
    assert cells == {min((GRID + value) * bins // (2 * GRID), bins - 1)}


def test_one_cell_is_kvue() -> None:
    ours, known = labels(3), KVUE(Schema(keys=3), Fraction(1))
    assert ours.channel == known.channel
    counts = np.array([[700, 500, 400], [450, 300, 300], [300, 500, 250]])
    one = ours.estimate(Tally(ours.fingerprint, int(counts.sum()), counts))
    other = known.estimate(Tally(known.fingerprint, int(counts.sum()), counts))
    np.testing.assert_allclose(one.frequency.values, other.frequency.values, rtol=1e-9)
    assert one.product is not None and other.product is not None
    np.testing.assert_allclose(one.product, other.product, rtol=1e-9)
    np.testing.assert_allclose(one.mean.values, other.mean.values, rtol=0.01)  # f > 0 depends on their errors
    np.testing.assert_allclose(one.frequency.se, other.frequency.se, rtol=0.02)
    np.testing.assert_allclose(one.mean.se, other.mean.se, rtol=0.02)


def test_cells_are_no_levels() -> None:
    rated = Schema(keys=3, levels=[1, 2, 3, 4, 5])
    assert PrivKVMStar(rated, Fraction(2)).parameters["bins"] == 1  # means are right, and nothing is said of shares
    with pytest.raises(ProtocolError, match=r"cannot tell levels: take bins=1.*kv-sw") as refused:
        PrivKVMStar(rated, Fraction(2), bins=4)
    assert refused.value.code == "protocol/option"


@pytest.mark.parametrize("options", [{}, {"bins": 2}, {"bins": 4}, {"bins": 2, "keys": (1,)}])
def test_the_response_spends_exactly_epsilon(options: dict[str, Any]) -> None:
    asked = labels(2, **options)
    high, low = levels(Fraction(1))
    assert enumerate_worst(asked).ratio == asked.ratio == TwoLevel(3, 1, high, low).ratio
    assert certify(asked).certified


@pytest.mark.parametrize("keys", [(2,), (-1,), (1, 0), (0, 0)])
def test_a_broadcast_of_keys_that_there_are_not_is_refused(keys: tuple[int, ...]) -> None:
    with pytest.raises(ProtocolError) as refused:
        labels(2, keys=keys)
    assert refused.value.code == "protocol/broadcast"


def test_only_the_announced_keys_are_asked_about() -> None:
    asked = labels(9, bins=2, keys=(1, 4, 8))
    people = datasets.independent(3000, [0.5] * 9, [0.2] * 9, 1).records(asked.schema)
    tally = asked.tally(asked.perturb_many(people, Coins()))
    assert np.flatnonzero(tally.counts.sum(axis=0)).tolist() == [1, 4, 8]
    assert {asked.encoder.key(word) for word in asked.every_word()} == {1, 4, 8}


def test_counts_of_labels_give_the_histogram_and_the_mean() -> None:
    """At expected counts: 60 % hold the key, three quarters of them at 1/2 and the others at -3/4."""
    asked = labels(1, 2, bins=4)
    inputs = np.zeros(9)
    inputs[0] = 0.4
    for value, share in ((GRID // 2, 0.45), (-3 * GRID // 4, 0.15)):
        for label, chance in law(partial(asked.labels.draw, value)).items():
            inputs[1 + label] += share * float(chance)
    counts = np.rint(10**12 * asked.channel.matrix() @ inputs).astype(np.int64)[:, None]
    tally = Tally(asked.fingerprint, int(counts.sum()), counts)
    estimates = asked.estimate(tally)
    assert estimates.frequency.values[0] == pytest.approx(0.6, abs=1e-6)
    assert estimates.mean.values[0] == pytest.approx((0.45 * 0.5 - 0.15 * 0.75) / 0.6, abs=1e-6)
    np.testing.assert_allclose(asked.histogram(tally).mass[0], [0.15, 0, 0, 0.45], atol=1e-6)
    means = asked.cell_means(tally)[0]
    assert means[0] == pytest.approx(-0.75, abs=1e-5) and means[3] == pytest.approx(0.5, abs=1e-5)


# -- two groups -----------------------------------------------------------------------------------------------------


def sparse(n: int, d: int, seed: int) -> Any:
    """The first three keys are frequent, the others nearly absent."""
    return datasets.independent(n, [0.6, 0.5, 0.4, *[0.002] * (d - 3)], [0.5, -0.5, 0.2, *[0.3] * (d - 3)], seed)


def test_everybody_answers_once_with_all_of_epsilon() -> None:
    protocol = star(6)
    first, second = ask(protocol, [sparse(4000, 6, 1).records(protocol.schema)], seed=2)
    assert first.tally.reports + second.tally.reports == 4000
    assert abs(first.tally.reports - 2000) < 6 * 32  # six deviations of a fair coin: 2e-9
    assert most_spent([first.round, second.round]) == 2
    words = np.arange(0, 2**64, 2**54, dtype=np.uint64)
    assert (first.round.part.members(words) ^ second.round.part.members(words)).all()


def test_a_hostile_collector_may_announce_any_keys() -> None:
    """Nobody is in both groups, so each answers one question; every choice of keys costs the same."""
    forms = [[labels(2, bins=2, keys=keys)] for keys in ((), (0,), (1,), (0, 1))]
    high, low = levels(Fraction(1))
    assert {worst_loss([form], records(2)) for form in forms} == {Fraction(high, low)}


def test_the_second_group_is_asked_about_frequent_keys_and_the_rest_share_an_average() -> None:
    """Base-Cut lets two absent keys pass on average; thirty (of 57) would take more than ten deviations."""
    protocol = star(60, 4)
    result = simulate(protocol, sparse(60_000, 60, 3), seed=4)
    second = result.history[1].round.mechanism
    assert isinstance(second, LabelRound)
    assert {0, 1, 2} <= set(second.keys) and len(second.keys) < 30
    light = [key for key in range(60) if key not in second.keys]
    estimates = result.estimates
    assert {estimates.frequency.values[key] for key in light} == {estimates.frequency.values[light[0]]}
    assert all(estimates.flag[key] in ("shrunk", "insufficient") for key in light)
    assert estimates.flag[0] == "ok" and estimates.product is None


def test_what_both_groups_say_is_more_than_what_either_says() -> None:
    protocol = star(3)
    result = simulate(protocol, sparse(20_000, 3, 5), seed=6)
    single = [one.estimates().frequency.se for one in result.history]
    assert (result.estimates.frequency.se < np.minimum(*single)).all()


def test_intervals_are_as_wide_as_promised() -> None:
    """Eighty runs with three keys: mean square of the standard scores within six deviations of 1, mean of 0."""
    protocol, people, scores = star(3, 2, bins=4), sparse(6000, 3, 7), []
    truth = people.truth(protocol.schema)
    for seed in range(80):
        estimates = protocol.estimate(ask(protocol, [people.records(protocol.schema)], seed))
        assert estimates.product is not None and estimates.product_se is not None
        scores.append((estimates.frequency.values - truth.frequency) / estimates.frequency.se)
        scores.append((estimates.product - truth.total / truth.n) / estimates.product_se)
    count = np.size(scores)
    assert abs(np.mean(scores)) < 6 / np.sqrt(count)
    assert abs(np.mean(np.square(scores)) - 1) < 6 * np.sqrt(2 / count)


def test_the_histogram_of_the_second_group_is_unbiased() -> None:
    """120,000 people at ε = 4; each cell within six of its own errors (2e-9)."""
    protocol = star(3, 4, bins=4)
    people = sparse(120_000, 3, 8)
    result = simulate(protocol, people, seed=9)
    histogram = protocol.histogram(result.history)
    true = people.histogram(protocol.schema, 4) / people.n
    assert (np.abs(histogram.mass - true) < 6 * histogram.se).all()
    laws = protocol.distribution(result.history, confidence=0.9999)
    for key in protocol.schema.keys:  # a median lies somewhere within its interval, which is a narrow one
        median = laws.quantile(0.5, key)
        at = protocol.schema.index(key)
        assert at is not None
        exact = people.values[people.keys == at]
        assert median.low - 0.01 <= np.median(exact) <= median.high + 0.01


def test_histograms_need_the_second_group() -> None:
    protocol = star(3)
    history = ask(protocol, [sparse(500, 3, 1).records(protocol.schema)], seed=1)
    assert protocol.estimate(history[:1]).n == history[0].tally.reports
    for early in (history[:1], list[Finished]()):
        with pytest.raises(ProtocolError):
            protocol.histogram(early)


def test_if_no_key_stands_out_the_likeliest_two_are_asked_about() -> None:
    protocol = star(5)
    first = protocol.next_round([])
    assert first is not None
    shares = np.array([first.mechanism.channel.weights[0]]).T  # type: ignore[attr-defined]
    counts = np.rint(1000 * shares / shares.sum()).astype(np.int64) * np.ones(5, dtype=np.int64) - [[0], [2], [2]]
    counts[1, [1, 3]] += 1  # below zero like all others, but less so
    second = protocol.next_round([Finished(first, Tally(first.mechanism.fingerprint, int(counts.sum()), counts))])
    assert second is not None and isinstance(second.mechanism, LabelRound)
    assert second.mechanism.keys == (1, 3)


def test_the_error_does_not_grow_with_epsilon_where_no_key_stands_out() -> None:
    """Two hundred keys that 0.4 % hold: asking about all of them, once no key stood out, gave fifty times the error.

    The average error of three runs may rise by half from one epsilon to the next, not more.
    """
    people = datasets.independent(2000, [0.004] * 200, [0.3] * 200, 1)
    errors = [
        np.mean([simulate(star(200, epsilon), people, seed=seed).metrics["mse_frequency"] for seed in range(3)])
        for epsilon in (2, 4, 8)
    ]
    assert all(later < 1.5 * earlier for earlier, later in pairwise(errors))


def test_the_error_of_means_does_not_grow_with_epsilon_either() -> None:
    """One mean for a hundred rare keys; shown from two standard errors of their frequency on, it had 0.075 at ε = 2.

    Saying nothing has 0.04, the squared mean; ten runs each.
    """
    people = datasets.independent(20_000, [0.02] * 100, [0.2] * 100, 1)
    errors = [
        np.mean([simulate(star(100, epsilon), people, seed=seed).metrics["mse_mean"] for seed in range(10)])
        for epsilon in (1, 2, 4)
    ]
    assert all(later < 1.5 * earlier for earlier, later in pairwise(errors)) and max(errors) < 0.06


@pytest.mark.parametrize("options", [{"share": Fraction(0)}, {"share": Fraction(1)}, {"bins": 0}, {"bins": 500}])
def test_senseless_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError) as refused:
        star(3, **options)
    assert refused.value.code == "protocol/option"


def test_cells_are_chosen_by_epsilon() -> None:
    assert [usual_bins(Fraction(one)) for one in ("0.5", "1", "2", "4")] == [4, 4, 8, 16]
    assert star(3).bins == 8


def test_unshrunk_estimates_leave_rare_keys_apart() -> None:
    """Their average is what ``estimate`` gives each of them, and frequent keys are the same in both."""
    d = 40
    people = datasets.independent(20_000, np.where(np.arange(d) < 2, 0.6, 0.01), np.zeros(d), seed=2)
    protocol = star(d)
    assert isinstance(protocol, Unshrunk)
    history = ask(protocol, [people.records(protocol.schema)], 5)
    shown, unbiased = protocol.estimate(history), protocol.unshrunk(history)
    light = ~protocol.frequent(history)
    assert light.sum() > d // 2 and not light[:2].any()
    assert shown.frequency.values[light] == pytest.approx(unbiased.frequency.values[light].mean())
    assert np.ptp(unbiased.frequency.values[light]) > 0
    np.testing.assert_array_equal(shown.frequency.values[~light], unbiased.frequency.values[~light])
    assert np.isfinite(unbiased.frequency.se).all()
