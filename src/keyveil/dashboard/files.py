"""Results as files: tables, a picture, and the report that can be sent to anybody."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from dataclasses import replace

import msgspec
from starlette.responses import Response

from keyveil.campaign.recurrence import ends
from keyveil.core.errors import KeyveilError
from keyveil.core.estimates import Estimates
from keyveil.dashboard.about import about_campaign
from keyveil.dashboard.campaign_head import head
from keyveil.dashboard.code import CSV, asked, code
from keyveil.dashboard.layout import HEADERS, page, table
from keyveil.dashboard.refusals import explained
from keyveil.dashboard.visits import Visit
from keyveil.display import report
from keyveil.display.markup import tag
from keyveil.frames.results import arrow_of, csv_of
from keyveil.mechanisms.capabilities import histogram_of

_drawing = threading.Lock()  # matplotlib draws one picture at a time


def _csv(visit: Visit, estimates: Estimates) -> bytes:
    return csv_of(estimates, ends(visit.service.drawn(visit.name))).encode()


def _parquet(visit: Visit, estimates: Estimates) -> bytes:
    import pyarrow.parquet

    sink = io.BytesIO()
    pyarrow.parquet.write_table(arrow_of(estimates, ends(visit.service.drawn(visit.name))), sink)
    return sink.getvalue()


def _json(visit: Visit, estimates: Estimates) -> bytes:
    days = visit.service.drawn(visit.name)
    about = {"campaign": visit.service.campaign(visit.name).hash, "as_of": None if days is None else days.document()}
    return msgspec.json.encode({**estimates.document(schema=True), **about})


def _png(visit: Visit, estimates: Estimates) -> bytes:
    from matplotlib import pyplot

    sink = io.BytesIO()
    with _drawing:
        figure = estimates.plot()
        try:
            figure.savefig(sink, format="png", dpi=150, bbox_inches="tight")
        finally:
            pyplot.close(figure)
    return sink.getvalue()


def _html(visit: Visit, estimates: Estimates) -> bytes:
    about = about_campaign(visit.service.campaign(visit.name))
    command = f"keyveil campaign estimates {visit.name} --report report.html"
    found = visit.service.finished(visit.name)
    values = histogram_of(found.round.mechanism, found.tally)
    with _drawing:
        return report.page(estimates, replace(about, command=command), values).encode()


KINDS: dict[str, tuple[str, str, Callable[[Visit, Estimates], bytes]]] = {
    "csv": ("text/csv; charset=utf-8", "a table for spreadsheets", _csv),
    "parquet": ("application/vnd.apache.parquet", "a table for pandas, polars, DuckDB and Spark", _parquet),
    "json": ("application/json", "everything, to the last digit", _json),
    "png": ("image/png", "the picture of the most frequent keys", _png),
    "html": ("text/html; charset=utf-8", "a report on one page that can be sent to a colleague", _html),
}


def show_files(visit: Visit) -> Response:
    """The list of files."""
    campaign, _, top = head(visit, "files")
    try:
        visit.site.results.estimates(visit.name)
    except KeyveilError as refused:
        return page(visit, campaign.name, top, explained(refused))
    rows = [
        tag(
            "tr",
            tag(
                "th",
                tag("a", _name(campaign.name, kind), href=visit.to(_path(visit, kind)), download=True),
                scope="row",
            ),
            tag("td", what),
        )
        for kind, (_, what, _) in KINDS.items()
    ]
    estimates = f"/v1/campaigns/{visit.name}/estimates"
    words = ["campaign", "estimates", visit.name, "--csv", f"{campaign.name}.csv", "--report", f"{campaign.name}.html"]
    return page(
        visit,
        campaign.name,
        top,
        table("Estimates of all keys, with intervals and flags", ("File", "What it is"), rows),
        code(visit, words, [f"answer = {asked(estimates, takes=CSV)}.decode()"]),
    )


def send_file(visit: Visit) -> Response:
    """One of them."""
    kind = visit.file.rpartition(".")[2]
    campaign = visit.service.campaign(visit.name)
    if kind not in KINDS or visit.file != f"estimates.{kind}":
        raise KeyveilError("request/not-found", "There is no such file.")
    media_type, _, write = KINDS[kind]
    estimates = visit.site.results.estimates(visit.name)
    headers = {
        **HEADERS,
        "Content-Disposition": f'attachment; filename="{_name(campaign.name, kind)}"',
        "Content-Security-Policy": report.POLICY if kind == "html" else "default-src 'none'; sandbox",
    }
    return Response(write(visit, estimates), media_type=media_type, headers=headers)


def _path(visit: Visit, kind: str) -> str:
    return f"/campaigns/{visit.name}/files/estimates.{kind}"


def _name(campaign: str, kind: str) -> str:
    return f"{campaign}.{kind}"
