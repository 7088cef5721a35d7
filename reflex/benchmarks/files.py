"""Where a benchmark's rows come from: a local folder of JSON Lines, or files on the Hugging Face hub.

See reflex/data/root.py for the folder.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reflex.data.jsonl import json_lines
from reflex.data.root import data_root
from reflex.errors import DataError, MissingDataError, brief

FETCH = "set REFLEX_DATA to a folder that holds it, or run where the hub can be reached"


def local_file(folder: str, *names: str) -> Path | None:
    """The first of `names` that exists in that folder of `REFLEX_DATA`."""
    root = data_root()
    found = (root / folder / name for name in names) if root else iter(())
    return next((path for path in found if path.is_file()), None)


def local_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(`file:line`, object) of a JSON Lines file. Raises DataError for an empty file or a non-object."""
    empty = True
    for number, value in json_lines(path):
        empty = False
        if not isinstance(value, dict):
            raise DataError(f"{path}:{number}: a row must be a JSON object")
        yield f"{path}:{number}", value
    if empty:
        raise DataError(f"{path}: the file holds no rows; write one JSON object a line")


def need(raw: dict[str, Any], names: Iterable[str], where: str) -> None:
    """Raises DataError naming place and field unless every field is there and not null."""
    names = list(names)
    if missing := [name for name in names if raw.get(name) is None]:
        raise DataError(
            f"{where}: field {missing[0]!r} is missing; a row here has {', '.join(names)}"
        )


def note_id(seen: dict[str, str], name: str, where: str) -> None:
    """Note in `seen` (id → place) where an id stands. Raises DataError naming both places of one that is used twice."""
    if name in seen:
        raise DataError(f"{where}: id {name!r} was already used in {seen[name]}")
    seen[name] = where


@dataclass(frozen=True)
class HubFile:
    """One file of a hub dataset. `revision` is a branch, tag or commit."""

    repo: str
    name: str
    revision: str = "main"

    def __str__(self) -> str:
        return f"{self.repo}/{self.name}"


def hub_objects(file: HubFile) -> Iterator[tuple[str, dict[str, Any]]]:
    """(`repo/file:row`, object) of a Parquet, JSON, JSON Lines, CSV or TSV file, gzipped or not."""
    path = download(file)
    for number, value in enumerate(read_table(path), 1):
        yield f"{file}:{number}", value


def download(file: HubFile) -> Path:
    """The file in the hub's own cache. Raises MissingDataError, one line with the fix."""
    from huggingface_hub import hf_hub_download

    try:
        return Path(
            hf_hub_download(file.repo, file.name, repo_type="dataset", revision=file.revision)
        )
    except Exception as error:  # hub, http and file errors share no base class
        raise MissingDataError(f"{file} could not be fetched ({brief(error)}); {FETCH}") from None


def read_table(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a file by its ending. Class labels of a Parquet file stay integers: see `class_names`.

    Raises DataError: an unknown ending, or `file:line` of what is not JSON.
    """
    suffixes = [suffix for suffix in path.suffixes if suffix != ".gz"]
    kind = suffixes[-1] if suffixes else ""
    if kind == ".parquet":
        import pyarrow.parquet as pq

        yield from pq.read_table(path).to_pylist()
        return
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    text = raw.decode("utf-8-sig")
    if kind == ".jsonl":
        for number, line in enumerate(text.split("\n")):
            if line.strip():
                yield _decoded(path, line, number)
    elif kind == ".json":
        yield from _decoded(path, text)
    elif kind in (".csv", ".tsv"):
        separator = "," if kind == ".csv" else "\t"
        yield from csv.DictReader(io.StringIO(text, newline=""), delimiter=separator)
    else:
        raise DataError(f"{path}: unknown kind of file; give parquet, json, jsonl, csv or tsv")


def _decoded(path: Path, text: str, before: int = 0) -> Any:
    """The JSON value, which stands in the file after `before` other lines."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path}:{before + error.lineno}: not JSON ({error.msg}); delete the file, so that it is fetched "
            "again, or take the rows from REFLEX_DATA"
        ) from None


def class_names(path: Path, column: str) -> list[str]:
    """Names behind a class label column of a hub Parquet file. Raises DataError if it has none."""
    import pyarrow.parquet as pq

    metadata = pq.read_schema(path).metadata or {}
    info = json.loads(metadata.get(b"huggingface", b"{}")).get("info", {})
    names = info.get("features", {}).get(column, {}).get("names")
    if not names:
        raise DataError(f"{path}: column {column!r} carries no class names")
    return list(names)
