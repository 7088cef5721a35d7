"""`task=train`: a mixture through the one forward, to an adapter and heads in the run's folder.

    python -m reflex.run task=train mixture=embedded readout=pointer
    python -m reflex.run experiment=embedded_release task=train

The same command continues a run that was stopped, wherever it was stopped. With `backbone.adapter` (and
`readout.NAME.weights`) of a finished training, LoRA goes on from there instead of from nothing.
"""

from __future__ import annotations

import logging
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from reflex.errors import ConfigError
from reflex.files import write_atomic
from reflex.tasks.begun import begun_facts, check_same, write_begun
from reflex.tasks.cells import cell_lock
from reflex.tasks.identity import PINNED, Sweep, as_trained, run_identity
from reflex.tasks.lineage import CONFIG, MIXTURE, RESULT, ROWS, before, begun_with, read_json
from reflex.tracking.record import json_text

if TYPE_CHECKING:
    from reflex.data.rows import Row
    from reflex.model import DecisionModel
    from reflex.training.config import TrainConfig
    from reflex.training.module import TrainingModule

log = logging.getLogger(__name__)

MADE = (RESULT, "adapter", "backbone", "heads.safetensors")
"""What a training leaves to be used."""


@dataclass
class Train:
    """Config and task in one; what varies is in the `mixture`, `train` and `trainer` groups."""

    _target_: str = "reflex.tasks.train.Train"
    name: str = "train"

    def run(self, cfg: DictConfig) -> int:
        """Train, or continue, or report that it is done. Raises ReflexError for what a user can mend."""
        from reflex.training.processes import is_child

        cfg = as_trained(cfg)
        folder, identity = training_identity(cfg)
        if is_child():  # of trainer=ddp: the first process keeps the folder
            fit(build_training(cfg, folder), cfg, folder)
            return 0
        with cell_lock(folder, str(folder)):
            config = train_config(cfg)
            if config.fresh and not begun_in_sweep(folder):
                set_aside(folder)
            check_same(folder, cfg)
            if read_json(folder / RESULT) is not None:
                log.info("already trained: %s (train.fresh=true trains again)", folder)
                return 0
            return self._run(cfg, folder, identity)

    def _run(self, cfg: DictConfig, folder: Path, identity: Any) -> int:
        from reflex.build import to_object
        from reflex.tracking.wandb_run import wandb_run
        from reflex.training.trainer import new_trainer

        new_trainer(cfg)  # what it refuses need not wait for rows and model
        write_begun(folder, cfg)
        module = build_training(cfg, folder)
        log.info(
            "%d rows, %d steps, %d tokens -> %s",
            len(module.rows), len(module.plan.steps), module.plan.total_tokens, folder,
        )  # fmt: skip
        started = time.perf_counter()
        with wandb_run(to_object(cfg.tracker), identity, folder) as tracker:
            fit(module, cfg, folder, tracker.logger)
            if module.step < len(module.plan.steps):
                # Whatever stopped it early: neither command nor run may look done.
                raise KeyboardInterrupt
            save_result(module, cfg, folder, time.perf_counter() - started)
            made = (folder / name for name in MADE)
            tracker.log_training({path.name: path for path in made if path.exists()})
        print(f"trained: {folder}")
        return 0


def train_config(cfg: DictConfig) -> TrainConfig:
    """The `train` group. Raises ConfigError when it or the mixture was not chosen."""
    if cfg.get("mixture") is None:
        raise ConfigError("mixture: choose what to train on, e.g. mixture=embedded")
    if cfg.get("train") is None:
        raise ConfigError("train: choose how to train, e.g. train=lora")
    config: TrainConfig = OmegaConf.to_object(cfg.train)  # type: ignore[assignment]
    if config.method == "frozen":
        raise ConfigError("train=frozen: trains nothing; choose how to train, e.g. train=lora")
    return config


def training_identity(cfg: DictConfig) -> tuple[Path, Any]:
    """Where this configuration trains, the same folder whenever it is started, and as which cell."""
    from reflex.backbones.dtype import resolve_dtype
    from reflex.backbones.locate import locate
    from reflex.build import to_object

    config = asdict(train_config(cfg))
    files = locate(to_object(cfg.backbone))
    facts = {
        "weights": files.weights_sha256,
        "adapter": files.adapter_sha256,
        "dtype": resolve_dtype(to_object(cfg.device)),
        "prompt": instantiate(cfg.prompt).fingerprint(),
        "mixture": OmegaConf.to_container(cfg.mixture, resolve=True),
        "train": {key: value for key, value in config.items() if key not in PINNED["train"]},
    }
    # What a training has none of is no part of its name, which is older than these facts.
    facts |= {key: each for key, each in begun_facts(cfg).items() if each and key != "adapter"}
    identity = run_identity(cfg, facts)
    return Path(cfg.runs_dir) / (config["name"] or identity.hash[:16]), identity


