"""`model=local`: the model of this configuration. See remote.py for the other one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class LocalModel:
    """The backbone, prompt, readout, orders and calibration of this configuration, in this process."""

    _target_: str = "reflex.remote.local.LocalModel"
    name: str = "local"
