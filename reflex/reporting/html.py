"""A sweep as one self-contained HTML file: the Markdown page's text, its plot inside, nothing loaded."""

from __future__ import annotations

import html
import re
from pathlib import Path

from markdown_it import MarkdownIt

from reflex.files import write_atomic
from reflex.reporting.comparisons import judge_sweep
from reflex.reporting.hand import SIGNATURE, read_blocks, weave
from reflex.reporting.page import page_plots, page_sections
from reflex.reporting.sweep import Places, Sweep

_COMMENT = re.compile(r"^<!--[^\n]*-->[ ]*$", re.MULTILINE)

_FOLD = re.compile(r"<p>&lt;details&gt;&lt;summary&gt;([^<]*)&lt;/summary&gt;</p>")
"""How the page folds a long table, as rendered: the only HTML of the Markdown that is let through."""

STYLE = """
:root { color-scheme: light dark; --rule: #d0d0d0; --soft: #666; --back: #fff; --text: #1a1a1a; --mark: #f4f4f4; }
@media (prefers-color-scheme: dark) {
  :root { --rule: #444; --soft: #aaa; --back: #161616; --text: #e6e6e6; --mark: #222; }
}
body { background: var(--back); color: var(--text); font: 15px/1.55 system-ui, sans-serif; margin: 0 auto;
  max-width: 76rem; padding: 2rem 1.25rem 4rem; }
p, ul { max-width: 52rem; }
h1 { font-size: 1.7rem; } h2 { border-bottom: 1px solid var(--rule); margin-top: 2.2rem; padding-bottom: .2rem; }
h1, h2, h3 { line-height: 1.25; }
.table { overflow-x: auto; }
summary { cursor: pointer; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { border-bottom: 1px solid var(--rule); padding: .3rem .7rem; text-align: left; vertical-align: top; }
td[style], th[style] { white-space: nowrap; }
th { color: var(--soft); font-weight: 600; }
code { background: var(--mark); border-radius: 3px; font-size: .88em; overflow-wrap: anywhere; padding: .1em .3em; }
pre { overflow-x: auto; } pre code { overflow-wrap: normal; }
figure { margin: 1rem 0; background: #fff; display: inline-block; max-width: 100%; }
figure svg { height: auto; max-width: 100%; }
"""


def write_html(sweep: Sweep, places: Places) -> Path:
    """Write the page beside the Markdown one and return its path.

    Hand-written passages of the Markdown page are shown too; they are edited there. Raises RecordError as
    `write_page` does.
    """
    markdown = places.page(sweep)
    path = markdown.with_suffix(".html")
    experiment = places.experiment(sweep)
    figures = {name: plot.decode("utf-8") for name, plot in page_plots(sweep).items()}
    sections = page_sections(sweep, experiment, judge_sweep(sweep), markdown, list(figures))
    text = weave(sections, read_blocks(markdown))
    write_atomic(path, to_html(text, experiment.title, figures).encode("utf-8"))
    return path


def to_html(markdown: str, title: str, figures: dict[str, str]) -> str:
    """Markdown as a whole HTML document.

    figures: SVG by the path under which the text shows it; any other image becomes its caption. HTML in
    the text is shown as text, so that nothing in a record can run or load anything.
    """
    text = _COMMENT.sub("", markdown.replace(SIGNATURE, ""))
    renderer = MarkdownIt("commonmark", {"html": False}).enable("table")
    body = renderer.render(text)
    body = re.sub(r"<p>(<img [^>]*>)</p>", r"\1", body)
    body = re.sub(r'<img src="([^"]*)" alt="([^"]*)"[^>]*>', lambda m: _figure(m, figures), body)
    body = _FOLD.sub(r"<details><summary>\1</summary>", body)
    body = body.replace("<p>&lt;/details&gt;</p>", "</details>")
    body = body.replace("<table>", '<div class="table"><table>')
    body = body.replace("</table>", "</table></div>")
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n{body}</body>\n</html>\n"
    )


def _figure(match: re.Match[str], figures: dict[str, str]) -> str:
    source, caption = html.unescape(match[1]), match[2]
    if source not in figures:
        return f"<em>{caption}</em>"
    drawing = re.sub(r"^.*?(?=<svg)", "", figures[source], count=1, flags=re.DOTALL)
    # Vocabularies are named by address and nothing fetches them; metadata is not shown.
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    return f'<figure role="img" aria-label="{caption}">{drawing}</figure>'
