"""The machine that measurements belong to."""

from __future__ import annotations

import os
import platform


def machine() -> str:
    """The processor, its cores and memory, and the Python that ratios belong to."""
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
    except OSError:
        pass  # not Linux
    memory = "" if (known := memory_bytes()) is None else f", {known / 2**30:.0f} GB"
    return f"{name}, {os.cpu_count()} cores{memory}, {platform.system()}, Python {platform.python_version()}"


def memory_bytes() -> int | None:
    """Bytes of memory, where the system says."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
