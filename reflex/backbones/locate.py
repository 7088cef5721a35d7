"""Where a backbone's files are and what identifies them, without loading a tensor."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import filelock

from reflex import assets
from reflex.backbones.config import BackboneConfig
from reflex.errors import BackboneError, brief
from reflex.files import written_whole

log = logging.getLogger(__name__)

MANIFEST = "converted.json"
"""In a folder of converted weights: which transformers wrote it, and the sha256 of every file."""

ASSETS: dict[str, assets.RegistryAsset] = {"smollm2_135m": assets.SMOLLM2_135M}


@dataclass(frozen=True)
class BackboneFiles:
    """A located backbone: `folder` holds config, tokenizer and weights (None for random weights)."""

    folder: Path | None
    revision: str | None
    weights_sha256: str
    adapter_folder: Path | None = None
    adapter_sha256: str | None = None


def locate(config: BackboneConfig) -> BackboneFiles:
    """Find (fetch, convert) the files of `config`. Raises BackboneError or AssetError, one line."""
    folder, revision, weights = _locate_base(config)
    if config.adapter is None:
        return BackboneFiles(folder, revision, weights)
    adapter = _snapshot(config.adapter, None, "backbone.adapter")
    _check_adapter(config.adapter, adapter)
    return BackboneFiles(folder, revision, weights, adapter, folder_sha256(adapter))


def _check_adapter(given: str, folder: Path) -> None:
    """Raise BackboneError unless the folder holds the configuration of a PEFT adapter."""
    try:
        found = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    except OSError:
        inner = f"; did you mean {given}/adapter?" if (folder / "adapter").is_dir() else ""
        raise BackboneError(
            f"backbone.adapter={given}: no adapter_config.json there{inner}"
        ) from None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise BackboneError(
            f"backbone.adapter={given}: adapter_config.json is not a JSON object; save the adapter again"
        )


def _locate_base(config: BackboneConfig) -> tuple[Path | None, str | None, str]:
    if config.source == "random":
        text = f"random:{config.path}:{config.seed}"
        return None, None, hashlib.sha256(text.encode()).hexdigest()
    if config.source == "asset":
        if config.path not in ASSETS:
            raise BackboneError(
                f"backbone.path={config.path}: known assets are {', '.join(ASSETS)}"
            )
        asset = ASSETS[config.path]
        return _converted(assets.fetch(asset), asset.sha256), asset.version, asset.sha256
    path = Path(config.path).expanduser()
    if config.source == "gguf":
        if not path.is_file():
            raise BackboneError(f"backbone.path={config.path}: no such GGUF file")
        sha256 = _cached_sha256(path)
        return _converted(path, sha256), None, sha256
    if config.source == "folder" and not (path / "config.json").is_file():
        raise BackboneError(f"backbone.path={config.path}: no folder with a config.json there")
    folder = _snapshot(config.path, config.revision, "backbone.path")
    revision = config.revision if config.source == "folder" else folder.name
    return folder, revision, folder_sha256(folder)


def _snapshot(path: str, revision: str | None, key: str) -> Path:
    """A local folder as it is, or the files of a hub id (downloaded once)."""
    local = Path(path).expanduser()
    if local.is_dir():
        return local
    from huggingface_hub import snapshot_download

    patterns = ["*.json", "*.safetensors", "*.jinja", "*.txt", "*.model", "tokenizer*"]
    try:
        return Path(snapshot_download(path, revision=revision, allow_patterns=patterns))
    except Exception as error:  # hub errors come in a dozen classes; all mean the same to a user
        raise BackboneError(
            f"{key}={path}: neither a local folder nor reachable on the model hub "
            f"({brief(error)}); "
            "check the id and the network, or use backbone=smollm2_135m, which needs neither"
        ) from None


def folder_sha256(folder: Path) -> str:
    """One hash over the weight files of a folder (name and content, in name order); of a single file, its own.

    Raises BackboneError where there is no *.safetensors, the only kind that is fetched and read.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise BackboneError(
            f"{folder}: no *.safetensors there, and weights in other files (.bin, .pt) are not read; "
            "save the model once more with transformers' save_pretrained"
        )
    if len(files) == 1:
        return _cached_sha256(files[0])
    return combined_sha256(f"{path.name}:{_cached_sha256(path)}" for path in files)


