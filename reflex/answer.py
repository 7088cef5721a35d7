"""`python -m reflex.answer REQUEST.json`: one request answered here, without a server.

    python -m reflex.answer examples/ticket.request.json run=stable
    python -m reflex.answer examples/ticket.request.json backbone=tiny_llama orders=two
    python -m reflex.answer - run=1a2b3c --json < request.json

The request is what POST /v1/systemone takes; `-` reads standard input. `run=` and every other key are those
of `python -m reflex.serve`. Printed are bars, or with --json the response as a server would send it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reflex.data.jsonl import RefusedJson, whole_value
from reflex.errors import ReflexError, RequestError

WIDTH = 30
"""Characters of a bar of probability 1."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0, or 1 after one line on standard error."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or "--help" in given or "-h" in given:
        print(__doc__)
        return 0
    from reflex.messages import USER_ERRORS, one_line

    try:
        return _answer([word for word in given if word != "--json"], "--json" in given)
    except (ReflexError, *USER_ERRORS) as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        return 1


def _answer(given: Sequence[str], as_json: bool) -> int:
    paths = [word for word in given if "=" not in word]
    if len(paths) != 1:
        raise RequestError("name one file with a request, or - for standard input (see --help)")
    raw = read_request(paths[0])
    from reflex.build import build_decider
    from reflex.contract import parse_request
    from reflex.serving.source import checked, resolve

    request = parse_request(raw)
    cfg, source = resolve([word for word in given if "=" in word])
    response = checked(build_decider(cfg), source).answer(request)
    told = response.model_dump(mode="json")
    print(json.dumps(told, indent=1, ensure_ascii=False) if as_json else bars(told))
    return 0


def read_request(name: str) -> Any:
    """The JSON in a file, as strict as the server's. Raises RequestError naming the file."""
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
        return whole_value(text.strip())
    except OSError as error:
        raise RequestError(f"{name}: {error.strerror}") from None
    except (ValueError, RefusedJson) as error:
        raise RequestError(f"{name}: not JSON ({error})") from None


def bars(response: dict[str, Any]) -> str:
    """Every answer's distribution (levels by their texts), the likeliest option marked."""
    lines = [f"model: {response['model']}"]
    for name, answer in response["answers"].items():
        if answer["type"] == "noul":
            shown = [("yes", answer["noul"]), ("no", 1 - answer["noul"])]
            about = "noul"
        else:
            legend = answer.get("legend") or {}
            probabilities = answer["probabilities"].items()
            shown = [(_flat(legend.get(key) or key), p) for key, p in probabilities]
            about = f"{answer['type']}, confidence {answer['confidence']:.2f}"
        lines.append(f"{name} ({about})")
        best = max(range(len(shown)), key=lambda i: shown[i][1])
        widest = max(len(text) for text, _ in shown)
        for i, (text, p) in enumerate(shown):
            mark = "*" if i == best else " "
            lines.append(f" {mark} {text:{widest}}  {p:6.1%}  {'█' * round(WIDTH * p)}".rstrip())
    return "\n".join(lines)


def _flat(text: Any) -> str:
    """An option's text (a level's may be any JSON) on one line."""
    return " ".join(text.split()) if isinstance(text, str) else json.dumps(text, ensure_ascii=False)


if __name__ == "__main__":
    sys.exit(main())
