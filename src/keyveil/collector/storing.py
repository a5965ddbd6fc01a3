"""What one commit stores: the new reports of some uploads, who took part, and what was refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import chain

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from keyveil.collector.database import Database
from keyveil.collector.participation import Claims, Enrolled, locked_claims, save_claims
from keyveil.collector.tables import UNFOLDED, batch, enrolment, refusal, report, round
from keyveil.core.errors import AccessError, CampaignError, KeyveilError

DUPLICATE = "report/duplicate"
CONFLICT = "report/conflict"
ROW_BYTES = 64  # of a row besides its payload

_ASKED_AT_ONCE = 500  # ids in one question to the database

Counts = Counter[tuple[int, int, str]]
"""How many refusals of a campaign there were in a bucket of time, by code."""


Check = Callable[[Sequence[tuple[bytes, bytes]]], Mapping[tuple[bytes, bytes], str]]
"""Of some reports of a round (id and padded payload) those that no honest device can have sent, and why."""

# Made once: to build a statement takes longer than to run it.
_STATE = select(round.c.state).where(round.c.id == bindparam("number")).with_for_update(read=True)
_NEW_BATCH = insert(batch).returning(batch.c.id)


@dataclass(frozen=True)
class UploadResult:
    """What became of an upload."""

    accepted: int
    duplicates: int
    refused: tuple[tuple[bytes, str], ...] = ()


@dataclass(frozen=True, eq=False)
class Upload:
    """Checked reports of one request on their way to the disk."""

    campaign_id: int
    round_id: int
    bucket: int
    reports: Sequence[tuple[bytes, bytes]]  # id and padded payload
    reserved: int = 0  # places in the queue
    refused: tuple[tuple[bytes, str], ...] = ()  # those that were found malformed before
    repeated: int = 0  # times that one of them was in the request again
    token_hash: bytes | None = None  # of the enrolment, where the campaign asks for one
    check: Check | None = None  # of a single report that is still to be checked
    done: Future[UploadResult] = field(default_factory=Future)

    @property
    def work(self) -> int:
        """Bytes to be written, roughly; the payloads of a round have one size."""
        return ROW_BYTES + len(self.reports) * (ROW_BYTES + len(self.reports[0][1])) if self.reports else ROW_BYTES


def store(database: Database, connection: Connection, group: Sequence[Upload]) -> list[UploadResult | KeyveilError]:
    """Put the new reports of all uploads into the database; one outcome for each upload."""
    refusals = _closed(database, connection, group)
    claims = _claims(connection, [upload for upload in group if upload not in refusals])
    enrolled = _enrolled(connection, group)
    refusals |= _not_enrolled(group, enrolled)
    taken = [upload for upload in group if upload not in refusals]
    reasons = _insert(database, connection, taken, claims, enrolled)
    counts: Counts = Counter()
    outcomes: list[UploadResult | KeyveilError] = []
    for upload in group:
        outcome = refusals.get(upload) or _answer(upload, reasons)
        outcomes.append(outcome)
        if isinstance(outcome, KeyveilError):
            counts[upload.campaign_id, upload.bucket, outcome.code] += 1
        elif outcome.duplicates or outcome.refused:
            counts[upload.campaign_id, upload.bucket, DUPLICATE] += outcome.duplicates
            counts.update((upload.campaign_id, upload.bucket, code) for _, code in outcome.refused)
    count_refusals(database, connection, counts)
    return outcomes


def check_together(group: Sequence[Upload]) -> list[Upload]:
    """The same uploads, with single reports checked that were not yet: all of a round in one go.

    A check of one report costs as much as that of a hundred.
    """
    waiting: dict[int, list[Upload]] = {}
    for upload in group:
        if upload.check is not None:
            waiting.setdefault(upload.round_id, []).append(upload)
    wrong: dict[Upload, str] = {}
    for uploads in waiting.values():
        check = uploads[0].check
        assert check is not None
        codes = check([report for upload in uploads for report in upload.reports])
        if codes:
            wrong |= {upload: codes[upload.reports[0]] for upload in uploads if upload.reports[0] in codes}
    return [_refused(upload, wrong[upload]) if upload in wrong else upload for upload in group]


def _refused(upload: Upload, code: str) -> Upload:
    """A single report that may not be stored."""
    return replace(upload, reports=(), refused=((upload.reports[0][0], code),))


def count_refusals(database: Database, connection: Connection, counts: Counts) -> None:
    names = ("campaign_id", "bucket", "code")
    rows = [dict(zip((*names, "count"), (*place, count), strict=True)) for place, count in counts.items() if count]
    database.add_up(connection, refusal, rows, "count", names)


def _closed(database: Database, connection: Connection, group: Sequence[Upload]) -> dict[Upload, KeyveilError]:
    """Uploads whose round no longer takes reports; the others' rounds stay open until we have committed."""
    numbers = sorted({upload.round_id for upload in group})  # almost always one
    open_rounds = {one for one in numbers if connection.execute(_STATE, {"number": one}).scalar() == "open"}
    refused = CampaignError("round/closed", "This round takes no more reports.")
    return {upload: refused for upload in group if upload.round_id not in open_rounds}


