"""``keyveil reproduce``: the tables and figures of the papers, and a verdict for every claim that they make of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table

from keyveil.cli.data import many, progress_bar, say, screen
from keyveil.cli.options import Json
from keyveil.core.errors import KeyveilError
from keyveil.display.figures import copy_smaller
from keyveil.lab.experiments.catalogue import chosen
from keyveil.lab.experiments.cost import SAMPLES, cost
from keyveil.lab.experiments.files import write
from keyveil.lab.experiments.html import html
from keyveil.lab.experiments.page import PICTURES, page
from keyveil.lab.experiments.plan import Plan
from keyveil.lab.experiments.results import Results
from keyveil.lab.experiments.runner import missing, plans, run
from keyveil.lab.experiments.shape import Experiment
from keyveil.lab.experiments.verdicts import VERDICTS
from keyveil.lab.store import Store
from keyveil.lab.workers import cores


def reproduce(
    figures: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="Such as ye-fig9, or a whole paper: ye, sun, li, dong, wang; else all."),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Name tables, figures and claims, and run nothing.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer people, runs and points; this is the default.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="As many people and runs as the papers, where they fit.")
    ] = False,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where results and finished cells are kept.")] = Path(
        "reproduction"
    ),
    data: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Your copies of the papers' data, such as MovieLens' ratings.csv."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of people and coins.")] = 1,
    processes: Annotated[int, typer.Option(min=0, help="How many work at once; 0: one for every processor.")] = 0,
    index: Annotated[
        Path | None,
        typer.Option(
            "--page", metavar="FILE", help="Write an index of all claims: .md, or .html with all pictures inside."
        ),
    ] = None,
    price: Annotated[
        bool, typer.Option("--cost", help="Time a run of two cells of each figure and say what the rest would take.")
    ] = False,
    json: Json = False,
) -> int:
    """Run the papers' tables and figures again: CSV, pictures, and a verdict by rule for every claim."""
    wanted = chosen(figures or [])
    if listed:
        _show_list(wanted, json)
        return 0
    if quick and full:
        raise KeyveilError("reproduce/size", "Choose --quick or --full, not both.")
    size = "full" if full else "quick"
    folder = out / size
    store, planned = Store(folder), plans(wanted, size, seed, data)
    if price:
        return _show_cost(planned, store, json)
    documents: list[dict[str, Any]] = []

    def finished(results: Results) -> None:
        documents.append(write(results, folder, seed))
        say(_line(documents[-1]))

    left = missing(planned, store)
    if store.damaged:
        say(f"Damaged and passed over: {many(store.damaged, 'line')} of {store.path}; what they held is run again.")
    try:
        with progress_bar(left) as (progress, task):
            run(
                planned,
                store,
                processes=processes or cores(),
                heard=lambda id: progress.update(task, advance=1, description=id),
                done=finished,
            )
    except KeyboardInterrupt:
        kept = left - missing(planned, store)
        say(f"Stopped; {kept} of {left} cells were finished and are kept in {store.path}; the same command goes on.")
        return 130
    if index is not None and index.suffix.lower() == ".html":
        _write_page(index, html(documents, _inside(folder, documents)))
    elif index is not None:
        _write_page(index, page(documents, _beside(index, folder, documents)))
    if json:
        print(
            msgspec.json.encode({"size": size, "seed": seed, "score": score(documents), "figures": documents}).decode()
        )
    else:
        _show(documents)
    return 0


def score(documents: list[dict[str, Any]]) -> dict[str, int]:
    """How many claims have each verdict."""
    words = [one["verdict"] for document in documents for one in document["verdicts"]]
    return {word: words.count(word) for word in VERDICTS}


def _line(document: dict[str, Any]) -> str:
    parts = [f"{count} {word}" for word, count in score([document]).items() if count]
    return f"{document['id']}: {', '.join(parts)} ({document['seconds']:.1f} s)"


def _show_cost(planned: list[Plan], store: Store, json: bool) -> int:
    finished = store.read(cell.key for plan in planned for cell in plan.cells)
    costs = []
    with progress_bar(len(planned)) as (progress, task):
        for plan in planned:
            progress.update(task, advance=1, description=plan.experiment.id)
            costs.append(cost(plan, finished))
            one = costs[-1]
            span = f"{one.least:,.0f} to {one.most:,.0f}"
            say(f"{one.id}: {many(one.cells, 'cell')} left, {one.seconds:,.0f} CPU s ({span})")
    if json:
        print(msgspec.json.encode({"size": planned[0].size.name, "costs": costs}).decode())
        return 0
    least, middle, most = (sum(getattr(one, name) for one in costs) / 3600 for name in ("least", "seconds", "most"))
    cells = many(sum(one.cells for one in costs), "cell")
    screen().print(
        f"{cells} left: about {middle:,.2f} CPU hours ({least:,.2f} to {most:,.2f}), shared out among the processes; "
        f"extrapolated from one run of {SAMPLES} cells of each figure, so it is rough."
    )
    return 0


def _show_list(wanted: list[Experiment], json: bool) -> None:
    rows = [
        {
            "id": one.id,
            "paper": one.paper,
            "title": one.title,
            "claims": [{"claim": claim.text, "ours": claim.ours} for claim in one.claims],
        }
        for one in wanted
    ]
    if json:
        print(msgspec.json.encode({"figures": rows}).decode())
        return
    console = screen()
    paper = ""
    for row in rows:
        if row["paper"] != paper:
            paper = str(row["paper"])
            console.print(f"\n{paper}")
        console.print(f"  {row['id']}: {row['title']}")
        for claim in row["claims"]:
            console.print(f"      - {claim['claim']}")  # type: ignore[index]
    console.print(f"\n{len(rows)} tables and figures, {sum(len(one.claims) for one in wanted)} claims")


def _show(documents: list[dict[str, Any]]) -> None:
    console = screen()
    table = Table(pad_edge=False)
    for column in ("figure", "claim", "verdict", "why"):
        table.add_column(column)
    for document in documents:
        for place, one in enumerate(document["verdicts"]):
            table.add_row("" if place else document["id"], one["claim"], one["verdict"], one["why"])
    console.print(table)
    console.print(", ".join(f"{count} {word}" for word, count in score(documents).items()))


def _inside(results: Path, documents: list[dict[str, Any]]) -> dict[str, bytes]:
    """The pictures by the id of their figure."""
    return {document["id"]: (results / f"{document['id']}.png").read_bytes() for document in documents}


def _beside(index: Path, results: Path, documents: list[dict[str, Any]]) -> set[str]:
    """Put the pictures where the page can show them; gives the ids of those that are there."""
    folder = index.parent / PICTURES
    try:
        for document in documents:
            copy_smaller(results / f"{document['id']}.png", folder / f"{document['id']}.png")
    except OSError as reason:
        raise KeyveilError("output/file", f"Pictures cannot be put into {folder}: {reason}.") from reason
    return {document["id"] for document in documents}


def _write_page(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as reason:
        raise KeyveilError("output/file", f"The page {path.name} cannot be written: {reason}.") from reason
    say(f"Written: {path}")
