"""`dtype=auto`: bfloat16 where this processor is faster with it, float32 where it is not.

On a CPU with bfloat16 instructions a prefill is about three times faster in bfloat16; without them it is
many times slower. So it is measured once per processor and torch version, and the answer is kept.
"""

from __future__ import annotations

import json
import logging
import platform
import time
from pathlib import Path
from typing import TYPE_CHECKING

from reflex.assets import cache_dir
from reflex.backbones.config import DeviceConfig
from reflex.checks import check_choice
from reflex.errors import BackboneError
from reflex.files import written_whole

if TYPE_CHECKING:
    import torch

log = logging.getLogger(__name__)


def resolve_dtype(device: DeviceConfig) -> str:
    """The concrete dtype name for `device`: its own, or what a probe of this machine says."""
    if device.dtype != "auto":
        return device.dtype
    if device.name in ("cuda", "mps"):
        return "bfloat16"
    return _probed_cpu_dtype()


def torch_device(name: str) -> torch.device:
    """The torch device called `name`. Raises ConfigError for a name that is no device, BackboneError for a device
    that this machine does not have."""
    import torch

    available = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    check_choice("device", name, available)
    if not available[name]:
        raise BackboneError(f"device={name}: this machine has no such device; use device=cpu")
    return torch.device(name)


def _probed_cpu_dtype() -> str:
    import torch

    key = f"{_cpu_model()}|torch {torch.__version__}"
    path = cache_dir() / "cpu_dtype.json"
    known = _read(path)
    if key not in known:
        seconds = {name: _matmul_seconds(getattr(torch, name)) for name in ("float32", "bfloat16")}
        known[key] = "bfloat16" if seconds["bfloat16"] < seconds["float32"] else "float32"
        log.info(
            "dtype probe on this CPU: float32 %.1f ms, bfloat16 %.1f ms per matmul -> %s",
            1e3 * seconds["float32"],
            1e3 * seconds["bfloat16"],
            known[key],
        )
        _write(path, known)
    return known[key]


def _matmul_seconds(dtype: torch.dtype, repeats: int = 5) -> float:
    import torch

    a = torch.ones(256, 576, dtype=dtype)
    b = torch.ones(576, 1536, dtype=dtype)
    best = float("inf")
    for _ in range(repeats + 1):
        start = time.perf_counter()
        for _ in range(4):
            a @ b
        best = min(best, (time.perf_counter() - start) / 4)
    return best


def _cpu_model() -> str:
    try:
        info = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return platform.processor() or platform.machine()
    wanted = ("model name", "flags", "Features")
    facts = sorted(
        {line.partition(":")[2] for line in info.splitlines() if line.startswith(wanted)}
    )
    return str(hash_text("".join(facts)))


def hash_text(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _read(path: Path) -> dict[str, str]:
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _write(path: Path, data: dict[str, str]) -> None:
    try:
        with written_whole(path) as file:
            file.write(json.dumps(data, indent=1).encode())
    except OSError as error:
        log.warning("cannot keep the dtype probe in %s (%s); it runs again next time", path, error)
