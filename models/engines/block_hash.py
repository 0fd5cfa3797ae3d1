"""Hash the blocks of a token sequence so that equal prefixes have equal digests.

Pure; shared by every prefix cache.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence


def block_hashes(
    token_ids: Sequence[int], block_size: int, cache_salt: str | None, known: Sequence[bytes] = ()
) -> list[bytes]:
    """Return one digest per full block, in order.

    Each covers the salt and every token up to the block's end. ``known`` are the digests of the first blocks, from an
    earlier call for a prefix of the same tokens.
    """
    digests = list(known)
    root = b"open" if cache_salt is None else b"salt" + cache_salt.encode("utf-8", errors="surrogatepass")
    previous = digests[-1] if digests else hashlib.blake2b(root, digest_size=16).digest()
    for start in range(len(digests) * block_size, len(token_ids) - block_size + 1, block_size):
        block = array("q", token_ids[start : start + block_size]).tobytes()
        previous = hashlib.blake2b(previous + block, digest_size=16).digest()
        digests.append(previous)
    return digests
