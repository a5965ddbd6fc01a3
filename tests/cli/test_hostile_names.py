"""Names that look like orders to whoever prints them: every command shows them as they are spelled."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from keyveil.campaign.documents import Campaign
from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.wire import Batch, pad
from keyveil.cli.app import run
from keyveil.cli.demo import _table as demo_table
from keyveil.cli.terminal import Terminal, harmless
from keyveil.collector.service import Service
from keyveil.core.coins import Coins
from keyveil.frames.population import Population
from keyveil.lab.simulate import simulate

Output = pytest.CaptureFixture[str]

KEYS = (
    "[/b]",
    "[red]x",
    "[nan, nan]",
    "[/]",
    "[link=x]y[/link]",
    ":apple:",
    "\\[b]",
    "\x1b[31mred",
    "$\\frac$",
    "a\u202eb",
)
PEOPLE = [{key: 1 + (at + person) % 5 for at, key in enumerate(KEYS) if (at + person) % 3} for person in range(60)]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "[red]$\\frac$[b].csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("user", "key", "value"))
        rows.writerows((at, key, value) for at, person in enumerate(PEOPLE) for key, value in person.items())
    return path


def shown(output: Output, *arguments: str) -> str:
    """What a command that ends well says, both ways together; it says nothing to the terminal itself."""
    status = run(list(arguments))
    out, err = output.readouterr()
    assert status == 0, err
    assert "\x1b" not in out + err and "\u202e" not in out + err
    return out + err


def all_there(text: str, *names: str) -> bool:
    return all(harmless(name) in text for name in names)


def test_simulate(data: Path, tmp_path: Path, capsys: Output) -> None:
    picture = str(tmp_path / "picture.png")
    text = shown(
        capsys, "simulate", str(data), "--mechanism", "kvue", "--epsilon", "1", "--seed", "1", "--plot", picture
    )
    assert all_there(text, *KEYS, data.stem)


def test_simulate_with_rounds(data: Path, capsys: Output) -> None:
    text = shown(capsys, "simulate", str(data), "--mechanism", "pilot", "--epsilon", "2", "--seed", "1")
    assert all_there(text, *KEYS)


@pytest.mark.parametrize(
    ("mechanism", "questions", "answers"),
    [
        ("moments", ["--given", "[/b]|![red]x"], ["not [red]x"]),
        (
            "kvue",
            ["--subset", "[/b],[red]x", "--compare", "[/b],[/]", "--rank", "10"],
            ["[/b] + [red]x", "[/b] - [/]", "The most frequent keys"],
        ),
    ],
)
def test_estimate_with_every_question(
    mechanism: str, questions: list[str], answers: list[str], data: Path, tmp_path: Path, capsys: Output
) -> None:
    tally = str(tmp_path / "[red]counts[b].kvt")
    ask = ["simulate", str(data), "--mechanism", mechanism, "--epsilon", "1", "--seed", "1", "--tally", tally]
    assert "[red]counts[b].kvt" in shown(capsys, *ask)
    page, picture = str(tmp_path / "page.html"), str(tmp_path / "picture.png")
    text = shown(capsys, "estimate", tally, *questions, "--report", page, "--plot", picture)
    assert all_there(text, *KEYS, *answers)


def test_compare(data: Path, tmp_path: Path, capsys: Output) -> None:
    compared = ["compare", str(data), "--epsilon", "1", "--mechanisms", "kvue,ioh"]
    text = shown(capsys, *compared, "--plot", str(tmp_path / "picture.png"))
    assert all_there(text, f"{data.stem}: mean squared errors")
    shown(capsys, *compared, "--page", str(tmp_path / "page.md"))
    assert "\\[red\\]" in (tmp_path / "page.md").read_text()


def test_audit(capsys: Output) -> None:
    records = ["--record", '{"[red]x": 1}', "--record", '{"[/b]": -1}']
    text = shown(
        capsys,
        "audit",
        "--subject",
        "tests.cli.test_hostile_names:safe",
        "--epsilon",
        "1",
        "--seconds",
        "1",
        *records,
    )
    assert all_there(text, "'[red]x'", "'[/b]'")


def safe(record: Any) -> int:
    """Tells the records apart at once, and by less than ε: the pair is shown."""
    return int(Coins().chance(3 if "[red]x" in record else 2, 5))


def test_campaigns(tmp_path: Path, capsys: Output) -> None:
    database, file, keys = str(tmp_path / "collector.db"), str(tmp_path / "[b]c.json"), tmp_path / "keys"
    told = [key for key in KEYS if "\x1b" not in key]
    keys.write_text("\n".join(told))
    described = [
        "--name",
        "survey",
        "--purpose",
        "[red]Why[/b]",
        "--keys",
        f"@{keys}",
        "--contact",
        "[/b]",
        "--low",
        "1",
        "--high",
        "5",
    ]
    asked = ["--mechanism", "kvue", "--epsilon", "1", "--min-reports", "1", "--enough", "50"]
    assert "[b]c.json" in shown(capsys, "campaign", "create", *described, *asked, "--out", file)
    shown(capsys, "campaign", "check", file)
    shown(capsys, "campaign", "create", file, "--database", database)
    shown(capsys, "campaign", "open", "survey", "--database", database)
    service = Service(f"sqlite:///{database}")
    service.submit("survey", _batch(service.view("survey"))).result(60)
    service.close()
    shown(capsys, "campaign", "list", "--database", database)
    shown(capsys, "campaign", "status", "survey", "--database", database)
    table = str(tmp_path / "[b].csv")
    text = shown(capsys, "campaign", "estimates", "survey", "--database", database, "--csv", table)
    assert all_there(text, *told, "[b].csv")


def _batch(view: dict[str, Any]) -> Batch:
    campaign, coins = Campaign.from_document(view["campaign"]), Coins()
    asked = RoundDocument.from_document(view["round"]["document"], campaign)
    made = [asked.mechanism.perturb(person, coins) for person in PEOPLE]
    payloads = tuple(pad(asked.mechanism.encode(one), asked.report_bytes, asked.mechanism.codec.varies) for one in made)
    return Batch(asked.number, asked.hash, tuple(one.public for one in made), payloads)


def test_the_table_of_the_demo() -> None:
    people = Population.from_records(PEOPLE)
    result = simulate("kvue", people, people.schema(), 4, seed=1)
    assert all_there(_printed(demo_table(result.estimates)), *KEYS)


def _printed(what: Any) -> str:
    file = io.StringIO()
    Terminal(file=file, width=200).print(what)
    return file.getvalue()


@pytest.mark.parametrize(
    "arguments",
    [
        ["simulate", "[nan][red]x.csv", "--mechanism", "kvue", "--epsilon", "1"],
        ["simulate", "DATA", "--mechanism", "[nan][red]x", "--epsilon", "1"],
        ["simulate", "DATA", "--mechanism", "kvue", "--epsilon", "1", "--set", "[nan][red]x=1"],
        ["simulate", "DATA", "--mechanism", "kvue", "--epsilon", "1", "--key", "[nan][red]x"],
        ["simulate", "synthetic:[nan][red]x", "--mechanism", "kvue", "--epsilon", "1"],
        ["compare", "DATA", "--epsilon", "1", "--mechanisms", "[nan][red]x"],
        ["estimate", "[nan][red]x"],
        ["audit", "--subject", "[nan][red]x", "--epsilon", "1"],
        ["campaign", "check", "[nan][red]x"],
        ["tally", "[nan][red]x"],
    ],
    ids=lambda arguments: " ".join(arguments[:3]),
)
def test_refusals_repeat_what_was_given(arguments: list[str], data: Path, capsys: Output) -> None:
    assert run([str(data) if one == "DATA" else one for one in arguments]) == 2
    said = capsys.readouterr().err
    assert "[nan][red]x" in said and said.startswith("keyveil: ") and "Traceback" not in said


@pytest.mark.parametrize("name", KEYS)
def test_cells_titles_and_sentences_are_text(name: str) -> None:
    table = Table(title=f"title {name}", caption=f"caption {name}")
    table.add_column(f"column {name}")
    table.add_row(f"cell {name}")
    table.add_row(Text("styled", style="bold"))
    printed = _printed(table) + _printed(f"sentence {name}")
    assert all_there(printed, *(f"{place} {name}" for place in ("title", "caption", "column", "cell", "sentence")))
    assert "\x1b" not in printed


def test_another_console_would_obey() -> None:
    """What the tests above would see if somebody wrote past the terminal."""
    file = io.StringIO()
    Console(file=file).print("[nan, nan] :apple:")
    assert "nan" not in file.getvalue() and "apple" not in file.getvalue()


def test_commands_have_no_other_console() -> None:
    import keyveil.cli

    folder = Path(str(keyveil.cli.__file__)).parent
    makers = {path.name for path in folder.glob("*.py") if "Console(" in path.read_text()}
    assert makers <= {"terminal.py", "certify.py"}  # the latter shows numbered keys only


def test_json_keeps_names_byte_by_byte(data: Path, capsys: Output) -> None:
    assert run(["simulate", str(data), "--mechanism", "kvue", "--epsilon", "1", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["estimates"]
    assert {row["key"] for row in rows} == set(KEYS)
