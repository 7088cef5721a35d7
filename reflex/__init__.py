"""reflex: a research framework for System One decision models.

import reflex
decider = reflex.load("runs/1a2b…")          # a recorded run, or overrides: reflex.load(["orders=two"])
decider.answer({"state": "…", "questions": {"q": {"type": "noul", "instructions": "…?"}}})
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reflex.decider import Decider
    from reflex.remote.client import RemoteDecider

__version__ = "0.1.0"
__all__ = ["load"]


def load(run: Any = ()) -> Decider | RemoteDecider:
    """The decider of a recorded run (its folder, hash or prefix), a composed config, or overrides.

    Nothing heavy is imported before the first call. Raises ReflexError, one line, when the run or a
    key does not exist.
    """
    from reflex.loading import load_decider

    return load_decider(run)
