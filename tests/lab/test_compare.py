from __future__ import annotations

import json
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import keyveil as kv
from keyveil.core.epsilon import float_ceiling, keeps, log_ceiling
from keyveil.core.errors import KeyveilError, MechanismError
from keyveil.core.estimates import Estimates
from keyveil.core.schema import Schema
from keyveil.lab import datasets
from keyveil.lab.compare import ALL_QUANTITIES, Comparison, compare, key_value_names, matched
from keyveil.lab.contenders import APART, VIRTUAL, Contender, contenders, families, several, usual, with_best_caps
from keyveil.lab.decoders import EQUAL
from keyveil.lab.matching import ratio_of
from keyveil.lab.page import page
from keyveil.lab.simulate import simulate
from keyveil.mechanisms.registry import make
from keyveil.protocols.base import History, Protocol, Round
from keyveil.protocols.proofs import certify

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


def test_values_may_have_commas_and_colons() -> None:
    text = "split:groups=ssr:1,kv-sw:1,max_pairs=3,topsel:sizes=1:0.2,2:0.8,pilot:then=wsr,theta=1/4,kvue"
    assert several(text) == [
        "split:groups=ssr:1,kv-sw:1,max_pairs=3",
        "topsel:sizes=1:0.2,2:0.8",
        "pilot:then=wsr,theta=1/4",
        "kvue",
    ]
    split, topsel, pilot, _ = map(Contender.parse, several(text))
    assert dict(split.options) == {"groups": "ssr:1,kv-sw:1", "max_pairs": "3"}
    assert dict(topsel.options) == {"set_sizes": "1:0.2,2:0.8"} and topsel.label == "topsel:set_sizes=1:0.2,2:0.8"
    assert dict(pilot.options) == {"then": "wsr", "theta": "1/4"}


@pytest.mark.parametrize(
    "text", ["privkv:splt=paper", "privkv:", "privkv:split", "kvu:bins=2", "privkv:epsilon=9", "x=1"]
)
def test_misspelt_contenders_are_mistakes(text: str) -> None:
    with pytest.raises(MechanismError):
        Contender.parse(text)


def test_published_mechanisms_take_part_in_two_forms_unless_told() -> None:
    published = ["privkv", "f2m", "pckv-ue", "pckv-grr", "kv-sw"]
    assert usual() == (*key_value_names(), *APART, VIRTUAL, *(f"{name}:split=paper" for name in published))
    assert {name: some for name, some in families(usual()).items() if len(some) > 1} == {
        **{name: [name, f"{name}:split=paper"] for name in published},
        "apart": list(APART),
    }
    assert families(["kvue", "privkv:split=paper"]) == {"kvue": ["kvue"], "privkv:split=paper": ["privkv:split=paper"]}


@pytest.mark.parametrize("cap", [5, 57])
@pytest.mark.parametrize("name", ["pckv-grr", "pckv-ue", "kv-sw"])
def test_published_splits_are_asked_for_more_until_they_spend_epsilon(name: str, cap: int) -> None:
    mechanism = matched(name, Schema(keys=100), HALF, {"max_pairs": cap, "split": "paper"})
    assert keeps(ratio_of(mechanism), HALF) and log_ceiling(ratio_of(mechanism)) > Decimal("0.499")


@pytest.mark.parametrize("name", ["kvue", "krr-harmony", "shist-harmony", "rappor-meanest"])
def test_equal_epsilon_means_what_is_spent(name: str) -> None:
    """A mechanism that spends less than it is asked for is asked for more, and never spends more than epsilon."""
    mechanism = matched(name, Schema(keys=8), Fraction(1), {})
    assert keeps(ratio_of(mechanism), Fraction(1))
    assert log_ceiling(ratio_of(mechanism)) > Decimal("0.998")


