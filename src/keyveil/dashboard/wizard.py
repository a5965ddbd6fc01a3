"""A new campaign in three steps: what must be seen, then at what ε, then what it says; nobody is asked before it opens.

The planner's predictions decide: the first question is which change must be visible, and ε follows from it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from fractions import Fraction

from starlette.responses import Response

from keyveil.advice.campaigns import forecast_campaign, warnings
from keyveil.campaign.answerable import refuse_refused
from keyveil.campaign.dictionaries import parted
from keyveil.campaign.documents import Campaign, Fetch
from keyveil.collector.access import refuse_elsewhere
from keyveil.core.clock import today
from keyveil.core.epsilon import decimal_text
from keyveil.core.errors import AccessError, CampaignError, KeyveilError
from keyveil.dashboard.code import code
from keyveil.dashboard.layout import choice, facts, field, form, numbers, page, redirect, table
from keyveil.dashboard.refusals import explained
from keyveil.dashboard.visits import Visit
from keyveil.dashboard.wishes import GOALS, Offer, Wish, document_of, offers, read_wish
from keyveil.device import Caps
from keyveil.display.markup import Child, Html, tag, together
from keyveil.mechanisms.questions import ASKABLE, who_answers

STEPS = ("What must be seen", "At what price", "Check and create")
KEPT = ("change", "people", "keys", "pairs", "low", "high", "levels", "groups", "goal", "browser")  # of the first step
DETAILS = ("epsilon", "name", "purpose", "contact", "closes", "min_reports", "enrolment")  # of the second
PLACES = {
    "": "in apps and programs, which remember their answers",
    "true": "also in browsers, which may forget them",
}
MOST_TOLD = 2000  # people for whom errors are tried before anybody is asked


def show_wizard(visit: Visit) -> Response:
    """The first step."""
    return page(visit, "New campaign", _steps(0), _wishes(visit, {}))


def step(visit: Visit) -> Response:
    """The next step, or the same one with what was wrong; what was typed is kept, also on the way back."""
    stage, given = visit.given("stage"), {name: visit.given(name) for name in (*KEPT, *DETAILS)}
    if visit.given("back"):
        return page(visit, "New campaign", _steps(0), _wishes(visit, given))
    try:
        if stage == "create":
            return _create(visit)
        wish = read_wish(visit.form)
        if stage == "check":
            return _check(visit, wish)
        return page(visit, "New campaign", _steps(1), _prices(visit, wish))
    except AccessError:
        raise
    except KeyveilError as refused:
        body = (_steps(0), explained(refused), _wishes(visit, given))
        return page(visit, "New campaign", *body, status=422)


def _check(visit: Visit, wish: Wish) -> Response:
    """The third step, or the second one again."""
    try:
        body = _checked(visit, wish)
    except AccessError:
        raise
    except KeyveilError as refused:
        return page(visit, "New campaign", _steps(1), explained(refused), _prices(visit, wish), status=422)
    return page(visit, "New campaign", _steps(2), body)


def _hidden(names: Sequence[str], given: Mapping[str, str]) -> list[Html]:
    return [tag("input", type="hidden", name=name, value=given.get(name, "")) for name in names]


def _steps(at: int) -> Html:
    return tag(
        "ol",
        [tag("li", word, aria_current="step" if place == at else None) for place, word in enumerate(STEPS)],
        class_="steps",
    )


# -- first: what must be seen -----------------------------------------------------------------------------------------


def _wishes(visit: Visit, given: Mapping[str, str]) -> Html:
    keys = given.get("keys", "")
    return form(
        visit,
        "/new",
        tag("input", type="hidden", name="stage", value="price"),
        _hidden(DETAILS, given),
        field(
            "What change must you be able to see, in percentage points?",
            "change",
            given.get("change") or "5",
            "From one collection to the next. With 5, a key that 20 of 100 people have must be told from one that 25 "
            "have.",
            inputmode="decimal",
            required=True,
        ),
        field(
            "How many people will report?", "people", given.get("people") or "20000", inputmode="numeric", required=True
        ),
        tag(
            "div",
            tag("label", "Which keys are asked about?", for_="keys"),
            tag("textarea", keys, id="keys", name="keys", required=True, aria_describedby="keys-hint"),
            tag("small", "One in each line, such as coffee, crisps, apple.", id="keys-hint"),
            class_="field",
        ),
        field(
            "How many of them does a person have on average?",
            "pairs",
            given.get("pairs") or "3",
            inputmode="decimal",
            required=True,
        ),
        tag(
            "div",
            field("Least value", "low", given.get("low") or "1"),
            field("Largest value", "high", given.get("high") or "5"),
            class_="inline",
        ),
        tag("p", "Such as the ends of a rating. Values outside count as the nearer end.", class_="small"),
        field(
            "The only values there are",
            "levels",
            given.get("levels", ""),
            "Such as 1, 2, 3, 4, 5, instead of a least and a largest value. May stay empty.",
        ),
        field(
            "Groups of people who are told apart",
            "groups",
            given.get("groups", ""),
            "Such as de, fr: every key is then counted in each group. A device adds its group; it is as private as the "
            "keys. May stay empty.",
        ),
        choice("What do you want to know?", "goal", GOALS, given.get("goal") or "both"),
        choice("Where do people answer?", "browser", PLACES, given.get("browser", "")),
        tag("button", "See what it costs"),
        class_="card",
    )


# -- then: at what price ----------------------------------------------------------------------------------------------


def _prices(visit: Visit, wish: Wish) -> Html:
    found = offers(wish)
    best = next((one for one in found if one.change <= wish.change), None)
    before = next((one for one in found if one.epsilon == visit.given("epsilon")), best)
    rows = [_price(one, wish, one is before) for one in found]
    what = f"enough to see a change of {100 * wish.change:g} points with {wish.people:,} people"
    more = "ask more people, about fewer keys, or be content with a larger change"
    said = f"No ε here is {what}: {more}." if best is None else f"ε = {best.epsilon} is {what}."
    seen, rarest, people, odds = (
        numbers(title)
        for title in (
            "Smallest change that is seen",
            "Rarest key that is seen, of the people",
            "People for your change",
            "Odds change by",
        )
    )
    head = ("ε", seen, rarest, people, odds, "Mechanism")
    usual = f"ε = {decimal_text(Fraction(Caps().schema_period))} in {Caps().days} days"
    return together(
        tag("p", said, class_="finding"),
        form(
            visit,
            "/new",
            tag("input", type="hidden", name="stage", value="check"),
            _hidden(KEPT, {name: visit.given(name) for name in KEPT}),
            tag(
                "fieldset",
                tag("legend", "Choose ε: the smaller, the safer for people"),
                table("Predicted for such people, before anybody is asked", head, rows),
                tag(
                    "p", f"Devices answer the same keys up to {usual}, unless their owners raise that.", class_="small"
                ),
            ),
            tag("fieldset", tag("legend", "What people read, and when it ends"), _details(visit)),
            tag("button", "Check it"),
            " ",
            tag("button", "Back", class_="plain", name="back", value="1", formnovalidate=True),
        ),
    )


def _price(one: Offer, wish: Wish, chosen: bool) -> Html:
    id = f"epsilon-{one.epsilon.replace('.', '-')}"
    radio = tag("input", type="radio", name="epsilon", value=one.epsilon, id=id, checked=chosen, required=True)
    enough = one.change <= wish.change
    return tag(
        "tr",
        tag("th", radio, " ", tag("label", one.epsilon, for_=id), scope="row"),
        tag("td", f"{_percent(one.change)} points", class_="number" if enough else "number doubtful"),
        tag("td", f"{_percent(one.smallest)} %", class_="number"),
        tag("td", f"about {one.people_for(wish):,}", class_="number"),
        tag("td", f"at most × {one.odds:.3g}", class_="number"),
        tag("td", one.mechanism),
    )


def _percent(share: float) -> str:
    """Three digits, also where the last ones are zeros."""
    return f"{100 * share:#.3g}".rstrip(".")


def _details(visit: Visit) -> Html:
    purpose = tag(
        "div",
        tag("label", "Purpose", for_="purpose"),
        tag(
            "textarea",
            visit.given("purpose"),
            id="purpose",
            name="purpose",
            required=True,
            aria_describedby="purpose-hint",
        ),
        tag("small", "People read this before they agree.", id="purpose-hint"),
        class_="field",
    )
    return together(
        field(
            "Name",
            "name",
            visit.given("name"),
            "Such as snack-survey: a-z, 0-9 and -.",
            required=True,
            autocomplete="off",
        ),
        purpose,
        field("Whom people can ask", "contact", visit.given("contact"), type="email"),
        field("Last day", "closes", visit.given("closes"), "May stay empty.", type="date"),
        field(
            "Nothing is shown below so many reports",
            "min_reports",
            visit.given("min_reports") or "1000",
            inputmode="numeric",
        ),
        choice(
            "Who may report?",
            "enrolment",
            {"none": "anybody, once for each device", "token": "people with a token"},
            visit.given("enrolment"),
            "Without tokens nobody can stop a stranger from sending many reports.",
        ),
    )


# -- at last: check and create ----------------------------------------------------------------------------------------


def _checked(visit: Visit, wish: Wish) -> Html:
    document = document_of(wish, visit.form)
    slim, beside = parted(document)
    fetch = _fetch(beside)
    campaign = Campaign.from_document(slim, fetch)
    refuse_refused(campaign, fetch)
    forecast = forecast_campaign(campaign, min(wish.people, MOST_TOLD), lambda _: None)
    unwise = warnings(campaign, today(visit.service.clock))
    untold = [kind for kind in ASKABLE if kind not in campaign.answers]
    rounds = ", ".join(
        f"{one.round.mechanism.name}: exact ε {one.exact_epsilon:.6f}, {one.bits:.3g} bits a report"
        for one in forecast.rounds
    )
    whole = json.dumps(document, indent=2, ensure_ascii=False)
    return together(
        tag("p", f"{campaign.name} is in order.", class_="finding"),
        facts(
            ("Purpose", campaign.purpose),
            ("Rounds", rounds),
            ("Why this mechanism", campaign.reason),
            ("It will tell", "; ".join(ASKABLE[kind].meaning for kind in campaign.answers)),
            ("It will not tell", "; ".join(f"{ASKABLE[kind].meaning} ({_takers(kind)})" for kind in untold)),
        ),
        tag("h2", "Warnings") if unwise else None,
        [tag("p", one.sentence, class_="warning") for one in unwise],
        form(
            visit,
            "/new",
            tag("input", type="hidden", name="stage", value="create"),
            tag("input", type="hidden", name="document", value=json.dumps(document)),
            tag("p", "A draft asks nobody. It is opened on its own page, and then never changes."),
            tag("button", "Create the draft"),
            class_="card",
        ),
        form(
            visit,
            "/new",
            tag("input", type="hidden", name="stage", value="price"),
            _hidden((*KEPT, *DETAILS), {name: visit.given(name) for name in (*KEPT, *DETAILS)}),
            tag("button", "Back", class_="plain"),
        ),
        tag("details", tag("summary", "The document"), tag("pre", tag("code", whole)), id="document"),
        _code(visit, campaign, beside),
    )


def _takers(kind: str) -> str:
    return f"that takes {', '.join(who_answers(kind))}"


def _code(visit: Visit, campaign: Campaign, beside: bytes | None) -> Child:
    file = f"{campaign.name}.json"
    lines = [f'document = json.loads(Path("{file}").read_text())', 'answer = ask("/v1/campaigns", document)["hash"]']
    if beside is not None:  # a long list of keys goes first, on its own
        lines[1:1] = [
            "document, keys = parted(document)",
            'path = f"/v1/dictionaries/{sha256(keys).hexdigest()}"',
            'urlopen(Request(server + path, keys, {"Authorization": f"Bearer {token}"}, method="PUT"))',
        ]
    imports = [] if beside is None else ["from keyveil.campaign.dictionaries import parted"]
    imports = imports and ["from hashlib import sha256", *imports]
    return together(
        tag("p", f"Keep the document above as {file}. Then this creates the same draft."),
        code(visit, ["campaign", "create", file], lines, imports, ["campaign", "check", file], "admin.token"),
    )


def _create(visit: Visit) -> Response:
    try:
        document = json.loads(visit.given("document"))
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise CampaignError("campaign/document", "The campaign was lost on the way: please begin again.")
    refuse_elsewhere(visit.holder, str(document.get("name")))
    slim, beside = parted(document)
    if beside is not None:
        visit.service.put_dictionary(beside, visit.holder.name)
    view = visit.service.create(slim, visit.holder.name)
    return redirect(visit, f"/campaigns/{view['hash'][:12]}/collection", done="create")


def _fetch(beside: bytes | None) -> Fetch:
    def fetch(name: str) -> bytes:
        if beside is None or hashlib.sha256(beside).hexdigest() != name:
            raise CampaignError("campaign/dictionary", f"There is no list of keys {name[:8]}….")
        return beside

    return fetch
