"""One view of a record each: a level of a hierarchy of keys, or a coordinate of values."""

from __future__ import annotations

import math
from collections.abc import Hashable
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

from keyveil.core.coins import Coins
from keyveil.core.epsilon import keeps
from keyveil.core.errors import KeyveilError
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.frames.population import Population
from keyveil.lab.coins import SeededCoins
from keyveil.lab.simulate import simulate
from keyveil.mechanisms.base import Mechanism, Pairs
from keyveil.mechanisms.capabilities import Capped, TallyLaw, can
from keyveil.mechanisms.keyvalue.views import Views
from keyveil.mechanisms.registry import create, from_document
from keyveil.mechanisms.rounds.privkvm import PrivKVRound
from keyveil.privacy.enumerate import law
from tests.mechanisms.keyvalue.exact import expected_counts

ONE = Fraction(1)
MENU = Schema(["pizza/rating", "pizza/price", "tea/rating", "tea/price"], low=[1, 0, 1, 0], high=[5, 20, 5, 20])
SHELF = Schema(["food/apple", "food/bread", "drink/tea"], hierarchy=True)
INNER: dict[str, dict[str, Any]] = {
    "kvue": {},
    "kvoh": {},
    "ssr": {"max_pairs": 2},
    "pckv-ue": {"max_pairs": 2},
    "kv-sw": {"max_pairs": 2},
}


def views(name: str, schema: Schema, inner: str = "kvue", epsilon: str = "1", **options: Any) -> Views:
    made = create(name, schema, epsilon, inner=inner, **{**INNER.get(inner, {}), **options})
    assert isinstance(made, Views)
    return made


# -- privacy: erratum A11 -------------------------------------------------------------------------------------------


def worst(mechanism: Mechanism, records: list[dict[str, float]]) -> Fraction:
    """The largest ratio of the probabilities of one report for two raw records, over all public words."""
    read: list[Pairs] = [mechanism.read(record) for record in records]
    ratios = []
    for word in mechanism.every_word():
        laws = [law(partial(mechanism.respond, pairs, word)) for pairs in read]
        ratios += [one[output] / other[output] for one in laws for other in laws for output in one]
    return max(ratios)


RECORDS: dict[str, list[dict[str, float]]] = {
    "coordinates": [
        {key: value for key, value in zip(MENU.keys, values, strict=True) if value is not None}
        for values in product((None, 1, 5), (None, 0, 20), (None, 3), (None, 10))
    ],
    "hierarchy": [
        {key: value for key, value in zip(("food/apple", "food/bread", "drink/tea"), values, strict=True) if value}
        for values in product((None, -1.0, 1.0), repeat=3)
    ],
}


@pytest.mark.parametrize(("name", "schema"), [("coordinates", MENU), ("hierarchy", SHELF)])
def test_erratum_A11_everybody_tells_one_view_and_loses_epsilon_once(name: str, schema: Schema) -> None:  # noqa: N802
    ratio = worst(views(name, schema), RECORDS[name])
    assert keeps(ratio, ONE) and float(ratio) == pytest.approx(math.e)


def test_erratum_A11_a_budget_for_every_coordinate_is_as_many_budgets() -> None:  # noqa: N802
    """The wrong variant: everybody answers about both coordinates, each with the whole ε."""
    mechanism = views("coordinates", MENU)

    def printed(pairs: Pairs, coins: Coins) -> Hashable:
        told = [mechanism.respond(pairs, number << 64, coins) for number in range(2)]
        return tuple(str(one) for one in told)

    laws = [law(partial(printed, mechanism.read(record))) for record in RECORDS["coordinates"]]
    most = max(one[output] / other[output] for one in laws for other in laws for output in one)
    assert math.log(most) == pytest.approx(2, abs=1e-6) and not keeps(most, ONE)


