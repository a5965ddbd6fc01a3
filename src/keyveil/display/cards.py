"""Results in notebooks: a title, facts, a table and remarks, as HTML without scripts in which every text is escaped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from keyveil.core.epsilon import decimal_text
from keyveil.core.estimates import Floats
from keyveil.display.estimates import BLUE, GREY, STYLES
from keyveil.display.estimates import table as table_of_estimates
from keyveil.privacy.words import at_most, worst_pair

if TYPE_CHECKING:
    from keyveil.device.outcome import Outcome
    from keyveil.lab.comparison import Comparison, Comparisons
    from keyveil.lab.simulate import Simulation
    from keyveil.learn.distributions import Distributions
    from keyveil.planning.plan import Plan
    from keyveil.privacy.certify import Certificate

ROWS = 20  # that a card shows
_BARS = (120, 22)  # pixels of a small histogram


@dataclass(frozen=True)
class Html:
    """A cell that is HTML already; every other cell is text."""

    text: str


@dataclass(frozen=True)
class Rows:
    """A table: titles of columns, and cells row by row. ``more`` says what was left out."""

    head: Sequence[str]
    body: Iterable[Sequence[str | Html]]
    more: str = ""


def card(title: str, facts: Sequence[tuple[str, str]] = (), rows: Rows | None = None, notes: Sequence[str] = ()) -> str:
    """A result as HTML."""
    told = " · ".join(f"{escape(name)} <b>{escape(value)}</b>" for name, value in facts)
    parts = [f"<div><b>{escape(title)}</b></div>", f"<div>{told}</div>" if told else ""]
    if rows is not None:
        parts.append(_table(rows))
    parts += [f"<div>{escape(note)}</div>" for note in notes]
    return f'<div style="{STYLES["numbers"]}">{"".join(parts)}</div>'


def _table(rows: Rows) -> str:
    left = STYLES["told"]
    head = "".join(f'<th style="{left}">{escape(name)}</th>' for name in rows.head)
    body = "".join(f"<tr>{''.join(_cell(one) for one in row)}</tr>" for row in rows.body)
    more = f"<div>{escape(rows.more)}</div>" if rows.more else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _cell(one: str | Html) -> str:
    text = one.text if isinstance(one, Html) else escape(one)
    return f'<td style="{STYLES["told"]}">{text}</td>'


def number(value: float | None) -> str:
    """Three digits, or a dash where nothing is known."""
    return "–" if value is None or not math.isfinite(value) else f"{value:.3g}"


# -- kinds of results -----------------------------------------------------------------------------------------------


def of_certificate(found: Certificate) -> str:
    """The promise, whether it is kept, and the two records that are told apart best."""
    worst = found.worst
    how = "all outcomes enumerated" if found.method == "enumeration" else "closed form, checked at small sizes"
    likely, unlikely = (f"{float(chance):.6g}" for chance in worst.chances)
    body = list(zip(worst_pair(found), (likely, unlikely), strict=True))
    kept = "keeps" if found.certified else "BREAKS"
    return card(
        f"{found.mechanism} {kept} ε = {decimal_text(found.requested_epsilon)}",
        [("exact ε" if not found.at_most else "ε at most", at_most(found.exact_epsilon)), ("method", how)],
        Rows(("record", "chance of the report that tells most"), body),
        [f"With {_sizes(found.worst_sizes)}. No report is more than e^ε times as likely with one record as another."],
    )


def of_outcome(one: Outcome) -> str:
    """What became of a report, and what it cost."""
    facts = [("state", one.state), ("ε spent", decimal_text(one.epsilon))]
    if one.round is not None:
        facts.insert(0, ("round", str(one.round)))
    if one.report is not None:
        facts.append(("id", one.report.hex()))
    notes = [OUTCOMES.get(one.state, "")]
    if one.code is not None:
        notes.append(f"The collector said {one.code}.")
    notes += [f"{ignored} did not count." for ignored in one.ignored]
    return card(one.series, facts, notes=[note for note in notes if note])


OUTCOMES = {
    "sent": "The report has arrived. The same report is sent again if it is asked for again.",
    "waiting": "The report is drawn and paid for; it leaves when the collector can be reached.",
    "refused": "The collector did not take the report.",
    "closed": "Nothing more is asked.",
    "between": "The next round has not opened yet.",
    "not-asked": "The open round is for other people.",
}


def of_plan(found: Plan) -> str:
    """The best mechanisms with the errors to expect."""
    shown = found.lines[:ROWS]
    body = []
    for line in shown:
        known = line.prediction.numbers()
        columns = (line.error, known["se_frequency"], known["se_mean"], known["smallest"], known["bits"])
        body.append((line.name, *map(number, columns), line.why))
    head = ("mechanism", "error", "se of a frequency", "se of a mean", "smallest seen", "bits", "why")
    notes = [f"For {found.people.about}", *([] if found.note is None else [found.note])]
    if found.solved is not None:
        notes += list(found.solved.sentences(found.people.n, found.epsilon))
    return card(
        f"Best for {', '.join(goal.name for goal in found.goals)}: {found.best.name}",
        [("ε", decimal_text(found.epsilon)), ("people", f"{found.people.n:,}"), ("keys", f"{found.schema.d:,}")],
        Rows(head, body, _left_out(len(found.lines) - len(shown), "mechanism")),
        notes,
    )


def of_simulation(run: Simulation) -> str:
    """What was paid, how far off the estimates are, and the estimates beside the truth."""
    facts = [("ε spent", f"{float(run.spent):.6g}"), ("people", f"{run.truth.n:,}"), ("rounds", str(len(run.history)))]
    facts += [(name.replace("_", " "), number(value)) for name, value in run.metrics.items() if _plain(value)][:4]
    head = card(f"{run.protocol.name}: truth against estimates", facts, notes=run.notes)
    return f"{head}{table_of_estimates(run.estimates)}"


def of_comparison(every: Comparisons) -> str:
    """Errors of all contenders at every epsilon; the best in bold, ≈ where runs do not tell others from it."""
    return "".join(_one_comparison(one, decoder) for one in every for decoder in one.decoders)


def of_distributions(found: Distributions) -> str:
    """Median and shares of the most frequent keys' values."""
    order = np.argsort(-found.masses.values.sum(axis=1), kind="stable")[:ROWS]
    body = []
    for at in order:
        key = found.schema.keys[at]
        law = found.of(key)
        colour = GREY if law.flag == "insufficient" else BLUE
        median = str(replace(found.median(key), flag="ok"))  # the flag has a cell of its own
        told = "unknown" if law.flag == "insufficient" else median
        body.append((key, told, Html(_histogram(law.shares, colour)), law.flag))
    return card(
        f"Distributions of values: {found.mechanism}",
        [("ε", decimal_text(found.epsilon)), ("reports", f"{found.n:,}"), ("method", found.method)],
        Rows(("key", "median", "shares", "flag"), body, _left_out(found.schema.d - len(body), "key")),
    )


