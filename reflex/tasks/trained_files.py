"""The trained and fitted files a configuration puts to use: they join the run's artifact in W&B."""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig

from reflex.calibration.fitted import FILE
from reflex.readouts.base import head_weights
from reflex.tasks.lineage import RESULT


def trained_files(cfg: DictConfig) -> dict[str, Path]:
    """Name in the artifact → folder or file on this machine: adapter, trained backbone, heads, calibration.

    What comes from a hub by name, or is no trained part, is not sent again. Never raises.
    """
    calibration = cfg.calibration.get("path")
    if calibration and Path(calibration).is_dir():
        calibration = str(Path(calibration) / FILE)
    wanted = {
        "adapter": cfg.backbone.adapter,
        **{f"heads/{name}.safetensors": path for name, path in head_weights(cfg.readout).items()},
        FILE: calibration,
    }
    if (Path(cfg.backbone.path).parent / RESULT).is_file():  # train=full keeps the whole of it
        wanted["backbone"] = cfg.backbone.path
    found = {name: Path(path).expanduser() for name, path in wanted.items() if path}
    return {name: path for name, path in found.items() if path.exists()}
