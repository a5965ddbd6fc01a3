"""The certificate of a protocol: what a person loses over all rounds to a collector who announces whatever tells most.

Given what was announced, the answers of one person in different rounds are independent. So the worst that a strategy
can do to a pair of records is the product over rounds of the worst single round for that same pair: it may choose
every announcement after seeing all earlier answers, and the public keys may fall as unluckily as they can. Rounds of
disjoint parts of the people do not multiply.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial, singledispatch
from itertools import product
from math import prod
from typing import Any, cast

from keyveil.core.channels import Ratio
from keyveil.core.epsilon import exp_floor, log_ceiling
from keyveil.core.errors import PrivacyError
from keyveil.core.report import Payload
from keyveil.core.schema import GRID
from keyveil.mechanisms.base import Mechanism, Pairs
from keyveil.mechanisms.keyvalue.adaptive_phase import ValuePhase
from keyveil.mechanisms.keyvalue.filled import FilledVector
from keyveil.mechanisms.keyvalue.privkv_round import PrivKVRound
from keyveil.privacy.certify import Certificate, Worst, certify
from keyveil.privacy.enumerate import law
from keyveil.protocols.base import Protocol, Round

Forms = Sequence[Mechanism]  # all the ways in which a round may be asked


def certificate(protocol: Protocol) -> Certificate:
    """The exact ε of all rounds together, held against the enumeration of them at reduced sizes.

    ``worst.report`` has one report for each round that the person answers, and ``worst.word`` the public word of the
    first of them.
    """
    rounds = protocol.longest()
    ratios = {one.number: worst_ratio(one, protocol.announces) for one in rounds}

    def spent(course: Sequence[Round]) -> Ratio:
        return prod((ratios[one.number] for one in course), start=Fraction(1))

    course = max(_courses(rounds), key=spent)
    forms = [_forms(one, protocol.announces) for one in course]
    for small in {form for forms_of_round in forms for form in forms_of_round}:
        certify(small)  # refuses a sampler that spends more than its closed form admits
    worst = worst_loss(forms, _people(forms))
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
        ratio=spent(course),
        method="closed-form",
        sizes={**rounds[0].mechanism.sizes, "rounds": len(rounds), "answered": len(course)},
        worst=worst,
        worst_sizes={**forms[0][0].sizes, "answered": len(course)},
    )


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
    """A round of few keys under broadcasts of extremes and middles; most rounds tell the same under all of them."""
    return [asked]


@announcements.register
def _fake_means(asked: PrivKVRound) -> list[Mechanism]:
    return [replace(asked, fake=fakes) for fakes in product((-GRID, 0, GRID), repeat=asked.schema.d)]


@announcements.register
def _fillings(asked: FilledVector) -> list[Mechanism]:
    return [replace(asked, fake=(filling,) * asked.schema.d) for filling in (-GRID, 0, GRID)]


@announcements.register
def _weights(asked: ValuePhase) -> list[Mechanism]:
    return [replace(asked, weights=weights, reserve=None) for weights in product((1, 1000), repeat=asked.schema.d)]


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


def _courses(rounds: Sequence[Round]) -> list[list[Round]]:
    """For every part of the people the rounds that they answer."""
    edges = sorted({one.part.start for one in rounds})
    return [[one for one in rounds if one.part.start <= edge < one.part.stop] for edge in edges]


def _forms(asked: Round, announces: bool) -> Forms:
    small = asked.mechanism.reduced()
    return announcements(small) if announces and asked.number > 1 else [small]


def _people(forms: Sequence[Forms]) -> list[Pairs]:
    """Every record that one of the rounds is to be enumerated with."""
    listed = (tuple(tuple(pair) for pair in pairs) for one in forms for pairs in one[0].every_record())
    return [list(cast(Pairs, pairs)) for pairs in dict.fromkeys(listed)]


def _admitted(forms: Forms) -> Ratio:
    """What the closed forms of a round at reduced sizes allow."""
    return max(form.worst_ratio if isinstance(form, PrivKVRound) else form.ratio for form in forms)


def _spelled(report: Payload) -> Any:
    return report.hex() if isinstance(report, bytes) else report