def test_erratum_A11_coordinates_under_one_key_coin_cost_each_their_own() -> None:  # noqa: N802
    """As printed in PrivKV: one coin for the key, then all of ε₂ for each of two values; ε₁ = ε₂ = ½."""
    presence, truth = PrivKVRound(Schema(keys=1), ONE, ONE / 2).truths

    def printed(signs: tuple[bool, ...] | None, coins: Coins) -> Hashable:
        speaks = coins.chance(presence.numerator, presence.denominator)
        if speaks == (signs is None):
            return "silent"
        told = signs or (False, False)  # a made-up value is the announced one
        return tuple(sign == coins.chance(truth.numerator, truth.denominator) for sign in told)

    laws = [law(partial(printed, signs)) for signs in (None, *product((False, True), repeat=2))]
    most = max(one[output] / other[output] for one in laws for other in laws for output in one)
    assert math.log(most) == pytest.approx(0.5 + 2 * 0.5, abs=1e-8)


@pytest.mark.parametrize("inner", INNER)
def test_views_have_a_certificate_whatever_mechanism_they_have(inner: str) -> None:
    for name, schema in (("coordinates", MENU), ("hierarchy", SHELF)):
        mechanism = views(name, schema, inner)
        proof = mechanism.certificate()
        assert proof.certified and proof.ratio == max(part.ratio for part in mechanism.parts)
        assert mechanism.reduced().sizes["views"] == 2


# -- what is learned ------------------------------------------------------------------------------------------------


def test_estimates_are_unbiased_for_every_view() -> None:
    """At the exact expectation of the reports of two kinds of people, which every view hears alike."""
    mechanism, each = views("hierarchy", SHELF), 10**12
    crowd = [SHELF.read({"food/apple": 1, "food/bread": 0}), SHELF.read({"drink/tea": -0.5})]
    view, place = mechanism._places
    counts = []
    for number, part in enumerate(mechanism.parts):
        seen = [[(int(place[key]), value) for key, value in pairs if view[key] == number] for pairs in crowd]
        expected = sum(expected_counts(part, pairs) * each for pairs in seen)
        counts += [2 * each, *np.vectorize(round, otypes=[np.int64])(expected).reshape(-1).tolist()]
    estimates = mechanism.estimate(Tally(mechanism.fingerprint, 4 * each, np.array(counts)))
    assert SHELF.keys == ("food", "food/apple", "food/bread", "drink", "drink/tea")
    assert estimates.frequency.values == pytest.approx([0.5] * 5, abs=1e-6)
    assert estimates.mean.values == pytest.approx([0.5, 1, 0, -0.5, -0.5], abs=1e-4)


@pytest.mark.parametrize("population", [False, True])
def test_errors_are_as_stated_for_these_people_and_for_all(population: bool) -> None:
    """Of 100 collections at ε = 8, where who was drawn into a view matters more than noise: squared scores are 1.

    500 squared scores, those of three keys being independent, have a mean beyond 0.6 to 1.5 less than once in a million
    times. The errors of a view's own people alone would give 1.7 for all people, and 1.4 for these.
    """
    mechanism, n, draw = views("hierarchy", SHELF, epsilon="8"), 1000, np.random.default_rng(3)

    def crowd() -> Population:
        users, keys = np.nonzero(draw.random((n, 3)) < [0.5, 0.4, 0.6])
        return Population.from_columns(users, np.array(["food/apple", "food/bread", "drink/tea"])[keys], 0.0 * keys, n)

    people, scores = crowd(), []
    for run in range(100):
        people = crowd() if population else people
        counts = mechanism.draw_tally(people.records(SHELF), SeededCoins(run), draw)
        estimates = mechanism.estimate(Tally(mechanism.fingerprint, n, counts), population=population)
        true = np.array([0.7, 0.5, 0.4, 0.6, 0.6]) if population else people.truth(SHELF).frequency
        scores.append((estimates.frequency.values - true) / estimates.frequency.se)
    assert 0.6 < np.square(scores).mean() < 1.5
    assert abs(np.mean(scores)) < 0.5


def test_people_of_other_views_are_known_only_as_a_sample() -> None:
    """Of the variance between people, the share of those who were not asked about a key is added, and no more."""
    mechanism = views("hierarchy", SHELF, epsilon="8")
    people = Population.from_records([{"food/apple": 1, "food/bread": 0}, {"drink/tea": 1}, {}] * 500).records(SHELF)
    tally = mechanism.tally(mechanism.perturb_many(people, SeededCoins(2)))
    stated = mechanism.estimate(tally).frequency.se ** 2
    for number, places in enumerate(mechanism.views.values()):
        own = mechanism.part_tally(tally, number)
        fixed, sampled = (
            mechanism.parts[number].estimate(own, population=one).frequency.se ** 2 for one in (False, True)
        )
        assert stated[places] == pytest.approx(fixed + (1 - own.reports / tally.reports) * (sampled - fixed))
        assert (fixed < stated[places]).all() and (stated[places] < sampled).all()


