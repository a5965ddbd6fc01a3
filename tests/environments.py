"""Environments with the wheel and exactly what its metadata asks for, without a network.

Each is a bare virtual environment. The distributions that the wheel's own requirements name, and theirs in turn, are
linked into it from the environment that runs the tests; whatever a requirement does not name is not there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from functools import cache
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]


def built_wheel(folder: Path) -> Path:
    """The wheel of this source tree."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def metadata_of(wheel: Path) -> Distribution:
    (folder,) = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" in name}
    return PathDistribution(zipfile.Path(wheel, f"{folder}/"))


def named_by(package: Distribution, extras: frozenset[str]) -> list[Requirement]:
    """What a distribution asks for on this machine with these extras."""
    requirements = [Requirement(line) for line in package.requires or ()]
    return [
        one
        for one in requirements
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in (extras or {""}))
    ]


def closure(package: Distribution, extras: frozenset[str]) -> dict[str, Distribution]:
    """By name, the installed distributions that a package needs, directly or through others."""
    found: dict[str, Distribution] = {}
    waiting = [*named_by(package, frozenset()), *named_by(package, extras)]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        wanted = waiting.pop()
        name, more = canonicalize_name(wanted.name), frozenset(wanted.extras)
        if (name, more) in seen:
            continue
        seen.add((name, more))
        installed = distribution(name)
        assert wanted.specifier.contains(installed.version, prereleases=True), f"{wanted}, but {installed.version}"
        found[name] = installed
        waiting += [*named_by(installed, frozenset()), *named_by(installed, more)]
    return found


@cache
def unpacked(wheel: Path) -> Path:
    """The folder in which the content of a wheel lies: once for all environments, so that it is compiled once."""
    folder = wheel.with_suffix(".unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


class Environment:
    """A virtual environment with the code of a wheel and what its metadata, or others, and some extras bring."""

    def __init__(self, folder: Path, wheel: Path, *extras: str, metadata: Distribution | None = None) -> None:
        venv.create(folder, with_pip=False, symlinks=True)
        paths = sysconfig.get_paths("venv", {"base": str(folder), "platbase": str(folder)})
        self.python = Path(paths["scripts"], "python")
        self.site = Path(paths["purelib"])
        for top in unpacked(wheel).iterdir():
            (self.site / top.name).symlink_to(top)
        for package in closure(metadata or metadata_of(wheel), frozenset(extras)).values():
            self._link(package)

    def _link(self, package: Distribution) -> None:
        assert package.files is not None, f"{package.name} does not say which files it has"
        tops = {file.parts[0] for file in package.files} - {"..", "__pycache__"}
        for top in tops:
            target = self.site / top
            if not target.exists():
                target.symlink_to(Path(str(package.locate_file(top))).resolve())

    def run(self, *arguments: str, kernels: str = "") -> subprocess.CompletedProcess[str]:
        """Python with these arguments; it sees nothing of the environment that runs the tests."""
        surroundings = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KEYVEIL"))}
        if kernels:
            surroundings["KEYVEIL_KERNELS"] = kernels
        command = [str(self.python), "-P", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=surroundings, cwd=self.site.parent)

    def told(self, script: str, *arguments: str) -> Any:
        """What a script prints as JSON."""
        done = self.run("-c", script, *arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)