def test_the_page_marks_winners_and_names_the_absent(comparison: Comparison) -> None:
    text = page([comparison])
    rows = [line for line in text.splitlines() if line.startswith("| linear-s | 4 |")]
    assert [row.count("**") for row in rows] == [2, 2, 2, 2]  # frequencies and means, of all keys and of the top
    assert "- linear-s, ioh: " in text and "3,000" in text
    assert "console" not in text  # nobody typed a command
    assert "```console\n$ keyveil compare mine.csv\n```" in page([comparison], "keyveil compare mine.csv")


def test_the_page_says_where_the_cap_comes_from(comparison: Comparison) -> None:
    assert "The cap (`max_pairs`) is the 90 % quantile of the set sizes; people" in page([comparison])
    data = datasets.load("linear-s", n=200, seed=1)
    assert "The cap (`max_pairs`) was given; people" in page([compare(data, 1, ["pckv-ue"], max_pairs=2)])
    assert "quantile of the set sizes where none stands behind a name; people" in page(
        [compare(data, 1, ["pckv-ue:max_pairs=2", "ssr"])]
    )


def test_a_mechanism_is_shown_with_its_best_form_and_as_given() -> None:
    data = datasets.load("linear-s", n=2000, seed=1)
    text = page([compare(data, [1, 4], ["kvue", "privkv", "privkv:split=paper", "f2m:split=paper"], repeats=3, seed=1)])
    heads = [line for line in text.splitlines() if line.startswith("| data | ε |")]
    assert heads[:4] == ["| data | ε | kvue | privkv | f2m:split=paper |"] * 4
    assert heads[4:] == ["| data | ε | privkv |"] * 2
    assert "standard error over the runs" in text


def columns(text: str) -> list[list[str]]:
    """The mechanisms in every table of errors of a page."""
    heads = [line for line in text.splitlines() if line.startswith("| data | ε |")]
    return [[cell.strip() for cell in head.split("|")[3:-1]] for head in heads]


def test_the_page_of_the_documentation_is_not_stale() -> None:
    """Its tables have the columns that its command would write now; if not, run the command that it shows."""
    written = Path(__file__).parents[2] / "docs" / "comparison.md"
    text = written.read_text(encoding="utf-8")
    groups = families(with_best_caps(contenders(usual())))
    several = [name for name, labels in groups.items() if len(labels) > 1]
    assert columns(text) == [["decoder", *groups]] * 4 + [several] * 2
    command = text.partition("```console")[2].partition("```")[0]
    assert "--mechanisms" not in command and "synthetic:suite" in command
    assert "--caps best" in command and f"--decoders {','.join(EQUAL)}" in command


def test_a_page_with_one_column_less_would_be_noticed(comparison: Comparison) -> None:
    assert columns(page([comparison])) == [["kvue", "pckv-ue"]] * 4  # ioh does not take these people


# -- decoders, best caps ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def equal() -> Comparison:
    data = datasets.load("heavy", n=400, seed=1)
    return compare(data, 2, ["kvue", "pckv-grr", "ssr"], repeats=2, seed=1, decoders=EQUAL, caps="best")


def test_everybody_has_every_decoder_on_the_same_reports(equal: Comparison) -> None:
    assert equal.decoders == EQUAL
    assert {entry.decoder for entry in equal.entries if entry.mechanism == "kvue"} == set(EQUAL)
    plain = compare(equal.dataset, 2, ["kvue"], repeats=2, seed=1)
    at = Fraction(2), "frequency"
    assert plain.error("kvue", *at) == equal.error("kvue", *at) == equal.error("kvue", *at, "raw")
    shrunk, consistent = (equal.error("kvue", *at, decoder) for decoder in ("bayes", "norm-sub"))
    assert shrunk and consistent and shrunk < float(plain.error("kvue", *at) or 0) and shrunk != consistent
    assert equal.error("kvue", Fraction(2), "mean", "norm-sub") == equal.error("kvue", Fraction(2), "mean")


