from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from keyveil.core.epsilon import keeps, log_ceiling
from keyveil.core.errors import KeyveilError, MechanismError
from keyveil.core.schema import Schema
from keyveil.lab import datasets
from keyveil.lab.compare import ALL_QUANTITIES, Comparison, compare, key_value_names, matched
from keyveil.lab.contenders import Contender, forms, several, usual
from keyveil.lab.page import page

HALF, FOUR = Fraction(1, 2), Fraction(4)


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    data = datasets.load("linear-s", n=3000, seed=1)
    return compare(data, ["0.5", 4], ["kvue", "pckv-ue", "ioh"], repeats=2, seed=1)


def test_every_mechanism_at_every_epsilon(comparison: Comparison) -> None:
    assert comparison.mechanisms == ("kvue", "pckv-ue")
    assert [(entry.mechanism, entry.epsilon) for entry in comparison.entries] == [
        ("kvue", HALF), ("kvue", FOUR), ("pckv-ue", HALF), ("pckv-ue", FOUR)
    ]  # fmt: skip
    assert all(0 < float(entry.exact_epsilon or 0) <= entry.epsilon for entry in comparison.entries)


def test_what_does_not_apply_says_why(comparison: Comparison) -> None:
    assert set(comparison.refused) == {"ioh"} and "20" in comparison.refused["ioh"]


def test_the_best_has_the_smallest_error(comparison: Comparison) -> None:
    for quantity in ("frequency", "mean"):
        best = comparison.best(FOUR, quantity)
        errors = [float(comparison.error(name, FOUR, quantity) or 9) for name in comparison.mechanisms]
        assert best is not None and comparison.error(best, FOUR, quantity) == min(errors)


def test_the_spread_is_the_standard_error_over_the_runs(comparison: Comparison) -> None:
    """Two runs: half of their difference. The first run alone is the comparison with one."""
    first = compare(comparison.dataset, [4], ["kvue"], seed=1)
    (alone,) = first.entries
    for quantity in ALL_QUANTITIES:
        both = float(comparison.error("kvue", FOUR, quantity) or 0)
        one = float(alone.error(quantity) or 0)
        assert comparison.spread("kvue", FOUR, quantity) == pytest.approx(abs(one - both))
        assert alone.spread[f"mse_{quantity}"] is None
    assert first.ties(FOUR, "frequency") == ()


def test_what_the_runs_do_not_tell_apart_is_a_tie(comparison: Comparison) -> None:
    def seen(error: float, spread: float) -> Comparison:
        numbers = {"kvue": (1.0, 0.3), "pckv-ue": (error, spread)}
        entries = []
        for entry in comparison.entries:
            mse, se = numbers[entry.mechanism]
            names = [f"mse_{quantity}" for quantity in ALL_QUANTITIES]
            entries.append(
                replace(entry, metrics={**entry.metrics, **dict.fromkeys(names, mse)}, spread=dict.fromkeys(names, se))
            )
        return replace(comparison, entries=tuple(entries))

    near, far = seen(1.9, 0.4), seen(2.1, 0.4)  # two standard errors of the difference are 2 · 0.5
    assert near.ties(FOUR, "mean") == ("pckv-ue",) and far.ties(FOUR, "mean") == ()
    assert near.best(FOUR, "mean") == far.best(FOUR, "mean") == "kvue"
    assert near.document()["ties"]["mean"] == {"0.5": ("pckv-ue",), "4": ("pckv-ue",)}

    tied, clear = page([near]), page([far])
    assert "| linear-s | 4 | **1.0(3)e0** ≈ | 1.9(4)e0 ≈ |" in tied
    assert "Rows won: none. Among those that share the first place: kvue 2, pckv-ue 2." in tied
    assert "| linear-s | 4 | **1.0(3)e0** | 2.1(4)e0 |" in clear
    assert "Rows won: kvue 2." in clear and "first place" not in clear


