"""Campaigns from the command line: on a database of this machine, and the same on a collector over HTTP."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keyveil.campaign.browsers import answered_in_browsers
from keyveil.campaign.documents import Campaign
from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.wire import PACKED, Batch, pad
from keyveil.cli.app import run
from keyveil.cli.local_collector import running_collector
from keyveil.collector.service import Service
from keyveil.core.coins import Coins
from keyveil.core.tally import Tally
from keyveil.device import HttpTransport
from tests.collector.processes import TWINS

Output = pytest.CaptureFixture[str]

OPTIONS = [
    "--name", "snack-survey", "--purpose", "Which snacks people buy.", "--keys", "burger,fries,pepsi", "--low", "1",
    "--high", "5", "--epsilon", "3", "--max-pairs", "2", "--enough", "3000", "--min-reports", "100",
]  # fmt: skip
PEOPLE = [{"burger": 4, "fries": 3}, {"burger": 2, "pepsi": 5}, {"fries": 1}, {}]


def said(output: Output, *arguments: str) -> Any:
    """The object that a command prints."""
    assert run([*arguments, "--json"]) == 0, output.readouterr().err
    return json.loads(output.readouterr().out)


def refused(output: Output, *arguments: str) -> str:
    """The line with which a command ends that cannot be done."""
    assert run(list(arguments)) == 2
    out, err = output.readouterr()
    assert out == "" and err.startswith("keyveil: ") and err.count("\n") == 1, err
    return err


def batch(view: dict[str, Any], people: int) -> Batch:
    """So many reports of the open round."""
    campaign, coins = Campaign.from_document(view["campaign"]), Coins()
    asked = RoundDocument.from_document(view["round"]["document"], campaign)
    mechanism, size, varies = asked.mechanism, asked.report_bytes, asked.mechanism.codec.varies
    made = [mechanism.perturb(PEOPLE[at % len(PEOPLE)], coins) for at in range(people)]
    payloads = tuple(pad(mechanism.encode(one), size, varies) for one in made)
    return Batch(asked.number, asked.hash, tuple(one.public for one in made), payloads)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with a campaign that 2 000 people have answered and that is over."""
    path = tmp_path_factory.mktemp("campaign") / "collector.db"
    where = ["--database", str(path)]
    assert run(["campaign", "create", *OPTIONS, *where]) == 0
    assert run(["campaign", "open", "snack-survey", *where]) == 0
    service = Service(f"sqlite:///{path}")
    service.submit("snack-survey", batch(service.view("snack-survey"), 2000)).result(60)
    service.close()
    assert run(["campaign", "close", "snack-survey", *where]) == 0
    return str(path)


# -- documents ------------------------------------------------------------------------------------------------------


def test_options_write_a_complete_document(tmp_path: Path, capsys: Output) -> None:
    file = tmp_path / "snacks.json"
    written = said(capsys, "campaign", "create", *OPTIONS, "--closes", "2030-01-31", "--out", str(file))

    assert json.loads(file.read_text()) == written == Campaign.from_document(written).document()
    assert written["protocol"] == {"name": "ssr", "epsilon": "3", "max_pairs": 2, "overflow": "0.03"}
    assert written["rounds"] == [{"closes": "2030-01-31", "enough": 3000}]
    assert written["schema"] == {"keys": ["burger", "fries", "pepsi"], "low": 1, "high": 5}


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path, capsys: Output) -> None:
    file = tmp_path / "wrong.json"
    broken = {
        "keyveil": 1, "name": "NO", "purpose": "?", "schema": {"keys": ["a"], "low": 3, "high": 1},
        "protocol": {"name": "ssr", "epsilon": "0"}, "rounds": [], "min_reports": -1, "enrolment": "sms",
    }  # fmt: skip
    file.write_text(json.dumps(broken))

    assert run(["campaign", "check", str(file), "--json"]) == 2
    out, err = capsys.readouterr()
    codes = [one["code"] for one in json.loads(out)["problems"]]
    assert {"campaign/name", "campaign/rounds", "campaign/min-reports", "campaign/enrolment", "schema/range"} <= set(
        codes
    )
    assert len(err.splitlines()) == len(codes)
    assert all(
        line.startswith("keyveil: ") and code in line for line, code in zip(err.splitlines(), codes, strict=True)
    )


