"""What a mechanism declares that its reports can tell, tried out: one check for each capability.

The same people report again and again on seeded coins, and what the capability says is held against what happened and
against the truth. At a fresh seed each check would raise a false alarm with probability below 1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.epsilon import log_ceiling
from keyveil.core.report import Reports
from keyveil.lab.aggregate import aggregate
from keyveil.lab.attacks.added import single_counts
from keyveil.lab.attacks.crafting import thought_of
from keyveil.lab.coins import SeededCoins
from keyveil.learn.dependence import links
from keyveil.learn.distributions import distribution
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import (
    Announced,
    Capped,
    Cells,
    ContingencyTables,
    Histograms,
    JointStatistics,
    KeyCovariances,
    KeyDependence,
    KnownTotal,
    LearnsSizes,
    Parted,
    PredictedVariance,
    ReportEffects,
    SupportRates,
    TallyLaw,
    Windows,
)
from keyveil.mechanisms.joint.statistics import share
from keyveil.mechanisms.options import fitted
from keyveil.mechanisms.size_law import SizeLaw
from keyveil.privacy.certify import enumerate_worst
from keyveil.robustness.influence import influence
from keyveil.testing import repeated
from keyveil.testing.laws import ALARM, beyond
from keyveil.testing.people import copies, people
from keyveil.testing.verdict import about, hold

Floats = NDArray[Any]

MANY = 30_000  # people of a single collection
ATTACKED, CRAFTED = 1000, 160  # people, and reports that are thought of for an attack on them
NEARLY = 0.1  # of what reports can do at most, one of them does: among the replaced are some that stood for the goal
CLOSE = 0.08  # how far a variance that is read off one collection may lie from the one that is declared
NEAR = 0.25  # how far, on the scale [-1, 1], the mean of a distribution by EM may lie from the truth at epsilon 1

_SETS = 10  # of keys that are looked at


def support_rates_are_true(mechanism: Any) -> None:
    """Declared rates of support give the errors of a key that nobody holds, and of one that everybody holds."""
    own, other = mechanism.support_rates()
    hold(0 <= other < own <= 1, mechanism, "support_rates", f"gives {own} and {other}, not p > q between 0 and 1")
    d, alone = mechanism.schema.d, [(0, 0)]
    empty = alone if mechanism.takes == "one key" else []
    for pairs, key, rate in ((alone, 0, own), (empty, d - 1, other)):
        records = copies(pairs, MANY, d)
        estimates = mechanism.estimate(mechanism.tally(mechanism.perturb_many(records, SeededCoins(24))))
        declared = float(rate * (1 - rate) / (own - other) ** 2) / max(int(estimates.respondents[key]), 1)
        found = float(estimates.frequency.se[key]) ** 2
        told = f"gives {float(rate):.4f}; the variance of a frequency is {found / declared:.2f} times what follows"
        hold(abs(found / declared - 1) < CLOSE, mechanism, "support_rates", told)


def dependence_is_true(mechanism: Any) -> None:
    """Sums and differences of frequencies vary as the declared dependence of keys says, where nobody holds two."""
    d = mechanism.schema.d
    collected = repeated.collect(mechanism, alone=True)
    estimates = [mechanism.estimate(tally) for tally in collected.tallies]
    found = np.array([one.frequency.values for one in estimates])
    se = np.sqrt(np.mean([one.frequency.se**2 for one in estimates], axis=0))
    truth = collected.crowd.truth(mechanism.schema).frequency
    constants = replace(mechanism.dependence(False), n=collected.n)
    off = 5.5 * math.sqrt(2 / repeated.REPEATS)
    for weights in _sum_and_difference(d):
        declared = constants.variance(weights, truth, se)
        happened = float(np.mean(((found - truth) @ weights) ** 2))
        least = 0.0 if constants.extra else (1 - off) * declared
        told = f"says that a sum over keys has variance {declared:.3g}; it has {happened:.3g}"
        hold(least - 1e-12 <= happened <= (1 + off) * declared + 1e-12, mechanism, "dependence", told)


def covariances_are_true(mechanism: Any) -> None:
    """Sums and differences of frequencies vary as the declared covariances say, with what people truly hold together.

    People who are a sample add nothing but the covariance of what they hold.
    """
    d = mechanism.schema.d
    collected, keys = repeated.collect(mechanism), np.arange(d)
    truth, held = collected.crowd.truth(mechanism.schema).frequency, collected.holdings.astype(np.float64)
    together, product = held.T @ held / collected.n, np.outer(truth, truth)
    with about(mechanism, "key_covariances"):
        fixed, sampled = (mechanism.key_covariances(keys, keys, truth, sample) for sample in (False, True))
    stated, of_sample = (known + factor * together for known, factor in (fixed, sampled))
    apart, told = ~np.eye(d, dtype=bool), "differs between fixed people and a sample by something else than holding"
    hold(np.allclose((of_sample - stated)[apart], (together - product)[apart]), mechanism, "key_covariances", told)
    estimates = [mechanism.estimate(tally) for tally in collected.tallies]
    errors = np.array([one.frequency.values for one in estimates]) - truth
    own = np.mean([one.frequency.se**2 for one in estimates], axis=0)
    covariance = np.where(apart, stated / collected.n, np.diag(own))
    directions = np.array(_sum_and_difference(d))
    variances = np.array([weights @ covariance @ weights for weights in directions])
    _as_stated(mechanism, "key_covariances", "a sum over keys", errors @ directions.T, variances, bias=False)


def parts_are_merged(mechanism: Any) -> None:
    """The merged frequencies are those of the parts by their weights; sums of them vary as the parts' errors say."""
    d = mechanism.schema.d
    collected = repeated.collect(mechanism, alone=True)
    truth = collected.crowd.truth(mechanism.schema).frequency
    directions = _sum_and_difference(d)
    errors, stated = np.empty((2, repeated.REPEATS, len(directions)))
    for run, tally in enumerate(collected.tallies):
        estimates, parts = mechanism.estimate(tally), mechanism.part_answers(tally)
        told = sum(one.frequency_weights * one.mechanism.estimate(one.tally).frequency.values for one in parts)
        same = np.allclose(told, estimates.frequency.values)
        hold(same, mechanism, "part_answers", "gives weights that do not lead to the merged estimates")
        known = links(estimates, mechanism, tally)
        errors[run] = [(estimates.frequency.values - truth) @ weights for weights in directions]
        stated[run] = [known.variance(np.arange(d), weights) for weights in directions]
    _as_stated(mechanism, "part_answers", "a sum over keys", errors, stated.mean(axis=0))


