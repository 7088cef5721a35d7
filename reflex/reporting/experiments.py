"""What an experiment's own page (`experiments/<name>.md`) says of it: title, question, hypothesis."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path


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


def _passage(text: str, word: str) -> str:
    marked = rf"^(?:\*\*{word}[.:]?\*\*[.:]?|{word}:|#+ +{word}\s*\n)\s*(.+?)(?=\n\s*\n|\n#|\Z)"
    found = re.search(marked, text, re.MULTILINE | re.DOTALL | re.IGNORECASE)
    return " ".join(found[1].split()) if found else ""