def begun_in_sweep(folder: Path) -> bool:
    """Whether another cell of the sweep that is running began the training in `folder`, maybe in another process."""
    sweep, began = Sweep.from_env(), folder / CONFIG
    return sweep is not None and began.is_file() and began.stat().st_mtime >= sweep.started


def set_aside(folder: Path) -> None:
    """Move what an earlier run left into `<folder>.old-N`, the sign that it is done first."""
    left = sorted(
        (path for path in folder.iterdir() if path.name != ".lock"),
        key=lambda path: path.name != RESULT,
    )
    if not left:
        return
    number = 1
    while (old := folder.with_name(f"{folder.name}.old-{number}")).exists():
        number += 1
    old.mkdir()
    for path in left:
        path.rename(old / path.name)
    log.info("the earlier run is in %s", old)


def build_training(cfg: DictConfig, folder: Path) -> TrainingModule:
    """Model with its trained parts, rows, plan: everything `fit` needs."""
    from lightning import seed_everything

    from reflex.build import build_model
    from reflex.training.batches import plan_training
    from reflex.training.module import TrainingModule, prepare
    from reflex.training.save import load_adapter

    config = train_config(cfg)
    rows = training_rows(cfg, folder)
    seed_everything(cfg.seed, verbose=False)
    begun = begun_with(cfg) if config.method == "lora" else None
    plain = cfg if begun is None else _without_adapter(cfg)
    model: DecisionModel = build_model(plain, as_stored=config.method == "lora")
    prepare(model, config, cfg.seed)
    if begun is not None:
        load_adapter(model.backbone.model, begun, config.lora)
        for name in model.heads:
            if getattr(cfg.readout, name).weights is None:
                log.warning("readout.%s: the adapter goes on, but its head begins untrained", name)
    compiled, plan = plan_training(model, rows, config)
    return TrainingModule(model, rows, compiled, plan, config)


def _without_adapter(cfg: DictConfig) -> DictConfig:
    plain: DictConfig = cfg.copy()
    plain.backbone.adapter = None
    return plain


def training_rows(cfg: DictConfig, folder: Path) -> list[Row]:
    """The run's rows: built once, written to its folder, and from then on read from there.

    A resumed run thus trains on what it began with, whatever happened to the sources since.
    """
    from reflex.data.contamination import assert_clean
    from reflex.data.mixture import load_mixture
    from reflex.data.mixture_files import write_checked
    from reflex.data.rows import read_jsonl

    path = folder / ROWS
    if not path.is_file():
        mixture = load_mixture(OmegaConf.to_object(cfg.mixture))  # type: ignore[arg-type]
        write_atomic(folder / MIXTURE, json_text(mixture.facts()).encode())
        write_checked(path, mixture.train_rows())
    rows = read_jsonl(path)
    sources = {row.source for row in rows}
    if (begun := begun_with(cfg)) is not None:
        earlier = before(folder, begun.parent) or {}
        sources.update(earlier.get("mixture", {}).get("sources", {}))
    assert_clean(sorted(sources), cfg.mixture.allow)
    return rows


def fit(module: TrainingModule, cfg: DictConfig, folder: Path, logger: Any = None) -> None:
    """Run the planned steps that are still to do. Ctrl-C is KeyboardInterrupt."""
    from reflex.evaluation.suite import interruptible
    from reflex.training.progress import Checkpoints, Progress
    from reflex.training.trainer import new_trainer

    cells = module.model.backbone.cells
    cells.clear()
    callbacks = [
        Checkpoints(folder / "checkpoints", module.config),
        Progress(folder, module.config, cells),
    ]
    trainer = new_trainer(
        cfg,
        logger=logger or False,
        callbacks=callbacks,
        log_every_n_steps=module.config.log_steps,
        default_root_dir=folder,
    )
    with interruptible():
        trainer.fit(module)


def save_result(module: TrainingModule, cfg: DictConfig, folder: Path, wall_s: float) -> None:
    """Adapter, heads and `training.json`, which is written last: its presence means done."""
    from reflex.training.save import save_adapter, save_backbone, save_heads

    config = module.config
    adapter = None
    if config.method == "lora":
        import torch

        save_adapter(
            module.model.backbone.model,
            folder / "adapter",
            config.lora,
            cfg.backbone.path,
            getattr(torch, config.save_dtype),
        )
        adapter = "adapter"
    elif config.method == "full":
        save_backbone(module.model.backbone, folder / "backbone")
    heads = save_heads(module.model, folder / "heads.safetensors")
    facts = module.model.backbone.facts
    begun = begun_with(cfg)
    result = {
        "backbone": asdict(facts),
        "adapter": adapter,
        "heads": heads,
        "steps": len(module.plan.steps),
        "rows": len({i for step in module.plan.steps for micro in step for i in micro}),
        "tokens": module.plan.total_tokens,
        "plan_sha256": module.plan.fingerprint(),
        "prompt": module.model.style.fingerprint(),
        "went_on_from": begun and str(begun.parent),
        "wall_s_of_last_start": round(wall_s, 1),
    }
    write_atomic(folder / RESULT, json_text(result).encode())
