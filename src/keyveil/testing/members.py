"""Every member that others rely on is there and gives what it should: the first thing to know of a foreign class."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from itertools import islice
from typing import Any, get_args

import numpy as np

from keyveil.core.canonical import canonical
from keyveil.core.coins import Coins
from keyveil.core.errors import RecordError
from keyveil.core.estimates import Estimates
from keyveil.core.report import PUBLIC_BYTES
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.kernels.public_cells import PublicCells
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import Takes
from keyveil.mechanisms.construction import construct
from keyveil.mechanisms.part_rows import PartRows
from keyveil.testing import verbs
from keyveil.testing.people import copies
from keyveil.testing.verdict import about, hold, refuses

_CODEC = ("bits", "longest", "varies", "encode", "decode", "stack", "unstack")
_MANY = 50  # people in a block
_SOME = 200  # records that are looked at

Foreign = Any  # a mechanism of which nothing can be taken for granted yet


def members_are_there(mechanism: Mechanism) -> None:
    """Each member in the order in which others need it, on the mechanism at its reduced size.

    The first one that is missing, fails or is of the wrong kind is named.
    """
    hold(isinstance(mechanism, Mechanism), mechanism, "class", "is not derived from Mechanism")
    for check in (verbs.declarations, _examples, _takes, _options):
        check(mechanism)
    small = _reduced(mechanism)
    for check in (_ratio, _codec, _every_record, verbs.public_words, _every_word, _check, _respond, _respond_many):
        check(small)
    for check in (_fold, verbs.header, _estimate, verbs.estimated, verbs.reports):
        check(small)


def _examples(mechanism: Foreign) -> None:
    for example in mechanism.examples:
        with about(mechanism, "examples"):
            construct(mechanism.name, type(mechanism), Schema(keys=3), mechanism.epsilon, example)


def _takes(mechanism: Foreign) -> None:
    """``check`` refuses the records that ``takes`` leaves out, and no others."""
    takes, d = getattr(mechanism, "takes", None), mechanism.schema.d
    hold(takes in get_args(Takes), mechanism, "takes", f"is {takes!r}, not one of {', '.join(get_args(Takes))}")
    whole = [(key, 0) for key in range(d)]
    answered = {"every set": [[], whole[:1], whole], "one key": [whole[:1]], "every key": [whole]}[str(takes)]
    for pairs in ([], whole[:1], whole):
        with about(mechanism, "check"):
            taken = not refuses(RecordError, partial(mechanism.check, pairs))
        told = f"{'takes' if taken else 'refuses'} a record of {len(pairs)} of {d} keys, although it takes {takes}"
        hold(taken == (pairs in answered), mechanism, "check", told)


def _options(mechanism: Foreign) -> None:
    with about(mechanism, "options"):
        canonical(mechanism.options)  # refuses floats, among others
    hold(isinstance(mechanism.options, dict), mechanism, "options", "is no dictionary")
    with about(mechanism, "fingerprint"):
        fingerprint = mechanism.fingerprint
    whole = isinstance(fingerprint, bytes) and len(fingerprint) == 32
    hold(whole, mechanism, "fingerprint", "is not 32 bytes")


def _reduced(mechanism: Foreign) -> Foreign:
    with about(mechanism, "reduced"):
        small = mechanism.reduced()
    hold(type(small) is type(mechanism), mechanism, "reduced", f"gives a {type(small).__name__}")
    hold(small.epsilon == mechanism.epsilon, mechanism, "reduced", "changes epsilon")
    hold(small.schema.d <= mechanism.schema.d, mechanism, "reduced", "gives more keys instead of fewer")
    with about(mechanism, "sizes"):
        fit = all(isinstance(name, str) and isinstance(size, int) for name, size in mechanism.sizes.items())
    hold(fit, mechanism, "sizes", "does not map names to whole numbers")
    return small


def _ratio(mechanism: Foreign) -> None:
    with about(mechanism, "ratio"):
        ratio = mechanism.ratio
    exact = isinstance(ratio, int | Fraction) or ratio == math.inf
    hold(exact, mechanism, "ratio", f"is {ratio!r}, not an exact fraction")
    hold(ratio >= 1, mechanism, "ratio", f"is {ratio}, below 1")
    with about(mechanism, "variation"):
        variation = mechanism.variation
    fit = isinstance(variation, int | Fraction) and 0 <= variation <= 1
    hold(fit, mechanism, "variation", f"is {variation!r}, not an exact fraction from 0 to 1")


def _codec(mechanism: Foreign) -> None:
    with about(mechanism, "codec"):
        codec = mechanism.codec
    missing = [part for part in _CODEC if not hasattr(codec, part)]
    hold(not missing, mechanism, "codec", f"lacks {', '.join(missing)}")
    with about(mechanism, "bits_per_report"):
        bits = mechanism.bits_per_report
        hold(0 <= bits < math.inf, mechanism, "bits_per_report", f"is {bits}")


def _every_record(mechanism: Foreign) -> None:
    d = mechanism.schema.d
    records = list(islice(_listed(mechanism, "every_record", mechanism.every_record), _SOME))
    hold(len(records) > 1, mechanism, "every_record", "gives fewer than two records: nothing to tell apart")
    for pairs in records:
        with about(mechanism, "every_record"):
            keys = [key for key, _ in pairs]
            fit = keys == sorted(set(keys)) and all(0 <= key < d for key in keys)
        hold(
            fit, mechanism, "every_record", f"gives {pairs!r}, not pairs sorted by key, each key from 0 to {d - 1} once"
        )


def _every_word(mechanism: Foreign) -> None:
    words = list(islice(_listed(mechanism, "every_word", mechanism.every_word), _SOME))
    bits = 64 * mechanism.word_size
    fit = bool(words) and all(isinstance(word, int) and 0 <= word < 1 << bits for word in words)
    hold(fit, mechanism, "every_word", f"does not give whole numbers of {bits} bits, at least one")
    with about(mechanism, "word_shares"):
        shares = list(islice(mechanism.word_shares(), _SOME))
        fit = [word for word, _ in shares] == words and all(isinstance(share, Fraction) for _, share in shares)
        fit = fit and (len(shares) == _SOME or sum(share for _, share in shares) == 1)
    hold(fit, mechanism, "word_shares", "does not give every_word with fractions that add up to 1")


def _check(mechanism: Foreign) -> None:
    for pairs in islice(mechanism.every_record(), _SOME):
        with about(mechanism, "check"):
            taken = mechanism.check(pairs)
            same = [key for key, _ in taken] == [key for key, _ in pairs]
        hold(same, mechanism, "check", f"changes {pairs!r} of every_record to {taken!r}")


def _respond(mechanism: Foreign) -> None:
    for pairs in islice(mechanism.every_record(), _SOME):
        for word in islice(mechanism.every_word(), 4):
            with about(mechanism, "respond"):
                payload = mechanism.respond(pairs, word, SeededCoins(1))
            kind = isinstance(payload, int | bytes | tuple) and not isinstance(payload, bool)
            hold(kind, mechanism, "respond", f"gives {payload!r}, not an int, bytes or a tuple of ints")
            with about(mechanism, "respond"):
                mechanism.codec_at(word).encode(payload)


def _respond_many(mechanism: Foreign) -> None:
    pairs, word = next(iter(mechanism.every_record())), next(iter(mechanism.every_word()))
    with about(mechanism, "respond_many"):
        rows = _rows(mechanism, pairs, word, SeededCoins(2))
    fit = (isinstance(rows, np.ndarray) and rows.shape[:1] == (_MANY,)) or isinstance(rows, PartRows)
    hold(fit, mechanism, "respond_many", f"does not give an array with a row for each of {_MANY} people")
    with about(mechanism, "respond_many"):
        for payload in mechanism.codec.unstack(rows):
            mechanism.codec_at(word).encode(payload)


def _fold(mechanism: Foreign) -> None:
    with about(mechanism, "tally_shape"):
        shape = mechanism.tally_shape
    whole = isinstance(shape, tuple) and all(isinstance(size, int) and size > 0 for size in shape)
    hold(whole, mechanism, "tally_shape", f"is {shape!r}, not a tuple of positive whole numbers")
    pairs, word = next(iter(mechanism.every_record())), next(iter(mechanism.every_word()))
    rows = _rows(mechanism, pairs, word, SeededCoins(3))
    with about(mechanism, "fold"):
        counts = mechanism.fold(rows, mechanism.same_word(word, _MANY))
    fit = isinstance(counts, np.ndarray) and counts.dtype.kind in "iu" and counts.shape == shape
    found = f"{counts.dtype} {counts.shape}" if isinstance(counts, np.ndarray) else type(counts).__name__
    hold(fit, mechanism, "fold", f"gives {found}, not whole numbers of the shape {shape} that tally_shape says")
    _adds(mechanism, rows, mechanism.same_word(word, _MANY), counts)


def _adds(mechanism: Foreign, rows: Any, words: Any, counts: Any) -> None:
    """Counts are also added to those of other reports, where a report's cell is known without ``fold``."""
    with about(mechanism, "public_cells"):
        cells = mechanism.public_cells
        fit = cells is None or isinstance(cells, PublicCells)
    hold(fit, mechanism, "public_cells", f"is {cells!r}, neither PublicCells nor None")
    with about(mechanism, "add"):
        total = counts.astype(np.int64)
        mechanism.add(total, rows, words)
    hold(bool((total == 2 * counts).all()), mechanism, "add", "does not add what fold counts")


