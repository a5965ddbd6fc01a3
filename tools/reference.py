"""Pages of the reference, made from the program itself: commands from the parser, HTTP from OpenAPI, codes of errors.

    python -m tools.reference docs/reference

Sphinx does the same before it reads pages (docs/generated.py), so that they cannot be older than the code.
"""

from __future__ import annotations

import ast
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src" / "keyveil"


def write(folder: Path) -> list[Path]:
    """Write every page; those that would be the same stay as they are, so that nothing is built again for nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {"command-line.md": command_line(), "http.md": http(), "problems.md": problems()}
    for name, text in pages.items():
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    return [folder / name for name in pages]


# -- commands -------------------------------------------------------------------------------------------------------


def command_line() -> str:
    """Every command with its arguments and options."""
    import typer.main

    from keyveil.cli.app import app

    root: Any = typer.main.get_command(app)
    lines = [
        "# Command line",
        "",
        "Every command, from the parser itself; `keyveil COMMAND --help` says the same. Bad input ends with one line",
        "and status 2. `--json` prints one object on standard output and nothing else there.",
        "",
        "`keyveil --install-completion` lets bash, zsh, fish and PowerShell complete commands, options and mechanisms.",
        "",
    ]
    for name in root.list_commands(None):
        lines += _command(f"keyveil {name}", root.get_command(None, name), 2)
    return "\n".join(lines)


def _command(name: str, command: Any, level: int) -> Iterator[str]:
    yield from (f"{'#' * level} `{name}`", "", " ".join((command.help or "").split()), "")
    if hasattr(command, "list_commands"):
        for one in command.list_commands(None):
            yield from _command(f"{name} {one}", command.get_command(None, one), level + 1)
        return
    with command.make_context(name, [], resilient_parsing=True) as context:
        rows = [one.get_help_record(context) for one in command.params if one.name != "help"]
    told = [(left, " ".join(right.split())) for left, right in (row for row in rows if row)]
    if told:
        yield from ("| | |", "|---|---|", *(f"| {_cell(f'`{left}`')} | {_cell(right)} |" for left, right in told), "")


# -- HTTP -----------------------------------------------------------------------------------------------------------


def described() -> dict[str, Any]:
    """The description of a collector's API (OpenAPI)."""
    from keyveil.collector.app import make_app
    from keyveil.collector.service import Service
    from keyveil.collector.settings import Settings

    with tempfile.TemporaryDirectory() as folder:
        service = Service(f"sqlite:///{folder}/keyveil.db")
        try:
            return make_app(service, Settings(tick_seconds=0)).openapi()
        finally:
            service.close()


def http() -> str:
    """Every address of a collector."""
    from keyveil.display.http_api import operations

    lines = [
        "# HTTP",
        "",
        "What a collector answers, from its own description (`/openapi.json`). A running collector shows the same at",
        "`/api`. Tokens go into `Authorization: Bearer …`. Every refusal is a [problem document](problems.md).",
        "",
    ]
    for one in operations(described()):
        lines += [f"## `{one.method} {one.path}`", "", f"{one.told} {one.who}", ""]
        if one.parameters:
            lines += ["| parameter | in | kind | |", "|---|---|---|---|"]
            for part in one.parameters:
                cells = (f"`{part.name}`", part.where, part.kind, part.told)
                lines.append(f"| {' | '.join(map(_cell, cells))} |")
            lines.append("")
        body = [f"Body: {', '.join(f'`{kind}`' for kind in one.takes)}."] if one.takes else []
        gives = ", ".join(f"`{kind}`" for kind in one.gives) or "no content"
        lines += [" ".join([*body, f"Answer: {one.status}, {gives}."]), ""]
    return "\n".join(lines)


# -- codes ----------------------------------------------------------------------------------------------------------


def problems() -> str:
    """Every code of an error: what its family means, and the sentences that come with it."""
    from keyveil.collector.explanations import CODES, FAMILIES
    from keyveil.collector.problems import status_of

    found = codes()
    lines = [
        "# Problems and their codes",
        "",
        "Every error is one sentence with a code that stays. The command line prints it in brackets, Python has it as",
        "`error.code`, and over HTTP it is in a problem document (RFC 9457), whose `type` leads to the page",
        "`/problems/CODE` of the collector. Dots stand for what differs from case to case.",
        "",
    ]
    for family in sorted({*(code.partition("/")[0] for code in found), *FAMILIES}):
        about = FAMILIES.get(family)
        lines += [f"## {family}", ""]
        if about is not None:
            lines += [f"{about.meaning} {about.advice}", ""]
        own = sorted({code for code in (*found, *CODES) if code.partition("/")[0] == family})
        if own:
            lines += ["| code | HTTP | what it says |", "|---|---|---|"]
        for code in own:
            meaning = f"{CODES[code].meaning} {CODES[code].advice}" if code in CODES else ""
            said = meaning or " / ".join(sorted(found.get(code, ()))[:2])
            lines.append(f"| `{code}` | {status_of(code)} | {_cell(said)} |")
        lines.append("")
    return "\n".join(lines)


@cache
def codes(source: Path = SOURCE) -> dict[str, set[str]]:
    """All codes that the program raises, with their sentences: found in its own text, so that none is forgotten."""
    found: dict[str, set[str]] = {}
    for path in sorted(source.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        short = _shorthands(tree)
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            name = _name(call.func)
            if name.endswith(("Error", "MissingExtra", "Refusal")) or name in short:
                code = _text(call.args[0]) if call.args else ""
                code = short[name].replace("…", code) if name in short and code else code
                if "/" in code and "…" not in code and " " not in code:
                    found.setdefault(code, set()).add(_text(call.args[1]) if len(call.args) > 1 else "")
    return found


def _shorthands(tree: ast.AST) -> dict[str, str]:
    """Functions of a module that add a family to a code: their names, and the code with … for what they are given."""
    found = {}
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            if _name(call.func).endswith("Error") and call.args and isinstance(call.args[0], ast.JoinedStr):
                code = _text(call.args[0])
                if code.endswith("/…") and " " not in code:
                    found[function.name] = code
    return found


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Name):
        return function.id
    return function.attr if isinstance(function, ast.Attribute) else ""


def _text(node: ast.expr) -> str:
    """A text in the program; … for what is filled in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) if isinstance(part, ast.Constant) else "…" for part in node.values)
    return "…"


def _cell(text: str) -> str:
    """Text in a Markdown table: what would be markup outside of code is taken for letters."""
    text = text.replace("|", "\\|").replace("\n", " ")
    parts = text.split("`")
    for at in range(0, len(parts), 2):
        for mark in "<>*_[]$":
            parts[at] = parts[at].replace(mark, f"\\{mark}")
    return "`".join(parts)


def main(arguments: Sequence[str]) -> int:
    """Write the pages into the folder that is named."""
    for path in write(Path(arguments[0] if arguments else "docs/reference")):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
