"""The examples of the pages about protocols run as they stand there, and the page of errata names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = [
    pytest.param(block.split("```")[0], id=f"{page}-{number}")
    for page in ("protocols", "protocols-groups", "mechanisms/split", "mechanisms/views")
    for number, block in enumerate((DOCS / f"{page}.md").read_text(encoding="utf-8").split("```python\n")[1:], start=1)
]


def run(example: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(example, names)
    return names


def example_with(word: str) -> str:
    (found,) = (str(one.values[0]) for one in EXAMPLES if word in str(one.values[0]))
    return found


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs_by_itself(example: str) -> None:
    run(example)


def test_the_errata_name_tests_that_exist() -> None:
    page, tests = (DOCS / "errata.md").read_text(encoding="utf-8"), DOCS.parent / "tests"
    named = re.findall(r"`([\w/]+\.py)`: `(test_\w+)(…?)`", page)
    assert len(named) > 50
    for file, name, cut in named:
        begins = f"def {name}" + ("" if cut else "(")
        assert begins in (tests / file).read_text(encoding="utf-8"), f"{file} has no {name}{cut}"


def test_what_is_written_beside_a_line_is_what_it_gives() -> None:
    """Comments that begin with a value, such as [(0, 0)]."""
    names, shown = run(example_with("hierarchy=True")), 0
    for line in example_with("hierarchy=True").splitlines():
        code, _, comment = line.partition("  # ")
        if comment.startswith("["):
            assert eval(code, names) == eval(comment[: comment.rindex("]") + 1])
            shown += 1
    assert shown == 1


def test_rounds_of_the_first_example_are_those_of_the_protocol() -> None:
    names = run(example_with('kv.mechanism("privkvm"'))
    assert [one.round.number for one in names["finished"]] == [1, 2, 3]
    assert {one.tally.reports for one in names["finished"]} == {len(names["people"])}
    frequency = names["estimates"].frequency["fries"]
    assert abs(frequency.value - 2 / 3) < 6 * frequency.se