def combined_sha256(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _cached_sha256(path: Path) -> str:
    """sha256 of a large file, remembered by (path, size, mtime) so a second run does not re-read it."""
    stat = path.stat()
    key = f"{path.resolve()}|{stat.st_size}|{stat.st_mtime_ns}"
    known_path = assets.cache_dir() / "sha256" / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}"
    try:
        known = known_path.read_text()
        if len(known) == 64:
            return known
    except OSError:
        pass
    digest = assets.sha256_of(path)
    try:
        with written_whole(known_path) as file:
            file.write(digest.encode())
    except OSError as error:
        log.warning(
            "cannot keep a hash in %s (%s); it is computed again next time", known_path, error
        )
    return digest


def _converted(gguf: Path, sha256: str) -> Path:
    """The GGUF file dequantised to a plain float32 folder in the cache (12 s for 135M).

    Once: again only where that folder is no longer what was written, or another transformers wrote it.
    """
    target = assets.cache_dir() / "backbones" / sha256[:24]
    if _fault(target) is None:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(target.with_suffix(".lock")):
        fault = _fault(target)
        if fault is None:
            return target
        log.info("dequantising %s (%s)", gguf.name, fault)
        work = Path(tempfile.mkdtemp(prefix="convert-", dir=target.parent))
        try:
            _write(*_read_gguf(gguf), work / "new")
            if target.exists():  # who has it open keeps reading the old files
                os.replace(target, work / "old")
            os.replace(work / "new", target)
        except OSError as error:
            raise BackboneError(
                f"cannot write the converted weights below {target.parent} ({error.strerror}); "
                "free space, or set REFLEX_CACHE to another disk"
            ) from None
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return target


def _fault(folder: Path) -> str | None:
    """Why converted weights have to be written (again); None where `folder` is what its manifest says."""
    if not folder.exists():
        return "once"
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        if manifest["transformers"] != version("transformers"):
            return f"again: by transformers {manifest['transformers']} before"
        for name, sha256 in manifest["files"].items():
            if _cached_sha256(folder / name) != sha256:
                return f"again: {name} has changed"
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return "again: the converted files are not complete"
    return None


def _read_gguf(gguf: Path) -> tuple[Any, Any]:
    """Model (plain float32) and tokenizer. Raises BackboneError, one line."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging as hf_logging

    hf_logging.disable_progress_bar()
    try:
        pair: Any = AutoModelForCausalLM.from_pretrained(
            str(gguf.parent), gguf_file=gguf.name, dtype=torch.float32, output_loading_info=True
        )
        tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    except OSError:
        raise
    except Exception as error:  # the reader fails in a dozen classes on a damaged file
        raise BackboneError(
            f"{gguf}: not a GGUF file transformers can read ({brief(error)})"
        ) from None
    model, loaded = pair
    # transformers fills absent weights with random ones and only warns.
    if absent := sorted(loaded["missing_keys"]):
        raise BackboneError(
            f"{gguf}: {len(absent)} weights are not in it, the first is {absent[0]}; the file is incomplete "
            "or of a model that transformers cannot read from GGUF"
        )
    # The loader marks the model as quantised; its weights are plain float32 by now.
    if hasattr(model, "hf_quantizer"):
        del model.hf_quantizer
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.is_quantized = False
    return model, tokenizer


def _write(model: Any, tokenizer: Any, folder: Path) -> None:
    """Both to `folder`, with the manifest that `_fault` checks."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    files = {path.name: assets.sha256_of(path) for path in sorted(folder.iterdir())}
    manifest = {"transformers": version("transformers"), "files": files}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
