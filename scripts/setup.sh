#!/usr/bin/env bash
# Creates or refreshes .venv: torch first (docs/decisions/002-torch-cpu-first.md), then the project with
# the versions of constraints.txt. `make setup` calls this only when pyproject.toml, constraints.txt,
# this file or the interpreter of .venv changed.
#
#   PYTHON=/path/to/python3.12   the interpreter to use (default: the first of 3.11, 3.12, 3.13 found)
#   TORCH_INDEX=URL              where CPU builds of torch are published, if pip's own index has none
#   EXTRAS=dev,serve,sweep       which extras of pyproject.toml to install
#                                (default: dev,serve,sweep, and gpu where there is an NVIDIA GPU)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

venv=.venv
torch_version=$(sed -n 's/^torch==//p' constraints.txt)
[ -n "$torch_version" ] || die "constraints.txt names no torch==VERSION"

supported() { # a command that runs, is 3.11-3.13 and can make environments with pip in them
  "$1" -c 'import sys, ensurepip, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
    >/dev/null 2>&1
}

find_python() {
  local candidate path
  if [ -n "${PYTHON:-}" ]; then
    supported "$PYTHON" || die "PYTHON=$PYTHON is not a Python 3.11-3.13 with venv and ensurepip"
    printf '%s\n' "$PYTHON"
    return
  fi
  for candidate in python3.11 python3.12 python3.13 python3 python; do
    while IFS= read -r path; do # every one on the PATH: the first may be a shim or lack venv
      if supported "$path"; then
        printf '%s\n' "$path"
        return
      fi
    done < <(type -aP "$candidate" || true)
  done
  die "no usable Python found: install Python 3.11, 3.12 or 3.13 with its venv module" \
    "(Debian and Ubuntu: the package python3-venv), or name one: make setup PYTHON=/path/to/python"
}

pip_install() { # quiet: only errors; the longest step says so beforehand
  "$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-warn-script-location "$@"
}

has_nvidia_gpu() { command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L 2>/dev/null | grep GPU >/dev/null; }

install_torch() {
  local index=()
  [ -n "${TORCH_INDEX:-}" ] && index=(--extra-index-url "$TORCH_INDEX")
  if "$venv/bin/python" - "$torch_version" <<'PY' 2>/dev/null; then
import sys
from importlib.metadata import version
sys.exit(version("torch").split("+")[0] != sys.argv[1])
PY
    say "torch $("$venv/bin/python" -c 'from importlib.metadata import version; print(version("torch"))') is there"
    return
  fi
  if has_nvidia_gpu; then
    say "NVIDIA GPU found: torch $torch_version with CUDA"
    pip_install "torch==$torch_version"
    "$venv/bin/python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' ||
      say "this torch cannot use the GPU (a CPU build, or an older driver): runs will need device=cpu"
  elif [ "$(uname -s)" != Linux ]; then
    pip_install "torch==$torch_version" # elsewhere the ordinary build is the CPU build
  else
    say "no NVIDIA GPU: torch $torch_version, CPU build"
    if ! pip_install ${index[@]+"${index[@]}"} "torch==$torch_version+cpu" 2>"$venv/torch.log"; then
      say "pip's index offers no CPU build of torch $torch_version for this Python; taking the ordinary one."
      say "On Linux that may bring some 3 GB of CUDA libraries which nothing here uses. To avoid them press"
      say "Ctrl-C and run: make setup TORCH_INDEX=<the CPU index that PyTorch's install page names>"
      pip_install ${index[@]+"${index[@]}"} "torch==$torch_version"
    fi
  fi
}

own_packages() { # of this version of Python: they lie in a folder named after it
  "$1" -c 'import os, sys, sysconfig; sys.exit(not os.path.isdir(sysconfig.get_path("purelib")))'
}

# An environment whose interpreter is gone, unsupported or another one (an upgraded system) is made anew.
if [ -d "$venv" ] && ! { supported "$venv/bin/python" && own_packages "$venv/bin/python"; }; then
  say "$venv has no supported Python of its own any more: making it anew"
  rm -rf "$venv"
fi
if [ ! -x "$venv/bin/pip" ]; then
  python=$(find_python)
  say "creating $venv with $("$python" --version) ($python)"
  "$python" -m venv "$venv"
fi
install_torch
rm -f "$venv/torch.log"
extras=${EXTRAS:-dev,serve,sweep$(has_nvidia_gpu && printf ,gpu || true)}
say "installing reflex-systemone[$extras] (a few minutes the first time)"
pip_install --editable ".[$extras]" --constraint constraints.txt
say "done"
