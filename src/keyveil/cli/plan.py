"""``keyveil plan``: which mechanism, what errors to expect, and how many people or how large an epsilon it takes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from keyveil.cli.data import Plot, save, say, screen, working
from keyveil.cli.options import Epsilon, Json
from keyveil.cli.printing import printed
from keyveil.core.errors import PlanError
from keyveil.mechanisms.base import Mechanism
from keyveil.planning.plan import Plan
from keyveil.planning.wanted import WISHES

if TYPE_CHECKING:
    from keyveil.planning.preview import Preview
    from keyveil.planning.robust import Robustness
    from keyveil.planning.wanted import Solved, WishCurve

SHOWN = 8  # lines of the table, unless told otherwise
WIDE = 110  # columns of a terminal that has room for the whole table

_COLUMNS = {
    "error": "error",
    "frequency": "se_frequency",
    "bias": "bias_frequency",
    "mean": "error_mean",
    "smallest": "smallest",
    "difference": "difference",
    "change": "change",
    "bits": "bits",
    "device µs": "device_us",
    "server µs": "server_us",
}
"""Columns of the table, and the numbers of a line's document in them."""
_ONLY_WIDE = ("difference", "device µs", "server µs")


def plan(
    users: Annotated[int | None, typer.Option("--users", "--people", help="How many people will report.")] = None,
    keys: Annotated[int | None, typer.Option(help="How many keys there are.")] = None,
    pairs: Annotated[float | None, typer.Option(help="How many pairs a person holds on average.")] = None,
    epsilon: Epsilon = "1",
    goal: Annotated[
        str | None,
        typer.Option(
            help="frequency, mean, both, top, rare, distribution, conditional, fairness or change; several with "
            "commas. Unless given both, or what a wish is about."
        ),
    ] = None,
    sample: Annotated[
        str | None, typer.Option(metavar="DATA", help="People like those expected: a file, or synthetic:NAME.")
    ] = None,
    shares: Annotated[
        str | None, typer.Option(help="Expected share of holders of every key, as in 0.4,0.1 or 0:0.4,1:0.1.")
    ] = None,
    sizes: Annotated[str | None, typer.Option(help="The law of set sizes, such as 1:0.2,2:0.8.")] = None,
    typical: Annotated[
        str | None, typer.Option(help="Root mean square of a value, the range being -1 to 1; 0.5 unless given.")
    ] = None,
    groups: Annotated[
        str | None, typer.Option(help="Groups whose keys are told apart: de:0.6,fr:0.4, or de,fr, or how many.")
    ] = None,
    bits: Annotated[float | None, typer.Option(help="The most bits of a report.")] = None,
    rounds: Annotated[int, typer.Option(help="The most rounds; more than one also tries protocols.")] = 1,
    mechanisms: Annotated[str | None, typer.Option(help="Names to consider, with commas.")] = None,
    postprocess: Annotated[
        str | None, typer.Option(help="bayes: errors count after empirical Bayes, as estimates will be read.")
    ] = None,
    error: Annotated[float | None, typer.Option(help="Solve for people and epsilon: this error of the goal.")] = None,
    smallest: Annotated[
        float | None, typer.Option(help="The same for the smallest frequency that is told from absence.")
    ] = None,
    change: Annotated[
        float | None, typer.Option(help="The same for the smallest change between two collections that is seen.")
    ] = None,
    at: Annotated[float | None, typer.Option(help="With --change: the share of the people who hold the key.")] = None,
    preview: Annotated[
        str | None, typer.Option(metavar="KEY", help="Twenty results that may come out for a key, side by side.")
    ] = None,
    attackers: Annotated[
        int | None,
        typer.Option("--attackers", metavar="M", min=0, help="How far could M crafted reports raise a frequency?"),
    ] = None,
    curves: Annotated[bool, typer.Option("--curves", help="How errors depend on epsilon, people and keys.")] = False,
    top: Annotated[int, typer.Option(min=1, help="How many mechanisms the table shows.")] = SHOWN,
    plot: Plot = None,
    json: Json = False,
) -> int:
    """Rank mechanisms by the errors to expect, before anybody is asked; or solve for a wanted accuracy."""
    from keyveil.planning.ask import plan as planned

    with working("Predicting the errors of every mechanism"):
        found = planned(
            users,
            keys,
            pairs,
            epsilon,
            goal,
            sample=sample,
            sizes=sizes,
            frequency=shares,
            typical=typical,
            groups=groups,
            bits=bits,
            rounds=rounds,
            mechanisms=None if mechanisms is None else [one.strip() for one in mechanisms.split(",") if one.strip()],
            postprocess=postprocess,
            error=error,
            smallest=smallest,
            change=change,
            at=at,
            trade_offs=curves or (plot is not None and (error, smallest, change) == (None, None, None)),
        )
    if plot is not None:
        _draw(found, plot)
    from keyveil.planning.preview import epsilon_in_words
    from keyveil.planning.preview import preview as previewed

    if preview is not None and found.best.rounds > 1:
        raise PlanError("plan/preview", f"A preview shows one round; {found.best.name} has {found.best.rounds}.")
    words = epsilon_in_words(found.best.mechanism, found.best.rounds)
    seen = None if preview is None else previewed(found.best.mechanism, found.people, found.schema, preview)
    anonymous = None
    if isinstance(found.mechanism, Mechanism):
        from keyveil.privacy.shuffled import MOST_PEOPLE, shuffled

        people = min(found.people.n, MOST_PEOPLE)
        anonymous = shuffled(found.mechanism, people, delta_for(people), confirm=False)
    if attackers is not None:
        from keyveil.planning.robust import over_epsilon, robustness

        shifts, robust = robustness(found, attackers, top), over_epsilon(found, attackers, top)
    if json:
        more = {"shuffled": anonymous, "preview": seen}
        beside = {name: one.document() for name, one in more.items() if one is not None}
        if attackers is not None:
            told = {"attackers": attackers, "shifts": shifts, "over_epsilon": [one.document() for one in robust]}
            beside["robustness"] = told
        printed(json, {**found.document(), "epsilon_in_words": words, **beside})
        return 0
    _show(found, top, None if attackers is None else shifts)
    if attackers is not None:
        _show_robustness(robust, attackers)
    screen().print(words)
    if anonymous is not None:
        screen().print(anonymous.sentence())
    if seen is not None:
        _show_preview(seen)
    return 0


