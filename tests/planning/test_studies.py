"""The studies of the planner: in small form here, at full size by ``make soak``, which writes their pages."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keyveil.planning.predict import predict
from keyveil.planning.studies import choices, predictions, scenarios
from keyveil.planning.studies.journal import go_on, read
from keyveil.planning.studies.regret import Cell, cells, gain, measured, regret

Record = Callable[[str, Any], None]
DOCS = Path(__file__).parents[2] / "docs"

KVUE, SPARSE = 13, 9  # scenarios: kvue on `skewed` with many means, and ssr with an overflow group on `baskets`


@pytest.mark.parametrize("number", [KVUE, SPARSE])
def test_a_scenario_compares_a_prediction_with_what_happens(number: int) -> None:
    """Within six of its own standard errors and 8 %, errors and half-widths alike."""
    line = scenarios.measured(number, most=32)
    ratios = [told / seen for told, seen in zip(line["predicted"], line["simulated"], strict=True)]
    for ratio, error in zip(ratios, line["se"], strict=True):
        assert abs(ratio - 1) < 6 * error + 0.08


def test_a_wrong_prediction_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with half of the people: errors are then said to be 1.4 times as large."""
    monkeypatch.setattr(scenarios, "predict", lambda made, people: predict(made, people.of(people.n // 2)))
    line = scenarios.measured(KVUE, most=32)
    assert line["predicted"][0] / line["simulated"][0] > 1.3
    assert line["predicted"][2] / line["simulated"][2] > 1.3


def test_scenarios_that_cannot_be_say_why() -> None:
    assert "predicts no errors" in scenarios.measured(7)["refused"]
    assert "No key is held" in scenarios.predicted(38)["refused"]


def line_of(scenario: int, frequency: float, **more: Any) -> dict[str, Any]:
    told = {"mechanism": "ssr", "population": "tail", "n": 3000, "d": 5, "epsilon": "1", "options": {}, "keys": 5}
    numbers = {"predicted": [frequency, None, 1.0, None], "simulated": [1.0, None, 1.0, None]}
    return {"scenario": scenario, **told, "means": 0, **numbers, "se": [0.01, None, 0.01, None], "repeats": 32, **more}


def test_the_page_of_predictions_counts_what_is_known() -> None:
    lines = [
        line_of(0, 1.05),
        line_of(1, 1.2),
        line_of(2, 3.0, se=[0.03, None, 0.01, None]),
        {"scenario": 3, "refused": "No."},
    ]
    assert len(predictions.counted(lines)) == 2
    assert predictions.within(predictions.counted(lines), 0) == (1, 2)
    page = predictions.page(lines, "python")
    assert "2 of 1,000 scenarios are shown, of 4 that were drawn" in page
    assert "| ssr | tail | 3,000 | 5 | 1 | error of frequencies | 1.20 |" in page
    assert "Nothing was simulated yet" in predictions.page([], "python")


def test_a_study_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    journal, asked = tmp_path / "lines.jsonl", list[int]()

    def one(number: int) -> dict[str, Any]:
        asked.append(number)
        return {"square": number**2}

    assert len(go_on(journal, "number", range(9), one, 60, lambda known: len(known) >= 3)) == 3
    assert go_on(journal, "number", range(5), one, 60)[4] == {"number": 4, "square": 16}
    assert asked == [0, 1, 2, 3, 4]
    assert list(read(journal, "number")) == [0, 1, 2, 3, 4]
    assert go_on(journal, "number", range(9), one, minutes=-1).keys() == set(range(5))


def test_predictions_are_made_again_without_simulating(tmp_path: Path) -> None:
    """A line whose scenario is the same keeps what was simulated; one that would differ is dropped."""
    results = tmp_path / "predictions.jsonl"
    line = scenarios.measured(KVUE, most=2)
    old = {"scenario": KVUE, **line, "predicted": [9.0, 9.0, 9.0, 9.0]}
    other = {**old, "scenario": SPARSE}
    results.write_text("\n".join(map(json.dumps, (old, other))) + "\n")
    predictions.again(results)
    kept = read(results, "scenario")
    assert list(kept) == [KVUE]
    assert kept[KVUE]["predicted"] == line["predicted"]
    assert kept[KVUE]["simulated"] == line["simulated"]


def test_a_cell_measures_auto_against_the_others() -> None:
    """The best of all after the fact is hardly better than what was chosen, and the published are there."""
    line = measured(Cell("survey", "2"), seed=3, people=1_000, repeats=2)
    rows = {(row["quantity"], row["decoder"]): row for row in line["rows"]}
    assert set(rows) == {(one, decoder) for one in ("frequency", "mean", "mean_top") for decoder in ("raw", "bayes")}
    assert line["measured"] > 10
    assert regret(rows["mean", "raw"]) < 1.5
    assert gain(rows["mean", "raw"]) > 0.6
    page = choices.page([{"cell": "survey, ε = 2", **line}], len(cells()), "python")
    assert "1 of 116 cells were measured." in page
    assert "| means of the 20 most frequent keys | with empirical Bayes |" in page


def row_of(auto: float, best: float, published: float, won: int) -> dict[str, Any]:
    who = {"auto": ["ssr"], "best": ["wheel:arc=3"], "published": ["kvue"]}
    errors = {"auto": [auto, 0.1], "best": [best, 0.1], "published": [published, 0.1]}
    return {"quantity": "mean", "decoder": "raw", **errors, "who": who, "won": won}


def test_the_page_of_choices_lists_regrets_and_losses() -> None:
    line = {"cell": "a", "data": "folder/people.csv", "epsilon": "1", "rows": [row_of(2.0, 1.0, 0.5, -1)]}
    page = choices.page([line, {**line, "rows": [row_of(1.0, 1.0, 4.0, 1)]}], 2, "python")
    assert "- people, ε = 1, means: 1.41, `ssr` against `wheel`" in page
    assert "- people, ε = 1, means, as estimated: 0.25, `ssr` against `kvue`" in page
    assert "| means | 1 of 2 (50%) | **not reached** | 1.41 | **not reached** | 1.189 |" in page
    assert (
        "| means | as estimated | 1.00 | 1.3, **not reached** | 0.25 | 4.00 | 1 | 0 | 1 | 50%, **not reached** |"
        in page
    )


@pytest.mark.soak
def test_errors_of_a_thousand_scenarios_are_as_predicted(record_property: Record) -> None:
    """Goes on with docs/predictions.jsonl and writes the page."""
    page = DOCS / "predictions.md"
    lines = predictions.study(page.with_suffix(".jsonl"))
    page.write_text(predictions.page(lines, predictions.command()), encoding="utf-8")
    sure = predictions.counted(lines)
    record_property("scenarios", len(sure))
    for place, quantity in enumerate(scenarios.QUANTITIES):
        right, known = predictions.within(sure, place)
        record_property(quantity, f"{right} of {known} within 10 %")
        assert right >= predictions.GOAL * known


@pytest.mark.soak
def test_auto_is_close_to_the_best_in_most_cells(record_property: Record) -> None:
    """Goes on with docs/choices.jsonl and writes the page; what the page says is missed is missed here, too."""
    page = DOCS / "choices.md"
    lines, of = choices.study(page.with_suffix(".jsonl"))
    page.write_text(choices.page(lines, of, choices.command()), encoding="utf-8")
    record_property("cells", f"{len(lines)} of {of}")
    for quantity in choices.GAINS:
        found = [regret(row) for _, row in choices.rows(lines, quantity, "raw")]
        close = sum(one <= choices.CLOSE for one in found) / len(found)
        record_property(quantity, f"{close:.0%} within {choices.CLOSE:g}, largest {max(found):.2f}")
        assert close >= choices.MOST_CELLS
        assert max(found) <= choices.FARTHEST
        against = [row for _, row in choices.rows(lines, quantity, "bayes")]
        mean = math.exp(sum(math.log(gain(row)) for row in against) / len(against))
        record_property(f"{quantity}, gain", f"{mean:.2f}, {sum(row['won'] < 0 for row in against)} cells lost")
        assert mean >= choices.GAINS[quantity]
        assert sum(row["won"] >= 0 for row in against) >= choices.NOT_WORSE * len(against)
