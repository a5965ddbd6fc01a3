"""A report on estimates: one HTML file without scripts, which loads nothing and can be sent to anybody.

It begins with what was asked and what was found (``finding``), then shows the picture and the table, says how to read
them, what epsilon means for the people who answered, and how the numbers came about.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from io import BytesIO

import numpy as np

from keyveil.core.columns import FLAGS
from keyveil.core.epsilon import decimal_text
from keyveil.core.estimates import Estimates
from keyveil.core.histogram import Histogram
from keyveil.display.estimates import BLUE, STYLES, TABLE_ROWS, caption, forest, listed, most_frequent, table
from keyveil.display.finding import finding

MEANINGS = {
    "ok": "the interval holds the true number as often as its confidence says",
    "shrunk": "drawn towards what other keys have; the interval allows for it",
    "clipped": "the raw value or limit lay outside the possible range and is shown at its edge",
    "wide": "the interval covers half of the possible range or more",
    "truncated": "people hold more pairs than count, so that this number is too low; the upper limit allows for it",
    "insufficient": "too few reports to give a number",
    "suppressed": "hidden, because too few people reported",
}

_SHARES = 12  # keys whose distributions are drawn


@dataclass(frozen=True)
class About:
    """What a report says besides the numbers."""

    title: str
    purpose: str = ""
    notes: tuple[str, ...] = ()  # sentences under the finding
    privacy: tuple[str, ...] = ()  # sentences on what epsilon means here
    facts: tuple[tuple[str, str], ...] = ()  # name and value of what else was decided, such as options and hashes
    command: str = ""  # that gives these numbers again


def page(estimates: Estimates, about: About, values: Histogram | None = None) -> str:
    """The whole file; ``values`` adds how the values of the most frequent keys are distributed."""
    body = "".join(_sections(estimates, about, values))
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(about.title)}</title><style>{_STYLE}</style></head><body><main>{body}</main></body></html>"
    )


def _sections(estimates: Estimates, about: About, values: Histogram | None) -> Iterable[str]:
    yield f"<h1>{escape(about.title)}</h1>"
    if about.purpose:
        yield f'<p class="purpose">{escape(about.purpose)}</p>'
    yield f'<p class="finding">{escape(finding(estimates))}</p>'
    yield from (f"<p>{escape(note)}</p>" for note in about.notes)
    yield f'<figure><img src="{_picture(estimates)}" alt="{escape(_described(estimates))}"></figure>'
    yield f'<div class="wide">{table(estimates, inline=False)}</div>'
    if values is not None:
        yield from _distributions(estimates, values)
    yield "<h2>How to read it</h2>" + _listed((flag, MEANINGS[flag]) for flag in met_flags(estimates))
    yield f"<p>{escape(contained(estimates))}</p>"
    ceiling = f"One report was ε-locally differentially private with ε = {decimal_text(estimates.epsilon)}."
    yield "<h2>Privacy</h2>" + "".join(f"<p>{escape(one)}</p>" for one in (ceiling, *about.privacy))
    facts = [*about.facts, *(("command", one) for one in (about.command,) if one)]
    if facts:
        yield "<h2>How the numbers came about</h2>" + _listed(facts)


def _picture(estimates: Estimates) -> str:
    drawing = BytesIO()
    figure = forest(estimates, None, TABLE_ROWS, estimates.truth)
    figure.savefig(drawing, format="svg", bbox_inches="tight")
    return "data:image/svg+xml;base64," + base64.b64encode(drawing.getvalue()).decode()


def _described(estimates: Estimates) -> str:
    return f"Estimates with intervals, most frequent keys first: {caption(estimates)}. The table has the same numbers."


def met_flags(estimates: Estimates) -> list[str]:
    """The flags that tables of these estimates show, the mildest first."""
    shown = (estimates.display(), listed(estimates, estimates.schema.d))
    codes = {int(code) for one in shown for column in (one.frequency, one.mean) for code in column.flag}
    return [FLAGS[code] for code in sorted(codes)]


def contained(estimates: Estimates, population: bool | None = None) -> str:
    """What the intervals allow for, by name; ``population`` if they speak of another target than the estimates."""
    population = estimates.population if population is None else population
    parts = ["the noise that devices add for privacy"]
    if population:
        parts.append("the chance of who was among the people who reported")
    if (hidden := estimates.header.undercount) is not None and hidden.widens:
        parts.append("pairs that did not count because people hold more than the cap")
    allowed = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    whom = "the population behind the people" if population else "exactly the people"
    return (
        f"Intervals are for {whom} who reported and allow for {allowed}. They do not allow for people who send "
        "crafted reports, nor for people who did not answer."
    )


def _distributions(estimates: Estimates, values: Histogram) -> Iterable[str]:
    yield "<h2>Values</h2><p>Of those who hold the key, the share in each part of the range.</p>"
    for at in most_frequent(estimates, _SHARES):
        shares = values.law[at]
        if not estimates.told[at] or np.isnan(shares).any():
            continue
        width = 100 / len(shares)
        bars = "".join(
            f'<rect x="{width * place:.2f}" y="{32 * (1 - share / shares.max()):.2f}" width="{0.9 * width:.2f}" '
            f'height="{32 * share / shares.max():.2f}" fill="{BLUE}"/>'
            for place, share in enumerate(shares)
        )
        told = ", ".join(f"{share:.0%}" for share in shares)
        key = escape(estimates.schema.keys[at])
        low, high = (estimates.schema.from_unit(np.full(estimates.schema.d, end))[at] for end in (-1.0, 1.0))
        yield (
            f'<figure class="shares"><svg viewBox="0 0 100 32" preserveAspectRatio="none" role="img" '
            f'aria-label="{key}: {told}">{bars}</svg><figcaption>{key}, {low:g} to {high:g}</figcaption></figure>'
        )


def _listed(pairs: Iterable[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in pairs) + "</dl>"


_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font-family:system-ui,sans-serif;line-height:1.5;margin:0}"
    "main{max-width:62rem;margin:2rem auto;padding:0 1rem}"
    ".purpose{color:#52606d}.finding{font-size:1.3rem;font-weight:600}"
    "figure{margin:1rem 0}figure img{max-width:100%;height:auto;background:#fff;border-radius:.4rem}"
    ".wide{overflow-x:auto}table{border-collapse:collapse}td,th{padding:.15rem .6rem .15rem 0;white-space:nowrap}"
    "tbody th{font-weight:500}"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem}dt{font-weight:600}"
    "dd{margin:0;overflow-wrap:anywhere}"
    ".shares{display:inline-block;width:11rem;margin:.4rem 1rem .4rem 0}.shares svg{width:100%;height:3.5rem}"
    + "".join(f".{name}{{{style}}}" for name, style in STYLES.items())
    + "@media (prefers-color-scheme:dark){body{background:#161b22;color:#e6edf3}.purpose,.doubtful{color:#a3afbc}"
    ".flagged{color:#f0995e}}"
    "@media (max-width:40rem){dl{grid-template-columns:1fr}dt{margin-top:.5rem}"
    "figure{overflow-x:auto}figure img{width:40rem;max-width:none}}"
    "@media print{main{margin:0;max-width:none}h2{break-after:avoid}figure,tr{break-inside:avoid}}"
)
POLICY = (
    "default-src 'none'; img-src data:; style-src "
    f"'sha256-{base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'"
)
"""Content Security Policy of every report: no script, nothing from elsewhere, this style and no other."""
