from __future__ import annotations

import numpy as np

from keyveil.core.public import public_word
from keyveil.kernels.siphash import siphash_many, siphash_pairs

KEY = bytes(range(16))


def test_the_published_vector_of_sixteen_bytes() -> None:
    assert siphash_many(KEY, np.arange(16, dtype=np.uint8)[None]).tolist() == [0x3F2ACC7F57C29BDB]


def test_bulk_twin_and_single_hash_agree() -> None:
    messages = np.random.default_rng(1).integers(0, 256, (700, 16), dtype=np.uint8)  # two blocks and a part
    hashes = siphash_many(KEY, messages)
    assert hashes.tolist() == [public_word(message.tobytes(), KEY) for message in messages]
    start = np.arange(4, dtype=np.uint64)
    words = messages.view(np.uint64)
    assert np.array_equal(siphash_pairs.compiled(start, words), siphash_pairs.twin(start, words))
