"""Seeds that belong to a description, so that a number depends on what is run and never on when or by whom."""

from __future__ import annotations

from hashlib import blake2b


def seed_of(seed: int, *words: object) -> int:
    """A seed of 63 bits for what the words describe."""
    text = repr((seed, *words)).encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big") >> 1
