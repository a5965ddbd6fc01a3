"""The names of all mechanisms and protocols, and the one factory that makes either from a name.

A module is loaded only when its name is used. What a name stands for is decided here and nowhere else:

    MECHANISMS   one round; people name them
    PROTOCOLS    several rounds or groups; people name them too
    ROUNDS       mechanisms that only protocols use; the document of a round names them, people do not

Other people's classes come in by ``register``, or by an entry point of an installed package in the group
``keyveil.mechanisms``. Entry points are looked at only when a name is not one of the above, or when names are listed.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from importlib import import_module
from textwrap import fill
from typing import TYPE_CHECKING, Any

from keyveil.core.epsilon import Number
from keyveil.core.errors import KeyveilError, KeyveilWarning, MechanismError
from keyveil.core.estimates import Header
from keyveil.core.hints import did_you_mean
from keyveil.core.schema import Schema
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.construction import check_members, construct

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from keyveil.protocols.base import Protocol

GROUP = "keyveil.mechanisms"
"""The group of entry points by which a package offers mechanisms and protocols of its own."""

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
    "apart": "keyveil.mechanisms.keyvalue.apart:Apart",
    "block": "keyveil.mechanisms.keyvalue.block:Block",
    "privkv": "keyveil.mechanisms.keyvalue.privkv:PrivKV",
    "f2m": "keyveil.mechanisms.keyvalue.f2m:F2M",
    "kvoh": "keyveil.mechanisms.keyvalue.kvoh:KVOH",
    "ioh": "keyveil.mechanisms.keyvalue.ioh:IOH",
    "moments": "keyveil.mechanisms.keyvalue.moments:Moments",
    "marginals": "keyveil.mechanisms.keyvalue.marginals:Marginals",
    "krr-harmony": "keyveil.mechanisms.keyvalue.baselines:KRRHarmony",
    "shist-harmony": "keyveil.mechanisms.keyvalue.baselines:SHistHarmony",
    "rappor-meanest": "keyveil.mechanisms.keyvalue.rappor_meanest:RAPPORMeanEst",
    "pckv-ue": "keyveil.mechanisms.keyvalue.pckv_ue:PCKVUE",
    "pckv-grr": "keyveil.mechanisms.keyvalue.pckv_grr:PCKVGRR",
    "kv-sw": "keyveil.mechanisms.keyvalue.kv_sw:KVSW",
    "wsr": "keyveil.mechanisms.keyvalue.wsr:WSR",
    "ssr": "keyveil.mechanisms.keyvalue.ssr:SSR",
    "wheel": "keyveil.mechanisms.keyvalue.wheel:Wheel",
    "topsel": "keyveil.mechanisms.keyvalue.topsel:TopSel",
    "collision": "keyveil.mechanisms.keyvalue.collision:Collision",
    "split": "keyveil.mechanisms.keyvalue.split:Split",
    "hierarchy": "keyveil.mechanisms.keyvalue.views:Hierarchy",
    "coordinates": "keyveil.mechanisms.keyvalue.views:Coordinates",
}
PROTOCOLS = {
    "privkvm": "keyveil.protocols.privkvm:PrivKVM",
    "privkvm-plus": "keyveil.protocols.privkvm_plus:PrivKVMPlus",
    "privkvm-star": "keyveil.protocols.privkvm_star:PrivKVMStar",
    "privkvm-harmony": "keyveil.protocols.privkvm_baselines:PrivKVMHarmony",
    "privkvm-meanest": "keyveil.protocols.privkvm_baselines:PrivKVMMeanEst",
    "pilot": "keyveil.protocols.pilot:Pilot",
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
    "overflow": "keyveil.mechanisms.rounds.overflow:OverflowQuestion",
    "size-classes": "keyveil.mechanisms.rounds.set_size:SizeClasses",
    "energy": "keyveil.mechanisms.rounds.energy:EnergyQuestion",
    "topsel-pilot": "keyveil.mechanisms.rounds.topsel_pilot:TopSelPilot",
}


_WORDS = frozenset({"all", "auto"})  # what commands take in place of a name
_SHAPE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_registered: dict[str, type[Any]] = {}


def names() -> tuple[str, ...]:
    """Every name that ``make`` takes: mechanisms first, then protocols."""
    return (*mechanism_names(), *protocol_names())


def mechanism_names() -> tuple[str, ...]:
    """Every name of one round."""
    return (*MECHANISMS, *(name for name, cls in _others().items() if issubclass(cls, Mechanism)))


def protocol_names() -> tuple[str, ...]:
    """Every name of several rounds or groups."""
    return (*PROTOCOLS, *(name for name, cls in _others().items() if not issubclass(cls, Mechanism)))


def is_protocol(name: str) -> bool:
    """Whether a name stands for several rounds or groups."""
    if name in PROTOCOLS or name in MECHANISMS or name in ROUNDS:
        return name in PROTOCOLS
    other = _other(name)
    return other is not None and not issubclass(other, Mechanism)


def find(name: str) -> type[Mechanism] | type[Protocol]:
    """The class behind a name that people use."""
    found: type[Mechanism] | type[Protocol] = _load(name, MECHANISMS, PROTOCOLS)
    return found


def find_mechanism(name: str) -> type[Mechanism]:
    """The class behind the name of a mechanism; a protocol is refused."""
    found: type[Mechanism] = _load(name, MECHANISMS)
    return found


def forms() -> Iterator[tuple[str, Mechanism]]:
    """Every mechanism for three keys in the forms that tell different things, with a title such as "kvue with bins"."""
    return iter(_forms(kinds()))


def kinds() -> tuple[tuple[str, type[Mechanism]], ...]:
    """Every mechanism by name, with its class."""
    return tuple((name, find_mechanism(name)) for name in mechanism_names())


@lru_cache(maxsize=2)
def _forms(kinds: tuple[tuple[str, type[Mechanism]], ...]) -> tuple[tuple[str, Mechanism], ...]:
    schema, epsilon, made = Schema(keys=3), 1, []
    for name, kind in kinds:
        for options in kind.examples:
            with suppress(KeyveilError):  # somebody else's may not take three keys: no reason to fail
                made.append(construct(name, kind, schema, epsilon, options))
    return tuple((mechanism.title, mechanism) for mechanism in made)


def make(name: str, schema: Schema, epsilon: Number, **options: Any) -> Mechanism | Any:
    """A mechanism or a protocol by name.

    Parameters
        name     one of the names below, or one that ``kv.register`` or an installed package has added
        schema   the keys and the ranges of their values: ``kv.Schema``
        epsilon  the privacy parameter of all that one person sends; 0.1 and "0.1" both mean exactly 1/10
        options  what this mechanism takes besides, as numbers or as strings. Common ones:
                 max_pairs=3        the most pairs of a person that count (pckv-ue, pckv-grr, kv-sw, wsr, ssr, …)
                 bins=5             distributions of values besides means (kvue, wsr, ssr); levels of the schema do, too
                 split="paper"      the published split of the budget instead of the tight one
                 estimator="published"   the published estimate of means instead of the unbiased one
                 An option that is unknown, missing or impossible is refused in one sentence.

    Returns a frozen ``Mechanism`` (one round: ``perturb``, ``tally``, ``estimate``, ``certificate``) or, for the name
    of a protocol, a ``Protocol`` (several rounds or groups: ``next_round``, ``estimate``).

    Examples
        >>> schema = kv.Schema(keys=["burger", "fries", "pepsi"], low=1, high=5)
        >>> mechanism = kv.mechanism("ssr", schema, epsilon=1.0, max_pairs=2)
        >>> report = mechanism.perturb({"fries": 4, "pepsi": 5}, kv.Coins())
        >>> mechanism.estimate(mechanism.tally([report])).frequency["fries"]
    """
    return build(name, schema, epsilon, options)


def build(name: str, schema: Schema, epsilon: Number, options: Mapping[str, Any]) -> Mechanism | Protocol:
    """``make`` with options from outside, which may have any name, also one that ``make`` has itself."""
    made: Mechanism | Protocol = construct(name, find(name), schema, epsilon, options)
    return made


def create(name: str, schema: Schema, epsilon: Number, **options: Any) -> Mechanism:
    """``make`` where only a mechanism will do."""
    made: Mechanism = construct(name, find_mechanism(name), schema, epsilon, options)
    return made


def create_round(name: str, schema: Schema, epsilon: Number, **options: Any) -> Mechanism:
    """The mechanism of a round by the name in its document; also those that only protocols use."""
    made: Mechanism = construct(name, _load(name, MECHANISMS, ROUNDS), schema, epsilon, options)
    return made


def from_document(document: Any, make: Callable[..., Mechanism] = create) -> Mechanism:
    """The mechanism that a document describes; ``Mechanism.document`` reverses it."""
    names = {"mechanism", "epsilon", "options", "schema"}
    if not isinstance(document, dict) or set(document) != names or not isinstance(document["options"], dict):
        raise MechanismError("mechanism/document", f"A mechanism's document has {', '.join(sorted(names))}.")
    if taken := {"name", "schema", "epsilon"} & set(document["options"]):
        raise MechanismError("mechanism/document", f"{min(taken)!r} is no option of a mechanism.")
    schema = Schema.from_document(document["schema"])
    return make(str(document["mechanism"]), schema, document["epsilon"], **document["options"])


def from_header(header: Header) -> Mechanism:
    """The mechanism that made estimates, from what they say of themselves; refused for the name of a protocol."""
    return create_round(header.mechanism, header.schema, header.epsilon, **header.options)


# -- other people's classes -----------------------------------------------------------------------------------------


def register(name: str, cls: type[Any]) -> None:
    """Let a name stand for a mechanism or protocol of your own, in this process.

    ``cls`` derives from ``keyveil.mechanisms.base.Mechanism`` or ``keyveil.protocols.base.Protocol``, mostly through a
    family such as ``keyveil.mechanisms.families.one_key.OneKey``; its ``name`` is the name. A class that was defined
    again takes the place of its former self, as notebooks need it; any other name that is taken is refused.
    ``keyveil.testing.check_mechanism`` holds a mechanism to the whole contract.
    """
    check_class(name, cls)
    before = _registered.get(name)
    if before is not None and (before.__module__, before.__qualname__) != (cls.__module__, cls.__qualname__):
        raise MechanismError("mechanism/taken", f"The name {name} already stands for {before.__qualname__}.")
    _registered[name] = cls


def unregister(name: str) -> None:
    """Forget a name that ``register`` has added."""
    if _registered.pop(name, None) is None:
        raise MechanismError("mechanism/unknown", f"Nobody has registered {name!r}{did_you_mean(name, _registered)}.")


@contextmanager
def registered(name: str, cls: type[Any]) -> Iterator[None]:
    """``register`` for as long as a ``with`` block lasts."""
    register(name, cls)
    try:
        yield
    finally:
        unregister(name)


def check_class(name: str, cls: Any) -> None:
    """Refuse a class that cannot stand behind this name; the sentence names the member that is missing or wrong."""
    if not _SHAPE.fullmatch(name) or name in _WORDS:
        raise MechanismError(
            "mechanism/name",
            f"{name!r} cannot be the name of a mechanism: lower-case letters, digits and single hyphens can, "
            f"but for {' and '.join(sorted(_WORDS))}.",
        )
    if name in MECHANISMS or name in PROTOCOLS or name in ROUNDS:
        raise MechanismError("mechanism/taken", f"The name {name} belongs to Keyveil itself; choose another one.")
    check_members(cls, name)


def _others() -> dict[str, type[Any]]:
    """Everybody else's classes by name. A package that cannot be loaded is left out, with a warning that names it."""
    found = dict(_registered)
    for name in _entry_points():
        if name not in found:
            try:
                found[name] = _from_entry_point(name)
            except KeyveilError as reason:
                warnings.warn(reason.sentence, KeyveilWarning, stacklevel=3)
    return found


