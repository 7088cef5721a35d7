"""A hash of text that is the same on every machine and Python: what splits, orders and folds are drawn by."""

from __future__ import annotations

import hashlib


def stable_hash(key: str, salt: str) -> int:
    """64 bits of blake2b over salt and key."""
    data = f"{salt}\x1f{key}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")
