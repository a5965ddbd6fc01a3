"""Several collector processes that share one port of one machine, and the process that keeps them running."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from multiprocessing.synchronize import Event
from typing import Any

from keyveil.collector import logs
from keyveil.core.errors import KeyveilError

Work = Callable[..., None]
"""What a worker does, given its arguments and an event to set once it takes requests."""

_AGAIN = 1.0  # seconds before a worker that ended is started again

log = logs.logger()


class Workers:
    """Worker processes, started again when they end by themselves, until a signal to stop.

    ``ended`` hears the number of a process that ended, before another takes its place.
    """

    def __init__(
        self, count: int, work: Work, *arguments: Any, ended: Callable[[int], None] = lambda pid: None
    ) -> None:
        self._context = multiprocessing.get_context("spawn")  # nothing of this process's threads or connections
        self._work, self._arguments, self._ended = work, arguments, ended
        self._wake, self._waker = os.pipe()
        self._stopping = False
        self._running = [self._start() for _ in range(count)]

    def run(self, started: Callable[[], None], patience: float) -> None:
        """Until SIGTERM or SIGINT; ``started`` is called once all workers take requests. Workers that do not stop
        within ``patience`` seconds are killed."""
        before = {kind: signal.signal(kind, self._heard) for kind in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
        try:
            self._until_ready()
            if not self._stopping:
                started()
            while not self._stopping:
                self._watch()
        finally:
            self._stop(patience)
            for kind, handler in before.items():
                signal.signal(kind, handler)

    def _start(self) -> tuple[SpawnProcess, Event]:
        ready = self._context.Event()
        process = self._context.Process(target=_worker, args=(self._work, *self._arguments, ready), daemon=False)
        process.start()
        return process, ready

    def _heard(self, kind: int, _: object) -> None:
        if kind == signal.SIGHUP:
            for process, _ready in self._running:
                if process.is_alive() and process.pid is not None:
                    os.kill(process.pid, signal.SIGHUP)
        else:
            self._stopping = True
            os.write(self._waker, b"!")

    def _until_ready(self) -> None:
        for process, ready in self._running:
            while not self._stopping and not ready.wait(0.1):
                if not process.is_alive():
                    raise KeyveilError("serve/worker", "A worker did not start; its messages say why.")

    def _watch(self) -> None:
        """Wait until a worker ends or a signal comes; a worker that ended is started again."""
        wait([self._wake, *(process.sentinel for process, _ in self._running)])
        for place, (process, _) in enumerate(self._running):
            if not self._stopping and not process.is_alive():
                log.error("A worker has ended and is started again.", exit_code=process.exitcode)
                if process.pid is not None:
                    self._ended(process.pid)
                time.sleep(_AGAIN)
                self._running[place] = self._start()

    def _stop(self, patience: float) -> None:
        for process, _ in self._running:
            if process.is_alive():
                process.terminate()
        end = time.monotonic() + patience
        for process, _ in self._running:
            process.join(max(0.1, end - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()


def _worker(work: Work, *arguments: Any) -> None:
    """Do the work, and stop when the process that started this one is gone."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="keyveil-parent", daemon=True).start()
    work(*arguments)
