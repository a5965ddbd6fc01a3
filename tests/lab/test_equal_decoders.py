"""The small form of docs/equal-decoders.md: the rule looks at no run, and the page counts what was measured."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from keyveil.lab import datasets
from keyveil.lab.contenders import of_project
from keyveil.lab.equal_decoders import rule
from keyveil.lab.equal_decoders.cells import Cell, Duel, Measured, measure
from keyveil.lab.equal_decoders.rule import OURS, PUBLISHED, Setting, predictions, worth_measuring
from keyveil.lab.predicted import caps_to_try, predicted_errors
from keyveil.lab.scores import Score
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.registry import make
from keyveil.planning.ask import plan
from keyveil.planning.studies import equal_decoders as pages
from keyveil.planning.studies.looked_at import looked_at


@pytest.fixture(scope="module")
def setting() -> Setting:
    data = datasets.load("linear-s", n=500, seed=1)
    return Setting(data.schema, data.population, data.population.truth(data.schema), Fraction(1))


def test_sides_are_what_their_pages_say() -> None:
    assert all(map(of_project, OURS)) and not any(map(of_project, PUBLISHED))


def test_the_choice_is_the_first_line_of_a_plan_for_the_quantity_and_the_decoder(setting: Setting) -> None:
    raw, shrunk = (pages.planned(setting, "frequency", decoder) for decoder in ("raw", "bayes"))
    assert raw.name in OURS and shrunk.name in OURS
    sample, epsilon = setting.people, setting.epsilon
    found = plan(sample=sample, schema=setting.schema, epsilon=epsilon, goal="frequency", mechanisms=OURS)
    assert repr(raw) == repr(found.mechanism) and found.epsilon == raw.epsilon == 1
    assert pages.planned(setting, "frequency", "norm-sub") == raw


def test_published_forms_are_left_out_only_where_they_are_predicted_to_lose(setting: Setting) -> None:
    kept, known = worth_measuring(setting), predictions(setting, PUBLISHED)
    assert {"kvue", "privkvm:rounds=1,virtual=5,estimator=published"} <= set(kept)  # PrivKVM does not predict
    for label in set(known) - set(kept):
        better = [one for one in kept if known[one].get("frequency", 9) < known[label]["frequency"]]
        assert better


def test_a_cap_is_charged_for_what_it_hides(setting: Setting) -> None:
    """Everybody holds five pairs: a cap of one is cheap in variance, and hides four fifths of every frequency."""
    low, right = (make("ssr", setting.schema, 4, max_pairs=cap) for cap in (1, 5))
    errors = [predicted_errors(one, setting.people, setting.truth) for one in (low, right)]
    assert errors[0] is not None and errors[1] is not None
    for quantity in ("frequency", "mean"):
        assert errors[0][quantity] > 1.5 * errors[1][quantity]
    assert caps_to_try(setting.people.sizes, 20) == (5,)
    assert caps_to_try(datasets.load("heavy", n=500, seed=1).population.sizes, 100)[0] == 1


def test_predictions_are_what_runs_show(setting: Setting) -> None:
    """Within a factor of two: 30 runs of 20 keys, whose mean squared error has a relative spread of about 6 %."""
    from keyveil.lab.compare import compare

    data = datasets.load("linear-s", n=500, seed=1)
    errors = predicted_errors(make("kvue", data.schema, 4), data.population, setting.truth)
    found = compare(data, 4, ["kvue"], repeats=30, seed=1)
    assert errors is not None
    assert errors["frequency"] == pytest.approx(found.error("kvue", Fraction(4), "frequency"), rel=0.35)
    assert 0.5 < errors["mean_top"] / float(found.error("kvue", Fraction(4), "mean_top") or 0) < 2


def test_a_cell_is_measured_written_down_and_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule, "PUBLISHED", ("kvue", "pckv-grr:split=paper"))
    made = make("wsr", datasets.load("linear-s", n=300, seed=3).schema, 4, max_pairs=5)

    def chosen(setting: Setting, quantity: str, decoder: str) -> str | Mechanism:
        return replace(made, schema=setting.schema) if (quantity, decoder) == ("mean", "bayes") else "wsr"

    one = measure(Cell("linear-s", "4"), seed=3, people=300, repeats=2, rule=chosen)
    assert {(duel.quantity, duel.decoder) for duel in one.duels} >= {("frequency", "norm-sub"), ("mean_top", "bayes")}
    forms = {(duel.quantity, duel.decoder): duel.ours.forms[0] for duel in one.duels}
    assert forms.pop(("mean", "bayes")).startswith("wsr:max_pairs=5") and set(forms.values()) == {"wsr"}
    assert one.people == 300
    assert not any(of_project(label) for duel in one.duels for label in duel.published.forms)
    assert Measured.from_document(json.loads(json.dumps(one.document()))) == one

    results = tmp_path / "page.jsonl"
    results.write_text(json.dumps(one.document()) + "\n")
    again = pages.measure_all([one.cell], results, seed=9, minutes=1, workers=1, people=300, repeats=2)
    assert again == [one] and results.read_text().count("\n") == 1  # nothing is measured twice


def test_levels_are_not_told_to_anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    """With levels KVUE would report them instead of signs, and look worse than what was published."""
    seen: list[Setting] = []

    def first(setting: Setting, quantity: str, decoder: str) -> str:
        seen.append(setting)
        return "wsr"

    monkeypatch.setattr(rule, "PUBLISHED", ("kvue",))
    assert datasets.load("survey", n=50, seed=1).schema.levels is not None
    assert measure(Cell("survey", "4"), seed=1, people=50, repeats=2, rule=first).duels
    assert all(one.schema.levels is None for one in seen)


def duel(quantity: str, ours: float, published: float) -> Duel:
    return Duel(quantity, "bayes", Score(ours, 0.01, ("ssr",)), Score(published, 0.01, ("kvue",)))


def test_the_page_tells_gains_and_losses() -> None:
    cells = [Cell("gauss", "1"), Cell("plaw", "2")]
    measured = [
        Measured(cells[0], 1, 100, 20, (duel("frequency", 1.0, 4.0), duel("mean", 2.0, 1.0))),
        Measured(cells[1], 2, 100, 20, (duel("frequency", 1.0, 1.0),)),
    ]
    text = pages.page(measured, 8, "python -m it")
    assert "2 of 8 cells were measured, 0 of which were not looked at before" in text and "$ python -m it" in text
    assert "| frequencies | with empirical Bayes | 2.00 | 1.00 | 4.00 | 1 | 1 | 0 | 1.2, reached |" in text
    assert "| means | with empirical Bayes | 0.50 | 0.50 | 0.50 | 0 | 0 | 1 | 1.3, not reached |" in text
    assert "- gauss, ε = 1, means: `ssr` 2.00e+00, `kvue` 1.00e+00" in text
    assert "1 of which were not looked at" in pages.page([replace(measured[0], cell=Cell("heavy", "1"))], 8, "it")
    assert "chosen ssr 2; best published kvue 2" in text
    assert "Nothing was measured yet" in pages.page([], 8, "python -m it")


def test_a_seed_draws_the_order_of_cells_that_nobody_looked_at() -> None:
    names = ["gauss", "survey", "sparse", "zipf"]
    found = pages.cells(names, 1)
    assert len(set(found)) == 16 and {cell.population for cell in found[-4:]} == {"sparse"}  # its cells take minutes
    fresh = [not looked_at(cell.population, cell.epsilon) for cell in found[:-4]]
    assert fresh == sorted(fresh, reverse=True) and 0 < sum(fresh) < 12
    assert pages.cells(names, 2) != found == pages.cells(names, 1)
