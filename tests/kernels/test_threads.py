from __future__ import annotations

import pytest

from keyveil.core.errors import KeyveilError
from keyveil.kernels.threads import WORTH_IT, available, in_ranges, threads_for


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [0, 1, 10, 64, 65])
def test_ranges_are_whole_blocks_in_order(count: int, threads: int) -> None:
    ranges = in_ranges(lambda start, stop: (start, stop), count, 10, threads)
    assert [place for start, stop in ranges for place in range(start, stop)] == list(range(count))
    assert all(start % 10 == 0 for start, _ in ranges) and len(ranges) <= threads


def test_many_people_use_the_cores_and_few_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYVEIL_THREADS", "2")
    assert threads_for(WORTH_IT) == 2 and threads_for(WORTH_IT - 1) == 1 and threads_for(10, 3) == 3
    monkeypatch.delenv("KEYVEIL_THREADS")
    assert threads_for(WORTH_IT) == available() >= 1


def test_work_inside_work_does_not_wait_for_its_own_pool() -> None:
    inner = in_ranges(lambda start, stop: threads_for(WORTH_IT, 2), 20, 10, 2)
    assert inner == [2, 1]  # the caller may ask for more, a thread of the pool may not


@pytest.mark.parametrize("bad", [0, 15])
def test_what_goes_wrong_in_any_thread_is_raised(bad: int) -> None:
    def work(start: int, stop: int) -> None:
        if start <= bad < stop:
            raise ValueError(str(bad))

    with pytest.raises(ValueError, match=str(bad)):
        in_ranges(work, 20, 10, 2)


@pytest.mark.parametrize("said", ["²", "9" * 5000, "0", "two", "-1"])
def test_a_number_of_threads_that_makes_no_sense_is_refused(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv("KEYVEIL_THREADS", said)
    with pytest.raises(KeyveilError, match="KEYVEIL_THREADS"):
        available()
    with pytest.raises(KeyveilError, match="at least one thread"):
        threads_for(10, 0)
