"""The reproduction as one HTML file: every claim with its verdict, every picture, nothing loaded and no scripts.

The index lists all claims; what is shown of it (all, or one verdict) is chosen by radio buttons that style sheets read.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from keyveil.core.text import many
from keyveil.display.markup import Html, tag, together
from keyveil.lab.experiments.catalogue import IDS
from keyveil.lab.experiments.verdicts import CONFIRMED, NOT_CONFIRMED, ONLY_PUBLISHED, VERDICTS

_CLASSES = {CONFIRMED: "yes", ONLY_PUBLISHED: "part", NOT_CONFIRMED: "no"}
_SIGNS = {CONFIRMED: "✓", ONLY_PUBLISHED: "(✓)", NOT_CONFIRMED: "✗"}

_STYLE = """
:root{--ink:#1f2933;--quiet:#52606d;--edge:#cbd2d9;--page:#fff;--card:#f5f7fa;--yes:#00664a;--part:#7a5200;--no:#a13d00}
@media(prefers-color-scheme:dark){:root{--ink:#e4e7eb;--quiet:#a5b1bd;--edge:#3e4c59;--page:#14191f;--card:#1f2933;
--yes:#5fd3ae;--part:#f0c060;--no:#ff9e66}img{background:#fff}}
*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--ink);font:16px/1.55 system-ui,sans-serif}
main{max-width:62rem;margin:0 auto;padding:1.5rem 1rem 4rem}h1{font-size:1.7rem;line-height:1.2}
h2{margin-top:2.5rem;border-bottom:1px solid var(--edge);padding-bottom:.3rem}h3{margin:2rem 0 .3rem}
p,li{overflow-wrap:anywhere}.quiet{color:var(--quiet);font-size:.92rem}a{color:inherit}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.93rem}
th,td{text-align:left;padding:.35rem .6rem;border-bottom:1px solid var(--edge);vertical-align:top}
td.number,th.number{text-align:right;font-variant-numeric:tabular-nums}td.verdict{white-space:nowrap;font-weight:600}
.yes{color:var(--yes)}.part{color:var(--part)}.no{color:var(--no)}
figure{margin:1rem 0}figure img{max-width:100%;height:auto;border:1px solid var(--edge)}
ul.claims{list-style:none;padding:0}
ul.claims li{background:var(--card);border-radius:.4rem;padding:.5rem .8rem;margin:.4rem 0}
fieldset{border:1px solid var(--edge);border-radius:.4rem;margin:1rem 0;padding:.4rem .8rem}label{margin-right:1.2rem}
body:has(#show-yes:checked) tr.claim:not(.is-yes),body:has(#show-part:checked) tr.claim:not(.is-part),
body:has(#show-no:checked) tr.claim:not(.is-no){display:none}
@media(max-width:40rem){td.verdict{white-space:normal}th,td{padding:.3rem .35rem}}
"""
POLICY = (
    "default-src 'none'; img-src data:; style-src 'sha256-"
    + base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    + "'; base-uri 'none'; form-action 'none'"
)


def html(documents: Sequence[Mapping[str, Any]], pictures: Mapping[str, bytes]) -> str:
    """The whole file from the documents of experiments; ``pictures`` are PNG files by the id of the experiment."""
    body = tag("main", *_head(documents), *_index(documents), *_figures(documents, pictures))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>What the papers claim, run again</title><style>{_STYLE}</style></head><body>{body}</body></html>\n"
    )


def _head(documents: Sequence[Mapping[str, Any]]) -> Iterable[Html]:
    first = documents[0]
    seconds = sum(document["seconds"] for document in documents)
    yield tag("h1", "What the papers claim, run again")
    yield tag(
        "p",
        f"{len(documents)} of {len(IDS)} tables and figures, at the {first['size']} size with seed {first['seed']}, in "
        f"{seconds:,.0f} CPU seconds. Every verdict comes from a rule in code with its standard error: a rule holds if "
        "its gap exceeds two standard errors. Confirmed holds as published and at equal true ε, with the paper's split "
        "of the budget and with the tight one. Confirmed only as published does not hold at equal true ε. Not "
        "confirmed does not hold as published: it is contradicted, or left open, by the same rule.",
    )
    head = [tag("th", "paper"), *(tag("th", word, class_="number") for word in VERDICTS)]
    papers = list(dict.fromkeys(document["paper"] for document in documents))
    rows = [
        tag("tr", tag("td", paper), *(tag("td", str(number), class_="number") for number in _counted(documents, paper)))
        for paper in [*papers, *(["all"] if len(papers) > 1 else [])]
    ]
    yield tag("div", tag("table", tag("tr", *head), *rows), class_="wide")


def _counted(documents: Sequence[Mapping[str, Any]], paper: str) -> list[int]:
    words = [
        one["verdict"] for document in documents for one in document["verdicts"] if paper in (document["paper"], "all")
    ]
    return [words.count(word) for word in VERDICTS]


def _index(documents: Sequence[Mapping[str, Any]]) -> Iterable[Html]:
    yield tag("h2", "All claims", id="claims")
    choices = [("show-all", "all"), *((f"show-{_CLASSES[word]}", word) for word in VERDICTS)]
    yield tag(
        "fieldset",
        tag("legend", "Show"),
        *(
            tag("label", tag("input", type="radio", name="show", id=id, checked=id == "show-all"), " ", word)
            for id, word in choices
        ),
    )
    rows = [
        tag(
            "tr",
            tag("td", tag("a", document["name"], href=f"#{document['id']}")),
            tag("td", one["claim"]),
            _verdict("td", one["verdict"], "verdict"),
            class_=f"claim is-{_CLASSES[one['verdict']]}",
        )
        for document in documents
        for one in document["verdicts"]
    ]
    head = tag("tr", *(tag("th", word) for word in ("figure", "claim, in our words", "verdict")))
    yield tag("div", tag("table", head, *rows), class_="wide")


def _verdict(element: str, word: str, more: str = "") -> Html:
    return tag(element, f"{_SIGNS[word]} {word}", class_=f"{_CLASSES[word]} {more}".strip())


def _figures(documents: Sequence[Mapping[str, Any]], pictures: Mapping[str, bytes]) -> Iterable[Html]:
    paper = ""
    for document in documents:
        if document["paper"] != paper:
            paper = document["paper"]
            yield tag("h2", paper)
        yield tag("h3", f"{document['name']}: {document['title']}", id=document["id"])
        people = "; ".join(
            f"{title}: {one['n']:,} people, {one['keys']:,} keys" for title, one in document["people"].items()
        )
        about = [f"{many(document['runs'], 'run')}.", f"{people}." if people else "", *document["notes"]]
        yield tag("p", " ".join(filter(None, about)), class_="quiet")
        if document["id"] in pictures:
            data = base64.b64encode(pictures[document["id"]]).decode()
            alt = f"{document['name']}: {document['title']}; the verdicts stand below"
            yield tag("figure", tag("img", src=f"data:image/png;base64,{data}", alt=alt))
        yield tag("ul", *(_claim(one) for one in document["verdicts"]), class_="claims")
        if document["refused"]:
            title, sentence = next(iter(document["refused"].items()))
            yield tag("p", f"Refused in {len(document['refused'])} cells, such as {title}: {sentence}", class_="quiet")


def _claim(one: Mapping[str, Any]) -> Html:
    parts = [tag("br"), tag("i", f"{one['why']}.")]
    if one["because"]:
        parts += [tag("br"), one["because"]]
    return tag("li", _verdict("b", one["verdict"]), ": ", one["claim"], together(*parts))
