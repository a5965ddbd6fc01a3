"""Which of several forms a client would like best (the Accept header, RFC 9110)."""

from __future__ import annotations

from collections.abc import Sequence


def preferred(accept: Sequence[str], offers: Sequence[str]) -> str | None:
    """The offer with the highest weight; the first among equals, and ``None`` if the client wants none of them."""
    ranges = [part for header in accept for part in header.split(",") if part.strip()]
    if not ranges:
        return offers[0]
    weights = {offer: _weight(offer, ranges) for offer in offers}
    best = max(offers, key=lambda offer: weights[offer])
    return best if weights[best] > 0 else None


def _weight(offer: str, ranges: Sequence[str]) -> float:
    """The weight that the most specific fitting range gives an offer."""
    family = offer.partition("/")[0]
    specific = {offer: 2, f"{family}/*": 1, "*/*": 0}
    found = (-1, 0.0)
    for one in ranges:
        name, *parameters = (part.strip().lower() for part in one.split(";"))
        if name in specific:
            found = max(found, (specific[name], _quality(parameters)))
    return found[1]


def _quality(parameters: Sequence[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return min(max(float(value), 0.0), 1.0)
            except ValueError:
                return 0.0
    return 1.0
