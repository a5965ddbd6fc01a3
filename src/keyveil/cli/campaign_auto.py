"""The mechanism of a new campaign, where nobody names one: chosen for the people who are expected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from keyveil.campaign.browsers import MECHANISMS
from keyveil.cli.campaign_files import schema_document
from keyveil.cli.data import say, working
from keyveil.core.errors import CampaignError
from keyveil.core.schema import Schema
from keyveil.planning.auto import AUTO, resolve

WITH_OPTIONS = "ssr"  # whose options are meant where options are given and no name


@dataclass(frozen=True)
class Expected:
    """What the author of a campaign says of the people and of what is wanted."""

    people: int | None = None
    pairs: float | None = None
    sample: str | None = None
    goal: str | None = None
    typical: str | None = None
    bits: float | None = None
    shares: str | None = None
    rounds: int | None = None
    browser: bool = False

    @property
    def told(self) -> dict[str, Any]:
        """As ``auto`` takes it; what was not said is left out."""
        names = {"people": "users", "shares": "frequency"}
        said = {name: value for name, value in vars(self).items() if value is not None and name != "browser"}
        return {names.get(name, name): value for name, value in said.items()}


def chosen(
    mechanism: str | None,
    options: Mapping[str, str | int],
    epsilon: str,
    expected: Expected,
    keys: str | None,
    low: str | None,
    high: str | None,
    levels: str | None,
    hierarchy: bool = False,
    groups: str | None = None,
) -> tuple[str, Mapping[str, Any], str]:
    """Name, options and reason of a campaign's mechanism; a name that is given stays, and has no reason."""
    if mechanism is None and options and not expected.told:
        return WITH_OPTIONS, options, ""
    if mechanism not in (None, AUTO):
        if expected.told:
            raise CampaignError(
                "campaign/auto",
                f"What is expected of people chooses a mechanism; leave it out, or leave out --mechanism {mechanism}.",
            )
        return str(mechanism), options, ""
    if options:
        raise CampaignError(
            "campaign/auto",
            f"auto chooses {' and '.join(sorted(options))} itself: leave --set and --max-pairs out, or name a "
            "mechanism.",
        )
    if hierarchy:
        raise CampaignError(
            "campaign/auto", "auto does not plan for keys in a hierarchy: leave --hierarchy out, or name a mechanism."
        )
    schema = Schema.from_document(schema_document(keys, low, high, levels, groups=groups))
    described = expected.pairs is not None or expected.shares is not None
    if expected.sample is None and (expected.people is None or not described):
        raise CampaignError(
            "campaign/people",
            "Say how many people will report and how many pairs they hold on average (--people 20000 --pairs 3), or "
            "give people like them (--sample FILE), and the mechanism is chosen for them; or name a --mechanism.",
        )
    with working("Choosing a mechanism"):
        among = {"mechanisms": MECHANISMS} if expected.browser else {}
        found = resolve(schema, epsilon, **expected.told, **among)
    say(f"Chosen: {found.reason}")
    return found.mechanism.name, found.options, found.reason
