"""What each S1Bench subset asks and of which items: read at run time, never committed.

Two places hold the same definitions: `REFLEX_DATA/s1bench/questions.json` (with `pins.json`), and the
public files of a pinned commit, fetched once by https and checked against the sha256 below.
"""

from __future__ import annotations

import hashlib
import json
import logging
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reflex.assets import cache_dir
from reflex.benchmarks.files import local_file
from reflex.contract import Question, option_keys, parse_question
from reflex.errors import DataError, MissingDataError, RequestError
from reflex.files import written_whole

log = logging.getLogger(__name__)

COMMIT = "d9e62c1c6cf63dd59607b68f040d0f8ad7443fb0"
URL = (
    f"https://raw.githubusercontent.com/InterfazeAI/lev/{COMMIT}"
    "/packages/lev/src/lev/data/s1bench_subsets"
)
SHA256 = {
    "vitaminc-dev": "1fa543cf057f448afc62c14837c13bfa37c79755a599650580688a7a706146c5",
    "massive-en-US": "51c6068ac0a0bd2f6b330cd2d2341db8f9535316da2c74107a4a5387708bd526",
    "massive-de-DE": "5ea2f2f7cc43a98a8a9e548915024b88cc183f5607c2a1b4fbfdf3bd70070857",
    "boolq": "4c2e7fec04b03b573d7e2470bac1c3f9eda417ea23701f9c9667bd0c380de27d",
    "squad2": "bde094fcc16c25a5ed9b1fef1e9db98c3be4914b4fc36d29396c95577c42b8d9",
    "paws": "a96c4e7c89e49148e30ce3d0155142ef192fa1c87010124d14618be8e0b09291",
    "multinli": "5f82852910c5114e696eb8379bbba785dbf45e92fc8e2bf8a22771e383eda634",
    "civil_comments": "e8380faa82509292967eea0da1647fc247abfdb2732269c4fa7c755e1dfd4b04",
    "aegis2": "178bdc246ac11915e9fa235fd2c9376e6eb7ed3fc8ad1d37dc673fdcb65d29f1",
    "helpsteer2": "0da2589fe69ab963b4cb4ad9a36d5f9e0504cdba353450db71be23f493cdcca8",
    "summeval-relevance": "bd958943e7a4a050bfcb0754e514bace5358a5d30c0a8bc877ebf44d93463767",
    "summeval-consistency": "139aa590c10c6e763e862d4a9c70ec6ab3ef86e56d455fece940ece2a0b80394",
    "pubmedqa": "0f20cdb82c4e857051e4b148832c539a82aa56eb58e2559ea62d5e6dd406229c",
}
"""Of each public file at `COMMIT`."""

QUESTION = "decision"  # the question name every S1Bench record uses
TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Shape:
    """What the public files leave out: state fields (none: the state is the text) and draw limit."""

    fields: tuple[str, ...]
    limit: int


SHAPES = {
    "vitaminc-dev": Shape(("evidence", "claim"), 600),
    "massive-en-US": Shape(("utterance", "locale"), 350),
    "massive-de-DE": Shape(("utterance", "locale"), 350),
    "boolq": Shape(("passage", "question"), 300),
    "squad2": Shape(("paragraph", "question"), 300),
    "paws": Shape(("sentence_1", "sentence_2"), 250),
    "multinli": Shape(("premise", "hypothesis"), 300),
    "civil_comments": Shape((), 300),
    "aegis2": Shape(("user_message",), 250),
    "helpsteer2": Shape(("prompt", "response"), 250),
    "summeval-relevance": Shape(("article", "summary"), 250),
    "summeval-consistency": Shape(("article", "summary"), 150),
    "pubmedqa": Shape(("question", "abstract_context"), 250),
}
SUBSETS = tuple(SHAPES)
FAST = ("vitaminc-dev", "massive-en-US", "boolq", "helpsteer2", "aegis2", "paws")


@dataclass(frozen=True)
class Definition:
    """`labels`: option key → how many of the `n` items have it. `ids`: the pinned ids, if known."""

    name: str
    question: Question
    labels: Mapping[str, int]
    n: int
    ids: frozenset[str] | None

    @property
    def fields(self) -> tuple[str, ...]:
        return SHAPES[self.name].fields

    @property
    def limit(self) -> int:
        return SHAPES[self.name].limit