def _claims(connection: Connection, uploads: Sequence[Upload]) -> dict[int, Claims]:
    """Who has reported already, in the rounds of uploads that come under an enrolment."""
    numbers = {upload.round_id for upload in uploads if upload.token_hash is not None}
    return locked_claims(connection, numbers) if numbers else {}


def _enrolled(connection: Connection, group: Sequence[Upload]) -> dict[Upload, Enrolled]:
    """The enrolment under which each upload comes, if the campaign knows it."""
    asking = [upload for upload in group if upload.token_hash is not None]
    if not asking:
        return {}
    known = connection.execute(
        select(enrolment).where(enrolment.c.token_hash.in_([upload.token_hash for upload in asking]))
    )
    found = {(row.campaign_id, bytes(row.token_hash)): Enrolled(row.number, bool(row.revoked)) for row in known}
    places = {upload: (upload.campaign_id, upload.token_hash) for upload in asking}
    return {upload: found[place] for upload, place in places.items() if place in found}


def _not_enrolled(group: Sequence[Upload], enrolled: dict[Upload, Enrolled]) -> dict[Upload, KeyveilError]:
    """Uploads with a token that the campaign does not know, or that was revoked."""
    unknown = AccessError("enrolment/unknown", "This enrolment token is not one of the campaign.")
    revoked = AccessError("enrolment/revoked", "This enrolment token was revoked.")
    refused: dict[Upload, KeyveilError] = {}
    for upload in group:
        if upload.token_hash is not None and (upload not in enrolled or enrolled[upload].revoked):
            refused[upload] = revoked if upload in enrolled else unknown
    return refused


Reasons = dict[tuple[Upload, bytes], str]
"""For every report that was not accepted: why."""


def _insert(
    database: Database,
    connection: Connection,
    uploads: Sequence[Upload],
    claims: dict[int, Claims],
    enrolled: dict[Upload, Enrolled],
) -> Reasons:
    """Insert what is new; the rest gets its reason."""
    reasons: Reasons = {}
    by_round: dict[int, list[Upload]] = {}
    for upload in uploads:
        by_round.setdefault(upload.round_id, []).append(upload)
    for round_id in sorted(by_round):
        asking, taken = by_round[round_id], claims.get(round_id, Claims())
        second = _second(asking, taken, enrolled)
        rejected = _insert_round(database, connection, round_id, asking, second)
        for upload, _ in rejected:  # nothing of it was taken, so its sender may still report
            if upload in enrolled and upload not in second:
                taken.discard(enrolled[upload].number)
        if taken.changed:
            save_claims(connection, round_id, taken)
        reasons.update(rejected)
    return reasons


