"""Words for states, counts and refusals, in one place for all pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from keyveil.display.markup import Child, Html, tag

STATES = {
    "draft": "written, and not asked yet",
    "open": "people are being asked",
    "closed": "nobody is asked any more",
    "estimated": "over, and all reports are counted",
    "archived": "over; only results and counts are kept",
}
ROUNDS = {  # of a round: what people call its state
    "waiting": "not open yet",
    "open": "open",
    "closed": "being counted",
    "folded": "counted",
}
DONE = {  # what has just been done, by the word that the address has
    "create": "The campaign is written down as a draft. Nobody is asked before it is opened.",
    "open": "The campaign is open: devices that ask for it are answered from now on.",
    "close": "The round is closed. What waits is being counted.",
    "stop": "The campaign is stopped. No further round follows.",
    "archive": "The campaign is archived: only results and counts are kept.",
    "next": "The next campaign of the series is written down as a draft.",
}
REASONS = {  # why reports are refused, by code
    "enrolment/needed": "without an enrolment token",
    "enrolment/unknown": "with an unknown enrolment token",
    "enrolment/used": "by a token that had reported already",
    "enrolment/revoked": "by a revoked token",
    "queue/full": "told to come back later",
    "report/document": "made for another round",
    "report/malformed": "not a report of this campaign",
    "report/conflict": "one id with two contents",
    "report/set-aside": "could not be counted",
    "round/closed": "too late",
    "round/waiting": "too early",
}


def state_of(state: str) -> Html:
    """The state of a campaign as a badge that says what it means."""
    return tag("span", state, class_=f"badge {state}", title=STATES.get(state, ""))


def what_state_means(state: str, rounds: Sequence[tuple[str, int]]) -> str:
    """The state of a campaign in words; ``rounds`` are their states with the reports that were counted."""
    if state != "closed":
        return STATES.get(state, "")
    over = all(one == "folded" for one, _ in rounds)
    return "over, with too few reports to show anything" if over else "over; the last reports are being counted"


def refusals_in_words(refused: Mapping[str, int]) -> Child:
    """How many reports were refused, by reason."""
    if not refused:
        return "none"
    return tag(
        "ul",
        [
            tag("li", f"{number:,} ", tag("span", REASONS.get(code, code), title=code))
            for code, number in sorted(refused.items(), key=lambda one: -one[1])
        ],
        class_="bare",
    )
