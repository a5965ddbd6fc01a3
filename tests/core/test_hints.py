"""A mistyped name gets a hint, and a missing package the name of its extra."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

import keyveil as kv
from keyveil.campaign.documents import Campaign
from keyveil.cli.app import run
from keyveil.core.errors import KeyveilError, MissingExtra
from keyveil.core.extras import extra
from keyveil.core.hints import did_you_mean
from keyveil.lab import datasets
from keyveil.learn.questions import Question

SCHEMA = kv.Schema(keys=["burger", "fries", "pepsi"])


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("frie", ["burger", "fries"], " (did you mean fries?)"),
        ("FRIES", ["burger", "fries"], " (did you mean fries?)"),
        ("pckv_ue", ["pckv-ue", "pckv-grr"], " (did you mean pckv-ue?)"),
        ("two word", ["two words"], " (did you mean 'two words'?)"),
        ("bad", ["bad\n"], r" (did you mean 'bad\n'?)"),
        ("srr", ["grr", "ssr", "wsr"], " (did you mean ssr?)"),
        ("xyz", ["burger", "fries"], ""),
        ("frie", [], ""),
        ("0", [str(number) for number in range(20_000)], ""),
    ],
)
def test_a_hint_names_what_is_close(name: str, known: list[str], hint: str) -> None:
    assert did_you_mean(name, known) == hint


def campaign_with(**fields: Any) -> Campaign:
    known = {"keyveil": 1, "name": "c", "purpose": "C.", "schema": {"keys": 3}, "rounds": [{}]}
    return Campaign.from_document({**known, "protocol": {"name": "kvue", "epsilon": "1"}, **fields})


def estimates() -> Any:
    mechanism = kv.mechanism("kvue", SCHEMA, 1)
    return mechanism.estimate(mechanism.tally([mechanism.perturb({"fries": 0}, kv.Coins())]))


@pytest.mark.parametrize(
    ("act", "hint"),
    [
        (lambda: kv.mechanism("kvu", SCHEMA, 1), "no mechanism 'kvu' (did you mean kvue?)"),
        (lambda: kv.mechanism("srr", SCHEMA, 1), "no mechanism 'srr' (did you mean ssr?)"),
        (lambda: kv.mechanism("privkvmm", SCHEMA, 1), "no mechanism 'privkvmm' (did you mean privkvm?)"),
        (lambda: kv.mechanism("ssr", SCHEMA, 1, max_pair=2), "no option 'max_pair' (did you mean max_pairs?)"),
        (lambda: estimates().frequency["frie"], "no key 'frie' (did you mean fries?)"),
        (lambda: estimates().mean["Pepsi"], "no key 'Pepsi' (did you mean pepsi?)"),
        (lambda: kv.postprocess.estimates("norm_sub", estimates()), "no method 'norm_sub' (did you mean norm-sub?)"),
        (lambda: kv.postprocess.estimates("magic", estimates()), "no method 'magic'; there are base, "),
        (lambda: Question.read({"kind": "quantile"}), "not 'quantile' (did you mean quantiles?)"),
        (lambda: Question.read({"kind": "top", "count": 1, "rounds": 1}), "no 'rounds' (did you mean round?)"),
        (lambda: datasets.load("uniformm"), "population 'uniformm' (did you mean uniform?)"),
        (lambda: datasets.load("grid", share=1), "grid has no option 'share'; its options are"),
        (lambda: campaign_with(purposes=""), "no 'purposes' (did you mean purpose?)"),
    ],
)
def test_python_says_what_was_meant(act: Callable[[], Any], hint: str) -> None:
    with pytest.raises(KeyveilError) as refused:
        act()
    assert hint in refused.value.sentence


@pytest.mark.parametrize("command", ["certify", "audit", "simulate synthetic:uniform:100"])
def test_commands_say_what_was_meant(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command.split(), "--mechanism", "kvu", "--epsilon", "1"]) == 2
    told = capsys.readouterr().err
    assert told == "keyveil: There is no mechanism 'kvu' (did you mean kvue?). [mechanism/unknown]\n"


def test_compare_says_what_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "synthetic:uniform:100", "--epsilon", "1", "--mechanisms", "kvue:bin=4"]) == 2
    assert "kvue has no option 'bin' (did you mean bins?). [mechanism/option]" in capsys.readouterr().err


def test_a_numbered_schema_has_no_names_to_confuse() -> None:
    with pytest.raises(KeyveilError) as refused:
        kv.Schema(keys=1000).place("1001")
    assert refused.value.sentence == "The schema has no key '1001'."


def test_a_missing_package_is_told_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(MissingExtra) as missing, extra("local", "Audits"):
        import scipy.special  # noqa: F401
    assert missing.value.code == "install/local"
    assert missing.value.sentence == "Audits need scipy: pip install 'keyveil[local]'."


def test_a_mistake_of_our_own_is_no_missing_package() -> None:
    with pytest.raises(ModuleNotFoundError), extra("local", "Audits"):
        import keyveil.nonsense  # type: ignore[import-not-found] # noqa: F401
