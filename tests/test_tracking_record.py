"""Run records: whole or absent, the same bytes for the same rows, and one line for what is broken."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reflex.errors import RecordError
from reflex.files import write_atomic
from reflex.tracking import environment
from reflex.tracking.predictions import predictions_bytes, read_predictions
from reflex.tracking.record import (
    RECORD,
    RunRecord,
    WandbInfo,
    find_records,
    finished_local,
    is_finished,
    read_record,
    update_wandb,
    write_record,
)
from tests.fake_records import fake_predictions, fake_record

FRAME = fake_predictions(6)


def written(folder: Path, orders: str = "one", **changes: Any) -> RunRecord:
    return write_record(folder, fake_record(orders, FRAME, **changes), FRAME)


def test_what_is_written_is_read_back(tmp_path: Path):
    record = written(tmp_path / "a")
    assert read_record(tmp_path / "a") == record
    assert is_finished(tmp_path / "a")
    assert record.predictions is not None
    assert record.predictions.rows == 18
    raw = json.loads((tmp_path / "a/record.json").read_text())
    assert raw["schema"] == 1
    assert raw["metrics"]["nll"]["value"] == record.metrics["nll"]["value"]
    frame = read_predictions(tmp_path / "a")
    assert frame.to_dict("records") == FRAME.to_dict("records")
    assert not list((tmp_path / "a").glob("*.tmp"))


def test_same_rows_give_the_same_bytes():
    shuffled_columns = FRAME[sorted(FRAME.columns)]
    assert predictions_bytes(FRAME) == predictions_bytes(shuffled_columns)
    assert predictions_bytes(FRAME) != predictions_bytes(FRAME.iloc[::-1])


def test_numbers_json_does_not_know(tmp_path: Path):
    changes: dict[str, Any] = {
        "cost": {"x": np.float32(0.5), "y": float("nan")},
        "config": {"p": Path("a/b")},
    }
    written(tmp_path, **changes)
    record = read_record(tmp_path)
    assert record.cost == {"x": 0.5, "y": None}
    assert record.config == {"p": "a/b"}
    with pytest.raises(RecordError, match="cannot be stored as JSON"):
        written(tmp_path, config={"bad": object()})


def test_missing_column_and_wrong_type(tmp_path: Path):
    with pytest.raises(RecordError, match="column 'gold' is missing"):
        write_record(tmp_path, fake_record(predictions=FRAME), FRAME.drop(columns="gold"))
    with pytest.raises(RecordError, match="does not fit the schema"):
        write_record(tmp_path, fake_record(predictions=FRAME), FRAME.assign(gold="one"))
    with pytest.raises(RecordError, match="needs its predictions"):
        write_record(tmp_path, fake_record(predictions=FRAME))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"status": "failed", "error": "no memory"}, r"it failed \(no memory\)"),
        ({"served": {"base_url": "http://there"}}, "came from http://there .*no model here"),
    ],
)
def test_a_run_without_a_model_of_its_own_is_not_loaded_again(
    tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    (tmp_path / RECORD).write_text(fake_record().to_json())
    assert finished_local(tmp_path).hash == fake_record().hash
    (tmp_path / RECORD).write_text(fake_record(**change).to_json())
    with pytest.raises(RecordError, match=says) as caught:
        finished_local(tmp_path)
    assert str(caught.value).startswith(str(tmp_path))


def test_failed_cell_is_not_finished_and_drops_old_predictions(tmp_path: Path):
    written(tmp_path)
    write_record(tmp_path, fake_record(predictions=FRAME, status="failed", error="boom"))
    assert not is_finished(tmp_path)
    assert read_record(tmp_path).error == "boom"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["record.json"]


@pytest.mark.parametrize("when", ["write", "fsync", "replace"])
def test_full_disk_leaves_the_old_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str):
    written(tmp_path, seed=1)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if when == "write":
        opened = Path.open

        def open_full(self: Path, *arguments: Any, **options: Any) -> Any:
            stream = opened(self, *arguments, **options)
            stream.close()
            full()

        monkeypatch.setattr(Path, "open", open_full)
    else:
        monkeypatch.setattr(os, when, full)
    other = fake_predictions(7)
    with pytest.raises(RecordError) as caught:
        write_record(tmp_path, fake_record(predictions=other, seed=2), other)
    monkeypatch.undo()
    assert "No space left on device" in str(caught.value)
    assert "free space or choose another folder" in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_folder_in_a_file_s_place_is_not_taken_for_a_full_disk(tmp_path: Path):
    (tmp_path / "record.json" / "inside").mkdir(parents=True)
    with pytest.raises(RecordError, match=r"record\.json: cannot be written") as caught:
        write_atomic(tmp_path / "record.json", b"{}")
    assert "free space" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_really_full_disk(tmp_path: Path):
    # A folder on a 64 KiB tmpfs where this user may mount one; skipped elsewhere.
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a tmpfs is not allowed here")
    try:
        big = fake_predictions(400)
        with pytest.raises(RecordError, match="No space left on device"):
            write_record(tmp_path / "cell", fake_record(predictions=big), big)
        assert list((tmp_path / "cell").iterdir()) == []
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_killed_between_predictions_and_record(tmp_path: Path):
    """kill -9 after the predictions were renamed and before the record was."""
    written(tmp_path / "a", seed=1)
    code = f"""
