from __future__ import annotations

from fractions import Fraction

import pytest

import keyveil as kv
from keyveil.core.errors import KeyveilError
from keyveil.mechanisms.registry import create, find_mechanism, mechanism_names
from tests.contract.cases import usual

SCHEMA = kv.Schema(keys=4)


@pytest.mark.parametrize("name", mechanism_names())
def test_every_name_leads_to_its_mechanism(name: str) -> None:
    assert find_mechanism(name).name == name
    assert usual(name, "0.5").epsilon == Fraction(1, 2)


@pytest.mark.parametrize(
    ("name", "options", "code"),
    [
        ("ouе", {}, "mechanism/unknown"),
        ("grr", {"colour": 1}, "mechanism/option"),
        ("olh", {"buckets": "many"}, "mechanism/option"),
        ("olh", {"buckets": 2.5}, "mechanism/option"),
        ("olh", {"buckets": 1}, "mechanism/option"),
        ("hr", {"form": "round"}, "mechanism/option"),
    ],
)
def test_what_is_unknown_is_named_in_one_sentence(name: str, options: dict[str, object], code: str) -> None:
    with pytest.raises(KeyveilError) as refused:
        create(name, SCHEMA, 1, **options)
    assert refused.value.code == code
    assert refused.value.sentence.endswith(".") and "\n" not in refused.value.sentence


def test_a_near_miss_is_guessed() -> None:
    with pytest.raises(KeyveilError, match="did you mean kvue"):
        create("kvu", SCHEMA, 1)


def test_options_may_be_strings() -> None:
    assert create("olh", SCHEMA, "1", buckets="5") == create("olh", SCHEMA, 1, buckets=5)


def test_what_belongs_together_has_one_fingerprint() -> None:
    same = create("oue", kv.Schema(keys=4), 1.0).fingerprint
    assert same == create("oue", kv.Schema(keys=4), "1").fingerprint
    others = [
        create("sue", SCHEMA, 1),
        create("oue", SCHEMA, 2),
        create("oue", kv.Schema(keys=5), 1),
        create("oue", kv.Schema(keys=4, high=2), 1),
        create("olh", SCHEMA, 1, buckets=4),
        create("olh", SCHEMA, 1, buckets=5),
    ]
    assert len({same, *(other.fingerprint for other in others)}) == 7


def test_public_bytes_have_a_fixed_length() -> None:
    mechanism = create("grr", SCHEMA, 1)
    assert mechanism.perturb("2", kv.Coins(), public=bytes(16)).public == bytes(16)
    with pytest.raises(KeyveilError) as refused:
        mechanism.perturb("2", kv.Coins(), public=b"short")
    assert refused.value.code == "report/public"


def test_one_tally_can_be_read_in_several_ways() -> None:
    published = create("privkv", SCHEMA, 1, estimator="published")
    assert published.fingerprint == create("privkv", SCHEMA, 1).fingerprint
    assert published.fingerprint != create("privkv", SCHEMA, 1, split="paper").fingerprint
