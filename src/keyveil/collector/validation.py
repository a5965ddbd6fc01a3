"""What a batch must be before it queues for the disk. Nothing that comes in is trusted.

A report must be one that an honest device could have sent: its form, its symbol, and the part of the people that its
id stands for. Where a campaign asks for enrolment, a device sends one report at a time under its own token. Reports
that are here already are not read again, where reading costs more than asking for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from keyveil.campaign.documents import Campaign
from keyveil.campaign.reading import flaws_of
from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.wire import Batch
from keyveil.collector.repository import StoredCampaign, StoredRound
from keyveil.collector.storing import CONFLICT, Upload
from keyveil.collector.tokens import hashed
from keyveil.core.codecs.payloads import FINE, Payloads, refusal
from keyveil.core.errors import AccessError
from keyveil.core.report import PUBLIC_BYTES
from keyveil.mechanisms.parting import EVERYONE, parting_words

DEAR = 4096  # bytes of a report from which on it costs more to read it than to ask whether it is here already

Known = Callable[[Sequence[bytes]], Mapping[bytes, bytes | None]]
"""Of some ids those that are stored, with their padded payloads (``None`` after the scrub)."""

_NEW = b""  # in the place of a payload that was not there before


def checked(
    stored: StoredCampaign, stored_round: StoredRound, batch: Batch, token: str | None, bucket: int, known: Known
) -> Upload:
    """The reports of a batch that may be stored, and why the others may not.

    A single short report is checked later, together with others that wait for the same commit.
    """
    token_hash = _enrolled(stored.campaign, batch, token)
    check = partial(_wrong, stored.campaign, stored_round.document)
    about: dict[str, Any] = {
        "campaign_id": stored.id,
        "round_id": stored_round.id,
        "bucket": bucket,
        "token_hash": token_hash,
    }
    if len(batch) == 1 and stored_round.document.report_bytes < DEAR:
        return Upload(**about, reports=tuple(batch), reserved=1, check=check)
    here = known(batch.ids) if token_hash is None and stored_round.document.report_bytes >= DEAR else {}
    everything = tuple(batch)
    distinct = not here and len(set(batch.ids)) == len(everything)  # as almost always
    new = everything if distinct else [one for one in dict.fromkeys(everything) if one[0] not in here]
    wrong = check(new)
    if distinct and not wrong:
        return Upload(**about, reports=everything, reserved=len(everything))
    reports: dict[bytes, bytes] = {}
    refused, repeated = [], 0
    for number, payload in everything:
        before = here[number] if number in here else reports.get(number, _NEW)
        if before is _NEW:
            code = wrong.get((number, payload))
            if code is None:
                reports[number] = payload
        else:
            code = None if before in (None, payload) else CONFLICT
            repeated += code is None
        if code is not None:
            refused.append((number, code))
    return Upload(
        **about,
        reports=tuple(reports.items()),
        reserved=len(batch),
        refused=tuple(refused),
        repeated=repeated,
    )


def _wrong(
    campaign: Campaign, document: RoundDocument, reports: Sequence[tuple[bytes, bytes]]
) -> dict[tuple[bytes, bytes], str]:
    """The reports (id and padded payload) that no honest device can have sent, and the code of the reason."""
    if not reports:
        return {}
    publics = np.frombuffer(b"".join([number for number, _ in reports]), np.uint8).reshape(-1, PUBLIC_BYTES)
    flaws = flaws_of(document, publics, Payloads.of([payload for _, payload in reports]))
    strange = np.zeros(len(reports), dtype=bool)
    if document.part != EVERYONE:
        strange = ~document.part.members(parting_words(publics, bytes.fromhex(campaign.hash)))
    return {
        reports[at]: refusal(int(flaws[at])).code if flaws[at] != FINE else "report/part"
        for at in np.flatnonzero((flaws != FINE) | strange).tolist()
    }


def _enrolled(campaign: Campaign, batch: Batch, token: str | None) -> bytes | None:
    """The hash of the token under which a batch is sent, where the campaign asks for one."""
    if campaign.enrolment == "none":
        return None
    if token is None:
        raise AccessError("enrolment/needed", f"The campaign {campaign.name} takes reports of enrolled devices only.")
    if len(batch) != 1:
        raise AccessError("enrolment/one", "An enrolled device sends one report at a time.")
    return hashed(token)
