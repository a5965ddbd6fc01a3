"""Cells of the studies whose results were seen before the rules that they measure were fixed.

The rules are predictions after shrinkage and the errors of estimates in shrinkage (docs/decisions, 158 and 159). What
these cells show is no test of the rules, so studies measure them last and tell the others apart.
"""

from __future__ import annotations

import zlib

LOOKED_AT = {
    "0.5": "dependent gauss gaussian linear-beta lone msnbc_page_categories pckv-gg plaw plaw-beta survey tail",
    "1": (
        "baskets complete_journey_sample gauss grid linear-beta lnr-beta lone online_retail_orders plaw ratings "
        "skewed survey zipf zipf-beta"
    ),
    "2": "baskets dependent emoji_sentiment linear-s lnr lone online_retail_units peaks plaw ratings skewed sparse",
    "4": "activity constant heavy movietweetings_100k normal-beta pckv-uu uniform womens_clothing_reviews zipf",
}
"""By ε, the names of data sets, in one text."""


def looked_at(data: str, epsilon: str) -> bool:
    """Whether a cell was."""
    return data in LOOKED_AT.get(epsilon, "").split()


def drawn(seed: int, data: str, epsilon: str) -> tuple[bool, int]:
    """The place of a cell in the order that a seed draws: the cells that were looked at come last."""
    return looked_at(data, epsilon), zlib.crc32(f"{seed} {data} {epsilon}".encode())