def test_a_document_in_order_comes_with_errors_to_expect(tmp_path: Path, capsys: Output) -> None:
    file = tmp_path / "snacks.json"
    assert run(["campaign", "create", *OPTIONS, "--out", str(file)]) == 0
    few = said(capsys, "campaign", "check", str(file), "--people", "1000")["forecast"]
    many = said(capsys, "campaign", "check", str(file), "--people", "10000")["forecast"]
    most = said(capsys, "campaign", "check", str(file), "--people", "1000000")["forecast"]

    assert few["people"] == 1000 and few["rounds"][0]["mechanism"] == "ssr"
    assert 2.999 < few["rounds"][0]["exact_epsilon"] <= 3 and few["rounds"][0]["report_bytes"] > 0
    # Ten times the people, a third of the error: until what the cap hides is all that is left.
    assert many["frequency_se"]["median"] == pytest.approx(few["frequency_se"]["median"] / 10**0.5, rel=0.05)
    assert many["frequency_se"]["median"] / 10 < most["frequency_se"]["median"] < many["frequency_se"]["median"]
    assert run(["campaign", "check", str(file)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Standard errors, 3,000 people" in shown
    assert "3 of 100 people are asked how far they exceed 2 pairs instead of which they hold." in shown
    assert "1.5 % larger" in shown


def test_a_hierarchy_beside_an_overflow_group_is_checked(tmp_path: Path, capsys: Output) -> None:
    """The cap is that of the levels, and the round itself has none."""
    file = tmp_path / "food.json"
    keys = "food/fruit/apple,food/fruit/pear,food/meat/ham,drink/tea"
    options = ["--name", "food", "--purpose", "What people eat.", "--keys", keys, "--hierarchy", "--epsilon", "2"]
    inner = ["--mechanism", "hierarchy", "--set", "inner=ssr", "--max-pairs", "2", "--enough", "5000"]
    assert run(["campaign", "create", *options, *inner, "--out", str(file)]) == 0
    capsys.readouterr()
    assert run(["campaign", "check", str(file)]) == 0
    assert "3 of 100 people are asked how far they exceed 2 pairs" in " ".join(capsys.readouterr().out.split())


def test_a_document_is_checked_on_the_shares_that_its_author_expects(tmp_path: Path, capsys: Output) -> None:
    file = tmp_path / "snacks.json"
    assert run(["campaign", "create", *OPTIONS, "--out", str(file)]) == 0
    keys = json.loads(file.read_text())["schema"]["keys"]
    rare, held = (
        said(capsys, "campaign", "check", str(file), "--shares", ",".join(f"{key}:{share}" for key in keys))
        for share in ("0.05", "0.5")
    )
    assert rare["prediction"]["se_mean"] > 3 * held["prediction"]["se_mean"]
    assert rare["prediction"]["device_us"] > 0
    assert run(["campaign", "check", str(file), "--shares", f"{keys[0]}:0.5"]) == 2
    assert "plan/people" in capsys.readouterr().err


def test_a_document_is_checked_for_the_people_that_it_was_planned_for(tmp_path: Path, capsys: Output) -> None:
    """Unless others are named, or a round waits for another number of reports."""
    file, words = tmp_path / "snacks.json", ["--name", "snacks", "--purpose", "What people eat.", "--keys", "9"]
    expected = ["--people", "54321", "--pairs", "2.5", "--out", str(file)]
    assert run(["campaign", "create", *words, *expected]) == 0
    assert "Planned for 54,321 people" in json.loads(file.read_text())["reason"]
    capsys.readouterr()
    found = said(capsys, "campaign", "check", str(file))
    assert found["forecast"]["people"] == 54_321 and "with 2.5 pairs on average" in found["prediction"]["about"]
    assert said(capsys, "campaign", "check", str(file), "--people", "700")["forecast"]["people"] == 700
    assert run(["campaign", "create", *words, *expected, "--enough", "800"]) == 0
    capsys.readouterr()
    assert said(capsys, "campaign", "check", str(file))["forecast"]["people"] == 800


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--min-reports", "5000", "--enough", "3000"], "unwise/min-reports"),
        (["--epsilon", "9"], "unwise/epsilon"),
        (["--closes", "2020-01-01"], "unwise/over"),
        ([], "unwise/endless"),
        ([], "unwise/enrolment"),
        (["--set", "overflow=off"], "unwise/overflow"),
        (["--mechanism", "adaptive", "--set", "overflow=off"], "unwise/overflow"),
        ([], "unwise/contact"),
        (["--epsilon", "0.01", "--enough", "1000"], "unwise/noise"),
        (["--mechanism", "pilot"], "unwise/rounds"),
        (["--mechanism", "kv-sw", "--browser"], "unwise/browser"),
    ],
)
def test_what_is_probably_not_meant_is_said(options: list[str], code: str, tmp_path: Path, capsys: Output) -> None:
    file = str(tmp_path / "c.json")
    plain = ["--name", "snacks", "--purpose", "Snacks.", "--keys", "a,b,c"]
    pairs = [] if "pilot" in options else ["--max-pairs", "2"]
    assert run(["campaign", "create", *plain, *pairs, *options, "--out", file]) == 0
    capsys.readouterr()

    found = said(capsys, "campaign", "check", file, "--people", "1000")["warnings"]
    assert code in [one["code"] for one in found]


