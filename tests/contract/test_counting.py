"""Counting in bulk: public bytes that say nothing are not hashed, and tables are added to in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from keyveil.core.report import Reports
from keyveil.kernels.siphash import siphash_many
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms import counting
from keyveil.mechanisms.base import Mechanism
from keyveil.testing.people import people
from tests.contract.cases import IDS, VARIANTS, usual

PEOPLE = 300


def reported(mechanism: Mechanism) -> Reports:
    return mechanism.perturb_many(people(mechanism, PEOPLE, 5).records(mechanism.schema), SeededCoins(3))


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=IDS)
def test_tables_are_added_to_as_blocks_are_folded(
    name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    mechanism = usual(name, **options)
    reports = reported(mechanism)
    words = mechanism.read_words(reports.publics)
    folded = mechanism.fold(reports.payloads, words)
    added = np.zeros(mechanism.tally_shape, dtype=np.int64)
    mechanism.add(added, reports.payloads, words)
    assert np.array_equal(added, folded)
    monkeypatch.setattr(counting, "BLOCK", 70)  # several blocks, shared by threads
    for threads in (1, 2, 3):
        assert np.array_equal(mechanism.tally(reports, threads).counts, folded)


def test_who_reads_no_words_answers_and_counts_alike_at_every_word() -> None:
    made = [usual(name, **options) for name, options in VARIANTS]
    silent = [mechanism for mechanism in made if not mechanism.reads_words and mechanism.word_size == 1]
    assert {"ssr", "wsr", "pckv-ue", "pckv-grr", "kv-sw", "grr", "oue"} <= {mechanism.name for mechanism in silent}
    for mechanism in silent:
        reports, other = reported(mechanism), np.full(PEOPLE, 0x9E3779B97F4A7C15, dtype=np.uint64)
        hashed = siphash_many(mechanism.fingerprint[:16], reports.publics)
        records = people(mechanism, PEOPLE, 5).records(mechanism.schema)
        expected = mechanism.respond_many(records, mechanism.read_words(reports.publics), SeededCoins(4))
        for words in (hashed, other):
            assert np.array_equal(mechanism.fold(reports.payloads, words), mechanism.tally(reports).counts)
            assert np.array_equal(mechanism.respond_many(records, words, SeededCoins(4)), expected)
            one, two = (mechanism.respond(records.pairs(0), word, SeededCoins(5)) for word in (0, int(words[0])))
            assert one == two
