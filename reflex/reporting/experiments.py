"""What an experiment's own files say of it: title, question and hypothesis, and the suite it reads."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from omegaconf import OmegaConf

from reflex.config import conf_dir


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


def own_suite(name: str) -> str | None:
    """The suite that an experiment reads where the command names none: its YAML's, else the default."""
    conf = conf_dir()
    return _chosen(conf / "experiment" / f"{name}.yaml") or _chosen(conf / "config.yaml")


@functools.cache
def _chosen(path: Path) -> str | None:
    """The `benchmark` of a YAML's defaults list or, before it, of the file that it starts from."""
    if not path.is_file():
        return None
    found = None
    for entry in OmegaConf.select(OmegaConf.load(path), "defaults") or ():
        if isinstance(entry, str):
            found = _chosen(path.with_name(f"{entry}.yaml")) or found
        else:
            groups = {str(key).rpartition("/")[2]: value for key, value in entry.items()}
            found = groups.get("benchmark", found)
    return found


def _passage(text: str, word: str) -> str:
    marked = rf"^(?:\*\*{word}[.:]?\*\*[.:]?|{word}:|#+ +{word}\s*\n)\s*(.+?)(?=\n\s*\n|\n#|\Z)"
    found = re.search(marked, text, re.MULTILINE | re.DOTALL | re.IGNORECASE)
    return " ".join(found[1].split()) if found else ""
