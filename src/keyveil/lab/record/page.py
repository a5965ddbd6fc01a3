"""A record as a Markdown page: who wins how often, typical regrets, distances to the limit, who was refused."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from keyveil.lab.record.measures import MEASURES
from keyveil.lab.record.people import COUNTS
from keyveil.lab.record.pictures import by_regret
from keyveil.lab.record.table import VERSION, Record, Row, typical

_WIDTH = 118
_RANKED = ("mse_frequency", "mse_frequency_top", "mse_mean", "mse_mean_top", "kl_frequency", "ndcg", "jain_frequency")
_MOST = 15  # rows of a table; the files have all

_ABOUT = """{rows} rows from {cells} of {planned} cells: {contenders} contenders on {settings} settings (people and ε),
each at the same exact ε for everybody, in {seconds} CPU seconds. *Regret* is an error over the least one of its
setting, whoever has it and with whichever decoder; 1 is the best. A typical one is the geometric mean over settings. A
setting is won alone if nobody else is within two standard errors of the difference, else the first place is shared.
Every row stands in `record.parquet` and `record.json` (version {version}; docs/record.md has the columns)."""
_LIMIT = """How far plain estimates are from the most that reports of ε can tell (docs/theory.md, the limit): 1 is the
limit, 2 needs twice the people. Geometric means over settings; in brackets the least and the largest. It is proved
where keys are held independently, and indicative elsewhere{some}."""


def page(record: Record, pictures: Mapping[str, str], command: str = "") -> str:
    """The whole page; ``pictures`` are files of heat maps by measure."""
    lines = ["# Benchmark of record", ""]
    if command:
        lines += ["Written by", "", "```console", f"$ {command}", "```", ""]
    if not record.rows:
        return "\n".join([*lines, "Nothing is measured yet."]) + "\n"
    contenders = {(row["mechanism"], row["decoder"]) for row in record.rows}
    done = {(row["data"], row["epsilon"], row["mechanism"]): row["seconds"] for row in record.rows}
    about = _ABOUT.format(
        rows=len(record.rows),
        cells=len(done) + sum(not one["decoder"] for one in record.refused),
        planned=record.planned,
        contenders=len(contenders),
        settings=len(record.settings),
        seconds=round(sum(done.values())),
        version=VERSION,
    )
    lines += [*_wrapped(about), "", *_counts(record), ""]
    for measure in _RANKED:
        if any(row[measure] is not None for row in record.rows):
            lines += _ranking(record, measure, pictures.get(measure))
    lines += _limit(record)
    if record.refused:
        lines += ["## Not in the table", "", *_refused(record)]
    return "\n".join(lines).rstrip() + "\n"


def _counts(record: Record) -> list[str]:
    told = [row["counts"] for row in record.rows]
    return [f"- {told.count(name)} rows: {about}." for name, about in COUNTS.items() if name in told]


def _ranking(record: Record, measure: str, picture: str | None) -> list[str]:
    wins, less = record.wins(measure), MEASURES[measure].better == "less"
    rows = [row for row in record.rows if row[measure] is not None]
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row["mechanism"], row["decoder"]), []).append(row)
    names = (
        by_regret(rows, measure) if less else sorted(found, key=lambda one: tuple(-n for n in wins.get(one, (0, 0))))
    )
    lines = [f"## {measure}", "", *_wrapped(f"{MEASURES[measure].about[0].upper()}{MEASURES[measure].about[1:]}."), ""]
    if picture:
        lines += [f"![Regrets of {measure}]({picture})", ""]
    lines += [f"| mechanism | decoder | settings | won alone | shared |{' typical regret | largest |' * less}"]
    lines += [f"|---|---|--:|--:|--:|{'--:|--:|' * less}"]
    for name in names[:_MOST]:
        some = found[name]
        alone, shared = wins.get(name, (0, 0))
        regrets = f" {_short(typical(some, f'regret_{measure}'))} | {_short(_largest(some, measure))} |" if less else ""
        lines.append(f"| `{name[0]}` | {name[1]} | {len(some)} | {alone} | {shared} |{regrets}")
    if len(names) > _MOST:
        lines += ["", f"And {len(names) - _MOST} more."]
    return [*lines, ""]


def _largest(rows: Sequence[Row], measure: str) -> float | None:
    return max((row[f"regret_{measure}"] for row in rows if row[f"regret_{measure}"] is not None), default=None)


def _limit(record: Record) -> list[str]:
    found: dict[str, list[Row]] = {}
    seen: set[tuple[str, float, str]] = set()
    for row in record.rows:  # the distance belongs to the mechanism: once, whatever the decoders
        place = row["data"], row["epsilon"], row["mechanism"]
        if row["distance"] is not None and place not in seen:
            found.setdefault(row["mechanism"], []).append(row)
            seen.add(place)
    if not found:
        return []
    rows = [row for some in found.values() for row in some]
    proved = sum(bool(row["limit_proved"]) for row in rows)
    some = f"; it is proved for {proved} of these {len(rows)} cells"
    lines = ["## Distance to the information limit", "", *_wrapped(_LIMIT.format(some=some)), ""]
    lines += ["| mechanism | cells | distance |", "|---|--:|--:|"]
    for name in sorted(found, key=lambda one: typical(found[one], "distance") or 0):
        told = [row["distance"] for row in found[name]]
        middle = _short(typical(found[name], "distance"))
        lines.append(f"| `{name}` | {len(told)} | {middle} ({_short(min(told))}–{_short(max(told))}) |")
    return [*lines, ""]


def _refused(record: Record) -> list[str]:
    """One line for each reason, with how many cells have it and the first of them."""
    found: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    for one in record.refused:
        found.setdefault((one["mechanism"], one["decoder"], one["reason"]), []).append(one)
    lines = []
    for (mechanism, decoder, reason), some in found.items():
        who = f"`{mechanism}`" + (f", {decoder}" if decoder else "")
        lines += _wrapped(
            f"- {who}, {len(some)} cells, first {some[0]['data']} at ε = {some[0]['epsilon']}: {reason}", "  "
        )
    return lines


def _short(number: float | None) -> str:
    return "–" if number is None else f"{number:.2f}" if number < 9.995 else f"{number:,.0f}"


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        " ".join(text.split()), _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
