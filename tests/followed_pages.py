"""Which pages are followed, what has to be there before, and which commands are not run by it: each with its reason."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date

from keyveil.campaign.documents import Campaign
from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.series import next_document
from keyveil.cli.connection import address
from tests.collector.campaigns import batch_of
from tests.documented_pages import ROOT, Reader
from tests.engines import report_files

HOURS = "takes hours; its study has tests of its own, and its page says when it was last made"

ELSEWHERE = {  # pages that others follow, or nobody can
    "docs/how-to-add-a-mechanism.md": "tests/test_how_to.py follows it",
    "docs/telemetry.md": "tests/browser/test_tutorial.py follows it",
    "docs/install.md": "makes an environment; the first thing that CI does",
    "docs/bench.md": "shows all options in brackets; tests/bench runs it",
    "docs/when-not-to-use.md": "writes a page of the repository; tests/test_documentation.py holds its figures",
    "docs/papers-data.md": "reads files that are not there; tests/lab/test_papers_data.py writes small ones",
    "docs/choices.md": HOURS,
    "docs/comparison.md": HOURS,
    "docs/equal-decoders.md": HOURS,
    "docs/fairness.md": HOURS,
    "docs/gains.md": HOURS,
    "docs/honesty.md": HOURS,
    "docs/predictions.md": HOURS,
    "docs/robustness-gains.md": HOURS,
}


@dataclass(frozen=True)
class Follow:
    """How a page is followed."""

    skipped: Mapping[str, str] = field(default_factory=dict)  # beginnings of commands, and why
    refused: tuple[str, ...] = ()
    after: Mapping[str, Callable[[Reader], None]] = field(default_factory=dict)
    before: Callable[[Reader], None] = lambda _: None
    served: bool = False  # whether a collector runs before the page begins
    python: bool = True
    smaller: Mapping[str, str] = field(default_factory=dict)  # numbers in Python blocks that would take minutes
    soak: bool = False


def many_report(name: str, people: int) -> Callable[[Reader], None]:
    """So many other people answer."""

    def work(reader: Reader) -> None:
        collector = reader.collector()
        view = collector.ask("GET", address(name))
        document = RoundDocument.from_document(view["round"]["document"], Campaign.from_document(view["campaign"]))
        for _ in range(people // 1000):
            batch = batch_of(document, 1000, ({"burger": 3.0, "fries": 2.0}, {"burger": 2.0}, {"pepsi": 5.0}, {}))
            collector.ask("POST", address(name, "reports"), json.loads(batch.to_json()))

    return work


def _week(reader: Reader) -> None:
    """The open week of the series: people answer, and seven days later it is over and counted."""
    collector = reader.collector()
    view = collector.ask("GET", address("weekly"))
    (window,) = view["campaign"]["rounds"]
    until = time.monotonic() + 60
    reader.wait((date.fromisoformat(window["opens"]) - _believed(reader)).days)
    _until(reader, "open", until)
    many_report("weekly", 1000)(reader)
    reader.wait(7)
    _until(reader, "folded", until)


def _believed(reader: Reader) -> date:
    return date.fromisoformat(reader.collector().ask("GET", "/v1/clock")["believed"][:10])


def _until(reader: Reader, state: str, until: float) -> None:
    """Wait until the round of the series has a state: the collector looks at its rounds every second."""
    while (found := reader.collector().ask("GET", address("weekly"))["round"]["state"]) != state:
        assert time.monotonic() < until, found
        time.sleep(0.1)


def _weeks(reader: Reader) -> None:
    """The weeks after the second, up to the first one of the next period; the hash of the very first is noted."""
    collector = reader.collector()
    first = next(one for one in collector.ask("GET", "/v1/campaigns")["campaigns"] if one["name"] == "weekly")
    reader.called["HASH-OF-THE-FIRST"] = first["hash"]
    for _ in range(3):
        document = next_document(Campaign.from_document(collector.ask("GET", address("weekly"))["campaign"]))
        collector.ask("POST", "/v1/campaigns", document)
        collector.ask("PATCH", address("weekly"), {"action": "open"})
        _week(reader)


def _wrong(reader: Reader) -> None:
    """The document with the four mistakes that docs/campaigns.md shows."""
    document = {
        **report_files.SNACKS,
        "name": "Snack survey",
        "enrolment": "sms",
        "protocol": {"name": "ssr", "epsilon": 1.5, "max_pairs": 2},
    }
    (reader.folder / "wrong.json").write_text(json.dumps(document))


def _snacks_open(reader: Reader) -> None:
    protocol = {"name": "ssr", "epsilon": "1", "max_pairs": 2}
    reader.collector().ask("POST", "/v1/campaigns", {**report_files.SNACKS, "protocol": protocol})
    reader.collector().ask("PATCH", address("snack-survey"), {"action": "open"})


def _exported(reader: Reader) -> None:
    """A folder of reports, and the document of their campaign."""
    (reader.folder / "reports").mkdir()
    document = report_files.first_round(report_files.SNACKS)
    report_files.written(reader.folder / "reports/one.parquet", report_files.reports(document, 300), document)
    (reader.folder / "campaign.json").write_text(json.dumps(report_files.SNACKS))


def _ratings(reader: Reader) -> None:
    """The example as Parquet."""
    import pyarrow.csv
    import pyarrow.parquet

    found = pyarrow.csv.read_csv(reader.folder / "examples/ratings.csv")
    pyarrow.parquet.write_table(found, reader.folder / "ratings.parquet")


def _mine(reader: Reader) -> None:
    """The reader's own mechanism, from the page."""
    text = (ROOT / "docs/record.md").read_text(encoding="utf-8")
    (reader.folder / "mine.py").write_text(text.partition("```python\n")[2].partition("```")[0], encoding="utf-8")


