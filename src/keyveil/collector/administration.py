"""What administrators do to campaigns, each act in one transaction together with its line in the journal."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, insert, select, update

from keyveil.campaign.answerable import refuse_refused
from keyveil.campaign.documents import Campaign
from keyveil.collector import participation, tables
from keyveil.collector.folding import retry, set_aside
from keyveil.collector.journal import Journal, Note, Notes
from keyveil.collector.repository import Repository, StoredCampaign, dictionary
from keyveil.collector.rounds import (
    archive_campaign,
    close_campaign,
    close_round,
    delete_campaign,
    open_campaign,
)
from keyveil.collector.tokens import hashed, new_token
from keyveil.core.canonical import canonical
from keyveil.core.errors import CampaignError

MOST_TOKENS = 10_000  # made or revoked in one request
ACTIONS = ("open", "close", "stop", "archive", "retry")


@dataclass(frozen=True)
class Administration:
    """The acts of administrators; ``by`` is the name of the token that acts."""

    journal: Journal
    repository: Repository

    def create(self, document: Any, by: str) -> Campaign:
        """A new campaign, as a draft; its name may be that of one that is over."""
        with self.journal.writer.database.read() as connection:
            campaign = Campaign.from_document(document, lambda name: dictionary(connection, name))
            refuse_refused(campaign, lambda name: dictionary(connection, name))

        def step(connection: Connection, notes: Notes) -> None:
            table = tables.campaign
            same = connection.execute(
                select(table.c.hash, table.c.state).where(
                    (table.c.hash == campaign.hash)
                    | ((table.c.name == campaign.name) & table.c.state.in_(("draft", "open")))
                )
            ).first()
            if same is not None:
                again = "This very campaign" if same.hash == campaign.hash else f"A campaign {campaign.name!r}"
                raise CampaignError("campaign/exists", f"{again} is there already ({same.state}).")
            row = {"name": campaign.name, "hash": campaign.hash, "document": canonical(campaign.document())}
            connection.execute(insert(table).values(**row, state="draft"))
            notes.append(Note("campaign.draft", campaign.hash, {"name": campaign.name}))

        self.journal.run(by, step)
        return campaign

    def put_dictionary(self, data: bytes, by: str) -> str:
        """Keep a list of keys; its hash is its name."""
        try:
            keys = msgspec.json.decode(data, type=list[str])
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise CampaignError("dictionary/malformed", "A list of keys is a JSON list of names.") from None
        if canonical(keys) != data:
            raise CampaignError("dictionary/malformed", "A list of keys is canonical JSON: no spaces, no escapes.")
        name = hashlib.sha256(data).hexdigest()

        def step(connection: Connection, notes: Notes) -> None:
            row = {"hash": name, "content": data}
            if self.journal.writer.database.insert_new(connection, tables.dictionary, row):
                notes.append(Note("dictionary.put", name, {"keys": len(keys)}))

        self.journal.run(by, step)
        return name

    def act(self, name: str, action: str, by: str) -> None:
        """ "open" a draft, "close" the open round now, "stop" the campaign, "archive" one that is over, or "retry" to
        count what was set aside."""
        if action not in ACTIONS:
            raise CampaignError("campaign/action", f"A campaign can {', '.join(ACTIONS)}, not {action!r}.")

        def step(connection: Connection, notes: Notes) -> None:
            stored = self.repository.named(connection, name, drafts_first=action == "open")
            now = self.journal.clock()
            if action == "open" and stored.state == "draft":
                open_campaign(connection, stored, now, notes)
            elif action == "close" and stored.state == "open" and stored.current:
                close_round(connection, stored, stored.current, now, notes)
            elif action == "stop" and stored.state in ("draft", "open"):
                close_campaign(connection, stored, now, notes)
            elif action == "retry":
                self._retry(connection, stored, notes)
            elif action != "archive" or not archive_campaign(connection, stored, notes):
                raise CampaignError(
                    "campaign/state", f"The campaign {stored.campaign.name} is {stored.state}: it cannot {action}."
                )

        self.journal.run(by, step)

    def _retry(self, connection: Connection, stored: StoredCampaign, notes: Notes) -> None:
        """Count again what was set aside in the latest round: later rounds rest on what earlier ones said."""
        last, name = stored.current, stored.campaign.name
        waiting = 0 if last is None else set_aside(connection, last.id)
        if last is None or not waiting or stored.state in ("archived", "deleted"):
            raise CampaignError("campaign/state", f"No report of {name} that could be counted is set aside.")
        least, folded = stored.campaign.min_reports, last.state == "folded"
        if folded and waiting < least:
            raise CampaignError(
                "campaign/too-few",
                f"{waiting} reports of {name} are set aside. Its round is counted, and what is shown changes by no "
                f"fewer than {least}, so that no single report can be read from the difference.",
            )
        retry(self.journal.writer, connection, last.id, last.document, folded)
        about = {"name": name, "round": last.document.number, "reports": waiting}
        notes.append(Note("reports.retry", stored.campaign.hash, about))

    def delete(self, name: str, by: str) -> None:
        """Forget a campaign that takes no reports, with its reports, tallies and enrolments."""

        def step(connection: Connection, notes: Notes) -> None:
            stored = self.repository.named(connection, name)
            if not delete_campaign(connection, stored, notes):
                raise CampaignError(
                    "campaign/state",
                    f"The campaign {stored.campaign.name} is {stored.state}: stop it first, and let it be counted.",
                )
            keys = stored.campaign.document()["schema"]["keys"]
            if isinstance(keys, dict):
                _delete_unused(connection, keys["sha256"])

        self.journal.run(by, step)

    def enrol(self, name: str, count: int, by: str) -> list[str]:
        """New enrolment tokens; they are shown now and never again."""
        if not 1 <= count <= MOST_TOKENS:
            raise CampaignError("enrolment/count", f"From 1 to {MOST_TOKENS} tokens are made at once, not {count}.")
        tokens = [new_token() for _ in range(count)]

        def step(connection: Connection, notes: Notes) -> None:
            stored = self.repository.named(connection, name)
            if stored.campaign.enrolment != "token":
                raise CampaignError(
                    "enrolment/none", f"The campaign {stored.campaign.name} takes reports without enrolment."
                )
            table = tables.campaign
            state = connection.execute(select(table.c.state).where(table.c.id == stored.id).with_for_update()).scalar()
            if state in ("archived", "deleted"):
                raise CampaignError("campaign/state", f"The campaign {stored.campaign.name} is {state}: nobody enrols.")
            participation.enrol(connection, stored.id, [hashed(token) for token in tokens])
            notes.append(Note("enrolment.create", stored.campaign.hash, {"name": stored.campaign.name, "count": count}))

        self.journal.run(by, step)
        return tokens

    def revoke(self, name: str, tokens: Sequence[str], by: str) -> int:
        """Enrolment tokens that are no longer good; how many of them the campaign knew.

        Reports that came under them stay counted: nobody knows which ones they are.
        """

        def step(connection: Connection, notes: Notes) -> int:
            stored = self.repository.named(connection, name)
            table = tables.enrolment
            mine = (table.c.campaign_id == stored.id) & (table.c.revoked == 0)
            changed = 0
            for token in tokens:
                known = mine & (table.c.token_hash == hashed(token))
                changed += connection.execute(update(table).where(known).values(revoked=1)).rowcount
            if changed:
                about = {"name": stored.campaign.name, "count": changed}
                notes.append(Note("enrolment.revoke", stored.campaign.hash, about))
            return changed

        return self.journal.run(by, step)


def _delete_unused(connection: Connection, sha256: str) -> None:
    """Delete a list of keys that no campaign names any more."""
    documents = connection.execute(select(tables.campaign.c.document)).scalars()
    if not any(sha256.encode() in bytes(document) for document in documents):
        connection.execute(delete(tables.dictionary).where(tables.dictionary.c.hash == sha256))
