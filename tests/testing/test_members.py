"""Whatever a foreign class overrides, a member that fails or gives nothing is named, and not one that needed it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from inspect import getattr_static
from typing import Any

import numpy as np
import pytest

from keyveil.core.errors import ContractError
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.counting import Counting
from keyveil.mechanisms.keyvalue.kvue import KVUE
from keyveil.testing import check_mechanism

OPTIONS = {"schema", "epsilon"}
LATER = {"perturb"}  # the whole contract shows it: test_broken.LatePublic
NAMED = {"validate": "__init__"}  # it is called while one is made
VALUES = {"name", "exhaustive", "takes", "examples", "readings", "unit_counts", "unsaid"}
ALL = {name for kind in (Counting, Mechanism) for name in vars(kind)}
MEMBERS = sorted(name for name in ALL if not name.startswith("_") and name not in OPTIONS | LATER)


def fails(*given: Any, **options: Any) -> Any:
    raise ZeroDivisionError("division by zero")


def gives_nothing(*given: Any, **options: Any) -> Any:
    return None


NOTHING = {
    ("validate", gives_nothing),  # nothing to refuse is what it usually finds
    ("public_cells", gives_nothing),  # then reports are counted by ``fold``
}


def overriding(member: str, act: Callable[..., Any]) -> Any:
    """KVUE with another member of this name, of the kind that it has there."""
    there = getattr_static(KVUE, member)
    mine: Any = act
    if isinstance(there, property | cached_property):
        mine = property(act)
    elif isinstance(there, classmethod):
        mine = classmethod(act)
    return of_kvue({member: mine})


def of_kvue(members: dict[str, Any]) -> Any:
    return dataclass(frozen=True)(type("Foreign", (KVUE,), {"name": "foreign", "__annotations__": {}, **members}))


def refused(cls: Any) -> ContractError:
    with pytest.raises(ContractError) as found:
        check_mechanism(cls, epsilons=[1])
    assert found.value.sentence.endswith(".") and "\n" not in found.value.sentence
    return found.value


@pytest.mark.parametrize("act", [fails, gives_nothing])
@pytest.mark.parametrize("member", [name for name in MEMBERS if name not in VALUES])
def test_a_member_that_fails_or_gives_nothing_is_named(member: str, act: Callable[..., Any]) -> None:
    if (member, act) in NOTHING:
        return
    assert refused(overriding(member, act)).member == NAMED.get(member, member)


@pytest.mark.parametrize("member", sorted(VALUES))
def test_a_value_that_is_none_is_named(member: str) -> None:
    assert refused(of_kvue({member: None})).member == member


@pytest.mark.parametrize(
    ("member", "wrong"),
    [
        ("estimated", property(lambda one: frozenset({"frequency"}))),  # it gives means, too
        ("estimated", property(lambda one: frozenset({"frequency", "mean", "median"}))),
        ("words", lambda one, publics: np.zeros(len(publics), np.uint64)),
        ("word", lambda one, public: -1),
        ("decode", lambda one, data, public: one.perturb_pairs([], one, public)),
        ("read", lambda one, record: [(one.schema.d - 1, 0)]),
        ("title", 3),
        ("examples", ()),
        ("examples", ({}, 4)),
    ],
    ids=lambda given: given if isinstance(given, str) else type(given).__name__,
)
def test_a_member_that_gives_something_else_is_named(member: str, wrong: Any) -> None:
    assert refused(of_kvue({member: wrong})).member == member
