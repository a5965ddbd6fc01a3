"""The pictures of the documentation, each by the command that draws it.

    python -m tools.pictures                     # says what there is
    python -m tools.pictures estimates plan      # draws some of them again
    python -m tools.pictures all                 # draws all of them; fairness takes minutes

``try-it`` is a photograph of a page, for which Chromium is needed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURES = "docs/pictures"
COMMANDS = {  # name of the picture: what follows python -m
    "estimates": (
        f"keyveil simulate examples/ratings.csv --mechanism ssr --epsilon 2 --low 1 --high 5 --seed 7 "
        f"--plot {PICTURES}/estimates.png"
    ),
    "plan": f"keyveil plan --users 20000 --keys 20 --pairs 3 --epsilon 1 --plot {PICTURES}/plan.png",
    "compare": (
        f"keyveil compare examples/ratings.csv --epsilon 0.5,1,2,4 --mechanisms kvue,pckv-ue,ssr --repeats 4 --seed 1 "
        f"--plot {PICTURES}/compare.png"
    ),
    "distributions": f"benchmarks.distributions --picture {PICTURES}/distributions.png",
    "fairness": "keyveil.lab.fairness_page docs/fairness.md",
    "bench-slopes": "keyveil.bench.page docs/bench-history.jsonl docs/bench.md",
}
PHOTOGRAPHS = {"try-it": "/try/"}  # name of the picture: address of a collector's page
SIZE = "900,1500"  # pixels of the window


def draw(name: str) -> Path:
    """Draw a picture again; returns where it is."""
    if name in PHOTOGRAPHS:
        _photograph(PHOTOGRAPHS[name], ROOT / PICTURES / f"{name}.png")
    else:
        subprocess.run([sys.executable, "-m", *COMMANDS[name].split()], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return ROOT / PICTURES / f"{name}.png"


def _photograph(address: str, path: Path) -> None:
    """A page of a collector that runs for as long as it takes, as Chromium shows it."""
    from keyveil.cli.local_collector import running_collector

    with (
        tempfile.TemporaryDirectory() as folder,
        running_collector(Path(folder) / "keyveil.db", Path(folder) / "log") as (server, _),
    ):
        browser = [
            "chromium",
            "--headless",
            "--no-sandbox",
            "--hide-scrollbars",
            "--disable-gpu",
            "--virtual-time-budget=5000",
        ]
        browser += [f"--window-size={SIZE}", f"--screenshot={path}", f"{server}{address}"]
        subprocess.run(browser, check=True, capture_output=True, timeout=120)


def main(arguments: Sequence[str]) -> int:
    """Draw the pictures that are named; without names, list them."""
    known = {**{name: f"python -m {words}" for name, words in COMMANDS.items()}, **PHOTOGRAPHS}
    wanted = list(known) if list(arguments) == ["all"] else list(arguments)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        print(f"There is no picture {', '.join(unknown)}; there are {', '.join(known)}.", file=sys.stderr)
        return 2
    for name in wanted:
        print(draw(name))
    if not wanted:
        for name, command in known.items():
            print(f"{name}: {command}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
