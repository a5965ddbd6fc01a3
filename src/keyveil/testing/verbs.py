"""Members that every mechanism inherits and may override: what others call by these names does what it should."""

from __future__ import annotations

from typing import Any

import numpy as np

from keyveil.core.codecs.payloads import Payloads
from keyveil.core.estimates import Header
from keyveil.core.report import PUBLIC_BYTES, Report, Reports
from keyveil.core.tally import Tally
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import CAPABILITIES
from keyveil.testing.people import copies, raw_record
from keyveil.testing.verdict import about, hold

_FEW = 20  # reports that are looked at
_ESTIMATED = frozenset({"frequency", "mean"})

Foreign = Any  # a mechanism of which nothing can be taken for granted yet


def declarations(mechanism: Foreign) -> None:
    """What a class says of itself before anything is drawn."""
    for name in ("readings", "unsaid"):
        with about(mechanism, name):
            named = set(getattr(mechanism, name))
        unknown = sorted(named - set(mechanism.__dataclass_fields__) | named & _OWN)
        hold(not unknown, mechanism, name, f"names {', '.join(unknown)}, which is no option")
    for name in ("exhaustive", "unit_counts"):
        hold(isinstance(getattr(mechanism, name), bool), mechanism, name, "is neither True nor False")
    with about(mechanism, "lacks"):
        strange = sorted(getattr(one, "__name__", repr(one)) for one in mechanism.lacks - CAPABILITIES)
    hold(not strange, mechanism, "lacks", f"names {', '.join(strange)}, which is no capability")
    with about(mechanism, "title"):
        hold(isinstance(mechanism.title, str), mechanism, "title", f"is {mechanism.title!r}, not a string")
    with about(mechanism, "estimated"):
        fit = isinstance(mechanism.estimated, frozenset) and mechanism.estimated <= _ESTIMATED
    hold(fit, mechanism, "estimated", "is no frozenset of frequency, mean, both or neither")
    own = type(mechanism).certificate is Mechanism.certificate
    hold(own, mechanism, "certificate", "is overridden: only Keyveil's own proves anything")


_OWN = frozenset({"schema", "epsilon"})


def public_words(mechanism: Foreign) -> None:
    """One public word has one meaning, for a single report and for many."""
    with about(mechanism, "word_size"):
        size = mechanism.word_size
    hold(type(size) is int and size > 0, mechanism, "word_size", f"is {size!r}, not a whole number from 1")
    publics = _publics()
    with about(mechanism, "word"):
        single = [mechanism.word(public.tobytes()) for public in publics]
        fit = all(isinstance(word, int) and 0 <= word < 1 << 64 * size for word in single)
    hold(fit, mechanism, "word", f"does not give whole numbers of {64 * size} bits")
    for member, words in (("same_word", [single[0]] * _FEW), ("words", single)):
        with about(mechanism, member):
            many = mechanism.same_word(single[0], _FEW) if member == "same_word" else mechanism.words(publics)
            same = many.dtype == np.uint64 and _numbers(many) == words
        hold(same, mechanism, member, "gives other words than word")
    with about(mechanism, "reads_words"):
        hold(isinstance(mechanism.reads_words, bool), mechanism, "reads_words", "is neither True nor False")
    with about(mechanism, "read_words"):
        read = _numbers(mechanism.read_words(publics))
    hold(read == (single if mechanism.reads_words else [0] * _FEW), mechanism, "read_words", "gives other words")
    with about(mechanism, "codec_at"):
        codecs = {hasattr(mechanism.codec_at(word), "encode") for word in single}
    hold(codecs == {True}, mechanism, "codec_at", "gives something without encode")


def header(mechanism: Foreign) -> None:
    """What estimates say that they are about."""
    with about(mechanism, "header"):
        found = mechanism.header(7, 0.9, True)
    about_this = (mechanism.schema, mechanism.name, mechanism.epsilon, 7, 0.9, True, mechanism.options)
    fits = isinstance(found, Header) and found == Header(*about_this, found.decision, found.undercount)
    hold(fits, mechanism, "header", "is not that of this mechanism, with the n, confidence and target given")


def estimated(mechanism: Foreign) -> None:
    """``estimated`` names the columns that ``estimate`` fills."""
    known = mechanism.estimate(Tally.empty(mechanism.fingerprint, mechanism.tally_shape))
    filled = {name for name in _ESTIMATED if not getattr(known, name).absent}
    told = f"says {' and '.join(sorted(mechanism.estimated)) or 'nothing'}, but estimate gives "
    hold(filled == mechanism.estimated, mechanism, "estimated", told + (" and ".join(sorted(filled)) or "nothing"))


