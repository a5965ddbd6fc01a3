"""Counting files of reports: whatever the order and the size of blocks, each report once, or a refusal."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pytest

from keyveil.core.coins import Coins
from keyveil.core.errors import KeyveilError, ReportError
from keyveil.engines.local import count, reports_in
from tests.engines.report_files import PILOT, SNACKS, first_round, reports, spoilt, written


def test_the_tally_of_a_file_is_that_of_its_reports(tmp_path: Path) -> None:
    document, mechanism = first_round(SNACKS), first_round(SNACKS).mechanism
    rows = reports(document, 300)
    plain = [mechanism.decode(padded.rstrip(b"\0")[:-1], public) for public, padded in rows if padded is not None]
    file = written(tmp_path / "r.parquet", rows)

    assert mechanism.codec.varies
    assert reports_in(file) == 300
    assert count(file, document) == mechanism.tally(plain)


def test_order_and_blocks_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = first_round(SNACKS)
    rows = reports(document, 300)
    sorted_rows, mixed = written(tmp_path / "a", rows), written(tmp_path / "b", rows[::-1], id=pyarrow.binary())
    whole = count(sorted_rows, document)
    monkeypatch.setattr("keyveil.engines.local._AT_ONCE", 7)
    blocks: list[int] = []

    assert count(sorted_rows, document, blocks.append) == count(mixed, document) == whole
    assert sum(blocks) == 300 and max(blocks) <= 7


def test_an_empty_file_is_an_empty_tally(tmp_path: Path) -> None:
    tally = count(written(tmp_path / "r.parquet", []), first_round(SNACKS))
    assert tally.reports == 0 and not tally.counts.any()


@pytest.mark.parametrize("ordered", [True, False])
def test_nobody_is_counted_twice(ordered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keyveil.engines.local._AT_ONCE", 10)
    document = first_round(SNACKS)
    rows = reports(document, 60)
    rows.insert(40, rows[3])
    with pytest.raises(ReportError, match=rows[3][0].hex()) as refusal:
        count(written(tmp_path / "r.parquet", sorted(rows) if ordered else rows[::-1]), document)
    assert refusal.value.code == "report/twice"


@pytest.mark.parametrize(
    ("payload", "code"), [(b"", "report/size"), (b"\xff\x80", "report/malformed"), (None, "report/scrubbed")]
)
def test_one_wrong_report_refuses_the_file_and_is_named_by_its_place(
    payload: bytes | None, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keyveil.engines.local._AT_ONCE", 10)
    document = first_round(SNACKS)
    with pytest.raises(ReportError, match="Report 25 ") as refusal:
        count(written(tmp_path / "r.parquet", spoilt(reports(document, 40), 24, payload)), document)
    assert refusal.value.code == code


def test_other_people_and_other_rounds_are_refused(tmp_path: Path) -> None:
    document = first_round(PILOT)  # asks a quarter of the people
    rows = reports(document, 40)
    strangers = [*rows[:5], *((Coins().bytes(16), payload) for _, payload in rows[5:])]
    for name, file, code in (
        ("p", written(tmp_path / "p.parquet", strangers), "report/part"),
        ("r", written(tmp_path / "r.parquet", rows, number=2), "report/round"),
    ):
        with pytest.raises(ReportError) as refusal:
            count(file, document)
        assert refusal.value.code == code, name


def test_what_is_no_file_of_reports_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("id,payload,round")
    for path, code in ((tmp_path / "missing", "input/file"), (tmp_path / "text", "input/parquet")):
        with pytest.raises(KeyveilError) as refusal:
            reports_in(path)
        assert refusal.value.code == code
