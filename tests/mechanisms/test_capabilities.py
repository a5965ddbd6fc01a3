"""What a mechanism declares works on real reports; what it does not declare is refused with the names of those that do.

How true the declared numbers are is held against what happens by ``keyveil.testing``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

import keyveil as kv
from keyveil.core.errors import KeyveilError, MechanismError
from keyveil.core.estimates import Estimates
from keyveil.core.tally import Tally
from keyveil.lab.coins import SeededCoins
from keyveil.learn.comparisons import compare_keys, subset_sum
from keyveil.learn.conditionals import Conditionals
from keyveil.learn.distributions import distribution
from keyveil.learn.marginals import consistent
from keyveil.learn.postprocess import estimates as processed
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import (
    KEYS_TOGETHER,
    Capped,
    Cells,
    ContingencyTables,
    Histograms,
    JointStatistics,
    KeyCovariances,
    KeyDependence,
    KnownTotal,
    Parted,
    SupportRates,
    Windows,
    can,
    need,
    who_can,
)
from keyveil.mechanisms.joint.statistics import share, total
from keyveil.mechanisms.questions import answerable
from keyveil.mechanisms.registry import find_mechanism, forms, from_header, mechanism_names
from keyveil.testing import CAPABILITY_CHECKS

FORMS = dict(forms())
N = 600


class Collected(NamedTuple):
    mechanism: Mechanism
    tally: Tally
    estimates: Estimates


@cache
def collected(title: str) -> Collected:
    mechanism = FORMS[title]
    everything = {"0": 0.5, "1": -0.5, "2": 0.0}
    records: dict[str, list[dict[str, float]]] = {
        "every set": [{"0": 0.5, "1": -0.5}, {"2": 0.9}, {}],
        "one key": [{"0": 0}, {"1": 0}, {"0": 0}],
        "every key": [everything, everything, everything],
    }
    people = kv.Population.from_records(records[mechanism.takes] * (N // 3)).records(mechanism.schema)
    tally = mechanism.tally(mechanism.perturb_many(people, SeededCoins(1)))
    return Collected(mechanism, tally, mechanism.estimate(tally))


# -- each capability on a small real tally -----------------------------------------------------------------------------


def support_rates(one: Any, tally: Tally, estimates: Estimates) -> None:
    p, q = one.support_rates()
    response = one.response
    assert (p, q) == (response.holder.support, response.stranger.support) and 0 <= q < p <= 1
    assert all(part.square == part.support for part in (response.holder, response.stranger)), "only yes and no"
    given = processed("mle-apx", estimates, 1.0)
    assert given.frequency.values.sum() == pytest.approx(1.0)


def key_dependence(one: Any, tally: Tally, estimates: Estimates) -> None:
    for population in (False, True):
        constants = dataclasses.replace(one.dependence(population), n=N)
        assert constants.variance(np.ones(3), np.full(3, 0.2), np.full(3, 0.1)) >= 0 and constants.both <= 0
    sums(one, tally, estimates)


def key_covariances(one: Any, tally: Tally, estimates: Estimates) -> None:
    for population in (False, True):
        known, held = one.key_covariances(np.arange(3), np.arange(2), np.full(3, 0.2), population)
        assert known.shape == (3, 2) and np.isfinite(known).all() and np.isfinite(held).all()
        assert known[0, 1] == pytest.approx(known[1, 0])
    sums(one, tally, estimates)


def known_total(one: Any, tally: Tally, estimates: Estimates) -> None:
    constraint = one.constraint(estimates)
    assert constraint.total is not None or constraint.most < np.inf
    if constraint.total is not None:
        assert 0 <= constraint.total <= constraint.most <= 3
        assert processed("norm-sub", estimates).frequency.values.sum() == pytest.approx(constraint.total)
    if constraint.always:
        assert estimates.frequency.values.sum() == pytest.approx(constraint.total)


def histograms(one: Any, tally: Tally, estimates: Estimates) -> None:
    assert one.histogram(tally).mass.shape[0] == 3


def cells(one: Any, tally: Tally, estimates: Estimates) -> None:
    odds = one.cell_odds()
    assert len(odds) == 3 and all(each.own > each.other for each in odds)
    assert distribution(one, tally).method == "histogram"


def windows(one: Any, tally: Tally, estimates: Estimates) -> None:
    told = one.window_counts(tally)
    assert told.counts.shape == (3, told.window.outputs) and (told.counts.sum(axis=1) <= told.respondents).all()
    assert distribution(one, tally).method == "em"


def joint_statistics(one: Any, tally: Tally, estimates: Estimates) -> None:
    pairs = np.array([[0, 1], [1, 2]])
    wanted = [share({0: True}), share({1: True})]
    if not estimates.mean.absent and one.name != "apart":  # of which other people tell the values
        wanted += [total(0, {}), total(1, {})]
    for population in (False, True):
        answers = one.answer_jointly(tally, pairs, wanted, population)
        if can(one, Parted) is None:  # otherwise only some of the people tell about keys together
            assert answers.values[:, 0] == pytest.approx(estimates.frequency.values[[0, 1]])
        assert answers.covariance.shape == (2, len(wanted), len(wanted))
        assert answers.covariance == pytest.approx(answers.covariance.transpose(0, 2, 1))
    assert Conditionals(one, tally).frequency("0", {"1": True}).value > 0.3
    sums(one, tally, estimates)


def contingency_tables(one: Any, tally: Tally, estimates: Estimates) -> None:
    members, shares, reports = one.contingency_tables(tally)
    assert shares.shape == (len(members), 3 ** members.shape[1]) and reports.sum() == N
    assert consistent(one, tally).sum(axis=1) == pytest.approx(np.ones(len(members)))


def capped(one: Any, tally: Tally, estimates: Estimates) -> None:
    assert one.cap() == 2
    assert processed("norm-sub", estimates).frequency.values.sum() <= 2 + 1e-9, "without being given the mechanism"


def sums(one: Any, tally: Tally, estimates: Estimates) -> None:
    """Sums and comparisons, from the estimates and the tally alone."""
    whole = subset_sum(estimates, ["0", "1", "2"], tally=tally)
    assert whole == subset_sum(estimates, ["0", "1", "2"], tally=tally, mechanism=one) and whole.se >= 0
    assert compare_keys(estimates, "0", "1", tally=tally).difference.se > 0


TRIED: dict[type, Callable[[Any, Tally, Estimates], None]] = {
    SupportRates: support_rates,
    KeyDependence: key_dependence,
    KeyCovariances: key_covariances,
    Parted: sums,
    KnownTotal: known_total,
    Histograms: histograms,
    Cells: cells,
    Windows: windows,
    JointStatistics: joint_statistics,
    ContingencyTables: contingency_tables,
    Capped: capped,
}


@pytest.mark.parametrize("capability", TRIED, ids=lambda one: one.__name__)
@pytest.mark.parametrize("title", FORMS)
def test_what_is_claimed_works_and_the_rest_is_refused(title: str, capability: type) -> None:
    mechanism = FORMS[title]
    if can(mechanism, capability) is not None:
        TRIED[capability](*collected(title))
        return
    with pytest.raises(MechanismError) as refused:
        need(mechanism, capability, "tried/code")
    sentence = refused.value.sentence
    assert refused.value.code == "tried/code" and sentence.startswith(f"Reports of {title} do not tell ")
    assert sentence.endswith(f"those of {who_can(capability)} do.") and "\n" not in sentence


@pytest.mark.parametrize("title", ["kv-sw", "ioh for at most 10 keys", "marginals"])
def test_what_only_mechanisms_of_the_house_declare_is_true(title: str) -> None:
    """The other checks are run on every kind of mechanism by the tests of ``keyveil.testing``."""
    mechanism = FORMS[title]
    for capability in (Histograms, ContingencyTables, JointStatistics):
        if can(mechanism, capability) is not None:
            CAPABILITY_CHECKS[capability](mechanism)


# -- questions ---------------------------------------------------------------------------------------------------------

ASKED: dict[str, tuple[Callable[[Collected], object], str, tuple[type, ...]]] = {
    "subset": (
        lambda one: subset_sum(one.estimates, ["0", "1"], tally=one.tally),
        "question/dependence",
        KEYS_TOGETHER,
    ),
    "compare": (
        lambda one: compare_keys(one.estimates, "0", "1", tally=one.tally),
        "question/dependence",
        KEYS_TOGETHER,
    ),
    "quantiles": (lambda one: distribution(one.mechanism, one.tally), "estimate/no-distribution", (Windows, Cells)),
    "conditional": (lambda one: Conditionals(one.mechanism, one.tally), "question/no-joint", (JointStatistics,)),
}


@pytest.mark.parametrize("kind", ASKED)
@pytest.mark.parametrize("title", FORMS)
def test_a_question_is_answered_or_refused_with_the_names_of_those_that_can(title: str, kind: str) -> None:
    one, (ask, code, needed) = collected(title), ASKED[kind]
    if kind in answerable(one.mechanism):
        ask(one)
        return
    with pytest.raises(KeyveilError) as refused:
        ask(one)
    if one.estimates.frequency.absent and kind in ("subset", "compare"):
        assert refused.value.code == "estimate/no-frequency"
    else:
        assert refused.value.code == code and who_can(*needed) in refused.value.sentence


def test_every_form_of_every_name_is_there() -> None:
    assert len(FORMS) == sum(len(find_mechanism(name).examples) for name in mechanism_names())


def test_a_refusal_names_the_options_that_help() -> None:
    assert who_can(Cells) == "kvue with bins, wsr with bins and ssr with bins"
    several = "apart in dense mode, block with width=2, ioh for at most 10 keys, moments, marginals"
    assert who_can(JointStatistics) == f"{several} and split with groups=ssr:1,moments:1"
    assert "topsel in direct mode" in who_can(SupportRates)
    rappor: Any = FORMS["rappor"]
    unequal, nnls = collected("wsr with unequal weights"), dataclasses.replace(rappor, decoder="nnls")
    with pytest.raises(MechanismError, match="The estimates of rappor do not tell") as refused:
        compare_keys(nnls.estimate(collected("rappor").tally), "0", "1")
    assert refused.value.code == "question/dependence" and "kvue, apart, block, privkv" in refused.value.sentence
    with pytest.raises(MechanismError, match="those of wsr with unequal weights say something else") as refused:
        processed("mle-apx", unequal.estimates)
    assert refused.value.code == "postprocess/constants" and who_can(SupportRates) in refused.value.sentence


def test_histograms_without_cells_are_refused() -> None:
    for title in ("kvue", "wsr", "ssr"):
        mechanism, tally, _ = collected(title)
        with pytest.raises(MechanismError, match=f"Reports of {title} do not tell .* kvue with bins, kv-sw") as refused:
            mechanism.histogram(tally)  # type: ignore[attr-defined]
        assert refused.value.code == "estimate/no-histogram"
    assert not hasattr(collected("privkv").mechanism, "histogram")


# -- the way back from estimates ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("title", FORMS)
def test_estimates_lead_back_to_their_mechanism(title: str) -> None:
    mechanism, _, estimates = collected(title)
    for again in (estimates, Estimates.from_json(estimates.to_json())):
        assert from_header(again.header) == mechanism
