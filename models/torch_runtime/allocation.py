"""Bound the memory that a process keeps beside what it uses: the C library's arenas, and compiled kernels.

Of glibc every thread that allocates gets an arena of its own, up to eight for each core, and each keeps what was freed
in it. oneDNN compiles a kernel for each number of rows, and it and torch's layer above it keep the last 1,024: half a
megabyte each.
"""

from __future__ import annotations

import ctypes
import os
from typing import Final

_ARENAS: Final = 2
_M_ARENA_MAX: Final = -8  # <malloc.h>
_KERNELS: Final = "64"


def limit_kept_memory() -> None:
    """Bound arenas and kernels; call it before threads are started and torch is imported.

    Variables that are set already (``MALLOC_ARENA_MAX``, ``ONEDNN_PRIMITIVE_CACHE_CAPACITY``, ``LRU_CACHE_CAPACITY``)
    win. Without glibc there are no arenas to bound.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", _KERNELS)
    os.environ.setdefault("LRU_CACHE_CAPACITY", _KERNELS)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt(_M_ARENA_MAX, _ARENAS)