def _insert_round(
    database: Database, connection: Connection, round_id: int, uploads: Sequence[Upload], second: Sequence[Upload]
) -> Reasons:
    reasons: Reasons = {}
    taken = [upload for upload in uploads if upload not in second] if second else uploads
    fresh = dict(chain.from_iterable(upload.reports for upload in taken))
    first, repeats, there = {}, [], {}  # type: First, Repeats, dict[bytes, bytes | None]
    if len(fresh) < sum(len(upload.reports) for upload in taken):
        first, repeats = _first(taken)
        fresh = {number: payload for number, (_, payload) in first.items()}
    if fresh:
        about = {"round_id": round_id, "shard": database.shard, "bucket": uploads[0].bucket, "state": UNFOLDED}
        group: int = connection.execute(_NEW_BATCH, {**about, "reports": len(fresh)}).scalar_one()
        ids = sorted(fresh)
        inserted = database.insert_reports(connection, round_id, group, ids, [fresh[number] for number in ids])
        if inserted < len(ids):
            found = stored_reports(connection, round_id, list(fresh))
            there = {number: payload for number, payload, owner in found if owner != group}
            here = batch.c.id == group
            counted = update(batch).where(here).values(reports=inserted)
            connection.execute(counted if inserted else delete(batch).where(here))
            first, repeats = _first(taken)
    repeats += [(upload, number, payload) for number, (upload, payload) in first.items() if number in there]
    for upload, number, payload in repeats:
        kept = there[number] if number in there else fresh[number]
        reasons[upload, number] = DUPLICATE if kept in (None, payload) else CONFLICT
    for upload in second:
        reasons.update(_again(connection, round_id, upload))
    return reasons


First = dict[bytes, tuple[Upload, bytes]]
"""By id: the upload of a group in which it came first, and its payload there."""

Repeats = list[tuple[Upload, bytes, bytes]]
"""Upload, id and payload of reports whose id another upload of the group holds already."""


def _first(uploads: Sequence[Upload]) -> tuple[First, Repeats]:
    first: First = {}
    repeats: Repeats = []
    for upload in uploads:
        for number, payload in upload.reports:
            if number not in first:
                first[number] = upload, payload
            else:
                repeats.append((upload, number, payload))
    return first, repeats


def _second(uploads: Sequence[Upload], claims: Claims, enrolled: dict[Upload, Enrolled]) -> list[Upload]:
    """Uploads of people who have reported in this round already; the others have from now on."""
    second = []
    for upload in uploads:
        if upload in enrolled and upload.reports:
            number = enrolled[upload].number
            if number in claims:
                second.append(upload)
            else:
                claims.add(number)
    return second


def _again(connection: Connection, round_id: int, upload: Upload) -> Reasons:
    """A person who has reported may send the same report again, and no other."""
    stored = {
        number: payload for number, payload, _ in stored_reports(connection, round_id, [n for n, _ in upload.reports])
    }

    def reason(number: bytes, payload: bytes) -> str:
        if number not in stored:
            return "enrolment/used"
        return DUPLICATE if stored[number] in (None, payload) else CONFLICT

    return {(upload, number): reason(number, payload) for number, payload in upload.reports}


def stored_reports(
    connection: Connection, round_id: int, ids: Sequence[bytes]
) -> list[tuple[bytes, bytes | None, int]]:
    """Those of some reports that are in the database: id, payload (None after the scrub) and group."""
    found = []
    for start in range(0, len(ids), _ASKED_AT_ONCE):
        rows = connection.execute(
            select(report.c.id, report.c.payload, report.c.batch_id).where(
                report.c.round_id == round_id, report.c.id.in_(ids[start : start + _ASKED_AT_ONCE])
            )
        )
        found += [
            (bytes(number), None if payload is None else bytes(payload), owner) for number, payload, owner in rows
        ]
    return found


def _answer(upload: Upload, reasons: Reasons) -> UploadResult:
    if not reasons:  # as for most groups
        return UploadResult(len(upload.reports), upload.repeated, upload.refused)
    left_out = [(number, reasons[upload, number]) for number, _ in upload.reports if (upload, number) in reasons]
    refused = tuple((number, code) for number, code in left_out if code != DUPLICATE)
    duplicates = len(left_out) - len(refused) + upload.repeated
    return UploadResult(len(upload.reports) - len(left_out), duplicates, upload.refused + refused)
