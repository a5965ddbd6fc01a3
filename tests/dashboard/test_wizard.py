"""A new campaign, step by step: what is asked, what it costs, what is wrong with it, and the way back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from keyveil.campaign.browsers import answered_in_browsers
from tests.collector.campaigns import snacks
from tests.dashboard.browsing import WISH, Browser, Elements, Pages

TOLD = {"name": "snack-survey", "purpose": "Which snacks people buy.", "contact": "a@example.org", "min_reports": "50"}


def fields(browser: Browser) -> dict[str, str]:
    """What the fields of the page hold, by name; of several of one name, the last."""
    return {one["name"]: one.get("value", "") for one in Elements(browser.text).named("input") if "name" in one}


def test_a_campaign_is_planned_checked_created_opened_and_closed(site: Pages) -> None:
    browser = site.browser(site.admin)
    assert "What change must you be able to see" in browser.get("/new").words
    browser.post("/new", stage="price", goal="frequency", **WISH)
    assert browser.answer.status == 200 and "Smallest change that is seen" in browser.words
    checked = [one for one in Elements(browser.text).named("input") if one.get("type") == "radio" and "checked" in one]
    assert len(checked) == 1
    browser.post("/new", stage="check", goal="frequency", epsilon=checked[0]["value"], **WISH, **TOLD)
    assert "snack-survey is in order" in browser.words, browser.words
    document = next(one["value"] for one in Elements(browser.text).named("input") if one.get("name") == "document")
    browser.post("/new", stage="create", document=document)
    assert "Nobody is asked before it is opened" in browser.words
    made = site.service.campaigns()[-1]
    assert (made["name"], made["state"]) == ("snack-survey", "draft")
    here = f"/campaigns/{made['hash'][:12]}"
    browser.post(f"{here}/act", action="open")
    assert "devices that ask for it are answered" in browser.words
    browser.post(f"{here}/act", action="close")
    assert site.service.view("snack-survey")["state"] == "open"
    assert browser.post(f"{here}/act", action="delete").answer.status == 422
    actors = {one["actor"] for one in site.service.journal.entries() if one["action"].startswith("campaign.")}
    assert actors == {"the-admin"}


def test_levels_groups_and_browsers_reach_the_document(site: Pages) -> None:
    """And a campaign for browsers has a mechanism that browsers know, also where others would be better."""
    browser = site.browser(site.admin)
    browser.get("/new")
    told = {"name": "by-country", "purpose": "Which snacks people buy.", "min_reports": "50", "epsilon": "2"}
    document: dict[str, Any] = {}
    for goal, groups in (("conditional", ""), ("frequency", "de, fr")):
        wish = {**WISH, "low": "", "high": "", "levels": "1, 2, 3", "groups": groups, "browser": "true"}
        if groups:  # seven plans take their time
            browser.post("/new", stage="price", goal=goal, **wish)
            hidden = [one for one in Elements(browser.text).named("input") if one["type"] == "hidden"]
            kept = {one["name"]: one["value"] for one in hidden}
            assert kept["levels"] == "1, 2, 3" and kept["groups"] == groups and kept["browser"] == "true"
        browser.post("/new", stage="check", goal=goal, **wish, **told)
        assert "by-country is in order" in browser.words, browser.words
        document = json.loads(
            next(one["value"] for one in Elements(browser.text).named("input") if one.get("name") == "document")
        )
        assert document["browser"] is True and answered_in_browsers(document["protocol"]["name"])
    browser.post("/new", stage="create", document=json.dumps(document))
    made = site.service.campaign("by-country")
    assert made.schema.groups == ("de", "fr") and made.browser
    assert made.schema.keys[0] == "de/coffee" and made.schema.document()["levels"] == [1, 2, 3]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"levels": "1, many"}, "Single values are numbers"),
        ({"levels": "3"}, ""),
        ({"groups": "de, de"}, "group"),
        ({"keys": ""}, "Name 1 to"),
        ({"change": "0"}, "between 0 and 100"),
        ({"change": "x"}, "a number of percentage points"),
        ({"people": "many"}, "how many people"),
        ({"pairs": "9"}, "at most 3"),
        ({"low": "5", "high": "1"}, ""),
        ({"goal": "fame"}, "from the list"),
    ],
)
def test_a_wrong_wish_is_told_and_kept(site: Pages, changed: dict[str, str], told: str) -> None:
    browser = site.browser(site.admin)
    browser.get("/new")
    browser.post("/new", stage="price", **{"goal": "both", **WISH, **changed})
    assert browser.answer.status == 422 and told in browser.words
    assert "coffee" in browser.text or "keys" in changed


def test_an_admin_of_other_campaigns_creates_none_of_this_name(site: Pages) -> None:
    token = site.service.roles.grant("admin", "elsewhere", ["elsewhere"])
    browser = site.browser(token)
    browser.get("/new")
    browser.post("/new", stage="create", document=json.dumps(snacks()))
    assert browser.answer.status == 403 and site.service.campaigns() == []


def test_what_is_wrong_with_the_second_step_is_said_there_and_nothing_is_lost(site: Pages) -> None:
    browser = site.browser(site.admin)
    browser.get("/new")
    browser.post("/new", stage="check", goal="frequency", epsilon="2", **WISH, **{**TOLD, "name": "Snack Survey"})
    assert browser.answer.status == 422 and "Choose ε" in browser.words and "name" in browser.words
    kept = fields(browser)
    assert kept["name"] == "Snack Survey" and kept["min_reports"] == "50" and kept["keys"] == WISH["keys"]
    assert "Which snacks people buy.</textarea>" in browser.text
    chosen = [one for one in Elements(browser.text).named("input") if one["type"] == "radio" and "checked" in one]
    assert [one["value"] for one in chosen] == ["2"]


def test_back_leads_to_the_step_before_with_all_that_was_typed(site: Pages) -> None:
    browser = site.browser(site.admin)
    browser.get("/new")
    browser.post("/new", stage="check", goal="frequency", epsilon="2", **WISH, **TOLD)
    assert "snack-survey is in order" in browser.words
    given = fields(browser)  # the last form of the page is the one that leads back
    assert given["stage"] == "price" and {name: given[name] for name in WISH} == WISH
    browser.post("/new", **{name: value for name, value in given.items() if name != "document"})
    assert "Choose ε" in browser.words and fields(browser)["name"] == "snack-survey"
    browser.post("/new", stage="check", back="1", goal="frequency", epsilon="2", **WISH, **TOLD)
    assert "What change must you be able to see" in browser.words
    assert fields(browser)["name"] == "snack-survey" and fields(browser)["epsilon"] == "2"
    assert "coffee" in browser.text and site.service.campaigns() == []