def totals_hold(mechanism: Any) -> None:
    """The frequencies of real people obey what is declared of their sum."""
    collected = repeated.collect(mechanism)
    truth = collected.crowd.truth(mechanism.schema).frequency
    found = [mechanism.constraint(mechanism.estimate(tally)) for tally in collected.tallies]
    for one in found:
        possible = one.upper is None or one.upper >= truth.max()
        hold(possible, mechanism, "constraint", f"says that no frequency exceeds {one.upper}; one is {truth.max():.3f}")
    told = [one.total for one in found if one.total is not None]
    if not told:
        least = min(one.most for one in found)
        hold(least >= truth.sum(), mechanism, "constraint", f"allows a sum of {least:.3f}; it is {truth.sum():.3f}")
        return
    error = abs(float(np.mean(told)) - float(truth.sum()))
    spread = float(np.std(told)) / math.sqrt(len(told))
    if spread > 0 or mechanism.takes == "one key":  # a constant that people agreed on is not told by reports
        right = error < max(6 * spread, 1e-9)
        hold(right, mechanism, "constraint", f"says a sum of {np.mean(told):.3f}; it is {truth.sum():.3f}")


def histograms_are_true(mechanism: Any) -> None:
    """Histograms are unbiased, with the errors that they state; where they state none, they are near the truth."""
    collected = repeated.collect(mechanism)
    found = [mechanism.histogram(tally) for tally in collected.tallies]
    truth = collected.crowd.truth(mechanism.schema).frequency[:, None]
    points = found[0].points
    if points is None:
        law, used = collected.crowd.distribution(mechanism.schema, found[0].cells), slice(None)
    else:
        law, used = collected.crowd.distribution_at(mechanism.schema, points), points.used.ravel()
    mass = law * truth
    errors = np.array([one.mass - mass for one in found]).reshape(repeated.REPEATS, -1)[:, used]
    variances = np.mean([one.se**2 for one in found], axis=0).ravel()[used]
    if np.isnan(variances).all():
        below = (np.mean([one.mass for one in found], axis=0) - mass).cumsum(axis=1)
        off = float(np.abs(below).max())
        hold(off < NEAR / 2, mechanism, "histogram", f"is off by {off:.2f} of all people, below some value of a key")
    else:
        _as_stated(mechanism, "histogram", "a share of people in a cell", errors, variances)


