"""``python -m tools.audit [LOCK]``: known vulnerabilities of the locked versions, from the OSV database.

Ends with status 1 if there are any, and with status 3 and a clear word if the database cannot be reached: an audit
that did not take place must not look like one that found nothing. Only names and versions of packages are sent.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

SOURCE = "https://api.osv.dev/v1/querybatch"
FOUND, NOT_DONE = 1, 3
_AT_ONCE = 500


def pinned(lock: str) -> dict[str, str]:
    """Names and versions of a lock."""
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", lock, re.M))


def advisories(packages: dict[str, str], source: str = SOURCE) -> dict[str, list[str]]:
    """The advisories for each package that has some."""
    found: dict[str, list[str]] = {}
    names = sorted(packages)
    for start in range(0, len(names), _AT_ONCE):
        some = names[start : start + _AT_ONCE]
        asked = [{"package": {"name": name, "ecosystem": "PyPI"}, "version": packages[name]} for name in some]
        request = Request(source, json.dumps({"queries": asked}).encode(), {"Content-Type": "application/json"})
        with urlopen(request, timeout=30) as answer:
            results: list[dict[str, Any]] = json.load(answer)["results"]
        for name, result in zip(some, results, strict=True):
            if result.get("vulns"):
                found[name] = sorted(one["id"] for one in result["vulns"])
    return found


def main(arguments: list[str]) -> int:
    packages = pinned(Path(arguments[0] if arguments else "requirements.lock").read_text(encoding="utf-8"))
    source = os.environ.get("OSV_SOURCE", SOURCE)
    try:
        found = advisories(packages, source)
    except (URLError, OSError, ValueError, KeyError) as reason:
        why = getattr(reason, "reason", reason)
        print(f"NOT AUDITED: the advisories at {source} cannot be had ({why}). This says nothing about the packages.")
        return NOT_DONE
    for name, ids in found.items():
        print(f"{name} {packages[name]}: {', '.join(ids)}")
    print(f"{len(packages)} locked packages were looked up; {len(found) or 'none'} with known vulnerabilities.")
    return FOUND if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
