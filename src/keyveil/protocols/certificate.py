"""The certificate of a protocol: what a person loses over all rounds to a collector who announces whatever tells most.

Given what was announced, the answers of one person in different rounds are independent. So the worst that a strategy
can do to a pair of records is the product over rounds of the worst single round for that same pair: it may choose
every announcement after seeing all earlier answers, and the public keys may fall as unluckily as they can. Rounds of
disjoint parts of the people do not multiply, but each of them must keep what it says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial, singledispatch
from itertools import product
from math import prod
from typing import Any, cast

from keyveil.core.channels import Ratio
from keyveil.core.epsilon import exp_floor, log_ceiling
from keyveil.core.errors import MechanismError, PrivacyError, ProtocolError
from keyveil.core.report import Payload
from keyveil.core.schema import GRID
from keyveil.mechanisms.base import Mechanism, Pairs
from keyveil.mechanisms.keyvalue.ssr import SSR
from keyveil.mechanisms.keyvalue.topsel import TopSel
from keyveil.mechanisms.keyvalue.wsr import MOST_UNFAIR, MOST_WEIGHT, WSR
from keyveil.mechanisms.rounds.adaptive import ValuePhase
from keyveil.mechanisms.rounds.privkvm import PrivKVRound
from keyveil.mechanisms.rounds.privkvm_meanest import FilledVector
from keyveil.mechanisms.rounds.privkvm_star import LabelRound
from keyveil.mechanisms.rounds.topsel_project import MOST_RADIUS, MOST_SCALE, Project
from keyveil.privacy.certify import Certificate, Worst, enumerate_worst
from keyveil.privacy.enumerate import law
from keyveil.protocols.base import Protocol, Round

REDUCED_MEMBERS = 3  # of a subset

Forms = Sequence[Mechanism]  # all the ways in which a round may be asked


def certificate(protocol: Protocol) -> Certificate:
    """The exact ε of all rounds together, held against the enumeration of them at reduced sizes.

    ``worst.report`` has one report for each round that the person answers, and ``worst.word`` the public word of the
    first of them.
    """
    rounds = protocol.longest()

    every = {one.number: forms_of(one, protocol.announces) for one in rounds}
    for form in dict.fromkeys(form for forms_of_round in every.values() for form in forms_of_round):
        _refuse_leak(form)
    course = max(courses_of(rounds), key=lambda one: _product(one, protocol.announces))
    forms = [every[one.number] for one in course]
    worst = worst_loss(forms, people_of(forms))
    admitted = prod(_admitted(forms_of_round) for forms_of_round in forms)
    if worst.ratio > admitted:
        raise PrivacyError(
            "privacy/closed-form",
            f"All rounds of {protocol.name} together spend {log_ceiling(worst.ratio):.9f} at reduced sizes, "
            f"more than their closed forms {log_ceiling(admitted):.9f} admit.",
        )
    return Certificate(
        mechanism=protocol.name,
        requested_epsilon=protocol.epsilon,
        ratio=course_ratio(rounds, protocol.announces),
        method="closed-form",
        sizes={**rounds[0].mechanism.sizes, "rounds": len(rounds), "answered": len(course)},
        worst=worst,
        worst_sizes={**forms[0][0].sizes, "answered": len(course)},
    )


def course_ratio(rounds: Sequence[Round], announces: bool = True) -> Ratio:
    """Closed form: the largest ratio of the probabilities of all that one person sends in these rounds.

    Whatever is announced between them. Rounds of different parts of the people do not multiply.
    """
    return max((_product(course, announces) for course in courses_of(rounds)), default=Fraction(1))


def _product(course: Sequence[Round], announces: bool) -> Ratio:
    return prod((worst_ratio(one, announces) for one in course), start=Fraction(1))


def worst_ratio(asked: Round, announces: bool = True) -> Ratio:
    """What a round can tell at most, whatever is announced before it.

    Nothing is announced before the first. A later mechanism that takes its parameters from a broadcast is calibrated
    by the device itself to at most e^ε, and a collector may find the parameters that come closest.
    """
    mechanism = asked.mechanism
    if isinstance(mechanism, PrivKVRound) and asked.number > 1:
        return mechanism.worst_ratio
    if asked.number == 1 or not announces or isinstance(mechanism, FilledVector):
        return mechanism.ratio
    return max(mechanism.ratio, exp_floor(mechanism.epsilon))


@singledispatch
def announcements(asked: Mechanism) -> list[Mechanism]:
    """A round of few keys under broadcasts of extremes and middles; how many pairs count may always be announced."""
    if not hasattr(asked, "max_pairs"):
        return [asked]
    return _accepted(asked, max_pairs=range(1, asked.schema.d + 1))


@announcements.register
def _fake_means(asked: PrivKVRound) -> list[Mechanism]:
    return [replace(asked, fake=fakes) for fakes in product((-GRID, 0, GRID), repeat=asked.schema.d)]


@announcements.register
def _fillings(asked: FilledVector) -> list[Mechanism]:
    return [replace(asked, fake=(filling,) * asked.schema.d) for filling in (-GRID, 0, GRID)]


@announcements.register
def _labels(asked: LabelRound) -> list[Mechanism]:
    first = [tuple(range(count)) for count in range(asked.schema.d)]  # none stands for all
    return _accepted(asked, bins=dict.fromkeys((1, asked.bins)), keys=first)


@announcements.register
def _weights(asked: ValuePhase) -> list[Mechanism]:
    """The weights, the cap, and a reserve that may be larger than it need be."""
    d = asked.schema.d
    tight = _accepted(asked, max_pairs=range(1, d + 1), weights=_unfair(d), reserve=[None])
    return [*tight, *_accepted(asked, max_pairs=range(1, d + 1), weights=[(1,) * d], reserve=[3 * d])]


@announcements.register
def _heavy_keys(asked: WSR) -> list[Mechanism]:
    return _accepted(asked, max_pairs=range(1, asked.schema.d + 1), weights=_unfair(asked.schema.d))


@announcements.register
def _subsets(asked: SSR) -> list[Mechanism]:
    return _accepted(asked, max_pairs=range(1, asked.schema.d + 1), size=range(1, REDUCED_MEMBERS + 1))


@announcements.register
def _covers(asked: TopSel) -> list[Mechanism]:
    """A law of set sizes decides on buckets, marks and hashes, so all of these may be announced as well."""
    if asked.direct:
        return [asked]
    buckets = range(2, asked.channel.outputs + 1)
    ways: list[dict[str, list[Any]]] = [
        {"hashing": ["partition"], "kappa": [None]},
        {"hashing": ["hash"], "kappa": [Fraction(9, 10)]},
    ]
    return [
        form
        for way in ways
        for form in _accepted(asked, buckets=buckets, marked=buckets, padding=(0, asked.schema.d), **way)
    ]


@announcements.register
def _directions(asked: Project) -> list[Mechanism]:
    """Middles, scales and radii at their ends; and the planner may prefer a plain question to a projected one."""
    both = 2 * asked.schema.d
    projected = _accepted(
        asked,
        centres=[(centre,) * both for centre in (-GRID, 0, GRID)],
        scales=[(scale,) * both for scale in (1, MOST_SCALE)],
        radius=[1, MOST_RADIUS],
        marked=dict.fromkeys((1, asked.rows - 1)),
    )
    of = partial(TopSel, asked.schema, asked.epsilon)
    plain = (of(mode="direct"), of(set_sizes="1"))
    return [*projected, *(form for one in plain for form in announcements(one.reduced()))]


def _unfair(keys: int) -> list[tuple[int, ...]]:
    """Weights as different, and as large, as a device accepts; which key has which does not matter."""
    uneven = [(1,) * (keys - heavy) + (MOST_UNFAIR,) * heavy for heavy in range(keys)]
    return [*uneven, (MOST_WEIGHT,) * keys]


def _accepted(asked: Mechanism, **announced: Iterable[Any]) -> list[Mechanism]:
    """A question under all combinations of what may be announced; what a device refuses is none."""
    forms: list[Mechanism] = []
    for values in product(*announced.values()):
        with suppress(MechanismError, ProtocolError):
            forms.append(replace(asked, **dict(zip(announced, values, strict=True))))
    return forms


def most_telling(asked: Round) -> Mechanism:
    """A round under the broadcast that tells most, for those who attack it from outside."""
    mechanism = asked.mechanism
    if isinstance(mechanism, PrivKVRound | FilledVector) and asked.number > 1:
        return replace(mechanism, fake=(-GRID,) * mechanism.schema.d)
    return mechanism


def worst_loss(rounds: Iterable[Forms], people: Sequence[Pairs]) -> Worst:
    """The largest ratio of the probabilities of everything that a collector sees, for two people.

    Each round is given by all the forms in which it may be asked.
    """
    together: dict[tuple[int, int], list[Worst]] = {}
    known: dict[tuple[Mechanism, ...], dict[tuple[int, int], Worst]] = {}
    for forms in rounds:
        if tuple(forms) not in known:
            known[tuple(forms)] = _worst_by_pair(forms, people)
        for pair, worst in known[tuple(forms)].items():
            together.setdefault(pair, []).append(worst)
    if not together:
        raise PrivacyError("privacy/nothing", "There are no rounds or no people to compare.")
    most = max(together.values(), key=lambda found: prod(one.ratio for one in found))
    return replace(
        most[0],
        ratio=prod((one.ratio for one in most), start=Fraction(1)),
        report=cast(Payload, tuple(_spelled(one.report) for one in most)) if len(most) > 1 else most[0].report,
    )


def _worst_by_pair(forms: Forms, people: Sequence[Pairs]) -> dict[tuple[int, int], Worst]:
    worst: dict[tuple[int, int], Worst] = {}
    for form in forms:
        for word in form.every_word():
            laws = [law(partial(form.respond, pairs, word)) for pairs in people]
            for i, one in enumerate(laws):
                for j, other in enumerate(laws):
                    ratio, report = max(
                        (share / other[report] if other.get(report) else float("inf"), report)
                        for report, share in one.items()
                    )
                    if (i, j) not in worst or ratio > worst[i, j].ratio:
                        worst[i, j] = Worst(ratio, people[i], people[j], report, word)
    return worst


def courses_of(rounds: Sequence[Round]) -> list[list[Round]]:
    """For every part of the people the rounds that they answer."""
    edges = sorted({one.part.start for one in rounds})
    return [[one for one in rounds if one.part.start <= edge < one.part.stop] for edge in edges]


def _refuse_leak(form: Mechanism) -> None:
    """Hold the sampler of a question against its closed form, at the sizes that it has."""
    spent = enumerate_worst(form).ratio
    if spent > form.ratio:
        raise PrivacyError(
            "privacy/closed-form",
            f"The sampler of {form.name} spends {log_ceiling(spent):.9f} at sizes {form.sizes}, "
            f"more than its closed form {log_ceiling(form.ratio):.9f} admits.",
        )


def forms_of(asked: Round, announces: bool) -> Forms:
    """All the ways in which a round may be asked at reduced sizes; nothing is announced before the first."""
    small = asked.mechanism.reduced()
    return announcements(small) if announces and asked.number > 1 else [small]


def people_of(forms: Sequence[Forms]) -> list[Pairs]:
    """Every record that one of the rounds is to be enumerated with."""
    kinds = (form for one in forms for form in one)
    listed = (tuple(tuple(pair) for pair in pairs) for form in kinds for pairs in form.every_record())
    return [list(cast(Pairs, pairs)) for pairs in dict.fromkeys(listed)]


def _admitted(forms: Forms) -> Ratio:
    """What the closed forms of a round at reduced sizes allow."""
    return max(form.worst_ratio if isinstance(form, PrivKVRound) else form.ratio for form in forms)


def _spelled(report: Payload) -> Any:
    return report.hex() if isinstance(report, bytes) else report
