from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from keyveil.core.errors import KeyveilError, TallyError
from keyveil.core.estimates import FLAGS, Interval
from keyveil.core.records import Records
from keyveil.core.schema import GRID, Schema
from keyveil.core.tally import Tally
from keyveil.lab.coins import SeededCoins
from keyveil.learn.conditionals import Conditionals
from keyveil.learn.marginals import agreed, consistent
from keyveil.learn.matrix import KINDS
from keyveil.mechanisms.base import Mechanism, Pairs
from keyveil.mechanisms.keyvalue.ioh import IOH
from keyveil.mechanisms.keyvalue.marginals import Marginals
from keyveil.mechanisms.registry import create
from tests.mechanisms.keyvalue.exact import expected_counts
from tests.sweeps import sampled

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

MENU = ["burger", "fries", "pepsi", "salad"]
CROWD: list[Pairs] = [
    [],
    [(0, GRID), (1, -GRID), (2, GRID // 2)],
    [(0, GRID // 3), (2, GRID)],
    [(0, -GRID // 2), (1, GRID), (2, -GRID), (3, GRID)],
    [(1, GRID // 5), (2, GRID // 4)],
    [(3, -GRID)],
    [(0, GRID), (1, GRID), (3, 0)],
]


# -- exact expectations ---------------------------------------------------------------------------------------------


def expected_tally(mechanism: Mechanism) -> Tally:
    """The tally that the crowd gives on average, over all outcomes and all public words, in units of 2^-44."""
    counts = sum(expected_counts(mechanism, pairs) for pairs in CROWD)
    whole = np.array([round(share * 2**44) for share in np.ravel(counts)], dtype=np.int64)
    return Tally(mechanism.fingerprint, len(CROWD) * 2**44, whole.reshape(mechanism.tally_shape))


def matching(condition: dict[str, bool]) -> list[dict[int, int]]:
    """The people of the crowd who fulfil a condition."""
    everybody = [dict(pairs) for pairs in CROWD]
    return [one for one in everybody if all((MENU.index(key) in one) == held for key, held in condition.items())]


def questions(most: int) -> Iterator[tuple[str, dict[str, bool]]]:
    """Every key given every condition on up to ``most`` - 1 others."""
    for key in MENU:
        others = [other for other in MENU if other != key]
        for size in range(most):
            for names in combinations(others, size):
                for held in product((True, False), repeat=size):
                    yield key, dict(zip(names, held, strict=True))


@pytest.mark.parametrize(
    ("name", "options", "most"),
    [
        ("moments", {"order": 3}, 3),
        ("moments", {"order": 2, "law": "uniform"}, 2),
        ("marginals", {"size": 3, "oracle": "grr"}, 3),
        ("marginals", {"size": 2, "oracle": "grr"}, 2),
        ("marginals", {"size": 2, "oracle": "oue", "members": 2}, 2),
        ("block", {"width": 3, "states": 3}, 3),
        ("block", {"width": 2, "states": 5}, 2),
        ("ioh", {"oracle": "grr"}, 3),
    ],
)
def test_answers_are_exact_in_expectation(name: str, options: dict[str, Any], most: int) -> None:
    mechanism = create(name, Schema(keys=MENU), 1, **options)
    conditionals = Conditionals(mechanism, expected_tally(mechanism))
    asked, gaps = 0, "members" in options or options.get("width") == 2  # some keys are never told of together
    for key, condition in questions(most):
        people = matching(condition)
        holders = [one for one in people if MENU.index(key) in one]
        try:
            share = conditionals.share({**condition, key: True})
        except KeyveilError as refused:
            assert refused.code == "question/not-covered" and gaps
            continue
        assert share.value == pytest.approx(len(holders) / len(CROWD), abs=1e-9)
        asked += 1
        if people:
            assert conditionals.frequency(key, condition).value == pytest.approx(len(holders) / len(people), abs=1e-8)
        if holders:
            mean = sum(one[MENU.index(key)] for one in holders) / len(holders) / GRID
            assert conditionals.mean(key, condition).value == pytest.approx(mean, abs=1e-8)
    assert asked >= (12 if gaps else 28)


# -- intervals ------------------------------------------------------------------------------------------------------

D = 8
RICH, POOR = np.linspace(0.75, 0.45, D), np.linspace(0.3, 0.5, D)  # two kinds of people: keys depend on each other
LIKING, DISLIKING = np.full(D, 0.5), np.full(D, -0.4)


def crowd(n: int, rng: np.random.Generator) -> tuple[Bools, Floats]:
    """Who holds what [n, D], and with which value."""
    rich = rng.random((n, 1)) < 0.5
    return rng.random((n, D)) < np.where(rich, RICH, POOR), np.clip(
        np.where(rich, LIKING, DISLIKING) + rng.uniform(-0.5, 0.5, (n, D)), -1, 1
    )


def records_of(held: Bools, values: Floats) -> Records:
    offsets = np.concatenate(([0], np.cumsum(held.sum(axis=1)))).astype(np.int64)
    keys = np.nonzero(held)[1].astype(np.int32)
    return Records(offsets, keys, np.rint(values[held] * GRID).astype(np.int32), held.shape[1])


def truth_of_people(held: Bools, values: Floats) -> dict[str, Floats]:
    shares = held.astype(np.float64)
    joint = shares.T @ shares / len(held)
    return _truths(joint, (shares * values).T @ shares / len(held))


def truth_of_law() -> dict[str, Floats]:
    joint, sums = np.zeros((D, D)), np.zeros((D, D))
    for held, mean in ((RICH, LIKING), (POOR, DISLIKING)):
        both = np.outer(held, held)
        np.fill_diagonal(both, held)
        joint += both / 2
        sums += mean[:, None] * both / 2
    return _truths(joint, sums)


def _truths(joint: Floats, sums: Floats) -> dict[str, Floats]:
    alone = np.diag(joint)
    return {
        "frequency": joint / alone,
        "mean": sums / joint,
        "joint": joint,
        "lift": joint / np.outer(alone, alone),
    }


FORMS: list[tuple[str, dict[str, Any]]] = [("moments", {}), ("marginals", {}), ("marginals", {"oracle": "oue"})]


@pytest.mark.parametrize(("name", "options", "population"), sampled(FORMS, [False, True]))
def test_intervals_cover(name: str, options: dict[str, Any], population: bool) -> None:
    """All pairs of eight keys, 120 seeded repeats: over 3000 errors of each kind.

    The standard deviation of a coverage is below 0.004, so 0.02 is over five of them.
    """
    mechanism, rng = create(name, Schema(keys=D), 3, **options), np.random.default_rng(5)
    same, apart = crowd(20_000, rng), ~np.eye(D, dtype=bool)
    covered: dict[str, list[float]] = {kind: [] for kind in KINDS}
    squares: list[Floats] = []
    for repeat in range(120):
        held, values = crowd(20_000, rng) if population else same
        truth = truth_of_law() if population else truth_of_people(held, values)
        tally = mechanism.tally(mechanism.perturb_many(records_of(held, values), SeededCoins(6, repeat)))
        conditionals = Conditionals(mechanism, tally, population=population)
        for kind in KINDS:
            matrix = conditionals.matrix(kind)
            inside = (matrix.low <= truth[kind]) & (truth[kind] <= matrix.high)
            covered[kind].append(float(inside[apart].mean()))
            if kind == "joint":
                squares.append((((matrix.values - truth[kind]) / matrix.se) ** 2)[apart])
    assert 0.88 < np.mean(squares) < 1.12, "standard errors are off"
    for kind, shares in covered.items():
        assert 0.93 <= np.mean(shares) <= 0.97, f"{kind}: {np.mean(shares):.3f}"


def test_independent_pairs_are_seldom_told_however_many_there_are() -> None:
    """15 pairs of six keys, of which only the last two go together, in 100 seeded collections of 5,000 people.

    Were each pair tested on its own at 95 %, half of the collections would have a false one. All together, at most 5 %
    are expected, and a hundred that have so many have more than 18 with a chance below 1e-6.
    """
    mechanism, rng = create("moments", Schema(keys=6), 4), np.random.default_rng(8)
    names = mechanism.schema.keys
    pairs, runs = list(combinations(names, 2)), 100
    wrong = found = 0
    for repeat in range(runs):
        held = rng.random((5000, 6)) < np.array([0.7, 0.6, 0.5, 0.4, 0.3, 0.3])
        held[:, 5] = held[:, 4] ^ (rng.random(5000) < 0.1)
        records = records_of(held, np.zeros(held.shape))
        tally = mechanism.tally(mechanism.perturb_many(records, SeededCoins(9, repeat)))
        told = Conditionals(mechanism, tally, population=True).dependent(pairs)
        wrong += bool(told[:-1].any())
        found += bool(told[-1])
    assert found >= 95 and wrong <= 18, (found, wrong)


def test_pairs_of_too_few_people_are_not_told() -> None:
    mechanism = create("moments", Schema(keys=2), 8)
    held = np.repeat([[True, True], [False, False]], 500, axis=0)
    tally = mechanism.tally(mechanism.perturb_many(records_of(held, np.zeros(held.shape)), SeededCoins(1, 2)))
    (pair,) = combinations(mechanism.schema.keys, 2)
    assert Conditionals(mechanism, tally).dependent([pair]).tolist() == [True]
    assert Conditionals(mechanism, tally, min_reports=800).dependent([pair]).tolist() == [False]


@pytest.mark.parametrize("population", [False, True], ids=["fixed people", "sample"])
@pytest.mark.parametrize("oracle", ["grr", "oue"])
def test_ioh_agrees_with_its_own_operators(oracle: str, population: bool) -> None:
    """At so large an ε sampling people is most of the error, so the two targets are told apart."""
    mechanism = create("ioh", Schema(keys=3), 6, oracle=oracle)
    assert isinstance(mechanism, IOH)
    held, values = crowd(20_000, np.random.default_rng(5))
    records = records_of(held[:, :3], values[:, :3])
    tally = mechanism.tally(mechanism.perturb_many(records, SeededCoins(6)))
    conditionals, condition = Conditionals(mechanism, tally, population=population), {"0": True, "2": False}
    own = [
        ask(tally, condition, population=population)["1"]
        for ask in (mechanism.conditional_frequency, mechanism.conditional_mean)
    ]
    general = [ask("1", condition) for ask in (conditionals.frequency, conditionals.mean)]
    for one, other in zip(own, general, strict=True):
        assert one.value == pytest.approx(other.value, rel=1e-4) and one.flag == other.flag
        assert one.se == pytest.approx(other.se, rel=0.03)


# -- a hundred keys -------------------------------------------------------------------------------------------------


def test_moments_beat_marginals_for_pairs_of_a_hundred_keys() -> None:
    """n·MSE over all 4950 pairs, ε = 1: 2.1·10³ (presences only), 5.9·10³ with values, against 4.5·10⁴ with GRR.

    A mean over 4950 nearly independent squares has a relative error of 2 %, so 15 % is over six of them.
    """
    n, rng, schema = 120_000, np.random.default_rng(3), Schema(keys=100)
    held = rng.random((n, 100)) < 0.05
    records = records_of(held, np.zeros(held.shape))
    true = held.astype(np.float32).T @ held.astype(np.float32) / n
    apart, found = ~np.eye(100, dtype=bool), {}
    for name, options in (("moments", {"values": False}), ("moments", {}), ("marginals", {"oracle": "grr"})):
        mechanism = create(name, schema, 1, **options)
        matrix = Conditionals(mechanism, mechanism.tally(mechanism.perturb_many(records, SeededCoins(4)))).matrix(
            "joint"
        )
        known = apart & np.isfinite(matrix.values)
        error = n * float(((matrix.values - true)[known] ** 2).mean())
        assert error == pytest.approx(n * float((matrix.se[known] ** 2).mean()), rel=0.15)
        found[name, len(options)] = error
    assert found["moments", 1] == pytest.approx(2.1e3, rel=0.25)  # few reports a moment: their number varies
    assert found["marginals", 1] > 3 * found["moments", 0] > 3 * found["moments", 1] / 1.5
    assert found["marginals", 1] > 15 * found["moments", 1]


# -- answers that are not numbers -------------------------------------------------------------------------------------


def restaurant(name: str = "moments", n: int = 4000, epsilon: int = 4, **options: Any) -> tuple[Mechanism, Tally]:
    """Nobody takes salad with a burger."""
    rng = np.random.default_rng(2)
    held = rng.random((n, 4)) < (0.5, 0.4, 0.6, 0.4)
    held[:, 3] &= ~held[:, 0]
    mechanism = create(name, Schema(keys=MENU, low=1, high=5), epsilon, **options)
    return mechanism, mechanism.tally(
        mechanism.perturb_many(records_of(held, rng.uniform(-1, 1, held.shape)), SeededCoins(8))
    )


@pytest.mark.parametrize(
    ("key", "condition", "code"),
    [
        ("tea", {}, "schema/unknown-key"),
        ("pepsi", {"tea": True}, "schema/unknown-key"),
        ("pepsi", {"pepsi": False}, "question/contradiction"),
        ("pepsi", {"burger": 1}, "question/condition"),
        ("pepsi", {"burger": True, "fries": False}, "question/order"),
    ],
)
@pytest.mark.parametrize("name", ["moments", "marginals"])
def test_questions_without_an_answer_are_refused(name: str, key: str, condition: dict[str, Any], code: str) -> None:
    conditionals = Conditionals(*restaurant(name))
    for ask in (conditionals.frequency, conditionals.mean):
        with pytest.raises(KeyveilError) as refused:
            ask(key, condition)
        assert refused.value.code == code
        assert refused.value.sentence.endswith(".")


def test_it_says_which_mechanism_could() -> None:
    with pytest.raises(KeyveilError, match="moments with order=3"):
        Conditionals(*restaurant()).frequency("pepsi", {"burger": True, "fries": False})
    with pytest.raises(
        KeyveilError, match=r"those of .*block with .*, ioh .*, moments, marginals and split with .* do\.$"
    ) as refused:
        Conditionals(*restaurant("kvue"))
    assert refused.value.code == "question/no-joint"
    few = Conditionals(*restaurant("marginals", members=2))
    with pytest.raises(KeyveilError, match="marginals with more members") as uncovered:
        few.frequency("burger", {"salad": True}), few.frequency("burger", {"fries": True})
    assert uncovered.value.code == "question/not-covered"
    assert few.matrix("joint").flag.max() == FLAGS.index("insufficient"), (
        "a matrix flags what its reports were not asked about"
    )


def test_a_foreign_tally_is_refused() -> None:
    (mechanism, _), (_, tally) = restaurant(), restaurant(epsilon=3)
    with pytest.raises(TallyError):
        Conditionals(mechanism, tally)


@pytest.mark.parametrize(("name", "options"), [("moments", {}), ("marginals", {}), ("ioh", {})])
def test_an_empty_slice_is_insufficient(name: str, options: dict[str, Any]) -> None:
    """Nobody takes salad with a burger, so there is no mean rating of such salads."""
    conditionals = Conditionals(*restaurant(name, **options))
    rated = conditionals.mean("salad", {"burger": True})
    assert (rated.flag, rated.low, rated.high) == ("insufficient", 1, 5)
    assert conditionals.frequency("salad", {"burger": True}).flag == "ok"


@pytest.mark.parametrize("name", ["moments", "marginals", "ioh"])
def test_small_groups_are_suppressed(name: str) -> None:
    mechanism, tally = restaurant(name)
    strict = Conditionals(mechanism, tally, min_reports=1000)
    assert strict.frequency("pepsi", {"burger": True}).flag == "ok"  # 2000 people
    hidden = strict.frequency("pepsi", {"salad": True}) if name != "ioh" else strict.mean("salad", {"pepsi": True})
    assert hidden.flag == "suppressed" and math.isnan(hidden.value) and math.isnan(hidden.se)
    everything = Conditionals(mechanism, tally, min_reports=4001)
    assert {everything.share({"burger": True}).flag, everything.frequency("pepsi").flag} == {"suppressed"}
    assert (np.delete(everything.matrix("lift").flag, [0]) == FLAGS.index("suppressed")).all()


def test_a_key_given_itself_is_certain() -> None:
    conditionals = Conditionals(*restaurant())
    assert conditionals.frequency("pepsi", {"pepsi": True}).value == 1
    assert conditionals.mean("pepsi", {"pepsi": True}) == conditionals.mean("pepsi")


def test_conditions_may_be_spelled_in_any_order() -> None:
    conditionals = Conditionals(*restaurant("marginals", size=3))
    one = conditionals.frequency("pepsi", {"burger": True, "fries": False})
    other = conditionals.frequency("pepsi", {"fries": False, "burger": True})
    assert one.value == pytest.approx(other.value) and one.se == pytest.approx(other.se)


def test_without_a_condition_it_is_the_estimate() -> None:
    for name in ("moments", "marginals"):
        mechanism, tally = restaurant(name)
        conditionals, estimates = Conditionals(mechanism, tally), mechanism.estimate(tally)
        for key in MENU:
            for found, known in ((conditionals.frequency(key), estimates.frequency[key]),
                                 (conditionals.mean(key), estimates.mean[key])):  # fmt: skip
                assert found.value == pytest.approx(known.value)
                assert (found.low, found.high) == pytest.approx((known.low, known.high))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 60), st.sampled_from(["moments", "marginals", "ioh"]), st.sampled_from(sorted(KINDS)))
def test_nothing_is_unknown_without_a_flag(people: int, name: str, kind: str) -> None:
    matrix = Conditionals(*restaurant(name, n=people, epsilon=1)).matrix(kind)
    sure = matrix.flag == 0
    for part in (matrix.values, matrix.se, matrix.low, matrix.high):
        assert np.isfinite(part[sure]).all()
    assert not np.isnan(matrix.low).any() and not np.isnan(matrix.high).any()


# -- the matrix -------------------------------------------------------------------------------------------------------


def same(one: Interval, other: Interval) -> bool:
    """Equal but for the order in which floats were added."""
    mine, others = ((interval.value, interval.low, interval.high, interval.se) for interval in (one, other))
    return one.flag == other.flag and np.allclose(mine, others, rtol=1e-9)


def test_the_matrix_holds_the_single_answers() -> None:
    conditionals = Conditionals(*restaurant())
    condition = {"burger": True}
    assert same(conditionals.matrix()["pepsi", "burger"], conditionals.frequency("pepsi", condition))
    assert same(conditionals.matrix("mean")["pepsi", "burger"], conditionals.mean("pepsi", condition))
    assert same(conditionals.matrix("mean")["pepsi", "pepsi"], conditionals.mean("pepsi"))
    joint, lift = conditionals.matrix("joint"), conditionals.matrix("lift")
    assert joint["pepsi", "burger"].value == joint["burger", "pepsi"].value
    expected = joint.values / np.outer(np.diag(joint.values), np.diag(joint.values))
    assert lift.values == pytest.approx(expected)
    assert lift["burger", "salad"].high < 0.7 and 1 in lift["burger", "pepsi"]
    with pytest.raises(KeyveilError, match="frequency, mean, joint, lift"):
        conditionals.matrix("odds")
    with pytest.raises(KeyveilError, match="no key"):
        _ = joint["tea", "pepsi"]


def test_the_matrix_as_a_frame() -> None:
    matrix = Conditionals(*restaurant()).matrix()
    frame = matrix.to_frame()
    assert list(frame.columns) == ["key", "given", "value", "se", "low", "high", "flag"]
    row = frame[(frame.key == "pepsi") & (frame.given == "burger")].iloc[0]
    assert row.value == matrix["pepsi", "burger"].value and row.flag == "ok"


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_heat_map_shows_the_most_frequent_keys(kind: str, tmp_path: Path) -> None:
    matrix = Conditionals(*restaurant()).matrix(kind)
    figure = matrix.plot(top=3)
    figure.savefig(tmp_path / "matrix.png")
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == ["burger", "fries", "pepsi"]
    assert [text.get_text() for text in matrix.plot(keys=["salad", "burger"]).axes[0].get_yticklabels()] == [
        "salad",
        "burger",
    ]


# -- consistency ------------------------------------------------------------------------------------------------------


def test_marginals_agree_after_averaging() -> None:
    mechanism, tally = restaurant("marginals", size=3, epsilon=1)
    assert isinstance(mechanism, Marginals)
    shares = agreed(mechanism.family, mechanism.shares(tally), tally.counts[:, 0]).reshape(4, 3, 3, 3)
    burger = [shares[at].sum(axis=(1, 2)) for at in range(3)]  # members 0 1 2, 0 1 3 and 0 2 3
    assert burger[0] == pytest.approx(burger[1]) and burger[0] == pytest.approx(burger[2])
    assert shares[0].sum(axis=2) == pytest.approx(shares[1].sum(axis=2)), "burger and fries are in both"
    possible = consistent(mechanism, tally)
    assert possible.min() >= 0 and possible.sum(axis=1) == pytest.approx(np.ones(4))


def test_consistent_marginals_are_nearer_to_the_truth() -> None:
    """Cells of eight keys at ε = 0.5: the mean squared error falls to a fraction."""
    rng = np.random.default_rng(4)
    held = rng.random((30_000, 8)) < 0.2
    mechanism = create("marginals", Schema(keys=8), "0.5")
    assert isinstance(mechanism, Marginals)
    tally = mechanism.tally(mechanism.perturb_many(records_of(held, np.ones(held.shape)), SeededCoins(9)))
    digits = 1 + held[:, mechanism.family]
    cells = (3 * digits[..., 0] + digits[..., 1]).T
    true = np.array([np.bincount(column, minlength=9) for column in cells]) / len(held)
    raw, better = (
        float(((shares - true) ** 2).mean()) for shares in (mechanism.shares(tally), consistent(mechanism, tally))
    )
    assert better < raw / 3