def test_for_browsers_auto_chooses_among_what_they_answer(tmp_path: Path, capsys: Output) -> None:
    """Conditionals of eight keys take moments, which the client for browsers does not know."""
    words = [
        "--name",
        "snacks",
        "--purpose",
        "Snacks.",
        "--keys",
        "a,b,c,d,e,f,g,h",
        "--people",
        "20000",
        "--pairs",
        "2",
    ]
    asked = ["campaign", "create", *words, "--goal", "conditional", "--out", str(tmp_path / "c.json")]
    assert run(asked) == 0
    assert not answered_in_browsers(json.loads((tmp_path / "c.json").read_text())["protocol"]["name"])
    capsys.readouterr()
    assert run([*asked, "--browser"]) == 2
    assert "No mechanism that was considered tells how 2 keys depend on each other" in capsys.readouterr().err


SNACKS = ("--name", "snacks", "--purpose", "Snacks.", "--keys", "a,b,c,d")


@pytest.mark.parametrize("mechanism", ["kv-sw", "moments", "split", "privkvm"])
def test_forecasts_are_made_for_all_kinds_of_questions(mechanism: str, tmp_path: Path, capsys: Output) -> None:
    file = str(tmp_path / "c.json")
    pairs = ["--max-pairs", "2"] if mechanism in ("kv-sw", "split") else []
    plain = [*SNACKS, "--mechanism", mechanism, "--epsilon", "2"]
    assert run(["campaign", "create", *plain, *pairs, "--out", file]) == 0
    capsys.readouterr()

    found = said(capsys, "campaign", "check", file, "--people", "3000")["forecast"]
    assert found["keys"] == 4 and found["exact_epsilon"] <= 2
    assert found["frequency_se"] is not None and found["mean_se"] is not None


# -- a campaign on a database ---------------------------------------------------------------------------------------


def test_a_campaign_goes_its_way(database: str, capsys: Output) -> None:
    status = said(capsys, "campaign", "status", "snack-survey", "--database", database)

    assert status["state"] == "estimated"
    assert [(one["reports"], one["folded"], one["state"]) for one in status["rounds"]] == [(2000, 2000, "folded")]
    (listed,) = said(capsys, "campaign", "list", "--database", database)["campaigns"]
    assert (listed["name"], listed["reports"]) == ("snack-survey", 2000)
    for command in (["status", "snack-survey"], ["list"], ["estimates", "snack-survey"]):
        assert run(["campaign", *command, "--database", database]) == 0
    shown = capsys.readouterr().out
    assert "2,000" in shown and "burger" in shown and "95% intervals" in shown


def test_commands_take_the_hashes_that_the_list_shows(database: str, tmp_path: Path, capsys: Output) -> None:
    assert run(["campaign", "list", "--database", database]) == 0
    (shown,) = re.findall(r"\b[0-9a-f]{12}\b", capsys.readouterr().out)
    commands = (
        ["status", shown],
        ["estimates", shown],
        ["export", shown, "--out", str(tmp_path / "r.parquet")],
        ["export", shown, "--tally", "--out", str(tmp_path / "t.tally")],
    )
    for command in commands:
        assert said(capsys, "campaign", *command, "--database", database)
    assert said(capsys, "campaign", "status", shown, "--database", database)["name"] == "snack-survey"


