"""`results/README.md`: every experiment with its verdict, the negative ones too, and those without a result."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from reflex.files import write_atomic
from reflex.reporting.experiments import read_experiment
from reflex.reporting.hand import SIGNATURE, Section, harmless, read_blocks, weave
from reflex.reporting.sweep import Places, read_manifest
from reflex.reporting.tables import NOTHING, markdown_table


def write_index(places: Places) -> Path:
    """Write the index from what every full page left in `results/records/`.

    Hand-written blocks stay; raises RecordError as `write_page` does.
    """
    path = index_path(places)
    blocks = read_blocks(path)
    write_atomic(path, weave(index_sections(places), blocks).encode("utf-8"))
    return path


def index_path(places: Places) -> Path:
    """Where the index is."""
    return places.results / "README.md"


def index_sections(places: Places) -> list[Section]:
    """The generated part of the index, newest experiment first."""
    found = []
    root = places.all_records
    for folder in sorted(root.iterdir()) if root.is_dir() else []:
        manifest = read_manifest(folder) if folder.is_dir() else {}
        if manifest.get("experiment") and (places.results / f"{folder.name}.md").exists():
            found.append((folder.name, manifest))
    found.sort(key=lambda entry: str(entry[1].get("finished", "")), reverse=True)
    intro = (
        "What was asked, what came out, and how sure that is. Every page is written from the records "
        "beside it (`python -m reflex.report`); an experiment that showed nothing stays here."
    )
    top = Section(None, f"# Results\n\n{SIGNATURE}\n\n{intro}")
    body = "None yet: `python -m reflex.run experiment=NAME`."
    if found:
        rows = [_row(name, manifest) for name, manifest in found]
        body = markdown_table(["experiment", "question", "verdict", "date"], rows, left=4)
    sections = [top, Section("Experiments", body)]
    if open_ := _without_result(places, {manifest["experiment"] for _, manifest in found}):
        sections.append(Section("Asked, without a result of full scope yet", open_))
    return sections


def _without_result(places: Places, answered: set[str]) -> str:
    """The experiments that are written down and have no page among the results."""
    pages = sorted(places.experiments.glob("*.md"))
    folder = os.path.relpath(places.experiments, places.results.resolve()).replace(os.sep, "/")
    asked = [(page.stem, read_experiment(places.experiments, page.stem)) for page in pages]
    rows = [
        [f"[{harmless(each.title)}]({folder}/{name}.md)", harmless(each.question or NOTHING)]
        for name, each in asked
        if name not in answered
    ]
    return markdown_table(["experiment", "question"], rows, left=2) if rows else ""


def _row(name: str, manifest: dict[str, Any]) -> list[str]:
    title = harmless(manifest.get("title") or name)
    return [
        f"[{title}]({name}.md)",
        harmless(manifest.get("question") or NOTHING),
        harmless(manifest.get("verdict") or NOTHING),
        str(manifest.get("finished", ""))[:10],
    ]
