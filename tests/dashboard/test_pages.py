"""Every page for everybody who might ask: what is shown to whom, what is refused, and what stays text."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow.parquet
import pytest

from keyveil.core.estimates import Estimates
from keyveil.dashboard.app import ADMIN, ADMIN_OF_ALL, ANALYST, PAGES
from tests.collector.campaigns import batch_of, snacks, started
from tests.dashboard.browsing import WISH, Browser, Elements, Pages

EVIL = "<script>alert('x')</script><img src=x onerror=alert(1)>\"'"
TELLING = {"name": "moments", "epsilon": "4"}
MENU = ["fries", "burger", "pepsi"]
FIELDS: dict[str, dict[str, str]] = {  # of each form, so that it would be accepted
    "/campaigns/{name}/act": {"action": "close"},
    "/campaigns/{name}/next": {},
    "/campaigns/{name}/enrol": {"count": "2"},
    "/new": {"stage": "price", **WISH, "goal": "frequency"},
    "/tokens": {"name": "new-one", "role": "analyst"},
    "/tokens/revoke": {"name": "to-revoke"},
    "/sign-out": {},
}
LEAST = {  # who may, said once more: a page that is opened to others by mistake must not change what is expected of it
    **dict.fromkeys(
        [
            ("GET", "/"),
            ("POST", "/sign-out"),
            *(
                ("GET", "/campaigns/{name}" + end)
                for end in ("", "/ask", "/processed", "/compare", "/privacy", "/collection", "/files", "/files/{file}")
            ),
        ],
        ANALYST,
    ),
    **dict.fromkeys([("GET", "/new"), ("POST", "/new")], ADMIN),
    **dict.fromkeys([("POST", "/campaigns/{name}" + end) for end in ("/act", "/next", "/enrol")], ADMIN),
    **dict.fromkeys([("GET", "/tokens"), ("POST", "/tokens"), ("POST", "/tokens/revoke")], ADMIN_OF_ALL),
}
SCOPES: dict[str, dict[str, Any]] = {
    "analyst": {"role": "analyst"},
    "analyst-of-snacks": {"role": "analyst", "campaigns": ["snacks"]},
    "analyst-elsewhere": {"role": "analyst", "campaigns": ["elsewhere"]},
    "admin": {"role": "admin"},
    "admin-of-snacks": {"role": "admin", "campaigns": ["snacks"]},
    "admin-elsewhere": {"role": "admin", "campaigns": ["elsewhere"]},
}


def filled(site: Pages, reports: int = 400, name: str = "snacks", **fields: Any) -> str:
    """A campaign with counted reports; gives its hash."""
    asked = started(site.service, name=name, min_reports=50, **fields)
    if reports:
        site.service.submit(name, batch_of(asked, reports)).result(30)
    site.service.settle()
    found: str = site.service.view(name)["hash"]
    return found


def allowed(least: str, path: str, who: str) -> bool:
    scope = SCOPES[who]
    if least in (ADMIN, ADMIN_OF_ALL) and scope["role"] != "admin":
        return False
    if least == ADMIN_OF_ALL:
        return "campaigns" not in scope
    return "{name}" not in path or "snacks" in scope.get("campaigns", ["snacks"])


def state(site: Pages) -> Any:
    service = site.service
    sessions = ("session.start",)
    acts = [one for one in service.journal.entries() if one["action"] not in sessions]
    return service.campaigns(), service.roles.tokens(), len(acts)


def test_every_page_and_form_for_every_role(site: Pages) -> None:
    """Whoever may not is refused and changes nothing; whoever may is answered. Nobody without a session sees any."""
    filled(site, enrolment="token", reports=0)
    site.service.roles.grant("analyst", "to-revoke")
    people = {who: site.browser(site.service.roles.grant(name=who, **scope)) for who, scope in SCOPES.items()}
    for browser in people.values():
        browser.get("/")  # a page with the session's form token
    tokens = {who: browser.form_token for who, browser in people.items()}
    stranger = site.browser()
    assert {one.path for one in PAGES if one.method == "POST"} == set(FIELDS)
    assert {(one.method, one.path) for one in PAGES} == set(LEAST)

    def asks(browser: Browser, one: Any, token: str) -> int:
        path = one.path.replace("{name}", "snacks").replace("{file}", "estimates.csv")
        if one.method == "GET":
            return browser.get(path, follow=False).answer.status
        return browser.post(path, follow=False, genuine=False, form_token=token, **FIELDS[one.path]).answer.status

    for one in PAGES:
        before = state(site)
        assert asks(stranger, one, "") == (303 if one.method == "GET" else 401), one.path
        for who, browser in people.items():
            if not allowed(LEAST[one.method, one.path], one.path, who):
                assert asks(browser, one, tokens[who]) == 403, (one.path, who)
        assert state(site) == before, one.path
        if one.path == "/sign-out":
            continue
        permitted = [who for who in people if allowed(LEAST[one.method, one.path], one.path, who)]
        statuses = {who: asks(people[who], one, tokens[who]) for who in permitted}
        assert not {401, 403, 404, 500} & set(list(statuses.values())[:1]), (one.path, statuses)
        assert not {401, 403, 500} & set(statuses.values()), (one.path, statuses)


def test_a_forged_form_does_nothing(site: Pages) -> None:
    filled(site)
    browser = site.browser(site.admin)
    other = site.browser(site.analyst)
    before = state(site)
    for forged in ({}, {"form_token": ""}, {"form_token": "0" * 64}, {"form_token": other.form_token}):
        browser.post("/campaigns/snacks/act", genuine=False, action="stop", **forged)
        assert browser.answer.status == 403 and "nothing was done" in browser.words
    good = browser.get("/").form_token
    body = f"form_token={good}&action=stop".encode()
    cookie = f"keyveil={browser.cookies['keyveil']}"
    form = {"Content-Type": "application/x-www-form-urlencoded", "Cookie": cookie}
    for header in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Content-Type": "text/plain"},
    ):
        answer = site.transport.request("POST", "/campaigns/snacks/act", body, {**form, **header})
        assert answer.status == 403
    assert state(site) == before
    own = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
    assert site.transport.request("POST", "/campaigns/snacks/act", body, {**form, **own}).status == 303


def test_a_stolen_link_shows_the_sign_in_page_and_nothing_else(site: Pages) -> None:
    filled(site)
    browser = site.browser()
    browser.get("/campaigns/snacks/ask?kind=top&count=2")
    assert browser.at.startswith("/sign-in") and "snacks" not in browser.words
    browser.sign_in(site.analyst, "/campaigns/snacks/ask?kind=top&count=2")
    assert browser.at == "/campaigns/snacks/ask?kind=top&count=2" and "surely among" in browser.words


def test_every_answer_forbids_scripts_from_elsewhere_and_being_framed(site: Pages) -> None:
    filled(site)
    browser = site.browser(site.admin)
    for path in ("/", "/sign-in", "/campaigns/snacks", "/new", "/tokens", "/nowhere", "/static/page.js"):
        headers = browser.get(path).answer.headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "same-origin"
    assert browser.get("/campaigns/snacks").answer.headers["cache-control"] == "no-store"


def test_a_script_in_a_key_or_purpose_is_text(site: Pages) -> None:
    schema = {"keys": [EVIL, "fries", "pepsi"], "low": 1, "high": 5}
    asked = started(site.service, purpose=EVIL, min_reports=50, schema=schema, contact=EVIL, protocol=TELLING)
    records: tuple[dict[str, float], ...] = ({}, {EVIL: 4.0, "fries": 2.0}, {"pepsi": 3.0})
    site.service.submit("snacks", batch_of(asked, 1500, records)).result(30)
    site.service.settle()
    browser = site.browser(site.admin)
    for path in (
        "",
        "/ask?kind=top&count=3",
        "/ask?kind=heat&count=3",
        "/processed",
        "/privacy",
        "/collection",
        "/files",
    ):
        text = browser.get(f"/campaigns/snacks{path}").text
        assert browser.answer.status == 200
        scripts = [one.get("src", "") for one in Elements(text).named("script")]
        assert all("static/page.js" in one for one in scripts) and "onerror=alert(1)>" not in text
        assert "<img" not in text and "alert(&#x27;x&#x27;)" in text
    listed = browser.get("/").text
    assert "<img" not in listed and "alert(&#x27;x&#x27;)" in listed
    words = browser.get(f"/campaigns/snacks/ask?kind=conditional&has=fries&key={EVIL.replace('&', '%26')}").text
    assert "<img" not in words
    search = browser.get("/campaigns/snacks?find=%3Cscript%3Ealert(2)%3C/script%3E").text
    assert "<script>alert(2)" not in search and "No key has this in its name" in search


def test_an_empty_campaign_and_one_with_too_few_reports_say_what_to_do(site: Pages) -> None:
    analyst = site.browser(site.analyst)
    assert "no campaign yet" in analyst.words and "An administrator creates them" in analyst.words
    admin = site.browser(site.admin)
    assert "Plan the first one" in admin.words
    site.service.create(snacks(name="later"))
    assert "this campaign is a draft" in analyst.get("/campaigns/later").words
    asked = started(site.service, min_reports=50)
    site.service.submit("snacks", batch_of(asked, 20)).result(30)
    site.service.settle()
    for path in ("", "/processed", "/files", "/ask?kind=top&count=2"):
        words = analyst.get(f"/campaigns/snacks{path}").words
        assert "Nothing is shown below 50" in words or "nothing is shown below 50" in words, path
        assert "What to do" in words
    assert analyst.get("/campaigns/snacks/files/estimates.csv").answer.status == 409
    assert "The page Collection shows" in analyst.get("/campaigns/snacks").words
    assert "wait for more people" in analyst.words
    site.service.act("snacks", "stop")
    site.service.settle()
    assert "over, with too few reports" in analyst.get("/campaigns/snacks").words
    assert "ask again in a new campaign" in analyst.words and "wait for more" not in analyst.words


def test_another_role_is_told_what_to_do(site: Pages) -> None:
    filled(site)
    browser = site.browser(site.analyst)
    assert "New campaign" not in browser.words
    browser.get("/new")
    assert browser.answer.status == 403 and "sign in with the token of an administrator" in browser.words
    assert "Administrators open, close and stop campaigns" in browser.get("/campaigns/snacks/collection").words
    assert browser.get("/campaigns/nothing-here").answer.status == 404


def test_results_name_the_finding_the_flags_and_what_intervals_contain(site: Pages) -> None:
    filled(site, 3000, protocol={"name": "ssr", "epsilon": "4", "max_pairs": 3})
    words = site.browser(site.analyst).get("/campaigns/snacks").words
    for part in ("Who can see what", "odds of anything", "How to read it", "noise that devices add for privacy"):
        assert part in words
    assert "They do not allow for people who send crafted reports" in words
    moved = site.browser(site.analyst).get("/campaigns/snacks?attackers=30")
    assert "30" in moved.words and moved.words != words
    assert 'crafted"' in moved.text and 'crafted"' not in moved.get("/campaigns/snacks").text


def test_what_is_remembered_is_fresh(site: Pages) -> None:
    asked = started(site.service, min_reports=50)
    browser = site.browser(site.analyst)
    for number in (100, 200):
        site.service.submit("snacks", batch_of(asked, 100)).result(30)
        site.service.settle()
        assert f"ssr · ε = 1 · {number} reports" in browser.get("/campaigns/snacks").words


def test_keys_are_sorted_and_found(site: Pages) -> None:
    names = [f"key {number:03}" for number in range(120)]
    schema = {"keys": names, "low": 1, "high": 5}
    asked = started(site.service, min_reports=50, schema=schema, protocol={"name": "kvue", "epsilon": "4"})
    people = tuple({names[at]: 3.0} for at in range(5)) * 3 + ({},)
    site.service.submit("snacks", batch_of(asked, 300, people)).result(30)
    site.service.settle()
    browser = site.browser(site.analyst)

    def keys(query: str) -> list[str]:
        text = browser.get(f"/campaigns/snacks?part=rows&{query}").text
        assert text.startswith("<section")
        return [name for name in names if f">{name}<" in text]

    assert keys("sort=key&order=up") == names[:50]
    assert keys("sort=key&order=up&page=3") == names[100:]
    assert keys("sort=key&order=down") == names[70:]
    assert keys("find=KEY+11") == names[110:120]
    assert len(keys("sort=mean")) == len(keys("sort=flag&order=down")) == 50
    assert keys("find=nothing") == []
    everything = {name for page in (1, 2, 3) for name in keys(f"sort=frequency&page={page}")}
    assert everything == set(names)


def test_questions_are_answered_in_words_and_what_is_not_told_is_said(site: Pages) -> None:
    filled(site, 4000, protocol=TELLING)
    browser = site.browser(site.analyst)

    def asks(query: str) -> str:
        words = browser.get(f"/campaigns/snacks/ask?{query}").words
        assert browser.answer.status == 200
        return words

    assert "Of those who hold burger" in asks("kind=conditional&has=burger&has=&key=pepsi")
    assert "surely among the 3 most frequent" in asks("kind=top&count=3")
    assert "of these keys on average: burger, fries" in asks("kind=subset&keys=burger%0D%0Afries")
    assert "p = " in asks("kind=compare&first=fries&second=pepsi")
    assert "the share that holds the key of a column" in asks("kind=heat&count=3")
    assert "no; that takes" in asks("")
    assert "those of square-wave" in asks("kind=quantiles&key=fries")
    assert "has no key" in asks("kind=compare&first=nothing&second=fries")
    assert "Choose one of the questions" in asks("kind=everything")
    code = asks("kind=top&count=3")
    assert "keyveil campaign ask snacks" in code and "urlopen" in code


def test_distributions_are_drawn(site: Pages) -> None:
    filled(site, 4000, protocol={"name": "kv-sw", "epsilon": "4", "max_pairs": 2})
    text = site.browser(site.analyst).get("/campaigns/snacks/ask?kind=quantiles&key=fries").text
    assert "Half of those who hold fries" in text and 'class="bar"' in text
    report = site.browser(site.analyst).get("/campaigns/snacks/files/estimates.html").text
    assert "the share in each part of the range" in report


def test_raw_stands_beside_processed(site: Pages) -> None:
    filled(site, 2000)
    browser = site.browser(site.analyst)
    assert "moved" in browser.get("/campaigns/snacks/processed?method=base-cut").words
    assert "Sum of all frequencies" in browser.words
    assert "There is no method" in browser.get("/campaigns/snacks/processed?method=magic").words


def test_two_campaigns_of_a_series_are_compared_with_a_test(site: Pages) -> None:
    options: dict[str, Any] = {"protocol": {"name": "ssr", "epsilon": "4", "max_pairs": 2}}
    first = filled(site, 3000, **options)
    browser = site.browser(site.analyst)
    assert "only campaign of its name" in browser.get("/campaigns/snacks/compare").words
    site.service.act("snacks", "stop")
    site.service.settle()
    asked = started(site.service, min_reports=50, purpose="Again.", **options)
    site.service.submit("snacks", batch_of(asked, 3000, ({"pepsi": 5.0},))).result(30)
    site.service.settle()
    words = browser.get(f"/campaigns/snacks/compare?with={first}").words
    assert "pepsi" in words.split("changed.")[0][-120:] and "p-values are multiplied by the 3 tests" in words
    assert "Change of the mean" in browser.get(f"/campaigns/snacks/compare?with={first}&of=mean").words
    assert (
        "cannot be compared with itself"
        in browser.get(f"/campaigns/snacks/compare?with={site.service.view('snacks')['hash']}").words
    )


def test_whoever_reads_one_campaign_compares_it_with_no_other(site: Pages) -> None:
    filled(site)
    elsewhere = filled(site, 400, "elsewhere")
    limited = site.browser(site.service.roles.grant("analyst", "of-snacks", ["snacks"]))
    path = f"/campaigns/snacks/compare?with={elsewhere}"
    site.service.act("snacks", "stop")
    site.service.settle()
    filled(site, 400, purpose="Again.")  # now there is something to choose from
    words = limited.get(path).words
    assert "access/campaign" in words and "p-value" not in words, words
    assert "p-value" in site.browser(site.analyst).get(path).words


def test_the_privacy_panel_shows_the_certificate_and_an_example(site: Pages) -> None:
    filled(site)
    words = site.browser(site.analyst).get("/campaigns/snacks/privacy").words
    for part in ("Exact ε", "Worst pair of people", "Their device would send", "debits its ledger", "Promise kept yes"):
        assert part in words


@pytest.mark.parametrize("kind", ["csv", "parquet", "json", "png", "html"])
def test_results_are_downloaded(site: Pages, kind: str) -> None:
    filled(site)
    browser = site.browser(site.analyst)
    assert f"snacks.{kind}" in browser.get("/campaigns/snacks/files").words
    answer = browser.get(f"/campaigns/snacks/files/estimates.{kind}").answer
    assert answer.status == 200 and f'filename="snacks.{kind}"' in answer.headers["content-disposition"]
    body = answer.body
    if kind == "csv":
        assert body.decode().splitlines()[0].startswith("key,frequency")
    elif kind == "parquet":
        assert pyarrow.parquet.read_table(io.BytesIO(body)).num_rows == 3
    elif kind == "json":
        assert Estimates.from_document(json.loads(body)).schema.d == 3
    else:
        assert body.startswith(b"\x89PNG" if kind == "png" else b"<!doctype html>")
    assert browser.get("/campaigns/snacks/files/keyveil.db").answer.status == 404


def test_tokens_are_made_shown_once_and_revoked(site: Pages) -> None:
    browser = site.browser(site.admin)
    browser.get("/tokens")
    browser.post("/tokens", name="anna", role="analyst", campaigns="snacks", expires="2030-01-01")
    assert "shown this once" in browser.words
    token = browser.text.split('<pre id="token">')[1].split("<")[0]
    anna = site.browser(token)
    assert "Sign out" in anna.words and "anna · analyst" in anna.words
    browser.get("/tokens")
    assert token not in browser.text and "2030-01-01" in browser.words
    browser.post("/tokens/revoke", name="anna")
    assert "whoever was signed in with it is signed out" in browser.words
    assert anna.get("/").at.startswith("/sign-in")
    browser.get("/tokens")
    browser.post("/tokens", name="anna 2", role="analyst")
    assert browser.answer.status == 422


def test_enrolment_tokens_are_shown_once(site: Pages) -> None:
    filled(site, 0, enrolment="token")
    browser = site.browser(site.admin)
    browser.get("/campaigns/snacks/collection")
    browser.post("/campaigns/snacks/enrol", count="3")
    tokens = browser.text.split("<pre>")[1].split("</pre>")[0].split()
    assert len(tokens) == 3
    browser.get("/campaigns/snacks/collection")
    assert browser.post("/campaigns/snacks/enrol", count="-1").answer.status == 422


def test_pages_work_below_a_path_of_their_own(site: Pages) -> None:
    """All links are relative: none begins with a slash or names a host."""
    filled(site)
    browser = site.browser(site.admin)
    for path in ("/", "/campaigns/snacks", "/campaigns/snacks/ask?kind=top&count=2", "/campaigns/snacks/files", "/new"):
        found = Elements(browser.get(path).text).found
        links = [one[name] for _, one in found for name in ("href", "src", "action") if name in one]
        assert links and not [one for one in links if one.startswith("/") or "//" in one]