def test_estimates_are_shown_written_and_drawn(database: str, tmp_path: Path, capsys: Output) -> None:
    table, picture, page = tmp_path / "e.csv", tmp_path / "e.png", tmp_path / "e.html"
    files = ["--csv", str(table), "--plot", str(picture), "--report", str(page)]
    found = said(capsys, "campaign", "estimates", "snack-survey", "--database", database, *files)

    assert found["mechanism"] == "ssr" and found["reports"] == 2000
    rows = {row["key"]: row for row in found["estimates"]}
    assert abs(rows["burger"]["frequency"] - 0.5) <= 7 * rows["burger"]["frequency_se"]  # 10^-11
    with table.open(newline="") as lines:
        (first, *_) = csv.DictReader(lines)
    for name in ("frequency", "mean", "mean_se", "mean_high"):
        assert float(first[name]) == pytest.approx(rows["burger"][name])
    assert picture.read_bytes().startswith(b"\x89PNG") and "burger" in page.read_text()
    clipped = said(
        capsys, "campaign", "estimates", "snack-survey", "--database", database, "--postprocess", "base-pos"
    )["estimates"]
    assert all(row["frequency"] >= 0 for row in clipped)


def test_exports_count_to_the_same_tally(database: str, tmp_path: Path, capsys: Output) -> None:
    file, counts = tmp_path / "reports.parquet", tmp_path / "counts.tally"
    reports = said(capsys, "campaign", "export", "snack-survey", "--database", database, "--out", str(file))
    said(capsys, "campaign", "export", "snack-survey", "--database", database, "--tally", "--out", str(counts))
    assert run(["tally", str(file), "--out", str(tmp_path / "again.tally")]) == 0

    assert (reports["round"], reports["reports"]) == (1, 2000)
    again = Tally.from_bytes((tmp_path / "again.tally").read_bytes())
    assert again == Tally.from_bytes(counts.read_bytes()) and again.reports == 2000
    capsys.readouterr()
    direct = said(capsys, "campaign", "estimates", "snack-survey", "--database", database)["estimates"]
    assert said(capsys, "estimate", str(counts))["estimates"] == direct


def test_an_earlier_round_can_be_exported_and_counted(tmp_path: Path, capsys: Output) -> None:
    where = ["--database", str(tmp_path / "c.db")]
    plain = ["--name", "pilot", "--purpose", "Snacks.", "--keys", "burger,fries,pepsi", "--low", "1", "--high", "5"]
    pilot = ["--mechanism", "pilot", "--set", "share=0.5", "--min-reports", "50"]
    assert run(["campaign", "create", *plain, *pilot, *where]) == 0
    assert run(["campaign", "open", "pilot", *where]) == 0
    service = Service(f"sqlite:///{tmp_path / 'c.db'}")
    answer = service.submit("pilot", batch(service.view("pilot"), 400)).result(60)
    service.close()
    assert run(["campaign", "close", "pilot", *where]) == 0
    capsys.readouterr()
    file = tmp_path / "first.parquet"
    status = said(capsys, "campaign", "status", "pilot", *where)
    exported = said(capsys, "campaign", "export", "pilot", "--round", "1", "--out", str(file), *where)

    assert [one["state"] for one in status["rounds"]] == ["folded", "open"]
    assert status["refused"] == {"report/part": 400 - answer.accepted}  # half of the ids belong to the other group
    assert exported["reports"] == answer.accepted > 0
    counted = said(capsys, "tally", str(file))
    assert (counted["mechanism"], counted["round"], counted["reports"]) == ("set-size", 1, answer.accepted)

    # Its people were only asked how many pairs they hold: a sentence says so, and no file is made.
    asked, table = ["campaign", "estimates", "pilot", "--round", "1", *where], tmp_path / "s.csv"
    for command in (asked, ["estimate", str(tmp_path / "first.tally")]):
        assert run(command) == 0
        assert capsys.readouterr().out == "The reports of set-size tell neither frequencies nor means of keys.\n"
        assert "estimate/silent" in refused(capsys, *command, "--plot", str(tmp_path / "s.png"))
    assert "estimate/silent" in refused(capsys, *asked, "--csv", str(table))
    assert len(said(capsys, *asked)["estimates"]) == 3 and not table.exists()