def test_the_document_and_the_frame_have_every_decoder(equal: Comparison) -> None:
    document = json.loads(json.dumps(equal.document(), allow_nan=False))
    assert set(document["decoders"]) == set(EQUAL) and document["decoders"]["raw"]["best"] == document["best"]
    rows = equal.to_frame()
    for _, some in rows.groupby("decoder"):
        assert some["best_frequency"].sum() == 1
    (first, *_) = document["mechanisms"]
    assert first["decoder"] == "raw" and np.mean(first["runs"]["mean"]) == pytest.approx(first["metrics"]["mse_mean"])


def test_best_caps_stand_beside_the_given_one(equal: Comparison) -> None:
    """Few people hold very much: what a cap of one hides costs less than what a cap of eight adds in variance."""
    assert equal.capped["pckv-grr"] == [
        "pckv-grr", "pckv-grr:max_pairs=best-frequency", "pckv-grr:max_pairs=best-mean"
    ]  # fmt: skip
    caps = {entry.mechanism: entry.options.get("max_pairs") for entry in equal.entries}
    given, best = caps["ssr"], caps["ssr:max_pairs=best-frequency"]
    assert given is not None and best is not None and best < given and caps["kvue"] is None
    score = equal.best_of(equal.capped["ssr"], Fraction(2), "frequency")
    assert (
        score is not None
        and score.forms != ("ssr",)
        and score.error < float(equal.error("ssr", Fraction(2), "frequency") or 0)
    )


def test_the_page_says_what_mechanism_and_decoder_gain(equal: Comparison) -> None:
    text = page([equal])
    heads = [line for line in text.splitlines() if line.startswith("| data | ε |")]
    assert heads == ["| data | ε | decoder | kvue | pckv-grr | ssr |"] * 4 + ["| data | ε | pckv-grr | ssr |"] * 2
    assert text.count("| heavy | 2 | with Norm-Sub |") == 2  # frequencies; means are as estimated
    assert text.count("| heavy | 2 | with empirical Bayes |") == 4
    mechanism, decoder = text.split("## What the mechanism gains")[1].split("## What the decoder gains")
    assert "| frequencies | with empirical Bayes | " in mechanism and "published as estimated" in mechanism
    ratio = float(equal.error("kvue", Fraction(2), "mean") or 0) / float(
        equal.error("kvue", Fraction(2), "mean", "bayes") or 1
    )
    row = next(line for line in decoder.splitlines() if line.startswith("| kvue |"))
    assert f"{ratio:.2f}" in row
    assert " → " in text and "(cap " in text


def test_a_decoder_that_does_not_apply_is_named_and_nothing_else_is_lost() -> None:
    found = compare(datasets.load("linear-s", n=200, seed=1), 1, ["kvue", "kv-sw"], decoders=["raw", "mle-apx"])
    assert {entry.mechanism for entry in found.entries if entry.decoder == "raw"} == {"kvue", "kv-sw"}
    assert any("mle-apx" in label for label in found.refused)


@pytest.mark.parametrize("decoders", [[], ["bays"]])
def test_decoders_that_there_are_not_are_refused(decoders: list[str]) -> None:
    with pytest.raises(MechanismError, match="decoder"):
        compare(datasets.load("linear-s", n=100, seed=1), 1, ["kvue"], decoders=decoders)


def test_a_best_cap_needs_a_prediction_and_a_right_name() -> None:
    data = datasets.load("linear-s", n=100, seed=1)
    with pytest.raises(MechanismError, match="best-frequency or best-mean"):
        compare(data, 1, ["ssr:max_pairs=best"])
    with pytest.raises(MechanismError, match="Caps are given or best"):
        compare(data, 1, ["ssr"], caps="good")  # type: ignore[call-overload]
    assert (
        "tell its errors"
        in compare(data, 1, ["kvue", "pilot:max_pairs=best-mean"]).refused["pilot:max_pairs=best-mean"]
    )


