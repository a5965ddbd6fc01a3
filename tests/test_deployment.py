"""The files for operators fit the code: names of settings, ports, and what the containers may do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from keyveil.collector.settings import Settings

ROOT = Path(__file__).parents[1]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
DOCKERFILE = (ROOT / "Dockerfile").read_text()
# Of the proxy, of the image and of the command line.
SITE = {"KEYVEIL_SITE", "KEYVEIL_BASE", "KEYVEIL_SERVER", "KEYVEIL_TOKEN", "KEYVEIL_CONFIG"}


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