def test_long_lists_of_keys_go_beside_the_document(tmp_path: Path, capsys: Output) -> None:
    names, file = tmp_path / "names.txt", tmp_path / "apps.json"
    names.write_text("".join(f"app-{number:05d}\n" for number in range(3000)))
    plain = ["--name", "apps", "--purpose", "Apps.", "--keys", f"@{names}", "--mechanism", "kvue"]
    where = ["--database", str(tmp_path / "c.db")]

    assert run(["campaign", "create", *plain, "--out", str(file)]) == 0
    capsys.readouterr()
    view = said(capsys, "campaign", "create", str(file), *where)
    assert view["campaign"]["schema"]["keys"]["count"] == 3000
    assert said(capsys, "campaign", "open", "apps", *where)["state"] == "open"
    assert said(capsys, "campaign", "check", str(file), "--people", "500")["hash"] == view["hash"]


def test_enrolment_tokens_are_made_once(tmp_path: Path, capsys: Output) -> None:
    where, file = ["--database", str(tmp_path / "c.db")], tmp_path / "tokens.txt"
    assert run(["campaign", "create", *OPTIONS, "--enrolment", "token", *where]) == 0
    capsys.readouterr()

    shown = said(capsys, "campaign", "enrol", "snack-survey", "--count", "3", *where)["tokens"]
    assert len(set(shown)) == 3
    assert run(["campaign", "enrol", "snack-survey", "--count", "2", "--out", str(file), *where]) == 0
    assert len(file.read_text().split()) == 2 and file.stat().st_mode & 0o777 == 0o600
    capsys.readouterr()
    assert "output/file" in refused(capsys, "campaign", "enrol", "snack-survey", "--out", str(file), *where)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["list"], "campaign/where"),
        (["list", "--database", "none.db"], "campaign/database"),
        (["list", "--database", "none/none.db"], "campaign/database"),
        (["status", "nobody", "--database", "DB"], "campaign/unknown"),
        (["status", "no/body", "--database", "DB"], "campaign/name"),
        (["open", "snack-survey", "--database", "DB"], "campaign/state"),
        (["estimates", "snack-survey", "--round", "2", "--database", "DB"], "round/unknown"),
        (["estimates", "snack-survey", "--confidence", "2", "--database", "DB"], "estimate/confidence"),
        (["enrol", "snack-survey", "--database", "DB"], "enrolment/none"),
        (["create", "missing.json", "--database", "DB"], "input/file"),
        (["create", "--name", "x", "--purpose", "y", "--keys", "a", "--max-pairs", "1"], "campaign/where"),
        (["create", "--name", "x", "--purpose", "y", "--database", "DB"], "campaign/keys"),
        (["create", "--name", "x", "--keys", "a", "--max-pairs", "1", "--database", "DB"], "campaign/purpose"),
        (["check", "missing.json"], "input/file"),
        (["check", "digits.json"], "input/json"),
        (["create", "digits.json", "--database", "DB"], "input/json"),
        (["export", "snack-survey", "--out", ".", "--database", "DB"], "output/file"),
        (["export", "snack-survey", "--out", "folder/", "--database", "DB"], "output/file"),
        (["export", "snack-survey", "--tally", "--out", ".", "--database", "DB"], "output/file"),
        (["estimates", "snack-survey", "--csv", "folder", "--database", "DB"], "output/file"),
        (["list", "--server", "http://203.0.113.9:1"], "use https. [transport/plain]"),
        (["list", "--server", "http://127.0.0.1:9"], "http://127.0.0.1:9"),
        (["list", "--server", "http://127.0.0.1:9", "--database", "DB"], "not both"),
        (["status", "", "--database", "DB"], "campaign/name"),
        (["check", "folder", "--keys-file", "missing"], "'missing' does not exist"),
        (["estimates", "snack-survey", "--plot", "plain", "--database", "DB"], ".png, .svg or .pdf"),
        (["estimates", "snack-survey", "--plot", ".", "--database", "DB"], ".png, .svg or .pdf"),
        (["list", "--server", "http://127.0.0.1:9", "--token-file", "missing"], "access/file"),
        (["nonsense"], ""),
    ],
    ids=str,
)
def test_bad_input_ends_with_one_line(
    arguments: list[str], code: str, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "digits.json").write_text("9" * 10_000)
    assert code in refused(capsys, "campaign", *(database if one == "DB" else one for one in arguments))


