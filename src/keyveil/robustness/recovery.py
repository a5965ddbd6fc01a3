"""What is left of frequencies after an attack: two ways, each a choice of the analyst and never the default.

*constrained*: without any knowledge of the attack, the closest frequencies that are not negative and add up to what
people can hold. It takes back what an attack adds in all, not what it moves from one key to another.

*removal*: reports that show a pattern which noise does not explain are left out, and the frequencies come from the
others, whose law given that they were not left out is known. The patterns are a number of supported keys, or two values
of one key at once; these need a sketch (``robustness.sketches``). Where ids part people at random and every part tells
the frequencies by itself (the cohorts of RAPPOR), the pattern is a part with too many reports, which the tally shows.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Estimates
from keyveil.core.tally import Tally
from keyveil.learn import postprocess
from keyveil.learn.processed import Processed, unbiased
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.report_laws import (
    EachByItself,
    LikeHonest,
    OnePairRates,
    OnePairSupports,
    ReportParts,
    Together,
    binomial,
)
from keyveil.mechanisms.totals import Constraint
from keyveil.robustness.detection import fitted
from keyveil.robustness.sketches import MOST_NUMBERS, Counts, Section, read_sketch, sketch_shape

Floats = NDArray[np.float64]
Method = Literal["constrained", "removal"]

METHODS: tuple[Method, ...] = ("constrained", "removal")
SURE = 4.5  # standard deviations by which a pattern is too frequent to be left in; below 1e-5 for each by chance


@dataclass(frozen=True, eq=False)
class Recovered:
    """Frequencies after recovery, by which method, and how many reports were left out for it."""

    method: Method
    frequency: Floats
    left_out: int = 0

    def __str__(self) -> str:
        if self.method == "constrained":
            return "Recovered by constrained inference: right only if an attack raised more than it lowered."
        if not self.left_out:
            return "Recovered by removal: no pattern was found, so that nothing was left out."
        return f"Recovered by removal: {self.left_out:,} reports were left out whose pattern noise does not explain."

    def estimates(self, raw: Estimates) -> Processed:
        """The frequencies as estimates, labelled, with the unbiased ones as ``raw``; means are not recovered.

        A frequency that was moved has no standard error; its interval is the unbiased one, widened to hold it.
        """
        raw, column = unbiased(raw), raw.frequency
        moved = np.isfinite(self.frequency) & (np.abs(self.frequency - column.values) > 1e-12)
        values = np.where(moved, self.frequency, column.values)
        changed = replace(
            column,
            values=values,
            se=np.where(moved, np.nan, column.se),
            low=np.where(moved, np.fmin(column.low, values), column.low),
            high=np.where(moved, np.fmax(column.high, values), column.high),
        ).flagged("shrunk", moved)
        own: dict[str, Any] = {field.name: getattr(raw, field.name) for field in fields(Estimates)}
        own |= {"frequency": changed, "scores": raw.distances, "attacked": None}
        return Processed(**own, method=f"recovery by {self.method}", raw=raw, constraint=Constraint())


def recover(
    method: str, mechanism: Mechanism, tally: Tally, estimates: Estimates, sketched: Tally | None = None
) -> Recovered:
    """Frequencies by a named method; removal needs a sketch of the same reports."""
    if method not in METHODS:
        raise MechanismError("recover/unknown", f"Frequencies are recovered by {' or '.join(METHODS)}, not {method!r}.")
    if method == "constrained":
        return constrained(estimates, mechanism)
    if isinstance(mechanism, LikeHonest):
        raise MechanismError(
            "recover/like-honest", f"Removal finds nothing under {mechanism.title}. {mechanism.crafted_like_honest}"
        )
    if isinstance(mechanism, EachByItself):
        return without_parts(mechanism, tally, estimates)
    if sketched is None:
        sketch_shape(mechanism)  # refused where no sketch would help
        raise MechanismError(
            "recover/no-sketch", "Removal needs a sketch of the reports; a collector keeps one with --sketches."
        )
    return without_surplus(mechanism, tally, sketched, estimates)


def constrained(estimates: Estimates, mechanism: Mechanism | None) -> Recovered:
    """The closest frequencies that people can have."""
    return Recovered("constrained", postprocess.estimates("norm-sub", estimates, mechanism=mechanism).frequency.values)


def without_parts(mechanism: EachByItself, tally: Tally, estimates: Estimates) -> Recovered:
    """Frequencies without the parts of people that have more reports than ids give them, the largest first.

    What is left out has its honest people too; the others are as good a sample of everybody as before.
    """
    counts, shares, _ = mechanism.asked_about(tally)
    left_out = np.zeros(len(counts), dtype=np.bool_)
    while not left_out.all():
        share = np.where(left_out, 0.0, shares / shares[~left_out].sum())
        expected = counts[~left_out].sum() * share
        score = (counts - expected) / np.sqrt(np.maximum(expected * (1 - share), 1.0))
        worst = int(np.argmax(np.where(left_out, -np.inf, score)))
        if score[worst] < SURE:
            break
        left_out[worst] = True
    told = unbiased(estimates).frequency.values
    if not left_out.any():
        return Recovered("removal", told)
    found = mechanism.frequencies_without(tally, left_out)
    if found is None:
        parts = np.count_nonzero(left_out)
        few = f"Without the {parts} parts that have too many reports the others cannot part the keys."
        raise MechanismError("recover/too-few", few)
    return Recovered("removal", found, int(counts[left_out].sum()))


def without_surplus(
    mechanism: Mechanism, tally: Tally, sketched: Tally, estimates: Estimates | None = None
) -> Recovered:
    """Frequencies without the reports whose pattern is more frequent than noise makes it."""
    told = unbiased(mechanism.estimate(tally) if estimates is None else estimates)
    undercount = told.header.undercount
    moved, left_out, possible = np.zeros(mechanism.schema.d), 0, False
    for section, counts in read_sketch(mechanism, sketched):
        own = mechanism.part_tally(tally, section.number) if isinstance(mechanism, ReportParts) else tally  # type: ignore[arg-type]
        found = _without(section, counts)
        if found is None or len(found[0]) != len(moved):
            continue
        plain = section.mechanism.estimate(own).frequency.values
        # A sketch may be of fewer reports than the tally: what it takes back is the difference, not the level.
        moved += (found[0] - plain) / (1.0 if undercount is None else undercount.scale)
        left_out, possible = left_out + found[1], True
    if not possible:
        told_why = f"No pattern of reports of {mechanism.title} can be left out: the law of the others is not known."
        raise MechanismError("detect/no-sketch", told_why)
    return Recovered("removal", told.frequency.values + (moved if left_out else 0.0), left_out)


def _without(section: Section, counts: dict[str, Counts]) -> tuple[Floats, int] | None:
    """Frequencies of a section, and how many reports were left out; none if no pattern can be."""
    if isinstance(section.mechanism, OnePairSupports):
        assert section.laws.numbers is not None
        return _by_number(section.mechanism.one_pair_rates(), section.laws.numbers, counts)
    if section.labels == 2 and section.laws.together is not None and section.laws.rates is not None:
        return _single_values(section, section.laws.together, counts)
    return None


def _by_number(rates: OnePairRates, laws: Floats, counts: dict[str, Counts]) -> tuple[Floats, int]:
    """From the reports whose number of supported keys is as frequent as noise makes it.

    With C the numbers that are left in, every term of the law of a report is taken together with C; how many honest
    reports there are follows from how many are left in.
    """
    numbers, by_number = counts["numbers"], counts["by number"]
    d = len(numbers) - 1
    kept, shares, honest = np.ones(d + 1, dtype=np.bool_), np.ones(1), 0.0
    for _ in range(d):  # a surplus of one number lowers the share of all others: the largest first
        inside = laws[:, kept].sum(axis=1)
        shares = fitted(laws[:, kept] / inside[:, None], numbers[kept]).shares / inside
        honest = float(numbers[kept].sum() * shares.sum())
        shares = shares / shares.sum()
        expected = honest * (shares @ laws)
        score = (numbers - expected) / np.sqrt(np.maximum(expected, 1.0))
        worst = int(np.argmax(np.where(kept, score, -np.inf)))
        if score[worst] < SURE or np.count_nonzero(kept) <= 2:
            break
        kept[[worst] if worst < MOST_NUMBERS - 1 else slice(MOST_NUMBERS - 1, None)] = False
    rows = np.array([kept[min(row, d)] for row in range(MOST_NUMBERS)])
    supports, share = by_number[rows].sum(axis=0), float(shares[0])

    def among(law: Floats) -> float:
        """The probability that one key more than this law gives is a number that is left in."""
        return float(law[kept[1 : 1 + len(law)]].sum())

    noise = binomial(d - 1, rates.other)
    others = np.convolve(binomial(d - 2, rates.other), (1 - rates.own, rates.own)) if d > 1 else np.ones(1)
    own, other, nobody = rates.own * among(noise), rates.other * among(others), rates.other * among(noise)
    about = (supports / honest - share * other - (1 - share) * nobody) / (own - other)
    return rates.scale * about, int(numbers[~kept].sum())


def _single_values(section: Section, law: Together, counts: dict[str, Counts]) -> tuple[Floats, int]:
    """For keys whose two values come together too often, from the reports that support one value of it or none.

    Of those the share that supports one is (b + f·(a - b)) / (1 - c - f·Δ), with a and b how often exactly one of the
    two is supported by holders and by others, and c and c + Δ how often both are. It gives f.
    """
    assert section.laws.rates is not None
    own, other = section.laws.rates
    holder, stranger = own + other, 2 * other  # how many of the two values are supported
    labels, n = counts["labels"].astype(np.float64), counts["labels"].sum(axis=1)
    both_of = [law.base + law.slope * support for support in (stranger, holder)]
    one_of = [support - 2 * both for support, both in zip((stranger, holder), both_of, strict=True)]
    plain = ((labels[:, 1] + 2 * labels[:, 2]) / n - stranger) / (holder - stranger)
    share = labels[:, 1] / np.maximum(labels[:, 0] + labels[:, 1], 1)
    step, rise = one_of[1] - one_of[0], both_of[1] - both_of[0]
    alone = (share * (1 - both_of[0]) - one_of[0]) / (step + share * rise)
    excess = labels[:, 2] - n * (law.base + law.slope * (labels[:, 1] + 2 * labels[:, 2]) / n)
    sure = excess > SURE * np.sqrt(np.maximum(labels[:, 2], 1.0))
    return np.where(sure, alone, plain), int(np.rint(labels[sure, 2].max(initial=0.0)))
