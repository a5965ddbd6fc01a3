"""What somebody wants to see of people, read from a form, and what each ε would show of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from keyveil.campaign.browsers import MECHANISMS
from keyveil.campaign.documents import VERSION
from keyveil.core.canonical import decimal, exact
from keyveil.core.errors import CampaignError, PlanError
from keyveil.core.schema import Schema
from keyveil.dashboard.visits import Fields, first
from keyveil.mechanisms.overflow.beside import with_usual_group
from keyveil.planning.ask import plan
from keyveil.planning.auto import resolve
from keyveil.planning.goals import NAMES

EPSILONS = ("0.25", "0.5", "1", "1.5", "2", "3", "4")
SLOW = ("distribution",)  # goals whose errors are simulated for seconds
OF_SLOW = ("1", "2", "4")
MOST_KEYS = 65_536
LONGEST_KEY = 256

GOALS = {
    name: NAMES[name](None).meaning
    for name in ("both", "frequency", "mean", "top", "rare", "conditional", "distribution")
}


@dataclass(frozen=True)
class Wish:
    """What must be seen, of how many people, about which keys."""

    change: float
    people: int
    schema: Schema
    pairs: float
    goal: str
    browser: bool  # whether browsers may answer, which know fewer mechanisms

    @property
    def told(self) -> dict[str, Any]:
        """As the planner takes it."""
        among = {"mechanisms": MECHANISMS} if self.browser else {}
        return {"users": self.people, "pairs": self.pairs, "goal": self.goal, **among}


@dataclass(frozen=True)
class Offer:
    """What the best mechanism at an ε would show."""

    epsilon: str
    mechanism: str
    change: float
    smallest: float
    planned: int

    @property
    def odds(self) -> float:
        """How much a report changes the odds of anything about its sender at most, rounded up to three digits."""
        ratio = math.exp(float(self.epsilon))
        unit = 10.0 ** (2 - math.floor(math.log10(ratio)))
        return math.ceil(ratio * unit) / unit

    def people_for(self, wish: Wish) -> int:
        """How many people would show the change: errors shrink with the root of their number. To two digits."""
        needed = max(math.ceil(self.planned * (self.change / wish.change) ** 2), 1)
        unit = int(10 ** max(len(str(needed)) - 2, 0))
        return -(-needed // unit) * unit


def read_wish(form: Fields) -> Wish:
    """The wish of a form, refused with the first thing that is wrong."""
    keys = list(dict.fromkeys(line.strip() for line in first(form, "keys").splitlines() if line.strip()))
    if not keys or len(keys) > MOST_KEYS or any(len(key) > LONGEST_KEY for key in keys):
        raise CampaignError("campaign/keys", f"Name 1 to {MOST_KEYS:,} keys, one in each line.")
    change = float(exact(str(_decimal(form, "change", "A change is a number of percentage points.")))) / 100
    if not 0 < change < 1:
        raise PlanError("plan/wish", "A change lies between 0 and 100 percentage points.")
    people = first(form, "people").replace(",", "")
    if not (people.isascii() and people.isdigit() and 1 <= len(people) <= 12 and int(people)):
        raise PlanError("plan/people", "Say how many people will report, as a whole number.")
    pairs = float(exact(str(_decimal(form, "pairs", "Say how many keys a person has on average, as a number."))))
    if not 0 < pairs <= len(keys):
        raise PlanError("plan/pairs", f"A person has more than 0 and at most {len(keys):,} of these keys on average.")
    goal = first(form, "goal", "both")
    if goal not in GOALS:
        raise PlanError("plan/goal", "Choose what you want to know from the list.")
    groups = _listed(form, "groups")
    schema = Schema.from_document({"keys": keys, **_values(form), **({"groups": groups} if groups else {})})
    return Wish(change, int(people), schema, pairs, goal, bool(first(form, "browser")))


def _values(form: Fields) -> dict[str, Any]:
    """The values that there are: single ones where they are listed, otherwise all between the least and the largest."""
    if levels := _listed(form, "levels"):
        return {"levels": [_number(level, "schema/levels", "Single values are numbers.") for level in levels]}
    return {end: _decimal(form, end, "The least and the largest value are numbers.") for end in ("low", "high")}


def _listed(form: Fields, name: str) -> list[str]:
    """What stands between commas or in lines of its own."""
    return [part.strip() for part in first(form, name).replace("\n", ",").split(",") if part.strip()]


def offers(wish: Wish) -> list[Offer]:
    """What each ε would show, by the planner's predictions."""
    found = []
    for epsilon in OF_SLOW if wish.goal in SLOW else EPSILONS:
        best = plan(schema=wish.schema, epsilon=epsilon, **wish.told).best
        found.append(Offer(epsilon, best.name, best.prediction.change, best.prediction.smallest, wish.people))
    return found


def document_of(wish: Wish, form: Fields) -> dict[str, Any]:
    """The document of the campaign, with the mechanism that the planner chooses at the chosen ε."""
    epsilon = first(form, "epsilon")
    if epsilon not in EPSILONS:
        raise CampaignError("campaign/epsilon", "Choose an ε from the list.")
    found = resolve(wish.schema, epsilon, **wish.told)
    least = first(form, "min_reports", "1000")
    if not (least.isascii() and least.isdigit() and 0 < len(least) < 12):
        raise CampaignError("campaign/min_reports", "Say below how many reports nothing is shown, as a whole number.")
    closes = first(form, "closes")
    return {
        "keyveil": VERSION,
        "name": first(form, "name"),
        "purpose": first(form, "purpose"),
        "schema": wish.schema.document(),
        "protocol": {
            "name": found.mechanism.name,
            "epsilon": epsilon,
            **with_usual_group(found.mechanism.name, found.options),
        },
        "rounds": [{**({"closes": closes} if closes else {}), "enough": wish.people}],
        "min_reports": int(least),
        "enrolment": first(form, "enrolment", "none"),
        "contact": first(form, "contact"),
        "reason": found.reason,
        **({"browser": True} if wish.browser else {}),
    }


def _decimal(form: Fields, name: str, sentence: str) -> int | str:
    return _number(first(form, name), "schema/range" if name in ("low", "high") else "plan/wish", sentence)


def _number(text: str, code: str, sentence: str) -> int | str:
    try:
        return decimal(exact(text))
    except ValueError:
        raise CampaignError(code, sentence) from None
