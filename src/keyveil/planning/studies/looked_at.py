"""Cells of the studies whose results were seen before the rules that they measure were fixed.

The rules are predictions after shrinkage, the errors of estimates in shrinkage, small caps where a guess is better, and
drawn estimates (docs/decisions, 158, 159, 172 and 173). What these cells show is no test of the rules, so studies
measure them last and tell the others apart.
"""

from __future__ import annotations

import zlib

LOOKED_AT = {
    "0.5": (
        "activity complete_journey_sample dependent gauss gaussian linear-beta linear-s lone msnbc_page_categories "
        "peaks pckv-gg plaw plaw-beta survey tail"
    ),
    "1": (
        "activity baskets complete_journey_sample dependent gauss gaussian grid linear-beta linear-s lnr-beta lone "
        "online_retail_orders plaw ratings skewed survey uniform-beta womens_clothing_reviews zipf zipf-beta"
    ),
    "2": (
        "baskets complete_journey_sample dependent emoji_sentiment linear-beta linear-s lnr lone online_retail_units "
        "peaks plaw ratings skewed sparse survey"
    ),
    "4": (
        "activity constant dependent heavy linear-beta linear-s movietweetings_100k normal-beta pckv-uu uniform "
        "womens_clothing_reviews zipf"
    ),
}
"""By ε, the names of data sets, in one text."""


def looked_at(data: str, epsilon: str) -> bool:
    """Whether a cell was."""
    return data in LOOKED_AT.get(epsilon, "").split()


def drawn(seed: int, data: str, epsilon: str) -> tuple[bool, int]:
    """The place of a cell in the order that a seed draws: the cells that were looked at come last."""
    return looked_at(data, epsilon), zlib.crc32(f"{seed} {data} {epsilon}".encode())
