"""The page of the papers' claims: whether it is that of the rules in the code, and its score in README.

keyveil reproduce --full --seed 1 --data FOLDER --page docs/reproduction.md     # writes page and pictures
python -m tools.reproduction                                                    # then README, or what is wrong
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

from keyveil.lab.experiments.catalogue import IDS, experiment

ROOT = Path(__file__).parents[1]
PAGE, README, PICTURES = ROOT / "docs/reproduction.md", ROOT / "README.md", ROOT / "docs/pictures/reproduction"
BEGIN, END = "<!-- the score, by tools/reproduction.py -->", "<!-- until here -->"
_WIDTH = 120
_CLAIM = re.compile(r"- (?:✓|\(✓\)|✗) \*\*([a-z ]+)\*\*: (.*?) \*(?:published|exact|tight):")


def score(page: str) -> dict[str, int]:
    """How many claims have each verdict, as the table of the page has it."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("|")]
    heads, total = rows[0], next(row for row in rows if row[0] == "all")
    return dict(zip(heads[1:], map(int, total[1:]), strict=True))


def size(page: str) -> str:
    """Whether the page was made by a quick or by a full run."""
    found = re.search(r"--(quick|full)\b", page)
    assert found is not None
    return found[1]


def claims(page: str) -> dict[str, list[tuple[str, str]]]:
    """Verdict and sentence of every claim, by the id of its figure."""
    parts = re.split(r"^##+ ", page, flags=re.MULTILINE)
    figures = {found[1]: part for part in parts if (found := re.search(r"^`([a-z]+-(?:fig|table)\d+)`", part, re.M))}
    return {id: _CLAIM.findall(" ".join(part.split())) for id, part in figures.items()}


def unfit(page: str) -> list[str]:
    """What on the page is not as the rules in the code have it."""
    told, problems = claims(page), []
    for id in IDS:
        expected = [" ".join(claim.text.split()) for claim in experiment(id).claims]
        if [sentence for _, sentence in told.get(id, [])] != expected:
            problems.append(f"{id}: other claims than those of the rules")
        if f"(pictures/reproduction/{id}.png)" not in page:
            problems.append(f"{id}: no picture")
    return problems


def written(readme: str, page: str) -> str:
    """README with the score of the page."""
    found = score(page)
    verdicts = ", ".join(f"{number} {word}" for word, number in found.items())
    text = (
        f"`keyveil reproduce` runs the 43 tables and figures of five papers again. A rule in code decides on each of "
        f"{sum(found.values())} claims, as published and at equal true ε; at the {size(page)} size: **{verdicts}**. "
        "[Each with its reason](docs/reproduction.md); `--page claims.html` writes all of them with their pictures "
        "into one file, and `--data FOLDER` takes [your copy of the papers' data](docs/papers-data.md)."
    )
    told = "\n".join(textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False))
    before, rest = readme.split(BEGIN)
    return f"{before}{BEGIN}\n\n{told}\n\n{END}{rest.split(END, 1)[1]}"


def main() -> int:
    page = PAGE.read_text(encoding="utf-8")
    if problems := unfit(page):
        print("\n".join(problems), file=sys.stderr)
        return 1
    README.write_text(written(README.read_text(encoding="utf-8"), page), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