def _views(reader: Reader) -> None:
    """Baskets by shelf, and ratings with prices."""
    baskets = [("food/fruit/apple", 3), ("food/bread", 1), ("drink/tea", 2)]
    ratings = [("pizza/rating", 4), ("pizza/price", 12.5), ("tea/rating", 2), ("tea/price", 3)]
    for name, rows in (("baskets.csv", baskets), ("ratings.csv", ratings)):
        with (reader.folder / name).open("w", newline="") as file:
            written = csv.writer(file)
            written.writerow(("user", "key", "value"))
            written.writerows(
                (f"p{person}", *rows[(person + at) % len(rows)]) for person in range(300) for at in (0, 1)
            )


_OF_README = tuple(f"keyveil {one}" for one in ("certify", "audit", "simulate", "estimate", "compare"))
DEMO = {"keyveil demo": "tests/cli/test_demo.py runs it"}
FOLLOWED = {
    "README.md": Follow({**DEMO, "make": "what CI does"}, python=False),  # its Python runs in tests/test_wheel.py
    "docs/tutorial.md": Follow(),
    "docs/quickstart.md": Follow(DEMO | dict.fromkeys(_OF_README, "the same as in README, which is followed")),
    "docs/choose-epsilon.md": Follow(),
    "docs/recurring.md": Follow(served=True),
    "docs/campaigns.md": Follow(
        refused=("keyveil campaign check wrong.json",),
        after={
            "keyveil campaign open snack-survey": many_report("snack-survey", 2000),
            "keyveil campaign open weekly": _week,
            "keyveil campaign list": _weeks,
        },
        smaller={"* 500": "* 2"},
        before=_wrong,
    ),
    "docs/deployment.md": Follow(
        {
            "sudo": "changes the owner of files",
            "KEYVEIL_SITE": "Docker; tests/test_deployment.py reads its files",
            "keyveil campaign list --server": "the collector of a container, behind TLS",
            "createuser": "changes the machine's PostgreSQL; tests/postgres.py has one of its own",
            "pip install": "what CI does",
            "KEYVEIL_DATABASE_URL": "PostgreSQL; tests/collector run on it",
        },
        served=True,
    ),
    "docs/device.md": Follow(served=True, before=_snacks_open),
    "docs/engines.md": Follow(
        {
            "pip install": "what CI does",
            "keyveil tally reports/ --campaign campaign.json --engine spark": "tests/engines run Spark",
            "python -m venv": "packs an environment for a cluster",
            "export PYSPARK_PYTHON": "of a cluster",
            "cat >>": "of a cluster",
            "keyveil tally /shared": "of a cluster",
        },
        before=_exported,
        python=False,
    ),
    "docs/plan.md": Follow(),
    "docs/protocols.md": Follow(before=_ratings, python=False),
    "docs/simulate.md": Follow({"keyveil compare synthetic:suite": HOURS}, before=_ratings, python=False, soak=True),
    "docs/record.md": Follow(
        {"keyveil compare --preset single-item": HOURS, "keyveil compare --preset key-value": HOURS},
        before=_mine,
        python=False,
        soak=True,  # the parts of it run in tests/cli/test_record.py
    ),
    "docs/audit.md": Follow(
        {
            "keyveil audit --subject": "tests/cli/test_audit.py audits such a subject",
            ".venv/bin/python -m pytest": "the soak itself",
        },
        python=False,
    ),
    "docs/what-can-be-asked.md": Follow(),
    "docs/mechanisms/views.md": Follow({"keyveil campaign create --name shelf": "goes on in …"}, before=_views),
}
