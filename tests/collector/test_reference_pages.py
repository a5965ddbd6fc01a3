"""The pages /api and /problems: every operation and every code is explained, by the collector itself and offline."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from keyveil.collector.explanations import CODES, FAMILIES, explain
from keyveil.collector.problems import STATUS
from tests.collector.running import Collector, running
from tools.reference import codes, command_line, described, http, problems


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    with running(tmp_path_factory.mktemp("pages")) as one:
        yield one


def test_the_api_page_has_every_operation_and_loads_nothing(collector: Collector) -> None:
    answer = collector.ask("GET", "/api")
    page = answer.body.decode()
    assert answer.status == 200 and "default-src 'none'" in answer.headers["content-security-policy"]
    assert "<script" not in page and "://" not in page
    for path, methods in described()["paths"].items():
        for method in methods:
            assert f"<code>{method.upper()} {path}</code>" in page


def test_the_type_of_a_problem_leads_to_its_explanation(collector: Collector) -> None:
    refused = collector.ask("GET", "/v1/campaigns/of-nobody")
    told = refused.body.decode()
    where = re.search(r'"type":"([^"]+)"', told)
    assert where is not None and where[1] == "/problems/campaign/unknown"
    page = collector.ask("GET", where[1])
    assert page.status == 200 and CODES["campaign/unknown"].meaning in page.body.decode()
    assert collector.ask("GET", "/problems").status == 200
    assert collector.ask("GET", "/problems/of-no-family/x").status == 404
    hostile = collector.ask("GET", "/problems/report/%3Cscript%3E")
    assert b"<script" not in hostile.body


def test_every_code_that_is_raised_has_a_family_that_is_explained() -> None:
    raised = codes()
    assert len(raised) > 300
    assert [code for code in raised if explain(code) is None] == []
    assert [prefix for prefix in STATUS if prefix and explain(prefix.rstrip("/") + "/x") is None] == []


def test_what_has_a_status_of_its_own_has_words_of_its_own() -> None:
    whole = {code for code in STATUS if code and not code.endswith("/")}
    assert whole - set(CODES) == set()
    assert {code.partition("/")[0] for code in CODES} <= set(FAMILIES)


def test_no_code_is_explained_that_nobody_raises() -> None:
    text = "".join(path.read_text() for path in (Path(__file__).parents[2] / "src/keyveil").rglob("*.py"))
    text = text.replace((Path(__file__).parents[2] / "src/keyveil/collector/explanations.py").read_text(), "")
    raised = codes()
    assert [code for code in CODES if f'"{code}"' not in text and code not in raised] == []


def test_codes_are_found_behind_functions_that_add_a_family(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(
        "def _refused(code, sentence):\n    return CampaignError(f'campaign/{code}', sentence)\n"
        "def f(x):\n    raise _refused('dates', f'Not on {x}.')\n    raise KeyveilError('a/b', 'No.')\n"
    )
    assert codes(tmp_path) == {"campaign/dates": {"Not on …."}, "a/b": {"No."}}


def test_the_pages_of_the_reference_name_everything() -> None:
    commands, addresses, listed = command_line(), http(), problems()
    for name in ("keyveil plan", "keyveil campaign create", "keyveil campaign watch", "keyveil token create"):
        assert f" `{name}`\n" in commands
    assert "| `--epsilon <str>` |" in commands
    assert "## `POST /v1/campaigns/{name}/reports`" in addresses and "For admins." in addresses
    assert all(f"| `{code}` |" in listed for code in codes())
