"""``keyveil plan``: the table, the object, wishes, pictures, and one line for what cannot be planned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keyveil.cli.app import run

Output = pytest.CaptureFixture[str]

FEW = ["plan", "--users", "5000", "--keys", "10", "--pairs", "3", "--epsilon", "2", "--mechanisms", "kvue,wheel,block"]


def test_the_object_has_what_was_agreed(capsys: Output) -> None:
    assert run([*FEW, "--json", "--preview", "3"]) == 0
    out, _ = capsys.readouterr()
    found = json.loads(out)
    names = [one["name"] for one in found["mechanisms"]]
    assert found["best"] == names[0] and set(names) == {"kvue", "wheel", "block"}
    for one in found["mechanisms"]:
        assert {"name", "se_frequency", "se_mean", "bits", "rounds", "why", "smallest", "change"} <= set(one)
        assert {"difference", "device_us", "server_us", "half_width_frequency", "half_width_mean"} <= set(one)
        assert one["device_us"] > one["server_us"] > 0
    assert len(found["preview"]["results"]) == 20
    assert "at most 7.39" in found["epsilon_in_words"]
    assert found["shuffled"]["people"] == 5000 and 0 < found["shuffled"]["epsilon"] < 1
    assert found["shuffled"]["method"] == "upper bound" and "not such a channel" in found["shuffled"]["note"]


def test_the_table_has_a_reason_in_every_line(capsys: Output) -> None:
    assert run([*FEW, "--error", "0.01", "--goal", "frequency"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "least error" in shown and "a report is about one key of 10" in shown
    assert "it takes" in shown and "Best: " in shown
    assert "A root mean squared error, by people" in shown and "▶" in shown
    assert "device µs" in shown and "server µs" in shown


def test_what_is_impossible_is_answered_with_what_is_possible(capsys: Output) -> None:
    """An error below what a sample of so many people allows."""
    assert run([*FEW, "--goal", "change", "--error", "1e-7"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "no number of people is enough" in shown
    assert "no epsilon up to 8 is enough; at 8 0." in shown and "is possible" in shown


def test_groups_have_a_table(capsys: Output) -> None:
    assert run([*FEW, "--groups", "de:0.7,fr:0.3"]) == 0
    shown = capsys.readouterr().out
    assert "By group" in shown and "70.0%" in shown


def test_curves_are_shown_and_drawn(tmp_path: Path, capsys: Output) -> None:
    picture = tmp_path / "curves.svg"
    assert run([*FEW, "--mechanisms", "kvue", "--curves", "--plot", str(picture)]) == 0
    shown = capsys.readouterr().out
    assert all(f"Error by {axis}" in shown for axis in ("epsilon", "people", "keys"))
    assert picture.read_text().startswith("<?xml")


def test_a_wish_is_drawn_with_its_point(tmp_path: Path) -> None:
    picture = tmp_path / "wish.svg"
    assert run([*FEW, "--mechanisms", "kvue", "--change", "0.05", "--curves", "--plot", str(picture)]) == 0
    assert (
        picture.read_text().count('id="axes_') == 5
    )  # errors over epsilon, people and keys; the wish over people and epsilon


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (["plan"], "plan/people"),
        ([*FEW, "--epsilon", "-1"], "epsilon/"),
        ([*FEW, "--goal", "joy"], "plan/goal"),
        ([*FEW, "--users", "0"], "plan/people"),
        ([*FEW, "--bits", "1"], "plan/bits"),
        ([*FEW, "--error", "7"], "plan/wish"),
        ([*FEW, "--preview", "nobody"], "plan/key"),
        ([*FEW, "--mechanisms", "nothing"], "mechanism/unknown"),
        (["plan", "--sample", "missing.csv"], "population/"),
        ([*FEW, "--epsilon", "0"], "epsilon/invalid"),
        ([*FEW, "--pairs", "20"], "plan/people"),
        ([*FEW, "--goal", "conditional", "--mechanisms", "kvue"], "plan/goal"),
        (["plan", "--sample", "synthetic:zipf:200", "--keys", "7"], "plan/sample"),
        ([*FEW, "--groups", "de"], "plan/groups"),
        ([*FEW, "--rounds", "0"], "plan/rounds"),
        ([*FEW, "--error", "0.01", "--change", "0.02"], "plan/wish"),
    ],
)
def test_what_cannot_be_planned_is_one_line(given: list[str], code: str, capsys: Output) -> None:
    assert run(given) == 2
    out, err = capsys.readouterr()
    assert out == "" and code in err and err.startswith("keyveil: ") and err.count("\n") == 1