def _draw(found: Plan, plot: Path) -> None:
    """Trade-offs and the curves of a wish, into a file."""
    from keyveil.display.plan import trade_offs

    told, solved = f"error ({', '.join(one.name for one in found.goals)})", found.solved
    drawn = [(one.axis, one.places, one.errors, one.here) for one in found.curves]
    if solved is None:
        save(trade_offs(drawn, told), plot)
        return
    wish = [(one.axis, one.places, one.reached, one.solved) for one in solved.curves]
    save(trade_offs(drawn, told, wish, (WISHES[solved.wish.kind], solved.wish.value)), plot)


def delta_for(people: int) -> float:
    """The δ of the line about an anonymous channel: a millionth, or a tenth of one person's share if that is less."""
    return min(1e-6, 0.1 / people)


def _show(found: Plan, top: int, shifts: Mapping[str, float | None] | None = None) -> None:
    page = screen()
    meanings = "; ".join(goal.meaning for goal in found.goals)
    read = ", after empirical Bayes" if any(goal.shrunk for goal in found.goals) else ""
    rows = Table(title=f"To learn {meanings}{read}, at epsilon {float(found.epsilon):g}", title_justify="left")
    columns = {name: field for name, field in _COLUMNS.items() if page.width >= WIDE or name not in _ONLY_WIDE}
    rows.add_column("mechanism", overflow="fold")
    for column in columns:
        rows.add_column(column, justify="right")
    if shifts is not None:
        rows.add_column("moved by attackers", justify="right")
    for line in found.lines[:top]:
        numbers = {"error": line.error, **line.prediction.numbers()}
        known = {name: value for name, value in numbers.items() if value is not None and math.isfinite(value)}
        cells = (f"{known[field]:.3g}" if field in known else "–" for field in columns.values())
        moved = () if shifts is None else (_known(shifts.get(line.name)),)
        rows.add_row(line.name, *cells, *moved)
    page.print(rows)
    for line in found.lines[:top]:
        page.print(f"{line.name}{f' ({line.rounds} rounds)' if line.rounds > 1 else ''}: {line.why}")
    page.print(f"Best: {found.best.name} with {_options(found.best.options)}.")
    page.print(f"For {found.people.about}")
    if found.note is not None:
        page.print(found.note)
    tried = [line.name for line in found.lines if line.method == "simulation"]
    drawn = [line.name for line in found.lines if line.method == "drawn estimates"]
    if drawn:
        page.print("Errors after shrinkage are those of estimates that were drawn and shrunk: keys are few.")
    if tried:
        page.print(f"By simulation, as there is no closed form of the error: {', '.join(tried)}.")
    if found.solved is not None:
        for sentence in found.solved.sentences(found.people.n, found.epsilon):
            page.print(sentence)
        for one in found.solved.curves:
            _show_wish(found.solved, one)
    if found.group_costs:
        _show_groups(found)
    for curve in found.curves:
        _show_curve(found, curve.axis)
    if len(found.lines) > top:
        more = len(found.lines) - top
        say(f"{more} more mechanism{' is' if more == 1 else 's are'} left out of the table; --top shows them.")


