"""Packages that offer mechanisms, as an installer would leave them behind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def offer(folder: Path, package: str, entries: Mapping[str, str], group: str = "keyveil.mechanisms") -> None:
    """Write the metadata of an installed package with these entry points into a folder of the path."""
    metadata = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = [f"{name} = {where}" for name, where in entries.items()]
    (metadata / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
