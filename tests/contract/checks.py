"""What every mechanism must keep. Each check is a function that raises AssertionError, so mutants can be put to it.

Statistical checks run on seeded coins; at a fresh seed each would raise a false alarm with probability below 1e-6.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from keyveil.core.epsilon import keeps, log_ceiling
from keyveil.core.errors import ReportError, TallyError
from keyveil.core.public import public_word
from keyveil.core.report import Reports
from keyveil.core.schema import GRID, Schema
from keyveil.core.tally import Tally
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.responses import normal_quantile
from keyveil.privacy.certify import enumerate_worst
from keyveil.privacy.enumerate import law
from tests.contract.cases import (
    BIASED_MEANS,
    EXTREME,
    copies,
    extreme_people,
    full_record,
    people,
    population_truth,
)

ALARM = 1e-7
Law = dict[Any, Fraction]
Floats = NDArray[Any]


def privacy_by_enumeration(mechanism: Mechanism) -> None:
    """No report tells any two records apart by more than e^ε, and the closed form knows it."""
    worst = enumerate_worst(mechanism)
    assert keeps(worst.ratio, mechanism.epsilon), f"spends {log_ceiling(worst.ratio)}"
    assert worst.ratio <= mechanism.ratio, "the closed form is below what the sampler spends"
    assert keeps(mechanism.ratio, mechanism.epsilon)


def tightness(mechanism: Mechanism) -> None:
    """The budget is used: the sampler spends what was asked, up to the rounding of its integers."""
    spent = Fraction(log_ceiling(enumerate_worst(mechanism).ratio))
    assert spent > mechanism.epsilon - Fraction(1, 10**6), f"spends only {float(spent):.9f}"


def single_draws_have_the_law(mechanism: Mechanism, draws: int = 4000) -> None:
    """Real coins give what the enumeration says: the same program, other coins."""
    for number, (word, pairs, expected) in enumerate(_laws(mechanism)):
        coins = SeededCoins(11, number)
        _fits(Counter(mechanism.respond(pairs, word, coins) for _ in range(draws)), expected, draws)


def devices_do_at_full_size_what_bulk_does(mechanism: Mechanism, singles: int = 1200, many: int = 30_000) -> None:
    """Beyond what can be enumerated, every part of a report is as likely from a device as from the arrays."""
    pairs, word = full_record(mechanism), list(islice(mechanism.every_word(), 7))[-1]
    coins = SeededCoins(16)
    drawn = [mechanism.respond(pairs, word, coins) for _ in range(singles)]
    words = np.full(many, word, dtype=np.uint64)
    rows = mechanism.respond_many(copies(pairs, many, mechanism.schema.d), words, SeededCoins(17))
    mine, theirs = (
        Counter(part for payload in payloads for part in _parts(payload))
        for payloads in (drawn, mechanism.codec.unstack(rows))
    )
    alarm = stats.norm.isf(ALARM / len(theirs | mine))
    for part in mine | theirs:
        share = (mine[part] + theirs[part]) / (singles + many)
        error = math.sqrt(max(share * (1 - share), 1 / many) * (1 / singles + 1 / many))
        gap = abs(mine[part] / singles - theirs[part] / many)
        # The normal law is a poor guide to rare parts: three reports more or less prove nothing.
        assert gap < alarm * error + 3 / singles, (
            f"{part} of a report: {mine[part]} of {singles}, {theirs[part]} of {many}"
        )


def reports_are_what_devices_draw(mechanism: Mechanism) -> None:
    """A report is the given or freshly drawn public bytes and the response to the cleaned record, and nothing else."""
    records = [full_record(mechanism), next(iter(mechanism.every_record()))]
    for pairs in (list(one) for one in records):
        if len(pairs) and max(key for key, _ in pairs) >= mechanism.schema.d:
            continue
        record = _raw(mechanism, pairs)
        public = bytes(range(100, 116))
        report = mechanism.perturb(record, SeededCoins(18), public)
        word = public_word(public, mechanism.fingerprint[:16])
        assert report.public == public, "the public bytes are not those that were given"
        expected = mechanism.respond(mechanism.read(record), word, SeededCoins(18))
        assert report.payload == expected, "perturb does something that respond does not"
        drawn = mechanism.perturb(record, SeededCoins(19))
        assert drawn.public == SeededCoins(19).bytes(16), "public bytes must be drawn first, whatever the record"


def bulk_draws_have_the_law(mechanism: Mechanism, draws: int = 40_000) -> None:
    """Arrays give what single devices give."""
    for number, (word, pairs, expected) in enumerate(_laws(mechanism)):
        words = np.full(draws, word, dtype=np.uint64)
        rows = mechanism.respond_many(copies(pairs, draws, mechanism.schema.d), words, SeededCoins(12, number))
        _fits(Counter(mechanism.codec.unstack(rows)), expected, draws)


def reports_travel(mechanism: Mechanism) -> None:
    """Every possible report has one encoding, which is decoded strictly, and bulk rows keep it."""
    for word, pairs, expected in _laws(mechanism):
        for payload in expected:
            data = mechanism.codec.encode(payload)
            assert mechanism.codec.decode(data) == payload
            assert mechanism.codec.unstack(mechanism.codec.stack([payload])) == [payload]
            for wrong in (data + b"\0", b"\xff" * (len(data) + 9)):
                with pytest.raises(ReportError):
                    mechanism.codec.decode(wrong)
            if data:
                assert _decoded_or_refused(mechanism, data[:-1]) != payload
        assert sum(expected.values()) == 1, f"the law for {pairs} at word {word:x} does not add up"


def parts_add_up(mechanism: Mechanism) -> None:
    """Counting is a sum: any split, any order, and bytes in between; strangers are refused."""
    records = people(mechanism, 3000, 5).records(mechanism.schema)
    reports = mechanism.perturb_many(records, SeededCoins(13))
    whole = mechanism.tally(reports)
    thirds = [mechanism.tally(Reports(reports.publics[i::3], reports.payloads[i::3])) for i in range(3)]
    assert sum(thirds[1:], thirds[0]) == whole == thirds[2] + thirds[0] + thirds[1]
    assert Tally.from_bytes(whole.to_bytes()) == whole
    some = Reports(reports.publics[:200], reports.payloads[:200])
    payloads = mechanism.codec.unstack(some.payloads)
    singles = [
        mechanism.decode(mechanism.codec.encode(payload), public.tobytes())
        for public, payload in zip(some.publics, payloads, strict=True)
    ]
    assert mechanism.tally(singles) == mechanism.tally(some)
    stranger = replace(mechanism, epsilon=mechanism.epsilon / 2)
    with pytest.raises(TallyError):
        whole + stranger.tally(stranger.perturb_many(records, SeededCoins(14)))
    with pytest.raises(TallyError):
        stranger.estimate(whole)
    renamed = replace(mechanism, schema=Schema(keys=[f"k{key}" for key in range(mechanism.schema.d)]))
    with pytest.raises(TallyError):
        renamed.estimate(whole)


def errors_are_as_stated(mechanism: Mechanism, *, population: bool, n: int = 12_000) -> None:
    """Standardised errors have mean 0 and variance 1, and 95 % intervals cover: two-sided, so wrong noise is seen.

    With ``population`` every repeat asks new people; otherwise the same people are asked again and again. Means are
    ratios: their numerators are held to the law of errors, they themselves to the coverage of their intervals.
    """
    scores: dict[str, list[Floats]] = {}
    covered: dict[str, list[Floats]] = {}
    asked, (frequency, mean) = people(mechanism, n, 21), population_truth(mechanism)
    records, truth = asked.records(mechanism.schema), asked.truth(mechanism.schema)
    if not population:
        frequency, mean = truth.frequency, truth.mean
    for repeat in range(3200 // mechanism.schema.d):  # so many that 0.93 and 0.97 lie five standard errors off
        if population:
            records = people(mechanism, n, 1000 + repeat).records(mechanism.schema)
        tally = mechanism.tally(mechanism.perturb_many(records, SeededCoins(15, repeat)))
        estimates = mechanism.estimate(tally, population=population)
        for what, column, target in (("frequency", estimates.frequency, frequency), ("mean", estimates.mean, mean)):
            if what == "mean" and mechanism.name in BIASED_MEANS:
                assert (column.flag > 0).all() and np.isnan(column.low).all(), "a biased mean needs a flag, no interval"
            elif not column.absent:
                covered.setdefault(what, []).append((column.low <= target) & (target <= column.high))
                if what == "frequency" or estimates.product is None:
                    scores.setdefault(what, []).append((column.values - target) / column.se)
        if estimates.product is not None and estimates.product_se is not None:
            scores.setdefault("product", []).append((estimates.product - frequency * mean) / estimates.product_se)
    for what, rows in scores.items():
        z = np.array(rows)
        assert np.isfinite(z).all(), f"{what}: an estimate without a standard error"
        bias, spread = z.mean(axis=0) * math.sqrt(len(z)), float((z**2).mean())
        assert np.abs(bias).max() < stats.norm.isf(ALARM / (2 * z.shape[1])), f"{what} is biased: {bias}"
        assert abs(spread - 1) < 5.5 * math.sqrt(2 / z.size), f"{what}: the variance of z is {spread:.3f}, not 1"
    for what, inside in covered.items():
        assert 0.93 <= np.mean(inside) <= 0.97, f"{what}: 95 % intervals cover {np.mean(inside):.3f}"


def joint_errors_are_as_stated(mechanism: Mechanism, *, population: bool, n: int = 800, repeats: int = 400) -> None:
    """The errors of f, of U = f·m and of U - m·f at the true m have mean 0 and the variances that are stated.

    The last, Var U + m²·Var f - 2m·Cov, is what means and their intervals rest on, and only it sees the covariance; the
    ends of an interval must be where it puts them. Squares are held against the mean of what is stated, not one by one:
    a variance that is estimated from the same counts goes along with the error. Nine biases and three variances
    together raise a false alarm with probability below 1e-6.
    """
    asked, (frequency, mean) = extreme_people(mechanism, n * repeats if population else n, 23), EXTREME
    everybody, truth = asked.records(mechanism.schema), asked.truth(mechanism.schema)
    if not population:
        frequency, mean = truth.frequency, truth.mean
    errors, stated, width = [], [], normal_quantile(0.95)
    for repeat in range(repeats):
        records = everybody.slice(n * repeat, n * (repeat + 1)) if population else everybody
        tally = mechanism.tally(mechanism.perturb_many(records, SeededCoins(20, repeat)))
        estimates = mechanism.estimate(tally, confidence=0.95, population=population)
        f, u, cov = estimates.frequency.values, estimates.product, estimates.covariance
        assert u is not None and estimates.product_se is not None and cov is not None
        var_f, var_u = estimates.frequency.se**2, estimates.product_se**2
        errors.append((f - frequency, u - frequency * mean, u - mean * f))
        stated.append((var_f, var_u, var_u + mean**2 * var_f - 2 * mean * cov))
        for end in (estimates.mean.low, estimates.mean.high):
            square = width**2 * (var_u + end**2 * var_f - 2 * end * cov)
            fits = np.isclose((u - end * f) ** 2, square, rtol=1e-6) | (estimates.mean.flag > 0)
            assert fits.all(), "the interval of a mean rests on something else"
    variances = np.mean(stated, axis=0)
    assert (variances > 0).all(), "a covariance that is impossible"
    scores = np.array(errors) / np.sqrt(variances)
    for what, z in zip(("f", "U", "U - m·f"), np.moveaxis(scores, 1, 0), strict=True):
        bias, squares = z.mean(axis=0) * math.sqrt(repeats), (z**2).mean(axis=1)  # keys of one tally hang together
        assert np.abs(bias).max() < stats.norm.isf(ALARM / (2 * z.shape[1])), f"{what} is biased: {bias}"
        off = 5.5 * squares.std() / (squares.mean() * math.sqrt(repeats))
        assert abs(squares.mean() - 1) < off, f"{what}: the variance of z is {squares.mean():.3f}, not 1"


def _parts(payload: Any) -> list[tuple[str, int]]:
    """What a payload is made of: its set bits, its members, or its symbol and where that lies in the alphabet."""
    if isinstance(payload, bytes):
        bits = int.from_bytes(payload, "little")
        return [("bit", place) for place in range(8 * len(payload)) if bits >> place & 1]
    if isinstance(payload, tuple):
        return [("member", member) for member in payload]
    return [("symbol", payload), ("sixteenth", payload // 16), ("parity", payload % 2)]


def _raw(mechanism: Mechanism, pairs: Any) -> dict[str, float]:
    keys = mechanism.schema.keys
    units = mechanism.schema.from_unit(np.array([value / GRID for _, value in pairs]), np.array([k for k, _ in pairs]))
    return {keys[key]: float(unit) for (key, _), unit in zip(pairs, units, strict=True)} if len(pairs) else {}


def _decoded_or_refused(mechanism: Mechanism, data: bytes) -> Any:
    try:
        return mechanism.codec.decode(data)
    except ReportError:
        return None


def _laws(mechanism: Mechanism) -> list[tuple[int, Any, Law]]:
    """Exact laws of a few records, the first and the last among them, at the first and the last public word."""
    records, words = list(mechanism.every_record()), list(mechanism.every_word())
    chosen = {0, len(records) // 3, len(records) // 2, len(records) - 1}
    return [
        (word, records[at], law(partial(mechanism.respond, records[at], word)))
        for word in {words[0], words[-1]}
        for at in sorted(chosen)
    ]


def _fits(seen: Counter[Hashable], expected: Law, draws: int) -> None:
    assert set(seen) <= set(expected), "a report that the law does not know"
    outcomes = sorted(expected, key=lambda outcome: expected[outcome], reverse=True)
    common = [outcome for outcome in outcomes if draws * expected[outcome] >= 5]
    observed = [seen[outcome] for outcome in common]
    shares = [float(draws * expected[outcome]) for outcome in common]
    rest = draws - sum(observed), draws - sum(shares)
    if rest[1] > 1e-6:
        observed.append(rest[0])
        shares.append(rest[1])
    if len(shares) > 1:
        scale = sum(observed) / sum(shares)
        assert stats.chisquare(observed, [share * scale for share in shares]).pvalue > ALARM, "another law"
