"""The page as one HTML file and as a W&B Report, from the records the Markdown page is made of."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from reflex import report
from reflex.errors import ConfigError
from reflex.reporting import Places, Sweep, find_sweeps, targets, write_page
from reflex.reporting.html import to_html
from reflex.reporting.wandb_report import build, spec_of, where
from reflex.tracking.record import write_record
from tests.fake_records import fake_predictions, fake_record

QUALITY = {"one": 1.5, "two": 1.6, "four": 2.2}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    folder = tmp_path_factory.mktemp("targets")
    runs = folder / "runs"
    for seed, (orders, quality) in enumerate(QUALITY.items()):
        frame = fake_predictions(seed=seed, quality=quality)
        write_record(runs / orders, fake_record(orders, frame), frame)
    return Places(runs, folder / "results")


@pytest.fixture(scope="module")
def sweep(places: Places) -> Sweep:
    (found,), _ = find_sweeps(places, "averaging")
    return found


@pytest.fixture(scope="module")
def markdown(sweep: Sweep, places: Places) -> str:
    """The Markdown page, with a passage written by hand."""
    page = write_page(sweep, places)
    marker = "<!-- hand:notes -->\n"
    page.write_text(page.read_text().replace(marker, f"{marker}Seen *by* hand, 2 < 3.\n"))
    return page.read_text()


@pytest.fixture(scope="module")
def html(sweep: Sweep, places: Places, markdown: str) -> Path:
    return targets["html"](sweep, places)


class Loads(HTMLParser):
    """What a browser would fetch, and the tags of the document."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        for name in ("src", "srcset", "data", "poster", "background"):
            if name in given:
                self.fetched.append(f"{tag} {given[name]}")
        for name in ("href", "xlink:href"):
            # Links wait for a click, and `#…` points into the document.
            if name in given and tag != "a" and not str(given[name]).startswith("#"):
                self.fetched.append(f"{tag} {given[name]}")


def loads(text: str) -> Loads:
    parser = Loads()
    parser.feed(text)
    return parser


# -- HTML ------------------------------------------------------------------------------------------


def test_html_tells_what_the_markdown_page_tells(places: Places, markdown: str, html: Path) -> None:
    assert html == places.results / "averaging.html"
    text = re.sub(r"<style>.*?</style>|<svg.*?</svg>", "", html.read_text(), flags=re.DOTALL)
    words = re.sub(r"<[^>]+>", " ", text)
    shown = set(re.findall(r"\d+\.\d{4}", words))
    assert set(re.findall(r"\d+\.\d{4}", markdown)) == shown
    for heading in re.findall(r"^## (.+)$", markdown, re.MULTILINE):
        assert f"<h2>{heading}</h2>" in text
    assert "hand:" not in words
    assert text.count("<table>") == len(re.findall(r"^\| ---", markdown, re.MULTILINE))
    assert "Seen <em>by</em> hand, 2 &lt; 3." in text


def test_html_loads_nothing_and_holds_the_plot(html: Path) -> None:
    text = html.read_text()
    found = loads(text)
    assert found.fetched == []
    assert found.tags.count("svg") == 1
    assert not {"script", "link", "iframe", "img", "object"} & set(found.tags)
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    assert "default-src 'none'" in text


def test_html_is_the_same_for_the_same_records(sweep: Sweep, places: Places, html: Path) -> None:
    first = html.read_bytes()
    assert targets["html"](sweep, places).read_bytes() == first


def test_text_of_a_record_stays_text() -> None:
    text = to_html(
        "# T\n\n| a |\n| --- |\n| <script>alert(1)</script> |\n\n![x](http://example.com/y.png)\n\n"
        "[go](javascript:alert(1))\n\n<details><summary>34 values</summary>\n\n| a |\n| --- |\n\n</details>\n",
        'A "title" & <more>',
        {},
    )
    found = loads(text)
    assert "script" not in found.tags
    assert "img" not in found.tags
    assert "&lt;script&gt;" in text
    assert 'href="javascript' not in text
    assert text.count("<details><summary>34 values</summary>") == text.count("</details>") == 1
    assert "<title>A &quot;title&quot; &amp; &lt;more&gt;</title>" in text


@pytest.mark.browser
def test_html_in_a_browser(html: Path, browser_path: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(browser_path, "--headless", "--no-sandbox", "--disable-gpu"),
            *(f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr", "--dump-dom"),
            html.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "<h2>Verdict</h2>" in done.stdout
    assert "<svg" in done.stdout
    assert "Refused to" not in done.stderr  # what the page's own policy would have blocked


# -- W&B -------------------------------------------------------------------------------------------


def blocks(found: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [block for block in found["spec"]["blocks"] if block["type"] == kind]


def test_report_has_the_page_and_panels_over_the_group(
    sweep: Sweep, places: Places, markdown: str
) -> None:
    pytest.importorskip("wandb_workspaces", reason="install reflex-systemone[report]")
    found = spec_of(build(sweep, places, "reflex", ""))
    text = "\n".join(block["content"] for block in blocks(found, "markdown-block"))
    for table in re.findall(r"(?:^\|.*\n)+", markdown, re.MULTILINE):
        assert table.strip() in text
    assert "orders=four is better than orders=one" in text
    assert "](records/" not in text
    (grid,) = blocks(found, "panel-grid")
    raw = json.dumps(grid)
    assert '"averaging-1"' in raw
    for name in ("nll", "brier", "accuracy", "ece_15", "flip_rate"):
        assert f'"summary_metrics.{name}"' in raw
    assert '"reliability_plot_table"' in raw
    assert '"wandb/line/v0"' in raw
    assert raw.count('"viewType": "Bar Chart"') == 6


def test_report_without_an_account_says_how_to_publish(
    places: Places, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("wandb_workspaces", reason="install reflex-systemone[report]")
    given = [f"runs_dir={places.runs}", f"results_dir={places.results}", "experiment=averaging"]
    assert report.main([*given, "target=wandb"]) == 0
    lines = capsys.readouterr().out.strip().splitlines()
    assert lines[-1] == f"page: {places.runs / 'pages' / 'averaging.wandb.json'}"
    (said,) = [line for line in lines if line.startswith("not published")]
    assert "wandb login" in said
    assert "wandb sync" in said
    written = json.loads((places.runs / "pages" / "averaging.wandb.json").read_text())
    assert written["displayName"] == "Averaging"


def test_report_goes_where_the_runs_went(tmp_path: Path) -> None:
    places, frame = Places(tmp_path / "runs", tmp_path / "results"), fake_predictions()
    for orders in ("one", "two", "four"):
        write_record(places.runs / orders, fake_record(orders, frame), frame)
    tracker = {"project": "choices", "entity": "team"}
    changed = fake_record("two", frame, config={"tracker": tracker}, debug=True, finished="2027")
    write_record(places.runs / "debug", changed, frame)
    sweeps, _ = find_sweeps(places, "averaging")
    assert [where(sweep) for sweep in sweeps if not sweep.full] == [("choices-debug", "team")]
    assert [where(sweep) for sweep in sweeps if sweep.full] == [("reflex", None)]


def test_report_without_the_extra(
    sweep: Sweep, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb_workspaces.reports.v2", None)
    with pytest.raises(ConfigError, match=r"reflex-systemone\[report\]"):
        targets["wandb"](sweep, places)


def test_unknown_target(places: Places, capsys: pytest.CaptureFixture[str]) -> None:
    assert report.main(["target=pdf", f"runs_dir={places.runs}"]) == 1
    assert capsys.readouterr().err == "error: target='pdf' is not one of markdown, html, wandb\n"