def test_pictures_show_every_decoder_and_each_contender_once(equal: Comparison) -> None:
    figure = equal.plot()
    assert len(figure.axes) == 2 * len(EQUAL)
    assert [ax.get_legend_handles_labels()[1].count("ssr") for ax in figure.axes] == [1] * 6
    assert "bayes" in figure.axes[2].get_title(loc="left")


# -- protocols, objects, populations, several data sets ---------------------------------------------------------------

PROTOCOLS = ["privkvm", "privkvm-plus", "privkvm-star", "privkvm-harmony", "adaptive", "pilot", "topsel-project"]


@pytest.fixture(scope="module")
def mixed() -> Comparison:
    """Protocols beside a mechanism."""
    return compare(datasets.load("linear-s", n=1000, seed=1), 1, ["kvue", "split", *PROTOCOLS], repeats=2, seed=1)


def test_protocols_are_compared_at_what_a_person_spends_in_all(mixed: Comparison) -> None:
    assert not mixed.refused and mixed.mechanisms == ("kvue", "split", *PROTOCOLS)
    for entry in mixed.entries:
        made = make(entry.mechanism, mixed.dataset.schema, entry.requested, **entry.options)
        assert keeps(ratio_of(made), Fraction(1)) and log_ceiling(ratio_of(made)) > Decimal("0.999")
        assert entry.exact_epsilon == float_ceiling(log_ceiling(ratio_of(made)))
        assert entry.metrics["mse_frequency"] and entry.spread["mse_frequency"] and entry.bits_per_report > 0
    privkvm = make("privkvm", mixed.dataset.schema, 1, rounds=2)
    assert certify(privkvm).ratio == ratio_of(privkvm)
    asked_for_more = {entry.mechanism for entry in mixed.entries if entry.requested > 1}
    assert asked_for_more == {"privkvm", "privkvm-plus", "privkvm-harmony"}


def test_protocols_have_options_and_see_the_same_numbers_as_a_simulation(mixed: Comparison) -> None:
    data = mixed.dataset
    (entry,) = compare(data, 1, ["privkvm-star:bins=2"], seed=3).entries
    assert entry.options["bins"] == 2
    alone = simulate("privkvm-star", data.population, data.schema, 1, seed=3, shortcut=True, bins=2)
    assert alone.metrics["mse_frequency"] == entry.metrics["mse_frequency"]


def test_what_cannot_spend_epsilon_is_refused_with_the_reason() -> None:
    """A protocol whose rounds spend a tenth, whatever is requested."""

    @dataclass(frozen=True)
    class Timid(Protocol):
        name: ClassVar[str] = "timid"

        def plan(self, finished: History) -> Round | None:
            return None if finished else Round(1, kv.mechanism("kvue", self.schema, Fraction(1, 10)))

        def estimate(self, finished: History, confidence: float = 0.95, population: bool = False) -> Estimates:
            return finished[0].estimates(confidence, population)

    data = datasets.load("linear-s", n=100, seed=1)
    found = compare(data, 1, [Timid(data.schema, Fraction(1)), "kvue"])
    assert found.mechanisms == ("kvue",)
    assert "a request of 32 spends 0.1" in found.refused["timid"]


def test_objects_keep_their_options_at_every_epsilon() -> None:
    data = datasets.load("linear-s", n=500, seed=1)
    two, four = (kv.mechanism("ssr", data.schema, 1, max_pairs=cap, size=3) for cap in (2, 4))
    found = compare(
        data, [1, 2], [two, four, "ssr:max_pairs=2,size=3", make("privkvm", data.schema, 1, rounds=2)], seed=1
    )
    first, second, named, protocol = found.chosen
    assert (first, named, protocol) == ("ssr", "ssr:max_pairs=2,size=3", "privkvm") and "max_pairs=4" in second
    assert [entry.options["max_pairs"] for entry in found.entries[:4]] == [2, 2, 4, 4]
    assert found.error(first, FOUR / 2, "mean") == found.error(named, FOUR / 2, "mean")
    assert {entry.options.get("rounds") for entry in found.entries[-2:]} == {2}


