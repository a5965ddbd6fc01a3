"""What a campaign leaves on disk: reports, tallies, estimates and tokens."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keyveil.campaign.recurrence import Period, ends
from keyveil.campaign.report_schema import parquet_writer
from keyveil.campaign.rounds import RoundDocument
from keyveil.cli.campaign_files import beside, write_json
from keyveil.cli.connection import Collector, address, download, written
from keyveil.core.errors import CampaignError, KeyveilError
from keyveil.core.estimates import Estimates
from keyveil.core.histogram import Histogram
from keyveil.core.tally import Tally
from keyveil.frames.results import csv_of
from keyveil.mechanisms.capabilities import Histograms, can, histogram_of


def export_reports(collector: Collector, name: str, round: int | None, out: Path) -> dict[str, Any]:
    """The reports of a round as Parquet, and beside them the documents that say what they mean."""
    import pyarrow.parquet as parquet

    campaign, view = collector.campaign(name)
    number = _number(view, round)
    if collector.service is None:
        download(collector, f"{address(name, 'reports')}?round={number}", out)
    else:
        with written(out) as part:
            _write_parquet(part, collector.service.export(name, number))
    about = beside(out)
    write_json(
        about,
        {
            "campaign": view["campaign"],
            "dictionary": None if campaign.dictionary is None else list(campaign.schema.keys),
            "round": _round_document(collector, view, number),
        },
    )
    reports = parquet.ParquetFile(out).metadata.num_rows
    return {"round": number, "n": reports, "reports": reports, "written": [str(out), str(about)]}


def _round_document(collector: Collector, view: dict[str, Any], number: int) -> Any:
    """The document of a round; of earlier rounds it comes with the campaign's status, which analysts may read."""
    if view["round"]["number"] == number:
        return view["round"]["document"]
    rounds = collector.ask("GET", address(view["hash"], "status"))["rounds"]
    return next(one["document"] for one in rounds if one["round"] == number)


def export_tally(collector: Collector, name: str, round: int | None, out: Path) -> dict[str, Any]:
    """The tally of a round, and beside it the document of its mechanism: what keyveil estimate reads."""
    view = collector.ask("GET", address(name))
    number = _number(view, round)
    counts = collector.fetch("GET", address(name, "tally"), round=number)
    about = collector.ask("GET", address(name, "tally"), None, round=number, form="document")
    with written(out) as part:
        part.write(counts)
    write_json(beside(out), {**about, "min_reports": view["campaign"]["min_reports"]})
    reports = Tally.from_bytes(counts).reports
    return {"round": number, "n": reports, "reports": reports, "written": [str(out), str(beside(out))]}


def distributions(collector: Collector, name: str, round: int | None) -> Histogram | None:
    """How values are distributed by the reports of a round, if they tell it."""
    campaign, view = collector.campaign(name)
    number = _number(view, round)
    mechanism = RoundDocument.from_document(_round_document(collector, view, number), campaign).mechanism
    if can(mechanism, Histograms) is None:
        return None
    return histogram_of(mechanism, Tally.from_bytes(collector.fetch("GET", address(name, "tally"), round=number)))


def write_csv(path: Path, estimates: Estimates, days: Period | None) -> None:
    """All keys, one in each row, with the days on which the reports can have been drawn."""
    with written(path) as part:
        part.write(csv_of(estimates, ends(days)).encode())


def write_tokens(path: Path, tokens: list[str]) -> None:
    """Write tokens, one in each line, to a new file that only its owner can read."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as reason:
        raise KeyveilError("output/file", f"{path} cannot be written: {reason.strerror}.") from reason
    with os.fdopen(file, "w", encoding="utf-8") as lines:
        lines.write("".join(f"{token}\n" for token in tokens))


def _number(view: dict[str, Any], round: int | None) -> int:
    """The round that is meant: the last one unless one was named."""
    if round is not None:
        return round
    if view["round"] is None:
        raise CampaignError("round/unknown", f"The campaign {view['campaign']['name']} has not begun yet.")
    return int(view["round"]["number"])


def _write_parquet(target: Any, batches: Iterator[Any]) -> None:
    with parquet_writer(target, next(batches).schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
