"""Finds the modules of a room, so that a new file in it is known without being listed anywhere."""

from __future__ import annotations

import dataclasses
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType


def modules(package: str, mark: str = "") -> Iterator[tuple[str, ModuleType]]:
    """(name, module) of every module directly in `package` whose source contains `mark`, in name order.

    They are imported to compose a configuration, so they import no torch and no pandas at the top;
    helpers beside them (without the mark) are not imported here and may. Subpackages are private.
    """
    for folder in import_module(package).__path__:
        for info in sorted(pkgutil.iter_modules([folder]), key=lambda info: info.name):
            source = Path(folder, f"{info.name}.py")
            if not info.ispkg and source.is_file() and mark in source.read_text(encoding="utf-8"):
                yield info.name, import_module(f"{package}.{info.name}")


def targets(package: str) -> Iterator[tuple[str, type]]:
    """(module name, dataclass) of every config dataclass in `package`: one whose `_target_` is set."""
    for name, module in modules(package, "_target_:"):
        for value in vars(module).values():
            if not isinstance(value, type) or value.__module__ != module.__name__:
                continue
            if dataclasses.is_dataclass(value) and hasattr(value, "_target_"):
                yield name, value
