"""Decoders by name: what is done with the estimates of every contender of a comparison, the same for all.

``raw`` leaves them as they are, ``bayes`` is empirical Bayes, and the others are the methods of consistency
(docs/consistency.md). A decoder that gains much would otherwise be taken for a mechanism that gains much.
"""

from __future__ import annotations

from collections.abc import Sequence

from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Estimates
from keyveil.core.hints import did_you_mean
from keyveil.learn import postprocess

RAW, BAYES, NORM_SUB = "raw", "bayes", "norm-sub"
EQUAL = (RAW, BAYES, NORM_SUB)
"""The decoders of the documentation: everybody without one, with empirical Bayes and with Norm-Sub."""

DECODERS = (RAW, BAYES, *postprocess.METHODS)
"""Every name of a decoder."""

_TITLES = {RAW: "as estimated", BAYES: "with empirical Bayes", NORM_SUB: "with Norm-Sub"}


def known(names: Sequence[str]) -> tuple[str, ...]:
    """Names of decoders, each once; one that there is not is refused."""
    for name in names:
        if name not in DECODERS:
            hint = did_you_mean(name, DECODERS) or f"; there are {', '.join(DECODERS)}"
            raise MechanismError("compare/decoder", f"There is no decoder {name!r}{hint}.")
    if not names:
        raise MechanismError("compare/decoder", "A comparison needs at least one decoder, such as raw.")
    return tuple(dict.fromkeys(names))


def decoded(name: str, estimates: Estimates) -> Estimates:
    """The estimates after a decoder."""
    return estimates if name == RAW else postprocess.estimates(name, estimates)


def changes(name: str, quantity: str) -> bool:
    """Whether a decoder may change a quantity. Methods of consistency leave means as they are, cut to [-1, 1]."""
    return name in (RAW, BAYES) or quantity.startswith("frequency")


def title(name: str) -> str:
    """A decoder as tables name it."""
    return _TITLES.get(name, f"with {name}")
