"""Estimates can be read by key, computed with as arrays, exported without surprises, and looked at."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import sys
from fractions import Fraction
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import pyplot
from matplotlib.figure import Figure

import keyveil as kv
from keyveil.core.columns import WIDE
from keyveil.core.errors import KeyveilError, MechanismError, MissingExtra, SchemaError
from keyveil.core.estimates import FLAGS, OPTIONAL, Column, Estimates, Header, Interval, worst
from keyveil.core.records import Records
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.frames.truth import Truth
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms import registry
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.registry import forms

mpl.use("Agg")

NAN, INF = math.nan, math.inf
COLUMNS = [
    "key", "frequency", "frequency_se", "frequency_low", "frequency_high", "selected_low",
    "selected_high", "mean", "mean_se", "mean_low", "mean_high", "true_frequency",
    "true_mean", "flag", "frequency_flag", "mean_flag",
]  # fmt: skip
NO_MEAN = "grr reports keys only; use kvue, ssr or pckv-ue for means."


LUNCH = Schema(keys=["burger", "fries", "pepsi"], low=1, high=5)
TRUTH = Truth(LUNCH, 10, count=np.array([5, 3, 0]), total=np.array([0.0, 1.5, 0.0]))


HEADER = tuple(field.name for field in dataclasses.fields(Header))


def lunch(**changes: Any) -> Estimates:
    """Three keys on the scale 1 to 5: a plain one, one whose mean exceeds the range, one that is hardly there."""
    frequency = Column(
        LUNCH,
        values=np.array([0.2531, 0.75, -0.01]),
        se=np.array([0.0062, 0.01, 0.02]),
        low=np.array([0.2410, 0.73, -0.05]),
        high=np.array([0.2652, 0.77, 0.03]),
    )
    mean = Column(
        LUNCH,
        values=np.array([0.0, 1.1, NAN]),
        se=np.array([0.1, 0.05, NAN]),
        low=np.array([-0.2, 1.0, -INF]),
        high=np.array([0.2, 1.2, INF]),
        flag=np.array([0, 0, FLAGS.index("insufficient")], dtype=np.int8),
        scaled=True,
    )
    about = {name: changes.pop(name) for name in HEADER if name in changes}
    fields: dict[str, Any] = {
        "header": dataclasses.replace(Header(LUNCH, "ssr", Fraction(1, 2), 10_000), **about),
        "respondents": np.array([10_000, 10_000, 10_000]),
        "frequency": frequency,
        "mean": mean,
    }
    return Estimates(**(fields | changes))


def same(schema: Schema, value: float, se: float, low: float, high: float, *, scaled: bool = False) -> Column:
    """The same numbers for all keys."""
    values, ses, lows, highs = (np.full(schema.d, number) for number in (value, se, low, high))
    return Column(schema, values, ses, lows, highs, scaled=scaled)


def many(d: int, **options: Any) -> Estimates:
    """Keys 0 … d-1, the last one the most frequent."""
    schema = Schema(keys=d, **options)
    shares = np.linspace(0.1, 0.9, d)
    frequency = Column(schema, shares, np.full(d, 0.01), shares - 0.02, shares + 0.02)
    return lunch(
        schema=schema,
        frequency=frequency,
        mean=same(schema, 0.0, 0.1, -0.2, 0.2, scaled=True),
        respondents=np.full(d, 10_000),
    )


# -- flags and intervals --------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from(FLAGS)), st.lists(st.sampled_from(FLAGS)))
def test_the_worst_flag_is_the_same_however_flags_are_grouped(a: list[str], b: list[str]) -> None:
    assert worst(*a, *b) == worst(worst(*b), worst(*a))


def test_worst_follows_severity() -> None:
    assert worst() == "ok"
    assert worst("shrunk", "insufficient", "clipped") == "insufficient"
    assert worst(*FLAGS) == "suppressed"


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (Interval(0.2531, 0.2410, 0.2652, 0.0062), "0.2531 [0.2410, 0.2652]"),
        (Interval(4.0123, 3.85, 4.15, 0.08), "4.012 [3.850, 4.150]"),
        (Interval(12345.6, 12000, 12700, 180), "12346 [12000, 12700]"),
        (Interval(0.5, 0.5, 0.5, 0), "0.5000 [0.5000, 0.5000]"),
        (Interval(NAN, -1, 1, NAN, "insufficient"), "unknown [-1.00, 1.00] (insufficient)"),
        (Interval(0.5, -INF, INF, 1, "clipped"), "0.5000 [-inf, inf] (clipped)"),
    ],
)
def test_an_interval_prints_the_digits_that_mean_something(interval: Interval, text: str) -> None:
    assert str(interval) == text


def test_an_interval_is_a_number_that_knows_its_limits() -> None:
    interval = Interval(0.25, 0.24, 0.26, 0.005)
    assert float(interval) == 0.25
    assert 0.24 in interval
    assert 0.26 in interval
    assert 0.2399 not in interval
    assert 0.2601 not in interval
    assert NAN not in interval
    assert 0.25 not in Interval(NAN, NAN, NAN, NAN)


# -- columns --------------------------------------------------------------------------------------------------------


def test_a_column_is_read_by_key_and_computed_with_as_arrays() -> None:
    frequency = lunch().frequency
    assert frequency["burger"] == Interval(0.2531, 0.2410, 0.2652, 0.0062)
    assert list(frequency) == ["burger", "fries", "pepsi"]
    assert len(frequency) == 3
    assert "fries" in frequency
    assert dict(frequency)["fries"] == frequency["fries"]
    assert frequency.values.tolist() == [0.2531, 0.75, -0.01]
    with pytest.raises(ValueError, match="read-only"):
        frequency.values[0] = 1.0


def test_means_are_kept_on_the_unit_scale_and_shown_in_the_units_of_the_schema() -> None:
    mean = lunch().mean
    assert mean.values[:2].tolist() == [0.0, 1.1]
    assert mean["burger"] == Interval(3.0, 2.6, 3.4, 0.2)
    assert mean.interval("burger", unit=True) == Interval(0.0, -0.2, 0.2, 0.1)
    assert mean["fries"].value == pytest.approx(5.2)  # unclipped
    assert mean["pepsi"].flag == "insufficient"


def test_ranges_may_differ_by_key_and_be_logarithmic() -> None:
    schema = Schema(keys=["steps", "pulse"], low=[1, 40], high=[10_000, 200], map=["log", "linear"])
    column = same(schema, 0.0, 0.1, -0.5, 0.5, scaled=True)
    assert column["pulse"] == Interval(120.0, 80.0, 160.0, 8.0)
    steps = column["steps"]
    assert (steps.value, steps.low, steps.high) == pytest.approx((100, 10, 1000))
    assert steps.se == pytest.approx(0.1 * 100 * math.log(100))  # the slope of the map at the estimate


def test_a_wild_mean_on_a_logarithmic_scale_is_unknown_rather_than_a_warning() -> None:
    schema = Schema(keys=1, low=1, high=10_000, map="log")
    mean = same(schema, 1e3, 1e3, -1e3, 1e3, scaled=True)
    estimates = lunch(schema=schema, frequency=Column.unknown(schema, "No."), mean=mean, respondents=np.array([1]))
    assert estimates.rows()[0]["mean"] is None
    assert estimates.rows()[0]["mean_low"] == 0.0
    assert estimates.rows(unit=True)[0]["mean"] == 1e3


def test_an_unknown_key_is_named() -> None:
    with pytest.raises(SchemaError, match="'sushi'") as caught:
        lunch().frequency["sushi"]
    assert caught.value.code == "schema/unknown-key"


def test_a_mechanism_without_means_says_which_has_them() -> None:
    estimates = lunch(mechanism="grr", mean=Column.unknown(LUNCH, NO_MEAN, scaled=True))
    with pytest.raises(MechanismError, match=re.escape(NO_MEAN)) as caught:
        estimates.mean["fries"]
    assert caught.value.code == "estimate/no-mean"
    assert np.isnan(estimates.mean.values).all()
    assert estimates.rows()[0]["mean"] is None
    assert estimates.flag == ("ok", "ok", "ok")
    assert ">mean<" not in estimates._repr_html_()
    with pytest.raises(MechanismError) as caught:
        Column.unknown(LUNCH, "duchi reports values only.")["fries"]
    assert caught.value.code == "estimate/no-frequency"


@pytest.mark.parametrize("wrong", [np.zeros(2), np.zeros((3, 1)), np.zeros(4)])
def test_columns_of_another_length_are_refused(wrong: np.ndarray) -> None:
    right = lunch()
    for attempt in (
        lambda: dataclasses.replace(right.frequency, se=wrong),
        lambda: dataclasses.replace(right, product=wrong),
        lambda: dataclasses.replace(right, respondents=wrong),
        lambda: right.with_truth(Truth(LUNCH, 1, np.zeros(4, np.int64), np.zeros(4))).rows(),
    ):
        with pytest.raises(MechanismError) as caught:
            attempt()
        assert caught.value.code == "estimate/shape"


# -- estimates ------------------------------------------------------------------------------------------------------


def test_the_flag_of_a_key_is_the_worse_of_its_two() -> None:
    estimates = lunch()
    frequency = dataclasses.replace(estimates.frequency, flag=np.array([1, 0, 1], dtype=np.int8))
    assert lunch(frequency=frequency).flag == ("shrunk", "ok", "insufficient")


def test_rows_have_the_columns_of_the_contract_and_no_nan() -> None:
    first, second, third = lunch().rows()
    assert list(first) == COLUMNS
    assert first["mean"] == 3.0
    assert first["true_mean"] is None
    assert second["mean_high"] == pytest.approx(5.4)
    assert [third[name] for name in ("frequency", "mean", "mean_se", "mean_low", "flag")] == [
        -0.01, None, None, None, "insufficient",
    ]  # fmt: skip
    assert [row["mean"] for row in lunch().rows(unit=True)] == [0.0, 1.1, None]


def test_truth_stands_beside_the_estimates_in_the_same_units() -> None:
    rows = lunch().with_truth(TRUTH).rows()
    assert [row["true_frequency"] for row in rows] == [0.5, 0.3, 0.0]
    assert [row["true_mean"] for row in rows] == [3.0, 4.0, None]
    assert [row["true_mean"] for row in lunch().with_truth(TRUTH).rows(unit=True)] == [0.0, 0.5, None]


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_frames_hold_the_rows(backend: Any) -> None:
    estimates = lunch().with_truth(TRUTH)
    frame = estimates.to_frame(backend)
    names = frame.column_names if backend == "pyarrow" else list(frame.columns)
    assert type(frame).__module__.startswith(backend)
    assert names == COLUMNS
    records = frame.to_pylist() if backend == "pyarrow" else None
    records = frame.to_dicts() if backend == "polars" else records
    if records is None:
        assert frame["mean"].dtype == np.float64
        records = [
            {name: None if cell != cell else cell for name, cell in record.items()}
            for record in frame.to_dict("records")
        ]
    assert records == estimates.rows()


def test_numbers_stay_numbers_in_a_frame_where_all_are_unknown() -> None:
    assert lunch().to_frame("pandas", empty=True)["true_mean"].dtype == np.float64
    assert str(lunch().to_frame("polars", empty=True)["true_mean"].dtype) == "Float64"
    assert str(lunch().to_frame("pyarrow", empty=True)["true_mean"].type) == "double"


def test_frames_leave_out_columns_in_which_nothing_is_known() -> None:
    told = list(lunch().to_frame().columns)
    assert told == [name for name in COLUMNS if not name.startswith("true_")]


def test_a_frame_that_cannot_be_made_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MechanismError, match="'excel'"):
        lunch().to_frame("excel")  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtra, match=r"polars: pip install polars\.$") as caught:
        lunch().to_frame("polars")
    assert caught.value.code == "install/polars"
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r"pandas: pip install 'keyveil\[local\]'\.$") as caught:
        lunch().to_frame()
    assert caught.value.code == "install/local"


def test_json_is_one_object_that_every_parser_takes() -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)  # NaN and Infinity are not JSON

    document = json.loads(lunch(epsilon=Fraction(1, 10)).to_json(), parse_constant=refuse)
    rows, exact, schema = (document.pop(name) for name in ("estimates", "exact", "schema"))
    header = {"mechanism": "ssr", "epsilon": "0.1", "options": {}, "n": 10_000, "confidence": 0.95, "population": False}
    assert document == {**header, "decision": "by", "undercount": None}
    assert rows == lunch().rows() and schema == LUNCH.document()
    assert exact["mean"]["values"] == [0.0, 1.1, None] and exact["mean"]["high"] == [0.2, 1.2, "inf"]


def test_display_clips_and_says_so_while_the_original_stays() -> None:
    raw = lunch()
    shown = raw.display()
    assert shown.frequency.values.tolist() == [0.2531, 0.75, 0.0]
    assert shown.frequency.low.tolist() == [0.2410, 0.73, 0.0]
    assert shown.mean.interval("fries", unit=True) == Interval(1.0, 1.0, 1.0, 0.05, "clipped")
    assert (shown.mean["pepsi"].low, shown.mean["pepsi"].high) == (1.0, 5.0)
    assert [FLAGS[code] for code in shown.frequency.flag] == ["ok", "ok", "clipped"]
    assert shown.flag == ("ok", "clipped", "insufficient")
    assert raw.flag == ("ok", "ok", "insufficient")
    assert raw.frequency.values[2] == -0.01
    assert shown.display().rows() == shown.rows()


def test_unbiased_products_stay_reachable() -> None:
    estimates = lunch(product=[0.1, 0.2, 0.3], product_se=0.01, covariance=np.zeros(3))
    assert estimates.product is not None
    assert estimates.product_se is not None
    assert estimates.product.tolist() == [0.1, 0.2, 0.3]
    assert estimates.product_se.tolist() == [0.01] * 3  # one number stands for all keys
    assert estimates.with_truth(TRUTH).display().product is not None
    assert lunch().product is None


def test_repr_is_short() -> None:
    assert repr(lunch()) == "Estimates(ssr, ε=0.5, n=10,000, d=3, confidence=0.95)"
    assert repr(lunch().mean) == "Column(3 keys, on [-1, 1])"


# -- the table ------------------------------------------------------------------------------------------------------


def test_the_table_shows_intervals_flags_and_what_they_hold_for() -> None:
    html = lunch().with_truth(TRUTH)._repr_html_()
    ElementTree.fromstring(html)  # well-formed
    assert "0.2531 [0.2410, 0.2652]" in html
    assert "3.000 [2.600, 3.400]" in html
    assert "insufficient" in html
    assert "95 % intervals for the people who reported" in html
    assert "for the population" in lunch(population=True)._repr_html_()
    assert html.count("<svg") == 6
    assert html.index("fries") < html.index("burger") < html.index("pepsi")
    assert "more" not in html


def test_the_table_ends_after_twenty_keys_and_counts_the_rest() -> None:
    html = many(1025)._repr_html_()
    assert html.count("<tr>") == 21
    assert "… and 1,005 more keys" in html
    assert ">1024<" in html
    assert ">1004<" not in html
    assert "… and 1 more key," in many(21)._repr_html_()
    assert "more" not in many(20)._repr_html_()


def test_keys_cannot_smuggle_markup_into_the_table() -> None:
    nasty = """<script>alert("x")</script><img src=x onerror='y'>&amp;"""
    schema = Schema(keys=[nasty, "b"], low=1, high=5)
    column = same(schema, 0.5, 0.5, 0.5, 0.5)
    estimates = lunch(schema=schema, frequency=column, mean=column, respondents=1, mechanism="<b>")
    tree = ElementTree.fromstring(estimates._repr_html_())
    assert {element.tag for element in tree.iter()} <= {
        "div", "table", "thead", "tbody", "tr", "th", "td", "svg", "line", "rect", "circle",
    }  # fmt: skip
    assert nasty in [element.text for element in tree.iter("th")]


def test_the_table_loads_nothing() -> None:
    assert not re.search(r"https?:|src=|href=|url\(|<style|<script", many(30)._repr_html_())


@given(st.lists(st.sampled_from([NAN, -INF, INF, 0.0, -3.0, 0.4, 1e9]), min_size=8, max_size=8))
def test_no_number_breaks_the_table_or_the_json(numbers: list[float]) -> None:
    schema = Schema(keys=1, low=1, high=5)
    frequency, mean = same(schema, *numbers[:4]), same(schema, *numbers[4:], scaled=True)
    estimates = lunch(schema=schema, frequency=frequency, mean=mean, respondents=1)
    drawing = ElementTree.fromstring(estimates._repr_html_())
    places = [value for mark in drawing.iter() for name, value in mark.items() if name in {"x", "x1", "x2", "cx"}]
    assert all(0 <= float(place) <= 150 for place in places)
    json.loads(estimates.display().to_json())


# -- the plot -------------------------------------------------------------------------------------------------------


def points(figure: Figure, panel: int) -> dict[str, list[float]]:
    marks = figure.axes[panel].collections
    return {
        str(mark.get_label()): [float(x) for x in np.ma.filled(mark.get_offsets(), NAN)[:, 0]]
        for mark in marks
        if not str(mark.get_label()).startswith("_")
    }


def test_the_plot_draws_every_estimate_with_its_interval_and_truth() -> None:
    figure = lunch().plot(truth=TRUTH)
    frequency, mean = figure.axes
    assert [label.get_text() for label in frequency.get_yticklabels()] == ["fries", "burger", "pepsi"]
    assert (frequency.get_xlabel(), mean.get_xlabel()) == ("frequency", "mean")
    assert points(figure, 0) == {"estimate and interval": [0.75, 0.2531, 0.0], "truth": [0.3, 0.5, 0.0]}
    assert points(figure, 1)["estimate and interval"] == pytest.approx([5.0, 3.0])
    assert len(points(figure, 1)["insufficient data"]) == 1
    lines = [segment[:, 0].tolist() for segment in frequency.collections[0].get_segments()]  # type: ignore[attr-defined]
    assert lines == [[0.73, 0.77], [0.2410, 0.2652], [0.0, 0.03]]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "estimate and interval", "insufficient data", "truth",
    ]  # fmt: skip
    figure.canvas.draw()
    pyplot.close(figure)


def test_the_plot_shows_the_top_keys_on_axes_of_ones_own() -> None:
    figure = Figure()
    places = figure.subplots(1, 2)
    assert many(50).plot(list(places), top=5) is figure
    assert [label.get_text() for label in places[0].get_yticklabels()] == ["49", "48", "47", "46", "45"]
    assert "truth" not in points(figure, 0)
    with pytest.raises(MechanismError, match="needs 2 axes side by side, not 1"):
        many(50).plot(places[0])


def test_keys_of_different_ranges_share_the_unit_axis() -> None:
    figure = Figure()
    many(2, low=[0, 40], high=[1, 200]).plot(list(figure.subplots(1, 2)))
    assert "scaled to [−1, 1]" in figure.axes[1].get_xlabel()
    assert points(figure, 1)["estimate and interval"] == [0.0, 0.0]


def test_without_means_there_is_one_panel_and_keys_are_never_read_as_formulas() -> None:
    schema = Schema(keys=["$\\frac$", "x" * 100])
    column = same(schema, 0.5, 0.5, 0.5, 0.5)
    figure = lunch(
        schema=schema, frequency=column, mean=Column.unknown(schema, NO_MEAN, scaled=True), respondents=1
    ).plot()
    figure.canvas.draw()  # would fail on the broken formula
    assert len(figure.axes) == 1
    assert [len(label.get_text()) for label in figure.axes[0].get_yticklabels()] == [7, 24]
    pyplot.close(figure)


def test_a_plot_without_matplotlib_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"keyveil\[plots\]") as caught:
        lunch().plot()
    assert caught.value.code == "install/plots"
    assert isinstance(caught.value, KeyveilError)


# -- there and back --------------------------------------------------------------------------------------------------


def numbers(schema: Schema) -> st.SearchStrategy[np.ndarray]:
    any_number = st.floats(allow_nan=True, allow_infinity=True, width=64)
    return st.lists(any_number, min_size=schema.d, max_size=schema.d).map(np.array)


def assert_identical(read: Estimates, made: Estimates) -> None:
    """Every field is the same to the last bit; NaN is the same as NaN."""
    assert type(read) is type(made) and read.header == made.header
    for column in ("frequency", "mean"):
        ours, theirs = getattr(read, column), getattr(made, column)
        assert (ours.absent, ours.scaled, ours.schema) == (theirs.absent, theirs.scaled, theirs.schema)
        for part in ("values", "se", "low", "high", "flag"):
            np.testing.assert_array_equal(getattr(ours, part), getattr(theirs, part))
    for numbers in ("respondents", *OPTIONAL):
        ours, theirs = getattr(read, numbers), getattr(made, numbers)
        assert (ours is None) == (theirs is None)
        np.testing.assert_array_equal(ours, theirs)
    assert (read.truth is None) == (made.truth is None)
    if read.truth is not None and made.truth is not None:
        assert (read.truth.schema, read.truth.n) == (made.truth.schema, made.truth.n)
        np.testing.assert_array_equal(read.truth.count, made.truth.count)
        np.testing.assert_array_equal(read.truth.total, made.truth.total)


SCHEMAS = (
    Schema(keys=["a", "b"], low=[1, 2], high=[3, 50], map=["linear", "log"]),
    Schema(keys=2, low="0.1", high=7),
    Schema(keys=['é "x"'], other="rest"),
)
EPSILONS = (Fraction("0.3"), Fraction(1, 3), Fraction(32))
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"max_pairs": 2, "bins": None},
    {"weights": [1, 2], "part": {"split": "paper", "kappa": "1/3"}},
)


@given(st.data())
def test_json_brings_back_every_bit(data: st.DataObject) -> None:
    schema = data.draw(st.sampled_from(SCHEMAS))

    def column(scaled: bool) -> Column:
        flag = np.array(data.draw(st.lists(st.integers(0, len(FLAGS) - 1), min_size=2, max_size=2)), dtype=np.int8)
        if data.draw(st.booleans()):
            return dataclasses.replace(Column.unknown(schema, "nobody asked", scaled=scaled), flag=flag)
        values, se, low, high = (data.draw(numbers(schema)) for _ in range(4))
        return Column(schema, values, se, low, high, flag, scaled=scaled)

    about = [data.draw(st.sampled_from(kinds)) for kinds in ((0.9, 0.95), (False, True), OPTIONS)]
    known = data.draw(st.booleans())
    made = Estimates(
        header=Header(schema, "ssr", data.draw(st.sampled_from(EPSILONS)), data.draw(st.integers(0, 2**60)), *about),
        respondents=np.array([3, 2**60]),
        frequency=column(scaled=False),
        mean=column(scaled=True),
        **{name: data.draw(st.none() | numbers(schema)) for name in OPTIONAL},
        truth=Truth(schema, 10, np.array([1, 2]), np.array([0.1, -0.3])) if known else None,
        attacked=None,
    )

    with np.errstate(all="ignore"):
        read = Estimates.from_json(made.to_json())
        assert read.to_json() == made.to_json()
    assert_identical(read, made)


@pytest.mark.parametrize(("name", "mechanism"), list(forms()), ids=lambda case: case if isinstance(case, str) else "")
def test_estimates_of_every_mechanism_come_back(name: str, mechanism: Mechanism) -> None:
    reports = mechanism.perturb_many(mechanism_people(mechanism), SeededCoins(1))
    for tally in (mechanism.tally(reports), Tally.empty(mechanism.fingerprint, mechanism.tally_shape)):
        made = mechanism.estimate(tally, 0.9, population=True).flagged("suppressed", np.array([True, False, False]))
        read = Estimates.from_json(made.to_json())

        assert_identical(read, made)
        assert registry.from_header(read.header) == mechanism


def mechanism_people(mechanism: Mechanism) -> Records:
    """Twenty people; with one key each where a mechanism takes no more, and with all keys where it takes no fewer."""
    few, all_keys = [{str(key % 3): 0.5} for key in range(20)], [{"0": 0.5, "1": -0.5, "2": 0.0}] * 20
    for records in (few, all_keys):
        people = kv.Population.from_records(records).records(mechanism.schema)
        try:
            mechanism.perturb_many(people, SeededCoins(0))
        except KeyveilError:
            continue
        return people
    raise AssertionError(f"{mechanism.name} takes neither one key nor all of them")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": {"keys": 2}}', "null", '{"schema": 3}'])
def test_what_are_no_estimates_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(KeyveilError) as refused:
        Estimates.from_json(text)
    assert refused.value.code in ("estimate/document", "schema/document")


def test_a_frequency_is_wide_by_the_length_of_its_interval_whatever_the_estimate() -> None:
    """One standard error for all, estimates from below zero to above one: cut to [0, 1] first, few would be wide."""
    schema = Schema(keys=5)
    f = np.array([-0.4, 0.0, 0.5, 1.0, 1.4])
    for error, wide in ((0.12, False), (0.14, True)):
        column = Column(schema, f, np.full(5, error), f - 1.96 * error, f + 1.96 * error)
        assert (column.longer(WIDE) == wide).all()
        inside = np.clip(column.high, 0, 1) - np.clip(column.low, 0, 1)
        assert not (inside > WIDE)[[0, 1, 3, 4]].any()  # the mutant leaves those that err unflagged


def test_where_one_frequency_is_wide_those_that_are_hardly_narrower_are_too() -> None:
    """With one limit for each key those without a flag were those whose error made them look rare."""
    plain, values = lunch(), np.array([0.1, 0.2, 0.3])

    def flags(*lengths: float) -> list[str]:
        half = np.array(lengths) / 2
        found = lunch(
            frequency=dataclasses.replace(plain.frequency, values=values, low=values - half, high=values + half)
        )
        return [FLAGS[code] for code in found.frequency.flag]

    assert flags(0.3, 0.41, 0.51) == ["ok", "wide", "wide"]
    assert flags(0.3, 0.41, 0.49) == ["ok", "ok", "ok"]


def test_upper_limits_that_rise_with_the_estimate_do_not_choose_who_is_wide() -> None:
    """A cap raises them; left without a flag were keys far below zero, of which 2 of 119 were covered."""
    plain, values = lunch(), np.array([-0.3, 0.0, 0.3])

    def flags(*errors: float) -> list[str]:
        half = 1.96 * np.array(errors)
        high = values + half + np.array([0.0, 0.05, 0.2])
        found = lunch(frequency=dataclasses.replace(plain.frequency, values=values, low=values - half, high=high))
        return [FLAGS[code] for code in found.frequency.flag]

    assert flags(0.09, 0.09, 0.09) == ["wide"] * 3
    assert flags(0.05, 0.06, 0.09) == ["ok", "ok", "wide"]


def test_a_mean_is_wide_by_the_length_of_its_interval_whatever_the_estimate() -> None:
    """Cut to [-1, 1] first, a mean of 1.3 ± 0.6 would pass, and it is those that err."""
    plain = lunch()
    for half, flag in ((0.45, "ok"), (0.55, "wide")):
        values = np.array([0.0, 1.3, 0.0])
        mean = dataclasses.replace(plain.mean, values=values, low=values - half, high=values + half)
        assert [FLAGS[code] for code in lunch(mean=mean).mean.flag[:2]] == [flag, flag]


def test_a_mean_is_wide_where_the_frequency_of_its_key_is() -> None:
    plain = lunch()
    values, half = plain.frequency.values, np.array([0.3, 0.01, 0.01])
    found = lunch(frequency=dataclasses.replace(plain.frequency, low=values - half, high=values + half))
    assert FLAGS[plain.mean.flag[0]] == "ok" and FLAGS[found.mean.flag[0]] == "wide"
    assert found.mean.flag[1:].tolist() == plain.mean.flag[1:].tolist()
