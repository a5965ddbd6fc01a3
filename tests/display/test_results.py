"""Results in notebooks: a short repr, HTML in which texts of others stay text, and a picture; of every kind."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from html.parser import HTMLParser
from typing import Any

import pytest

import keyveil as kv
from keyveil.device.outcome import Outcome
from keyveil.lab.datasets import Dataset
from keyveil.learn.distributions import distribution

SCRIPT = "<script>alert('x')</script>&"
SCHEMA = kv.Schema(keys=["fries", SCRIPT, "pepsi"], low=1, high=5)
PEOPLE = kv.Population.from_records([{"fries": 4, SCRIPT: 2}, {"fries": 2, "pepsi": 5}, {}] * 400)


def simulated() -> Any:
    return kv.simulate("ssr", PEOPLE, SCHEMA, epsilon=2, max_pairs=2, seed=1)


def compared() -> Any:
    data = Dataset(f"{SCRIPT}.csv", PEOPLE, SCHEMA, "", "")
    return kv.compare(data, epsilon=[1, 2], mechanisms=["kvue", "ssr"], seed=1)


def planned() -> Any:
    return kv.plan(2000, 20, 3, 1, mechanisms=["ssr", "kvue"])


def planned_with_curves() -> Any:
    return kv.plan(2000, 20, 3, 1, mechanisms=["ssr", "kvue"], trade_offs=True)


def proved() -> Any:
    return kv.mechanism("ssr", SCHEMA, epsilon=1, max_pairs=2).certificate()


def told() -> Any:
    schema = kv.Schema(keys=SCHEMA.keys, levels=[1, 2, 3, 4, 5])
    mechanism = kv.mechanism("ssr", schema, epsilon=2, max_pairs=2)
    return distribution(mechanism, kv.simulate(mechanism, PEOPLE, seed=1).tally)


def sent() -> Any:
    return Outcome(SCRIPT, "sent", 1, Fraction(1), bytes(16))


def refused() -> Any:
    return Outcome("snacks", "refused", 1, Fraction(1), bytes(16), "report/late")


def estimated() -> Any:
    return simulated().estimates


KINDS = [estimated, simulated, compared, planned, planned_with_curves, proved, told, sent, refused]


class Reader(HTMLParser):
    """Texts and tags of a page; every tag that is opened is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.open.append(tag)
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
def test_every_result_has_a_short_repr_a_page_and_a_picture(make: Callable[[], Any]) -> None:
    result = make()
    assert len(repr(result)) < 160 and "\n" not in repr(result)
    page = Reader(result._repr_html_())
    assert "script" not in page.tags and "div" in page.tags and len("".join(page.texts)) > 20
    figure = result.plot()
    assert figure.axes and figure.canvas is not None


@pytest.mark.parametrize("make", [simulated, compared, told, sent], ids=lambda make: make.__name__)
def test_names_of_others_are_text(make: Callable[[], Any]) -> None:
    assert SCRIPT in "".join(Reader(make()._repr_html_()).texts)


def test_a_certificate_shows_the_two_chances_whose_ratio_it_proves() -> None:
    certificate = proved()
    texts = Reader(certificate._repr_html_()).texts
    chances = [float(one) for one in certificate.worst.chances]
    assert all(f"{chance:.6g}" in texts for chance in chances)
    assert any("keeps ε = 1" in text for text in texts) and "1 kept" in repr(certificate)


def test_a_comparison_marks_the_best() -> None:
    found = compared()
    best = found.best(Fraction(2), "frequency")
    page = found._repr_html_()
    error = found.error(best, Fraction(2), "frequency")
    assert f"{error:.3g}</b>" in page
    assert found.to_frame().columns.tolist() == [
        name for name in found.to_frame().columns if found.to_frame()[name].notna().any()
    ]


def test_rounds_are_drawn_where_they_are_asked_for() -> None:
    run = kv.simulate("privkvm", PEOPLE, SCHEMA, epsilon=2, seed=1)
    assert len(run.plot(rounds=True).axes) >= 2 and "rounds" in repr(run)