def test_what_is_kept_is_for_its_owner_only(database: str, tmp_path: Path) -> None:
    reports, counts = tmp_path / "r.parquet", tmp_path / "c.tally"
    where = ["--database", database]
    assert run(["campaign", "export", "snack-survey", "--out", str(reports), *where]) == 0
    assert run(["campaign", "export", "snack-survey", "--tally", "--out", str(counts), *where]) == 0
    assert {file.stat().st_mode & 0o777 for file in (Path(database), reports, counts)} == {0o600}
    assert json.loads(Path(f"{counts}.json").read_text())["min_reports"] == 100


def test_a_campaign_alone_shows_what_there_is(capsys: Output) -> None:
    assert run(["campaign"]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 10


def test_a_campaign_whose_days_are_past_is_not_opened(tmp_path: Path, capsys: Output) -> None:
    where = ["--database", str(tmp_path / "c.db")]
    assert run(["campaign", "create", *OPTIONS, "--closes", "2020-01-31", *where]) == 0
    capsys.readouterr()
    assert "2020-01-31" in refused(capsys, "campaign", "open", "snack-survey", *where)
    assert said(capsys, "campaign", "status", "snack-survey", *where)["state"] == "draft"


def test_a_file_alone_is_no_upload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    monkeypatch.setenv("KEYVEIL_SERVER", "http://127.0.0.1:9")
    assert run(["campaign", "create", *OPTIONS, "--out", str(tmp_path / "c.json")]) == 0
    named = ["--out", str(tmp_path / "d.json"), "--server", "http://127.0.0.1:9"]
    assert run(["campaign", "create", *OPTIONS, *named]) == 2


def test_nothing_is_shown_about_few(tmp_path: Path, capsys: Output) -> None:
    where = ["--database", str(tmp_path / "c.db")]
    assert run(["campaign", "create", *OPTIONS, *where]) == 0
    assert run(["campaign", "open", "snack-survey", *where]) == 0
    capsys.readouterr()

    assert "campaign/too-few" in refused(capsys, "campaign", "estimates", "snack-survey", *where)
    assert said(capsys, "campaign", "stop", "snack-survey", *where)["state"] == "closed"


# -- the same over HTTP ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The address of a collector, and a file with its admin token."""
    folder = tmp_path_factory.mktemp("server")
    with running_collector(folder / "collector.db", folder / "log", **TWINS) as (address, token):
        (folder / "token").write_text(token + "\n")
        yield address, str(folder / "token")


def test_a_campaign_on_a_server(server: tuple[str, str], tmp_path: Path, capsys: Output) -> None:
    address, token_file = server
    where = ["--server", address, "--token-file", token_file]
    said(capsys, "campaign", "create", *OPTIONS, *where)
    view = said(capsys, "campaign", "open", "snack-survey", *where)
    sent = batch(view, 500)
    path = "/v1/campaigns/snack-survey/reports"
    for body in (sent.to_packed(), sent.to_packed()):  # once more changes nothing
        assert HttpTransport(address).request("POST", path, body, {"Content-Type": PACKED}).status == 200
    said(capsys, "campaign", "stop", "snack-survey", *where)
    file = tmp_path / "r.parquet"
    exported = said(capsys, "campaign", "export", "snack-survey", *where, "--out", str(file))

    assert exported["reports"] == 500
    status = said(capsys, "campaign", "status", "snack-survey", *where)
    assert (status["reports"], status["duplicates"]) == (500, 500)
    assert run(["tally", str(file)]) == 0
    capsys.readouterr()
    assert said(capsys, "estimate", str(file.with_suffix(".tally")))["n"] == 500


def test_a_server_is_asked_with_the_right_token_only(
    server: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    address, token_file = server
    wrong = tmp_path / "wrong"
    wrong.write_text(hashlib.sha256(b"guess").hexdigest())

    needed = refused(capsys, "campaign", "list", "--server", address)
    assert "access/needed" in needed and "--token-file" in needed
    assert "access/unknown" in refused(capsys, "campaign", "list", "--server", address, "--token-file", str(wrong))
    monkeypatch.setenv("KEYVEIL_TOKEN", Path(token_file).read_text())
    monkeypatch.setenv("KEYVEIL_SERVER", address)
    assert "campaigns" in said(capsys, "campaign", "list")


def test_a_named_database_goes_before_the_environment(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.setenv("KEYVEIL_SERVER", "http://127.0.0.1:9")
    file = str(tmp_path / "r.parquet")
    exported = said(capsys, "campaign", "export", "snack-survey", "--database", database, "--out", file)
    assert exported["reports"] == 2000
