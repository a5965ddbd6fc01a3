"""What every one-round mechanism is: an encoder, a channel and a response, and the verbs that follow from them.

A mechanism draws only through ``Coins`` and looks at public randomness only through one ``word``. Its ``respond`` is
therefore a program over whole numbers that ``privacy.certify`` can run over all outcomes: the certificate is about the
code that devices run, not about a description of it.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.canonical import canonical
from keyveil.core.channels import Ratio, universal_variation
from keyveil.core.codecs.payloads import Payloads
from keyveil.core.codecs.symbols import Codec
from keyveil.core.coins import Coins
from keyveil.core.discovery import Decision
from keyveil.core.epsilon import decimal_text, parse_epsilon
from keyveil.core.errors import RecordError, ReportError, TallyError
from keyveil.core.estimates import Estimates, Header
from keyveil.core.public import public_word
from keyveil.core.records import Records
from keyveil.core.report import PUBLIC_BYTES, Payload, Report, Reports
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.kernels.siphash import siphash_many
from keyveil.kernels.threads import in_ranges, threads_for
from keyveil.mechanisms.capabilities import Capped, KeyDependence, Parted, Takes, can
from keyveil.mechanisms.counting import BLOCK, Counting
from keyveil.mechanisms.options import documented

if TYPE_CHECKING:
    from keyveil.privacy.certify import Certificate

Pairs = Sequence[tuple[int, int]]
"""A cleaned record: (key index, value on the grid of ``core.schema``), sorted by key."""


@dataclass(frozen=True)
class Mechanism(Counting):
    """A one-round mechanism for one schema and one epsilon."""

    schema: Schema
    epsilon: Fraction

    name: ClassVar[str]
    exhaustive: ClassVar[bool] = True
    """Whether ``every_word`` shows all that public words can do; if they seed hashes, it shows examples."""

    takes: ClassVar[Takes]
    """Which records can be answered; every family says it."""

    unit_counts: ClassVar[bool] = False
    """Whether a report adds 0 or 1 to every count, so that none is negative or exceeds the number of reports."""

    examples: ClassVar[tuple[dict[str, Any], ...]] = ({},)
    """Options at which the mechanism tells different things, for three keys; the first are the usual ones."""

    readings: ClassVar[frozenset[str]] = frozenset()
    """Options that only change how a tally is read; reports and tallies are the same whatever they say."""

    unsaid: ClassVar[frozenset[str]] = frozenset()
    """Options that documents and fingerprints do not name where they are not given (``None``)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon))
        self.validate()

    @classmethod
    def class_for(cls, options: Mapping[str, Any]) -> type[Mechanism]:
        """The class that ``registry.create`` makes from these options: this one, unless an option chooses another."""
        return cls

    @property
    def title(self) -> str:
        """What a sentence calls it: its name, with the options that make it tell something else."""
        return self.name

    @property
    def lacks(self) -> frozenset[type]:
        """Capabilities that these options take away from the class."""
        return frozenset()

    def validate(self) -> None:
        """Refuse options that make no sense together; nothing to refuse by default."""

    # -- what a mechanism must say ------------------------------------------------------------------------------

    @property
    @abstractmethod
    def ratio(self) -> Ratio:
        """Closed form: the largest ratio of the probabilities of one report under two records."""

    @property
    def variation(self) -> Fraction:
        """At least the largest total variation of (public word, payload) over two records, for ``privacy.shuffled``.

        What the ratio alone allows, unless a family knows better.
        """
        return universal_variation(self.ratio)

    def codec_at(self, word: int) -> Codec:
        """The form of a payload at a public word; the same at every word, unless the word decides who is asked what."""
        return self.codec

    @abstractmethod
    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        """Draw the payload for one record. Devices run this; the certificate enumerates it."""

    @abstractmethod
    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        """The same law for a block of people, as arrays."""

    @abstractmethod
    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        """Frequencies and means with intervals; ``population`` adds the error of sampling people."""

    @property
    @abstractmethod
    def estimated(self) -> frozenset[str]:
        """What ``estimate`` gives: frequency, mean, both or neither."""

    @abstractmethod
    def check(self, pairs: Pairs) -> Pairs:
        """The cleaned record, refused if this mechanism cannot take it."""

    # -- what is enumerated -------------------------------------------------------------------------------------

    @abstractmethod
    def reduced(self) -> Self:
        """The same mechanism at sizes small enough to write every outcome down."""

    @abstractmethod
    def every_record(self) -> Iterable[Pairs]:
        """Every record, or enough of them that all others are mixtures."""

    def every_word(self) -> Iterable[int]:
        """Public words that cover what the mechanism derives from them; one if it derives nothing."""
        return (0,)

    def word_shares(self) -> Iterable[tuple[int, Fraction]]:
        """``every_word`` with the probability of what each stands for; equal unless somebody knows better."""
        words = list(self.every_word())
        return [(word, Fraction(1, len(words))) for word in words]

    # -- public words -------------------------------------------------------------------------------------------

    @property
    def reads_words(self) -> bool:
        """Whether anything follows from public words; if not, public bytes need not be hashed to count reports.

        A mechanism that says nothing about its words (``every_word``) derives nothing from them.
        """
        return type(self).every_word is not Mechanism.every_word

    @property
    def word_size(self) -> int:
        """How many 64-bit numbers a public word consists of."""
        return 1

    def word(self, public: bytes) -> int:
        """The public word of a report, from its public bytes: all that ``respond`` sees of them."""
        return public_word(public, self.fingerprint[:16])

    def words(self, publics: NDArray[np.uint8]) -> NDArray[np.uint64]:
        """``word`` for many reports, ``publics[n, 16]``: [n], or [n, word_size] with the highest number first."""
        return siphash_many(self.fingerprint[:16], publics)

    def read_words(self, publics: NDArray[np.uint8]) -> NDArray[np.uint64]:
        """``words`` for a mechanism that reads them, and zeros, which take no time, for one that does not."""
        return self.words(publics) if self.reads_words else np.broadcast_to(np.uint64(0), len(publics))

    def same_word(self, word: int, count: int) -> NDArray[np.uint64]:
        """One public word for ``count`` reports, in the form of ``words``."""
        numbers = [word >> 64 * place & (1 << 64) - 1 for place in reversed(range(self.word_size))]
        columns = np.tile(np.array(numbers, dtype=np.uint64), (count, 1))
        return columns if self.word_size > 1 else columns[:, 0]

    # -- device -------------------------------------------------------------------------------------------------

    def read(self, record: Any) -> Pairs:
        """A person's record in the schema's terms, cleaned."""
        return self.check(self.schema.read(record))

    def perturb(self, record: Any, coins: Coins, public: bytes | None = None) -> Report:
        """The report of one person: epsilon-locally private whatever the record, given its public bytes."""
        return self.perturb_pairs(self.read(record), coins, public)

    def perturb_pairs(self, pairs: Pairs, coins: Coins, public: bytes | None = None) -> Report:
        """``perturb`` for a record that ``read`` has cleaned."""
        if public is None:
            public = coins.bytes(PUBLIC_BYTES)
        elif len(public) != PUBLIC_BYTES:
            raise ReportError("report/public", f"A report has {PUBLIC_BYTES} public bytes, not {len(public)}.")
        word = self.word(public) if self.reads_words else 0
        return Report(public, self.respond(pairs, word, coins))

    def encode(self, report: Report) -> bytes:
        """The payload as bytes; the public bytes travel beside it as the report's id."""
        return self.codec.encode(report.payload)

    def decode(self, data: bytes, public: bytes) -> Report:
        """The report of these bytes; refused if no device with these public bytes could have sent them."""
        decoded = self.read_encoded(Payloads.of([data]), self.read_words(np.frombuffer(public, np.uint8)[None]))
        return Report(public, self.codec.unstack(decoded.without_flaw())[0])

    # -- bulk and server ----------------------------------------------------------------------------------------

    def perturb_many(self, records: Records, coins: Coins, threads: int | None = None) -> Reports:
        """Reports of many people, in the law of ``perturb``.

        Coins of the operating system are drawn by several threads where people are many (``kernels.threads``); other
        coins, which a seed makes repeatable, by one.
        """
        threads = threads_for(records.n, threads) if type(coins) is Coins else 1
        if type(coins) is not Coins or records.n <= (BLOCK if threads == 1 else 0):
            return self._perturb_block(records, coins)
        from keyveil.mechanisms.part_rows import concatenated  # devices do not need it

        people = min(BLOCK, -(-records.n // threads))
        publics = np.empty((records.n, PUBLIC_BYTES), dtype=np.uint8)

        def work(start: int, stop: int) -> list[NDArray[Any]]:
            coins.fill(publics[start:stop].view(np.uint64))
            ends = [*range(start, stop, people), stop]
            return [
                self.respond_many(records.slice(first, last), self.read_words(publics[first:last]), coins)
                for first, last in pairwise(ends)
            ]

        parts = in_ranges(work, records.n, people, threads)
        return Reports(publics, concatenated([rows for some in parts for rows in some]))

    def _perturb_block(self, records: Records, coins: Coins) -> Reports:
        publics = coins.words(2 * records.n).view(np.uint8).reshape(records.n, PUBLIC_BYTES)
        return Reports(publics, self.respond_many(records, self.read_words(publics), coins))

    def reports(self, records: Records, coins: Coins, people: int = BLOCK) -> Iterator[Reports]:
        """``perturb_many`` block by block, in bounded memory."""
        for start in range(0, records.n, people):
            yield self._perturb_block(records.slice(start, min(start + people, records.n)), coins)

    def header(self, n: int, confidence: float = 0.95, population: bool = False) -> Header:
        """What estimates from ``n`` reports of this mechanism are about."""
        safe = can(self, KeyDependence) is not None or can(self, Parted) is not None
        from keyveil.core.undercount import Undercount  # devices do not need it

        decision: Decision = "bh" if safe else "by"  # docs/decisions/0040-many-keys.md
        capped = can(self, Capped)
        unseen = None if capped is None or capped.cap() >= self.schema.d else Undercount(capped.cap())
        return Header(self.schema, self.name, self.epsilon, n, confidence, population, self.options, decision, unseen)

    def certificate(self) -> Certificate:
        """The exact epsilon, and the pair of records and the report that attain it."""
        from keyveil.privacy.certify import certify  # devices do not need it

        return certify(self)

    @property
    def bits_per_report(self) -> float:
        """Bits of a payload, on average; the public bytes are the report's id and are counted with the envelope."""
        return float(self.codec.bits)

    # -- identity -----------------------------------------------------------------------------------------------

    @property
    def options(self) -> dict[str, Any]:
        """Parameters besides schema and epsilon, as they stand in documents."""
        return documented(self)

    def document(self) -> dict[str, Any]:
        """All that is needed to make the same mechanism again (``registry.from_document``); no floats."""
        return {
            "mechanism": self.name,
            "epsilon": decimal_text(self.epsilon),
            "options": self.options,
            "schema": self.schema.document(),
        }

    @cached_property
    def fingerprint(self) -> bytes:
        """SHA-256 of mechanism, parameters and schema: what a tally or report belongs to."""
        document = {
            "mechanism": self.name,
            "epsilon": decimal_text(self.epsilon),
            "options": {name: value for name, value in self.options.items() if name not in self.readings},
            "schema": self.schema.hash,
        }
        return hashlib.sha256(canonical(document)).digest()

    @property
    def sizes(self) -> dict[str, int]:
        """The public sizes that a certificate speaks about."""
        return {"keys": self.schema.d}

    def _own(self, tally: Tally) -> NDArray[np.int64]:
        """The counts of a tally that is certainly ours."""
        tally.refuse_other(self.fingerprint, self.tally_shape)
        if (
            self.unit_counts
            and tally.counts.size
            and not 0 <= tally.counts.min() <= tally.counts.max() <= tally.reports
        ):
            raise TallyError("tally/impossible", f"No {tally.reports:,} reports of {self.name} give these counts.")
        return tally.counts


def record_refused(code: str, sentence: str) -> RecordError:
    return RecordError(f"record/{code}", sentence)