def _estimate(mechanism: Foreign) -> None:
    publics = np.frombuffer(SeededCoins(4).bytes(_MANY * PUBLIC_BYTES), np.uint8).reshape(_MANY, PUBLIC_BYTES)
    words = mechanism.words(publics)
    pairs = next(iter(mechanism.every_record()))
    rows = mechanism.respond_many(copies(pairs, _MANY, mechanism.schema.d), words, SeededCoins(5))
    some = Tally(mechanism.fingerprint, _MANY, mechanism.fold(rows, words))
    for tally in (some, Tally.empty(mechanism.fingerprint, mechanism.tally_shape)):
        for population in (False, True):
            with about(mechanism, "estimate"):
                estimates = mechanism.estimate(tally, confidence=0.9, population=population)
            hold(isinstance(estimates, Estimates), mechanism, "estimate", f"gives a {type(estimates).__name__}")
            told = (estimates.schema, estimates.mechanism, estimates.epsilon, estimates.n, estimates.confidence)
            expected = (mechanism.schema, mechanism.name, mechanism.epsilon, tally.reports, 0.9)
            right = told == expected and estimates.population == population
            hold(right, mechanism, "estimate", "says another schema, name, epsilon, n, confidence or target")
            with about(mechanism, "estimate"):
                estimates.rows()


def _listed(mechanism: Foreign, member: str, give: Callable[[], Iterable[Any]]) -> Iterable[Any]:
    with about(mechanism, member):
        yield from give()


def _rows(mechanism: Foreign, pairs: Any, word: int, coins: Coins) -> Any:
    words = mechanism.same_word(word, _MANY)
    return mechanism.respond_many(copies(pairs, _MANY, mechanism.schema.d), words, coins)