def test_everyones_average_is_the_error_of_knowing_nothing_about_keys(comparison: Comparison) -> None:
    truth = comparison.dataset.population.truth(comparison.dataset.schema)
    assert comparison.average["frequency"] == pytest.approx(truth.frequency.var())
    pooled = comparison.dataset.population.values.mean()
    assert comparison.average["mean"] == pytest.approx(np.mean((truth.mean - pooled) ** 2))


def test_the_document_is_json_and_repeatable(comparison: Comparison) -> None:
    again = compare(comparison.dataset, ["0.5", 4], ["kvue", "pckv-ue", "ioh"], repeats=2, seed=1)
    documents = [one.document() for one in (comparison, again)]
    for document in documents:
        for entry in document["mechanisms"]:
            del entry["seconds"]
    assert json.dumps(documents[0], allow_nan=False) == json.dumps(documents[1])
    assert documents[0]["best"]["frequency"]["4"] in ("kvue", "pckv-ue")


def test_drawing_every_report_gives_the_same_picture(comparison: Comparison) -> None:
    slow = compare(comparison.dataset, [4], ["kvue"], repeats=2, seed=1, shortcut=False)
    ratio = float(slow.error("kvue", FOUR, "frequency") or 0) / float(comparison.error("kvue", FOUR, "frequency") or 1)
    assert 0.2 < ratio < 5  # each is a mean of 40 squared errors: a factor of 5 is beyond ten standard errors


def test_all_key_value_mechanisms_are_compared_unless_told() -> None:
    assert {"kvue", "pckv-ue", "ssr"} <= set(key_value_names())
    assert not {"grr", "duchi"} & set(key_value_names())


def test_contenders_have_options_of_their_own() -> None:
    data = datasets.load("linear-s", n=1000, seed=1)
    asked = ["privkv", "privkv:split=paper", "pckv-ue:max-pairs=2, split=paper"]
    found = compare(data, [1], asked, max_pairs=4, repeats=2, seed=1)
    assert found.mechanisms == found.chosen == ("privkv", "privkv:split=paper", "pckv-ue:max_pairs=2,split=paper")
    tight, paper, capped = found.entries
    assert (tight.options["split"], paper.options["split"], capped.options["split"]) == ("tight", "paper", "paper")
    assert capped.options["max_pairs"] == 2
    assert tight.requested == 1 and paper.requested > 1  # the published split spends less than it says
    assert 0.999 < float(paper.exact_epsilon or 0) <= 1
    assert tight.metrics != paper.metrics


def test_lists_of_contenders_are_split_where_a_name_begins() -> None:
    text = "kvue, privkv:split=paper,estimator=published,ssr,topsel:mode=direct"
    assert several(text) == ["kvue", "privkv:split=paper,estimator=published", "ssr", "topsel:mode=direct"]
    assert several("") == [] and several("kvue,split=paper") == ["kvue", "split=paper"]
    assert [Contender.parse(label).label for label in several(text)] == several(text)


@pytest.mark.parametrize(
    "text", ["privkv:splt=paper", "privkv:", "privkv:split", "kvu:bins=2", "privkv:epsilon=9", "x=1"]
)
def test_misspelt_contenders_are_mistakes(text: str) -> None:
    with pytest.raises(MechanismError):
        Contender.parse(text)


def test_published_mechanisms_take_part_in_two_forms_unless_told() -> None:
    published = ["privkv", "f2m", "pckv-ue", "pckv-grr", "kv-sw"]
    assert usual() == (*key_value_names(), *(f"{name}:split=paper" for name in published))
    assert forms(usual()) == {name: [f"{name}:split=paper"] for name in published}
    assert forms(["kvue", "privkv:split=paper"]) == {}  # then it is the only form, and stands with all others


@pytest.mark.parametrize("cap", [5, 57])
@pytest.mark.parametrize("name", ["pckv-grr", "pckv-ue", "kv-sw"])
def test_published_splits_are_asked_for_more_until_they_spend_epsilon(name: str, cap: int) -> None:
    mechanism = matched(name, Schema(keys=100), HALF, {"max_pairs": cap, "split": "paper"})
    assert keeps(mechanism.ratio, HALF) and log_ceiling(mechanism.ratio) > Decimal("0.499")


