"""Several mechanisms side by side in one round: people are parted by their public bytes, and each part answers one.

Everybody spends the whole ε, once, on the mechanism of their part. Which part that is follows from the parting word of
a report's public bytes, a hash that is independent of every part's own word. Reports have one length whatever the part,
the tally holds the counts of every part, and what several parts estimate is merged (``merging``).
Derivation: docs/mechanisms/split.md.
"""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.canonical import canonical
from keyveil.core.channels import Ratio
from keyveil.core.codecs.padding import Padded
from keyveil.core.codecs.payloads import FINE, Decoded, Flaws, Payloads, first_flaws
from keyveil.core.codecs.symbols import Codec
from keyveil.core.coins import Coins
from keyveil.core.epsilon import decimal_text
from keyveil.core.errors import MechanismError, ReportError, TallyError
from keyveil.core.estimates import Estimates
from keyveil.core.records import Records
from keyveil.core.report import Payload, Report, Reports
from keyveil.core.tally import Tally
from keyveil.kernels.reading import fast
from keyveil.kernels.writing import padded
from keyveil.mechanisms.announcements import NothingAnnounced
from keyveil.mechanisms.base import Mechanism, Pairs
from keyveil.mechanisms.capabilities import CountDraws, ReportEffects, TallyLaw, need
from keyveil.mechanisms.counting import counts_of_each
from keyveil.mechanisms.effects import Effects
from keyveil.mechanisms.merging import PartAnswer, merge, part_answers
from keyveil.mechanisms.part_rows import PartedCodec, PartRows
from keyveil.mechanisms.parting import Part, in_parts, parting_word, parting_words
from keyveil.mechanisms.parts_capabilities import CapabilitiesOfParts
from keyveil.mechanisms.report_laws import Asked
from keyveil.mechanisms.tally_laws import LimitDraws, crowd_law, normal_limit

if TYPE_CHECKING:
    from keyveil.mechanisms.reach import Reachable


