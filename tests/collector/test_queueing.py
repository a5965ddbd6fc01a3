"""Who is next: small before large, every campaign its share, and nobody waits for ever."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from keyveil.collector.lanes import Lane
from keyveil.collector.queueing import FairQueue


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 100)), max_size=30))
def test_everything_that_is_put_is_taken_once(items: list[tuple[str, int]]) -> None:
    queue: FairQueue[int] = FairQueue()
    for number, (flow, work) in enumerate(items):
        queue.put(flow, work, number)
    assert sorted(queue.take() for _ in range(len(queue))) == list(range(len(items)))


@given(st.integers(1, 30), st.integers(0, 29))
def test_a_small_piece_overtakes_large_ones_of_its_campaign(large: int, served: int) -> None:
    queue: FairQueue[str] = FairQueue()
    for _ in range(large):
        queue.put("snacks", 1000, "large")
    for _ in range(min(served, large - 1)):
        queue.take()
    queue.put("snacks", 10, "small")
    assert queue.peek() == queue.take() == "small"


def test_a_large_piece_is_not_put_off_for_ever() -> None:
    """Small ones come as fast as they are served, for ever; the large one is served when its equal share suffices."""
    queue: FairQueue[str] = FairQueue()
    queue.put("snacks", 300, "large")
    for _ in range(2000):  # the share grows with the root of the time: 30² turns, twice to be sure
        queue.put("snacks", 10, "small")
        if queue.take() == "large":
            return
    raise AssertionError("It is still waiting.")


@given(st.integers(1, 50), st.integers(1, 50))
def test_one_campaign_does_not_starve_another(hostile: int, honest: int) -> None:
    queue: FairQueue[str] = FairQueue()
    for _ in range(hostile):
        queue.put("flooded", 1000, "flooded")
    queue.take()
    for _ in range(honest):
        queue.put("quiet", 100, "quiet")
    order = [queue.take() for _ in range(len(queue))]
    for place in range(len(order)):  # up to every point both had the same work, but for the piece that was under way
        work = dict.fromkeys(("flooded", "quiet"), 0)
        for name in order[: place + 1]:
            work[name] += {"flooded": 1000, "quiet": 100}[name]
        if "quiet" in order[place:]:
            assert work["flooded"] <= work["quiet"] + 1000


def test_a_lane_gives_its_threads_to_the_small_first_and_survives_those_who_go() -> None:
    async def story() -> list[str]:
        lane, gate = Lane(1), threading.Event()
        done: list[str] = []
        first = asyncio.create_task(lane.run("a", 1, gate.wait))
        await asyncio.sleep(0)
        others = [asyncio.create_task(lane.run("a", work, partial(done.append, str(work)))) for work in (90, 50, 5)]
        await asyncio.sleep(0)
        others[1].cancel()
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(first, *others, return_exceptions=True)
        assert lane.waiting == 0
        await lane.run("a", 1, lambda: done.append("last"))
        return done

    assert asyncio.run(story()) == ["5", "90", "last"]
