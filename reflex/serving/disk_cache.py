"""States that survive a restart: one verified file per state, evicted by size, oldest use first.

A file is `magic + sha256 of the rest + safetensors`. Its name says what it is the state of: prefix ids
under one backbone, adapter, prompt, dtype and library version. Anything that does not verify is deleted
and computed again, so a damaged disk costs time and never an answer.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from queue import Full, Queue
from typing import TYPE_CHECKING, Any

import torch
from transformers import DynamicCache

from reflex.forward.state_cache import PrefixState, StateCache, tensors_of

if TYPE_CHECKING:
    from reflex.backbones.backbone import Backbone

log = logging.getLogger("reflex.serving")

MAGIC = b"reflex-state-1\n"
OWN = re.compile(r"[0-9a-f]{24}-[0-9a-f]{64}\.state(?P<writing>\.\d+\.tmp)?")
"""Names of state files, and of those that a process is writing. The folder may hold anything else besides."""

ABANDONED_S = 3600.0
"""Age at which a file that was being written belongs to nobody any more; a write takes seconds."""


class DiskCache:
    """State files of one namespace below `folder`; counts what it does. Thread-safe.

    Several processes may share a folder: files appear whole, and a vanished file is a miss. Files with other
    names are neither counted nor deleted.
    """

    def __init__(self, folder: Path, namespace: Mapping[str, Any], max_bytes: int) -> None:
        text = json.dumps(namespace, sort_keys=True, default=str)
        self.namespace = hashlib.sha256(text.encode()).hexdigest()[:24]
        self.folder = folder
        self.max_bytes = max_bytes
        self.hits = self.misses = self.writes = self.damaged = self.evicted = 0
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self.nbytes = 0
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        self._scan()

    def _scan(self) -> None:
        """Know what is there (all namespaces share the budget), oldest use first."""
        found = []
        for path in self.folder.iterdir():
            with contextlib.suppress(OSError):
                own, stat = OWN.fullmatch(path.name), path.stat()
                if own and not own["writing"]:
                    found.append((stat.st_mtime_ns, path.name, stat.st_size))
                elif own and time.time() - stat.st_mtime > ABANDONED_S:
                    path.unlink()  # left by a process that was killed while writing
        for _, name, size in sorted(found):
            self._sizes[name] = size
            self.nbytes += size

    def _name(self, key: str) -> str:
        return f"{self.namespace}-{key}.state"

    def __contains__(self, key: str) -> bool:
        with self._lock:
            return self._name(key) in self._sizes

    def read(self, key: str) -> bytes | None:
        """The verified content under `key`, or None. A damaged file is deleted."""
        name = self._name(key)
        if key not in self:
            self.misses += 1
            return None
        path = self.folder / name
        try:
            raw = path.read_bytes()
        except OSError:
            self._forget(name)
            self.misses += 1
            return None
        start = len(MAGIC) + 32
        body = memoryview(raw)[start:]
        if raw[: len(MAGIC)] != MAGIC or hashlib.sha256(body).digest() != raw[len(MAGIC) : start]:
            self.drop(key, "does not match its checksum")
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        with self._lock:
            if name in self._sizes:
                self._sizes.move_to_end(name)
        self.hits += 1
        return bytes(body)

    def write(self, key: str, content: bytes) -> None:
        """Keep `content`, dropping the least recently used files above the budget."""
        name = self._name(key)
        size = len(MAGIC) + 32 + len(content)
        if size > self.max_bytes or key in self:
            return
        temporary = self.folder / f"{name}.{os.getpid()}.tmp"
        try:
            with temporary.open("wb") as file:
                file.write(MAGIC + hashlib.sha256(content).digest())
                file.write(content)
            os.replace(temporary, self.folder / name)
        except OSError as error:
            log.warning("cannot keep a state on disk (%s)", error.strerror)
            temporary.unlink(missing_ok=True)
            return
        self.writes += 1
        with self._lock:
            self._sizes[name] = size
            self.nbytes += size
            while self.nbytes > self.max_bytes:
                old, freed = self._sizes.popitem(last=False)
                self.nbytes -= freed
                (self.folder / old).unlink(missing_ok=True)
                self.evicted += 1

    def drop(self, key: str, why: str) -> None:
        """Delete a file that cannot be used."""
        name = self._name(key)
        log.warning("state file %s %s; deleted, it is computed again", name, why)
        self.damaged += 1
        self._forget(name)
        with contextlib.suppress(OSError):
            (self.folder / name).unlink(missing_ok=True)

    def _forget(self, name: str) -> None:
        with self._lock:
            self.nbytes -= self._sizes.pop(name, 0)


PENDING = 8
"""States that wait for the disk; one more is then not written."""


class TieredStateCache(StateCache):
    """The in-memory cache with a disk behind it. Writing happens on a thread of its own."""

    def __init__(self, max_bytes: int, disk: DiskCache, backbone: Backbone) -> None:
        super().__init__(max_bytes)
        self.disk = disk
        self.backbone = backbone
        self._queue: Queue[tuple[str, PrefixState] | None] = Queue(PENDING)
        self._writer = threading.Thread(target=self._write, name="state-writer", daemon=True)
        self._writer.start()

    def get(self, key: str) -> PrefixState | None:
        state = super().get(key)
        if state is not None:
            return state
        content = self.disk.read(key)
        if content is None:
            return None
        try:
            state = unpack(content, self.backbone)
        except (ValueError, KeyError, RuntimeError, TypeError, OSError) as error:
            self.disk.drop(key, f"cannot be read ({type(error).__name__})")
            return None
        super().put(key, state)
        return state

    def put(self, key: str, state: PrefixState) -> None:
        super().put(key, state)
        if key not in self.disk:
            with contextlib.suppress(Full):  # a disk that cannot follow loses states, not time
                self._queue.put_nowait((key, state))

    def __contains__(self, key: str) -> bool:
        return super().__contains__(key) or key in self.disk

    def flush(self) -> None:
        """Wait until everything handed over is written."""
        self._queue.join()

    def close(self) -> None:
        """Write what is pending and end the writer."""
        self._queue.put(None)
        self._writer.join()

    def _write(self) -> None:
        while True:
            item = self._queue.get()
            try:
                if item is None:
                    return
                self.disk.write(item[0], pack(item[1]))
            except Exception as error:  # the writer must outlive any single state
                log.warning("cannot write a state (%s: %s)", type(error).__name__, error)
            finally:
                self._queue.task_done()


# -- a state as bytes ------------------------------------------------------------------------------


def pack(state: PrefixState) -> bytes:
    """Every tensor of the cache as safetensors, and each layer's plain attributes beside them."""
    from safetensors.torch import save

    tensors: dict[str, torch.Tensor] = {}
    plain: list[dict[str, Any]] = []
    for index, layer in enumerate(state.cache.layers):
        attributes: dict[str, Any] = {}
        for name, value in vars(layer).items():
            if isinstance(value, torch.Tensor):
                tensors[f"{index}.{name}"] = value.contiguous().cpu()
            elif isinstance(value, dict):
                kept: dict[str, Any] = {}
                for key, item in value.items():
                    if isinstance(item, torch.Tensor):
                        tensors[f"{index}.{name}.{key}"] = item.contiguous().cpu()
                    elif _is_plain(item):
                        kept[str(key)] = item
                attributes[name] = kept
            elif _is_plain(value):
                attributes[name] = value
            elif isinstance(value, torch.dtype):
                attributes[name] = str(value)
        plain.append({"class": type(layer).__name__, "attributes": attributes})
    about = {"length": state.length, "layers": plain}
    # safetensors refuses tensors that share memory; a clone of the later ones is cheap and rare.
    seen: set[int] = set()
    for key, tensor in tensors.items():
        if tensor.data_ptr() in seen:
            tensors[key] = tensor.clone()
        seen.add(tensor.data_ptr())
    return bytes(save(tensors, {"state": json.dumps(about)}))


