"""Names the blocks of a token sequence so that equal prefixes get equal names. Pure; shared by every prefix cache."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence


def block_hashes(token_ids: Sequence[int], block_size: int, cache_salt: str | None) -> list[bytes]:
    """One digest per full block, in order. Each covers the salt and every token up to the block's end."""
    previous = b"" if cache_salt is None else b"salt:" + cache_salt.encode()
    digests = []
    for start in range(0, len(token_ids) - block_size + 1, block_size):
        block = array("q", token_ids[start : start + block_size]).tobytes()
        # The length keeps a salt from being mistaken for part of a block.
        previous = hashlib.blake2b(len(previous).to_bytes(8, "little") + previous + block, digest_size=16).digest()
        digests.append(previous)
    return digests
