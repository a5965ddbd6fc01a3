from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from keyveil.core.public import public_index, public_indices, public_word, public_words_covering

KEY = bytes(range(16))


def test_the_published_vector_of_siphash_2_4() -> None:
    assert public_word(bytes(range(16)), KEY) == 0x3F2ACC7F57C29BDB


@given(word=st.integers(0, (1 << 64) - 1), bound=st.integers(1, 1 << 32))
def test_single_and_bulk_indices_agree_and_stay_below_the_bound(word: int, bound: int) -> None:
    index = public_index(word, bound)
    assert 0 <= index < bound
    assert public_indices(np.array([word], dtype=np.uint64), bound).tolist() == [index]


@given(bound=st.integers(1, 3000))
def test_covering_words_visit_every_index_once(bound: int) -> None:
    words = public_words_covering(bound)
    assert [public_index(word, bound) for word in words] == list(range(bound))
    assert max(words) < 1 << 64