def _other(name: str) -> type[Any] | None:
    """Somebody else's class of this name, if there is one."""
    if name in _registered:
        return _registered[name]
    return _from_entry_point(name) if name in _entry_points() else None


@cache
def _entry_points() -> dict[str, list[EntryPoint]]:
    """By name, what installed packages offer; nothing is loaded."""
    from importlib.metadata import entry_points  # devices seldom need it

    found: dict[str, list[EntryPoint]] = {}
    for one in entry_points(group=GROUP):
        found.setdefault(one.name, []).append(one)
    return found


def forget_entry_points() -> None:
    """Look at the installed packages anew; needed only after one was installed while this process runs."""
    _entry_points.cache_clear()
    _from_entry_point.cache_clear()


@cache
def _from_entry_point(name: str) -> type[Any]:
    offers = _entry_points()[name]
    packages = " and ".join(sorted(one.dist.name if one.dist else "an unknown package" for one in offers))
    if len(offers) > 1:
        raise MechanismError("mechanism/entry-point", f"{packages} all offer {name!r}; uninstall all but one of them.")
    try:
        cls: type[Any] = offers[0].load()
        check_class(name, cls)
    except Exception as reason:  # other people's modules may fail in any way while they load
        told = reason.sentence if isinstance(reason, KeyveilError) else f"{type(reason).__name__}: {reason}"
        raise MechanismError(
            "mechanism/entry-point",
            f"The package {packages} offers {name!r}, which cannot be used ({told.rstrip('.')}).",
        ) from reason
    return cls


