"""Mends after which the same configuration trains otherwise than it did.

Each is named in the identity of the trainings it changes, and of no others: what was trained before it is
never taken for what would be trained now.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.readouts.base import used_readouts


def corrections(config: Mapping[str, Any]) -> list[str]:
    """Names of those that change the training of a resolved configuration."""
    found = []
    if "candidates" in used_readouts(config["readout"]):
        found.append("options read apart count as tokens")
    return found
