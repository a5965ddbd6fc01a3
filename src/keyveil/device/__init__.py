"""What a person runs: it answers campaigns, spends no more ε than its owner allows, and keeps a ledger of it."""

from __future__ import annotations

from keyveil.campaign.transport import HttpAnswer, Transport
from keyveil.campaign.verification import DeviceLimits
from keyveil.device.device import Device
from keyveil.device.explain import Explanation
from keyveil.device.ledger import Caps, LedgerEntry
from keyveil.device.outcome import Outcome
from keyveil.device.preview import Ignored, Preview
from keyveil.device.transport import HttpTransport
from keyveil.device.upload import Patience

__all__ = [
    "Caps",
    "Device",
    "DeviceLimits",
    "Explanation",
    "HttpAnswer",
    "HttpTransport",
    "Ignored",
    "LedgerEntry",
    "Outcome",
    "Patience",
    "Preview",
    "Transport",
]
