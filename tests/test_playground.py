"""The page at `/`, in a real browser against a real server with a tiny backbone.

Screenshots of what was tested are left in outputs/playground/ (not committed).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect, sync_playwright

from reflex.decider import Decider
from reflex.serving.config import ServeConfig
from reflex.serving.engine import Engine
from reflex.serving.page import FOLDER
from tests.serving import get, post, serving, tiny_decider

SHOTS = Path(__file__).resolve().parent.parent / "outputs" / "playground"
KEY = "a-key-for-tests"
HTML = "text/html,application/xhtml+xml"
EXAMPLES = json.loads((FOLDER / "examples.json").read_text())

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def decider() -> Decider:
    return tiny_decider("orders=two")


@pytest.fixture(scope="module")
def url(decider: Decider) -> Iterator[str]:
    with serving(decider) as base:
        yield base


@pytest.fixture(scope="module")
def browser(browser_path: str) -> Iterator[BrowserContext]:
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as profile:
        context = playwright.chromium.launch_persistent_context(
            profile,
            executable_path=browser_path,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
            viewport={"width": 1360, "height": 900},
        )
        context.set_default_timeout(20_000)
        yield context
        context.close()


@pytest.fixture
def page(browser: BrowserContext) -> Iterator[Page]:
    """A fresh tab; the test fails if a script does, or if anything outside the server is asked for."""
    tab = browser.new_page()
    errors: list[str] = []
    hosts: set[str] = set()
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.on(
        "console",
        lambda message: errors.append(message.text) if "Content Security" in message.text else None,
    )
    tab.on("request", lambda request: hosts.add(request.url.split("/")[2].split(":")[0]))
    yield tab
    tab.close()
    assert errors == []
    assert hosts <= {"127.0.0.1"}


def start(page: Page, url: str) -> None:
    page.goto(url)
    page.wait_for_selector("body[data-ready]")


def type_json(page: Page, body: Any) -> None:
    page.click("#tab-json")
    page.fill("#raw", body if isinstance(body, str) else json.dumps(body))


def shot(page: Page, name: str) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png")


def shown(page: Page, question: str) -> list[tuple[str, Any]]:
    """Option names and unrounded probabilities of an answer's bars, top to bottom."""
    bars = page.locator(f'[data-question="{question}"] .bar')
    return [
        (
            bars.nth(i).locator(".bar-name").get_attribute("title") or "",
            float(bars.nth(i).locator(".bar-value").get_attribute("title") or "nan"),
        )
        for i in range(bars.count())
    ]


# -- files -----------------------------------------------------------------------------------------


def test_a_browser_gets_the_page_and_a_program_gets_json(url: str) -> None:
    status, text, headers = get(url, "/", accept=HTML)
    assert status == 200
    assert "<title>reflex playground</title>" in text
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert "POST /v1/systemone" in get(url, "/")[1]["endpoints"]
    for path in re.findall(r'(?:href|src)="(/[^"]+)"', text):
        assert get(url, path)[0] == 200, path
    assert get(url, "/playground/../app.py")[0] == 404


def test_files_are_sent_again_only_when_they_changed(url: str) -> None:
    tag = get(url, "/playground/app.js")[2]["etag"]
    assert get(url, "/playground/app.js", if_none_match=tag)[0] == 304
    assert get(url, "/playground/app.js", if_none_match='"other"')[0] == 200


def test_nothing_in_the_page_points_outside() -> None:
    for path in sorted(FOLDER.iterdir()):
        if path.is_file() and path.suffix != ".py":
            text = path.read_text().replace("http://www.w3.org/2000/svg", "")
            assert not re.search(r"https?://\w", text), path.name
            assert "innerHTML" not in text


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: str(each["title"]))
def test_every_example_is_answered(url: str, example: dict[str, Any]) -> None:
    status, reply, _ = post(url, example["request"])
    assert status == 200
    assert set(reply["answers"]) == set(example["request"]["questions"])


