"""What the author of a campaign should know before anybody is asked: errors to expect, and what looks unwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from fractions import Fraction

from keyveil.campaign.browsers import MECHANISMS, answered_in_browsers
from keyveil.campaign.documents import Campaign
from keyveil.core.epsilon import decimal_text, read_fraction
from keyveil.core.text import many
from keyveil.device import Caps
from keyveil.mechanisms.capabilities import Capped, can
from keyveil.mechanisms.overflow.beside import OPTION, USUAL_SHARE
from keyveil.planning.ask import planned_people
from keyveil.planning.auto import planned_for
from keyveil.planning.forecast import MOST_INVENTED, Forecast, forecast, has_closed_form
from keyveil.planning.predict import Prediction

USUAL_PEOPLE = 10_000  # where the campaign does not say how many are enough
MOST_EPSILON = 8  # beyond it a report says more about its sender than anybody should promise


@dataclass(frozen=True)
class Warning:
    """Something that is allowed and probably not meant."""

    code: str
    sentence: str


def enough_people(campaign: Campaign) -> int | None:
    """The largest number of reports that a round of the campaign waits for."""
    return max((window.enough for window in campaign.rounds if window.enough is not None), default=None)


def expected_people(campaign: Campaign, people: int | None) -> int:
    """How many people errors are forecast for: those given, as many as are waited for, or were planned for."""
    planned = planned_for(campaign.reason)
    return people or enough_people(campaign) or (planned[0] if planned else 0) or USUAL_PEOPLE


def invented_people(campaign: Campaign, people: int | None) -> int:
    """How many of them are simulated: nobody where errors have a closed form."""
    return 0 if has_closed_form(campaign.protocol) else min(expected_people(campaign, people), MOST_INVENTED)


def forecast_campaign(
    campaign: Campaign,
    people: int | None,
    progress: Callable[[int], None],
    pairs: float | None = None,
    sample: str | None = None,
    shares: str | None = None,
) -> Forecast:
    """The errors to expect of the campaign, from people as the author describes or described them, or invented ones.

    ``progress`` hears how many simulated people have answered.
    """
    planned = planned_for(campaign.reason)
    if pairs is None and sample is None and shares is None:
        pairs = planned[1] if planned and planned[1] <= campaign.schema.d else None
    if pairs is None and sample is None and shares is None:
        return forecast(campaign.protocol, expected_people(campaign, people), progress)
    known = expected_people(campaign, people) if sample is None or people is not None else None
    described = planned_people(known, None, pairs, sample, campaign.schema, frequency=shares)[1]
    return forecast(campaign.protocol, described.n, progress, described)


def prediction_said(told: Prediction) -> str:
    """A prediction in words."""
    numbers = told.document()
    means = "" if numbers["se_mean"] is None else f", of means {numbers['se_mean']:.3g} of half their range (median)"
    bias = f" and a bias of {numbers['bias_frequency']:.2g} by the cap" if numbers["bias_frequency"] > 0 else ""
    return (
        f"Frequencies will have a standard error of {numbers['se_frequency']:.3g}"
        f"{bias}{means}. A key is told from absent from a frequency of {told.smallest:.3g} on, and a change between "
        f"two such campaigns is seen from {told.change:.3g} on."
    )


def hidden_caps(campaign: Campaign) -> list[int]:
    """Caps of rounds that may hide pairs without anybody knowing how many; none where a group or a pilot tells it."""
    protocol = campaign.protocol
    found_out = "max_pairs" in protocol.finds_out and protocol.parameters.get("max_pairs") is None
    if OPTION in protocol.parameters or found_out:
        return []
    return [hidden.cap for one in protocol.course if (hidden := one.mechanism.header(0).undercount) is not None]


def overflow_group(campaign: Campaign) -> str | None:
    """What the overflow group of a campaign is asked, gives and costs, in a sentence; nothing if there is none."""
    parameters, rounds = campaign.protocol.parameters, campaign.protocol.course
    if parameters.get(OPTION) is None:
        return None
    share, cap = read_fraction(parameters[OPTION]), parameters.get("max_pairs")
    if cap is None:  # found out by an earlier round
        cap = min(capped.cap() for one in rounds if (capped := can(one.mechanism, Capped)))
    larger = 100 * (float(1 - share) ** -0.5 - 1)
    return (
        f"{decimal_text(100 * share)} of 100 people are asked how far they exceed {many(cap, 'pair')} instead "
        f"of which they hold. Standard errors are {larger:.1f} % larger for that, and results say how much the cap "
        "hides, or correct it."
    )


def warnings(campaign: Campaign, today: date, found: Forecast | None = None) -> list[Warning]:
    """What is allowed and probably not meant."""
    enough, last, listed = enough_people(campaign), campaign.rounds[-1], []

    def warn(unwise: bool, code: str, sentence: str) -> None:
        if unwise:
            listed.append(Warning(f"unwise/{code}", sentence))

    warn(
        enough is not None and campaign.min_reports > enough,
        "min-reports",
        f"Rounds close at {enough} reports, but nothing is shown below {campaign.min_reports}.",
    )
    warn(last.closes is None and last.enough is None, "endless", "The last round closes only when somebody closes it.")
    for number, window in enumerate(campaign.rounds, start=1):
        over = window.closes is not None and window.closes < today
        warn(over, "over", f"Round {number} closes on {window.closes}, which is over.")
    epsilon = campaign.protocol.epsilon
    warn(epsilon > MOST_EPSILON, "epsilon", f"An epsilon of {decimal_text(epsilon)} hides hardly anything.")
    usual = Fraction(Caps().schema_period)
    warn(
        epsilon > usual,
        "caps",
        f"Devices answer only if their owner has raised the cap: it is {decimal_text(usual)} in {Caps().days} days, "
        f"and {decimal_text(epsilon)} is asked.",
    )
    warn(not campaign.contact, "contact", "Nobody is named whom people can ask.")
    warn(
        campaign.enrolment == "none",
        "enrolment",
        "Anybody can send any number of reports; enrolment by token bounds that.",
    )
    warn(
        campaign.browser and not answered_in_browsers(campaign.protocol_name),
        "browser",
        f"Devices in browsers have no program of {campaign.protocol_name}: they will answer nothing. They know "
        f"{', '.join(MECHANISMS)}.",
    )
    unseen = hidden_caps(campaign)
    warn(
        bool(unseen),
        "overflow",
        f"At most {min(unseen, default=0)} pairs of a person count, and nobody is asked how far people exceed that: "
        f"overflow={decimal_text(USUAL_SHARE)} asks {round(100 * USUAL_SHARE)} of 100.",
    )
    if found is not None:
        planned = len(found.rounds)
        warn(
            planned > len(campaign.rounds),
            "rounds",
            f"The protocol asks {planned} rounds; those after round {len(campaign.rounds)} have no dates.",
        )
        warn(
            found.frequency is not None and found.frequency[0] > 0.1,
            "noise",
            "Half of the frequencies are off by more than 0.1: ask more people, fewer keys, or a larger epsilon.",
        )
    return listed