def _known(number: float | None) -> str:
    return "–" if number is None else f"{number:.3g}"


def _show_robustness(found: Sequence[Robustness], attackers: int) -> None:
    """Robustness against accuracy: shift and standard error of a frequency, by mechanism and ε."""
    epsilons = sorted({one.epsilon for one in found}, key=float)
    title = f"How far {attackers:,} crafted reports could raise a frequency ± its standard error, by epsilon"
    rows = Table(title=title, title_justify="left")
    rows.add_column("mechanism")
    for epsilon in epsilons:
        rows.add_column(epsilon, justify="right")
    for name in dict.fromkeys(one.name for one in found):
        own = {one.epsilon: f"{one.shift:.3g} ± {one.se:.2g}" for one in found if one.name == name}
        rows.add_row(name, *(own.get(epsilon, "–") for epsilon in epsilons))
    screen().print(rows)


def _show_groups(found: Plan) -> None:
    """What each group costs; the largest ones if there are many."""
    rows = Table(title=f"By group, with {found.best.name}", title_justify="left")
    rows.add_column("group", overflow="fold")
    for column in ("share of the people", "error of a frequency", "within the group", "without groups, times"):
        rows.add_column(column, justify="right")
    for one in sorted(found.group_costs, key=lambda one: -one.share)[:SHOWN]:
        rows.add_row(
            one.name, f"{one.share:.1%}", f"{one.se_frequency:.3g}", f"{one.se_within:.3g}", f"{one.times:.3g}"
        )
    screen().print(rows)
    if len(found.group_costs) > SHOWN:
        screen().print(f"{len(found.group_costs) - SHOWN:,} smaller groups are in --json.")


def _show_wish(solved: Solved, curve: WishCurve) -> None:
    """What is reached along one axis; an arrow stands where the wish is met."""
    from keyveil.display.plan import bars

    rows = Table(title=f"{WISHES[solved.wish.kind].capitalize()}, by {curve.axis}", title_justify="left")
    for place in curve.places:
        rows.add_column(f"{'▶ ' if place == curve.solved else ''}{place:,.7g}", justify="right")
    rows.add_column("")
    rows.add_row(*(f"{one:.3g}" for one in curve.reached), bars(curve.reached))
    screen().print(rows)


def _show_curve(found: Plan, axis: str) -> None:
    from keyveil.display.plan import bars

    curve = next(one for one in found.curves if one.axis == axis)
    rows = Table(title=f"Error by {axis}", title_justify="left")
    rows.add_column("mechanism")
    for place in curve.places:
        rows.add_column(f"{place:,.7g}", justify="right")
    rows.add_column("")
    for name, errors in curve.errors.items():
        rows.add_row(name, *("–" if one is None else f"{one:.3g}" for one in errors), bars(errors))
    screen().print(rows)


def _show_preview(seen: Preview) -> None:
    rows = Table(
        title=f"What may come out for {seen.key}, which {seen.truth:.1%} of {seen.n:,} people hold",
        title_justify="left",
    )
    for column in ("frequency", "95 % interval", "mean"):
        rows.add_column(column, justify="right")
    for row in seen.document()["results"]:
        mean = "unknown" if row["mean"] is None else f"{row['mean']:.3f}"
        rows.add_row(f"{row['frequency']:.4f}", f"{row['low']:.4f} to {row['high']:.4f}", mean)
    screen().print(rows)


def _options(given: Mapping[str, Any]) -> str:
    """Options that are set; those of groups in brackets."""
    told = [
        f"{name}={f'({_options(value)})' if isinstance(value, Mapping) else value}"
        for name, value in given.items()
        if value is not None
    ]
    return ", ".join(told) or "no options"
