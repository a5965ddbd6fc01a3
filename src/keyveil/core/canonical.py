"""One byte string per document: canonical JSON and exact decimals.

Documents are hashed, and the hash is what devices and collectors agree on. So a document holds no floats (every
number that is not whole is a decimal string) and has one spelling: keys sorted by code point, no spaces, UTF-8.
"""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from numbers import Real
from typing import Any

from keyveil.core.errors import KeyveilError

_LONGEST = 1100  # decimal places: the shortest spelling of every double fits
_LARGEST = 308  # decimal exponent: beyond it there is no double
SAFE = 1 << 53  # larger whole numbers are not read alike by all JSON readers


def canonical(document: Any) -> bytes:
    """The canonical bytes of a document of objects, lists, strings, whole numbers, booleans and nulls."""
    _check(document)
    try:
        return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError as reason:
        raise KeyveilError("document/text", "A document holds text that is not valid Unicode.") from reason


def exact(number: object) -> Fraction:
    """The decimal that a number shows: 0.1 is 1/10. ``ValueError`` for what is no finite decimal."""
    if isinstance(number, Fraction):
        value = number
    elif isinstance(number, str | Decimal | Real) and not isinstance(number, bool):
        try:
            shown = number if isinstance(number, Decimal) else Decimal(str(number))  # shortest decimal of a float
        except InvalidOperation as reason:
            raise ValueError(f"{number!r} is not a number") from reason
        if not shown.is_finite():
            raise ValueError(f"{number} is not finite")
        exponent = shown.as_tuple().exponent
        if shown and (shown.adjusted() > _LARGEST or not isinstance(exponent, int) or exponent < -_LONGEST):
            raise ValueError(f"{number} is beyond what a double can hold")
        value = Fraction(shown)
    else:
        raise ValueError(f"{type(number).__name__} is not a number")
    places = value.denominator.bit_length()
    if 10**places % value.denominator:
        raise ValueError(f"{value} is not a finite decimal")
    return value


def decimal(value: Fraction) -> int | str:
    """How a document spells an exact number: a whole number, or a decimal string without needless zeros."""
    if value.denominator == 1:
        return value.numerator if abs(value.numerator) <= SAFE else str(value.numerator)
    places = value.denominator.bit_length()
    digits = value * 10**places
    if digits.denominator != 1:
        raise ValueError(f"{value} is not a finite decimal")
    text = f"{abs(digits.numerator):0{places + 1}d}"
    return f"{'-' if value < 0 else ''}{text[:-places]}.{text[-places:].rstrip('0')}"


def _check(document: Any) -> None:
    if isinstance(document, dict):
        if not all(isinstance(name, str) for name in document):
            raise KeyveilError("document/type", "The names in a document must be strings.")
        for part in document.values():
            _check(part)
    elif isinstance(document, list | tuple):
        for part in document:
            _check(part)
    elif isinstance(document, float):
        raise KeyveilError("document/float", f"A document holds no floats: write {document!r} as a decimal string.")
    elif isinstance(document, int) and abs(document) > SAFE:
        raise KeyveilError("document/number", f"A document holds whole numbers up to {SAFE}: write others as strings.")
    elif document is not None and not isinstance(document, str | int):
        raise KeyveilError("document/type", f"A document cannot hold a {type(document).__name__}.")
