"""The certificate of a protocol: what a person loses over all rounds, whatever the collector announces between them.

Given what was announced, the answers of one person in different rounds are independent. So the worst that a strategy
can do to a pair of records is the product over rounds of the worst single round for that same pair: it may choose
every announcement after seeing all earlier answers, and for the public words that suit it best. Rounds of disjoint
parts of the people do not multiply, but each of them must keep what it says.

What may be announced to a round, and the worst ratio then, its mechanism declares (``capabilities.Announced``). A later
round whose mechanism says nothing has no certificate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import prod
from typing import Any, cast

from keyveil.core.channels import Ratio
from keyveil.core.epsilon import log_ceiling
from keyveil.core.errors import PrivacyError
from keyveil.core.report import Payload
from keyveil.mechanisms.base import Mechanism, Pairs
from keyveil.mechanisms.capabilities import Announced, can
from keyveil.privacy.certify import Certificate, Worst, enumerate_worst
from keyveil.privacy.enumerate import law, over_one_total
from keyveil.protocols.base import Protocol, Round
from keyveil.protocols.declarations import declared_announcements

Forms = Sequence[Mechanism]  # a round under all announcements that matter


def certificate(protocol: Protocol) -> Certificate:
    """The exact ε of all rounds together, held against the enumeration of them at reduced sizes.

    ``worst.report`` has one report for each round that the person answers, and ``worst.word`` the public word of the
    first of them.
    """
    rounds, ratios = protocol.longest(), declared_ratios(protocol)
    every = {
        one.number: [form for kind in kinds_of(protocol, one) for form in forms_of(kind, protocol.announces)]
        for one in rounds
    }
    for form in dict.fromkeys(form for forms_of_round in every.values() for form in forms_of_round):
        _refuse_leak(form)
    course = max(courses_of(rounds), key=lambda one: _product(one, ratios))
    forms = [every[one.number] for one in course]
    worst = worst_loss(forms, people_of(forms))
    admitted = prod(max(form.ratio for form in forms_of_round) for forms_of_round in forms)
    if worst.ratio > admitted:
        raise PrivacyError(
            "privacy/closed-form",
            f"All rounds of {protocol.name} together spend {log_ceiling(worst.ratio):.9f} at reduced sizes, "
            f"more than their closed forms {log_ceiling(admitted):.9f} admit.",
        )
    return Certificate(
        mechanism=protocol.name,
        requested_epsilon=protocol.epsilon,
        ratio=_product(course, ratios),
        method="closed-form",
        sizes={**rounds[0].mechanism.sizes, "rounds": len(rounds), "answered": len(course)},
        worst=worst,
        worst_sizes={**forms[0][0].sizes, "answered": len(course)},
    )


def protocol_ratio(protocol: Protocol) -> Ratio:
    """Closed form: the largest ratio of the probabilities of all that one person sends, over the longest course."""
    return _largest(protocol.course, declared_ratios(protocol))


def course_ratio(rounds: Sequence[Round], announces: bool = True) -> Ratio:
    """The same for rounds that took place, whatever is announced between them.

    Rounds of different parts of the people do not multiply.
    """
    return _largest(rounds, {one.number: worst_ratio(one, announces) for one in rounds})


def declared_ratios(protocol: Protocol) -> dict[int, Ratio]:
    """By the number of a declared round the largest ratio that one of its kinds can have."""
    return {
        one.number: max(worst_ratio(kind, protocol.announces) for kind in kinds_of(protocol, one))
        for one in protocol.course
    }


def _largest(rounds: Sequence[Round], ratios: Mapping[int, Ratio]) -> Ratio:
    return max((_product(course, ratios) for course in courses_of(rounds)), default=Fraction(1))


def _product(course: Sequence[Round], ratios: Mapping[int, Ratio]) -> Ratio:
    return prod((ratios[one.number] for one in course), start=Fraction(1))


def kinds_of(protocol: Protocol, current: Round) -> list[Round]:
    """A declared round with every mechanism that the protocol declares for it."""
    return [replace(current, mechanism=kind) for kind in protocol.kinds(current.number)]


def worst_ratio(current: Round, announces: bool = True) -> Ratio:
    """The largest ratio of the probabilities of a round's reports for two records, whatever is announced before it.

    Nothing is announced before the first round, nor between the rounds of a protocol that ``announces`` nothing.
    """
    if current.number == 1 or not announces:
        return current.mechanism.ratio
    return declared_announcements(current.mechanism).announced_ratio()


def forms_of(current: Round, announces: bool) -> Forms:
    """A round's mechanism at reduced sizes, under every announcement that matters.

    Refused if one of these forms has a larger ratio than the mechanism declares for the worst announcement.
    """
    small = current.mechanism.reduced()
    if current.number == 1 or not announces:
        return [small]
    declared = declared_announcements(small)
    forms, most = list(declared.announced_forms()) or [small], declared.announced_ratio()
    for form in forms:
        if form.ratio > most:
            raise PrivacyError(
                "privacy/closed-form",
                f"{form.name} spends {log_ceiling(form.ratio):.9f} under an announcement, "
                f"more than the {log_ceiling(most):.9f} that it declares for the worst one.",
            )
    return forms


def most_telling(current: Round) -> Mechanism:
    """A round's mechanism at its full size, under the announcement whose reports tell most: what an audit attacks."""
    declared = can(current.mechanism, Announced)
    return current.mechanism if current.number == 1 or declared is None else declared.worst_announced()