class SideBySide(NothingAnnounced, CapabilitiesOfParts):
    """Mechanisms for the same keys, each with a share of the people; a report is one of the mechanism of its part.

    A public word is (part, word of the part): as a number, the part stands above the part's own word.
    """

    def validate(self) -> None:
        for part, whom in zip(self.parts, self.people, strict=True):
            if part.takes != "every set":
                raise MechanismError(
                    "mechanism/option",
                    f"{self.name} takes mechanisms that answer every record, and {part.name} takes {part.takes} only.",
                )
            if whom.first == whom.last:
                raise MechanismError(
                    "mechanism/option", f"The share of {part.name} is so small that nobody belongs to it."
                )

    # -- who belongs to which part ------------------------------------------------------------------------------

    @cached_property
    def people(self) -> tuple[Part, ...]:
        """The part of the people whom each mechanism asks."""
        return in_parts(*self.shares)

    def part_of(self, public: bytes) -> int:
        """The number of the part that a report belongs to, from its public bytes."""
        word = parting_word(public, self.fingerprint)
        return next(number for number, whom in enumerate(self.people) if whom.holds(word))

    def parts_of(self, publics: NDArray[np.uint8]) -> NDArray[np.int64]:
        """``part_of`` for many reports, ``publics[n, 16]``."""
        return self._numbers(parting_words(publics, self.fingerprint))

    def _numbers(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The part that each parting word stands for."""
        upper = (words >> np.uint64(32)).astype(np.int64)
        return np.searchsorted([whom.first for whom in self.people], upper, side="right") - 1

    @cached_property
    def word_size(self) -> int:
        return 1 + max(part.word_size for part in self.parts)

    @property
    def _shift(self) -> int:
        """The bits of a public word below the number of its part."""
        return 64 * (self.word_size - 1)

    def word(self, public: bytes) -> int:
        number = self.part_of(public)
        return number << self._shift | self.parts[number].word(public)

    def words(self, publics: NDArray[np.uint8]) -> NDArray[np.uint64]:
        numbers = self.parts_of(publics)
        words = np.zeros((len(publics), self.word_size), dtype=np.uint64)
        words[:, 0] = numbers
        for number, part in enumerate(self.parts):
            mine = numbers == number
            words[mine, -part.word_size :] = part.words(publics[mine]).reshape(-1, part.word_size)
        return words

    def every_word(self) -> Iterator[int]:
        for number, part in enumerate(self.parts):
            for word in part.every_word():
                yield number << self._shift | word

    def word_shares(self) -> Iterator[tuple[int, Fraction]]:
        for number, (part, whom) in enumerate(zip(self.parts, self.people, strict=True)):
            for word, share in part.word_shares():
                yield number << self._shift | word, whom.share * share

    def _at(self, word: int) -> tuple[int, int]:
        """The number of the part, and the part's own word."""
        return word >> self._shift, word & (1 << self._shift) - 1

    def _of(self, number: int, words: NDArray[np.uint64]) -> tuple[NDArray[np.bool_], NDArray[np.uint64]]:
        """Which reports belong to a part, and the part's own words of them."""
        mine, size = words[:, 0] == number, self.parts[number].word_size
        own = words[mine, -size:]
        return mine, own if size > 1 else own[:, 0]

    # -- device and bulk ----------------------------------------------------------------------------------------

    @property
    def ratio(self) -> Ratio:
        return max(part.ratio for part in self.parts)

    @property
    def variation(self) -> Fraction:
        """The word says the part, so variations add up by the shares; two records may not be worst for all parts."""
        shares = (whom.share * part.variation for part, whom in zip(self.parts, self.people, strict=True))
        return sum(shares, Fraction(0))

    def check(self, pairs: Pairs) -> Pairs:
        for part in self.parts:
            pairs = part.check(pairs)
        return pairs

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        number, own = self._at(word)
        return self.parts[number].respond(pairs, own, coins)

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> Any:
        """The rows of every part, as ``PartRows``."""
        rows: list[Any] = []
        for number, part in enumerate(self.parts):
            mine, own = self._of(number, words)
            seen = self.seen(number, records.those(mine)) if mine.any() else None
            rows.append(_NOBODY if seen is None else part.respond_many(seen, own, coins))
        return PartRows(words[:, 0].astype(np.int64), tuple(rows))

    def seen(self, number: int, records: Records) -> Records:
        """What a part is told of its people: everything, unless it is about some of the keys only."""
        return records

    # -- reports of one length ----------------------------------------------------------------------------------

    @cached_property
    def forms(self) -> tuple[Padded, ...]:
        """The payloads of each part, padded to the longest of all."""
        codecs = [part.codec for part in self.parts]
        size = max(codec.longest + codec.varies for codec in codecs)
        return tuple(Padded(codec, size) for codec in codecs)

    @cached_property
    def codec(self) -> PartedCodec:
        total = sum(self.shares, Fraction(0))
        return PartedCodec(self.forms, tuple(share / total for share in self.shares))

    def codec_at(self, word: int) -> Codec:
        number, own = self._at(word)
        return Padded(self.parts[number].codec_at(own), self.codec.longest)

    def encode(self, report: Report) -> bytes:
        number = self.part_of(report.public)
        return self.forms[number].fill(self.parts[number].encode(report))

    def encode_many(self, reports: Reports) -> Payloads:
        rows: Any = reports.payloads
        table = np.zeros((len(reports), self.codec.longest), dtype=np.uint8)
        for number, (part, form) in enumerate(zip(self.parts, self.forms, strict=True)):
            mine = rows.parts == number
            if mine.any():
                own = part.encode_many(Reports(reports.publics[mine], rows.rows[number]))
                table[mine] = padded(own, form.size, form.inner.varies)
        return Payloads.end_to_end(table.data, np.arange(len(table) + 1) * table.shape[1])

    def read_encoded(self, payloads: Payloads, words: NDArray[np.uint64], keep: bool = True) -> Decoded:
        flaws, rows = np.zeros(len(payloads), dtype=np.int8), []
        for number, (part, form) in enumerate(zip(self.parts, self.forms, strict=True)):
            mine, own = self._of(number, words)
            encoded, padding = form.unfill_many(payloads[mine], fast)
            decoded = part.read_encoded(encoded, own, keep) if mine.any() else Decoded(_NOBODY, padding)
            flaws[mine] = first_flaws(padding, decoded.flaws)
            rows.append(decoded.rows)
        return Decoded(PartRows(words[:, 0].astype(np.int64), tuple(rows)) if keep else None, flaws)

    def gather(self, reports: Iterable[Report]) -> Reports:
        listed = list(reports)
        publics = np.frombuffer(b"".join(report.public for report in listed), np.uint8).reshape(len(listed), -1)
        numbers = self.parts_of(publics)
        rows = [
            part.gather([listed[at] for at in np.flatnonzero(numbers == number).tolist()]).payloads
            if (numbers == number).any()
            else _NOBODY
            for number, part in enumerate(self.parts)
        ]
        gathered: Any = PartRows(numbers, tuple(rows))
        return Reports(publics, gathered)

    # -- counts -------------------------------------------------------------------------------------------------

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return (self._starts[-1],)

    @cached_property
    def _starts(self) -> tuple[int, ...]:
        """Where the counts of each part begin, and where they end: its number of reports, then its own tally."""
        return tuple(accumulate((1 + math.prod(part.tally_shape) for part in self.parts), initial=0))

    def fold(self, payloads: Any, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        if not np.array_equal(payloads.parts, words[:, 0]):
            raise ReportError("report/malformed", "Reports belong to other parts than their public bytes say.")
        counts = self._nothing()
        for number, part in enumerate(self.parts):
            mine, own = self._of(number, words)
            if mine.any():
                self._put(counts, number, int(mine.sum()), part.fold(payloads.rows[number], own))
        return counts

    def count_encoded(self, payloads: Payloads, words: NDArray[np.uint64]) -> tuple[NDArray[np.int64], Flaws]:
        counts, flaws = self._nothing(), np.zeros(len(payloads), dtype=np.int8)
        for number, (part, form) in enumerate(zip(self.parts, self.forms, strict=True)):
            mine, own = self._of(number, words)
            if mine.any():
                encoded, found = form.unfill_many(payloads[mine], fast)
                whole = found == FINE
                counted, found[whole] = part.count_encoded(encoded[whole], own[whole])
                flaws[mine] = found
                self._put(counts, number, int(np.count_nonzero(found == FINE)), counted)
        return counts, flaws

    def counts_of_each(self, payloads: Any, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        counts = np.zeros((len(payloads), *self.tally_shape), dtype=np.int64)
        for number, (part, start, stop) in enumerate(zip(self.parts, self._starts, self._starts[1:], strict=False)):
            mine, own = self._of(number, words)
            if mine.any():
                counts[mine, start] = 1
                counts[mine, start + 1 : stop] = counts_of_each(part, payloads.rows[number], own)
        return counts

    def part_tally(self, tally: Tally, number: int) -> Tally:
        """The tally of one part, as if its people were the only ones."""
        counts, start, stop = self._own(tally), *self._starts[number : number + 2]
        if sum(int(counts[first]) for first in self._starts[:-1]) != tally.reports:
            raise TallyError("tally/malformed", f"The parts of this tally do not add up to {tally.reports} reports.")
        part = self.parts[number]
        return Tally(part.fingerprint, int(counts[start]), counts[start + 1 : stop].reshape(part.tally_shape))

    def whole_tally(self, parts: Sequence[Tally]) -> Tally:
        """The tally whose parts are these."""
        counts = self._nothing()
        for number, own in enumerate(parts):
            self._put(counts, number, own.reports, own.counts)
        return Tally(self.fingerprint, sum(own.reports for own in parts), counts)

    def _nothing(self) -> NDArray[np.int64]:
        return np.zeros(self.tally_shape, dtype=np.int64)

    def _put(self, counts: NDArray[np.int64], number: int, reports: int, own: NDArray[np.int64]) -> None:
        start, stop = self._starts[number : number + 2]
        counts[start] = reports
        counts[start + 1 : stop] = own.reshape(-1)

    # -- estimates ----------------------------------------------------------------------------------------------

    @property
    def estimated(self) -> frozenset[str]:
        return frozenset().union(*(part.estimated for part in self.parts))

    def answers(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> tuple[Estimates, ...]:
        """Every part's own estimates, about its own people."""
        tallies = (self.part_tally(tally, number) for number in range(len(self.parts)))
        return tuple(part.estimate(own, confidence, population) for part, own in zip(self.parts, tallies, strict=True))

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        _, fixed, sampled = self._heard(tally, confidence)
        return merge(self.header(tally.reports, confidence, population), fixed, sampled)

    def part_answers(self, tally: Tally) -> list[PartAnswer]:
        return part_answers(*self._heard(tally))

    def _heard(
        self, tally: Tally, confidence: float = 0.95
    ) -> tuple[list[tuple[Mechanism, Tally]], list[Estimates], list[Estimates]]:
        """The parts that somebody answered, or the first; with their estimates, people fixed and as a sample."""
        both = [(part, self.part_tally(tally, number)) for number, part in enumerate(self.parts)]
        heard = [one for one in both if one[1].reports] or both[:1]
        fixed, sampled = ([part.estimate(own, confidence, whole) for part, own in heard] for whole in (False, True))
        return heard, fixed, sampled

    def asked_about(self, tally: Tally) -> Asked:
        """The people of every part; if a part is about some keys only, they are not said here."""
        heard = np.array([self.part_tally(tally, number).reports for number in range(len(self.parts))])
        shares = np.array([float(whom.share) for whom in self.people])
        return Asked(heard, shares, np.full((len(heard), 1), -1))

    def report_effects(self, tally: Tally) -> list[Effects]:
        """Those of every part on the merged estimates, whose weights follow from the data."""
        answers = part_answers(*self._heard(tally))
        return [
            effect.scaled(one.frequency_weights, one.product_weights, fixed=len(self.parts) == 1)
            for one in answers
            for effect in need(one.mechanism, ReportEffects).report_effects(one.tally)
        ]

    def reachable(self, tally: Tally, of: Callable[[Mechanism, Tally], Reachable]) -> Reachable:
        """Weights follow from the data, so limits are those of all parts together: people may speak in any of them."""
        from keyveil.mechanisms.reach import averaged  # devices do not need it

        own = [of(part, self.part_tally(tally, number)) for number, part in enumerate(self.parts)]
        tell = [part.estimated for part in self.parts]
        return own[0] if len(own) == 1 else lambda leave, come: averaged([one(leave, come) for one in own], tell)

    def draw_tally(self, records: Records, coins: Coins, draws: CountDraws) -> NDArray[np.int64]:
        """People are parted one by one, and the tally of every part has its own law."""
        numbers = self._numbers(coins.words(records.n))
        counts = self._nothing()
        for number, part in enumerate(self.parts):
            mine = records.those(numbers == number)
            if mine.n:
                drawn = need(part, TallyLaw).draw_tally(self.seen(number, mine), coins, draws)
                self._put(counts, number, mine.n, drawn)
        return counts

    def draw_limit(self, types: Records, people: NDArray[np.int64], draws: LimitDraws) -> NDArray[np.int64]:
        """How many people of a type belong to each part is multinomial; a part is drawn exactly where that can be."""
        counts, shares = self._nothing(), np.array([float(whom.share) for whom in self.people])
        parted = draws.multinomial(people, shares / shares.sum())
        for number, part in enumerate(self.parts):
            mine, seen = parted[:, number], self.seen(number, types)
            law = crowd_law(part)
            if law is not None:
                drawn = law.draw_crowd(seen, mine, draws)
            else:
                limit = normal_limit(part)
                assert limit is not None
                drawn = limit.draw_limit(seen, mine, draws)
            self._put(counts, number, int(mine.sum()), drawn)
        return counts

    # -- what is enumerated -------------------------------------------------------------------------------------

    @property
    def exhaustive(self) -> bool:  # type: ignore[override]
        return all(part.exhaustive for part in self.parts)

    def every_record(self) -> Iterator[Pairs]:
        """The records that one of the parts is to be enumerated with, each once."""
        seen = set()
        for part in self.parts:
            for pairs in part.every_record():
                record = tuple((key, value) for key, value in pairs)
                if record not in seen:
                    seen.add(record)
                    yield record

    @abstractmethod
    def reduced(self) -> Self:
        """The same parts at sizes small enough to write every outcome down, all of them for the same keys."""

    # -- identity -----------------------------------------------------------------------------------------------

    @property
    def sizes(self) -> dict[str, int]:
        own = {f"{part.name} {size}": count for part in self.parts for size, count in part.sizes.items()}
        return {"keys": self.schema.d, **{size: count for size, count in own.items() if not size.endswith(" keys")}}

    @cached_property
    def fingerprint(self) -> bytes:
        """SHA-256 of the parts' fingerprints and shares: options that only read a part's tally change nothing."""
        total = sum(self.shares, Fraction(0))
        document = {
            "mechanism": self.name,
            "epsilon": decimal_text(self.epsilon),
            "parts": [
                [decimal_text(share / total), part.fingerprint.hex()]
                for share, part in zip(self.shares, self.parts, strict=True)
            ],
            "schema": self.schema.hash,
        }
        return hashlib.sha256(canonical(document)).digest()


_NOBODY: NDArray[np.int64] = np.empty(0, dtype=np.int64)  # the rows of a part that nobody of a block belongs to
