"""The runner: an interrupted run goes on, and neither that nor the number of processes changes a number."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyveil.core.errors import KeyveilError
from keyveil.lab.experiments.catalogue import experiment
from keyveil.lab.experiments.files import table
from keyveil.lab.experiments.plan import Plan, planned
from keyveil.lab.experiments.runner import missing, plans, run
from keyveil.lab.store import Store


@pytest.fixture(scope="module")
def plan() -> Plan:
    return planned(experiment("dong-fig3"), "tiny", seed=5)


@pytest.fixture(scope="module")
def uninterrupted(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> str:
    return table(run([plan], Store(tmp_path_factory.mktemp("whole")))[0])


def test_an_interrupted_run_that_goes_on_equals_one_that_was_not(
    plan: Plan, uninterrupted: str, tmp_path: Path
) -> None:
    store, heard = Store(tmp_path), 0

    def stop(id: str) -> None:
        nonlocal heard
        heard += 1
        if heard == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run([plan], store, heard=stop)
    assert missing([plan], store) == len(plan.cells) - 2
    with store.path.open("ab") as file:
        file.write(b'{"key": "cut off in the mid')  # what a power cut leaves
    again: list[str] = []
    assert table(run([plan], store, heard=again.append)[0]) == uninterrupted
    assert len(again) == len(plan.cells) - 2
    assert table(run([plan], store, heard=again.append)[0]) == uninterrupted
    assert len(again) == len(plan.cells) - 2  # nothing was left to run


def test_the_number_of_processes_changes_nothing(plan: Plan, uninterrupted: str, tmp_path: Path) -> None:
    assert table(run([plan], Store(tmp_path), processes=2)[0]) == uninterrupted


def test_another_seed_gives_other_numbers_and_other_cells(plan: Plan, uninterrupted: str, tmp_path: Path) -> None:
    other = planned(experiment("dong-fig3"), "tiny", seed=6)
    assert not {cell.key for cell in plan.cells} & {cell.key for cell in other.cells}
    assert table(run([other], Store(tmp_path))[0]) != uninterrupted


def test_a_full_disk_is_one_sentence_and_keeps_what_is_finished(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, calls = Store(tmp_path), 0

    def full(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(KeyveilError, match="No space left on device; cells that were finished before are kept") as told:
        run([plan], store)
    assert told.value.code == "reproduce/file"
    assert missing([plan], store) <= len(plan.cells) - 2


def test_equal_true_epsilon_is_spent_in_the_exact_form(plan: Plan, tmp_path: Path) -> None:
    results = run([plan], Store(tmp_path))[0]
    published = results.curves["published", "linear frequencies", "Adaptive", "mse_mean"]
    exact = results.curves["exact", "linear frequencies", "Adaptive", "mse_mean"]
    assert all(float(one or 0) < 6 for one in published.exact) and set(published.requested) == {"6"}
    assert all(5.94 < float(one or 0) <= 6 for one in exact.exact)


def test_a_folder_of_data_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyveilError, match="There is no folder"):
        plans([experiment("wang-fig8")], "quick", 1, tmp_path / "nowhere")
