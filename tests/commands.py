"""Commands that pages show."""

from __future__ import annotations

import re
import shlex


def shown_command(page: str) -> list[str]:
    """The words of the command that a page says it was written by."""
    found = re.search(r"```console\n\$ (.*?)\n```", page, re.DOTALL)
    assert found is not None and max(map(len, found[1].splitlines())) <= 120
    return shlex.split(found[1].replace("\\\n", " "))
