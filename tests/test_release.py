"""What a release is made of, and what its card says; without a model."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from reflex.errors import ConfigError
from reflex.release import manifest_of
from reflex.tasks.release import Release, contamination, copy_parts
from reflex.tasks.release_card import card
from reflex.tracking.files import write_folder
from reflex.tracking.record import write_record
from tests.fake_records import fake_predictions, fake_record

EMBEDDED = Path("releases/embedded")


def configured(heads: dict[str, Path], **backbone: str) -> dict[str, Any]:
    """A recorded configuration whose readouts `pointer` and `candidates` have these heads."""
    return {
        "backbone": {"name": "tiny", "source": "random", "path": "llama", **backbone},
        "readout": {
            "choice": "pointer",
            "noul": "candidates",
            "score": "candidates",
            **{name: {"weights": str(path)} for name, path in heads.items()},
        },
        "calibration": {},
    }


def heads_of(tmp_path: Path) -> dict[str, Path]:
    found = {name: tmp_path / name / "heads.safetensors" for name in ("pointer", "candidates")}
    for name, path in found.items():
        path.parent.mkdir()
        path.write_text(name)
    return found


@pytest.mark.parametrize("source", ["folder", "gguf"])
def test_a_backbone_of_this_machine_alone_is_not_released(source: str, tmp_path: Path) -> None:
    frame, out = fake_predictions(), tmp_path / "out"
    record = fake_record("one", frame, config=configured(heads_of(tmp_path), source=source))
    write_record(tmp_path / "run", record, frame)
    task = Release(run_id=str(tmp_path / "run"), out=str(out))
    with pytest.raises(ConfigError, match=rf"source={source} exists only on this machine"):
        task.run(OmegaConf.create({"runs_dir": str(tmp_path)}))
    assert not out.exists()


def test_heads_of_two_files_are_two_files(tmp_path: Path) -> None:
    heads = heads_of(tmp_path)
    two, one = tmp_path / "two", tmp_path / "one"
    for folder in (two, one):
        folder.mkdir()
    parts, _ = copy_parts(two, tmp_path, fake_record(config=configured(heads)))
    assert parts == {f"readout.{name}.weights": f"heads-{name}.safetensors" for name in heads}
    assert {name: (two / f"heads-{name}.safetensors").read_text() for name in heads} == {
        name: name for name in heads
    }
    shared = dict.fromkeys(heads, heads["pointer"])
    parts, _ = copy_parts(one, tmp_path, fake_record(config=configured(shared)))
    assert parts == dict.fromkeys(
        (f"readout.{name}.weights" for name in heads), "heads.safetensors"
    )
    assert [path.name for path in one.iterdir()] == ["heads.safetensors"]


def test_a_folder_is_replaced_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"

    def write(text: str) -> None:
        with write_folder(place) as work:
            (work / text).write_text(text)

    write("old")
    rename = os.rename

    def refused(source: Path, target: Path) -> None:
        if Path(target) == place and Path(source).suffix != ".old":
            raise OSError("no")
        rename(source, target)

    monkeypatch.setattr(os, "rename", refused)
    with pytest.raises(OSError, match="no"):
        write("new")
    assert [path.name for path in tmp_path.rglob("*")] == ["place", "old"]
    monkeypatch.undo()
    write("new")
    assert [path.name for path in tmp_path.rglob("*")] == ["place", "new"]
    assert (place.stat().st_mode & 0o777, (place / "new").stat().st_mode & 0o777) == (0o755, 0o644)


# -- the card ---------------------------------------------------------------------------------------


def test_the_card_of_the_embedded_release_is_what_the_code_writes() -> None:
    manifest = manifest_of(EMBEDDED)
    assert manifest is not None
    fitted = EMBEDDED / "calibration.json"
    calibration = json.loads(fitted.read_text())
    own = (EMBEDDED / "README.md").read_text()
    assert card(manifest, calibration, EMBEDDED) == own
    assert contamination(manifest["training"], fitted) == manifest["contamination"]
    titled = card({**manifest, "name": "Another title"}, calibration, Path("elsewhere/it"))
    assert titled.startswith("# Another title\n")
    assert "\npython -m reflex.serve run=elsewhere/it\n" in titled


def test_temperatures_fitted_on_half_of_mmlu_are_told(tmp_path: Path) -> None:
    fitted = tmp_path / "calibration.json"
    fitted.write_text(json.dumps({"fitted_on": {"sources": ["mmlu"]}}))
    half = " The temperatures were fitted on items of one half of the MMLU test split: "
    told = contamination({}, fitted)
    assert "no row of the MMLU test split for training, and" in told
    assert half in told
    assert half in contamination({"allow": ["boolq"]}, fitted)
    assert half in contamination(None, fitted)
    fitted.write_text(json.dumps({"fitted_on": {"sources": ["mmlu_validation"]}}))
    assert half not in contamination({}, fitted)
