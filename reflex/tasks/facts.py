"""What identifies a cell beside its configuration: hashes of weights, text files, data. Loads no weights."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.utils import instantiate
from omegaconf import DictConfig

from reflex.assets import sha256_of
from reflex.errors import DataError
from reflex.readouts.base import head_weights
from reflex.tasks.clean import clean_suite
from reflex.tasks.smoke import shrink_rows

if TYPE_CHECKING:
    from reflex.benchmarks.base import Benchmark, Suite
    from reflex.tracking.record import RunRecord

TEXT_SUFFIXES = (".json", ".jinja", ".txt", ".model")
"""Files of a backbone's folder that shape the prompt or the network: tokenizer, template, config."""


def load_suite(cfg: DictConfig) -> Suite:
    """The suite of `cfg.benchmark`, checked as `clean_suite` does. Raises DataError where nothing is left of it.

    Raises BackboneError first where the device is missing: before gigabytes are fetched for it.
    """
    from reflex.remote.remote import remote_model

    local = remote_model(cfg) is None
    if local:
        from reflex.backbones.dtype import torch_device

        torch_device(cfg.device.name)
    benchmark: Benchmark = instantiate(cfg.benchmark)
    suite = shrink_rows(cfg, benchmark.load())
    if not suite.rows:
        raise DataError(f"benchmark={suite.name}: no rows are left to read")
    return clean_suite(cfg, suite) if local else suite


def cell_facts(cfg: DictConfig, suite: Suite) -> dict[str, Any]:
    """What the configuration alone does not pin. Raises BackboneError, AssetError or ConfigError."""
    from reflex.backbones.dtype import resolve_dtype
    from reflex.backbones.locate import locate
    from reflex.build import to_object
    from reflex.data.rows import items_sha256, rows_sha256

    device = to_object(cfg.device)
    files = locate(to_object(cfg.backbone))
    return {
        "weights": files.weights_sha256,
        "adapter": files.adapter_sha256,
        # An asset or a GGUF file is pinned whole; a folder's template can change beside its weights.
        "texts": [
            text_sha256(folder)
            for folder in (files.folder, files.adapter_folder)
            if folder is not None and cfg.backbone.source in ("hub", "folder")
        ],
        "dtype": resolve_dtype(device),
        "prompt": instantiate(cfg.prompt).fingerprint(),
        "data": rows_sha256(suite.rows),
        "items": items_sha256(suite.rows),
        "calibration": _calibration(cfg),
        "heads": head_hashes(cfg),
    }


def told_facts(suite: Suite, record: RunRecord) -> dict[str, Any]:
    """What the suite says of the rows of a recorded cell that were answered."""
    from reflex.benchmarks.left_out import answered_only

    missing = set(record.data.get("unanswered") or ())
    served = record.served or {"base_url": None, "health": {}}
    name = served["health"].get("model") or (record.config.get("model") or {}).get("model")
    answered = [row for row in suite.rows if row.id not in missing]
    return answered_only(suite, answered, f"{name} at {served['base_url']}").facts


def text_sha256(folder: Path) -> str:
    """One hash over names and contents of the small files of a backbone's folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.suffix in TEXT_SUFFIXES and path.is_file():
            digest.update(f"{path.name}\0{sha256_of(path)}\n".encode())
    return digest.hexdigest()


def _calibration(cfg: DictConfig) -> str | None:
    path = cfg.calibration.get("path")
    if path is None:
        return None
    from reflex.calibration.fitted import file_sha256

    return file_sha256(path)


def head_hashes(cfg: DictConfig) -> dict[str, str]:
    """Hash of the trained weights of each readout in use that has any."""
    # A path that is no file is refused where the head is loaded.
    return {
        name: sha256_of(Path(path))
        for name, path in head_weights(cfg.readout).items()
        if Path(path).is_file()
    }
