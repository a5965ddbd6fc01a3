"""The same as a page, by command line and by Python: so that what was looked at can be done again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from keyveil.campaign.documents import Campaign
from keyveil.dashboard.visits import Visit
from keyveil.display.markup import Html, tag

CSV = "text/csv"


def code(
    visit: Visit,
    words: Sequence[str],
    lines: Sequence[str],
    imports: Sequence[str] = (),
    first: Sequence[str] = (),
    token: str = "analyst.token",
) -> Html:
    """Command and program side by side; the ``token`` is read from a file of this name by both.

    ``lines`` ask the collector with ``ask`` and hold what the page shows as ``answer``; ``imports`` are of Keyveil.
    ``first`` is a command before it that asks no collector.
    """
    commands = [["keyveil", *first]] if first else []
    commands.append(["keyveil", *words, "--server", visit.origin, "--token-file", token])
    needed = "with Keyveil installed" if imports else "with nothing installed"
    return tag(
        "details",
        tag("summary", "The same as code"),
        tag("p", "On the command line:"),
        tag("pre", tag("code", "\n".join(map(shlex.join, commands)))),
        tag("p", f"In Python, {needed}:"),
        tag("pre", tag("code", program(visit.origin, lines, imports, token))),
    )


def asked(path: str, question: Any = None, takes: str = "") -> str:
    """The call that asks for a path, or puts a question to it."""
    more = [] if question is None else [repr(question)]
    more += [f"takes={takes!r}"] if takes else []
    return f"ask({', '.join([repr(path), *more])})"


def fetched(campaign: Campaign) -> str:
    """The campaign as Keyveil reads it; a long list of keys lies beside its document."""
    path = f"/v1/campaigns/{campaign.hash}"
    beside = "" if campaign.dictionary is None else ', lambda digits: ask("/v1/dictionaries/" + digits, takes="*/*")'
    return f'Campaign.from_document({asked(path)}["campaign"]{beside})'


def program(server: str, lines: Sequence[str], imports: Sequence[str] = (), file: str = "analyst.token") -> str:
    """A program that asks the collector; it holds as ``answer`` what the last of the lines has found."""
    needed = "".join(f"{one}\n" for one in imports)
    return f"""import json
from pathlib import Path
from urllib.request import Request, urlopen
{needed and chr(10) + needed}
server, token = {json.dumps(server)}, Path("{file}").read_text().strip()


def ask(path, question=None, takes="application/json"):
    headers = {{"Authorization": f"Bearer {{token}}", "Content-Type": "application/json", "Accept": takes}}
    body = None if question is None else json.dumps(question).encode()
    with urlopen(Request(server + path, body, headers)) as reply:
        return json.load(reply) if takes == "application/json" else reply.read()


{chr(10).join(lines)}
print(answer)
"""
