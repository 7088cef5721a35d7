"""`--help`: every axis, its values and what each is, read from the first comment of its YAML."""

from __future__ import annotations

from pathlib import Path

from omegaconf import OmegaConf

from reflex.places import conf_dir

HIDDEN = ("hydra", "local")

HEAD = """\
python -m reflex.run [axis=value …] [key.subkey=value …]

  python -m reflex.run experiment=order_averaging     the sweep an experiment describes
  python -m reflex.run orders=two benchmark.limit=20  one cell
  python -m reflex.run -m orders=one,two seed=0,1     a sweep of your own
  python -m reflex.run --cfg job                      the composed configuration, every key
"""


def print_help() -> None:
    """Print the axes (`conf/` groups) with the default of each marked by *."""
    root = conf_dir()
    defaults = _defaults(root / "config.yaml")
    print(HEAD)
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        if folder.name in HIDDEN:
            continue
        print(f"{folder.name}")
        files = sorted(folder.glob("*.yaml"))
        width = max((len(file.stem) for file in files), default=0)
        for file in files:
            mark = "*" if defaults.get(folder.name) == file.stem else " "
            print(f"  {mark} {file.stem:<{width}}  {_summary(file)}".rstrip())
    print("\n* default. A misspelt key or a wrong type is refused. Results: results/README.md")


def _defaults(path: Path) -> dict[str, str]:
    named = (entry for entry in OmegaConf.load(path).defaults if not isinstance(entry, str))
    return {group: value for entry in named for group, value in entry.items()}


def _summary(path: Path) -> str:
    """The first comment that is not a Hydra directive."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# ") and "@package" not in line:
            return line.removeprefix("# ").strip()
    return ""
