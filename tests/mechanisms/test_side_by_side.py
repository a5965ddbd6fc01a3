"""Mechanisms side by side: disjoint parts with the whole ε each, one merged answer, and every part's own."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import pytest

from keyveil.core.canonical import canonical
from keyveil.core.coins import Coins
from keyveil.core.errors import KeyveilError, PrivacyError, ReportError, TallyError
from keyveil.core.public import public_indices
from keyveil.core.report import Payload, Report
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.frames.population import Population
from keyveil.lab import datasets
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.base import Mechanism, Pairs
from keyveil.mechanisms.capabilities import (
    CAPABILITIES,
    Announced,
    Capped,
    Cells,
    JointStatistics,
    Parted,
    Windows,
    can,
)
from keyveil.mechanisms.joint.statistics import share
from keyveil.mechanisms.keyvalue.kvue import KVUE
from keyveil.mechanisms.keyvalue.split import Split
from keyveil.mechanisms.part_rows import PartRows
from keyveil.mechanisms.registry import create, forms, from_document
from keyveil.privacy.audit import audit
from keyveil.privacy.certify import enumerate_worst
from keyveil.protocols.base import Finished, Protocol, Round, in_parts
from keyveil.protocols.merged import merged

SCHEMA = Schema(keys=6)
SHARES, MEANS = np.linspace(0.15, 0.6, 6), np.linspace(-0.6, 0.7, 6)
GROUPS = "ssr:0.5,kv-sw:0.3,kvue:0.2"
NESTED = {"groups": "kvue:1,split:2", "options": {"split": {"groups": "ssr:1,kv-sw:1"}}, "max_pairs": 3}


def people(n: int, seed: int) -> Population:
    return datasets.independent(n, SHARES, MEANS, seed)


def split(groups: str = GROUPS, epsilon: int = 1, schema: Schema = SCHEMA, **options: Any) -> Split:
    made = create("split", schema, epsilon, groups=groups, **{"max_pairs": 6, **options})
    assert isinstance(made, Split)
    return made


def collected(mechanism: Mechanism, population: Population, seed: int) -> Tally:
    return mechanism.tally(mechanism.perturb_many(population.records(mechanism.schema), SeededCoins(seed)))


# -- who belongs to which part --------------------------------------------------------------------------------------


def test_every_part_has_its_share_of_the_people_and_the_whole_epsilon() -> None:
    """Counts of 20,000 people lie within 6 standard deviations of their shares but once in 1e8 runs."""
    mechanism = split()
    tally = collected(mechanism, people(20_000, 1), 1)
    counts = [mechanism.part_tally(tally, number).reports for number in range(3)]
    assert [part.name for part in mechanism.parts] == ["ssr", "kv-sw", "kvue"]
    assert all(part.epsilon == 1 for part in mechanism.parts)
    assert sum(counts) == tally.reports == 20_000
    for count, expected in zip(counts, (0.5, 0.3, 0.2), strict=True):
        assert abs(count / 20_000 - expected) < 6 * math.sqrt(expected * (1 - expected) / 20_000)


@pytest.mark.parametrize("options", [{"groups": GROUPS, "max_pairs": 6}, NESTED], ids=["flat", "nested"])
def test_devices_and_arrays_find_the_same_words(options: dict[str, Any]) -> None:
    mechanism = create("split", SCHEMA, 1, **options)
    publics = SeededCoins(3).words(400).view(np.uint8).reshape(200, 16)
    together = [
        sum(int(number) << 64 * place for place, number in enumerate(reversed(row))) for row in mechanism.words(publics)
    ]
    assert together == [mechanism.word(public.tobytes()) for public in publics]
    for word in together[:20]:
        assert all(np.array_equal(row, mechanism.same_word(word, 2)[0]) for row in mechanism.same_word(word, 3))


def test_the_part_is_independent_of_the_parts_own_word() -> None:
    """Chi-square of 2 parts by 64 keys over 65,536 people: with 63 degrees of freedom beyond 310 once in 1e30."""
    mechanism = split("kvue:1,privkv:1", schema=Schema(keys=64))
    publics = SeededCoins(4).words(2 << 16).view(np.uint8).reshape(-1, 16)
    words = mechanism.words(publics)
    keys = public_indices(words[:, 1], 64)
    table = np.bincount(words[:, 0].astype(np.int64) * 64 + keys, minlength=128).reshape(2, 64)
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    assert ((table - expected) ** 2 / expected).sum() < 310


# -- reports --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"groups": GROUPS, "max_pairs": 6}, NESTED], ids=["flat", "nested"])
def test_reports_of_all_parts_have_one_length_and_come_back(options: dict[str, Any]) -> None:
    mechanism = create("split", SCHEMA, 1, **options)
    reports = [mechanism.perturb({"1": 0.5, "4": -1}, SeededCoins(5, run)) for run in range(120)]
    encoded = [mechanism.encode(report) for report in reports]
    assert {len(data) for data in encoded} == {mechanism.codec.longest}
    assert not mechanism.codec.varies
    assert [mechanism.decode(data, one.public) for data, one in zip(encoded, reports, strict=True)] == reports
    publics = [one.public for one in reports]
    assert mechanism.tally_encoded(publics, encoded) == mechanism.tally(reports)


def test_a_report_of_another_part_is_refused() -> None:
    """A sign is no set of members, padding must be zeros, and bytes without public bytes mean nothing."""
    mechanism = split("kvue:1,pckv-ue:1")
    some = {mechanism.part_of(bytes([number]) * 16): bytes([number]) * 16 for number in range(40)}
    with pytest.raises(ReportError):
        mechanism.encode(Report(some[1], 2))
    with pytest.raises(ReportError):
        mechanism.tally([Report(some[0], (1, 4))])
    size = mechanism.codec.longest
    for wrong in (b"", bytes(size - 1), bytes(size + 1), b"\x02" + b"\xff" * (size - 1), b"\x09" + bytes(size - 1)):
        with pytest.raises(ReportError):
            mechanism.decode(wrong, some[0])
        with pytest.raises(ReportError):
            mechanism.tally_encoded([some[0]], [wrong])
    with pytest.raises(KeyveilError, match="public bytes"):
        mechanism.codec.encode(1)


def test_bulk_rows_of_another_part_are_refused() -> None:
    mechanism = split("kvue:1,privkv:1")
    reports = mechanism.perturb_many(people(50, 1).records(SCHEMA), SeededCoins(1))
    rows: Any = reports.payloads
    mixed: Any = PartRows(1 - rows.parts, rows.rows[::-1])
    with pytest.raises(ReportError, match="other parts"):
        mechanism.tally(replace(reports, payloads=mixed))


def test_rows_are_indexed_like_an_array() -> None:
    mechanism = split()
    rows: Any = mechanism.perturb_many(people(300, 1).records(SCHEMA), SeededCoins(1)).payloads
    listed = mechanism.codec.unstack(rows)
    order = np.random.default_rng(1).permutation(300)
    assert mechanism.codec.unstack(rows[7:200:3]) == listed[7:200:3]
    assert mechanism.codec.unstack(rows[order]) == [listed[at] for at in order]
    assert mechanism.codec.unstack(rows[np.arange(300) % 2 == 0]) == listed[::2]


# -- counts ---------------------------------------------------------------------------------------------------------


def test_the_tally_of_a_part_is_that_of_its_mechanism() -> None:
    mechanism = split()
    reports = [mechanism.perturb({"1": 0.5}, SeededCoins(6, run)) for run in range(90)]
    tally = mechanism.tally(reports)
    for number, part in enumerate(mechanism.parts):
        own = [one for one in reports if mechanism.part_of(one.public) == number]
        assert mechanism.part_tally(tally, number) == part.tally(own)
        assert mechanism.part(part.name) == part and mechanism.group(part.name) == number


def test_a_part_that_nobody_belongs_to_changes_nothing() -> None:
    mechanism = split("kvue:1,pckv-ue:1,wheel:1")
    alone = next(public for public in (bytes([n]) * 16 for n in range(99)) if mechanism.part_of(public) == 0)
    tally = mechanism.tally([mechanism.perturb({"1": 1}, SeededCoins(1), alone)])
    assert tally == mechanism.tally_encoded(
        [alone], [mechanism.encode(mechanism.perturb({"1": 1}, SeededCoins(1), alone))]
    )
    estimates, own = mechanism.estimate(tally), mechanism.parts[0].estimate(mechanism.part_tally(tally, 0))
    assert np.array_equal(estimates.frequency.values, own.frequency.values, equal_nan=True)
    assert estimates.mechanism == "split" and estimates.n == 1
    nobody = mechanism.estimate(Tally.empty(mechanism.fingerprint, mechanism.tally_shape))
    assert nobody.n == 0 and set(nobody.flag) == {"insufficient"}


def test_a_tally_whose_parts_do_not_add_up_is_refused() -> None:
    mechanism = split("kvue:1,privkv:1")
    tally = collected(mechanism, people(50, 1), 1)
    with pytest.raises(TallyError, match="do not add up"):
        mechanism.estimate(Tally(tally.fingerprint, 51, tally.counts))
    with pytest.raises(TallyError):
        split("kvue:2,privkv:1").estimate(tally)


# -- estimates ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("population", [False, True])
def test_the_merged_answer_has_the_error_that_it_states(population: bool) -> None:
    """Standardised errors over 200 runs and 6 keys; the bounds hold for a correct merge but once in 1e7 runs."""
    mechanism, same = split(), people(3000, 3)
    truth = same.truth(SCHEMA)
    frequency, product = (SHARES, SHARES * MEANS) if population else (truth.frequency, truth.frequency * truth.mean)
    scores = {"frequency": list[np.ndarray](), "product": list[np.ndarray]()}
    covered = []
    for run in range(200):
        crowd = people(3000, 100 + run) if population else same
        estimates = mechanism.estimate(collected(mechanism, crowd, 1000 + run), population=population)
        scores["frequency"].append((estimates.frequency.values - frequency) / estimates.frequency.se)
        assert estimates.product is not None and estimates.product_se is not None
        scores["product"].append((estimates.product - product) / estimates.product_se)
        covered.append((estimates.mean.low <= product / frequency) & (product / frequency <= estimates.mean.high))
    for what, rows in scores.items():
        z = np.array(rows)
        assert np.abs(z.mean(axis=0) * math.sqrt(len(z))).max() < 5.5, what
        assert abs((z**2).mean() - 1) < 5.5 * math.sqrt(2 / z.size), what
    assert 0.92 < np.mean(covered) < 0.98


@dataclass(frozen=True)
class OneAfterTheOther(Protocol):
    """The same groups as rounds: how people were parted before they stood side by side."""

    mechanism: Split

    name: ClassVar[str] = "one-after-the-other"

    def plan(self, finished: Any) -> Round | None:
        number = len(finished)
        if number == len(self.mechanism.parts):
            return None
        return Round(number + 1, self.mechanism.parts[number], in_parts(*self.mechanism.shares)[number])

    def estimate(self, finished: Any, confidence: float = 0.95, population: bool = False) -> Any:
        return merged(finished, self, confidence, population)


def test_the_merged_answer_is_that_of_rounds_one_after_the_other() -> None:
    mechanism = split()
    tally = collected(mechanism, people(5000, 5), 5)
    rounds = OneAfterTheOther(SCHEMA, Fraction(1), mechanism)
    finished: list[Finished] = []
    while (following := rounds.next_round(finished)) is not None:
        finished.append(Finished(following, mechanism.part_tally(tally, len(finished))))
    for population in (False, True):
        # Key by key: which keys are told from absent, all at once, a protocol decides more carefully than a mechanism.
        one = mechanism.estimate(tally, 0.9, population).per_key()
        other = rounds.estimate(finished, 0.9, population).per_key()
        for column, before in ((one.frequency, other.frequency), (one.mean, other.mean)):
            for numbers in ("values", "se", "low", "high", "flag"):
                assert np.array_equal(getattr(column, numbers), getattr(before, numbers), equal_nan=True)
        assert np.array_equal(one.respondents, other.respondents)


def test_merging_is_better_than_the_best_part_alone() -> None:
    mechanism = split("ssr:0.5,wsr:0.5")
    tally = collected(mechanism, people(20_000, 5), 5)
    together, apart = mechanism.estimate(tally, population=True), mechanism.answers(tally, population=True)
    assert all((together.frequency.se < 0.9 * one.frequency.se).all() for one in apart)


def test_parts_that_give_only_one_of_both_still_help() -> None:
    """Frequencies of a part with cells sharpen the means of the part with signs."""
    mechanism = split("ssr:0.5,kvue:0.5", 2, options="kvue.bins=4; kvue.rounding=cell")
    tally = collected(mechanism, people(20_000, 6), 6)
    together, (alone, cells) = mechanism.estimate(tally), mechanism.answers(tally)
    assert alone.mean.absent == "" and cells.mean.absent
    assert np.isfinite(together.mean.values).all() and (together.mean.flag == 0).all()
    assert together.frequency.se.mean() < alone.frequency.se.mean()
    assert mechanism.estimated == {"frequency", "mean"}


# -- capabilities ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("groups", "options", "capability", "there"),
    [
        ("kvue:1,privkv:1", "", Capped, False),
        ("kvue:1,wsr:1", "", Capped, True),
        ("ssr:1,kvue:1", "", Cells, False),
        ("ssr:1,kvue:1", "kvue.bins=4", Cells, True),
        ("ssr:1,kv-sw:1", "", Windows, True),
        ("ssr:1,kvue:1", "", Windows, False),
        ("ssr:1,moments:1", "", JointStatistics, True),
        ("ssr:1,kvue:1", "", JointStatistics, False),
        ("ssr:1,kvue:1", "", Announced, True),
    ],
)
def test_the_whole_can_tell_what_a_part_can(groups: str, options: str, capability: type, there: bool) -> None:
    mechanism = split(groups, options=options)
    assert (can(mechanism, capability) is not None) == there


def test_every_capability_of_a_split_is_one_of_its_parts() -> None:
    """Nothing is claimed that no part can do, but for what may be announced and how parts are merged."""
    for mechanism in (split(), split("kvue:1,moments:1"), split("marginals:1,wsr:1", options="wsr.bins=4")):
        for capability in CAPABILITIES - {Announced, Parted}:
            if can(mechanism, capability):
                assert any(can(part, capability) for part in mechanism.parts)


def test_what_only_one_part_tells_is_asked_of_the_whole() -> None:
    mechanism = split("kvue:1,moments:1")
    tally = collected(mechanism, people(4000, 7), 7)
    keys, questions = np.array([[0, 1]]), [share({0: True, 1: True})]
    joint = can(mechanism, JointStatistics)
    assert joint is not None
    together = joint.answer_jointly(tally, keys, questions)
    part, own = can(mechanism.part("moments"), JointStatistics), mechanism.part_tally(tally, 1)
    assert part is not None
    assert np.array_equal(together.values, part.answer_jointly(own, keys, questions).values)


def test_nothing_is_announced_and_the_smallest_cap_counts() -> None:
    mechanism = split("ssr:1,wsr:1,kvue:1", options="ssr.max_pairs=3;wsr.max_pairs=2")
    assert mechanism.cap() == 2
    assert mechanism.announced() == frozenset() and list(mechanism.announced_forms()) == [mechanism]
    assert mechanism.announced_ratio() == mechanism.ratio == max(part.ratio for part in mechanism.parts)


# -- privacy --------------------------------------------------------------------------------------------------------


def test_epsilon_is_that_of_the_dearest_part() -> None:
    cheap, dear = (split(groups) for groups in ("krr-harmony:1", "krr-harmony:1,kvue:1"))
    assert float(cheap.certificate().exact_epsilon) == pytest.approx(0.7809, abs=5e-5)
    assert float(dear.certificate().exact_epsilon) == pytest.approx(1, abs=1e-6)


VIEWS = ("hierarchy", "coordinates")
EVERY_SET = {
    label: mechanism
    for label, mechanism in forms()
    if mechanism.takes == "every set" and label not in ("split", *VIEWS)
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_are_no_group(name: str) -> None:
    with pytest.raises(KeyveilError, match="parts them into views"):
        split(f"kvue:1,{name}:1", schema=Schema(keys=3))


LABELS = list(EVERY_SET)
NEIGHBOURS = [(one, LABELS[(at + step) % len(LABELS)]) for at, one in enumerate(LABELS) for step in (1, 2, 5, 11)]
NOT_NEAR = [pair for pair in combinations(LABELS, 2) if pair not in NEIGHBOURS and pair[::-1] not in NEIGHBOURS]


@pytest.mark.parametrize(
    ("one", "other"), [*NEIGHBOURS, *(pytest.param(*pair, marks=pytest.mark.soak) for pair in NOT_NEAR)]
)
def test_any_two_mechanisms_stand_side_by_side_at_sizes_that_can_be_enumerated(one: str, other: str) -> None:
    """Both parts have the same keys there, and are still the mechanisms that were named."""
    first, second = EVERY_SET[one], EVERY_SET[other]
    if first.name == second.name:
        return
    small = split(
        f"{first.name}:1,{second.name}:1",
        schema=Schema(keys=3),
        options={first.name: first.options, second.name: second.options},
        max_pairs=None,
    ).reduced()
    assert [part.schema for part in small.parts] == [small.schema] * 2
    assert all(part == part.reduced() for part in small.parts)
    assert small == small.reduced()


def test_an_audit_finds_no_more_than_epsilon() -> None:
    found = audit(split("ssr:1,kvue:1", schema=Schema(keys=3), max_pairs=2), draws=20_000, coins=SeededCoins(31))
    assert 0.5 < found.lower_bound <= 1 and not found.violated


@dataclass(frozen=True)
class PlainTruth(KVUE):
    """Tells the truth, whatever its closed form says."""

    name: ClassVar[str] = "plain-truth"

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        held = dict(pairs).get(self.encoder.key(word))
        return 0 if held is None else 1 + (held > 0)


@dataclass(frozen=True)
class CarelessSplit(Split):
    """A leak in the second of two parts, which costs no more than the first."""

    name: ClassVar[str] = "careless-split"

    @cached_property
    def parts(self) -> tuple[Mechanism, ...]:
        first, *_ = super().parts
        return first, PlainTruth(self.schema, self.epsilon)

    def reduced(self) -> CarelessSplit:
        return self


def test_a_leak_in_any_part_is_found() -> None:
    careless = CarelessSplit(Schema(keys=2), Fraction(1), "ssr:1,kvue:1", max_pairs=2)
    assert enumerate_worst(careless).ratio == math.inf
    with pytest.raises(PrivacyError) as refused:
        careless.certificate()
    assert refused.value.code == "privacy/closed-form"
    found = audit(careless, draws=20_000, coins=SeededCoins(31))
    assert found.violated


# -- options --------------------------------------------------------------------------------------------------------


def test_options_reach_their_part_as_mapping_or_text() -> None:
    by_text = split("ssr:1,kvue:1", options="ssr.max_pairs=2; kvue.bins=4", max_pairs=None)
    by_mapping = split("ssr:2,kvue:2", group_options={"ssr": {"max_pairs": 2}, "kvue": {"bins": 4}}, max_pairs=None)
    assert by_text == by_mapping and by_text.fingerprint == by_mapping.fingerprint
    assert by_text.part("kvue").options == {"bins": 4, "rounding": "grid"}
    assert by_text == split("ssr:0.5,kvue:1/2", options="kvue.bins=4", max_pairs=2)
    assert hash(by_text) == hash(by_mapping)


def test_a_document_names_everything_that_a_device_needs() -> None:
    mechanism = create("split", SCHEMA, 1, **NESTED)
    again = from_document(json.loads(canonical(mechanism.document())))
    assert again == mechanism and again.fingerprint == mechanism.fingerprint
    assert again.document() == mechanism.document()


def test_how_a_part_is_read_does_not_change_what_it_counts() -> None:
    usual, published = (
        split("privkv:1,kvue:1", options=f"privkv.estimator={one}") for one in ("unbiased", "published")
    )
    assert usual != published and usual.fingerprint == published.fingerprint
    tally = collected(usual, people(2000, 1), 1)
    assert published.estimate(tally).n == 2000


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"groups": "ssr:0.5,ssr:0.5"}, "every mechanism once"),
        ({"groups": "ssr:0"}, "must be positive"),
        ({"groups": "ssr:x"}, "not a share"),
        ({"groups": "ssr:1/0"}, "not a share"),
        ({"groups": "ssr:1e999999999"}, "not a share"),
        ({"groups": "nonsense:1"}, "no mechanism"),
        ({"groups": ""}, "written like"),
        ({"groups": " "}, "written like"),
        ({"groups": "kvue:1,"}, "written like"),
        ({"groups": ":1"}, "written like"),
        ({"groups": "kvue:1", "options": "ssr.max_pairs=3"}, "no group 'ssr'"),
        ({"groups": "kvue:1", "options": "bins=3"}, "written like ssr.max_pairs=3"),
        ({"groups": "kvue:1", "options": "bins"}, "written like max_pairs=3"),
        ({"groups": "kvue:1", "options": "kvue.colour=3"}, "no option 'colour'"),
        ({"groups": "ssr:1"}, "needs the option 'max_pairs'"),
        ({"groups": "kvue:1,grr:1"}, "grr takes one key only"),
        ({"groups": "kvue:1,duchi:1"}, "duchi takes every key only"),
        ({"groups": "kvue:1,privkvm:1"}, "privkvm is a protocol"),
        ({"groups": "kvue:99999999999,privkv:1"}, "nobody belongs to it"),
    ],
    ids=str,
)
def test_a_split_that_makes_no_sense_is_refused(wrong: dict[str, str], sentence: str) -> None:
    with pytest.raises(KeyveilError, match=sentence) as refused:
        create("split", SCHEMA, 1, **wrong)
    assert refused.value.sentence.endswith(".") and "\n" not in refused.value.sentence


def test_a_group_that_is_not_there_is_named() -> None:
    with pytest.raises(KeyveilError, match="no group 'kvoh'; it has kvue, privkv"):
        split("kvue:1,privkv:1").part("kvoh")
