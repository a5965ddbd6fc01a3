"""All claims with their verdicts as a page: the score, paper by paper what holds and what does not, then each figure.

Made from results, never written by hand. Reasons are those of the claims, and shown where results contradict them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Container, Sequence
from typing import Any

from keyveil.core.text import many
from keyveil.lab.experiments.catalogue import IDS
from keyveil.lab.experiments.prose import ABOUT, linked
from keyveil.lab.experiments.verdicts import CONFIRMED, CONTRADICTED, NOT_CONFIRMED, ONLY_PUBLISHED, OPEN, VERDICTS

Document = dict[str, Any]

_WIDTH = 118
_ABOUT = """Made by `keyveil reproduce{some} --{size} --seed {seed}{data} --page docs/reproduction.md`; do not edit.
{count} of the {all} tables and figures are shown; they took {time}. Every verdict comes from a rule in
the code (a module for each of them under `src/keyveil/lab/experiments`), with the standard error of what it compares: a
rule holds if its gap exceeds two standard errors. *Confirmed* holds as published and at equal true ε, with the paper's
split of the budget and with the tight one. *Confirmed only as published* does not hold at equal true ε, with one of the
splits at least, which is named. *Not confirmed* does not hold as published: results *contradict* it, or *leave it
open*, by the same rule. Gaps of errors are logarithms of ratios. [Decision 151](decisions/0151-what-settles-a-claim.md)
says how, and [errata](errata.md) where papers are wrong in print."""
_OWN = """FOLDER has {files} ([real data](papers-data.md)). Where a paper's people are not to be had, others stand in,
and each figure says so."""
_DATA = """Where a paper's people are not to be had, synthetic ones stand in, and each figure says so. With
`--data FOLDER` your own copies are used, in the files in which they are given out ([the papers' data](papers-data.md));
`emoji_sentiment` and the others may also be `.parquet` or `.csv` with the columns `user`, `key` and `value`."""
_QUICK = "A quick run has fewer people and runs than the papers: what it leaves open, a full run may settle."
_FULL = "A full run has as many people as the papers where they fit in memory; what it leaves open stays open here."
_NO_REASON = "No reason is known to us.", "At equal true ε it is left open."
_SIGNS = dict(zip(VERDICTS, ("✓", "(✓)", "✗"), strict=True))


PICTURES = "pictures/reproduction"  # beside the page


def page(documents: Sequence[Document], drawn: Container[str] = ()) -> str:
    """A Markdown page. ``drawn`` are the ids of those whose pictures lie in ``PICTURES`` beside the page."""
    size, files = documents[0]["size"], sorted({file for one in documents for file in one["files"]})
    about = _ABOUT.format(
        some="" if len(documents) == len(IDS) else " ID…",
        size=size,
        seed=documents[0]["seed"],
        data=" --data FOLDER" if files else "",
        count=len(documents),
        all=len(IDS),
        time=_time(sum(one["seconds"] for one in documents)),
    )
    lines = ["# What the papers claim, run again", "", *_wrapped(about), ""]
    lines += _wrapped(_OWN.format(files=" and ".join(f"`{file}`" for file in files)) if files else _DATA)
    lines += ["", *_wrapped(_FULL if size == "full" else _QUICK), "", *_score(documents), ""]
    for paper in dict.fromkeys(one["paper"] for one in documents):
        some = [one for one in documents if one["paper"] == paper]
        lines += [f"## {paper}", "", *_wrapped(linked(ABOUT[paper])), "", *_summary(some)]
        for one in some:
            lines += _figure(one, one["id"] in drawn)
    return "\n".join(lines).rstrip() + "\n"


def counts(documents: Sequence[Document]) -> dict[str, int]:
    """How many claims were confirmed, confirmed only as published, contradicted and left open."""
    found = dict.fromkeys((CONFIRMED, ONLY_PUBLISHED, CONTRADICTED, OPEN), 0)
    for one in _claims(documents):
        found[one["standing"] if one["verdict"] == NOT_CONFIRMED else one["verdict"]] += 1
    return found


def _claims(documents: Sequence[Document]) -> list[dict[str, Any]]:
    return [one for document in documents for one in document["verdicts"]]


def _score(documents: Sequence[Document]) -> list[str]:
    heads = list(counts(()))
    lines = [f"| paper | {' | '.join(heads)} |", f"|---|{'--:|' * len(heads)}"]
    for paper in (*dict.fromkeys(document["paper"] for document in documents), "all"):
        some = [one for one in documents if paper in (one["paper"], "all")]
        lines.append(f"| {paper} | {' | '.join(map(str, counts(some).values()))} |")
    return lines


def _summary(documents: Sequence[Document]) -> list[str]:
    """What holds, what does not and why, of one paper."""
    claims = [(one["name"].partition(", ")[2], claim) for one in documents for claim in one["verdicts"]]
    held = [where for where, claim in claims if claim["verdict"] == CONFIRMED]
    told = (
        f"{many(len(held), 'claim')} of {len(claims)}: {_listed(held)}." if held else f"None of {len(claims)} claims."
    )
    lines = _wrapped(f"**What holds.** {told}")
    titles = {
        ONLY_PUBLISHED: "What holds only as published, and why.",
        CONTRADICTED: "What results contradict, and why.",
    }
    for word, title in titles.items():
        some = [(where, claim) for where, claim in claims if word in (claim["verdict"], _standing(claim))]
        if some:
            lines += ["", f"**{title}**", ""]
            for reason in sorted(dict.fromkeys(_reason(claim) for _, claim in some), key=lambda one: one in _NO_REASON):
                places = (
                    f"{where}, “{claim['claim'].rstrip('.')}”" for where, claim in some if _reason(claim) == reason
                )
                lines += _wrapped(f"- {linked(reason)} ({'; '.join(places)})", "  ")
    left = [where for where, claim in claims if _standing(claim) == OPEN]
    if left:
        lines += ["", *_wrapped(f"**What is left open.** {many(len(left), 'claim')}: {_listed(left)}.")]
    return [*lines, ""]


def _reason(claim: dict[str, Any]) -> str:
    return claim["because"] or _NO_REASON[claim["standing"] == OPEN]


def _standing(claim: dict[str, Any]) -> str:
    return str(claim["standing"]) if claim["verdict"] == NOT_CONFIRMED else ""


def _listed(places: Sequence[str]) -> str:
    """Fig. 3 (2), Fig. 4 and so on, with how many claims each has where there are several."""
    return ", ".join(
        place + (f" ({places.count(place)})" if places.count(place) > 1 else "") for place in dict.fromkeys(places)
    )


def _figure(document: Document, drawn: bool) -> list[str]:
    people = "; ".join(
        f"{title}: {one['n']:,} people, {one['keys']:,} keys" for title, one in document["people"].items()
    )
    lines = [f"### {document['name']}: {document['title']}", ""]
    told = (
        f"`{document['id']}`, {many(document['runs'], 'run')}, seed {document['seed']}, {_time(document['seconds'])}."
    )
    about = [told, f"{people}." if people else "", *document["notes"]]
    lines += _wrapped(linked(" ".join(part for part in about if part)))
    lines.append("")
    if drawn:
        lines += [f"![{document['name']}]({PICTURES}/{document['id']}.png)", ""]
    for one in document["verdicts"]:
        text = f"- {_SIGNS[one['verdict']]} **{one['verdict']}**: {one['claim']} *{one['why']}.*"
        lines += _wrapped(text, "  ")
    if document["refused"]:
        title, sentence = next(iter(document["refused"].items()))
        lines += _wrapped(f"- Refused in {many(len(document['refused']), 'cell')}, such as {title}: {sentence}", "  ")
    return [*lines, ""]


def _time(seconds: float) -> str:
    """CPU time as one says it."""
    if seconds < 100:
        return f"{seconds:.2g} CPU seconds" if seconds < 10 else f"{seconds:.0f} CPU seconds"
    return f"{seconds / 60:.0f} CPU minutes" if seconds < 6000 else f"{seconds / 3600:.1f} CPU hours"


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text.strip(), _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
