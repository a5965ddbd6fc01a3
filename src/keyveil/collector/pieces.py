"""Large uploads in pieces that are stored one by one, and the outcome of the whole."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keyveil.collector.storing import Upload, UploadResult

PIECE = 1 << 20  # bytes of an upload that are stored at once


def in_pieces(upload: Upload) -> list[Upload]:
    """The same reports in uploads of about ``PIECE`` bytes; what was refused before is told by the first."""
    reports = upload.reports
    size = max(1, PIECE * len(reports) // upload.work)
    if len(reports) <= size:
        return [upload]
    first = replace(upload, reports=reports[:size], reserved=size + upload.reserved - len(reports), done=Future())
    parts = [reports[start : start + size] for start in range(size, len(reports), size)]
    others = [
        replace(upload, reports=part, reserved=len(part), refused=(), repeated=0, done=Future()) for part in parts
    ]
    return [first, *others]


def gather(done: Future[UploadResult], parts: Sequence[Future[UploadResult]]) -> None:
    """Give an upload its outcome once all of its pieces have theirs; one that failed makes the whole fail."""
    left, lock = len(parts), threading.Lock()

    def settled(_: Future[UploadResult]) -> None:
        nonlocal left
        with lock:
            left -= 1
            last = left == 0
        if last and done.set_running_or_notify_cancel():
            try:
                done.set_result(_together([part.result() for part in parts]))
            except BaseException as reason:
                done.set_exception(reason)

    for part in parts:
        part.add_done_callback(settled)


def _together(results: Sequence[UploadResult]) -> UploadResult:
    return replace(
        results[0],
        accepted=sum(one.accepted for one in results),
        duplicates=sum(one.duplicates for one in results),
        refused=tuple(refused for one in results for refused in one.refused),
    )
