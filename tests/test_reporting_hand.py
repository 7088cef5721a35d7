"""Hand-written passages survive whatever the generated part becomes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflex.errors import RecordError
from reflex.reporting.hand import (
    SIGNATURE,
    HandBlock,
    Section,
    harmless,
    parse_blocks,
    read_blocks,
    weave,
)

TOP = Section(None, f"# Title\n\n{SIGNATURE}")

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=60)
passages = texts.filter(lambda text: "hand" not in text.lower())
headings = st.sampled_from([None, "Verdict", "Cells", "Gone", "Notes"])
names = st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True)


@given(st.lists(st.tuples(names, passages, headings), unique_by=lambda entry: entry[0], max_size=5))
def test_every_passage_survives_any_rewrite(entries: list[tuple[str, str, str | None]]):
    blocks = [HandBlock(*entry) for entry in entries]
    page = weave(
        [TOP, Section("Verdict", "a"), Section("Cells", "b"), Section("Gone", "c")], blocks
    )
    written = {block.name: block for block in parse_blocks(page, "page")}
    # The section `Gone` disappears and the order of the others changes.
    sections = [TOP, Section("Cells", "y"), Section("Verdict", "z")]
    rewritten = weave(sections, list(written.values()))
    after = {block.name: block for block in parse_blocks(rewritten, "page")}
    for name, text, section in entries:
        assert written[name] == HandBlock(name, text, section)
        assert after[name] == HandBlock(name, text, "Notes" if section == "Gone" else section)


@given(st.lists(st.tuples(names, passages), unique_by=lambda entry: entry[0], max_size=4))
def test_rewriting_twice_changes_nothing(entries: list[tuple[str, str]]):
    blocks = [HandBlock(name, text, "Cells") for name, text in entries]
    sections = [TOP, Section("Cells", "b")]
    once = weave(sections, blocks)
    assert weave(sections, parse_blocks(once, "page")) == once


def test_a_heading_inside_a_passage_is_text():
    page = weave([TOP, Section("Cells", "b")], [HandBlock("a", "## Mine\n\n| x |", "Cells")])
    (block, notes) = parse_blocks(page, "page")
    assert block == HandBlock("a", "## Mine\n\n| x |", "Cells")
    assert notes == HandBlock("notes", "", "Notes")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<!-- hand:a -->\ntext", "page.md line 3: block 'a' is not closed"),
        ("<!-- hand:a -->\n<!-- hand:b -->\n<!-- /hand -->", "block 'a' is still open at line 4"),
        ("text\n<!-- /hand -->", "page.md line 4: '<!-- /hand -->' closes nothing"),
        ("<!-- hand:a -->\n<!-- /hand -->\n" * 2, "line 5: block 'a' is there twice"),
        ("<!-- hand: -->\n<!-- /hand -->", "line 3: marker '<!-- hand: -->' is misspelt"),
        ("<!-- hand:a -->\n<!-- / hand>", "line 4: marker '<!-- / hand>' is misspelt"),
    ],
)
def test_a_broken_marker_is_one_line_and_touches_nothing(tmp_path: Path, text: str, said: str):
    page = tmp_path / "page.md"
    page.write_text(f"{SIGNATURE}\n\n{text}")
    with pytest.raises(RecordError) as caught:
        read_blocks(page)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_page_of_somebody_else_is_not_overwritten(tmp_path: Path):
    assert read_blocks(tmp_path / "none.md") == []
    (tmp_path / "page.md").write_text("# My own page\n")
    with pytest.raises(RecordError, match="so it was not touched"):
        read_blocks(tmp_path / "page.md")
    (tmp_path / "page.md").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecordError, match="cannot be read"):
        read_blocks(tmp_path / "page.md")


@given(texts)
def test_generated_text_is_never_a_marker_nor_a_new_cell(text: str):
    safe = harmless(f"<!-- hand:x -->{text}<!-- /hand -->")
    assert "\n" not in safe
    assert parse_blocks(safe, "page") == []
    assert safe.replace("\\|", "").count("|") == 0
