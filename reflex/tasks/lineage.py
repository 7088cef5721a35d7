"""What a trained model was trained on, from its folder: its own training and those it went on from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from reflex.errors import RecordError, brief
from reflex.readouts.base import head_weights

if TYPE_CHECKING:
    from reflex.data.rows import Row

RESULT = "training.json"
ROWS = "rows.jsonl"
MIXTURE = "mixture.json"
CONFIG = "config.json"
"""The configuration of a training, in its folder from its beginning on."""
BEGUN = "begun.json"
"""What a training began with that its configuration does not say (reflex/tasks/begun.py writes it)."""


def begun_with(cfg: DictConfig) -> Path | None:
    """The folder of the trained adapter that a training of `cfg` goes on from; None: from nothing."""
    from reflex.backbones.locate import locate
    from reflex.build import to_object

    if cfg.backbone.adapter is None:
        return None
    folder = locate(to_object(cfg.backbone)).adapter_folder
    return folder and folder.resolve()


def trained_on(folder: Path) -> dict[str, Any] | None:
    """Facts of the training in `folder` (a run's or a release); None when nothing is told there.

    `training`: its `training.json`, with steps, rows and tokens of all trainings it went on from, and how
    many they were (`trainings`). `mixture`: per source the rows that were trained on and how often, of all
    of them. `train`, `augment`: the settings of the last one. `allow`: what the guard was told to let through.
    """
    from reflex.data.sources import source
    from reflex.release import manifest_of

    if (released := manifest_of(folder)) is not None:
        facts = released.get("training")
        return facts if isinstance(facts, dict) else None
    found = {"training": read_json(folder / RESULT), "mixture": read_json(folder / MIXTURE)}
    facts = {name: each for name, each in found.items() if each is not None}
    seen = Counter(row.source for row in trained_rows(folder)) if len(facts) == 2 else None
    if seen:
        facts["mixture"]["trained_rows"] = seen.total()
    for name, each in facts.get("mixture", {}).get("sources", {}).items():
        # Of the source, not of the run: what is known today.
        each.update(licence=source(name).licence, use=source(name).use)
        if seen and each["rows"]:
            each["times_seen"] *= seen[name] / each["rows"]
            each["rows"] = seen[name]
    if (config := read_json(folder / CONFIG)) is not None:
        facts["train"] = config.get("train")
        facts["augment"] = (config.get("mixture") or {}).get("augment")
        facts["allow"] = (config.get("mixture") or {}).get("allow") or []
    if path := (facts.get("training") or {}).get("went_on_from"):
        _add(facts, before(folder, Path(path)))
        begun = read_json(folder / BEGUN) or {}
        facts["training"]["went_on_from"] = begun.get("went_on_from") or told_name(Path(path))
    return facts or None


def before(folder: Path, path: Path) -> dict[str, Any] | None:
    """`trained_on` of `path` as it was when the training in `folder` went on from there.

    Another release may lie there since, even one of this very training. A run from before that was kept, or a
    folder in which none began, is told what lies there today.
    """
    begun = read_json(folder / BEGUN) or {}
    return begun["before"] if "before" in begun else trained_on(path)


def told_name(folder: Path) -> str:
    """How a folder that is gone on from is told: a release by its run, for a path means nothing elsewhere."""
    from reflex.release import manifest_of

    return str((manifest_of(folder) or {}).get("run", folder))


def part_folders(config: Mapping[str, Any]) -> list[Path]:
    """The folders that the trained parts of a configuration lie in, each once, heads first.

    A head may have been trained on top of an adapter of another folder, never the other way round.
    """
    parts = [*head_weights(config["readout"]).values(), config["backbone"].get("adapter")]
    return list(dict.fromkeys(Path(path).parent.resolve() for path in parts if path))


def all_trained_on(folders: Sequence[Path]) -> dict[str, Any] | None:
    """`trained_on` of a model whose parts lie in `folders` (see `part_folders`), all of them counted together.

    None when nothing is told in any; where nothing is told in some, `unknown_before` says so.
    """
    earlier = {each for folder in folders for each in _went_on_from(folder)}
    found = [trained_on(folder) for folder in folders if folder not in earlier]
    known = [facts for facts in found if facts is not None]
    for other in known[1:] + [None] * (len(found) - len(known)) if known else ():
        _add(known[0], other)
    return known[0] if known else None


def _went_on_from(folder: Path) -> Iterator[Path]:
    while path := (read_json(folder / RESULT) or {}).get("went_on_from"):
        folder = Path(path).resolve()
        yield folder


def trained_rows(folder: Path) -> list[Row]:
    """Rows of the finished training in `folder`, none where they are not kept: `train.max_tokens` ends a plan
    before the mixture's last row."""
    from reflex.data.rows import read_jsonl

    path, result = folder / ROWS, read_json(folder / RESULT)
    return read_jsonl(path)[: result["rows"]] if result and path.is_file() else []


def _add(facts: dict[str, Any], before: dict[str, Any] | None) -> None:
    """Count what was trained `before` into `facts`; None: nothing is known of it, and `facts` say so."""
    if before is None:
        facts.setdefault("training", {})["unknown_before"] = True
        return
    own, old = facts.setdefault("training", {}), before.get("training") or {}
    if "unknown_before" in old:
        own["unknown_before"] = True
    facts["allow"] = sorted({*facts.get("allow", []), *before.get("allow", [])})
    own["trainings"] = own.get("trainings", 1) + old.get("trainings", 1)
    for key in ("steps", "rows", "tokens"):
        own[key] = own.get(key, 0) + old.get(key, 0)
    mixture = facts.setdefault("mixture", {"sources": {}})
    old = before.get("mixture") or {}
    if "trained_rows" in mixture:
        mixture["trained_rows"] += old.get("trained_rows", 0)
    for name, each in old.get("sources", {}).items():
        now = mixture["sources"].setdefault(name, {**each, "rows": 0, "times_seen": 0.0})
        now["rows"] += each["rows"]
        now["times_seen"] += each["times_seen"]


def read_json(path: Path) -> Any:
    """None where there is no such file. Raises RecordError naming the file when it is not whole."""
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RecordError(
            f"{path}: cannot be read ({brief(error)}); put it back, or delete it and run the same "
            "command again"
        ) from None
