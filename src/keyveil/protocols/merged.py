"""One answer from the rounds of disjoint groups: ``mechanisms.merging`` on what they have heard."""

from __future__ import annotations

from collections.abc import Sequence

from keyveil.core.errors import ProtocolError
from keyveil.core.estimates import Estimates
from keyveil.mechanisms.merging import merge
from keyveil.protocols.base import Finished, Protocol


def merged(
    groups: Sequence[Finished], protocol: Protocol, confidence: float = 0.95, population: bool = False
) -> Estimates:
    """Frequencies and means of everybody from the tallies of disjoint groups of a protocol."""
    if not groups:
        raise ProtocolError("protocol/nothing", f"No group of {protocol.name} has answered yet.")
    heard = [group for group in groups if group.tally.reports] or groups[:1]
    fixed, sampled = ([one.estimates(confidence, whole) for one in heard] for whole in (False, True))
    header = protocol.header(sum(one.n for one in fixed), confidence, population)
    return merge(header, fixed, sampled)