def _load(name: str, *tables: dict[str, str]) -> Any:
    """The class behind a name of these tables, or somebody else's of the same kind."""
    if not isinstance(name, str):  # in a document anything may stand where a name should
        raise MechanismError("mechanism/unknown", f"A mechanism is named by a string, not {name!r}.")
    for table in tables:
        if name in table:
            return _imported(table[name])
    other = None if name in MECHANISMS or name in PROTOCOLS or name in ROUNDS else _other(name)
    if other is not None and (issubclass(other, Mechanism) or PROTOCOLS in tables):
        return other
    if name in PROTOCOLS or other is not None:
        raise MechanismError(
            "mechanism/unknown",
            f"{name} is a protocol (several rounds or groups), and only a mechanism (one round) will do here.",
        )
    known = [*MECHANISMS, *PROTOCOLS, *_registered, *_entry_points()]
    hint = did_you_mean(name, known) or f"; there are {', '.join(one for table in tables for one in table)}"
    raise MechanismError("mechanism/unknown", f"There is no mechanism {name!r}{hint}.")


@cache
def _imported(reference: str) -> Any:
    """What a reference such as ``package.module:Name`` stands for."""
    module, attribute = reference.split(":")
    return getattr(import_module(module), attribute)


def _listed(title: str, table: dict[str, str]) -> str:
    text, inner = f"{title}: {', '.join(table)}.", "        "
    return fill(text, 112, initial_indent="    ", subsequent_indent=inner, break_on_hyphens=False)


if make.__doc__:  # there is none under -OO
    make.__doc__ += f"\n{_listed('Mechanisms', MECHANISMS)}\n{_listed('Protocols', PROTOCOLS)}\n    "
