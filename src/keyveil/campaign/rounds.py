"""The document of one round: its mechanism, its part of the people, and its campaign.

It is made when the round opens, because it may depend on earlier rounds, and named by its hash like a campaign. A
device does not rely on the epsilon that is stated: it computes the price from the channel that it will run.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from keyveil.campaign.documents import MOST_ROUNDS, VERSION, Campaign
from keyveil.core.canonical import canonical
from keyveil.core.epsilon import decimal_text, read_fraction
from keyveil.core.errors import CampaignError, KeyveilError
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.registry import create_round
from keyveil.protocols.base import EVERYONE, Part, Round, cost_of

_FIELDS = {"keyveil", "campaign", "round", "mechanism", "epsilon", "options", "part", "report_bytes"}


@dataclass(frozen=True, repr=False)
class RoundDocument:
    """A round of a campaign as devices are told of it."""

    campaign: str  # hash of the campaign's document
    number: int
    mechanism: Mechanism
    part: Part

    def __repr__(self) -> str:
        return f"RoundDocument({self.number} of {self.campaign[:8]}…, {self.mechanism.name})"

    @classmethod
    def of(cls, campaign: Campaign, a_round: Round) -> RoundDocument:
        return cls(campaign.hash, a_round.number, a_round.mechanism, a_round.part)

    @cached_property
    def cost(self) -> Fraction:
        """Epsilon that answering costs, from the channel itself, rounded up."""
        return cost_of(self.mechanism.ratio)

    @property
    def report_bytes(self) -> int:
        """The size that every report of this round is padded to; one byte more than the longest if sizes vary."""
        return self.mechanism.codec.longest + self.mechanism.codec.varies

    def document(self) -> dict[str, Any]:
        return {
            "keyveil": VERSION,
            "campaign": self.campaign,
            "round": self.number,
            "mechanism": self.mechanism.name,
            "epsilon": decimal_text(self.mechanism.epsilon),
            "options": self.mechanism.options,
            "part": [decimal_text(self.part.start), decimal_text(self.part.stop)],
            "report_bytes": self.report_bytes,
        }

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the canonical document, in hex: what a report belongs to."""
        return hashlib.sha256(canonical(self.document())).hexdigest()

    @classmethod
    def from_document(cls, document: Any, campaign: Campaign) -> RoundDocument:
        """The round that a document describes; refused unless it belongs to the campaign and says what it is."""
        canonical(document)
        if not isinstance(document, dict) or set(document) != _FIELDS or document["keyveil"] != VERSION:
            raise _refused(f"A round's document has {', '.join(sorted(_FIELDS))}.")
        if document["campaign"] != campaign.hash:
            raise CampaignError("campaign/changed", "The round belongs to another campaign, or the campaign changed.")
        number, options = document["round"], document["options"]
        if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= MOST_ROUNDS:
            raise _refused("Rounds are counted from 1.")
        if not isinstance(options, dict) or not isinstance(document["epsilon"], str):
            raise _refused("A round's options are an object, and its epsilon is an exact decimal.")
        try:
            mechanism = create_round(str(document["mechanism"]), campaign.schema, document["epsilon"], **options)
        except KeyveilError:
            raise
        except (TypeError, ValueError, AttributeError, ArithmeticError, LookupError) as reason:
            raise _refused(f"The options of round {number} make no sense to {document['mechanism']}.") from reason
        read = cls(campaign.hash, number, mechanism, _part(document["part"]))
        if canonical(read.document()) != canonical(document):
            raise _refused("The round's document is not in canonical form.")
        return read


def _part(document: Any) -> Part:
    if document == ["0", "1"]:
        return EVERYONE
    try:
        start, stop = (read_fraction(text) if isinstance(text, str) else None for text in document)
    except (TypeError, ValueError, ZeroDivisionError):
        start = stop = None
    if start is None or stop is None:
        raise _refused("The part of the people is two fractions, such as 0 and 0.05.")
    return Part(start, stop)


def _refused(sentence: str) -> CampaignError:
    return CampaignError("campaign/round", sentence)