def reports(mechanism: Foreign) -> None:
    """Records become reports, bytes and counts, one by one and in bulk."""
    pairs = list(next(iter(mechanism.every_record())))
    with about(mechanism, "read"):
        read = [key for key, _ in mechanism.read(raw_record(mechanism, pairs))]
    hold(read == [key for key, _ in pairs], mechanism, "read", f"gives the keys {read}, not those of the record")
    public = _publics()[0].tobytes()
    with about(mechanism, "perturb_pairs"):
        one = mechanism.perturb_pairs(pairs, SeededCoins(6), public)
    hold(isinstance(one, Report) and one.public == public, mechanism, "perturb_pairs", "gives no report of these bytes")
    with about(mechanism, "encode"):
        data = mechanism.encode(one)
        hold(isinstance(data, bytes), mechanism, "encode", f"gives a {type(data).__name__}, not bytes")
    with about(mechanism, "read_encoded"):
        words = mechanism.words(np.frombuffer(public, np.uint8)[None])
        fine = mechanism.read_encoded(Payloads.of([data]), words).good.all()
    hold(bool(fine), mechanism, "read_encoded", "finds a flaw in what was encoded")
    with about(mechanism, "decode"):
        hold(mechanism.decode(data, public) == one, mechanism, "decode", "does not give back what was encoded")
    records = copies(pairs, _FEW, mechanism.schema.d)
    with about(mechanism, "perturb_many"):
        many = mechanism.perturb_many(records, SeededCoins(7))
    fit = isinstance(many, Reports) and len(many) == _FEW
    hold(fit, mechanism, "perturb_many", f"does not give a report of each of {_FEW} people")
    with about(mechanism, "reports"):
        sizes = [len(block) for block in mechanism.reports(records, SeededCoins(8), _FEW // 2)]
    hold(sizes == [_FEW // 2] * 2, mechanism, "reports", "does not give every report once, in blocks")
    with about(mechanism, "gather"):
        hold(len(mechanism.gather([one, one])) == 2, mechanism, "gather", "does not hold every report once")
    with about(mechanism, "encode_many"):
        written = mechanism.encode_many(mechanism.gather([one, one]))
        alike = [written.one(number) for number in range(2)] == [data, data]
    hold(alike, mechanism, "encode_many", "writes many reports otherwise than one by one")
    _counts(mechanism, many, [one, one], data)


def _counts(mechanism: Foreign, many: Reports, listed: list[Report], data: bytes) -> None:
    with about(mechanism, "tally"):
        whole, both = mechanism.tally(many), mechanism.tally(listed)
    for tally, n in ((whole, len(many)), (both, 2)):
        fit = isinstance(tally, Tally) and tally.reports == n and tally.fingerprint == mechanism.fingerprint
        hold(fit, mechanism, "tally", f"gives no tally of this mechanism and {n} reports")
    publics = [one.public for one in listed]
    octets = np.frombuffer(b"".join(publics), np.uint8).reshape(-1, PUBLIC_BYTES)
    words = mechanism.words(octets)
    with about(mechanism, "count_encoded"):
        counts, flaws = mechanism.count_encoded(Payloads.of([data, data]), words)
        same = not flaws.any() and bool((counts == both.counts).all())
    hold(same, mechanism, "count_encoded", "counts bytes differently from the reports in them")
    with about(mechanism, "tally_good"):
        found, flaws = mechanism.tally_good(octets, Payloads.of([data, data]))
        same = not flaws.any() and found.reports == 2 and bool((found.counts == both.counts).all())
    hold(same, mechanism, "tally_good", "counts bytes differently from the reports in them")
    with about(mechanism, "tally_encoded"):
        found = mechanism.tally_encoded(publics, [data, data])
        same = isinstance(found, Tally) and found.reports == 2 and bool((found.counts == both.counts).all())
    hold(same, mechanism, "tally_encoded", "counts bytes differently from the reports in them")


def _publics() -> Any:
    return np.frombuffer(SeededCoins(9).bytes(_FEW * PUBLIC_BYTES), np.uint8).reshape(_FEW, PUBLIC_BYTES)


def _numbers(words: Any) -> list[int]:
    """Public words as whole numbers, the highest part first."""
    if words.ndim == 1:
        return [int(word) for word in words]
    width = words.shape[1]
    return [sum(int(part) << 64 * (width - 1 - place) for place, part in enumerate(row)) for row in words]
