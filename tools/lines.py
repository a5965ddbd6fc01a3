"""Lines of every room of ``src/keyveil`` at several commits: what stayed, was moved from another room, or is new.

A line of the later commit stayed if its text stood in the same room before, and was moved if it stood in another room
(each line of the earlier commit counts once); otherwise it is new. Blank lines and spaces around a line do not count,
so indenting code again makes nothing new. The tables go into ``docs/lines.md``.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = "src/keyveil"
COLUMNS = ("room", "before", "after", "stayed", "moved here", "new")

Rooms = dict[str, Counter[str]]
Row = tuple[str, int, int, int, int, int]


def main() -> int:
    """Write the page for two or more commits."""
    parser = argparse.ArgumentParser(prog="python -m tools.lines", description=__doc__.split("\n")[0])
    parser.add_argument("before", help="the earlier commit")
    parser.add_argument("after", nargs="+", help="later commits, each compared with the earlier one")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "lines.md")
    given = parser.parse_args()
    tables = {after: compared(rooms_at(given.before), rooms_at(after)) for after in given.after}
    given.page.write_text(page(given.before, tables), encoding="utf-8")
    print(f"Written: {given.page}")
    return 0


def page(before: str, tables: dict[str, list[Row]]) -> str:
    """The tables, each for one later commit, as a page."""
    written = [
        "# Lines of every room",
        "",
        f"Written by `python -m tools.lines {before} {' '.join(tables)}`.",
        "",
        f"Lines of `{SOURCE}` that are not blank. A line stayed if the room had it before, was moved if another room",
        "had it, and otherwise is new; each line of the earlier commit counts once.",
    ]
    for after, rows in tables.items():
        written += ["", f"## From {before} to {after}", "", f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
        written += [f"| {' | '.join(map(str, row))} |" for row in (*rows, total(rows))]
    return "\n".join([*written, ""])


def compared(old: Rooms, new: Rooms) -> list[Row]:
    """For every room, in the order of names, the numbers of ``COLUMNS``."""
    stayed = {room: lines & old.get(room, Counter()) for room, lines in new.items()}
    left = sum((lines - stayed.get(room, Counter()) for room, lines in old.items()), Counter[str]())
    rows = []
    for room in sorted({*old, *new}):
        lines, kept = new.get(room, Counter[str]()), stayed.get(room, Counter[str]())
        moved = (lines - kept) & left
        left -= moved
        numbers = (old.get(room, Counter[str]()).total(), lines.total(), kept.total(), moved.total())
        rows.append((f"`{room}`", *numbers, lines.total() - kept.total() - moved.total()))
    return rows


def total(rows: Iterable[Row]) -> Row:
    """The sums of all rooms."""
    before, after, stayed, moved, new = (sum(column) for column in list(zip(*rows, strict=True))[1:])
    return "all", before, after, stayed, moved, new


def rooms_at(commit: str) -> Rooms:
    """Every room's lines at a commit, how often each; modules beside the rooms are the room ``keyveil``."""
    packed = subprocess.run(
        ["git", "archive", "--format=tar", commit, SOURCE], cwd=ROOT, check=True, capture_output=True
    ).stdout
    rooms: Rooms = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        for one in files:
            if one.name.endswith(".py") and (file := files.extractfile(one)) is not None:
                parts = Path(one.name).relative_to(SOURCE).parts
                room = parts[0] if len(parts) > 1 else "keyveil"
                lines = (line.strip() for line in file.read().decode().splitlines())
                rooms.setdefault(room, Counter()).update(line for line in lines if line)
    return rooms


if __name__ == "__main__":
    sys.exit(main())
