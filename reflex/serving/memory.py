"""Memory that Python has freed goes back to the system while a server is idle."""

from __future__ import annotations

import ctypes
import gc


def give_back() -> None:
    """Collect cycles and return free heap pages; glibc otherwise keeps them after a burst of large bodies."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc; other systems have none
    if trim is not None:
        trim(0)
