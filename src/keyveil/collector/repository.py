"""Reading what is stored as the objects it stands for: campaigns, rounds and their history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, not_, select

from keyveil.campaign.documents import HASH_PREFIX, Campaign
from keyveil.campaign.rounds import RoundDocument
from keyveil.collector import tables
from keyveil.collector.folding import read_tally
from keyveil.core.errors import CampaignError
from keyveil.protocols.base import Finished, Round


@dataclass(frozen=True)
class StoredRound:
    """A round with its place in the database."""

    id: int
    document: RoundDocument
    cost: Fraction | None
    state: str

    @property
    def planned(self) -> Round:
        """The round as its protocol planned it."""
        return Round(self.document.number, self.document.mechanism, self.document.part, self.cost)


@dataclass(frozen=True)
class StoredCampaign:
    """A campaign with its place in the database, its state and its rounds so far."""

    id: int
    campaign: Campaign
    state: str
    rounds: tuple[StoredRound, ...]

    @property
    def current(self) -> StoredRound | None:
        return self.rounds[-1] if self.rounds else None

    def round(self, number: int) -> StoredRound:
        if not 1 <= number <= len(self.rounds):
            raise CampaignError("round/unknown", f"The campaign {self.campaign.name} has no round {number} yet.")
        return self.rounds[number - 1]

    def view(self) -> dict[str, Any]:
        """What anybody may know."""
        last = self.current
        return {
            "campaign": self.campaign.document(),
            "hash": self.campaign.hash,
            "state": self.state,
            "round": last
            and {
                "document": last.document.document(),
                "hash": last.document.hash,
                "number": last.document.number,
                "state": last.state,
            },
        }


class Repository:
    """Turns rows into campaigns, and remembers those it has read: documents never change."""

    def __init__(self) -> None:
        self._campaigns: dict[str, Campaign] = {}
        self._rounds: dict[tuple[str, str], RoundDocument] = {}

    def named(
        self, connection: Connection, name: str, drafts_first: bool = False, drafts: bool = True
    ) -> StoredCampaign:
        """The campaign that is meant by its hash, by the name of its series, or by a unique beginning of its hash.

        Of the campaigns of a series the latest one is meant; a draft only if there is nothing else, and not at all
        unless ``drafts`` says so. One that was deleted is not there.
        """
        table = tables.campaign
        draft = table.c.state == "draft"
        there = table.c.state.not_in(("deleted",) if drafts else ("deleted", "draft"))
        row = connection.execute(
            select(table)
            .where((table.c.name == name) | (table.c.hash == name), there)
            .order_by(table.c.hash != name, not_(draft) if drafts_first else draft, table.c.id.desc())
            .limit(1)
        ).one_or_none()
        return self._stored(connection, _by_prefix(connection, name, there) if row is None else row)

    def every(self, connection: Connection, running: bool = False) -> list[StoredCampaign]:
        """All campaigns; or those to which something may happen by itself."""
        table = tables.campaign
        there = table.c.state != "deleted"
        wanted = table.c.state.in_(("open", "closed")) & (table.c.settled == 0) if running else there
        rows = connection.execute(select(table).where(wanted).order_by(table.c.id)).all()
        return [self._stored(connection, row) for row in rows]

    def retention_days(self, connection: Connection, campaign: str) -> int:
        """For how many days the campaign with this hash keeps payloads."""
        return self._campaign(connection, campaign).retention_days

    def history(self, connection: Connection, stored: StoredCampaign, rounds: int) -> list[Finished]:
        """The first rounds of a campaign with what has been folded of them."""
        return [Finished(one.planned, read_tally(connection, one.id, one.document)) for one in stored.rounds[:rounds]]

    def _stored(self, connection: Connection, row: Row[Any]) -> StoredCampaign:
        campaign = self._campaign(connection, row.hash)
        table = tables.round
        found = connection.execute(select(table).where(table.c.campaign_id == row.id).order_by(table.c.number)).all()
        return StoredCampaign(row.id, campaign, row.state, tuple(self._round(campaign, one) for one in found))

    def _campaign(self, connection: Connection, hash: str) -> Campaign:
        known = self._campaigns.get(hash)
        if known is None:
            table = tables.campaign
            content = connection.execute(select(table.c.document).where(table.c.hash == hash)).scalar_one()
            known = Campaign.from_document(msgspec.json.decode(content), lambda name: dictionary(connection, name))
            self._campaigns[hash] = known
        return known

    def _round(self, campaign: Campaign, row: Row[Any]) -> StoredRound:
        place = campaign.hash, row.hash
        document = self._rounds.get(place)
        if document is None:
            document = RoundDocument.from_document(msgspec.json.decode(row.document), campaign)
            self._rounds[place] = document
        cost = None if row.cost is None else Fraction(row.cost)
        return StoredRound(row.id, document, cost, row.state)


def _by_prefix(connection: Connection, digits: str, there: ColumnElement[bool]) -> Row[Any]:
    """The only campaign whose hash begins with these digits."""
    found: Sequence[Row[Any]] = ()
    if HASH_PREFIX.fullmatch(digits):
        table = tables.campaign
        found = connection.execute(select(table).where(table.c.hash.startswith(digits), there).limit(2)).all()
    if len(found) > 1:
        raise CampaignError("campaign/ambiguous", f"Several campaigns have a hash that begins with {digits}: say more.")
    if not found:
        raise CampaignError("campaign/unknown", f"There is no campaign {digits!r}.")
    return found[0]


def dictionary(connection: Connection, name: str) -> bytes:
    """A list of keys by its hash."""
    table = tables.dictionary
    content = connection.execute(select(table.c.content).where(table.c.hash == name)).scalar()
    if content is None:
        raise CampaignError("dictionary/unknown", f"There is no list of keys {name[:8]!r}….")
    return bytes(content)
