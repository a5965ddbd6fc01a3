"""The files for operators fit the code: names of settings, ports, and what the containers may do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from keyveil.collector.settings import Settings
from tests.collector.campaigns import batch_of
from tests.collector.running import running

ROOT = Path(__file__).parents[1]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
DOCKERFILE = (ROOT / "Dockerfile").read_text()
# Of the proxy, of the image and of the command line.
SITE = {"KEYVEIL_SITE", "KEYVEIL_BASE", "KEYVEIL_SERVER", "KEYVEIL_TOKEN", "KEYVEIL_CONFIG", "KEYVEIL_WARM_KERNELS"}


def known(name: str) -> bool:
    return name in SITE or name.removeprefix("KEYVEIL_").lower() in Settings.model_fields


def test_every_setting_that_is_named_exists() -> None:
    page = (ROOT / "docs" / "deployment.md").read_text()
    for text in (page, DOCKERFILE, (ROOT / "compose.yaml").read_text()):
        names = set(re.findall(r"KEYVEIL_[A-Z_]+", text))
        assert names and all(known(name) for name in names), names


def test_containers_are_closed() -> None:
    collector = COMPOSE["services"]["collector"]
    assert collector["read_only"] is True and collector["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in collector["security_opt"] and "ports" not in collector
    assert COMPOSE["networks"]["inside"]["internal"] is True
    assert COMPOSE["services"]["database"]["networks"] == ["inside"]
    assert re.search(r"^USER 10001:10001$", DOCKERFILE, re.M) and "HEALTHCHECK" in DOCKERFILE


def test_services_name_only_what_is_declared() -> None:
    for service in COMPOSE["services"].values():
        assert set(service.get("secrets", [])) <= set(COMPOSE["secrets"])
        assert set(service["networks"]) <= set(COMPOSE["networks"])
        volumes = {volume.partition(":")[0] for volume in service.get("volumes", [])}
        assert volumes <= set(COMPOSE["volumes"])


def test_the_proxy_keeps_nothing_about_senders() -> None:
    proxy = COMPOSE["configs"]["caddyfile"]["content"]
    lines = [line.strip() for line in proxy.splitlines() if not line.strip().startswith("#")]
    assert not any(line.startswith("log") for line in lines)
    for header in ("X-Forwarded-For", "User-Agent", "Referer", "Cookie"):
        assert f"header_up -{header}" in lines


def test_containers_are_bounded_and_backed_up() -> None:
    services = COMPOSE["services"]
    for service in services.values():
        assert service["mem_limit"] and service["logging"]["options"]["max-size"]
    job = services["backup"]
    assert "keyveil backup" in job["command"][0] and job["volumes"] == ["backups:/backups"] and job["read_only"]
    assert "/readyz" in DOCKERFILE and "healthcheck" not in services["collector"]


def test_alerts_and_dashboard_name_numbers_that_exist(tmp_path: Path) -> None:
    with running(tmp_path) as collector:
        document = collector.filled()
        body = batch_of(document, 1).to_json()
        for data in (body, body, b"{"):
            collector.ask("POST", "/v1/campaigns/snacks/reports", data)
        text = collector.ask("GET", "/metrics").body.decode()
    there = set(re.findall(r"^(keyveil_\w+)", text, re.M))
    rules = yaml.safe_load((ROOT / "deploy" / "alerts.yaml").read_text())["groups"][0]["rules"]
    dashboard = json.loads((ROOT / "deploy" / "grafana.json").read_text())
    page = (ROOT / "docs" / "deployment.md").read_text()
    asked = [rule["expr"] for rule in rules]
    asked += [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    for expression in asked:
        names = set(re.findall(r"keyveil_\w+", expression))
        assert names <= there, names - there
    assert all(rule["annotations"]["summary"] and rule["labels"]["severity"] for rule in rules)
    documented = set(re.findall(r"`(keyveil_\w+)`", page))
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in there}
    assert documented == families