def cells_are_true(mechanism: Any) -> None:
    """Distributions of values come out of the cells, with means near the truth."""
    odds = mechanism.cell_odds()
    hold(len(odds) == mechanism.schema.d, mechanism, "cell_odds", f"has {len(odds)} entries, not one for each key")
    _distributed(mechanism, "cell_odds")


def windows_are_true(mechanism: Any) -> None:
    """Distributions of values come out of the counts, with means near the truth."""
    counts = mechanism.window_counts(repeated.collect(mechanism).tallies[0])
    rows = np.shape(counts.counts)[:1]
    hold(rows == (mechanism.schema.d,), mechanism, "window_counts", f"has {rows} rows, not one for each key")
    _distributed(mechanism, "window_counts")


def joint_statistics_are_true(mechanism: Any) -> None:
    """Shares of people who hold two keys are unbiased, with the errors that they state."""
    collected, d = repeated.collect(mechanism), mechanism.schema.d
    keys = np.array([[0, 1], [d - 2, d - 1]])
    wanted = [share({0: True}), share({0: True, 1: True}), share({0: True, 1: False})]
    with about(mechanism, "answer_jointly"):
        found = [mechanism.answer_jointly(tally, keys, wanted, False) for tally in collected.tallies]
    held = collected.holdings
    one, other = held[:, keys[:, 0]], held[:, keys[:, 1]]
    truth = np.stack([one.mean(axis=0), (one & other).mean(axis=0), (one & ~other).mean(axis=0)], axis=1)
    errors = np.array([answers.values - truth for answers in found]).reshape(repeated.REPEATS, -1)
    stated = np.mean([np.diagonal(answers.covariance, axis1=1, axis2=2) for answers in found], axis=0)
    _as_stated(mechanism, "answer_jointly", "a share of people who hold two keys", errors, stated.ravel())


def contingency_tables_are_true(mechanism: Any) -> None:
    """Shares of people in the cells of sets of keys are unbiased: those who hold none, and sums of values."""
    collected = repeated.collect(mechanism)
    tables = [mechanism.contingency_tables(tally) for tally in collected.tallies]
    members = tables[0].members[:_SETS]
    same = all(np.array_equal(one.members[:_SETS], members) for one in tables)
    hold(same, mechanism, "contingency_tables", "is about other sets of keys from tally to tally")
    size, holdings, values = members.shape[1], collected.holdings, collected.values
    cells = np.array([one.shares[:_SETS] for one in tables]).reshape(repeated.REPEATS, len(members), *[3] * size)
    for row, keys in enumerate(members):
        absent = 3**size // 2  # the middle of minus, absent, plus
        nobody = cells[:, row].reshape(repeated.REPEATS, -1)[:, absent]
        _near(mechanism, "contingency_tables", nobody, (~holdings[:, keys].any(axis=1)).mean())
        for place, key in enumerate(keys):
            signs = cells[:, row].sum(axis=tuple(1 + other for other in range(size) if other != place))
            _near(mechanism, "contingency_tables", signs[:, 2] - signs[:, 0], values[:, key].mean())


def predictions_come_true(mechanism: Any) -> None:
    """Errors are as predicted at the true frequencies, means and set sizes, values being the same for all holders."""
    collected = repeated.collect(mechanism, constant=True)
    truth = collected.crowd.truth(mechanism.schema)
    sizes = np.bincount(collected.records.sizes, minlength=mechanism.schema.d + 1) / collected.n
    spread = mechanism.predicted_spread(truth.frequency, truth.mean, sizes, collected.n, False)
    estimates = [mechanism.estimate(tally) for tally in collected.tallies]
    frequencies = [one.frequency.values for one in estimates if not one.frequency.absent]
    products = [one.product for one in estimates if one.product is not None]
    if not products and mechanism.takes == "every key":
        products = [one.mean.values for one in estimates]
    pairs = (
        ("a frequency", frequencies, truth.frequency, spread.frequency),
        ("a frequency times a mean", products, truth.frequency * truth.mean, spread.product),
    )
    for what, found, target, predicted in pairs:
        if found and np.isfinite(predicted).all():
            _as_stated(mechanism, "predicted_spread", what, np.array(found) - target, predicted, bias=False)


