"""The files of the JavaScript client with their hashes and sizes: ``docs/client-files.md``.

    python -m tools.client_files

A page that has a copy of the client can be held against the hashes: they are those of ``integrity`` attributes, too.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import re
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CLIENT = ROOT / "clients" / "javascript"
PAGE = ROOT / "docs" / "client-files.md"
ENTRIES = ("index.js", "small.js", "node.js")


def shipped() -> list[str]:
    """The paths of all files of the package, as ``files`` in package.json names them."""
    named = [CLIENT / name for name in json.loads((CLIENT / "package.json").read_text())["files"]]
    files = [
        file for path in named for file in (sorted(path.rglob("*")) if path.is_dir() else [path]) if file.is_file()
    ]
    return sorted(file.relative_to(CLIENT).as_posix() for file in [*files, CLIENT / "package.json"])


def needed(entry: str) -> list[str]:
    """The modules that an entry point loads, each after those that it imports."""
    found: list[str] = []

    def visit(path: Path) -> None:
        name = path.relative_to(CLIENT).as_posix()
        if name in found:
            return
        for other in re.findall(r'from "(\.[^"]*)"', path.read_text()):
            visit((path.parent / other).resolve())
        if name not in found:
            found.append(name)

    visit((CLIENT / entry).resolve())
    return found


def modules() -> list[str]:
    """All modules of the package: what is called "all of it"."""
    return [name for name in shipped() if name.endswith(".js")]


def gzipped(names: list[str], comments: bool = True) -> int:
    """Bytes of these modules one after the other, gzipped; without comments if wanted."""
    text = "".join((CLIENT / name).read_text() for name in names)
    return len(gzip.compress((text if comments else bare(text)).encode(), 9, mtime=0))


def one_by_one(names: list[str], comments: bool = True) -> int:
    """Bytes of these modules if each is gzipped by itself, as a server sends them to a page that bundles nothing."""
    return sum(gzipped([name], comments) for name in names)


def package() -> int:
    """Bytes of the npm package: a gzipped archive of all files, with types, README and licence."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name in shipped():
            content = (CLIENT / name).read_bytes()
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return len(gzip.compress(archive.getvalue(), 9, mtime=0))


def bare(text: str) -> str:
    """JavaScript without its comments: those of whole lines, and `` // `` after code."""
    text = re.sub(r"^ */\*\*.*?\*/\n", "", text, flags=re.S | re.M)
    return re.sub(r"^ *//.*\n| +// .*$", "", text, flags=re.M)


def page() -> str:
    """The page in Markdown."""
    measured = {"all modules": modules(), **{f"`{entry}` and what it imports": needed(entry) for entry in ENTRIES}}
    rows = [
        f"| {what} | {gzipped(names):,} | {gzipped(names, comments=False):,} "
        f"| {one_by_one(names):,} | {one_by_one(names, comments=False):,} |"
        for what, names in measured.items()
    ]
    files = [f"| `{name}` | {(CLIENT / name).stat().st_size:,} | `{_integrity(name)}` |" for name in shipped()]
    lines = [
        "# The files of the JavaScript client",
        "",
        "What the npm package has. Whoever copies the client to a page of their own can hold the copy against these",
        "hashes (SHA-256, as in an `integrity` attribute). `python -m tools.client_files` writes this page, and a test",
        "fails where it does not fit the files.",
        "",
        "Sizes are gzipped bytes. *Together*: the modules one after the other in one stream, as a bundle or an archive",
        "has them; this is what goals are held against. *Single*: each module by itself, as a server sends them to a",
        "page that bundles nothing. The npm package with types, README and licence has",
        f"{package():,} bytes.",
        "",
        "| modules | together | without comments | single | without comments |",
        "|---|---|---|---|---|",
        *rows,
        "",
        "| file | bytes | hash |",
        "|---|---|---|",
        *files,
    ]
    return "\n".join(lines) + "\n"


def _integrity(name: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256((CLIENT / name).read_bytes()).digest()).decode()


def main() -> int:
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"Written: {PAGE.relative_to(ROOT)}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
