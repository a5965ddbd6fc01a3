"""The benchmark of record: resumed cells, ranks and regrets, the limit, and what is said of every row."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keyveil.core.errors import KeyveilError
from keyveil.core.schema import Schema
from keyveil.frames.truth import Truth
from keyveil.lab.record.cells import TOLD_OF_TIME, Cell, measure
from keyveil.lab.record.files import described, read, write
from keyveil.lab.record.limit import distance, information, least_error
from keyveil.lab.record.measures import MEASURES, divergence, over_runs
from keyveil.lab.record.plan import PRESETS, Grid, cells, preset
from keyveil.lab.record.runner import FILE, missing, run
from keyveil.lab.record.table import COLUMNS, Record, record_of
from keyveil.lab.store import Finished, Store

GRID = Grid("", ("synthetic:zipf:{n}:keys=16",), (400,), ("1", "4"), ("grr", "kvue"), ("raw", "norm-sub"), 8)
PLAN = cells(GRID, seed=3)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return run(PLAN, Store(tmp_path_factory.mktemp("record")))


@pytest.fixture(scope="module")
def record(finished: Finished) -> Record:
    return record_of(PLAN, finished)


def steady(document: Any) -> str:
    """What must not differ between two runs."""
    rows = [{name: value for name, value in row.items() if name not in TOLD_OF_TIME} for row in document["rows"]]
    return json.dumps({**document, "rows": rows})


# -- finished cells -------------------------------------------------------------------------------------------------


def test_a_record_that_was_stopped_equals_one_that_was_not(record: Record, tmp_path: Path) -> None:
    store, heard = Store(tmp_path), 0

    def stop(title: str) -> None:
        nonlocal heard
        heard += 1
        if heard == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(PLAN, store, heard=stop)
    assert len(missing(PLAN, store.read(cell.key for cell in PLAN))) == 2
    with store.path.open("ab") as file:
        file.write(b'{"key": "cut off in the mid')
    again: list[str] = []
    found = record_of(PLAN, run(PLAN, store, heard=again.append))
    assert len(again) == 2 and steady(described(found)) == steady(described(record))


def test_a_cell_does_not_depend_on_what_ran_before_it(finished: Finished) -> None:
    last = measure(PLAN[-1])
    assert last["values"] == finished[PLAN[-1].key]["values"]
    assert measure(replace(PLAN[-1], seed=4))["values"] != last["values"]


def test_a_damaged_line_is_counted_and_its_cell_run_again(record: Record, tmp_path: Path) -> None:
    store = Store(tmp_path)
    run(PLAN, store)
    lines = store.path.read_bytes().splitlines()
    place = lines[1].index(b'"mse_frequency":[0.') + len(b'"mse_frequency":[0.')
    lines[1] = lines[1][:place] + (b"1" if lines[1][place : place + 1] != b"1" else b"2") + lines[1][place + 1 :]
    store.path.write_bytes(b"\n".join(lines) + b"\n\xff\x00 not a cell\n")
    assert len(missing(PLAN, store.read(cell.key for cell in PLAN))) == 1 and store.damaged == 2
    assert steady(described(record_of(PLAN, run(PLAN, store)))) == steady(described(record))


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: Record) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(KeyveilError, match="No space left on device; cells that were finished before are kept") as told:
        run(PLAN, Store(tmp_path, FILE))
    assert told.value.code == "compare/file"
    (tmp_path / "file").write_text("")
    with pytest.raises(KeyveilError, match="finished cells are kept"):
        write(record, tmp_path / "file")


def test_other_runs_people_or_decoders_are_other_cells() -> None:
    one = PLAN[0]
    others = [replace(one, seed=9), replace(one, repeats=9), replace(one, decoders=("raw",)), replace(one, who="oue")]
    assert len({cell.key for cell in (one, *others)}) == 5


def test_changed_code_is_run_again() -> None:
    first, second = (cells(GRID, seed=3, submitted={"kvue": code}) for code in ("one", "two"))
    assert [one.key != two.key for one, two in zip(first, second, strict=True)] == [False, True, False, True]


# -- what is measured -----------------------------------------------------------------------------------------------


def test_bias_and_variance_add_up_to_the_error(record: Record) -> None:
    for row in record.rows:
        for quantity in ("frequency", "mean"):
            if row[f"bias2_{quantity}"] is not None:
                both = row[f"bias2_{quantity}"] + row[f"variance_{quantity}"]
                assert both == pytest.approx(row[f"mse_{quantity}"], rel=1e-9)
    raw, cut = (next(row for row in record.rows if row["decoder"] == one) for one in ("raw", "norm-sub"))
    assert abs(raw["bias2_frequency"]) < 4 * raw["bias2_frequency_se"]  # plain estimates have none
    assert cut["variance_frequency"] < raw["variance_frequency"]


def test_bias_and_fairness_of_planted_errors() -> None:
    rng = np.random.default_rng(1)
    errors = rng.normal(0.5, 0.1, (400, 3))
    found = over_runs(errors, "mean")
    assert found["bias2_mean"][0] == pytest.approx(0.25, abs=4 * (found["bias2_mean"][1] or 0))
    assert found["variance_mean"][0] == pytest.approx(0.01, abs=4 * (found["variance_mean"][1] or 0))
    assert found["jain_mean"][0] > 0.99
    unfair = over_runs(errors * np.array([1, 0, 0]), "mean")["jain_mean"][0]
    assert unfair == pytest.approx(1 / 3)
    assert over_runs(errors[:2], "mean") == {}


def test_divergence_in_nats() -> None:
    true = np.array([0.5, 0.5, 0.0])
    assert divergence(true, true, 10**9) == pytest.approx(0, abs=1e-8)
    assert divergence(np.array([1.0, -0.2, 0.0]), true, 50) == pytest.approx(
        0.5 * np.log(0.5 / (1 / 1.02)) + 0.5 * np.log(0.5 / (0.01 / 1.02))
    )


def test_the_distance_is_one_at_the_limit_and_two_at_twice_the_variance() -> None:
    d, n, epsilon, rng = 200, 10_000, 1.0, np.random.default_rng(5)
    f = np.full(d, 0.05)
    truth = Truth(Schema(keys=d), n, (f * n).astype(np.int64), np.zeros(d))
    share = information(epsilon) * n / d  # Σ f(1-f)/Var = n·C, alike for all keys
    whole = f * (1 - f) / share  # the variance with which people and noise come together
    for factor in (1.0, 2.0):
        noise = rng.normal(0, np.sqrt(factor * whole - f * (1 - f) / n), (40, d))
        found, se = distance(f + noise, None, truth, np.ones(d), epsilon, n)
        assert found is not None and se is not None and found == pytest.approx(factor, abs=5 * se) and se < 0.1 * factor
    assert least_error(truth, epsilon, n) == pytest.approx((whole - f * (1 - f) / n).mean())
    assert distance((f + noise)[:5], None, truth, np.ones(d), epsilon, n) == (None, None)


def test_information_about_values_counts_as_much_as_about_keys() -> None:
    d, n, epsilon, rng = 100, 10_000, 1.0, np.random.default_rng(6)
    f = np.full(d, 0.1)
    truth = Truth(Schema(keys=d), n, (f * n).astype(np.int64), np.zeros(d))
    own = np.array([0.1 * 0.9, 0.1])  # of holding the key, and of its value ±1 if held
    whole = own * 2 * d / (n * information(epsilon))
    x, u = (rng.normal(0, np.sqrt(whole[i] - own[i] / n), (60, d)) for i in (0, 1))
    found, se = distance(f + x, u, truth, np.ones(d), epsilon, n)
    assert found is not None and se is not None and found == pytest.approx(1, abs=5 * se) and se < 0.05


@pytest.mark.parametrize(
    ("data", "who", "counts"),
    [
        ("synthetic:zipf:300:keys=8", "grr", "law"),
        ("synthetic:zipf:300:keys=8", "wheel", "reports"),
        ("synthetic:linear-s:11000000:size=2,keys=6", "kvue", "types"),
        ("synthetic:linear-s:11000000:size=2,keys=6", "ssr:max_pairs=2", "limit"),
    ],
)
def test_a_row_says_where_its_counts_come_from(data: str, who: str, counts: str) -> None:
    cell = Cell(data, "1", who, ("raw",), 2, 1)
    done = measure(cell)
    assert done["counts"] == counts
    row = record_of([cell], {cell.key: done}).rows[0]
    assert row["approximate"] == (counts == "limit")
    assert (row["coverage_frequency"] is None) == (counts == "limit")
    assert row["n"] == int(data.split(":")[2])


def test_more_people_than_can_be_asked_are_refused_where_there_is_no_law() -> None:
    cell = Cell("synthetic:plaw:100000000", "1", "pckv-ue", ("raw",), 2, 1)
    record = record_of([cell], {cell.key: measure(cell)})
    assert not record.rows and "neither an exact law" in record.refused[0]["reason"]


def test_laws_of_values_stand_beside_the_first_decoder() -> None:
    cell = Cell("synthetic:linear-s:500:size=2,keys=6", "2", "kvue:bins=4", ("raw", "norm-sub"), 2, 1)
    raw, other = record_of([cell], {cell.key: measure(cell)}).rows
    assert 0 < raw["wasserstein"] < 1 and 0 < raw["ks"] < 1
    assert other["wasserstein"] is None and other["ks"] is None


# -- ranks ----------------------------------------------------------------------------------------------------------


def planted(errors: dict[str, tuple[float, float]]) -> Record:
    """A record of one setting in which contenders have these errors of frequencies."""
    own = [Cell("synthetic:zipf:10", "1", who, ("raw",), 40, 1) for who in errors]
    about = {"n": 10, "keys": 2, "counts": "law", "requested": "1", "seconds": 0.0}
    return record_of(
        own,
        {cell.key: {"key": cell.key, "values": {"raw": {"mse_frequency": errors[cell.who]}}, **about} for cell in own},
    )


def test_regrets_wins_and_ties_at_two_standard_errors() -> None:
    clear = planted({"grr": (1.0, 0.1), "oue": (1.5, 0.1), "olh": (3.0, 0.1)})
    assert [row["regret_mse_frequency"] for row in clear.rows] == [1.0, 1.5, 3.0]
    assert clear.wins("mse_frequency") == {("grr", "raw"): (1, 0)}
    close = planted({"grr": (1.0, 0.1), "oue": (1.25, 0.1), "olh": (3.0, 0.1)})
    assert close.wins("mse_frequency") == {("grr", "raw"): (0, 1), ("oue", "raw"): (0, 1)}
    assert [row["tied_mse_frequency"] for row in close.rows] == [False, True, False]


def test_where_more_is_better_the_largest_wins(record: Record) -> None:
    for setting in record.settings:
        rows = [row for row in record.rows if (row["data"], f"{row['epsilon']:g}") == setting]
        best = next(row for row in rows if row["best_ndcg"])
        assert best["ndcg"] == max(row["ndcg"] for row in rows)
        assert min(row["regret_mse_frequency"] for row in rows) == 1


def test_the_same_decoder_has_a_regret_of_its_own(record: Record) -> None:
    for decoder in ("raw", "norm-sub"):
        rows = [row for row in record.rows if row["decoder"] == decoder and row["epsilon"] == 1]
        assert min(row["regret_same_mse_frequency"] for row in rows) == 1


# -- files ----------------------------------------------------------------------------------------------------------


def test_parquet_and_json_hold_the_same_rows_in_the_documented_columns(record: Record, tmp_path: Path) -> None:
    write(record, tmp_path, "keyveil compare …")
    document = json.loads((tmp_path / "record.json").read_text())
    table = read(tmp_path / "record.parquet")
    assert document["schema"] == "keyveil-record" and document["version"] == 1
    assert table.column_names == list(COLUMNS) == list(document["columns"])
    assert table.to_pylist() == document["rows"]
    page = Path("docs/record.md").read_text(encoding="utf-8")
    assert [name for name in COLUMNS if f"`{name}`" not in page and not name.endswith("_se")] == []
    assert not [path.name for path in tmp_path.iterdir() if path.name.endswith(".part")]


def test_another_file_is_not_read_as_a_record(tmp_path: Path) -> None:
    (tmp_path / "record.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(KeyveilError, match="cannot be read as a record"):
        read(tmp_path / "record.parquet")
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), tmp_path / "other.parquet")
    with pytest.raises(KeyveilError, match="not a record of version 1"):
        read(tmp_path / "other.parquet")


# -- grids ----------------------------------------------------------------------------------------------------------


def test_the_single_item_benchmark_is_whole() -> None:
    grid = preset("single-item")
    assert len(grid.mechanisms) == 6 and len(grid.decoders) == 7 and grid.repeats == 40
    found = cells(grid, seed=1)
    assert len(found) == len({cell.key for cell in found}) == 6 * len(grid.data) * len(grid.people) * len(grid.epsilons)
    assert {"mse_frequency", "l1_frequency", "kl_frequency", "ndcg"} <= MEASURES.keys()
    assert {max(one.people) for one in PRESETS.values()} >= {10**8}


def test_the_grid_of_sets_has_everybody_and_an_estimator_of_others() -> None:
    grid = preset("key-value")
    assert {"ssr", "privkv", "privkv:split=paper", "privkv:estimator=em"} <= set(grid.everybody)
    assert replace(grid, mechanisms=("ssr",)).everybody == ("ssr",)
    done = measure(Cell("synthetic:zipf:300:keys=8", "1", "privkv:estimator=em", ("raw", "norm-sub"), 8, seed=1))
    assert done["distance"] is None and done["values"]["raw"]["mse_frequency"][0] > 0  # biased by design
    assert "coverage_frequency" not in done["values"]["raw"]


def test_what_a_grid_cannot_be_is_refused() -> None:
    with pytest.raises(KeyveilError, match="did you mean key-value"):
        preset("key-valu")
    with pytest.raises(KeyveilError, match="did you mean zipf"):
        cells(replace(GRID, data=("synthetic:zipff",)), seed=1)
    with pytest.raises(KeyveilError, match=r"nowhere\.csv cannot be read: No such file"):
        cells(replace(GRID, data=("nowhere.csv",)), seed=1)
    with pytest.raises(KeyveilError, match="has the option 'speed'"):
        cells(GRID, seed=1, given={"speed": "1"})
    with pytest.raises(KeyveilError, match="no decoder"):
        cells(replace(GRID, decoders=("raww",)), seed=1)


def test_a_file_is_known_by_what_it_holds_and_not_by_where_it_lies(tmp_path: Path) -> None:
    text = "user,key,value\n1,a,1\n1,b,2\n2,a,3\n"
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "data.csv").write_text(text)
    grid = replace(GRID, mechanisms=("kvue",), epsilons=("1",))
    keys = [cells(replace(grid, data=(str(tmp_path / one / "data.csv"),)), seed=1)[0].key for one in ("one", "two")]
    assert keys[0] == keys[1]
    (tmp_path / "two" / "data.csv").write_text(text + "3,a,1\n")
    changed = cells(replace(grid, data=(str(tmp_path / "two" / "data.csv"),)), seed=1)[0]
    assert changed.key != keys[0]
    row = record_of([changed], {changed.key: measure(changed)}).rows[0]
    assert row["data"] == "data.csv" and row["n"] == 3
