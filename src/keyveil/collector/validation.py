"""What a batch must be before it queues for the disk. Nothing that comes in is trusted.

A report must be one that an honest device could have sent: its form, its symbol, and the part of the people that its
id stands for. Where a campaign asks for enrolment, a device sends one report at a time under its own token.
"""

from __future__ import annotations

from keyveil.campaign.documents import Campaign
from keyveil.campaign.wire import Batch, unpad
from keyveil.collector.repository import StoredCampaign, StoredRound
from keyveil.collector.tokens import hashed
from keyveil.collector.writer import CONFLICT, Upload
from keyveil.core.errors import AccessError, ReportError
from keyveil.mechanisms.parting import EVERYONE, parting_word

_MOST_DECODED = 1 << 20  # bytes of payloads of varying length in one request


def checked(stored: StoredCampaign, stored_round: StoredRound, batch: Batch, token: str | None, bucket: int) -> Upload:
    """The reports of a batch that may be stored, and why the others may not."""
    token_hash = _enrolled(stored.campaign, batch, token)
    _refuse_laborious(stored_round, batch)
    reports: dict[bytes, bytes] = {}
    refused, repeated = [], 0
    for number, payload in batch:
        if number in reports:
            repeated += reports[number] == payload
            code = None if reports[number] == payload else CONFLICT
        else:
            code = _refusal(stored.campaign, stored_round, number, payload)
            if code is None:
                reports[number] = payload
        if code is not None:
            refused.append((number, code))
    return Upload(
        campaign_id=stored.id,
        round_id=stored_round.id,
        bucket=bucket,
        reports=tuple(reports.items()),
        reserved=len(batch),
        refused=tuple(refused),
        repeated=repeated,
        token_hash=token_hash,
    )


def _refusal(campaign: Campaign, stored_round: StoredRound, number: bytes, padded: bytes) -> str | None:
    """Why no honest device can have sent a report, or nothing."""
    document = stored_round.document
    mechanism = document.mechanism
    try:
        mechanism.decode(unpad(padded, document.report_bytes, mechanism.codec.varies), number)
    except ReportError as malformed:
        return malformed.code
    if document.part != EVERYONE and not document.part.holds(parting_word(number, bytes.fromhex(campaign.hash))):
        return "report/part"
    return None


def _enrolled(campaign: Campaign, batch: Batch, token: str | None) -> bytes | None:
    """The hash of the token under which a batch is sent, where the campaign asks for one."""
    if campaign.enrolment == "none":
        return None
    if token is None:
        raise AccessError("enrolment/needed", f"The campaign {campaign.name} takes reports of enrolled devices only.")
    if len(batch) != 1:
        raise AccessError("enrolment/one", "An enrolled device sends one report at a time.")
    return hashed(token)


def _refuse_laborious(stored_round: StoredRound, batch: Batch) -> None:
    """Payloads of varying length are read bit by bit: one request must not keep everybody else waiting."""
    most = max(1, _MOST_DECODED // max(1, stored_round.document.report_bytes))
    if stored_round.document.mechanism.codec.varies and len(batch) > most:
        raise ReportError("report/batch", f"Send at most {most} reports of this round at once.")
