"""One answer from the rounds of disjoint groups: ``mechanisms.merging`` on what they have heard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from keyveil.core.errors import ProtocolError
from keyveil.core.estimates import Estimates
from keyveil.core.undercount import Undercount
from keyveil.mechanisms.capabilities import Capped, need
from keyveil.mechanisms.merging import merge
from keyveil.mechanisms.overflow.undercount import Surplus, cuts_alike, judged, size_error, solved, undercount
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


def judged_by(surplus: Surplus | None, told: Estimates, main: Finished, population: bool) -> Estimates:
    """The merged answer, judged by how far a group says that people exceed the cap of the main round."""
    mechanism = main.round.mechanism
    cap = need(mechanism, Capped).cap()
    if surplus is None or not main.tally.reports:
        return told.under(replace(told.header, undercount=Undercount(cap)))
    solution = solved(told)
    error = size_error(mechanism, main.tally.reports, solution, population)
    return judged(told.header, solution, told, undercount(cap, surplus, solution, error, cuts_alike(mechanism)))
