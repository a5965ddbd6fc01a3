"""The names of all mechanisms. A module is loaded only when its name is asked for."""

from __future__ import annotations

from dataclasses import MISSING, fields
from difflib import get_close_matches
from fractions import Fraction
from importlib import import_module
from typing import Any

from keyveil.core.epsilon import Number, parse_epsilon
from keyveil.core.errors import MechanismError
from keyveil.core.schema import Schema
from keyveil.mechanisms.base import Mechanism

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


_SPELLED = {"sizes": "set_sizes"}  # options whose name means something else on a mechanism


def names() -> tuple[str, ...]:
    """Every name that ``create`` takes."""
    return tuple(_WHERE)


def find(name: str) -> type[Mechanism]:
    """The class behind a name."""
    if name not in _WHERE:
        close = get_close_matches(name, _WHERE, n=1)
        hint = f"; did you mean {close[0]}" if close else f"; there are {', '.join(_WHERE)}"
        raise MechanismError("mechanism/unknown", f"There is no mechanism {name!r}{hint}.")
    module, attribute = _WHERE[name].split(":")
    found: type[Mechanism] = getattr(import_module(f"keyveil.mechanisms.{module}"), attribute)
    return found


def create(name: str, schema: Schema, epsilon: Number, **options: Any) -> Mechanism:
    """A mechanism by name. Options may be strings, as the command line has them."""
    kind = find(name)
    own = {field.name: field for field in fields(kind) if field.name not in ("schema", "epsilon")}
    options = {_SPELLED.get(option, option): value for option, value in options.items()}
    for option in options:
        if option not in own:
            known = f"its options are {', '.join(own)}" if own else "it has no options"
            raise MechanismError("mechanism/option", f"{name} has no option {option!r}; {known}.")
    for option, field in own.items():
        if field.default is MISSING and option not in options:
            raise MechanismError("mechanism/option", f"{name} needs the option {option!r}.")
    values = {option: _converted(name, option, value, str(own[option].type)) for option, value in options.items()}
    return kind(schema, parse_epsilon(epsilon), **values)


def _converted(name: str, option: str, value: Any, kind: str) -> Any:
    """An option's value in the type that the mechanism declares for it."""
    if value is None and "None" in kind:
        return None
    try:
        if kind.startswith("int"):
            if isinstance(value, bool) or int(value) != float(value):
                raise ValueError
            return int(value)
        if kind.startswith("Fraction"):
            return Fraction(str(value))
        if kind.startswith("bool") and not isinstance(value, bool):
            return {"true": True, "false": False}[str(value).lower()]
    except (ValueError, TypeError, KeyError):
        raise MechanismError("mechanism/option", f"{name} cannot take {value!r} for {option!r}.") from None
    return value


def from_document(document: Any) -> Mechanism:
    """The mechanism that a document describes; ``Mechanism.document`` reverses it."""
    names = {"mechanism", "epsilon", "options", "schema"}
    if not isinstance(document, dict) or set(document) != names or not isinstance(document["options"], dict):
        raise MechanismError("mechanism/document", f"A mechanism's document has {', '.join(sorted(names))}.")
    schema = Schema.from_document(document["schema"])
    return create(str(document["mechanism"]), schema, document["epsilon"], **document["options"])
