"""Counting files of reports: whatever their number, order and the size of blocks, each report once, or a refusal."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet as parquet
import pytest

from keyveil.campaign.report_schema import parquet_writer, report_schema
from keyveil.core.codecs.payloads import Payloads
from keyveil.core.coins import Coins
from keyveil.core.errors import KeyveilError, MissingExtra, ReportError
from keyveil.core.tally import Tally
from keyveil.engines import local
from keyveil.engines.checkpoint import Checkpoint, Done
from keyveil.engines.files import ReportFiles
from keyveil.engines.fold import FlawedReport, Fold, Ids
from keyveil.engines.local import count
from keyveil.engines.unique import Lump
from tests.engines.report_files import PILOT, SNACKS, Rows, first_round, reports, spoilt, written

DOCUMENT = first_round(SNACKS)


def truth(rows: Rows) -> Tally:
    """The tally of reports that were read one by one."""
    mechanism = DOCUMENT.mechanism
    return mechanism.tally([mechanism.decode(one.rstrip(b"\0")[:-1], id) for id, one in rows if one is not None])


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keyveil.engines.files._AT_ONCE", 7)
    monkeypatch.setattr("keyveil.engines.unique._DRAWER", 32)


@pytest.mark.parametrize("kind", ["fixed", "binary", "large", "arrow"])
def test_the_tally_of_a_file_is_that_of_its_reports(kind: str, tmp_path: Path) -> None:
    rows = reports(DOCUMENT, 300)
    kinds = {"binary": pyarrow.binary(), "large": pyarrow.large_binary()}
    given = {"id": kinds[kind], "payload": kinds[kind]} if kind in kinds else {}
    file = written(tmp_path / ("r.arrow" if kind == "arrow" else "r.parquet"), rows, DOCUMENT, **given)

    assert DOCUMENT.mechanism.codec.varies
    counted = count(file, DOCUMENT)
    assert counted.tally == truth(rows) and (counted.files, counted.read, counted.copies) == (1, 300, 0)


def test_the_fold_is_pure_and_travels() -> None:
    for document in (DOCUMENT, first_round(PILOT)):
        rows = reports(document, 50)
        batch = pyarrow.record_batch({"id": [id for id, _ in rows], "payload": [payload for _, payload in rows]})
        fold = Fold(document)
        again = pickle.loads(pickle.dumps(fold))
        assert fold(batch) == again(batch) == again(batch[:20]) + fold(batch[20:]) and again.document == document


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("threads", [1, 3])
def test_number_order_and_blocks_of_files_do_not_matter(threads: int, tmp_path: Path) -> None:
    rows = reports(DOCUMENT, 200)
    (tmp_path / "sorted").mkdir()
    for place in range(5):
        written(tmp_path / "sorted" / f"{place}.parquet", rows[place::5], DOCUMENT)
    (tmp_path / "sorted" / "_SUCCESS").touch()
    mixed = written(tmp_path / "mixed.parquet", rows[100:] + rows[:100][::-1])
    heard: list[tuple[int, int]] = []

    for path in (tmp_path / "sorted", mixed):
        counted = count(path, DOCUMENT, threads=threads, progress=lambda done, of: heard.append((done, of)))
        assert counted.tally == truth(rows) and counted.copies == 0
    assert heard[-1] == (200, 200) and len(heard) > 20


def test_an_empty_file_is_an_empty_tally(tmp_path: Path) -> None:
    tally = count(written(tmp_path / "r.parquet", []), DOCUMENT).tally
    assert tally.reports == 0 and not tally.counts.any()


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("order", ["sorted", "mixed", "two files"])
def test_copies_count_once_and_contradictions_stop_everything(order: str, tmp_path: Path) -> None:
    rows = reports(DOCUMENT, 60)
    other = next(payload for _, payload in rows if payload != rows[3][1])

    def spread(name: str, extra: Rows) -> Path:
        (tmp_path / name).mkdir()
        parts = [rows, extra] if order == "two files" else [sorted(rows + extra) if order == "sorted" else rows + extra]
        for number, part in enumerate(parts):
            written(tmp_path / name / f"{number}.parquet", part)
        return tmp_path / name

    copied = count(spread("copies", [rows[3], rows[3], rows[6], rows[59]]), DOCUMENT)
    assert copied.tally == truth(rows) and copied.copies == 4
    with pytest.raises(ReportError, match=rows[3][0].hex()) as refusal:
        count(spread("contradiction", [(rows[3][0], other)]), DOCUMENT)
    assert refusal.value.code == "report/twice" and ".parquet" in refusal.value.sentence


@pytest.mark.parametrize("seed", range(20))
def test_copies_on_borders_of_blocks_and_lumps_count_once(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, rows = np.random.default_rng(seed), reports(DOCUMENT, 60)
    monkeypatch.setattr("keyveil.engines.files._AT_ONCE", int(rng.integers(1, 5)))
    monkeypatch.setattr("keyveil.engines.unique._LUMP", int(rng.integers(1, 20)))
    files, copies = int(rng.integers(1, 5)), 0
    owners, again = rng.integers(0, files, 60), rng.integers(0, files, 60)
    for number in range(files):
        held = [row for row, owner in zip(rows, owners, strict=True) if owner == number]
        held += [row for row, owner in zip(rows, again, strict=True) if owner == number and rng.random() < 0.5]
        copies += len(held)
        written(tmp_path / f"{number}.parquet", sorted(held))
    counted = count(tmp_path, DOCUMENT, threads=2)
    assert counted.tally == truth(rows) and counted.copies == copies - 60

    other = next(payload for _, payload in rows if payload != rows[30][1])
    written(tmp_path / "other.parquet", [(rows[30][0], other)])
    with pytest.raises(ReportError, match=rows[30][0].hex()) as refusal:
        count(tmp_path, DOCUMENT, threads=2)
    assert refusal.value.code == "report/twice"


@pytest.mark.parametrize("column", ["id", "payload"])
@pytest.mark.parametrize("by", [b"\0", b"\xff", None], ids=["zeros", "ones", "other rows"])
def test_bytes_that_were_written_over_are_damage_and_no_contradiction(
    column: str, by: bytes | None, tmp_path: Path
) -> None:
    rows = reports(DOCUMENT, 400)
    batch = pyarrow.record_batch(list(zip(*rows, strict=True)), schema=report_schema(DOCUMENT))
    for checked in (True, False):
        file = tmp_path / f"{checked}.parquet"
        with parquet_writer(file, batch.schema) if checked else parquet.ParquetWriter(file, batch.schema) as writer:
            writer.write_batch(batch)
        assert count(file, DOCUMENT).read == 400
        octets = bytearray(file.read_bytes())
        chunk = parquet.read_metadata(file).row_group(0).column(1)
        end = chunk.dictionary_page_offset + chunk.total_compressed_size  # of the payloads
        start, size = (octets.find(rows[200][0]), 800) if column == "id" else (end - 20, 20)
        assert start > 0
        octets[start : start + size] = octets[start - size : start] if by is None else by * size
        file.write_bytes(octets)
        if checked or column == "id":  # nothing tells payloads without a checksum from others
            with pytest.raises(KeyveilError, match="damaged file of reports") as refusal:
                count(file, DOCUMENT)
            assert refusal.value.code == "input/parquet" and file.name in refusal.value.sentence


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(
    ("payload", "code"), [(b"", "report/size"), (b"\xff\x80", "report/malformed"), (None, "report/scrubbed")]
)
def test_one_wrong_report_refuses_the_file_and_is_named_by_its_place(
    payload: bytes | None, code: str, backwards: bool, tmp_path: Path
) -> None:
    rows = reports(DOCUMENT, 40)
    with pytest.raises(ReportError, match=r"Report 25 of r\.parquet ") as refusal:
        count(written(tmp_path / "r.parquet", spoilt(rows[::-1] if backwards else rows, 24, payload)), DOCUMENT)
    assert refusal.value.code == code


def test_other_people_rounds_and_campaigns_are_refused(tmp_path: Path) -> None:
    document = first_round(PILOT)  # asks a quarter of the people
    rows = reports(document, 40)
    strangers = [*rows[:5], *((Coins().bytes(16), payload) for _, payload in rows[5:])]
    for file, code in (
        (written(tmp_path / "p.parquet", strangers), "report/part"),
        (written(tmp_path / "r.parquet", rows, replace(document, number=2)), "report/round"),
        (written(tmp_path / "c.parquet", rows, DOCUMENT), "report/campaign"),
    ):
        with pytest.raises(ReportError) as refusal:
            count(file, document)
        assert refusal.value.code == code and file.name in refusal.value.sentence


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("ordered", [True, False])
def test_an_interrupted_run_goes_on_and_ends_as_one_that_was_not(
    ordered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = reports(DOCUMENT, 200)
    file, kept = written(tmp_path / "r.parquet", rows if ordered else rows[::-1]), tmp_path / "r.partial"
    monkeypatch.setattr(local, "_KEPT_EVERY", 0.0)
    folded: list[int] = []
    honest = Fold.count

    def power_cut(self: Fold, ids: Ids, payloads: Payloads) -> Tally:
        folded.append(len(ids))
        if sum(folded) > 120:
            raise KeyboardInterrupt
        return honest(self, ids, payloads)

    monkeypatch.setattr(Fold, "count", power_cut)
    with pytest.raises(KeyboardInterrupt):
        count(file, DOCUMENT, threads=1, checkpoint=kept)
    monkeypatch.setattr(Fold, "count", honest)
    resumed = count(file, DOCUMENT, threads=1, checkpoint=kept)

    assert resumed.tally == truth(rows) and 0 < resumed.resumed < 200
    assert not kept.exists()


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("late", [False, True])
def test_what_was_done_while_a_file_seemed_sorted_is_not_believed(
    late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = reports(DOCUMENT, 200)
    file, kept = written(tmp_path / "r.parquet", rows[50:] + rows[:50]), tmp_path / "r.partial"
    monkeypatch.setattr(local, "_KEPT_EVERY", 0.0)
    honest = Fold.count

    def power_cut(*_: object) -> Iterator[Lump]:
        raise KeyboardInterrupt

    def cut_short(self: Fold, ids: Ids, payloads: Payloads) -> Tally:
        if rows[150][0] in ids.tobytes():
            raise KeyboardInterrupt
        return honest(self, ids, payloads)

    with monkeypatch.context() as broken:
        broken.setattr(*((local, "from_drawers", power_cut) if late else (Fold, "count", cut_short)))
        with pytest.raises(KeyboardInterrupt):
            count(file, DOCUMENT, threads=1, checkpoint=kept)
    assert kept.exists()
    assert count(file, DOCUMENT, threads=1, checkpoint=kept).tally == truth(rows)


def test_what_is_done_belongs_to_the_same_files_and_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, kept = reports(DOCUMENT, 60), tmp_path / "r.partial"
    files = ReportFiles.at(written(tmp_path / "r.parquet", rows), DOCUMENT)
    done = Done(truth(rows[:30]), rows[29][0])
    Checkpoint.of(kept, files, DOCUMENT).write(done)
    assert kept.stat().st_mode & 0o777 == 0o600  # a tally of few reports is nobody's business
    assert count(files.paths[0], DOCUMENT, checkpoint=kept).resumed == 30

    Checkpoint.of(kept, files, DOCUMENT).write(done)
    written(files.paths[0], rows[:50])
    again = count(files.paths[0], DOCUMENT, checkpoint=kept)
    assert again.resumed == 0 and again.tally == truth(rows[:50])
    kept.write_bytes(b"junk")
    assert count(files.paths[0], DOCUMENT, checkpoint=kept).tally == truth(rows[:50])


def test_what_is_no_file_of_reports_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("id,payload")
    (tmp_path / "half.arrow").write_bytes(b"ARROW1\0\0 and then nothing")
    half = written(tmp_path / "half.parquet", reports(DOCUMENT, 50))
    half.write_bytes(half.read_bytes()[:-40])
    (tmp_path / "empty").mkdir()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes.txt").touch()
    for name, code in (
        ("missing", "input/file"),
        ("text", "input/parquet"),
        ("half.arrow", "input/parquet"),
        ("half.parquet", "input/parquet"),
        ("empty", "input/file"),
        ("folder", "input/folder"),
    ):
        with pytest.raises(KeyveilError) as refusal:
            count(tmp_path / name, DOCUMENT)
        assert refusal.value.code == code, name


def test_without_the_extra_one_sentence_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path / "r.parquet", [])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"Files of reports need pyarrow: pip install 'keyveil\[local\]'"):
        count(file, DOCUMENT)


def test_ids_have_sixteen_bytes() -> None:
    fold = Fold(DOCUMENT)
    for id in (b"short", None):
        with pytest.raises(FlawedReport) as refusal:
            fold(pyarrow.record_batch({"id": pyarrow.array([bytes(16), id], pyarrow.binary()), "payload": [b"x"] * 2}))
        assert refusal.value.code == "report/public" and pickle.loads(pickle.dumps(refusal.value)).row == 1
