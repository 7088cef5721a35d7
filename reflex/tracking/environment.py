"""Facts about where a result was made: commit, machine, package versions. Imports no torch, needs
no git.
"""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "lightning",
    "hydra-core",
    "wandb",
    "peft",
    "safetensors",
    "numpy",
    "scipy",
    "pandas",
    "pyarrow",
    "statsmodels",
)

HASHED_PACKAGES = ("torch", "transformers", "tokenizers")
"""Those whose versions can change a number: a part of which cell it is."""

_ROOT = Path(__file__).resolve().parents[2]


def git_state(root: Path | None = None) -> dict[str, Any]:
    """`{"commit": sha or None, "dirty": bool or None}` of the checkout that holds this code.

    Dirty: a tracked file differs from the commit, or an untracked one lies in `reflex/` or `conf/`
    (new code changes results, a stray note does not). `results/` never counts. Both None without
    git, outside a checkout (an installed package) or before the first commit.
    """
    folder = (root or _ROOT).resolve()
    top = _git(folder, "rev-parse", "--show-toplevel")
    # A wheel inside some other project's checkout must not report that project's commit.
    if top is None or Path(top.strip()).resolve() != folder:
        return {"commit": None, "dirty": None}
    commit = _git(folder, "rev-parse", "--verify", "--quiet", "HEAD")
    if commit is None:
        return {"commit": None, "dirty": None}
    tracked = _git(
        folder, "status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)results"
    )
    new = _git(folder, "ls-files", "--others", "--exclude-standard", "--", "reflex", "conf")
    if tracked is None or new is None:
        return {"commit": commit.strip(), "dirty": None}
    return {"commit": commit.strip(), "dirty": bool(tracked.strip() or new.strip())}


def hardware() -> dict[str, Any]:
    """CPU, cores this process may use, torch's threads and the GPUs (where torch is already loaded), memory
    in GiB, system, Python.
    """
    return {
        "cpu": _cpu_name(),
        "cores": _usable_cores(),
        "threads": _threads(),
        "memory_gib": _memory_gib(),
        "gpus": _gpus(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def package_versions(names: Sequence[str] = PACKAGES) -> dict[str, str | None]:
    """Installed version of each distribution, None where it is absent; nothing is imported."""
    versions: dict[str, str | None] = {}
    for name in names:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return versions


def command_line(argv: Sequence[str] | None = None) -> str:
    """The command that started this process as a person would type it, without machine paths of
    Python.
    """
    words = list(sys.argv if argv is None else argv)
    if not words:
        return "python"
    script = Path(words[0])
    if script.parent.name == "reflex" and script.suffix == ".py":
        head = ["python", "-m", f"reflex.{script.stem}"]
    else:
        head = ["python", script.name]
    return shlex.join([*head, *words[1:]])


def now_utc() -> str:
    """The time in ISO 8601, UTC, to the millisecond: quick cells keep their order of start."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _git(folder: Path, *arguments: str) -> str | None:
    # Inside a git hook GIT_DIR and friends point at the hook's repository, not at this folder's.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env={**environment, "GIT_OPTIONAL_LOCKS": "0"},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _threads() -> int | None:
    # Sums of several threads differ in the last bits. Without torch nothing was summed here.
    torch = sys.modules.get("torch")
    return None if torch is None else int(torch.get_num_threads())


def _memory_gib() -> float | None:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
    return float(round(total / 2**30, 1))


def _gpus() -> list[str]:
    # Only a process that already uses torch can have used a GPU; importing it here would cost
    # seconds.
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return []
    return [str(torch.cuda.get_device_name(index)) for index in range(torch.cuda.device_count())]