def worst_loss(rounds: Iterable[Forms], people: Sequence[Pairs]) -> Worst:
    """The largest ratio of the probabilities of everything that a collector sees, for two of the ``people``.

    Each round is given by all of its forms; for each pair of people the worst form of every round counts.
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
    likely, unlikely = (prod((one.chances[side] for one in most), start=Fraction(1)) for side in (0, 1))
    return replace(
        most[0],
        ratio=prod((one.ratio for one in most), start=Fraction(1)),
        chances=(likely, unlikely),
        report=cast(Payload, tuple(_spelled(one.report) for one in most)) if len(most) > 1 else most[0].report,
    )


def _worst_by_pair(forms: Forms, people: Sequence[Pairs]) -> dict[tuple[int, int], Worst]:
    worst: dict[tuple[int, int], Worst] = {}
    for form in forms:
        for word in form.every_word():
            laws, total = over_one_total([law(partial(form.respond, pairs, word)) for pairs in people])
            for i, one in enumerate(laws):
                for j, other in enumerate(laws):
                    ratio, report = _worst_report(one, other)
                    if (i, j) not in worst or ratio > worst[i, j].ratio:
                        chances = Fraction(one.get(report, 0), total), Fraction(other.get(report, 0), total)
                        worst[i, j] = Worst(ratio, people[i], people[j], report, word, chances)
    return worst


def _worst_report(one: Mapping[Payload, int], other: Mapping[Payload, int]) -> tuple[Ratio, Payload]:
    """The largest ratio of the weights of a report in two laws, and the last report that has it.

    Ratios are compared crosswise, as whole numbers; one over zero stands for infinity.
    """
    high, low, worst = 0, 1, None  # type: int, int, Payload | None
    for report, weight in one.items():
        against = other.get(report, 0)
        gap = weight * low - high * against
        if worst is None or gap > 0 or (gap == 0 and report > worst):  # type: ignore[operator]
            high, low, worst = weight, against, report
    assert worst is not None
    return float("inf") if low == 0 else Fraction(high, low), worst


def courses_of(rounds: Sequence[Round]) -> list[list[Round]]:
    """The rounds that each part of the people answers."""
    edges = sorted({one.part.start for one in rounds})
    return [[one for one in rounds if one.part.start <= edge < one.part.stop] for edge in edges]


def _refuse_leak(form: Mechanism) -> None:
    """Refuse a mechanism whose sampler, enumerated at the sizes that it has, exceeds its closed form."""
    spent = enumerate_worst(form).ratio
    if spent > form.ratio:
        raise PrivacyError(
            "privacy/closed-form",
            f"The sampler of {form.name} spends {log_ceiling(spent):.9f} at sizes {form.sizes}, "
            f"more than its closed form {log_ceiling(form.ratio):.9f} admits.",
        )


def people_of(forms: Sequence[Forms]) -> list[Pairs]:
    """Every record that one of the forms is to be enumerated with, each once."""
    kinds = (form for one in forms for form in one)
    listed = (tuple(tuple(pair) for pair in pairs) for form in kinds for pairs in form.every_record())
    return [list(cast(Pairs, pairs)) for pairs in dict.fromkeys(listed)]


def _spelled(report: Payload) -> Any:
    return report.hex() if isinstance(report, bytes) else report
