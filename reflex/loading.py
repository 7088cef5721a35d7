"""From a recorded run, a configuration or overrides to a `Decider`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from reflex.config import RootConfig, known_targets, register
from reflex.errors import BackboneError, ConfigError, RecordError
from reflex.messages import one_line
from reflex.overrides import as_typed, composing_error
from reflex.places import conf_dir, runs_folder
from reflex.release import released
from reflex.remote.remote import remote_model
from reflex.tracking.record import RECORD, read_record

if TYPE_CHECKING:
    from reflex.decider import Decider
    from reflex.remote.client import RemoteDecider

_ROOT_KEYS = {each.name for each in dataclasses.fields(RootConfig)}


def compose(overrides: Sequence[str] = ()) -> DictConfig:
    """The configuration that `python -m reflex.run <overrides>` would use. Raises ConfigError."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    register()
    inside = GlobalHydra.instance().is_initialized()  # a task that composes once more
    try:
        with (
            nullcontext()
            if inside
            else initialize_config_dir(version_base="1.3", config_dir=str(conf_dir()))
        ):
            return hydra_compose(config_name="config", overrides=as_typed(overrides))
    except Exception as error:  # Hydra raises bare Python errors too
        raise ConfigError(composing_error(error, overrides)) from None


def leaves(node: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, value) of everything below a configuration; missing values (`???`) are left out."""
    for key in node:
        if isinstance(node, DictConfig) and OmegaConf.is_missing(node, key):
            continue
        value, name = node[key], f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from leaves(value, f"{name}.")
        else:
            yield name, value


def run_folder(run: str | Path, root: Path | None = None) -> Path:
    """The folder of a recorded run given as folder, hash or unique hash prefix. Raises RecordError.

    Hashes are looked up in `root` (default: `runs_folder`); a full hash may be longer than
    the folder's name.
    """
    path = Path(run)
    if (path / RECORD).is_file():
        return path
    root = root or runs_folder()
    # Folders are named by the first 16 digits of the hash.
    name = str(run)[:16]
    found = [
        each.parent
        for each in sorted(root.glob(f"*/{RECORD}"))
        if name and each.parent.name.startswith(name)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(each.name for each in found)
        raise RecordError(f"run {run}: several records match ({names}); give more digits")
    raise RecordError(f"run {run}: neither a folder with a record.json nor a hash below {root}/")


def recorded_config(folder: Path) -> DictConfig:
    """The configuration of a recorded run as it was resolved.

    Raises RecordError for a record that this version's schema cannot hold.
    """
    values = recorded_values(folder)
    try:
        return typed(compose(), values, [key for key in values if key in _ROOT_KEYS])
    except OmegaConfBaseException as error:
        raise RecordError(
            f"{folder}: not a configuration of this version ({one_line(error)}); run the cell again"
        ) from None


def recorded_values(folder: Path) -> dict[str, Any]:
    """The configuration of a recorded run as plain values; of a release, with the paths of its own files.

    A run that fitted its own calibration is served with exactly that one. Raises RecordError, also for a
    release whose files are not the ones that were released, and for a record that would do more than
    configure (`check_harmless`).
    """
    from reflex.calibration.fitted import FILE as CALIBRATION

    values = dict(released(folder, read_record(folder).config))
    check_harmless(values, str(folder / RECORD))
    calibration = values.get("calibration") or {}
    fitted = (folder / CALIBRATION).is_file()
    if fitted and "path" in calibration and not calibration["path"]:
        values["calibration"] = {**calibration, "path": str(folder)}
    return values


def check_harmless(values: Mapping[str, Any], where: str) -> None:
    """Raise RecordError, naming the key, for a recorded configuration that could run what is not reflex's.

    A record may come from anywhere, and instantiating it calls its `_target_`s: each must be a schema of a
    room. Interpolations could make such a key; a record is written resolved, so it holds none.
    """
    known = known_targets()
    pending: list[tuple[str, Any]] = [("", values)]
    while pending:
        key, value = pending.pop()
        if isinstance(value, Mapping):
            pending += [(f"{key}.{name}".lstrip("."), each) for name, each in value.items()]
        elif isinstance(value, list):
            pending += [(f"{key}.{index}", each) for index, each in enumerate(value)]
        elif isinstance(value, str) and "${" in value:
            raise RecordError(
                f"{where}: {key} holds an interpolation; a record is written resolved"
            )
        if key.rpartition(".")[2] == "_target_" and str(value) not in known:
            raise RecordError(
                f"{where}: {key}={value!r} is not of this version, so it is not called; a class of your own "
                "goes into a file of its group's room"
            )


def typed(cfg: DictConfig, values: Mapping[str, Any], keys: Iterable[str]) -> DictConfig:
    """`cfg` with `values` of `keys`: under the composed schema where a group is of the same kind."""
    result = cfg.copy()
    with open_dict(result):
        for key in keys:
            own = cfg.get(key)
            value = values[key]
            if isinstance(own, DictConfig) and value is not None and _kind(own) == _kind(value):
                own = own.copy()
                # Free dicts (prompt.texts) take new keys; dataclass fields stay typed all the same.
                OmegaConf.set_struct(own, False)
                result[key] = OmegaConf.merge(own, value)
            else:
                result[key] = value
    return result


def _kind(node: Any) -> Any:
    return node.get("_target_")


def check_loaded(decider: Decider, run: str | None, expected: Mapping[str, str | None]) -> None:
    """Raise BackboneError naming the hash that differs, unless the decider is what `run` was measured with.

    expected: `weights_sha256`, `adapter_sha256` and `prompt_hash` of its record, or some of them.
    """
    facts = decider.model.backbone.facts
    loaded = {
        "weights_sha256": facts.weights_sha256,
        "adapter_sha256": facts.adapter_sha256,
        "prompt_hash": decider.model.style.fingerprint(),
    }
    for name, wanted in expected.items():
        if loaded[name] != wanted:
            raise BackboneError(
                f"run {run}: {name} is {loaded[name]}, the record says {wanted}; this is not what was measured"
            )


def load_decider(run: str | Path | Sequence[str] | DictConfig) -> Decider | RemoteDecider:
    """See `reflex.load`."""
    if isinstance(run, str | Path):
        run = recorded_config(run_folder(run))
    elif not isinstance(run, DictConfig):
        run = compose(run)
    remote = remote_model(run)
    if remote is not None:
        from reflex.remote.client import RemoteDecider

        return RemoteDecider(remote)
    from reflex.build import build_decider

    return build_decider(run)


__all__ = [
    "check_harmless",
    "check_loaded",
    "compose",
    "load_decider",
    "recorded_config",
    "recorded_values",
    "run_folder",
    "typed",
]
