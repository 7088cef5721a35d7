"""`python -m reflex.answer`: a request file to bars or JSON, mistakes to one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reflex.answer import bars, main, read_request
from reflex.errors import RequestError

EXAMPLE = Path(__file__).parents[1] / "examples" / "ticket.request.json"


def test_the_example_is_answered_as_the_server_would(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(EXAMPLE), "backbone=tiny_llama", "--json"]) == 0
    answers = json.loads(capsys.readouterr().out)["answers"]
    assert list(answers) == ["refund", "team", "mood"]
    assert sum(answers["team"]["probabilities"].values()) == pytest.approx(1)
    assert answers["mood"]["legend"]["0"] == "very unhappy"


def test_bars_are_as_long_as_their_probability() -> None:
    told = bars(
        {
            "model": "m",
            "answers": {
                "q": {"type": "noul", "noul": 0.9},
                "s": {
                    "type": "score",
                    "confidence": 0.5,
                    "legend": {"0": "low", "1": "high"},
                    "probabilities": {"0": 0.25, "1": 0.75},
                },
            },
        }
    )
    assert told.splitlines() == [
        "model: m",
        "q (noul)",
        " * yes   90.0%  " + "█" * 27,
        "   no    10.0%  " + "█" * 3,
        "s (score, confidence 0.50)",
        "   low    25.0%  " + "█" * 8,
        " * high   75.0%  " + "█" * 22,
    ]


def test_levels_may_be_objects_and_may_be_the_same() -> None:
    levels = {
        "type": "score",
        "confidence": 0.5,
        "legend": {"0": {"mood": "grün"}, "1": "so\nso", "2": "so so"},
        "probabilities": {"0": 0.25, "1": 0.5, "2": 0.25},
    }
    assert bars({"model": "m", "answers": {"s": levels}}).splitlines()[2:] == [
        '   {"mood": "grün"}   25.0%  ' + "█" * 8,
        " * so so              50.0%  " + "█" * 15,
        "   so so              25.0%  " + "█" * 8,
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["missing.json"], "missing.json: No such file"),
        (["run=stable"], "name one file"),
        ([str(EXAMPLE), "backbone=nothing"], "nothing"),
        ([str(Path(__file__))], "not JSON"),
    ],
)
def test_a_mistake_is_one_line(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 1
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"state": "a", "state": "b"}', "key 'state' appears twice in one object; keep one"),
        ('{"state": NaN}', "NaN is not JSON; write a finite number"),
        ("{} {}", "Extra data: line 1 column 3 (char 2)"),
    ],
)
def test_json_that_the_server_refuses_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "asked.json"
    path.write_text(text)
    with pytest.raises(RequestError) as caught:
        read_request(str(path))
    assert str(caught.value) == f"{path}: not JSON ({why})"


def test_images_are_not_answered_blind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = {**json.loads(EXAMPLE.read_text()), "assets": {"<image:0>": {"type": "image"}}}
    (tmp_path / "asked.json").write_text(json.dumps(asked))
    assert main([str(tmp_path / "asked.json"), "backbone=tiny_llama"]) == 1
    error = "error: body.assets: the backbone reads text only and cannot see images; leave `assets` out\n"
    assert capsys.readouterr().err == error
