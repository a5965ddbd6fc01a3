"""Groups of people: keys that are products of a group and a key, from the schema to questions."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import keyveil as kv
from keyveil.cli.app import run
from keyveil.core.errors import SchemaError
from keyveil.core.groups import MOST_GROUPED, in_group, matching
from keyveil.learn.questions import answer

SCHEMA = kv.Schema(keys=["fries", "pepsi"], groups=["de", "fr"], low=1, high=5)


def test_keys_are_products_of_a_group_and_a_key() -> None:
    assert SCHEMA.keys == ("de/fries", "de/pepsi", "fr/fries", "fr/pepsi")
    assert SCHEMA.document() == {"keys": ["fries", "pepsi"], "low": 1, "high": 5, "groups": ["de", "fr"]}
    assert kv.Schema.from_document(SCHEMA.document()) == SCHEMA
    assert kv.Schema(keys=2, groups=["a", "b"]).keys == ("a/0", "a/1", "b/0", "b/1")
    assert kv.Schema(keys=2, groups=["a", "b"]).document()["keys"] == 2


def test_schemas_without_groups_keep_their_documents() -> None:
    assert kv.Schema(keys=["fries"]).document() == {"keys": ["fries"], "low": -1, "high": 1}
    assert kv.Schema(keys=["fries"]).hash == "d4dfedf9e5d5ecd2abe4084ef8f339b004535c3e021b500c8261f0381eae3194"


def test_the_same_schema_has_one_document_however_it_is_written() -> None:
    """Bounds by key, by product and as a list are the same bounds."""
    by_key = kv.Schema(keys=["x", "y"], groups=["a", "b"], low={"x": 0, "y": 1}, high=9)
    by_list = kv.Schema(keys=["x", "y"], groups=["a", "b"], low=[0, 1], high=9)
    by_product = kv.Schema(keys=["x", "y"], groups=["a", "b"], low={"a/x": 0, "a/y": 1, "b/x": 0, "b/y": 1}, high=9)
    assert by_key.hash == by_list.hash == by_product.hash
    assert kv.Schema.from_document(by_key.document()).hash == by_key.hash
    assert kv.Schema(keys=["x", "y"], groups=["a", "b"], levels=[1, 2]).levels_of(3) == (Fraction(1), Fraction(2))
    rows = kv.Schema(keys=["x", "y"], groups=["a", "b"], levels=[[1, 2], [1, 2, 3]])
    assert rows.levels_of(0) == rows.levels_of(2) == (Fraction(1), Fraction(2))
    assert rows.levels_of(3) == (Fraction(1), Fraction(2), Fraction(3))
    assert kv.Schema.from_document(rows.document()).hash == rows.hash


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"groups": ["de"]}, "two or more names"),
        ({"groups": "de,fr"}, "two or more names"),
        ({"groups": ["de", "de"]}, "more than once"),
        ({"groups": ["de", "f/r"]}, "without '/'"),
        ({"groups": ["de", ""]}, "two or more names"),
        ({"groups": 3}, "two or more names"),
        ({"groups": ["de", "fr"], "other": "else"}, "no other key"),
        ({"groups": ["de", "fr"], "hierarchy": True}, "no hierarchy"),
        ({"groups": ["de", "fr"], "keys": MOST_GROUPED}, "at most 262,144 keys"),
        ({"groups": ["de", "fr"], "keys": ["a/b"]}, "name without"),
    ],
)
def test_impossible_groups_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(SchemaError, match=told):
        kv.Schema(**{"keys": ["fries"], **given})


def test_whoever_knows_their_group_holds_keys_of_it_only() -> None:
    assert in_group({"fries": 4, "de/pepsi": 2, "fr/fries": 1}, "de") == {
        "de/fries": 4,
        "de/pepsi": 2,
        "de/fr/fries": 1,
    }
    read = SCHEMA.read(kv.in_group({"fries": 4, "de/pepsi": 2, "fr/fries": 1}, "de"))
    assert [key for key, _ in read] == [0, 1]
    assert SCHEMA.read(kv.in_group({"fries": 4}, "it")) == []
    with pytest.raises(SchemaError, match="without '/'"):
        in_group({"fries": 4}, "de/fr")


def test_estimates_and_questions_know_groups() -> None:
    people = [kv.in_group({"fries": 4}, "de"), kv.in_group({"fries": 2, "pepsi": 3}, "fr"), {}] * 2_000
    mechanism = kv.mechanism("ssr", SCHEMA, epsilon=6, max_pairs=2)
    result = kv.simulate(mechanism, kv.Population.from_records(people), SCHEMA, seed=3)
    rows = result.estimates.rows()
    assert [row["group"] for row in rows] == ["de", "de", "fr", "fr"]
    assert list(rows[0])[:2] == ["key", "group"]
    read = kv.Estimates.from_json(result.estimates.to_json())
    assert read.schema == SCHEMA
    tally = result.tally
    (whole,) = answer({"kind": "subset", "keys": ["*/fries"]}, mechanism, tally, result.estimates)
    assert whole["keys"] == ["de/fries", "fr/fries"]
    assert whole["sum"]["value"] == pytest.approx(2 / 3, abs=0.05)
    (own,) = answer({"kind": "subset", "keys": ["fr/*"]}, mechanism, tally, result.estimates)
    assert own["keys"] == ["fr/fries", "fr/pepsi"]


def test_stars_stand_for_what_is_there() -> None:
    assert matching(SCHEMA, ["de/*", "de/fries"]) == ["de/fries", "de/pepsi"]
    assert matching(kv.Schema(keys=["a*", "b"]), ["a*"]) == ["a*"]
    with pytest.raises(SchemaError, match=r"like 'df/\*'"):
        matching(SCHEMA, ["df/*"])


def test_campaigns_have_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "snacks.json"
    asked = "--name snacks --purpose Why --keys fries,pepsi --groups de,fr --low 1 --high 5"
    made = ["campaign", "create", *asked.split(" ")]
    assert run([*made, "--mechanism", "kvue", "--epsilon", "1", "--out", str(path)]) == 0
    assert json.loads(path.read_text())["schema"] == SCHEMA.document()
    assert run([*made, "--people", "20000", "--pairs", "1", "--epsilon", "1", "--out", str(path)]) == 0
    assert "one of 2 groups" in json.loads(path.read_text())["reason"]
    assert run([*made[:-4], "--hierarchy", "--mechanism", "kvue", "--epsilon", "1", "--out", str(path)]) == 2
    assert "no hierarchy" in capsys.readouterr().err


def test_files_have_keys_of_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "people.csv"
    path.write_text("user,key,value\n1,de/fries,4\n2,fr/fries,2\n2,fr/pepsi,3\n3,de/pepsi,1\n")
    asked = ["simulate", str(path), "--mechanism", "kvue", "--epsilon", "1", "--seed", "1", "--json", "--groups"]
    assert run([*asked, "de,fr"]) == 0
    assert {row["group"] for row in json.loads(capsys.readouterr().out)["estimates"]} == {"de", "fr"}
    assert run([*asked, "de,it"]) == 2
    assert "'fr/fries' belongs to none of the groups" in capsys.readouterr().err
