"""Every table and figure of the five papers can be set up as it was run: 43 of them, each at a few people.

The set-ups are those of ``keyveil reproduce`` (``lab.experiments``), at the two ends of their axes, as published.
Nothing is said here about errors: a row fails if a set-up is refused or a number is missing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from keyveil.lab.experiments.catalogue import IDS, experiment
from keyveil.lab.experiments.cells import measure
from keyveil.lab.experiments.plan import planned

FINDS_KEYS = "privkvm-star"  # its second phase is about keys that it has found: among 300 people it may find none
ENOUGH = {"li-fig9": 3000}  # people of whom somebody reports some of a thousand keys
COUNTS = {"ye": 12, "sun": 8, "li": 9, "dong": 4, "wang": 10}


def test_there_is_a_row_for_every_table_and_figure() -> None:
    papers = [id.partition("-")[0] for id in IDS]
    assert {paper: papers.count(paper) for paper in papers} == COUNTS
    assert len(set(IDS)) == 43


def test_there_are_at_least_sixty_claims_of_the_papers() -> None:
    claims = [claim for id in IDS for claim in experiment(id).claims]
    assert sum(not claim.ours for claim in claims) >= 60
    assert all(experiment(id).claims for id in IDS)
    assert all(claim.text[0].isalpha() and claim.text.endswith((".", ")")) for claim in claims)


@pytest.mark.parametrize("id", IDS)
def test_a_set_up_of_the_papers_is_accepted(id: str) -> None:
    cells = [cell for cell in planned(experiment(id), "tiny", seed=1).cells if not cell.matched and cell.first == 0]
    for cell in cells:
        done = measure(replace(cell, n=ENOUGH.get(id, min(cell.n, 300)), last=1))
        assert "refused" not in done, done["refused"]
        for name, rows in done["values"].items():
            assert np.isfinite(rows).all() or cell.who == FINDS_KEYS, f"{name} of {cell.title}: {rows}"
