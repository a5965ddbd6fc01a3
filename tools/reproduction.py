"""The score of the reproduction in README, from the page of all claims.

python -m tools.reproduction      # after keyveil reproduce --page docs/reproduction.md
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE, README = ROOT / "docs/reproduction.md", ROOT / "README.md"
BEGIN, END = "<!-- the score, by tools/reproduction.py -->", "<!-- until here -->"
_WIDTH = 120


def score(page: str) -> dict[str, int]:
    """How many claims there are, and how many of them have each verdict, as the table of the page has it."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("|")]
    heads, total = rows[0], next(row for row in rows if row[0] == "all")
    return dict(zip(heads[1:], map(int, total[1:]), strict=True))


def size(page: str) -> str:
    """Whether the page was made by a quick or by a full run."""
    found = re.search(r"--(quick|full)\b", page)
    assert found is not None
    return found[1]


def written(readme: str, page: str) -> str:
    """README with the score of the page."""
    claims, confirmed, published, contradicted, left = score(page).values()
    text = (
        f"`keyveil reproduce` runs the 43 tables and figures of five papers again. A rule in code decides on each of "
        f"{claims} claims, as published and at equal true ε: at the {size(page)} size **{confirmed} are confirmed, "
        f"{published} only as published, {contradicted} are contradicted and {left} left open**. [Each with its "
        f"reason](docs/reproduction.md); `--page claims.html` writes all of them with their pictures into one file, "
        f"and `--data FOLDER` takes [your copy of the papers' data](docs/papers-data.md)."
    )
    told = "\n".join(textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False))
    before, rest = readme.split(BEGIN)
    return f"{before}{BEGIN}\n\n{told}\n\n{END}{rest.split(END, 1)[1]}"


def main() -> int:
    README.write_text(written(README.read_text(encoding="utf-8"), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
