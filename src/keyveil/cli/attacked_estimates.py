"""What several commands show after a suspected attack: frequencies after recovery, and the sketch that they need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from keyveil.core.errors import KeyveilError
from keyveil.core.estimates import Estimates
from keyveil.core.tally import Tally
from keyveil.mechanisms.base import Mechanism
from keyveil.robustness.recovery import Recovered, recover


def recovered(
    method: str | None, postprocess: str | None, mechanism: Mechanism, tally: Tally, estimates: Estimates, sketch: Any
) -> tuple[Estimates, Recovered | None]:
    """The estimates after recovery, labelled, if a method is given; refused beside post-processing."""
    if method is None:
        return estimates, None
    if postprocess is not None:
        raise KeyveilError("recover/postprocess", "Frequencies are recovered or post-processed, not both.")
    found = recover(method, mechanism, tally, estimates, sketch)
    return found.estimates(estimates), found


def read_sketch_file(path: Path | None) -> Tally | None:
    """A sketch as keyveil tally --sketch writes it."""
    if path is None:
        return None
    try:
        return Tally.from_bytes(path.read_bytes())
    except OSError as reason:
        raise KeyveilError("input/file", f"{path} cannot be read: {reason.strerror}.") from reason
