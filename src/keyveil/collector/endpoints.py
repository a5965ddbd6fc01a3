"""What each address does, apart from uploads. Plain functions: the framework runs them in threads, since they block."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from fastapi import Body, Depends, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from keyveil.campaign.documents import NAME
from keyveil.campaign.recurrence import Period, ends
from keyveil.campaign.report_schema import parquet_writer
from keyveil.campaign.wire import JSON
from keyveil.collector.access import Admin, AdminOfAll, Analyst, Anybody, refuse_elsewhere
from keyveil.collector.asking import ask as put
from keyveil.collector.models import ARROW, CSV, PARQUET, TALLY, Action, Enrolments, Revocations, TokenRequest
from keyveil.collector.negotiation import preferred
from keyveil.collector.problems import Refusal
from keyveil.collector.service import Service
from keyveil.collector.uploads import no_such_campaign
from keyveil.core.errors import CampaignError
from keyveil.core.estimates import Estimates
from keyveil.frames.results import arrow_of, csv_of
from keyveil.learn import questions

if TYPE_CHECKING:
    import pyarrow

_FRESH = "public, max-age=10"  # seconds that a round may have closed before devices notice
_FOREVER = "public, max-age=31536000, immutable"  # what is named by its hash never changes


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def _name(name: Annotated[str, Path(json_schema_extra={"pattern": f"^{NAME.pattern}$"})]) -> str:
    if not NAME.fullmatch(name):
        raise no_such_campaign(name)
    return name


async def _hash(sha256: Annotated[str, Path(json_schema_extra={"pattern": "^[0-9a-f]{64}$"})]) -> str:
    if len(sha256) != 64 or not set(sha256) <= set("0123456789abcdef"):
        raise CampaignError("dictionary/unknown", "There is no such list of keys.")
    return sha256


TheService = Annotated[Service, Depends(_service)]
Name = Annotated[str, Depends(_name)]
Hash = Annotated[str, Depends(_hash)]
Round = Annotated[int | None, Query(ge=1, le=65535, description="The latest unless given.")]
Attackers = Annotated[int | None, Query(ge=0, le=1 << 53)]
Recover = Annotated[str | None, Query(max_length=32, description="constrained or removal, after a suspected attack.")]
Confidence = Annotated[float, Query(ge=questions.LEAST_CONFIDENCE, le=questions.MOST_CONFIDENCE)]
Postprocess = Annotated[str | None, Query(max_length=32, description="A method such as norm-sub.")]
Document = Annotated[dict[str, Any], Body()]
TokenName = Annotated[str, Path(max_length=64, description="The token's name.")]
After = Annotated[int, Query(ge=0, le=(1 << 63) - 1, description="The number of the last entry that is known.")]

_JOURNAL_PAGE = 1000  # entries in one answer


# -- everybody ------------------------------------------------------------------------------------------------------


def show_campaign(service: TheService, name: Name, request: Request, who: Anybody) -> Response:
    """The campaign's document and hash, and the document of its latest round. A draft needs a token."""
    view = service.view(name, drafts=who is not None)
    return _json(view) if view["state"] == "draft" else _cached(request, _encoded(view), JSON, _FRESH)


def show_dictionary(service: TheService, sha256: Hash, request: Request) -> Response:
    """A list of keys that lies beside a campaign's document."""
    return _cached(request, service.dictionary(sha256), JSON, _FOREVER)


async def alive() -> dict[str, str]:
    """Whether this process answers at all."""
    return {"status": "ok"}


def ready(service: TheService) -> dict[str, str]:
    """Whether reports could be stored now."""
    service.ready()
    return {"status": "ok"}


