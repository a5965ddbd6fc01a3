"""Which mechanisms are considered for a goal, and in which forms: options that follow from the people and the goal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache
from typing import Any

from keyveil.core.errors import KeyveilError
from keyveil.core.schema import Schema
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import Capped, LearnsSizes, need
from keyveil.mechanisms.construction import form_of
from keyveil.mechanisms.options import option_names
from keyveil.mechanisms.overflow.beside import with_usual_group
from keyveil.mechanisms.registry import build, find_mechanism, mechanism_names
from keyveil.planning.goals import Goal
from keyveil.planning.people import People
from keyveil.protocols.weights import fair_weights

USUAL_CAP = 0.9  # share of the people within the cap, as simulations choose it
CAPS = (0.5, 0.75, USUAL_CAP, 0.97, 1.0)
"""Shares of the people within the caps that are tried for the mechanisms that are best with the usual one. Smaller caps
hide much to save some noise. But noise can be shrunk afterwards and what is hidden cannot be found again, so caps stop
at half of the people (docs/decisions/0100-errors-as-shown.md)."""
ALL_CAPS = (0.001, 0.05, 0.25, *CAPS)
"""The same where errors count after shrinkage, which foretell what a cap hides and what is left of the noise; and where
nothing is learnt about single keys anyhow (docs/decisions/0172-where-a-guess-is-better.md)."""
FAIR = 0.5  # exponent of weights for rare keys (docs/fairness.md)
STATES, WIDTHS = (3, 4, 5), (1, 2, 3, 4)
BINS = 4  # of a distribution
PRESENCE = {"frequency": ("0.95",), "mean": ("0.25", "0.4"), "both": ("0.4", "0.6")}
"""By what a goal is tuned for, shares of the people who tell keys that are tried beside the usual half."""
DENSE = 0.05  # share of all keys that people hold on average from which on states and widths of blocks are tried

JOINT = ("moments", "marginals", "ioh")
"""Mechanisms about several keys at once: they are considered for conditionals only, as they pay for these."""
BASELINES = ("krr-harmony", "shist-harmony", "rappor-meanest")
"""Published combinations that are kept for comparisons; their means are biased and have no closed form of errors."""
_KEPT = ("mode", "presence", "bins", "weights")  # options of a form that another cap leaves as they are
SPLITS = ("split",)  # made of others, where several goals need it


def considered(goal: Goal) -> tuple[str, ...]:
    """The names of the mechanisms that a plan considers for a goal, unless it is told which."""
    return tuple(
        name
        for name in mechanism_names()
        if find_mechanism(name).takes == "every set"
        and name not in SPLITS
        and (name not in JOINT or goal.name == "conditional")
        and (name not in BASELINES)
    )


def forms(
    name: str, schema: Schema, epsilon: Fraction, people: People, goal: Goal, within: float = USUAL_CAP
) -> Iterator[Mechanism]:
    """A mechanism in the forms that suit people and goal, with the cap that a share ``within`` of the people keep to.

    As a campaign would collect it: with the usual overflow group beside a cap. Forms that cannot be made are left out;
    if none can, the reason is raised.
    """
    refused: KeyveilError | None = None
    made = 0
    for options in _options(name, people, goal, people.cap_for(within)):
        try:
            mechanism = _built(name, schema, epsilon, tuple(options.items()))
        except KeyveilError as reason:
            refused = refused or reason
            continue
        made += 1
        yield mechanism
    if not made and refused is not None:
        raise refused


def with_other_caps(
    made: Mechanism, people: People, goal: Goal, shares: Sequence[float] = CAPS
) -> tuple[Iterator[Mechanism], Iterator[Mechanism]]:
    """The same form of a capped mechanism with smaller and smaller caps, and with larger and larger ones.

    The caps are those that these shares of the people keep to.
    """
    own = {option: made.options[option] for option in _KEPT if made.options.get(option) is not None}
    kept = {option: tuple(value) if isinstance(value, list) else value for option, value in own.items()}
    form, usual = form_of(find_mechanism(made.name), kept), need(made, Capped).cap()
    caps = sorted({people.cap_for(share) for share in shares})

    def with_caps(some: list[int]) -> Iterator[Mechanism]:
        for cap in some:
            options = {**kept, **_suited(form, people, goal, cap)}
            with suppress(KeyveilError):  # a cap that the mechanism does not take is no choice
                yield _built(made.name, made.schema, made.epsilon, tuple(options.items()))

    return with_caps([cap for cap in reversed(caps) if cap < usual]), with_caps([cap for cap in caps if cap > usual])


@lru_cache(maxsize=256)
def _built(name: str, schema: Schema, epsilon: Fraction, options: tuple[tuple[str, Any], ...]) -> Mechanism:
    """A mechanism with the usual overflow group; kept, because a plan for other people makes most of them again."""
    mechanism = build(name, schema, epsilon, with_usual_group(name, dict(options)))
    assert isinstance(mechanism, Mechanism)
    return mechanism


def _options(name: str, people: People, goal: Goal, cap: int) -> Iterator[dict[str, Any]]:
    kind = find_mechanism(name)
    for mode in dict.fromkeys(example.get("mode") for example in kind.examples):
        chosen: dict[str, Any] = {} if mode is None else {"mode": mode}
        with suppress(KeyveilError):
            form = form_of(kind, chosen)
            yield from _variants({**chosen, **_suited(form, people, goal, cap)}, form, people, goal)


def _suited(form: type[Mechanism], people: People, goal: Goal, cap: int) -> dict[str, Any]:
    """The options that follow from what is known of the people."""
    known = option_names(form)
    options: dict[str, Any] = {}
    if "max_pairs" in known and issubclass(form, Capped):
        options["max_pairs"] = cap
    if issubclass(form, LearnsSizes):
        options |= form.options_for_sizes(people.law, cap, people.d)
    if "goal" in known:
        options["goal"] = goal.tuned
    if "typical" in known:
        options["typical"] = f"{min(max(people.typical, 0.01), 1.0):.2f}"
    if "expected" in known:
        options["expected"] = _about(people.n)
    if goal.name == "conditional":
        options |= {option: goal.size for option in ("order", "size") if option in known}
    return options


def _about(n: int) -> int:
    """A number of people to two digits: an expectation is no more exact, and plans for nearby numbers are alike."""
    unit = int(10 ** max(len(str(n)) - 2, 0))
    return max(round(n / unit), 1) * unit


def _variants(options: dict[str, Any], form: type[Mechanism], people: People, goal: Goal) -> Iterator[dict[str, Any]]:
    """The same with what can only be tried: states and widths of blocks, cells of values, weights for rare keys."""
    known = option_names(form)
    if goal.name == "distribution":
        yield {**options, "bins": BINS} if "bins" in known else options
        return
    yield options
    if {"states", "width"} <= set(known) and people.pairs >= DENSE * people.d:
        widths = [width for width in WIDTHS if width <= people.d]
        yield from ({**options, "states": states, "width": width} for states in STATES for width in widths)
    if "presence" in known:
        yield from ({**options, "presence": share} for share in PRESENCE[goal.tuned])
    if "weights" in known and goal.name == "fairness":
        yield {**options, "weights": fair_weights(people.frequency, 1 / people.n**0.5, FAIR)}