def test_each_orders_own_distribution_is_shown_on_request(url: str) -> None:
    request = EXAMPLES[2]["request"]
    plain = post(url, request)[1]["answers"]["about"]
    assert "x_orders" not in plain
    asked = post(url, {**request, "x_orders": True})[1]["answers"]["about"]
    assert len(asked["x_orders"]) == 4
    for key, p in asked["probabilities"].items():
        assert sum(one[key] for one in asked["x_orders"]) / 4 == pytest.approx(p, abs=1e-9)
    status, reply, _ = post(url, {**request, "x_orders": "yes"})
    assert (status, reply["detail"][0]["loc"]) == (422, ["body", "x_orders"])


# -- asking ----------------------------------------------------------------------------------------


def test_the_form_shows_what_the_server_answers(page: Page, url: str) -> None:
    start(page, url)
    expect(page.locator("#served")).to_contain_text("tiny_llama")
    shot(page, "desktop-start")
    page.select_option("#example", label="Product review, four orders")
    page.click("#run")
    page.wait_for_selector(".answer")
    request = EXAMPLES[2]["request"]
    answers = post(url, {**request, "x_orders": True})[1]["answers"]
    about = answers["about"]
    assert shown(page, "about") == [
        (key, pytest.approx(p, abs=1e-5)) for key, p in about["probabilities"].items()
    ]
    assert shown(page, "again") == [
        ("Yes", pytest.approx(answers["again"]["noul"], abs=1e-5)),
        ("No", pytest.approx(1 - answers["again"]["noul"], abs=1e-5)),
    ]
    card = page.locator('[data-question="about"]')
    expect(card.locator(".verdict strong")).to_have_text(about["choice"])
    expect(card).to_contain_text(f"{about['confidence']:.2f}")
    expect(card).to_contain_text(f"{about['x_disagreement']:.3f}")
    tops = [max(one, key=lambda key: one[key]) for one in about["x_orders"]]
    others = sum(top != about["choice"] for top in tops)
    expect(card).to_contain_text(f"{others} of 4 orders" if others else "all 4 orders")
    assert card.locator(".mark").count() == 4 * len(about["probabilities"])
    stars = page.locator('[data-question="stars"]')
    expect(stars).to_contain_text(f"mean {answers['stars']['score']:.2f}")
    costs = page.locator("#costs")
    expect(costs).to_contain_text("ms")
    usage = post(url, request)[1]["usage"]
    expect(costs).to_contain_text(
        f"{usage['input_tokens']} = {usage['x_state_tokens']} state + "
        f"{usage['x_question_tokens']} questions"
    )
    expect(page.locator("#done")).to_contain_text("3 answers in")
    shot(page, "desktop-answers")
    page.click("#tab-reply")
    assert '"choice"' in (page.text_content("#reply") or "")


def test_editing_by_keyboard_alone(page: Page, url: str) -> None:
    start(page, url)
    while page.locator(".question-head .remove").count():
        page.locator(".question-head .remove").first.click()
    page.focus("#state")
    page.keyboard.press("Control+a")
    page.keyboard.type("It rains.")
    page.keyboard.press("Tab")  # Add: yes / no
    page.keyboard.press("Tab")  # Add: choice
    page.keyboard.press("Enter")
    page.keyboard.type("How is the weather?")
    page.keyboard.press("Tab")
    page.keyboard.type("wet")
    page.keyboard.press("Tab")
    page.keyboard.type("water falls")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")  # past "remove"
    page.keyboard.type("dry")
    page.keyboard.press("Enter")  # one more option
    page.keyboard.type("odd")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".answer")
    request = {
        "state": "It rains.",
        "questions": {
            "question_1": {
                "type": "choice",
                "instructions": "How is the weather?",
                "criteria": {"wet": "water falls", "dry": None, "odd": None},
            }
        },
    }
    wanted = post(url, request)[1]["answers"]["question_1"]["probabilities"]
    assert shown(page, "question_1") == [(k, pytest.approx(p, abs=1e-5)) for k, p in wanted.items()]
    page.focus("#tab-form")
    page.keyboard.press("ArrowRight")
    assert json.loads(page.input_value("#raw")) == {"model": "jev-latest", **request}
    assert page.evaluate("document.activeElement.id") == "tab-json"
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.id") == "tab-typescript"