@pytest.mark.parametrize("name", ["kvue", "krr-harmony", "shist-harmony", "rappor-meanest"])
def test_equal_epsilon_means_what_is_spent(name: str) -> None:
    """A mechanism that spends less than it is asked for is asked for more, and never spends more than epsilon."""
    mechanism = matched(name, Schema(keys=8), Fraction(1), {})
    assert keeps(mechanism.ratio, Fraction(1))
    assert log_ceiling(mechanism.ratio) > Decimal("0.998")


def test_the_page_marks_winners_and_names_the_absent(comparison: Comparison) -> None:
    text = page([comparison])
    rows = [line for line in text.splitlines() if line.startswith("| linear-s | 4 |")]
    assert [row.count("**") for row in rows] == [2, 2, 2, 2]  # frequencies and means, of all keys and of the top
    assert "- linear-s, ioh: " in text and "--repeats 2 --seed 1" in text and "3,000" in text
    assert "keyveil compare synthetic:linear-s:3000 " in text


def test_other_forms_have_tables_of_their_own() -> None:
    data = datasets.load("linear-s", n=2000, seed=1)
    text = page([compare(data, [1, 4], ["kvue", "privkv", "privkv:split=paper", "f2m:split=paper"], repeats=3, seed=1)])
    heads = [line for line in text.splitlines() if line.startswith("| data | ε |")]
    assert heads[:4] == ["| data | ε | kvue | privkv | f2m:split=paper |"] * 4
    assert heads[4:] == ["| data | ε | privkv | privkv:split=paper |"] * 2
    assert "--mechanisms kvue,privkv,privkv:split=paper,f2m:split=paper " in text
    assert "standard error over the runs" in text


def test_a_form_that_beats_the_whole_table_is_pointed_at(comparison: Comparison) -> None:
    entries = tuple(
        replace(entry, mechanism="kvue:bins=8", metrics={**entry.metrics, "mse_frequency": 1e-9, "mse_mean": 9.0})
        for entry in comparison.entries
        if entry.mechanism == "kvue"
    )
    both = replace(comparison, chosen=(*comparison.chosen, "kvue:bins=8"), entries=comparison.entries + entries)
    shares, means = page([both]).split("## Means, on")[:2]
    assert shares.count(" † |") == 2 and "does better" in shares
    assert "†" not in means.split("## Frequencies of")[0]


def columns(text: str) -> list[list[str]]:
    """The mechanisms in every table of errors of a page."""
    heads = [line for line in text.splitlines() if line.startswith("| data | ε |")]
    return [[cell.strip() for cell in head.split("|")[3:-1]] for head in heads]


def test_the_page_of_the_documentation_is_not_stale() -> None:
    """Its tables have the columns that its command would write now; if not, run the command that it shows."""
    written = Path(__file__).parents[2] / "docs" / "comparison.md"
    text = written.read_text(encoding="utf-8")
    main = list(key_value_names())
    pairs = [label for name, others in forms(usual()).items() for label in (name, *others)]
    assert columns(text) == [main] * 4 + [pairs] * 2
    command = text.partition("```console")[2].partition("```")[0]
    assert "--mechanisms" not in command and "synthetic:suite" in command


def test_a_page_with_one_column_less_would_be_noticed(comparison: Comparison) -> None:
    assert columns(page([comparison])) == [["kvue", "pckv-ue"]] * 4  # ioh does not take these people


def test_mistakes_are_refused(comparison: Comparison) -> None:
    with pytest.raises(MechanismError):
        compare(comparison.dataset, [])
    with pytest.raises(MechanismError):
        compare(comparison.dataset, [1], ["kvu"])
    with pytest.raises(KeyveilError):
        compare(comparison.dataset, [0], ["kvue"])