import os, signal
from pathlib import Path
from reflex.tracking.record import write_record
from tests.fake_records import fake_predictions, fake_record
replace = os.replace
def stop(source, target):
    if str(target).endswith("record.json"):
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
os.replace = stop
for name in ("a", "b"):
    if os.fork() == 0:
        frame = fake_predictions(8)
        write_record(Path({str(tmp_path)!r}) / name, fake_record(predictions=frame), frame)
    assert os.wait()[1] == signal.SIGKILL
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[1])
    assert (tmp_path / "b/predictions.parquet").exists()
    assert not is_finished(tmp_path / "a")
    assert not is_finished(tmp_path / "b")
    listing = find_records(tmp_path)
    assert listing.found == []
    assert len(listing.problems) == 1
    assert "not the predictions its record was written with; run the cell" in listing.problems[0]
    written(tmp_path / "a", seed=1)
    written(tmp_path / "b", seed=1)
    assert [found.path.name for found in find_records(tmp_path).found] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a whole record"),
        ('{"schema": 1, "hash": "x', "not a whole record"),
        ("[]", "record schema None"),
        ('{"schema": 2}', "record schema 2"),
        ('{"schema": 1, "hash": "x"}', "key 'group': Field required"),
    ],
)
def test_a_broken_record_is_one_line_and_stops_no_listing(tmp_path: Path, text: str, said: str):
    written(tmp_path / "good")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/record.json").write_text(text)
    listing = find_records(tmp_path, experiment="averaging")
    assert [found.path.name for found in listing.found] == ["good"]
    (line,) = listing.problems
    assert said in line
    assert str(tmp_path / "bad/record.json") in line
    assert "delete the folder" in line
    assert "\n" not in line
    assert not is_finished(tmp_path / "bad")


def test_listing_filters(tmp_path: Path):
    written(tmp_path / "a")
    written(tmp_path / "b", experiment="other")
    written(tmp_path / "c", group="averaging-2")
    write_record(tmp_path / "d", fake_record(predictions=FRAME, status="failed", error="boom"))
    (tmp_path / "wandb").mkdir()
    names = [found.path.name for found in find_records(tmp_path, "averaging").found]
    assert names == ["a", "c", "d"]
    names = [found.path.name for found in find_records(tmp_path, group="averaging-2").found]
    assert names == ["c"]
    assert find_records(tmp_path / "nowhere").found == []


def test_update_wandb_changes_nothing_else(tmp_path: Path):
    before = written(tmp_path)
    update_wandb(tmp_path, WandbInfo(mode="offline", error="gone"))
    after = read_record(tmp_path)
    assert after.wandb == WandbInfo(mode="offline", error="gone")
    assert after.model_copy(update={"wandb": None}) == before
    assert is_finished(tmp_path)


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def test_git_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    nothing = {"commit": None, "dirty": None}
    assert environment.git_state(tmp_path) == nothing
    git(tmp_path, "init", "-q")
    assert environment.git_state(tmp_path) == nothing
    for name in ("results/page.md", "reflex/a.py"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("one")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    state = environment.git_state(tmp_path)
    assert len(state["commit"]) == 40
    assert state["dirty"] is False
    (tmp_path / "results/page.md").write_text("two")
    (tmp_path / "results/new.md").write_text("two")
    (tmp_path / "note.txt").write_text("untracked and no code")
    assert environment.git_state(tmp_path)["dirty"] is False
    (tmp_path / "reflex/new.py").write_text("")
    assert environment.git_state(tmp_path)["dirty"] is True
    (tmp_path / "reflex/new.py").unlink()
    (tmp_path / "reflex/a.py").write_text("two")
    assert environment.git_state(tmp_path)["dirty"] is True
    # A package installed inside somebody else's checkout has no commit of its own.
    assert environment.git_state(tmp_path / "reflex") == nothing
    monkeypatch.setenv("PATH", "")
    assert environment.git_state(tmp_path) == nothing


def test_environment_facts():
    import torch

    facts = environment.hardware()
    assert facts["cores"] >= 1
    assert facts["threads"] == torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(sys.modules, "torch")  # a run that asks a server
        assert environment.hardware()["threads"] is None
    assert facts["python"].startswith("3.")
    versions = environment.package_versions(("pydantic", "no-such-package-at-all"))
    assert versions["no-such-package-at-all"] is None
    assert versions["pydantic"] is not None
    line = environment.command_line(["/home/x/reflex/run.py", "experiment=a", "a.b=[1, 2]"])
    assert line == "python -m reflex.run experiment=a 'a.b=[1, 2]'"
    assert environment.now_utc().endswith("Z")


def test_records_and_tracker_config_import_no_heavy_package():
    code = (
        "import sys; from reflex.discover import modules; list(modules('reflex.tracking'));"
        "heavy = {'torch', 'wandb', 'lightning', 'pandas', 'pyarrow', 'scipy'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[1],
    )
    assert done.stdout.strip() == "[]"
