"""JSON Lines files: read with the line number in every error, written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from reflex.errors import DataError
from reflex.files import written_whole


def canonical(value: Any) -> str:
    """One compact JSON line. Keys keep their order: it is what the model reads."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Decoded lines with their numbers; blank lines are skipped, a byte order mark is allowed.

    Raises DataError: a file that cannot be read, or `file:line` of what is not one JSON value.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                text = _text(path, number, line)
                if text:
                    yield number, _value(path, number, text)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); check the path") from None


def _text(path: Path, number: int, line: bytes) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}:{number}: not UTF-8 (byte {error.start} of the line); save the file as UTF-8"
        ) from None


def _value(path: Path, number: int, text: str) -> Any:
    try:
        return whole_value(text)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path}:{number}: not JSON ({error.msg}, column {error.colno}); "
            "write one whole JSON object a line"
        ) from None
    except RefusedJson as error:
        raise DataError(f"{path}:{number}: {error}") from None


class RefusedJson(Exception):
    """JSON that Python would silently change, or cannot hold."""


def whole_value(text: str) -> Any:
    """The one JSON value that all of `text` is. Raises as `decoded`."""
    value, end = decoded(text)
    if end < len(text):
        raise json.JSONDecodeError("Extra data", text, end)
    return value


def decoded(text: str, start: int = 0) -> tuple[Any, int]:
    """The JSON value that starts there, and where it ends.

    Raises json.JSONDecodeError; RefusedJson for a key given twice, a number that is none or too long, half
    a surrogate pair, and nesting deeper than Python reads.
    """
    try:
        value, end = _DECODER.raw_decode(text, start)
        canonical(value).encode()
    except json.JSONDecodeError:
        raise
    except UnicodeEncodeError:
        raise RefusedJson("holds half a surrogate pair; write the character itself") from None
    except RecursionError:
        raise RefusedJson("lists or objects are nested too deeply; write it flatter") from None
    except ValueError:  # 1e999 is read as infinity, and an integer of 5000 digits is not read
        raise RefusedJson("holds a number that is too large; write it as text") from None
    return value, end


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise RefusedJson(f"key {twice!r} appears twice in one object; keep one")
    return result


def _no_constant(name: str) -> NoReturn:
    raise RefusedJson(f"{name} is not JSON; write a finite number")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_constant=_no_constant)


def write_lines(path: Path, values: Iterable[Any]) -> None:
    """One canonical JSON line per value; the file appears whole or stays as it was."""
    try:
        with written_whole(path) as file:
            file.writelines((canonical(value) + "\n").encode() for value in values)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror}); nothing was kept") from None
