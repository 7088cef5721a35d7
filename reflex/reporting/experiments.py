"""What an experiment's own files say of it: title, question and hypothesis, its suite and its backbone."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from reflex.places import conf_dir


@dataclass(frozen=True)
class Experiment:
    """Texts are one line each, empty where the page does not give them; `page` is None without one."""

    title: str
    question: str = ""
    hypothesis: str = ""
    page: Path | None = None


def read_experiment(folder: Path, name: str) -> Experiment:
    """`# Title`, and the paragraphs that start with **Question.** or **Hypothesis.**

    The same words as headings (`## Question`) work too. Without a page the title is the name.
    """
    path = folder / f"{name}.md"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return Experiment(title=name.replace("_", " ").capitalize())
    title = re.search(r"^# +(.+)$", text, re.MULTILINE)
    return Experiment(
        title=title[1].strip() if title else name.replace("_", " ").capitalize(),
        question=_passage(text, "Question"),
        hypothesis=_passage(text, "Hypothesis"),
        page=path,
    )


def own_choice(name: str, group: str) -> str | None:
    """What an experiment takes of a config group where the command names nothing: its YAML's, else the
    default; None where it sweeps over the group."""
    path = conf_dir() / "experiment" / f"{name}.yaml"
    if group in _read(path, "hydra.sweeper.params"):
        return None
    return _chosen(path, group) or _chosen(conf_dir() / "config.yaml", group)


def _chosen(path: Path, group: str) -> str | None:
    """The group's choice in a YAML's defaults list or, before it, in the file that it starts from."""
    found = None
    for entry in _read(path, "defaults"):
        if isinstance(entry, str):
            found = _chosen(path.with_name(f"{entry}.yaml"), group) or found
        else:
            groups = {str(key).rpartition("/")[2]: value for key, value in entry.items()}
            found = groups.get(group, found)
    return found


@functools.cache
def _read(path: Path, key: str) -> Any:
    """What a YAML has under a dotted key; empty without the file or the key."""
    return (OmegaConf.select(OmegaConf.load(path), key) or ()) if path.is_file() else ()


def _passage(text: str, word: str) -> str:
    marked = rf"^(?:\*\*{word}[.:]?\*\*[.:]?|{word}:|#+ +{word}\s*\n)\s*(.+?)(?=\n\s*\n|\n#|\Z)"
    found = re.search(marked, text, re.MULTILINE | re.DOTALL | re.IGNORECASE)
    return " ".join(found[1].split()) if found else ""