def metrics(request: Request) -> Response:
    """Numbers for operators, as Prometheus reads them."""
    return Response(request.app.state.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


# -- analysts -------------------------------------------------------------------------------------------------------


def list_campaigns(service: TheService, who: Analyst) -> Response:
    """All campaigns that the token is good for, and their states."""
    return _json({"campaigns": [one for one in service.campaigns() if who.reaches(one["name"])]})


def show_status(service: TheService, name: Name) -> Response:
    """States, and how many reports arrived, were folded, came twice or were refused, by reason."""
    return _json(service.status(name))


def show_estimates(
    service: TheService,
    name: Name,
    request: Request,
    round: Round = None,
    postprocess: Postprocess = None,
    confidence: Confidence = 0.95,
    attackers: Attackers = None,
    recover: Recover = None,
) -> Response:
    """Frequencies and means with intervals: JSON, CSV or an Arrow stream, as the Accept header says."""
    form = preferred(request.headers.getlist("accept"), (JSON, CSV, ARROW))
    if form is None:
        raise Refusal("request/accept", f"Estimates come as {JSON}, {CSV} or {ARROW}.")
    estimates = service.estimates(name, round, postprocess, confidence, attackers, recover)
    days = service.drawn(name)
    if form == JSON:
        written = _as_json(estimates, round, days)
    else:
        written = _as_csv(estimates, days) if form == CSV else _as_arrow(estimates, days)
    return Response(written, media_type=form, headers={"Vary": "Accept"})


def ask(service: TheService, name: Name, question: Document, attackers: Attackers = None) -> Response:
    """Answer a question from the reports of one round: the latest that can answer it, unless it says which."""
    return _json({"answers": put(service, name, [question], attackers)[0]})


def export_tally(
    service: TheService,
    name: Name,
    round: Round = None,
    form: Annotated[str, Query(pattern="^(tally|document)$")] = "tally",
) -> Response:
    """The tally of a round, or (``form=document``) the document of the mechanism that it belongs to."""
    mechanism, tally = service.tally(name, round)
    if form == "document":
        return _json(mechanism.document())
    return Response(tally.to_bytes(), media_type=TALLY)


# -- administrators -------------------------------------------------------------------------------------------------


def create_campaign(service: TheService, document: Document, who: Admin) -> Response:
    """Keep a campaign document as a draft."""
    refuse_elsewhere(who, str(document.get("name")))
    view = service.create(document, who.name)
    return _json(view, 201, {"Location": f"/v1/campaigns/{view['campaign']['name']}"})


def act_on_campaign(service: TheService, name: Name, step: Action, who: Admin) -> Response:
    """Open a draft, close the present round, stop after it, archive what is over, or count again what was set aside."""
    return _json(service.act(name, step.action, who.name))


def delete_campaign(service: TheService, name: Name, who: Admin) -> Response:
    """Forget a campaign that takes no reports, with its reports, tallies and enrolments."""
    service.delete(name, who.name)
    return _json({"name": name})


def enrol(service: TheService, name: Name, wanted: Enrolments, who: Admin) -> Response:
    """Make enrolment tokens; they are shown this once."""
    return _json({"tokens": service.enrol(name, wanted.count, who.name)}, 201)


def revoke_enrolments(service: TheService, name: Name, wanted: Revocations, who: Admin) -> Response:
    """Enrolment tokens that are no longer good; what was reported under them stays counted."""
    return _json({"revoked": service.revoke(name, wanted.tokens, who.name)})


async def keep_dictionary(service: TheService, sha256: Hash, request: Request, who: Admin) -> Response:
    """Keep a list of keys for a campaign to come."""
    data = await request.body()  # read only after the token was checked: it may be large
    if hashlib.sha256(data).hexdigest() != sha256:
        raise CampaignError("campaign/dictionary", "The list of keys does not have the hash that the address says.")
    return _json({"sha256": await run_in_threadpool(service.put_dictionary, data, who.name)})


def export_reports(service: TheService, name: Name, who: Admin, round: Round = None) -> Response:
    """The reports of a round that are not scrubbed yet, as Parquet."""
    batches = iter(service.export(name, round, who.name))
    first = next(batches)  # errors are raised here, before the answer has begun
    return StreamingResponse(_parquet(first, batches), media_type=PARQUET)


# -- administrators of all campaigns --------------------------------------------------------------------------------


def list_tokens(service: TheService) -> Response:
    """The tokens of administrators and analysts: names, roles, campaigns and states."""
    return _json({"tokens": service.roles.tokens()})


def create_token(service: TheService, wanted: TokenRequest, who: AdminOfAll) -> Response:
    """A new token for an administrator or analyst; it is shown this once."""
    token = service.roles.grant(wanted.role, wanted.name, wanted.campaigns, wanted.expires, who.name)
    return _json({"name": wanted.name, "token": token}, 201)


def revoke_token(service: TheService, token: TokenName, who: AdminOfAll) -> Response:
    """A token, by its name, that is no longer good."""
    service.roles.revoke(token, who.name)
    return _json({"name": token})


def show_journal(service: TheService, after: After = 0) -> Response:
    """Entries of the journal beyond a number, up to a thousand of them."""
    entries = list(islice(service.journal.entries(after), _JOURNAL_PAGE + 1))
    return _json({"entries": entries[:_JOURNAL_PAGE], "more": len(entries) > _JOURNAL_PAGE})


def show_clock(service: TheService) -> Response:
    """The time that is believed, and whether the machine's clock is held back."""
    held = service.clock.held
    about = None if held is None else round(held / timedelta(hours=1), 1)
    return _json({"believed": f"{service.clock():%Y-%m-%dT%H:%MZ}", "held_hours": about})


def confirm_clock(service: TheService, who: AdminOfAll) -> Response:
    """Believe the machine's clock from now on."""
    service.clock.confirm(who.name)
    return show_clock(service)


# -- forms ----------------------------------------------------------------------------------------------------------


def _encoded(document: Any) -> bytes:
    return msgspec.json.encode(document)


def _json(document: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(_encoded(document), status, headers, JSON)


def _cached(request: Request, body: bytes, media_type: str, lifetime: str) -> Response:
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": lifetime}
    known = [part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")]
    if tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=media_type)


def _as_json(estimates: Estimates, round: int | None, days: Period | None) -> bytes:
    as_of = None if days is None else days.document()
    return _encoded({**estimates.document(), "reports": estimates.n, "round": round, "as_of": as_of})


def _as_csv(estimates: Estimates, days: Period | None) -> bytes:
    return csv_of(estimates, ends(days)).encode()


def _as_arrow(estimates: Estimates, days: Period | None) -> bytes:
    import pyarrow

    table, sink = arrow_of(estimates, ends(days)), pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


class _Pieces(io.RawIOBase):
    """A file whose content is taken piece by piece, so that an export is never in memory as a whole."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, piece: Any) -> int:
        self._pieces.append(bytes(piece))
        return len(piece)

    def taken(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


def _parquet(first: pyarrow.RecordBatch, rest: Iterator[pyarrow.RecordBatch]) -> Iterator[bytes]:
    pieces = _Pieces()
    with parquet_writer(pieces, first.schema) as writer:
        for batch in rest:
            writer.write_batch(batch)
            yield pieces.taken()
    yield pieces.taken()
