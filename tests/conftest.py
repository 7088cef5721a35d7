"""What every test may rely on: no network, no account, nothing written outside a temporary folder."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest

# Before any library that reads them at import time.
_SCRATCH = Path(tempfile.mkdtemp(prefix="reflex-tests-"))
os.environ.update(
    WANDB_MODE="offline",
    WANDB_SILENT="true",
    WANDB_DIR=str(_SCRATCH),
    NETRC=str(_SCRATCH / "no-netrc"),
    HF_HUB_OFFLINE="1",
    HF_HUB_DISABLE_TELEMETRY="1",
    TOKENIZERS_PARALLELISM="false",
    REFLEX_RUNS=str(_SCRATCH / "runs"),
    MPLBACKEND="agg",
)
os.environ.pop("WANDB_API_KEY", None)
# The one place that bounds torch's threads in tests (and in the processes that tests start): results
# do not depend on it, but many small forwards on a large machine are slower with all of its cores,
# and test processes side by side share them. Such a process inherits what the one that started it
# set for itself alone, so there it is set again.
_SHARE = (os.cpu_count() or 1) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))
if "PYTEST_XDIST_WORKER" in os.environ or "OMP_NUM_THREADS" not in os.environ:
    os.environ["OMP_NUM_THREADS"] = str(min(4, max(1, _SHARE)))

REPO = Path(__file__).resolve().parent.parent
SLOW_TIMEOUT_S = 1800


@pytest.fixture(scope="session")
def repo() -> Path:
    """The repository's root."""
    return REPO


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of real rows (REFLEX_DATA, or ../shared/data); skips without it."""
    root = Path(os.environ.get("REFLEX_DATA") or REPO.parent / "shared" / "data").resolve()
    if not root.is_dir():
        pytest.skip("no real rows here: set REFLEX_DATA, or put them at ../shared/data")
    return root


@pytest.fixture
def tmp_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty runs folder of this test's own, in force for it and for the processes it starts."""
    runs = tmp_path / "runs"
    runs.mkdir()
    monkeypatch.setenv("REFLEX_RUNS", str(runs))
    return runs


@pytest.fixture(scope="session")
def browser_path() -> str:
    """An installed Chromium or Chrome; skips without one."""
    for name in ("chromium", "chromium-browser", "google-chrome", "chrome"):
        if path := shutil.which(name):
            return path
    pytest.skip("no browser here: install chromium to run the page tests")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_TIMEOUT_S))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("no NVIDIA GPU here")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was skipped and why, one line per reason."""
    reasons: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reasons[reason.removeprefix("Skipped: ")] += 1
    if reasons:
        terminalreporter.section("skipped, and why")
        for reason, count in sorted(reasons.items()):
            terminalreporter.write_line(f"{count:4d} × {reason}")


def pytest_unconfigure() -> None:
    shutil.rmtree(_SCRATCH, ignore_errors=True)
