"""How many bytes of bodies a server holds at once, counted as they arrive and as they unpack."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from reflex.errors import OverloadedError


class Held:
    """The bytes of all bodies in hand, at most `most`. Thread-safe."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.nbytes = 0
        self._lock = threading.Lock()

    @contextmanager
    def body(self) -> Iterator[Reservation]:
        """One body; what it held is free again at the end."""
        body = Reservation(self)
        try:
            yield body
        finally:
            self.add(-body.nbytes)

    def add(self, nbytes: int) -> None:
        with self._lock:
            self.nbytes += nbytes


class Reservation:
    """What one body has taken of what may be held."""

    def __init__(self, held: Held) -> None:
        self.held = held
        self.nbytes = 0

    def reach(self, nbytes: int) -> None:
        """The body has `nbytes` by now (it never gets smaller). Raises OverloadedError where all together
        are too many."""
        more = max(0, nbytes - self.nbytes)
        self.nbytes += more
        self.held.add(more)
        if self.held.nbytes > self.held.most:
            raise OverloadedError("too many requests at once; try again later", retry_after=1.0)
