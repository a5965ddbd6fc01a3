"""What groups of people cost: every key is one of each group, and each group has fewer people to speak for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from keyveil.core.epsilon import read_fraction
from keyveil.core.errors import PlanError
from keyveil.planning.people import People
from keyveil.planning.predict import Prediction, root_mean_square

MOST_GROUPS = 10_000


@dataclass(frozen=True)
class GroupCost:
    """Errors of the frequencies of one group.

    ``se_frequency`` is that of a share of all people, root mean square over the group's keys; ``se_within`` that of a
    share of the group's people, if it is known how many they are; ``times`` how much larger this is than the error of
    the same keys without groups.
    """

    name: str
    share: float
    se_frequency: float
    se_within: float
    times: float

    def document(self) -> dict[str, Any]:
        return dict(vars(self))


def read_shares(given: Any) -> dict[str, float]:
    """Groups and their shares of the people: "de:0.5,fr:0.5", "de,fr" or a number of groups, which are then alike."""
    if isinstance(given, str) and re.fullmatch("[0-9]{1,9}", given.strip()):
        given = int(given)
    if isinstance(given, int) and not isinstance(given, bool):
        if not 2 <= given <= MOST_GROUPS:
            raise PlanError("plan/groups", f"There are from 2 to {MOST_GROUPS:,} groups, not {given}.")
        return {str(number): 1 / given for number in range(given)}
    entries = [one.strip() for one in given.split(",")] if isinstance(given, str) else list(given)
    if isinstance(given, Mapping):
        entries = [f"{name}:{share}" for name, share in given.items()]
    parts = [(name.strip(), share.strip()) for name, _, share in (str(one).partition(":") for one in entries)]
    names = [name for name, _ in parts]
    if len(names) < 2 or len(set(names)) < len(names) or not all(names):
        raise PlanError("plan/groups", f"Groups are written like de:0.6,fr:0.4 or de,fr, not {given!r}.")
    if not any(share for _, share in parts):
        return dict.fromkeys(names, 1 / len(names))
    try:
        shares = [float(read_fraction(share)) for _, share in parts]
    except (TypeError, ValueError, ZeroDivisionError):
        raise PlanError("plan/groups", f"Every group has a share of the people, or none has; not {given!r}.") from None
    if min(shares) <= 0 or abs(sum(shares) - 1) > 0.01:
        raise PlanError("plan/groups", f"Shares of groups are above 0 and add up to 1, not to {sum(shares):g}.")
    return {name: share / sum(shares) for name, share in zip(names, shares, strict=True)}


def with_groups(people: People, shares: Mapping[str, float]) -> People:
    """The same people, each in one group and with keys of that group only; a sample of them is not looked at."""
    own = np.array(list(shares.values()))
    return replace(
        people,
        frequency=np.outer(own, people.frequency).ravel(),
        mean=np.tile(people.mean, len(own)),
        about=f"{people.about.rstrip('.')}; every key is one of {len(own):,} groups.",
        sample=None,
        values=None,
    )


def without_groups(people: People, count: int) -> People:
    """The people of ``count`` groups as if there were none."""
    frequency = people.frequency.reshape(count, -1)
    total = frequency.sum(axis=0)
    weighted = (frequency * people.mean.reshape(count, -1)).sum(axis=0)
    mean = np.divide(weighted, total, out=np.zeros_like(total), where=total > 0)
    return replace(people, frequency=np.minimum(total, 1.0), mean=mean, sample=None, values=None)


def group_costs(shares: Mapping[str, float], grouped: Prediction, plain: Prediction) -> tuple[GroupCost, ...]:
    """What each group costs, from a prediction for all products of groups and keys and one without groups."""
    errors = grouped.frequency_error.reshape(len(shares), -1)
    usual = root_mean_square(plain.frequency_error)
    rows = []
    for (name, share), own in zip(shares.items(), errors, strict=True):
        error = root_mean_square(own)
        rows.append(GroupCost(name, share, error, error / share, error / share / usual))
    return tuple(rows)


def shares_of(people: People, names: tuple[str, ...]) -> dict[str, float]:
    """Shares of the people by group, in proportion to the pairs that they hold."""
    held = people.frequency.reshape(len(names), -1).sum(axis=1)
    total = max(float(held.sum()), 1e-12)
    return {name: max(float(one) / total, 1e-12) for name, one in zip(names, held, strict=True)}