def test_the_schema_of_an_object_is_that_of_the_people() -> None:
    people = kv.Population.from_records([{"a": 1, "b": 5}, {"a": 3}, {}] * 100)
    schema = kv.Schema(keys=["a", "b"], low=0, high=10)
    found = kv.compare(people, 2, [kv.mechanism("kvue", schema, 1), "privkv"])
    assert found.dataset.schema == schema and found.mechanisms == ("kvue", "privkv")
    given = kv.compare(people, 2, ["kvue"], schema=schema)
    assert given.error("kvue", Fraction(2), "mean") == found.error("kvue", Fraction(2), "mean")
    other = kv.compare(people, 2, [kv.mechanism("kvue", schema, 1), "privkv"], schema=kv.Schema(keys=["a", "b"]))
    assert "another schema" in other.refused["kvue"] and other.mechanisms == ("privkv",)


def test_several_data_sets_are_one_result_with_a_frame_and_a_picture() -> None:
    people = datasets.independent(400, [0.4, 0.6], [0.3, -0.5], 1)
    found = kv.compare([people, "synthetic:linear-s:300"], [1, 2], ["kvue", "privkvm:rounds=2"], repeats=2, seed=1)
    assert [one.dataset.name for one in found] == ["population 1", "linear-s"] and len(found) == 2
    frame = found.to_frame()
    assert list(frame["data"]) == ["population 1"] * 4 + ["linear-s"] * 4
    assert list(frame["mechanism"][:4]) == ["kvue", "kvue", "privkvm:rounds=2", "privkvm:rounds=2"]
    first = found[0].entries[0]
    assert frame["mse_mean"][0] == first.error("mean") and frame["mse_mean_se"][0] == first.spread["mse_mean"]
    for _, rows in frame.groupby(["data", "epsilon"]):
        assert rows["best_frequency"].sum() == 1 and not (rows["best_frequency"] & rows["tied_frequency"]).any()
    assert len(found[1].to_frame("polars")) == len(found[1].to_frame("pyarrow")) == 4
    assert len(found.plot().axes) == 4 and found.document()["comparisons"][1]["n"] == 300


def test_everybody_is_told_what_they_can_be_told() -> None:
    data = datasets.load("linear-s", n=200, seed=1)
    found = compare(data, 1, ["kvue", "pckv-ue", "ssr:max_pairs=4", "topsel"], max_pairs=2, sizes="5")
    assert [entry.options.get("max_pairs") for entry in found.entries] == [None, 2, 4, None]
    assert found.entries[-1].options["set_sizes"] == "5"
    with pytest.raises(MechanismError, match="Nobody in this comparison has the option 'cap'"):
        compare(data, 1, ["kvue", "pckv-ue"], cap=2)


def test_labels_tell_contenders_apart() -> None:
    plain, cells = (kv.mechanism("kvue", Schema(keys=3), 1, bins=bins) for bins in (None, 4))
    assert list(contenders(["kvue", plain, cells])) == ["kvue", "kvue (object)", "kvue:bins=4,rounding=grid"]
    assert list(contenders([plain, plain])) == ["kvue"]


def test_mistakes_are_refused(comparison: Comparison) -> None:
    with pytest.raises(MechanismError):
        compare(comparison.dataset, [])
    with pytest.raises(MechanismError):
        compare([], 1)
    with pytest.raises(MechanismError):
        compare(comparison.dataset, 1, [])
    with pytest.raises(MechanismError):
        compare(comparison.dataset, 1, ["privkvm:turns=2"])
    with pytest.raises(MechanismError):
        compare(comparison.dataset, [1], ["kvu"])
    with pytest.raises(KeyveilError):
        compare(comparison.dataset, [0], ["kvue"])