# -- inside ---------------------------------------------------------------------------------------------------------


def _one_comparison(found: Comparison, decoder: str) -> str:
    cells: dict[str, list[str | Html]] = {name: [name] for name in found.capped}
    head = ["mechanism"]
    for quantity in ("frequency", "mean"):
        for epsilon in found.epsilons:
            head.append(f"{quantity}, ε = {float(epsilon):g}")
            standing = found.standing(found.capped, epsilon, quantity, decoder)
            for name, row in cells.items():
                score = standing.scores.get(name)
                text = "–" if score is None else escape(number(score.error))
                mark = "≈ " if standing.shares(name) else ""
                row.append(Html(f"<b>{mark}{text}</b>" if name == standing.best or mark else text))
    told = [("people", f"{found.dataset.population.n:,}"), ("runs", str(found.repeats)), ("decoder", decoder)]
    notes = [f"{name}: {why}" for name, why in found.refused.items()]
    return card(f"{found.dataset.name}: mean squared errors", told, Rows(head, cells.values()), notes)


def _histogram(shares: Floats, colour: str) -> str:
    """Shares as bars; nothing where they are not known."""
    wide, high = _BARS
    if not np.isfinite(shares).all() or not shares.max(initial=0) > 0:
        return "–"
    step = wide / len(shares)
    bars = "".join(
        f'<rect x="{at * step:.1f}" y="{high * (1 - tall):.1f}" width="{max(step - 1, 0.5):.1f}" '
        f'height="{high * tall:.1f}" fill="{colour}"/>'
        for at, tall in enumerate((shares / shares.max()).tolist())
    )
    return f'<svg width="{wide}" height="{high}" role="img" aria-label="shares of values">{bars}</svg>'


def _plain(value: Any) -> bool:
    return isinstance(value, float | int) and math.isfinite(value)


def _left_out(count: int, what: str) -> str:
    return f"… and {count:,} more {what}{'' if count == 1 else 's'}." if count > 0 else ""


def _sizes(sizes: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in sizes.items())
