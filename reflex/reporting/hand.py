"""Hand-written passages in generated pages: marked blocks that survive every rewrite.

    <!-- hand:NAME -->
    any text
    <!-- /hand -->

A block stays in the section (`## …`) it was written in; when a rewritten page has no such section
any more, the block moves to the last one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reflex.errors import RecordError

SIGNATURE = "<!-- Written by reflex.report; only text between hand markers survives a rewrite. -->"

NOTES = "Notes"
"""The last section of every page; always there, and so is its block `notes`."""

_START = re.compile(r"^\s*<!-- *hand:([A-Za-z0-9_-]+) *-->\s*$")
_END = re.compile(r"^\s*<!-- */hand *-->\s*$")
_ALMOST = re.compile(r"<!--\s*/?\s*hand\b", re.IGNORECASE)


@dataclass(frozen=True)
class HandBlock:
    """One passage. `section` is the heading it stands under, None above the first one."""

    name: str
    text: str
    section: str | None


@dataclass(frozen=True)
class Section:
    """A piece of a page: heading (None for the top) and its generated text."""

    heading: str | None
    body: str


def read_blocks(page: Path) -> list[HandBlock]:
    """The hand-written blocks of an existing page; none if there is no page.

    Raises RecordError (one line with file, line and fix) for a marker that does not pair up, a name
    used twice, or a file that this package did not write, so that no text is ever lost.
    """
    try:
        text = page.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{page}: cannot be read ({error}); the page was not touched") from error
    blocks = parse_blocks(text, str(page))
    if text.strip() and SIGNATURE not in text:
        raise RecordError(
            f"{page}: not written by reflex.report, so it was not touched; move it away, or add the "
            f"line {SIGNATURE} if only its hand blocks matter"
        )
    return blocks


def parse_blocks(text: str, where: str) -> list[HandBlock]:
    """The blocks of a page's text, in order. `where` names the page in errors (see `read_blocks`)."""
    blocks: list[HandBlock] = []
    section: str | None = None
    name, opened = "", 0
    lines: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        start = _START.match(line)
        if start:
            if opened:
                raise _broken(where, opened, f"block '{name}' is still open at line {number}")
            name, opened, lines = start[1], number, []
            if name in {block.name for block in blocks}:
                raise _broken(where, number, f"block '{name}' is there twice: rename one")
        elif _END.match(line):
            if not opened:
                raise _broken(where, number, "'<!-- /hand -->' closes nothing: remove it")
            blocks.append(HandBlock(name, "\n".join(lines), section))
            opened = 0
        elif _ALMOST.search(line):
            raise _broken(where, number, f"marker {line.strip()!r} is misspelt")
        elif opened:
            lines.append(line)
        elif line.startswith("## "):
            section = line[3:].strip()
    if opened:
        raise _broken(where, opened, f"block '{name}' is not closed: add '<!-- /hand -->'")
    return blocks


def weave(sections: Sequence[Section], blocks: Sequence[HandBlock]) -> str:
    """The page's text: sections in order, each followed by the blocks that belong to it."""
    present = [*sections, Section(NOTES, "")]
    headings = {section.heading for section in present}
    kept = [
        block if block.section in headings else HandBlock(block.name, block.text, NOTES)
        for block in blocks
    ]
    if "notes" not in {block.name for block in kept}:
        kept.append(HandBlock("notes", "", NOTES))
    parts = []
    for section in present:
        if section.heading is not None:
            parts.append(f"## {section.heading}")
        if section.body.strip():
            parts.append(section.body.strip("\n"))
        for block in kept:
            if block.section == section.heading:
                parts.append(f"<!-- hand:{block.name} -->\n{block.text}\n<!-- /hand -->")
    return "\n\n".join(parts) + "\n"


def harmless(text: object) -> str:
    """Generated text that cannot be taken for a marker or break out of a table cell."""
    words = " ".join(str(text).split())
    return words.replace("<!--", "&lt;!--").replace("|", "\\|")


def _broken(where: str, line: int, what: str) -> RecordError:
    return RecordError(f"{where} line {line}: {what}; the page was not touched")
