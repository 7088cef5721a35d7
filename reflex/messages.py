"""Any error as one line that names the file or argument, the key and the fix."""

from __future__ import annotations

import difflib
import logging
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import OmegaConfBaseException
from yaml import MarkedYAMLError, YAMLError

from reflex.errors import ReflexError
from reflex.places import conf_dir

log = logging.getLogger(__name__)

USER_ERRORS = (ReflexError, HydraException, OmegaConfBaseException, YAMLError)
"""Mistakes in what was asked for; anything else is a fault of the machine or of this code."""

LAUNCHERS = ("joblib", "submitit_local", "submitit_slurm", "ray")
"""Hydra's launchers that conf/launcher/ uses and that are plugins of their own."""


def say(error: Exception, before: str = "") -> None:
    """Log the error as one line after `before`; with its traceback where it is a fault of this code."""
    expected = isinstance(error, (*USER_ERRORS, OSError))
    log.error("%s%s", before, one_line(error), exc_info=None if expected else error)


def one_line(error: BaseException) -> str:
    """The error as one line. Hydra nests its causes: ours, or the innermost, knows what is wrong."""
    chain = list(_causes(error))
    for cause in chain:
        if isinstance(cause, ReflexError):
            return _flat(str(cause))
        if isinstance(cause, MarkedYAMLError) and cause.problem_mark is not None:
            mark = cause.problem_mark
            return _flat(f"{_short(Path(mark.name))}:{mark.line + 1}: {cause.problem}")
        if isinstance(cause, MissingConfigException):
            return _no_option(cause)
        if isinstance(cause, OverrideParseException):
            if "=" not in cause.override:
                return f"{cause.override}: not understood; write key=value (see --help)"
            reason = _lines(cause)[-2:][0] if len(_lines(cause)) > 1 else str(cause)
            return f"{cause.override}: cannot be read as key=value ({reason})"
    if isinstance(chain[-1], OmegaConfBaseException):
        return _key_error(chain)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return _flat(f"{where}{error.strerror or error}")
    if isinstance(error, HydraException):
        first = (_lines(error) or [type(error).__name__])[0].rstrip(":.")
        ambiguous = first.startswith("Ambiguous value")
        return f"{first}; add -m to run one cell per value" if ambiguous else first
    return f"{type(error).__name__}: {_flat(str(error))}".rstrip(": ")


def _no_option(error: MissingConfigException) -> str:
    """`backbone=nope: no such option; use one of …`, with the file that asks for it."""
    group, _, name = str(error.missing_cfg_file or "").rpartition("/")
    known = sorted(option for option in error.options or () if not option.endswith("_schema"))
    if not group:
        return _lines(error)[0]
    asked = f"{group}={name}"
    if name and asked not in sys.argv:
        asked = _place(rf"{group}\b.*\b{re.escape(name)}\b") + asked
    if group == "hydra/launcher" and name in LAUNCHERS:
        return f"{asked}: needs the extra `sweep`: pip install 'reflex-systemone[sweep]'"
    close = difflib.get_close_matches(name, known, 1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    return f"{asked}: no such option{hint}; use one of {', '.join(known) or 'none'}"


def _key_error(chain: Sequence[BaseException]) -> str:
    """An unknown key, or a value of the wrong type, with the file and line or the argument."""
    inner = chain[-1]
    facts = dict(
        re.findall(r"^\s*(full_key|object_type|reference_type)[:=]\s*(.*)$", str(inner), re.M)
    )
    key = facts.get("full_key", "")
    text = _lines(inner)[0].rstrip(".")
    missing = re.match(r"Key '(.+?)' (?:not in|is not in)", text)
    if missing:
        known = _fields(inner)
        close = difflib.get_close_matches(missing[1], known, 1)
        text = "no such key"
        if close:
            text += f"; did you mean {close[0]}?"
        elif known:
            text += f"; there are {', '.join(known)}"
        top = key.partition(".")[0]
        if facts.get("reference_type", "").startswith("Dict["):
            text += f"; a new entry is written +{key}=…"
        elif facts.get("object_type") == "dict" and (conf_dir() / top).is_dir():
            text += f"; nothing is chosen for {top}: add {top}=…"
    elif re.match(r"Cannot convert 'dict'|Value '\{\}' of type 'dict'", text):
        text = f"{key} holds one value and no keys"
    outer = _lines(chain[0])[0]
    given = re.match(r"Error merging override (.*)$", outer)
    if given:
        return f"{given[1]}: {text}"
    file = re.match(r"In '(.+?)'", outer)
    if file and key:
        last = re.escape(key.split(".")[-1].split("[")[0])
        place = _place(rf"(^|[\s{{,.])['\"]?{last}['\"]?\s*:", only=file[1])
        return f"{place or file[1] + ': '}{key}: {text}"
    return f"{key}: {text}" if key else text


def _fields(error: BaseException) -> list[str]:
    """The keys that exist where the unknown one was looked for."""
    kind = getattr(error, "object_type", None)
    return [name for name in getattr(kind, "__dataclass_fields__", {}) if name != "_target_"]


def _place(pattern: str, only: str | None = None) -> str:
    """`file:line: ` of the first line of a configuration that matches, or nothing."""
    for root in _roots():
        for file in sorted(root.glob(f"{only}.yaml") if only else root.rglob("*.yaml")):
            for number, line in enumerate(file.read_text(errors="replace").splitlines(), start=1):
                if re.search(pattern, line.partition("#")[0]):
                    return f"{_short(file)}:{number}: "
            if only:
                return f"{_short(file)}: "
    return ""


def _roots() -> Iterator[Path]:
    """Where configurations lie: a folder given with --config-dir first."""
    words = sys.argv[1:]
    for flag, value in zip(words, [*words[1:], ""], strict=False):
        name, _, joined = flag.partition("=")
        if name in ("--config-dir", "-cd"):
            yield Path(joined or value)
    yield conf_dir()


def _short(path: Path) -> str:
    """A path below the working directory relative to it."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        # Hydra raises some of its errors without `from`: the context is then the cause.
        hidden = cause.__context__ if isinstance(cause, HydraException) else None
        cause = cause.__cause__ or hidden


def _lines(error: BaseException) -> list[str]:
    return [line.strip() for line in str(error).splitlines() if line.strip()] or [
        type(error).__name__
    ]


def _flat(text: str) -> str:
    return " ".join(text.split())
