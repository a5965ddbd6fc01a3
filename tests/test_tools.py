"""The runner of mutants: which changes it makes, and that remarks stay on its page. And lines that moved."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tools import lines, mutants
from tools.changes import changes
from tools.mutants import KILLED, SURVIVED, Callers, Outcome, page

SOURCE = '''
LEAST = 10

class Counter:
    """Text with a 1 stays."""

    limit: int = 3

    @property
    def enough(self) -> bool:
        return self.count >= LEAST and not self.closed

    def close(self, reports: int = 0) -> float | None:
        if self.closed:
            raise ValueError(f"{1 + 1} is closed")
        self.log.write("é", max(reports, 1))
        return -reports / 2.5
'''


def told(source: str = SOURCE) -> list[str]:
    return [str(one) for one in changes(source)]


def test_operators_comparisons_numbers_conditions_results_and_statements_are_changed() -> None:
    assert told() == [
        "`10` → `11`",
        "`3` → `4`",
        "`return self.count >= LEAST and not self.closed` → `return None`",
        "`self.count >= LEAST and not self.closed` → `((self.count >= LEAST) or (not self.closed))`",
        "`self.count >= LEAST` → `(self.count > LEAST)`",
        "`not self.closed` → `self.closed`",
        "`0` → `1`",
        "`self.closed` → `(not self.closed)`",
        '`raise ValueError(f"{1 + 1} is closed")` → `pass`',
        '`self.log.write("é", max(reports, 1))` → `pass`',
        "`max` → `min`",
        "`1` → `2`",
        "`return -reports / 2.5` → `return None`",
        "`-reports / 2.5` → `((-reports) * 2.5)`",
        "`-reports` → `reports`",
        "`2.5` → `5.0`",
    ]


def test_a_change_is_in_its_place_and_knows_its_function() -> None:
    after_text = next(one for one in changes(SOURCE) if str(one) == "`1` → `2`")
    assert 'self.log.write("é", max(reports, 2))' in after_text.applied(SOURCE)
    assert {SOURCE.splitlines()[one.function - 1].strip() for one in changes(SOURCE) if one.function} == {
        "@property",
        "def close(self, reports: int = 0) -> float | None:",
    }


@pytest.mark.parametrize("module", ["learn/constraints", "collector/retention", "device/consent"])
def test_every_change_of_real_modules_can_be_read(module: str) -> None:
    source = (Path(__file__).parents[1] / f"src/keyveil/{module}.py").read_text()
    found, before = changes(source), ast.unparse(ast.parse(source))
    assert len(found) > 5
    for one in found:
        assert ast.unparse(ast.parse(one.applied(source))) != before, str(one)


def test_the_modules_own_tests_come_first_and_others_only_if_they_call_what_was_changed() -> None:
    close = next(one for one in changes(SOURCE) if str(one) == "`1` → `2`")
    called = {
        "t/test_slow.py": [f"learn/sums:{close.function}"],
        "t/test_sums.py": [],
        "t/test_other.py": ["learn/x:1"],
    }
    callers = Callers(called, {"t/test_slow.py": 1.0, "t/test_sums.py": 9.0, "t/test_other.py": 2.0})
    assert callers.select("learn/sums", close) == ["t/test_sums.py", "t/test_slow.py"]
    assert len(callers.select("learn/sums", changes(SOURCE)[0])) == 3  # LEAST belongs to no function


def test_without_a_run_those_are_tried_that_import_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "src/keyveil/learn/sums.py": SOURCE,
        "tests/learn/test_own.py": "from keyveil.learn import ranking, sums",
        "tests/learn/test_sums.py": "",
        "tests/learn/test_far.py": "from keyveil.learn.sums_of import x",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(mutants, "TREE", tmp_path)
    chosen = mutants._namers("learn/sums").select("learn/sums", changes(SOURCE)[-1])
    assert chosen == ["tests/learn/test_sums.py", "tests/learn/test_own.py"]


def test_the_page_counts_and_keeps_remarks() -> None:
    first, second, *_ = changes("A = 1 | 2\nB = 3\n")
    outcomes = [Outcome("learn/sums", first, "", "", SURVIVED, 1.0), Outcome("learn/sums", second, "", "", KILLED, 1.0)]
    sizes = Counter(learn=12, device=3)
    written = page(outcomes, sizes, "SAMPLE=2 SEED=1", "")
    assert "| `learn` | `SAMPLE=2 SEED=1` | 12 | 2 | 1 | 0 | 1 |" in written
    assert "| `device` | `SAMPLE=2 SEED=1` | 3 | 0 | 0 | 0 | 0 |" in written
    (row,) = [line for line in written.splitlines() if line.startswith("| `learn/sums`")]
    remarked = written.replace(row, row.removesuffix("  |") + " Equivalent. |")
    assert page(outcomes, sizes, "SAMPLE=2 SEED=1", remarked) == remarked


def test_the_page_keeps_the_rooms_of_other_runs() -> None:
    first, *_ = changes("A = 1 | 2\n")
    learn = page([Outcome("learn/sums", first, "", "", SURVIVED, 1.0)], Counter(learn=12), "SAMPLE=1 SEED=1", "")
    both = page([Outcome("device/books", first, "", "", SURVIVED, 1.0)], Counter(device=3), "SAMPLE=9 SEED=2", learn)
    assert set(learn.splitlines()) < set(both.splitlines())
    assert "| `device` | `SAMPLE=9 SEED=2` | 3 | 1 | 0 | 0 | 1 |" in both and "| `device/books` | 1 |" in both
    none = page([], Counter(learn=12), "SAMPLE=0 SEED=3", both)
    assert "learn/sums" not in none and "device/books" in none


def test_a_line_stays_or_is_moved_once_and_otherwise_is_new() -> None:
    old = {"core": Counter({"a": 2, "b": 1, "c": 1}), "learn": Counter({"d": 1})}
    new = {"core": Counter({"a": 1, "d": 1}), "frames": Counter({"a": 2, "b": 1, "e": 1})}
    rows = lines.compared(old, new)
    assert rows == [("`core`", 4, 2, 1, 1, 0), ("`frames`", 0, 4, 0, 2, 2), ("`learn`", 1, 0, 0, 0, 0)]
    assert "| all | 5 | 6 | 1 | 3 | 2 |" in lines.page("b", {"a": rows})