def test_a_view_is_asked_what_exceeds_its_own_cap() -> None:
    """Sets of two keys below one: nobody exceeds a cap of one at the first level, everybody does at the second."""
    leaves = [f"{one}/{key}" for one in "ab" for key in range(3)]
    schema = Schema(leaves, hierarchy=True)
    people = Population.from_records(
        [{f"{'ab'[i % 2]}/{i % 3}": 0.5, f"{'ab'[i % 2]}/{(i + 1) % 3}": 0.5} for i in range(30_000)]
    )
    mechanism = views("hierarchy", schema, "ssr", "4", max_pairs=1, overflow="0.3")
    assert can(mechanism, Capped) is None and all(can(part, Capped) for part in mechanism.parts)
    result = simulate(mechanism, people, seed=4)
    told = dict(zip(schema.keys, result.estimates.flag, strict=True))
    undercount = result.estimates.header.undercount
    assert undercount is not None and undercount.over == pytest.approx(1, abs=0.1)
    assert told["a"] == told["b"] == "ok"
    for key in schema.keys:
        assert result.truth.frequency[schema.place(key)] in result.estimates.frequency[key]


def test_the_drawn_tally_has_the_law_of_the_reports() -> None:
    mechanism, draws = views("coordinates", MENU), np.random.default_rng(1)
    people = Population.from_records([{"pizza/rating": 5, "tea/price": 0}] * 4000).records(MENU)
    law_of = can(mechanism, TallyLaw)
    assert law_of is not None
    drawn = Tally(mechanism.fingerprint, 4000, law_of.draw_tally(people, SeededCoins(1), draws))
    estimates = mechanism.estimate(drawn)
    assert np.abs((estimates.frequency.values - [1, 0, 0, 1]) / estimates.frequency.se).max() < 5.5


# -- documents and mistakes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mechanism",
    [
        views("coordinates", MENU, "ssr", options="goal=mean"),
        views("hierarchy", SHELF, "ssr", overflow="0.1", max_pairs=1),
        views("hierarchy", SHELF, options={"2": {"bins": 4}}),
        create("hierarchy", Schema(keys=3), 1),
    ],
    ids=lambda one: one.title,
)
def test_a_document_names_every_option_of_every_view(mechanism: Views) -> None:
    again = from_document(mechanism.document())
    assert again == mechanism and again.fingerprint == mechanism.fingerprint
    assert set(mechanism.options["group_options"]) == set(mechanism.views)
    record = {"food/apple": 1, "pizza/rating": 2}
    report = mechanism.perturb(record, SeededCoins(1))
    assert mechanism.decode(mechanism.encode(report), report.public) == report


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"inner": "nonsense"}, "no mechanism 'nonsense'"),
        ({"inner": "privkvm"}, "is a protocol"),
        ({"inner": "grr"}, "takes one key only"),
        ({"inner": "ssr"}, "needs the option 'max_pairs'"),
        ({"options": "bins"}, "written like"),
        ({"options": {"3": {"bins": 2}}}, "no view '3'; it has 1, 2"),
        ({"options": {"1": {"bins": 2}, "2": 5}}, "a mapping for each"),
        ({"options": "epsilon=5"}, "no option of a view"),
        ({"inner": "ssr", "max_pairs": 0}, "max_pairs"),
        ({"inner": "ssr", "max_pairs": 1, "overflow": "2"}, "between 0 and 1"),
        ({"bins": 3}, "no option 'bins'"),
    ],
    ids=str,
)
def test_mistakes_are_refused_in_one_sentence(options: dict[str, Any], said: str) -> None:
    with pytest.raises(KeyveilError, match=said) as refused:
        create("hierarchy", SHELF, 1, **options)
    assert refused.value.sentence.endswith(".") and "\n" not in refused.value.sentence
