"""What Python says of the client for browsers is what that client can do."""

from __future__ import annotations

import re
from pathlib import Path

from keyveil.campaign.browsers import COMBINING, MECHANISMS, answered_in_browsers
from keyveil.mechanisms.registry import MECHANISMS as REGISTERED
from keyveil.mechanisms.registry import PROTOCOLS

CLIENT = Path(__file__).parents[2] / "clients/javascript/src"


def test_every_name_is_a_program_or_a_stranger_of_the_client() -> None:
    lists = re.search(r"CHOOSY =(.*?);.*?OTHERS =(.*?);", (CLIENT / "client" / "rounds.js").read_text(), re.DOTALL)
    assert lists is not None
    strangers = set(re.findall(r"[a-z0-9][a-z0-9-]+", lists[1] + lists[2]))
    assert {*REGISTERED, *PROTOCOLS} - strangers == {*MECHANISMS, *COMBINING}
    assert answered_in_browsers("split") and not answered_in_browsers("moments")