def load_definitions(
    names: Iterable[str],
    where: str = "auto",
    url: str = URL,
    sha256: Mapping[str, str] = SHA256,
) -> tuple[dict[str, Definition], dict[str, str]]:
    """Definitions by name, and which files they are (for the record: file → sha256).

    `where`: `local`, `https`, or `auto` (local when `REFLEX_DATA` holds them). Raises DataError.
    """
    local = local_file("s1bench", "questions.json")
    if where == "local" and local is None:
        raise MissingDataError(
            "benchmark.definitions=local: no s1bench/questions.json below REFLEX_DATA; "
            "set REFLEX_DATA, or benchmark.definitions=https"
        )
    if local is not None and where in ("auto", "local"):
        return _local(local, names)
    found = {name: _fetched(name, url, sha256) for name in names}
    definitions = {
        name: _definition(name, json.loads(data), url, frozenset(json.loads(data)["ids"]))
        for name, data in found.items()
    }
    return definitions, {f"{name}.json": _sha256(data) for name, data in found.items()}


def _local(path: Path, names: Iterable[str]) -> tuple[dict[str, Definition], dict[str, str]]:
    files = {path.name: path}
    subsets = _json(path).get("subsets", {})
    pins: dict[str, frozenset[str]] = {}
    pins_path = path.with_name("pins.json")
    if pins_path.is_file():
        files[pins_path.name] = pins_path
        pins = _pins(_json(pins_path))
    found = {}
    for name in names:
        if name not in subsets:
            raise DataError(f"{path}: subset {name!r} is missing; add its definition")
        raw = dict(subsets[name])
        if raw.get("labels") is None and name == "massive-de-DE":
            raw["labels"] = subsets["massive-en-US"]["labels"]  # the same items in German
        found[name] = _definition(name, raw, str(path), pins.get(name))
    return found, {name: _sha256(file.read_bytes()) for name, file in files.items()}


def _pins(raw: Mapping[str, list[str]]) -> dict[str, frozenset[str]]:
    """Ids by subset. A key may name two subsets (`a / b`), add a remark, or pin whole articles."""
    pins: dict[str, frozenset[str]] = {}
    for key, values in raw.items():
        for part in key.split(" / "):
            name = part.split(" ")[0]
            if part.endswith(" articles"):  # 16 systems each, named by position
                ids = [f"{name}-{article}-{place}" for article in values for place in range(16)]
                pins[name] = frozenset(ids)
            else:
                pins[name] = frozenset(values)
    return pins


def _definition(
    name: str, raw: Mapping[str, Any], where: str, ids: frozenset[str] | None
) -> Definition:
    try:
        criteria = raw["criteria"]
        if isinstance(criteria, list):
            kind = "score"
        else:
            kind = "noul" if set(criteria) == {"true", "false"} else "choice"
        question = parse_question(
            {"type": kind, "instructions": raw["instructions"], "criteria": criteria},
            (name,),
        )
        keys = option_keys(question)
        counts = {str(key): int(count) for key, count in raw["labels"].items()}
        if kind == "noul":
            counts = {key.lower(): count for key, count in counts.items()}
        labels = {key: counts.pop(key, 0) for key in keys}
        n = int(raw["count"] if "count" in raw else raw["n"])
    except (KeyError, TypeError, ValueError, AttributeError, RequestError) as error:
        raise DataError(f"{where}: definition of {name} is not readable ({error!r})") from None
    if counts or sum(labels.values()) != n:
        raise DataError(f"{where}: label counts of {name} do not add up to its {n} items")
    return Definition(name, question, labels, n, ids)


def _fetched(name: str, url: str, sha256: Mapping[str, str]) -> bytes:
    """The public file, from the cache or by https. Raises DataError unless its hash is the pinned one."""
    wanted = sha256[name]
    cached = cache_dir() / "s1bench" / wanted[:16] / f"{name}.json"
    if cached.is_file() and _sha256(data := cached.read_bytes()) == wanted:
        return data
    address = f"{url.rstrip('/')}/{name}.json"
    parts = urllib.parse.urlsplit(address)
    if parts.scheme != "https" and parts.hostname not in ("127.0.0.1", "localhost"):
        raise DataError(f"benchmark.definitions_url={url} must be https")
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT_S) as answer:
            data = answer.read()
    except (urllib.error.URLError, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise MissingDataError(
            f"{address} could not be fetched ({reason}); put s1bench/questions.json below "
            "REFLEX_DATA, or run where it can be reached"
        ) from None
    if (actual := _sha256(data)) != wanted:
        raise DataError(
            f"{address} has sha256 {actual[:16]}…, pinned is {wanted[:16]}…; nothing was kept. "
            "Check benchmark.definitions_url, or use REFLEX_DATA"
        )
    try:
        with written_whole(cached) as file:
            file.write(data)
    except OSError as error:
        log.warning("cannot keep %s (%s); it is fetched again next time", cached, error.strerror)
    return data


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not readable as JSON ({error}); fetch it again") from None
    if not isinstance(value, dict):
        raise DataError(f"{path}: must hold one JSON object")
    return value


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
