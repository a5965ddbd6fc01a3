"""The names of all mechanisms. A module is loaded only when its name is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keyveil.core.epsilon import Number, parse_epsilon
from keyveil.core.errors import MechanismError
from keyveil.core.schema import Schema
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.options import fitted, load

_WHERE = {
    "grr": "categorical.grr:GRR",
    "sue": "categorical.unary:SUE",
    "oue": "categorical.unary:OUE",
    "olh": "categorical.olh:OLH",
    "ss": "categorical.ss:SS",
    "hr": "categorical.hr:HR",
    "shist": "categorical.shist:SHist",
    "rappor": "categorical.rappor:RAPPOR",
    "duchi": "numeric.duchi:Duchi",
    "mean-est": "numeric.mean_est:MeanEst",
    "piecewise": "numeric.piecewise:Piecewise",
    "hybrid": "numeric.hybrid:Hybrid",
    "square-wave": "numeric.square_wave:SquareWave",
    "kvue": "keyvalue.kvue:KVUE",
    "privkv": "keyvalue.privkv:PrivKV",
    "f2m": "keyvalue.f2m:F2M",
    "kvoh": "keyvalue.kvoh:KVOH",
    "ioh": "keyvalue.ioh:IOH",
    "moments": "keyvalue.moments:Moments",
    "marginals": "keyvalue.marginals:Marginals",
    "krr-harmony": "keyvalue.baselines:KRRHarmony",
    "shist-harmony": "keyvalue.baselines:SHistHarmony",
    "rappor-meanest": "keyvalue.baselines:RAPPORMeanEst",
    "pckv-ue": "keyvalue.pckv_ue:PCKVUE",
    "pckv-grr": "keyvalue.pckv_grr:PCKVGRR",
    "kv-sw": "keyvalue.kv_sw:KVSW",
    "wsr": "keyvalue.wsr:WSR",
    "ssr": "keyvalue.ssr:SSR",
    "wheel": "keyvalue.wheel:Wheel",
    "topsel": "keyvalue.topsel:TopSel",
    "collision": "keyvalue.collision:Collision",
}

# The names of ``protocols.registry``, which this room cannot import: whoever gives one of them here is told so.
PROTOCOLS = (
    "privkvm",
    "privkvm-plus",
    "privkvm-star",
    "privkvm-harmony",
    "privkvm-meanest",
    "pilot",
    "split",
    "adaptive",
    "topsel-project",
)


def names() -> tuple[str, ...]:
    """Every name that ``create`` takes."""
    return tuple(_WHERE)


def find(name: str) -> type[Mechanism]:
    """The class behind a name."""
    found: type[Mechanism] = load("mechanism", name, _WHERE, "keyveil.mechanisms", PROTOCOLS)
    return found


def create(name: str, schema: Schema, epsilon: Number, **options: Any) -> Mechanism:
    """A mechanism by name. Options may be strings, as the command line has them."""
    kind = find(name)
    return kind(schema, parse_epsilon(epsilon), **fitted(name, kind, options))


def from_document(document: Any, make: Callable[..., Mechanism] = create) -> Mechanism:
    """The mechanism that a document describes; ``Mechanism.document`` reverses it."""
    names = {"mechanism", "epsilon", "options", "schema"}
    if not isinstance(document, dict) or set(document) != names or not isinstance(document["options"], dict):
        raise MechanismError("mechanism/document", f"A mechanism's document has {', '.join(sorted(names))}.")
    schema = Schema.from_document(document["schema"])
    return make(str(document["mechanism"]), schema, document["epsilon"], **document["options"])
