"""The same as a page, by command line and by Python: so that what was looked at can be done again."""

from __future__ import annotations

import json
import shlex
from typing import Any

from keyveil.dashboard.visits import Visit
from keyveil.display.markup import Html, tag


def code(visit: Visit, words: list[str], path: str, question: Any = None, takes: str = "application/json") -> Html:
    """Command and program side by side; the token is read from a file by both."""
    command = shlex.join(["keyveil", *words, "--server", visit.origin, "--token-file", "analyst.token"])
    return tag(
        "details",
        tag("summary", "The same as code"),
        tag("p", "On the command line:"),
        tag("pre", tag("code", command)),
        tag("p", "In Python, with nothing installed:"),
        tag("pre", tag("code", program(visit.origin + path, question, takes))),
    )


def program(address: str, question: Any = None, takes: str = "application/json") -> str:
    """A few lines that ask the collector and hold what it answers as ``answer``."""
    sent = "None" if question is None else f"json.dumps({question!r}).encode()"
    read = "json.load(reply)" if takes == "application/json" else "reply.read()"
    return f"""import json
from pathlib import Path
from urllib.request import Request, urlopen

token = Path("analyst.token").read_text().strip()
headers = {{"Authorization": f"Bearer {{token}}", "Content-Type": "application/json", "Accept": "{takes}"}}
with urlopen(Request({json.dumps(address)}, {sent}, headers)) as reply:
    answer = {read}
print(answer)
"""
