"""The index of all claims with their verdicts, as a page; made from results, never written by hand."""

from __future__ import annotations

import textwrap
from collections.abc import Container, Sequence
from typing import Any

from keyveil.lab.experiments.catalogue import IDS
from keyveil.lab.experiments.verdicts import VERDICTS

_WIDTH = 118
_ABOUT = """Made by `keyveil reproduce{some} --{size} --seed {seed} --page docs/reproduction.md`; do not edit.
{count} of the {all} tables and figures are shown; they took {seconds} CPU seconds. Every verdict comes
from a rule in the code (a module for each of them under `src/keyveil/lab/experiments`), with the
standard error of what it compares: a rule holds if its gap exceeds two standard errors. *Confirmed*
holds as published and at equal true ε, with the paper's split of the budget and with the tight one.
*Confirmed only as published* vanishes at equal true ε. *Not confirmed* does not hold as published; it
says whether the results contradict it or leave it open. Gaps of errors are logarithms of ratios.
[Errata](errata.md) says where papers are wrong in print."""
_DATA = """Where a paper's people are not to be had, synthetic ones stand in, and each figure says so. With
`--data FOLDER` your own copies are used, in the files in which they are given out ([the papers' data](papers-data.md));
`emoji_sentiment` and the others may also be `.parquet` or `.csv` with the columns `user`, `key` and `value`."""
_QUICK = "A quick run has fewer people and runs than the papers: what it leaves open, a full run may settle."
_SIGNS = dict(zip(VERDICTS, ("✓", "(✓)", "✗"), strict=True))


PICTURES = "pictures/reproduction"  # beside the page


def page(documents: Sequence[dict[str, Any]], drawn: Container[str] = ()) -> str:
    """A Markdown page: the score of every paper, then each table and figure with its claims and why.

    ``drawn`` are the ids of those whose pictures lie in ``PICTURES`` beside the page.
    """
    size, seed = documents[0]["size"], documents[0]["seed"]
    seconds = sum(document["seconds"] for document in documents)
    lines = ["# What the papers claim, run again", ""]
    numbers = {"size": size, "seed": seed, "count": len(documents), "all": len(IDS), "seconds": round(seconds)}
    numbers["some"] = "" if len(documents) == len(IDS) else " ID…"
    lines += _wrapped(_ABOUT.format(**numbers))
    lines += ["", *_wrapped(_DATA)]
    if size == "quick":
        lines += ["", *_wrapped(_QUICK)]
    lines += ["", *_score(documents), ""]
    for paper in dict.fromkeys(document["paper"] for document in documents):
        lines += [f"## {paper}", ""]
        for document in documents:
            if document["paper"] == paper:
                lines += _figure(document, document["id"] in drawn)
    return "\n".join(lines).rstrip() + "\n"


def _score(documents: Sequence[dict[str, Any]]) -> list[str]:
    lines = [f"| paper | {' | '.join(VERDICTS)} |", f"|---|{'--:|' * len(VERDICTS)}"]
    for paper in (*dict.fromkeys(document["paper"] for document in documents), "all"):
        some = [one for one in documents if paper in (one["paper"], "all")]
        words = [one["verdict"] for document in some for one in document["verdicts"]]
        lines.append(f"| {paper} | {' | '.join(str(words.count(word)) for word in VERDICTS)} |")
    return lines


def _figure(document: dict[str, Any], drawn: bool) -> list[str]:
    people = "; ".join(
        f"{title}: {one['n']:,} people, {one['keys']:,} keys" for title, one in document["people"].items()
    )
    lines = [f"### {document['name']}: {document['title']}", ""]
    about = [f"`{document['id']}`, {_runs(document['runs'])}.", f"{people}." if people else "", *document["notes"]]
    lines += _wrapped(" ".join(part for part in about if part))
    lines.append("")
    if drawn:
        lines += [f"![{document['name']}]({PICTURES}/{document['id']}.png)", ""]
    for one in document["verdicts"]:
        text = f"- {_SIGNS[one['verdict']]} **{one['verdict']}**: {one['claim']} *{one['why']}.*"
        lines += _wrapped(text, "  ")
    if document["refused"]:
        title, sentence = next(iter(document["refused"].items()))
        lines += _wrapped(f"- Refused in {len(document['refused'])} cells, such as {title}: {sentence}", "  ")
    return [*lines, ""]


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text.strip(), _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
