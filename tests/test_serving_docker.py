"""The Dockerfiles, as far as they can be read without Docker."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reflex.loading import compose


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_an_image_runs_unprivileged_and_checks_its_health(repo: Path, name: str) -> None:
    text = (repo / "docker" / f"{name}.Dockerfile").read_text()
    final = text[text.rindex("\nFROM ") :]
    user = re.search(r"^USER (\w+)$", final, re.M)
    assert user
    assert user[1] != "root"
    assert final.index("\nUSER ") < final.index("\nENTRYPOINT ")
    assert "HEALTHCHECK" in final
    assert "/health" in final
    assert 'serve=container"' in final
    allowed = (repo / ".dockerignore").read_text().splitlines()
    for sources in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.M):
        for source in sources.split():
            assert (repo / source).exists(), source
            assert f"!{source}" in allowed, f".dockerignore leaves {source} out"


def test_the_container_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFLEX_STATE_CACHE", "/data/states")
    serve = compose(["serve=container"]).serve
    assert (serve.host, serve.port, serve.disk_cache_dir) == ("0.0.0.0", 8000, "/data/states")