def test_every_control_has_a_name(page: Page, url: str) -> None:
    start(page, url)
    page.click("#run")
    page.wait_for_selector(".answer")
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, textarea")].filter((each) =>
             !each.getAttribute("aria-label") && !each.labels?.length && !each.textContent.trim())
             .map((each) => each.outerHTML)"""
    )
    assert nameless == []
    duplicates = page.evaluate(
        """() => { const ids = [...document.querySelectorAll("[id]")].map((each) => each.id);
             return ids.filter((id, at) => ids.indexOf(id) !== at); }"""
    )
    assert duplicates == []


def test_json_keeps_the_order_of_keys_and_the_digits_of_numbers(page: Page, url: str) -> None:
    body = (
        '{"state": {"b": 12345678901234567890, "7": 1.50, "a": 1},\n'
        ' "questions": {"q": {"type": "choice", "instructions": "?",'
        ' "criteria": {"10": null, "2": "two", "__proto__": null}}}, "x_more": [1e5]}'
    )
    start(page, url)
    type_json(page, body)
    page.click("#run")
    page.wait_for_selector(".answer")
    _, reply, _ = post(url, body.encode())
    wanted = reply["answers"]["q"]["probabilities"]
    assert list(wanted) == ["10", "2", "__proto__"]
    assert shown(page, "q") == [(key, pytest.approx(p, abs=1e-5)) for key, p in wanted.items()]
    page.click("#tab-form")
    page.click("#tab-json")
    again = page.input_value("#raw")
    assert list(json.loads(again)["state"].items()) == [
        ("b", 12345678901234567890),
        ("7", 1.5),
        ("a", 1),
    ]
    assert "1.50" in again
    assert json.loads(again)["x_more"] == [1e5]


def test_many_options_show_the_most_probable_first(page: Page, url: str) -> None:
    criteria = {f"option {i}": None for i in range(40)}
    start(page, url)
    type_json(page, {"state": "x", "questions": {"q": {"type": "choice", "criteria": criteria}}})
    page.click("#run")
    page.wait_for_selector(".answer")
    best = [p for _, p in shown(page, "q")]
    assert len(best) == 10
    assert best == sorted(best, reverse=True)
    page.click("text=All 40 in the order asked")
    assert [name for name, _ in shown(page, "q")] == list(criteria)
    page.click("#tab-form")
    first = page.locator(".option-name").first
    first.fill("")
    first.evaluate(
        """(element) => { const data = new DataTransfer(); data.setData("text", "red\\ngreen\\n\\nblue");
             element.dispatchEvent(new ClipboardEvent("paste", {clipboardData: data, cancelable: true})); }"""
    )
    assert page.locator(".option-name").count() == 42
    assert page.locator(".option-name").nth(2).input_value() == "blue"


def test_markup_in_a_request_stays_text(page: Page, url: str) -> None:
    evil = "<img src=x onerror=document.body.dataset.broken=1><b>bold</b>"
    start(page, url)
    question = {"type": "choice", "instructions": evil, "criteria": {evil: evil, "b": None}}
    type_json(page, {"state": evil, "questions": {evil: question}})
    page.click("#run")
    page.wait_for_selector(".answer")
    assert page.locator("main img, main b").count() == 0
    assert page.evaluate("document.body.dataset.broken") is None
    assert page.text_content(".answer h3") == evil


# -- what goes wrong -------------------------------------------------------------------------------


def test_a_missing_key_is_asked_for_and_then_works(page: Page, decider: Decider) -> None:
    with serving(decider, keys=[KEY]) as locked:
        start(page, locked)
        expect(page.locator("#key")).to_have_attribute("placeholder", "required")
        page.click("#run")
        expect(page.locator(".problem")).to_contain_text("needs an API key")
        expect(page.locator(".problem")).to_contain_text("Enter a key at the top")
        assert page.evaluate("document.activeElement.id") == "key"
        shot(page, "desktop-key")
        page.keyboard.type("wrong")
        page.keyboard.press("Control+Enter")
        expect(page.locator(".problem")).to_contain_text("not known to the server")
        page.fill("#key", "schlüssel €")
        page.click("#run")
        expect(page.locator(".problem")).to_contain_text("cannot be sent")
        page.fill("#key", KEY)
        page.click("#run")
        page.wait_for_selector(".answer")
        assert page.locator(".problem").count() == 0
        page.click("#tab-curl")
        assert KEY not in (page.text_content("#code") or "")


def test_mistakes_are_named_where_they_are(page: Page, url: str) -> None:
    start(page, url)
    page.locator(".name").nth(1).fill("refund")
    page.click("#run")
    expect(page.locator(".question").nth(1)).to_contain_text('Two questions are called "refund"')
    page.locator(".name").nth(1).fill("team")
    assert page.locator(".field-problem:not(:empty)").count() == 0
    page.check("#state-json")
    page.click("#run")
    expect(page.locator("#field-state")).to_contain_text("not valid JSON")
    page.uncheck("#state-json")
    page.click("#tab-json")
    page.fill("#raw", '{"state": "x",\n "questions": {"a": tru}}')
    page.click("#run")
    expect(page.locator("#raw-problem")).to_have_text('"t" cannot stand here (line 2, column 21)')
    shot(page, "desktop-json-mistake")
    levels = {"type": "score", "instructions": "?", "criteria": ["Calm", None]}
    page.fill("#raw", json.dumps({"state": "x", "questions": {"a": levels}}))
    page.click("#run")
    expect(page.locator(".problem")).to_contain_text("criteria › 1")
    page.fill("#raw", json.dumps({"state": 3, "questions": {"a": {"type": "box"}}}))
    page.click("#run")
    expect(page.locator(".problem")).to_contain_text("Box questions locate things")
    expect(page.locator(".problem")).to_contain_text("questions › a › type")
    page.click("#tab-form")
    expect(page.locator("#run-note")).to_contain_text("The form cannot show this request")
    page.fill(
        "#raw",
        json.dumps(
            {"state": "word " * 3000, "questions": {"a": {"type": "noul", "instructions": "?"}}}
        ),
    )
    page.click("#run")
    expect(page.locator(".problem")).to_contain_text("4096 tokens")
    expect(page.locator(".problem")).to_contain_text("Nothing is ever cut off")


def test_a_rejected_question_is_marked_in_the_form(page: Page, decider: Decider) -> None:
    with serving(decider, max_options=3) as base:
        start(page, base)
        page.click("#run")
        expect(page.locator(".question").nth(1)).to_contain_text("4 options; this server takes 3")
        expect(page.locator(".problem")).to_contain_text("questions › team › criteria")


def test_loading_failed_and_gone_are_told_apart(page: Page, decider: Decider) -> None:
    release = threading.Event()

    def load() -> Decider:
        release.wait(30)
        return decider

    settings = ServeConfig(warm_up=False)
    with serving(None, engine=Engine(settings, load)) as base:
        start(page, base)
        expect(page.locator("#served")).to_contain_text("loading the model")
        page.click("#run")
        expect(page.locator(".problem")).to_contain_text("still loading")
        release.set()
        expect(page.locator("#served")).to_contain_text("tiny_llama", timeout=10_000)
        page.get_by_role("button", name="Try again").click()
        page.wait_for_selector(".answer")
    page.click("#run")
    expect(page.locator(".problem")).to_contain_text("Nothing answers at http://127.0.0.1")


def test_a_running_request_can_be_stopped(page: Page, url: str) -> None:
    start(page, url)
    page.route("**/v1/systemone", lambda route: None)  # never answered
    page.click("#run")
    expect(page.locator("#run")).to_contain_text("Stop")
    page.click("#run")
    expect(page.locator("#run")).to_contain_text("Run")
    expect(page.locator("#run-note")).to_have_text("Stopped.")


# -- code ------------------------------------------------------------------------------------------

TRICKY = {
    "state": {
        "note": 'it\'s "quoted" $HOME `id` \\n\nREQUEST\n…\u2028',
        "n": 0.10,
        "none": None,
        "ok": True,
    },
    "questions": {
        "q's": {
            "type": "choice",
            "instructions": "Which?",
            "criteria": {"10": None, "2": "b'\"$x"},
        },
        "yes": {"type": "noul", "criteria": {"true": "it's true"}},
        "s": {"type": "score", "criteria": ["low", {"high": [1, None]}]},
    },
    "permutations": 2,
}


@pytest.mark.parametrize("language", ["curl", "python", "typescript"])
def test_copied_code_gives_the_same_answers(
    page: Page, url: str, language: str, tmp_path: Path
) -> None:
    start(page, url)
    type_json(page, TRICKY)
    page.click(f"#tab-{language}")
    code = page.text_content("#code") or ""
    assert url in code
    wanted = post(url, TRICKY)[1]["answers"]
    if language == "curl":
        command = ["bash", "-c", code]
    elif language == "python":
        command = [sys.executable, "-c", code]
    else:
        node = shutil.which("node")
        if node is None:
            pytest.skip("no node here to run the TypeScript snippet")
        (tmp_path / "ask.mjs").write_text(code)  # it has no type annotations
        command = [node, str(tmp_path / "ask.mjs")]
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]} here")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    if language == "python":
        printed = [float(found) for found in re.findall(r"\d\.\d{6,}", done.stdout)]
        for p in (wanted["yes"]["noul"], *wanted["q's"]["probabilities"].values()):
            assert min(abs(p - found) for found in printed) < 1e-5
        return
    found = json.loads(done.stdout)
    answers = found["answers"] if language == "curl" else found
    assert answers["q's"]["probabilities"] == pytest.approx(
        wanted["q's"]["probabilities"], abs=1e-5
    )
    assert answers["s"]["legend"] == wanted["s"]["legend"]


def test_copy_puts_the_code_on_the_clipboard(page: Page, browser: BrowserContext, url: str) -> None:
    browser.grant_permissions(["clipboard-read", "clipboard-write"], origin=url)
    start(page, url)
    page.click("#tab-python")
    page.click("#copy")
    expect(page.locator("#copy")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.text_content("#code")
    page.select_option("#orders", "3")
    assert 'extra_body={"permutations": 3}' in (page.text_content("#code") or "")


# -- looks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "width"), [("phone", 360), ("tablet", 820), ("desktop", 1360)])
def test_nothing_sticks_out_on_any_screen(page: Page, url: str, name: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    start(page, url)
    page.click("#run")
    page.wait_for_selector(".answer")
    for tab in ("form", "json", "curl", "python", "typescript"):
        page.click(f"#tab-{tab}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, tab
    page.click("#tab-form")
    page.wait_for_timeout(300)
    shot(page, f"{name}-after")
    if name == "phone":
        small = page.evaluate(
            """() => [...document.querySelectorAll("button, select, input:not([type=checkbox])")]
                 .filter((each) => each.checkVisibility() && each.getBoundingClientRect().height < 24)
                 .map((each) => each.outerHTML)"""
        )
        assert small == []


def test_light_and_dark(page: Page, url: str) -> None:
    page.emulate_media(color_scheme="dark")
    start(page, url)
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.click("#run")
    page.wait_for_selector(".answer")
    shot(page, "desktop-dark")
    page.click("#theme")
    light = page.evaluate(ground)
    assert dark != light
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert page.evaluate(ground) == light
    page.evaluate("localStorage.clear()")


def test_a_reload_keeps_the_request(page: Page, url: str) -> None:
    start(page, url)
    page.fill("#state", "kept across a reload")
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert page.input_value("#state") == "kept across a reload"
