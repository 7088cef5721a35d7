"""The OpenAPI document, and schemathesis over it: nothing it can think of is a server fault."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.serving import NOUL, get, post, serving, tiny_decider

KEY = "fuzz-key"
UNSAYABLE: dict[str, list[Any]] = {"/v1/decisions": [positive_data_acceptance]}
"""JSON Schema cannot say that choices are unique by value and that a tool output needs its call."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(tiny_decider(), max_body_mb=1.0) as base:
        yield base


@pytest.fixture(scope="module")
def locked() -> Iterator[str]:
    with serving(tiny_decider(), keys=[KEY]) as base:
        yield base


def test_the_document_says_what_the_validators_check(url: str) -> None:
    document = get(url, "/openapi.json")[1]
    assert {"/v1/systemone", "/v1/decisions", "/v1/models", "/health", "/ready"} <= set(
        document["paths"]
    )
    questions = document["components"]["schemas"]["Request"]["properties"]["questions"]
    assert questions["maxProperties"] == 1024
    assert "securitySchemes" not in document["components"]
    unresolved = json.dumps(document).count('"#/$defs')
    assert unresolved == 0


def test_security_is_declared_with_keys(locked: str) -> None:
    document = get(locked, "/openapi.json")[1]
    assert document["paths"]["/v1/systemone"]["post"]["security"] == [{"key": []}]


@pytest.mark.slow
@pytest.mark.parametrize("with_key", [False, True])
def test_fuzzed_by_schemathesis(url: str, locked: str, with_key: bool, tmp_path: Path) -> None:
    """Every check: server faults, undocumented statuses and bodies, negative data accepted, …"""
    base = locked if with_key else url
    program = str(Path(sys.executable).with_name("schemathesis"))
    extra = ["--header", f"Authorization: Bearer {KEY}"] if with_key else []
    config = tmp_path / "schemathesis.toml"
    config.write_text(
        '[[operations]]\ninclude-path = "/v1/decisions"\n'
        "[operations.checks]\npositive_data_acceptance.enabled = false\n"
    )
    done = subprocess.run(
        [program, "--config-file", str(config), "--no-color", "run", f"{base}/openapi.json"]
        + ["--max-examples", "60", "--seed", "1", "--request-timeout", "60", *extra],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-6000:]


@pytest.mark.parametrize("path", ["/v1/systemone", "/v1/decisions"])
def test_fuzzed_a_little(url: str, path: str) -> None:
    """The quick version of the above, for every run of the tests."""
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    seen: list[int] = []

    @settings(
        max_examples=60,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(schema[path]["POST"].as_strategy())
    def call(case: schemathesis.Case) -> None:
        response = case.call()
        seen.append(response.status_code)
        case.validate_response(response, excluded_checks=UNSAYABLE.get(path, []))

    call()
    assert set(seen) <= {200, 413, 422}
    assert seen.count(200) > 5
    assert post(url, {"state": "x", "questions": {"q": NOUL}})[0] == 200
