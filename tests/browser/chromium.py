"""A real browser for tests: Debian's Chromium with an empty profile, driven by Playwright over its debugging port."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Playwright

FLAGS = (
    "--headless",
    "--hide-scrollbars",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-background-timer-throttling",  # two tabs do something at the same moment
    "--disable-renderer-backgrounding",
    "--remote-debugging-port=0",
)
_START = 60.0  # seconds


def program() -> str:
    """Where Chromium is; without it these tests fail, and are not skipped."""
    found = shutil.which("chromium")
    assert found is not None, "There is no chromium on this machine: `make system` installs Debian's package."
    return found


@dataclass(frozen=True)
class Chromium:
    """A browser that runs: its usual window, whose profile is a folder, and as many private windows as are opened."""

    process: subprocess.Popen[bytes]
    browser: Browser

    @property
    def usual(self) -> BrowserContext:
        return self.browser.contexts[0]

    def private(self, **options: Any) -> BrowserContext:
        """A window whose storage is gone when it is closed, as in Incognito."""
        return self.browser.new_context(**options)

    def keep_storage(self, origin: str, setting: str = "granted") -> None:
        """Promise pages of an origin that their storage is kept, as when people install a page."""
        permission = {"permission": {"name": "persistent-storage"}, "setting": setting, "origin": origin}
        self.browser.new_browser_cdp_session().send("Browser.setPermission", permission)

    def forget(self, origin: str) -> None:
        """Clear the data of an origin, as people do in the settings."""
        blank = self.usual.pages[0]
        data = {"origin": origin, "storageTypes": "all"}
        self.usual.new_cdp_session(blank).send("Storage.clearDataForOrigin", data)

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.kill()
        self.process.wait(30)


@contextmanager
def chromium(playwright: Playwright, profile: Path, preferences: dict[str, Any] | None = None) -> Iterator[Chromium]:
    """Chromium on a profile; preferences are written before its first start."""
    if preferences is not None:
        (profile / "Default").mkdir(parents=True)
        (profile / "Default" / "Preferences").write_text(json.dumps(preferences))
    port = profile / "DevToolsActivePort"
    port.unlink(missing_ok=True)
    process = subprocess.Popen(
        [program(), *FLAGS, f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + _START
        while not port.exists() or "\n" not in port.read_text():
            assert process.poll() is None, "Chromium ended at once."
            assert time.monotonic() < until, "Chromium does not start."
            time.sleep(0.02)
        browser = playwright.chromium.connect_over_cdp(f"http://127.0.0.1:{port.read_text().split()[0]}")
        yield Chromium(process, browser)
        if process.poll() is None:
            browser.close()
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(30)
