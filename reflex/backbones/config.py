"""Which weights to load, and how to run them. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field

from reflex.checks import check_choice
from reflex.errors import ConfigError

SOURCES = ("hub", "folder", "gguf", "asset", "random")
DTYPES = ("auto", "float32", "bfloat16", "float16")
MAX_THREADS = 4096


@dataclass
class BackboneConfig:
    """One backbone.

    source: where the weights come from.
      hub     `path` is a hub id (`revision` optional)
      folder  `path` is a folder written by `save_pretrained`
      gguf    `path` is a GGUF file
      asset   `path` is the name of a registry asset (see reflex/assets.py)
      random  `path` is a tiny architecture: llama, qwen3, qwen3_5 (seeded by `seed`)
    adapter: a PEFT adapter folder or hub id, merged into the weights for inference.
    """

    name: str = "???"
    source: str = "hub"
    path: str = "???"
    revision: str | None = None
    adapter: str | None = None
    attention: str = "sdpa"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.source != "???":
            check_choice("backbone.source", self.source, SOURCES)
        if not -(2**63) <= self.seed < 2**63:
            raise ConfigError(f"backbone.seed={self.seed}: must fit 64 bits")


@dataclass
class DeviceConfig:
    """Where and in which precision the backbone runs; `threads: null` leaves torch's own choice."""

    name: str = "cpu"
    dtype: str = "auto"
    threads: int | None = None

    def __post_init__(self) -> None:
        check_choice("device.dtype", self.dtype, DTYPES)
        if self.threads is not None and not 1 <= self.threads <= MAX_THREADS:
            raise ConfigError(f"device.threads={self.threads}: use 1 to {MAX_THREADS}, or null")


@dataclass(frozen=True)
class BackboneFacts:
    """What the rest of the house needs to know about a loaded backbone.

    packable: every layer is full attention, so a block mask isolates branches; otherwise `why_not_packable`
    says which layers leak.
    """

    name: str
    source: str
    revision: str | None
    weights_sha256: str
    architecture: str
    context_length: int
    packable: bool
    why_not_packable: str
    dtype: str
    device: str
    attention: str
    adapter_sha256: str | None = None
    kernels: tuple[str, ...] = field(default=())
