"""The schema of `conf/`: every group is typed, so a misspelt key raises wherever it stands.

Each config dataclass lives with what it configures. This module puts them together and registers them in
Hydra's ConfigStore as `<group>/<module>_schema`; a YAML starts from its schema (`defaults: [chat_schema,
_self_]`). Imports no torch.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING

from reflex.backbones.config import BackboneConfig, DeviceConfig
from reflex.contract import TYPES
from reflex.discover import modules, targets
from reflex.forward.config import ForwardConfig
from reflex.places import runs_folder
from reflex.prompts.orders import OrdersConfig
from reflex.serving.config import ServeConfig
from reflex.tasks.gate import GateConfig
from reflex.tracking.config import WandbTracker
from reflex.training.trainer_config import TrainerConfig

ROOMS = {
    "model": "reflex.remote",
    "prompt": "reflex.prompts.styles",
    "benchmark": "reflex.benchmarks",
    "calibration": "reflex.calibration",
    "task": "reflex.tasks",
    "mixture": "reflex.data",
    "train": "reflex.training",
}
"""Config group → room whose modules provide its schemas."""


@dataclass
class VerdictConfig:
    """An experiment's decision rule, written before its first result.

    Candidates are compared with the baseline (cells by name, such as `orders=two`) on `metric`, paired on
    the same items; `margin` is the smallest difference that counts, in units of the metric.
    """

    metric: str = "nll"
    baseline: str = MISSING
    candidates: list[str] = field(default_factory=list)
    comparison: str = "paired_bootstrap"
    margin: float = 0.0


@dataclass
class RootConfig:
    """The whole run. `experiment` and `debug` files change these keys and nothing else.

    `a`, `b`: recorded runs that `task=compare` compares. `run`: the recorded run or release that
    `task=gate` checks.
    """

    model: Any = MISSING
    backbone: Any = MISSING
    device: Any = MISSING
    prompt: Any = MISSING
    readout: Any = MISSING
    orders: Any = MISSING
    calibration: Any = MISSING
    benchmark: Any = MISSING
    task: Any = MISSING
    tracker: Any = MISSING
    serve: Any = None
    mixture: Any = None
    train: Any = None
    trainer: Any = None
    forward: ForwardConfig = field(default_factory=ForwardConfig)
    verdict: VerdictConfig | None = None
    seed: int = 0
    force: bool = False
    smoke: bool = False
    a: str | None = None
    b: Any = None
    run: str | None = None
    gate: GateConfig = field(default_factory=GateConfig)
    runs_dir: str = field(default_factory=lambda: str(runs_folder()))
    results_dir: str = "results"


@functools.cache
def readout_config() -> type:
    """The `readout` group: a readout's name per question type, and every readout's own options."""
    types = [(kind, str, field(default="label_tokens")) for kind in TYPES]
    own = [
        (name, module.Config, field(default_factory=module.Config))
        for name, module in modules("reflex.readouts", "\nclass Config")
    ]
    made = dataclasses.make_dataclass("ReadoutConfig", [*types, *own])
    made.__module__ = __name__
    return made


def __getattr__(name: str) -> type:
    """`ReadoutConfig`: launchers pickle the schemas, and a made class must be found by its name."""
    if name == "ReadoutConfig":
        return readout_config()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def known_targets() -> frozenset[str]:
    """What the `_target_` of a configuration can be: those of the rooms' schemas."""
    key = "_target_"
    return frozenset(getattr(schema, key) for room in ROOMS.values() for _, schema in targets(room))


def register() -> None:
    """Put every schema into Hydra's ConfigStore. Safe to call twice."""
    store = ConfigStore.instance()
    store.store(name="root_schema", node=RootConfig)
    store.store(group="backbone", name="backbone_schema", node=BackboneConfig)
    store.store(group="device", name="device_schema", node=DeviceConfig)
    store.store(group="orders", name="orders_schema", node=OrdersConfig)
    store.store(group="tracker", name="tracker_schema", node=WandbTracker)
    store.store(group="serve", name="serve_schema", node=ServeConfig)
    store.store(group="trainer", name="trainer_schema", node=TrainerConfig)
    store.store(group="readout", name="readout_schema", node=readout_config())
    for group, room in ROOMS.items():
        for name, schema in targets(room):
            store.store(group=group, name=f"{name}_schema", node=schema)
