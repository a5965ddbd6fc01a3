"""The example data set: invented people who rate snacks, written to ``examples/ratings.csv``.

    python -m tools.example_data examples/ratings.csv

Nobody answered: everything is drawn from the laws below with one seed, so that the file can be made again, to the byte.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from keyveil.cli.demo import SNACKS

PEOPLE, SEED = 2000, 20261118
TOGETHER = ("burger", "fries", 0.6)  # who buys the first buys the second with this probability


def rows() -> list[tuple[str, str, int]]:
    """User, key and rating, a row for every pair."""
    generator, found = np.random.default_rng(SEED), []
    first, second, share = TOGETHER
    for person in range(PEOPLE):
        drawn = generator.random(len(SNACKS))
        buys = {key: draw < frequency for (key, (frequency, _)), draw in zip(SNACKS.items(), drawn, strict=True)}
        buys[second] = bool(generator.random() < (share if buys[first] else SNACKS[second][0] / 2))
        for key, (_, mean) in SNACKS.items():
            rating = int(np.clip(np.rint(generator.normal(mean, 0.9)), 1, 5))
            if buys[key]:
                found.append((f"p{person:04d}", key, rating))
    return found


def text() -> str:
    """The file."""
    return "user,key,value\n" + "".join(f"{user},{key},{rating}\n" for user, key, rating in rows())


def main(arguments: Sequence[str]) -> int:
    """Write the file that is named."""
    path = Path(arguments[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
