"""Keyveil: key-value data that nobody but its owner ever sees.

    import keyveil as kv

    schema = kv.Schema(keys=["burger", "fries", "pepsi"], low=1, high=5)
    mechanism = kv.mechanism("kvue", schema, epsilon=1.0)
    report = mechanism.perturb({"fries": 4, "pepsi": 5}, kv.Coins())

Names are loaded when they are first used, so a device pays only for what it needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from keyveil.core.rendering import offer

if TYPE_CHECKING:
    __version__: str
    from keyveil.core.coins import Coins as Coins
    from keyveil.core.errors import KeyveilError as KeyveilError
    from keyveil.core.estimates import Estimates as Estimates
    from keyveil.core.estimates import Interval as Interval
    from keyveil.core.groups import in_group as in_group
    from keyveil.core.schema import Schema as Schema
    from keyveil.core.tally import Tally as Tally
    from keyveil.frames.population import Population as Population
    from keyveil.lab.attacks.bench import attack as attack
    from keyveil.lab.compare import compare as compare
    from keyveil.lab.simulate import simulate as simulate
    from keyveil.learn import postprocess as postprocess
    from keyveil.mechanisms.registry import register as register
    from keyveil.planning import tail_bounds as tail_bounds
    from keyveil.planning.ask import plan as plan
    from keyveil.planning.auto import make as mechanism
    from keyveil.privacy import composition as composition
    from keyveil.protocols.catalogue import catalogue as mechanisms
    from keyveil.protocols.proofs import audit as audit
    from keyveil.protocols.proofs import certify as certify
    from keyveil.robustness.influence import influence as influence

offer(
    {
        "mechanisms.catalogue": "keyveil.protocols.catalogue:catalogue",
        "estimates.frame": "keyveil.frames.results:frame_of",
        "estimates.read": "keyveil.frames.results:read_estimates",
        "estimates.processed": "keyveil.learn.processed:read_processed",
        "estimates.plot": "keyveil.display.estimates:forest",
        "estimates.table": "keyveil.display.estimates:table",
        "certificate.html": "keyveil.display.cards:of_certificate",
        "certificate.plot": "keyveil.display.results:certificate",
        "comparison.html": "keyveil.display.cards:of_comparison",
        "comparison.plot": "keyveil.display.comparison:errors",
        "distributions.html": "keyveil.display.cards:of_distributions",
        "outcome.html": "keyveil.display.cards:of_outcome",
        "outcome.plot": "keyveil.display.results:outcome",
        "plan.html": "keyveil.display.cards:of_plan",
        "plan.plot": "keyveil.display.results:plan",
        "simulation.html": "keyveil.display.cards:of_simulation",
        "simulation.plot": "keyveil.display.results:simulation",
    }
)

_WHERE = {
    "Coins": "core.coins:Coins",
    "Estimates": "core.estimates:Estimates",
    "Interval": "core.estimates:Interval",
    "KeyveilError": "core.errors:KeyveilError",
    "Population": "frames.population:Population",
    "Schema": "core.schema:Schema",
    "Tally": "core.tally:Tally",
    "attack": "lab.attacks.bench:attack",
    "audit": "protocols.proofs:audit",
    "certify": "protocols.proofs:certify",
    "compare": "lab.compare:compare",
    "composition": "privacy.composition",
    "in_group": "core.groups:in_group",
    "influence": "robustness.influence:influence",
    "mechanism": "planning.auto:make",
    "mechanisms": "mechanisms",
    "plan": "planning.ask:plan",
    "postprocess": "learn.postprocess",
    "register": "mechanisms.registry:register",
    "simulate": "lab.simulate:simulate",
    "tail_bounds": "planning.tail_bounds",
}

__all__ = [
    "Coins",
    "Estimates",
    "Interval",
    "KeyveilError",
    "Population",
    "Schema",
    "Tally",
    "attack",
    "audit",
    "certify",
    "compare",
    "composition",
    "in_group",
    "influence",
    "mechanism",
    "mechanisms",
    "plan",
    "postprocess",
    "register",
    "simulate",
    "tail_bounds",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name not in _WHERE:
        raise _unknown(name)
    module, _, attribute = _WHERE[name].partition(":")
    found = import_module(f"keyveil.{module}")
    return getattr(found, attribute) if attribute else found


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


def _version() -> str:
    """The version of the installed package; pyproject.toml is its only home."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("keyveil")
    except PackageNotFoundError:  # the source tree was put on the path without being installed
        return "unknown"


def _unknown(name: str) -> AttributeError:
    from keyveil.core.hints import did_you_mean

    hint = "" if name.startswith("_") else did_you_mean(name, __all__)  # Python itself asks for names with underscores
    return AttributeError(f"module 'keyveil' has no attribute {name!r}{hint}", name=name, obj=None)