def unpack(content: bytes, backbone: Backbone) -> PrefixState:
    """The inverse of `pack` on the backbone's device. Raises ValueError where layers differ."""
    from safetensors.torch import load

    head = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    about = json.loads(head["__metadata__"]["state"])
    tensors = load(content)
    cache = DynamicCache(config=backbone.decoder.config)
    if len(cache.layers) != len(about["layers"]):
        raise ValueError("another number of layers")
    for index, (layer, described) in enumerate(zip(cache.layers, about["layers"], strict=True)):
        if type(layer).__name__ != described["class"]:
            raise ValueError(f"layer {index} is a {described['class']}")
        _restore(layer, described["attributes"], backbone.device)
    for name, tensor in tensors.items():
        index_text, _, path = name.partition(".")
        layer = cache.layers[int(index_text)]
        attribute, _, key = path.partition(".")
        placed = tensor.to(backbone.device)
        if key:
            getattr(layer, attribute)[int(key)] = placed
        else:
            setattr(layer, attribute, placed)
    size = sum(tensor.nbytes for tensor in tensors_of(cache))
    return PrefixState(cache, int(about["length"]), size)


def _restore(layer: Any, attributes: dict[str, Any], device: torch.device) -> None:
    for name, value in attributes.items():
        if isinstance(value, dict):
            getattr(layer, name).update({int(key): item for key, item in value.items()})
        elif name == "dtype" and isinstance(value, str):
            layer.dtype = getattr(torch, value.removeprefix("torch."))
        else:
            setattr(layer, name, value)
    layer.device = device


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


__all__ = ["DiskCache", "TieredStateCache", "pack", "unpack"]
