"""Whether devices would answer a campaign, before anybody opens it: the code with which they read it decides."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from keyveil.campaign.documents import Campaign, Fetch, refuse_unanswerable
from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.transport import NO_HEADERS, HttpAnswer
from keyveil.campaign.verification import DeviceLimits, read_notice
from keyveil.core.errors import CampaignError, KeyveilError


def refuse_refused(campaign: Campaign, fetch: Fetch) -> None:
    """Refuse a campaign of which devices with the usual limits refuse a round; ``fetch`` gives its list of keys."""
    refuse_unanswerable(campaign.protocol_name, campaign.protocol)
    for one in campaign.protocol.longest():
        served = _Served(campaign, RoundDocument.of(campaign, one))
        try:
            read_notice(served, campaign.name, DeviceLimits(), fetch)
        except KeyveilError as refused:
            reason = refused.sentence.replace("this device", "a device")
            raise CampaignError(
                "campaign/unanswerable", f"Devices would refuse round {one.number} of {campaign.name}: {reason}"
            ) from refused


@dataclass(frozen=True)
class _Served:
    """A collector in which one round of the campaign is open."""

    campaign: Campaign
    open_round: RoundDocument

    def request(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] = NO_HEADERS) -> HttpAnswer:
        shown, campaign = self.open_round, self.campaign
        current = {"number": shown.number, "state": "open", "hash": shown.hash, "document": shown.document()}
        view = {"campaign": campaign.document(), "hash": campaign.hash, "state": "open", "round": current}
        return HttpAnswer(200, body=json.dumps(view).encode())
