"""How far attackers could have moved the estimates of a campaign, as they are and after post-processing."""

from __future__ import annotations

from dataclasses import replace

from keyveil.core.attacked import Attacked
from keyveil.core.errors import CampaignError
from keyveil.core.estimates import Estimates
from keyveil.mechanisms.base import Mechanism
from keyveil.protocols.base import History, Protocol


def limits_of(
    estimates: Estimates, mechanism: Mechanism | None, history: History, protocol: Protocol, attackers: int
) -> Attacked:
    """Proved limits of one round; of several rounds together the largest change that a search found, named so."""
    if mechanism is not None:
        from keyveil.robustness.influence import influence

        return influence(mechanism, history[0].tally, attackers, estimates)
    from keyveil.lab.attacks.found import protocol_limits
    from keyveil.lab.coins import SeededCoins

    return protocol_limits(protocol, history, attackers, SeededCoins(0))


def processed_estimates(
    method: str, estimates: Estimates, mechanism: Mechanism | None, history: History, limits: Attacked | None
) -> Estimates:
    """Estimates after post-processing, with what the mechanism of their only round knows (its cap, sum and constants).

    A protocol gives its name and its ε to what its first round says. Post-processing takes constants only for
    estimates of the same mechanism, so these are processed as the round's own, and keep the protocol's name and ε.
    """
    from keyveil.lab.attacks.processed_limits import processed_with_limits
    from keyveil.learn import postprocess

    if mechanism is None:
        if limits is not None:
            raise CampaignError(
                "attack/postprocess",
                f"What attackers can do to several rounds after {method} is not known; ask for one.",
            )
        return postprocess.estimates(method, estimates)
    header = estimates.header
    own = replace(header, mechanism=mechanism.name, epsilon=mechanism.epsilon, options=mechanism.options)
    processed = processed_with_limits(estimates.under(own), method, mechanism, history[0].tally, limits)
    return replace(processed, header=header, raw=estimates)
