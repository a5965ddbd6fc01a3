"""Options that a hostile collector might name: the client refuses what Python refuses, whatever stands in a round."""

from __future__ import annotations

import copy
import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from keyveil.campaign.verification import DeviceLimits
from keyveil.core.errors import KeyveilError
from keyveil.core.schema import Schema
from keyveil.core.work import limited
from tests.clients import vectors
from tests.clients.planted import planted

HERE = Path(__file__).parent
VALUES: list[Any] = [
    *range(-1, 6),
    8,
    13,
    32,
    100,
    255,
    257,
    1024,
    4096,
    65_536,
    1 << 20,
    (1 << 24) + 1,
    None,
    True,
    False,
]
VALUES += ["1", "0.5", "1/2", "0", "1.5", "0.25", "1/0", "-1", "x", [], [1], {}, "tight", "paper", "cell", "grid"]
VALUES += ["unbiased", "published", "both", "partition", "hash", "cover", "direct", "sparse", "dense"]
READ_BY_COLLECTORS = {"set_sizes", "typical", "cohorts"}  # where this device refuses less: it does not depend on them
STRANGE = ["leak", "__proto__", "estimator", "bins", "overflow", "goal", "reach", "max_pairs"]


def changed(chance: random.Random, asked: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A round in which one option has another value, is missing, or should not be there; and the option's name."""
    asked = copy.deepcopy(asked)
    options = asked["options"]
    if "group_options" in options and chance.random() < 0.7:
        options = options["group_options"][chance.choice(list(options["group_options"]))]
    name = chance.choice(list(options) or STRANGE)
    kind = chance.random()
    if kind < 0.1:
        name = chance.choice(STRANGE)
    if kind > 0.95:
        options.pop(name, None)
    elif type(options.get(name)) is int and chance.random() < 0.5:
        options[name] += chance.choice((-2, -1, 1, 2, 5))
    else:
        options[name] = chance.choice(VALUES)
    return name, asked


def in_python(asked: dict[str, Any]) -> str:
    """The fingerprint where a round may say this, or why not."""
    try:
        with limited(DeviceLimits().units):
            made = vectors.made_from(asked)
            return (
                made.fingerprint.hex() if made.options == asked["options"] else "mechanism/option"
            )  # another spelling
    except KeyveilError as refused:
        return refused.code
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError):
        return "mechanism/option"


Rounds = list[dict[str, Any]]


@pytest.fixture(scope="module")
def rounds() -> Rounds:
    """Rounds of every mechanism about few keys."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectors, "KEYS", (1, 2, 5))
        return list(vectors.rounds())


def compared(folder: Path, rounds: Rounds, count: int, seed: int, program: Path = HERE / "options.mjs") -> list[str]:
    """Rounds that one of the two takes and the other refuses, or of which they make something else."""
    chance = random.Random(seed)
    asked = [changed(chance, chance.choice(rounds)) for _ in range(count)]
    path = folder / "options.json"
    path.write_text(json.dumps([one for _, one in asked]))
    ran = subprocess.run(["node", program, path], capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    theirs = json.loads(ran.stdout)
    mine = [in_python(one) for _, one in asked]
    taken = [len(one) == 64 for one in mine]
    assert 0.1 < sum(taken) / count < 0.9
    found = []
    for (name, one), own, other in zip(asked, mine, theirs, strict=True):
        same = own == other or (len(own) != 64 and "/" in other and "\n" not in other)
        of_no_matter = own == "mechanism/dense" or (name in READ_BY_COLLECTORS and len(own) != 64) or unneeded(one)
        if not same and not of_no_matter:
            found.append(f"{one['mechanism']} {one['options']}: {own} in Python, {other} in Node")
    return found


def unneeded(asked: dict[str, Any]) -> bool:
    """Python leaves an overflow group out where nobody can exceed the cap; a round may name it there all the same."""
    return (
        "overflow" in asked["options"] and asked["options"].get("max_pairs") == Schema.from_document(asked["schema"]).d
    )


def test_options_are_refused_by_both_or_by_none(tmp_path: Path, rounds: Rounds) -> None:
    assert compared(tmp_path, rounds, 400, seed=1) == []


def test_a_bound_that_is_too_wide_is_noticed(tmp_path: Path, rounds: Rounds) -> None:
    bound = "whole(2, 2 * schema.d + options.padding)"
    program = planted(tmp_path, "options.mjs", "mechanisms/topsel.js", bound, "whole(2, 1 << 24)")
    assert compared(tmp_path, rounds, 400, seed=1, program=program) != []


@pytest.mark.soak
def test_many_options_are_refused_by_both_or_by_none(tmp_path: Path, rounds: Rounds, record_property: Any) -> None:
    record_property("rounds", 20_000)
    assert compared(tmp_path, rounds, 20_000, seed=2) == []
