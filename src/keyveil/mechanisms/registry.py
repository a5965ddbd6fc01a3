"""The names of all mechanisms and protocols, and the one factory that makes either from a name.

A module is loaded only when its name is asked for. What a name stands for is decided here and nowhere else:

    MECHANISMS   one round; people name them
    PROTOCOLS    several rounds or groups; people name them too
    ROUNDS       mechanisms that only protocols use; the document of a round names them, people do not
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from keyveil.core.epsilon import Number, parse_epsilon
from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Header
from keyveil.core.schema import Schema
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.options import fitted

if TYPE_CHECKING:
    from keyveil.protocols.base import Protocol

MECHANISMS = {
    "grr": "keyveil.mechanisms.categorical.grr:GRR",
    "sue": "keyveil.mechanisms.categorical.unary:SUE",
    "oue": "keyveil.mechanisms.categorical.unary:OUE",
    "olh": "keyveil.mechanisms.categorical.olh:OLH",
    "ss": "keyveil.mechanisms.categorical.ss:SS",
    "hr": "keyveil.mechanisms.categorical.hr:HR",
    "shist": "keyveil.mechanisms.categorical.shist:SHist",
    "rappor": "keyveil.mechanisms.categorical.rappor:RAPPOR",
    "duchi": "keyveil.mechanisms.numeric.duchi:Duchi",
    "mean-est": "keyveil.mechanisms.numeric.mean_est:MeanEst",
    "piecewise": "keyveil.mechanisms.numeric.piecewise:Piecewise",
    "hybrid": "keyveil.mechanisms.numeric.hybrid:Hybrid",
    "square-wave": "keyveil.mechanisms.numeric.square_wave:SquareWave",
    "kvue": "keyveil.mechanisms.keyvalue.kvue:KVUE",
    "privkv": "keyveil.mechanisms.keyvalue.privkv:PrivKV",
    "f2m": "keyveil.mechanisms.keyvalue.f2m:F2M",
    "kvoh": "keyveil.mechanisms.keyvalue.kvoh:KVOH",
    "ioh": "keyveil.mechanisms.keyvalue.ioh:IOH",
    "moments": "keyveil.mechanisms.keyvalue.moments:Moments",
    "marginals": "keyveil.mechanisms.keyvalue.marginals:Marginals",
    "krr-harmony": "keyveil.mechanisms.keyvalue.baselines:KRRHarmony",
    "shist-harmony": "keyveil.mechanisms.keyvalue.baselines:SHistHarmony",
    "rappor-meanest": "keyveil.mechanisms.keyvalue.baselines:RAPPORMeanEst",
    "pckv-ue": "keyveil.mechanisms.keyvalue.pckv_ue:PCKVUE",
    "pckv-grr": "keyveil.mechanisms.keyvalue.pckv_grr:PCKVGRR",
    "kv-sw": "keyveil.mechanisms.keyvalue.kv_sw:KVSW",
    "wsr": "keyveil.mechanisms.keyvalue.wsr:WSR",
    "ssr": "keyveil.mechanisms.keyvalue.ssr:SSR",
    "wheel": "keyveil.mechanisms.keyvalue.wheel:Wheel",
    "topsel": "keyveil.mechanisms.keyvalue.topsel:TopSel",
    "collision": "keyveil.mechanisms.keyvalue.collision:Collision",
}
PROTOCOLS = {
    "privkvm": "keyveil.protocols.privkvm:PrivKVM",
    "privkvm-plus": "keyveil.protocols.privkvm_plus:PrivKVMPlus",
    "privkvm-star": "keyveil.protocols.privkvm_star:PrivKVMStar",
    "privkvm-harmony": "keyveil.protocols.privkvm_baselines:PrivKVMHarmony",
    "privkvm-meanest": "keyveil.protocols.privkvm_baselines:PrivKVMMeanEst",
    "pilot": "keyveil.protocols.pilot:Pilot",
    "split": "keyveil.protocols.split:Split",
    "adaptive": "keyveil.protocols.adaptive:Adaptive",
    "topsel-project": "keyveil.protocols.topsel_project:TopSelProject",
}
ROUNDS = {
    "privkv-round": "keyveil.mechanisms.rounds.privkvm:PrivKVRound",
    "label-round": "keyveil.mechanisms.rounds.privkvm_star:LabelRound",
    "presence": "keyveil.mechanisms.rounds.privkvm_meanest:Presence",
    "filled-vector": "keyveil.mechanisms.rounds.privkvm_meanest:FilledVector",
    "adaptive-key": "keyveil.mechanisms.rounds.adaptive:KeyPhase",
    "adaptive-value": "keyveil.mechanisms.rounds.adaptive:ValuePhase",
    "project": "keyveil.mechanisms.rounds.topsel_project:Project",
    "set-size": "keyveil.mechanisms.rounds.set_size:SizeQuestion",
}


def names() -> tuple[str, ...]:
    """Every name that ``make`` takes: mechanisms first, then protocols."""
    return (*MECHANISMS, *PROTOCOLS)


def mechanism_names() -> tuple[str, ...]:
    """Every name of one round."""
    return tuple(MECHANISMS)


def protocol_names() -> tuple[str, ...]:
    """Every name of several rounds or groups."""
    return tuple(PROTOCOLS)


def is_protocol(name: str) -> bool:
    """Whether a name stands for several rounds or groups."""
    return name in PROTOCOLS


def find(name: str) -> type[Mechanism] | type[Protocol]:
    """The class behind a name that people use."""
    found: type[Mechanism] | type[Protocol] = _load(name, {**MECHANISMS, **PROTOCOLS})
    return found


def find_mechanism(name: str) -> type[Mechanism]:
    """The class behind the name of a mechanism; a protocol is refused."""
    found: type[Mechanism] = _load(name, MECHANISMS)
    return found


def forms() -> Iterator[tuple[str, Mechanism]]:
    """Every mechanism for three keys in the forms that tell different things, with a title such as "kvue with bins"."""
    schema = Schema(keys=3)
    for name in mechanism_names():
        for options in find_mechanism(name).examples:
            mechanism = create(name, schema, 1, **options)
            yield mechanism.title, mechanism


def make(name: str, schema: Schema, epsilon: Number, **options: Any) -> Mechanism | Protocol:
    """A mechanism or a protocol by name. Options may be strings, as the command line has them."""
    kind = find(name)
    return kind(schema, parse_epsilon(epsilon), **fitted(name, kind, options))


def create(name: str, schema: Schema, epsilon: Number, **options: Any) -> Mechanism:
    """``make`` where only a mechanism will do."""
    kind = find_mechanism(name)
    return kind(schema, parse_epsilon(epsilon), **fitted(name, kind, options))


def create_round(name: str, schema: Schema, epsilon: Number, **options: Any) -> Mechanism:
    """The mechanism of a round by the name in its document; also those that only protocols use."""
    kind = _load(name, {**MECHANISMS, **ROUNDS})
    made: Mechanism = kind(schema, parse_epsilon(epsilon), **fitted(name, kind, options))
    return made


def from_document(document: Any, make: Callable[..., Mechanism] = create) -> Mechanism:
    """The mechanism that a document describes; ``Mechanism.document`` reverses it."""
    names = {"mechanism", "epsilon", "options", "schema"}
    if not isinstance(document, dict) or set(document) != names or not isinstance(document["options"], dict):
        raise MechanismError("mechanism/document", f"A mechanism's document has {', '.join(sorted(names))}.")
    schema = Schema.from_document(document["schema"])
    return make(str(document["mechanism"]), schema, document["epsilon"], **document["options"])


def from_header(header: Header) -> Mechanism:
    """The mechanism that made estimates, from what they say of themselves; refused for the name of a protocol."""
    return create_round(header.mechanism, header.schema, header.epsilon, **header.options)


def _load(name: str, table: dict[str, str]) -> Any:
    if name not in table:
        raise _unknown(name, table)
    module, attribute = table[name].split(":")
    return getattr(import_module(module), attribute)


def _unknown(name: str, table: dict[str, str]) -> MechanismError:
    from difflib import get_close_matches  # only when a name was mistyped

    if name in PROTOCOLS:
        sentence = f"{name} is a protocol (several rounds or groups), and only a mechanism (one round) will do here."
        return MechanismError("mechanism/unknown", sentence)
    close = get_close_matches(name, names(), n=1)
    hint = f" (did you mean {close[0]}?)" if close else f"; there are {', '.join(table)}"
    return MechanismError("mechanism/unknown", f"There is no mechanism {name!r}{hint}.")