def tallies_have_their_law(mechanism: Any) -> None:
    """Tallies that are drawn as a whole have counts of the same means and variances as tallies of reports."""
    collected = repeated.collect(mechanism)
    drawn = [aggregate(mechanism, collected.records, SeededCoins(26, run)) for run in range(repeated.REPEATS)]
    mine, theirs = (
        np.array([[*one.counts.ravel(), one.counts.sum()] for one in some]) for some in (collected.tallies, drawn)
    )
    spread = np.maximum(mine.var(axis=0), theirs.var(axis=0))
    error = np.sqrt(np.maximum(spread, 1 / collected.n) * 2 / repeated.REPEATS)
    gap = np.abs(mine.mean(axis=0) - theirs.mean(axis=0)) / error
    largest = float(gap.max())
    told = f"gives a count whose mean is {largest:.1f} standard errors off"
    hold(largest < beyond(ALARM / (2 * gap.size)), mechanism, "draw_tally", told)
    estimated = [
        np.array([mechanism.estimate(one).frequency.values for one in some]) for some in (collected.tallies, drawn)
    ]
    if np.isfinite(estimated).all():
        ratio = float(np.mean(estimated[1].var(axis=0) / np.maximum(estimated[0].var(axis=0), 1e-300)))
        off = 5.5 * math.sqrt(4 / repeated.REPEATS)
        told = f"gives frequencies of {ratio:.2f} times the variance that reports give them"
        hold(abs(ratio - 1) < off, mechanism, "draw_tally", told)


def announcements_are_bounded(mechanism: Any) -> None:
    """Whatever is announced, no report tells two records apart by more than the declared ratio."""
    small = mechanism.reduced()
    options = {field.name for field in fields(mechanism)} - {"schema", "epsilon"}
    unknown = sorted(mechanism.announced() - options)
    hold(not unknown, mechanism, "announced", f"names {', '.join(unknown)}, which is no option")
    forms = list(small.announced_forms())
    hold(bool(forms), mechanism, "announced_forms", "gives no form at all")
    for form in (*forms, small.worst_announced()):
        same = type(form) is type(small) and form.epsilon == small.epsilon
        hold(same, mechanism, "announced_forms", "gives another class or another epsilon")
        worst = enumerate_worst(form).ratio
        told = f"admits {log_ceiling(small.announced_ratio()):.9f}; an announcement spends {log_ceiling(worst):.9f}"
        hold(worst <= small.announced_ratio(), mechanism, "announced_ratio", told)


def options_for_sizes_are_taken(mechanism: Any) -> None:
    """The options for people of any set sizes make a mechanism of the same class."""
    kind, d = type(mechanism), mechanism.schema.d
    for shares in ((0.0, 1.0), (0.2, 0.5, 0.3), (0.0,) * d + (1.0,)):
        law = SizeLaw.of(shares)
        with about(mechanism, "options_for_sizes"):
            options = kind.options_for_sizes(law, min(len(shares) - 1, d), d)
            kind(mechanism.schema, mechanism.epsilon, **fitted(mechanism.name, kind, options))


def caps_are_possible(mechanism: Any) -> None:
    """A cap is a whole number of pairs, at least one; estimates of people within it are held to the truth elsewhere."""
    most = mechanism.cap()
    hold(isinstance(most, int) and most >= 1, mechanism, "cap", f"is {most!r}, not a whole number from 1")


