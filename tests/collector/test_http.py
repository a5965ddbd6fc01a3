"""The collector over HTTP: what each route answers, and what all answers have in common."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from keyveil.campaign.documents import dictionary_of
from keyveil.campaign.wire import JSON, PACKED, Batch
from keyveil.collector.negotiation import preferred
from keyveil.core.tally import Tally
from keyveil.learn.consistency import norm_sub_at_most
from keyveil.mechanisms.registry import from_document
from tests.collector.campaigns import asked, batch_of, snacks, started
from tests.collector.running import Collector, problem, running


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    with running(tmp_path) as one:
        yield one


# -- a campaign from draft to estimates -----------------------------------------------------------------------------


def test_a_campaign_is_created_opened_answered_and_read(collector: Collector) -> None:
    created = collector.ask("POST", "/v1/campaigns", snacks(), collector.admin)
    assert created.status == 201 and created.headers["location"] == "/v1/campaigns/snacks"
    assert json.loads(created.body)["state"] == "draft"

    opened = collector.ask("PATCH", "/v1/campaigns/snacks", {"action": "open"}, collector.admin)
    view = json.loads(opened.body)
    assert opened.status == 200 and view["round"]["state"] == "open"

    batch = batch_of(asked(collector.service), 12)
    sent = collector.ask("POST", "/v1/campaigns/snacks/reports", batch.to_json())
    assert (sent.status, json.loads(sent.body)) == (200, {"accepted": 12, "duplicates": 0, "refused": []})
    collector.service.settle()

    status = json.loads(collector.ask("GET", "/v1/campaigns/snacks/status", token=collector.analyst).body)
    assert status["reports"] == 12 and status["rounds"][0]["folded"] == 12

    answer = collector.ask("GET", "/v1/campaigns/snacks/estimates?confidence=0.9", token=collector.analyst)
    estimates = json.loads(answer.body)
    assert (estimates["mechanism"], estimates["epsilon"], estimates["reports"]) == ("ssr", "1", 12)
    assert estimates["confidence"] == 0.9 and estimates["round"] is None
    assert estimates["as_of"] is None  # the campaign names no dates
    assert [row["key"] for row in estimates["estimates"]] == ["burger", "fries", "pepsi"]
    assert estimates["estimates"][0]["true_mean"] is None

    listed = json.loads(collector.ask("GET", "/v1/campaigns", token=collector.analyst).body)
    assert [one["name"] for one in listed["campaigns"]] == ["snacks"]


def test_both_forms_of_an_upload_carry_the_same_and_may_be_repeated(collector: Collector) -> None:
    batch = batch_of(started(collector.service), 3)

    packed = collector.ask("POST", "/v1/campaigns/snacks/reports", batch.to_packed(), Content_Type=PACKED)
    again = collector.ask(
        "POST", "/v1/campaigns/snacks/reports", batch.to_json(), Content_Type=f"{JSON}; charset=utf-8"
    )

    assert json.loads(packed.body) == {"accepted": 3, "duplicates": 0, "refused": []}
    assert json.loads(again.body) == {"accepted": 0, "duplicates": 3, "refused": []}
    assert collector.stored == 3


def test_a_campaign_is_cacheable_and_known_copies_are_not_sent_again(collector: Collector) -> None:
    started(collector.service)
    first = collector.ask("GET", "/v1/campaigns/snacks")
    tag = first.headers["etag"]

    assert first.headers["cache-control"].startswith("public, max-age=")
    for known in (tag, f'"other", W/{tag}', "*"):
        again = collector.ask("GET", "/v1/campaigns/snacks", If_None_Match=known)
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)

    collector.service.act("snacks", "close")
    changed = collector.ask("GET", "/v1/campaigns/snacks", If_None_Match=tag)
    assert changed.status == 200 and changed.headers["etag"] != tag


def test_long_lists_of_keys_lie_beside_the_document(collector: Collector) -> None:
    data = dictionary_of([f"key-{number}" for number in range(1000)])
    name = hashlib.sha256(data).hexdigest()
    schema = {"keys": {"sha256": name, "count": 1000}, "low": 0, "high": 1}

    assert (
        problem(collector.ask("POST", "/v1/campaigns", snacks(schema=schema), collector.admin)) == "dictionary/unknown"
    )
    wrong = collector.ask("PUT", f"/v1/dictionaries/{'0' * 64}", data, collector.admin)
    assert problem(wrong) == "campaign/dictionary"
    assert collector.ask("PUT", f"/v1/dictionaries/{name}", data, collector.admin).status == 200
    assert collector.ask("POST", "/v1/campaigns", snacks(schema=schema), collector.admin).status == 201

    found = collector.ask("GET", f"/v1/dictionaries/{name}")
    assert found.body == data and "immutable" in found.headers["cache-control"]
    assert problem(collector.ask("GET", "/v1/dictionaries/nonsense")) == "dictionary/unknown"


def test_enrolled_devices_report_once(collector: Collector) -> None:
    document = started(collector.service, enrolment="token")
    made_tokens = collector.ask("POST", "/v1/campaigns/snacks/enrolments", {"count": 2}, collector.admin)
    tokens = json.loads(made_tokens.body)["tokens"]
    first, second = batch_of(document, 1), batch_of(document, 1)

    def send(batch: Batch, token: str | None) -> Any:
        return collector.ask("POST", "/v1/campaigns/snacks/reports", batch.to_json(), token)

    assert made_tokens.status == 201 and len(set(tokens)) == 2
    nobody = send(first, None)
    assert (problem(nobody), nobody.status) == ("enrolment/needed", 401)
    assert nobody.headers["www-authenticate"].startswith("Bearer")
    assert problem(send(first, "somebody-elses-token")) == "enrolment/unknown"
    assert json.loads(send(first, tokens[0]).body)["accepted"] == 1
    assert json.loads(send(first, tokens[0]).body)["duplicates"] == 1
    assert json.loads(send(second, tokens[0]).body)["refused"] == [
        {"id": second.ids[0].hex(), "code": "enrolment/used"}
    ]
    assert json.loads(send(second, tokens[1]).body)["accepted"] == 1


# -- forms of answers -----------------------------------------------------------------------------------------------


def test_estimates_say_on_which_days_the_reports_were_drawn(collector: Collector) -> None:
    today = datetime.now(UTC).date()
    began, closes = (today + timedelta(days=by) for by in (-3, 4))
    window = {"opens": today.isoformat(), "closes": closes.isoformat()}
    collector.filled(rounds=[window], renew_days=28, renew_from=began.isoformat())

    def ask(accept: str) -> bytes:
        answer = collector.ask("GET", "/v1/campaigns/snacks/estimates", token=collector.analyst, Accept=accept)
        return bytes(answer.body)

    assert json.loads(ask(JSON))["as_of"] == {"first": began.isoformat(), "last": closes.isoformat()}
    rows = list(csv.DictReader(io.StringIO(ask("text/csv").decode())))
    table = pyarrow.ipc.open_stream(ask("application/vnd.apache.arrow.stream")).read_all()
    assert {(row["as_of_first"], row["as_of_last"]) for row in rows} == {(began.isoformat(), closes.isoformat())}
    assert set(table["as_of_first"].to_pylist()) == {began} and set(table["as_of_last"].to_pylist()) == {closes}

    described = json.loads(collector.ask("GET", "/openapi.json").body)["components"]["schemas"]
    assert "as_of" in described["EstimatesView"]["required"] and set(described["Days"]["required"]) == {"first", "last"}


def test_estimates_come_in_the_form_that_is_asked_for(collector: Collector) -> None:
    collector.filled()

    def ask(accept: str) -> Any:
        return collector.ask("GET", "/v1/campaigns/snacks/estimates", token=collector.analyst, Accept=accept)

    rows = json.loads(ask("application/json").body)["estimates"]
    table = list(csv.DictReader(io.StringIO(ask("text/csv").body.decode())))
    arrow = pyarrow.ipc.open_stream(ask("application/vnd.apache.arrow.stream").body).read_all()

    assert [row["key"] for row in table] == arrow["key"].to_pylist() == [row["key"] for row in rows]
    assert float(table[1]["frequency"]) == arrow["frequency"][1].as_py() == rows[1]["frequency"]
    assert table[1]["true_mean"] == "" and arrow["true_mean"][1].as_py() is None
    assert table[1]["as_of_last"] == "" and arrow["as_of_last"][1].as_py() is None  # the campaign names no dates
    assert ask("text/*;q=0.5, application/json;q=0.1").headers["content-type"].startswith("text/csv")
    assert ask("*/*").headers["content-type"] == JSON and ask("*/*").headers["vary"] == "Accept"
    assert problem(ask("image/png")) == "request/accept"


FIRST_OF_SEVERAL = ("privkvm", "privkvm-plus", "privkvm-star", "privkvm-harmony", "privkvm-meanest", "adaptive")


@pytest.mark.parametrize("protocol", FIRST_OF_SEVERAL)
def test_the_first_round_of_a_protocol_is_post_processed_with_what_its_mechanism_knows(
    collector: Collector, protocol: str
) -> None:
    cap = 2 if protocol == "adaptive" else 3  # of three keys nobody holds more
    option = {"max_pairs": cap} if protocol == "adaptive" else {}
    mechanism = collector.filled(40, protocol={"name": protocol, "epsilon": "1", **option}).mechanism

    def rows(**wanted: Any) -> Any:
        answer = collector.ask("GET", f"/v1/campaigns/snacks/estimates?{urlencode(wanted)}", token=collector.analyst)
        assert answer.status == 200
        return json.loads(answer.body)

    for wanted, name in (({}, protocol), ({"round": 1}, mechanism.name)):
        raw, processed = rows(**wanted), rows(**wanted, postprocess="norm-sub")
        known = [row["frequency_se"] is not None for row in raw["estimates"]]  # privkvm-star pools rare keys
        before, after = (np.array([row["frequency"] for row in one["estimates"]]) for one in (raw, processed))
        if any(known):
            before[known] = norm_sub_at_most(before[known], cap, 1.0)

        assert (processed["mechanism"], processed["epsilon"]) == (name, raw["epsilon"])
        assert after == pytest.approx(before)


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ([], "a/x"),
        (["a/y"], "a/y"),
        (["a/x;q=0.2, a/y;q=0.3"], "a/y"),
        (["a/*, a/x;q=0"], "a/y"),
        (["*/*;q=0.1", "b/z"], "b/z"),
        (["a/x;q=nonsense"], None),
        (["c/*"], None),
    ],
)
def test_the_weights_of_an_accept_header_count(accept: list[str], chosen: str | None) -> None:
    assert preferred(accept, ("a/x", "a/y", "b/z")) == chosen


def test_questions_are_answered_by_the_round_they_name(collector: Collector) -> None:
    collector.filled()

    def ask(question: Any) -> Any:
        return collector.ask("POST", "/v1/campaigns/snacks/queries", question, collector.analyst)

    ranked = json.loads(ask({"kind": "top", "count": 2, "round": 1}).body)["answers"]
    total = json.loads(ask({"kind": "subset", "keys": ["burger", "fries"]}).body)["answers"]
    assert [row["rank"] for row in ranked] == [1, 2]
    assert total[0]["keys"] == ["burger", "fries"] and set(total[0]["sum"]) == {"value", "low", "high", "se", "flag"}
    assert problem(ask({"kind": "top", "count": 2, "round": 2})) == "round/unknown"
    assert problem(ask({"kind": "gossip"})) == "question/kind"
    assert problem(ask(["top"])) == "request/invalid"
    assert ask({"kind": "conditional", "key": "fries", "given": {"pepsi": True}}).status == 422  # ssr cannot say


def test_a_tally_and_its_mechanism_can_be_taken_home(collector: Collector) -> None:
    collector.filled(15)
    path = "/v1/campaigns/snacks/tally"

    tally = Tally.from_bytes(collector.ask("GET", path, token=collector.analyst).body)
    mechanism = from_document(json.loads(collector.ask("GET", f"{path}?form=document", token=collector.analyst).body))

    assert tally.reports == 15 and mechanism.fingerprint == tally.fingerprint
    assert problem(collector.ask("GET", f"{path}?form=poem", token=collector.analyst)) == "request/invalid"


def test_reports_are_exported_as_parquet(collector: Collector) -> None:
    batch = batch_of(started(collector.service), 5)
    collector.service.submit("snacks", batch).result(30)

    found = collector.ask("GET", "/v1/campaigns/snacks/reports?round=1", token=collector.admin)

    table = pyarrow.parquet.read_table(io.BytesIO(found.body))
    assert dict(zip(table["id"].to_pylist(), table["payload"].to_pylist(), strict=True)) == dict(batch)
    assert table.schema.metadata[b"keyveil.round"] == b"1"
    assert (
        problem(collector.ask("GET", "/v1/campaigns/snacks/reports?round=2", token=collector.admin)) == "round/unknown"
    )


def test_an_export_without_reports_is_an_empty_table(collector: Collector) -> None:
    started(collector.service)
    found = collector.ask("GET", "/v1/campaigns/snacks/reports", token=collector.admin)
    table = pyarrow.parquet.read_table(io.BytesIO(found.body))
    assert table.num_rows == 0 and table.column_names == ["id", "payload"]


def test_nothing_is_shown_below_the_least_number_of_reports(collector: Collector) -> None:
    collector.filled(9)
    for method, path, body in [
        ("GET", "estimates", None),
        ("GET", "estimates?round=1", None),
        ("GET", "tally", None),
        ("GET", "tally?form=document", None),
        ("POST", "queries", {"kind": "top", "count": 1}),
    ]:
        answer = collector.ask(method, f"/v1/campaigns/snacks/{path}", body, collector.analyst)
        assert (answer.status, problem(answer)) == (409, "campaign/too-few")


# -- around everything ----------------------------------------------------------------------------------------------


def test_answers_set_no_cookies_and_only_public_ones_may_be_kept(collector: Collector) -> None:
    collector.filled()
    for path in ("status", "estimates", "tally"):
        assert (
            collector.ask("GET", f"/v1/campaigns/snacks/{path}", token=collector.analyst).headers["cache-control"]
            == "no-store"
        )
    for path in ("/v1/campaigns/snacks", "/v1/campaigns", "/nowhere", "/healthz", "/metrics"):
        headers = collector.ask("GET", path, Origin="https://elsewhere.example").headers
        assert headers["x-content-type-options"] == "nosniff"
        assert not {"set-cookie", "access-control-allow-origin", "server"} & set(headers)


def test_health_and_readiness(collector: Collector) -> None:
    assert collector.ask("GET", "/healthz").status == 200 and collector.ask("GET", "/readyz").status == 200
    collector.service.writer.close()
    assert collector.ask("GET", "/healthz").status == 200
    not_ready = collector.ask("GET", "/readyz")
    assert (not_ready.status, problem(not_ready)) == (503, "storage/unavailable")


def test_an_upload_to_a_hash_is_counted_under_the_campaigns_name(collector: Collector) -> None:
    batch = batch_of(started(collector.service), 1)
    whole = json.loads(collector.ask("GET", "/v1/campaigns/snacks").body)["hash"]

    for digits in (64, 30, 6):
        assert collector.ask("POST", f"/v1/campaigns/{whole[:digits]}/reports", batch.to_json()).status == 200
        assert collector.ask("POST", f"/v1/campaigns/{whole[:digits]}/reports", b"{}").status == 400
    text = collector.ask("GET", "/metrics").body.decode()

    assert 'keyveil_reports_total{campaign="snacks",outcome="accepted"} 1.0' in text
    assert whole[:6] not in text


def test_metrics_count_reports_and_requests_without_naming_paths(collector: Collector) -> None:
    batch = batch_of(started(collector.service), 3)
    for _ in range(2):
        collector.ask("POST", "/v1/campaigns/snacks/reports", batch.to_json())
    collector.ask("BREW", "/v1/campaigns/snacks")

    text = collector.ask("GET", "/metrics").body.decode()

    assert 'keyveil_reports_total{campaign="snacks",outcome="accepted"} 3.0' in text
    assert 'keyveil_reports_total{campaign="snacks",outcome="duplicate"} 3.0' in text
    assert 'keyveil_requests_total{method="POST",route="/v1/campaigns/{name}/reports",status="200"} 2.0' in text
    assert 'method="OTHER"' in text and "BREW" not in text and "/v1/campaigns/snacks" not in text
    assert "keyveil_unfolded_reports 3.0" in text and "keyveil_commit_seconds_total" in text
    assert "_created" not in text  # the moment of a first report


def test_the_description_names_every_route_and_both_forms_of_an_upload(collector: Collector) -> None:
    described = json.loads(collector.ask("GET", "/openapi.json").body)
    upload = described["paths"]["/v1/campaigns/{name}/reports"]["post"]
    assert set(upload["requestBody"]["content"]) == {JSON, PACKED}
    assert "HTTPValidationError" not in json.dumps(described)


def test_many_devices_may_send_at_once(collector: Collector) -> None:
    document = started(collector.service)
    batches = [batch_of(document, 3) for _ in range(24)]

    def send(batch: Batch) -> int:
        accepted: int = json.loads(collector.ask("POST", "/v1/campaigns/snacks/reports", batch.to_json()).body)[
            "accepted"
        ]
        return accepted

    with ThreadPoolExecutor(8) as devices:
        assert list(devices.map(send, batches + batches)).count(3) == 24
    assert collector.stored == 72
