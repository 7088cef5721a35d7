"""The programs in examples/ as a reader runs them, against a real server with a tiny backbone."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reflex.decider import Decider
from tests.serving import post, serving, tiny_decider

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
QUESTIONS = EXAMPLES / "tickets.questions.json"


@pytest.fixture(scope="module")
def decider() -> Decider:
    return tiny_decider()


@pytest.fixture(scope="module")
def url(decider: Decider) -> Iterator[str]:
    with serving(decider) as base:
        yield base


def start(url: str, program: str, *arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(EXAMPLES / program), *map(str, arguments)],
        env={**os.environ, "REFLEX_URL": url, "REFLEX_API_KEY": "any"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def call(url: str, program: str, *arguments: str | Path, status: int = 0) -> str:
    process = start(url, program, *arguments)
    out, err = process.communicate(timeout=60)
    assert process.returncode == status, out + err
    return out + err


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_support_ticket(url: str) -> None:
    told = call(url, "support_ticket.py")
    assert re.search(r"asks for a refund: \d+\.\d%", told)
    assert re.search(r"urgency: [0-3]\.\d\d on 0 … 3", told)
    assert {"billing", "technical", "sales", "other"} <= set(
        re.findall(r"^  (\w+)", told, re.MULTILINE)
    )
    assert "routed to" in told or "left to a person" in told


def test_pull_requests(url: str) -> None:
    told = call(url, "pull_requests.py")
    risks = [float(line.split()[1]) for line in told.splitlines()[1:]]
    assert len(risks) == 3
    assert risks == sorted(risks, reverse=True)


def test_decisions_through_the_openai_client(url: str) -> None:
    told = call(url, "decisions.py")
    assert re.search(r"^refund: \d+\.\d%$", told, re.MULTILINE)
    assert re.search(r"^team: (billing|technical|sales|other) \(confidence", told, re.MULTILINE)
    assert re.search(r"^tiny_llama: \d+ tokens read$", told, re.MULTILINE)


def test_a_spreadsheet_gets_the_servers_answers(url: str, tmp_path: Path) -> None:
    target = tmp_path / "answers.csv"
    told = call(url, "spreadsheet.py", EXAMPLES / "tickets.csv", target, "--questions", QUESTIONS)
    assert "12/12" in told
    before, after = table(EXAMPLES / "tickets.csv"), table(target)
    assert [{name: row[name] for name in before[0]} for row in after] == before
    request = {"state": before[1], "questions": json.loads(QUESTIONS.read_text())}
    answers = post(url, request)[1]["answers"]
    assert float(after[1]["refund"]) == pytest.approx(answers["refund"]["noul"], abs=1e-5)
    assert after[1]["team"] == answers["team"]["choice"]
    assert float(after[1]["team confidence"]) == pytest.approx(
        answers["team"]["confidence"], abs=1e-5
    )
    assert float(after[1]["urgency"]) == pytest.approx(answers["urgency"]["score"], abs=1e-5)
    assert {row["error"] for row in after} == {""}
    # Nothing is asked twice.
    again = call(url, "spreadsheet.py", EXAMPLES / "tickets.csv", target, "--questions", QUESTIONS)
    assert "every row is answered already" in again


def write_rows(path: Path, rows: int) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text"])
        writer.writerows([i, f'ticket "{i}",\nsecond line é'] for i in range(rows))


def test_killed_at_any_moment_it_goes_on(url: str, tmp_path: Path) -> None:
    source, target, whole = tmp_path / "in.csv", tmp_path / "out.csv", tmp_path / "whole.csv"
    write_rows(source, 60)
    options = ("--questions", QUESTIONS, "--columns", "text")
    process = start(url, "spreadsheet.py", source, target, *options)
    until = time.monotonic() + 30
    while time.monotonic() < until and (not target.exists() or len(table(target)) < 3):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    kept = target.read_bytes()
    assert 3 <= len(table(target)) < 60
    target.write_bytes(kept + b'99,"half a row \xc3')
    assert "60/60" in call(url, "spreadsheet.py", source, target, *options)
    assert target.read_bytes().startswith(kept)
    assert [row["id"] for row in table(target)] == [str(i) for i in range(60)]
    call(url, "spreadsheet.py", source, whole, *options)
    same = [{k: v for k, v in row.items() if not k.startswith("refund")} for row in table(whole)]
    for row, one in zip(table(target), same, strict=True):
        assert row["request"] == one["request"]
        assert row["team"] == one["team"]


def test_a_row_that_cannot_be_answered_says_why(url: str, tmp_path: Path) -> None:
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("text\nfine\n" + "word " * 3000 + "\nfine too\n")
    call(url, "spreadsheet.py", source, target, "--questions", QUESTIONS)
    rows = table(target)
    assert [bool(row["error"]) for row in rows] == [False, True, False]
    assert "4096 tokens" in rows[1]["error"]
    assert rows[1]["team"] == ""


def test_a_file_of_something_else_is_left_alone(url: str, tmp_path: Path) -> None:
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    write_rows(source, 2)
    target.write_text("my,own,notes\n1,2,3\nno line end")
    told = call(url, "spreadsheet.py", source, target, "--questions", QUESTIONS, status=1)
    assert "made from other rows or questions" in told
    assert target.read_text() == "my,own,notes\n1,2,3\nno line end"
    told = call(
        url,
        "spreadsheet.py",
        source,
        target,
        "--questions",
        QUESTIONS,
        "--columns",
        "txt",
        status=1,
    )
    assert "no column 'txt'; it has id, text" in told


def test_without_a_server_it_stops_in_one_line(tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    write_rows(source, 2)
    told = call(
        "http://127.0.0.1:9",
        *("spreadsheet.py", source, tmp_path / "out.csv", "--questions", QUESTIONS),
        status=1,
    )
    assert "the same command continues" in told
    assert "Traceback" not in told


def test_only_the_address_is_reflexs() -> None:
    for path in EXAMPLES.glob("*.py"):
        text = path.read_text()
        assert "import reflex" not in text
        assert "from reflex" not in text