def effects_are_true(mechanism: Any) -> None:
    """Crafted reports of many kinds move estimates no further than the limits say, and some come near them."""
    crowd = people(mechanism, ATTACKED, 31)
    reports = mechanism.perturb_many(crowd.records(mechanism.schema), SeededCoins(32))
    honest, few = mechanism.tally(reports), max(ATTACKED // 50, 1)
    before = mechanism.estimate(honest)
    with about(mechanism, "report_effects"):
        limits = influence(mechanism, honest, few, before)
    kept = mechanism.tally(Reports(reports.publics[few:], reports.payloads[few:]))
    pool = thought_of(mechanism, 0, SeededCoins(33), CRAFTED)
    single = {one.kind: one for one in single_counts(mechanism, pool)}
    found = [mechanism.estimate(kept + one.tally(honest.fingerprint, few)) for one in single.values()]
    for what, kind, low, high in (
        ("frequency", limits.frequency_kind, limits.frequency_low, limits.frequency_high),
        ("mean", limits.mean_kind, limits.mean_low, limits.mean_high),
    ):
        if kind == "none":
            continue
        values = np.array([getattr(one, what).values for one in (before, *found)])
        values = np.clip(values, -1, 1) if what == "mean" else values
        room = (high - low) * (0 if kind == "bound" else 0.5) + 1e-9  # nothing is proved of others
        beyond_them = np.fmax(low - room - values, values - high - room)
        told = f"says that {few} crafted reports move a {what} less far than they do"
        hold(not np.any(beyond_them > 0), mechanism, "report_effects", told)
        near = np.nanmax(np.abs(values[1:, 0] - values[0, 0])) / max((high - low)[0] / 2, 1e-12)
        told = f"says that {few} crafted reports move a {what} {1 / max(near, 1e-12):.0f} times as far as any did"
        hold(what == "mean" or near > NEARLY, mechanism, "report_effects", told)


CAPABILITY_CHECKS: dict[type, Callable[[Mechanism], None]] = {
    SupportRates: support_rates_are_true,
    KeyDependence: dependence_is_true,
    KeyCovariances: covariances_are_true,
    Parted: parts_are_merged,
    KnownTotal: totals_hold,
    Histograms: histograms_are_true,
    Cells: cells_are_true,
    Windows: windows_are_true,
    JointStatistics: joint_statistics_are_true,
    ContingencyTables: contingency_tables_are_true,
    PredictedVariance: predictions_come_true,
    TallyLaw: tallies_have_their_law,
    Announced: announcements_are_bounded,
    LearnsSizes: options_for_sizes_are_taken,
    Capped: caps_are_possible,
    ReportEffects: effects_are_true,
}
"""By capability, the check for a mechanism that declares it: nothing if it is true, a ContractError if not."""


def _sum_and_difference(d: int) -> tuple[Floats, Floats]:
    """Weights of keys: the sum of all frequencies, and the first less the second."""
    return np.ones(d), np.array([1.0, -1.0] + [0.0] * (d - 2))


def _near(mechanism: Mechanism, member: str, found: Floats, truth: float) -> None:
    """What repeated collections say is the truth on average, as far as their own spread lets one tell."""
    known = found[np.isfinite(found)]
    hold(len(known) > 1, mechanism, member, "tells nothing of some keys")
    off = abs(float(known.mean()) - truth) * math.sqrt(len(known)) / max(float(known.std()), 1e-12)
    told = f"says {known.mean():.4f} on average; the truth is {truth:.4f}, {off:.1f} standard errors away"
    hold(off < beyond(ALARM / 200), mechanism, member, told)


def _as_stated(
    mechanism: Mechanism, member: str, what: str, errors: Floats, variances: Floats, *, bias: bool = True
) -> None:
    """Errors [repeats, numbers] have mean 0 (if ``bias`` is looked at) and the stated variance, on average."""
    z = errors / np.sqrt(variances)
    hold(bool(np.isfinite(z).all()), mechanism, member, f"gives {what} without an error")
    off = float(np.abs(z.mean(axis=0)).max()) * math.sqrt(len(z))
    if bias:
        told = f"gives a biased estimate of {what}: by {off:.1f} standard errors of its mean"
        hold(off < beyond(ALARM / (2 * z.shape[1])), mechanism, member, told)
    squares = (z**2).mean(axis=1)  # numbers of one tally are correlated
    mean, error = float(squares.mean()), float(squares.std()) / math.sqrt(len(squares))
    told = f"gives {what} whose errors have {mean:.3f} times the variance that is stated"
    hold(abs(mean - 1) < 5.5 * error, mechanism, member, told)


def _distributed(mechanism: Mechanism, member: str) -> None:
    """The distributions of values that rest on this capability are laws, and their means are near the truth."""
    crowd = people(mechanism, MANY * mechanism.schema.d, 28)  # where a report tells of one key, each needs its own
    tally = mechanism.tally(mechanism.perturb_many(crowd.records(mechanism.schema), SeededCoins(29)))
    with about(mechanism, member):
        found = distribution(mechanism, tally)
    truth = crowd.truth(mechanism.schema).mean
    for at, key in enumerate(mechanism.schema.keys):
        law = found.of(key)
        whole = bool(np.isclose(law.shares.sum(), 1)) and bool((law.shares >= -1e-9).all())
        hold(whole, mechanism, member, "leads to a distribution that is none")
        mean = float(law.shares @ law.values)
        told = f"leads to a distribution whose mean is {mean:.2f}; it is {truth[at]:.2f}"
        hold(abs(mean - truth[at]) < NEAR, mechanism, member, told)
