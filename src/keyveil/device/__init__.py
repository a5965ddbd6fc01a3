"""What a person runs: it answers campaigns, never says more than its owner allows, and keeps the books."""

from __future__ import annotations

from keyveil.campaign.transport import Answer, Transport
from keyveil.device.device import Device, Outcome
from keyveil.device.explain import Explanation
from keyveil.device.ledger import Caps, Entry
from keyveil.device.notice import Limits
from keyveil.device.transport import HttpTransport
from keyveil.device.upload import Patience

__all__ = [
    "Answer",
    "Caps",
    "Device",
    "Entry",
    "Explanation",
    "HttpTransport",
    "Limits",
    "Outcome",
    "Patience",
    "Transport",
]
