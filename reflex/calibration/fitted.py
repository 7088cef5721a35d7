"""`Calibration`: fitted temperatures (and a position prior), what they were fitted on, and their file."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from reflex.assets import sha256_of
from reflex.calibration import buckets
from reflex.calibration.prior import PositionPrior
from reflex.contract import TYPES
from reflex.errors import CalibrationError
from reflex.readouts.base import used_options

log = logging.getLogger(__name__)

FILE = "calibration.json"
SCHEMA = 1

MUST_MATCH = ("backbone.weights_sha256", "backbone.adapter_sha256", "prompt_hash", "readout")
SHOULD_MATCH = ("backbone.dtype", "orders")
"""Differences that move a temperature a little: they are said, not refused."""


@dataclass(frozen=True)
class Calibration:
    """rule: see `buckets.chain`. temperatures: bucket → T > 0. details: bucket → how it was fitted.

    fallbacks: bucket → {to, n, why} for buckets that had too few rows. errors: NLL and ECE before, in the
    families it was fitted on and in families left out. fitted_on: see `identity`, plus the data.
    """

    name: str
    rule: str
    weighting: str
    temperatures: dict[str, float]
    details: dict[str, dict[str, Any]] = field(default_factory=dict)
    fallbacks: dict[str, dict[str, Any]] = field(default_factory=dict)
    errors: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    fitted_on: dict[str, Any] = field(default_factory=dict)
    prior: PositionPrior | None = None

    __pydantic_config__ = ConfigDict(extra="forbid")  # of its file

    def temperature(self, kind: str, readout: str, n_options: int) -> tuple[float, str | None]:
        """(T, bucket) of the finest fitted bucket; (1, None) where none was fitted."""
        for bucket in buckets.chain(self.rule, kind, readout, n_options):
            if bucket in self.temperatures:
                return self.temperatures[bucket], bucket
        return 1.0, None

    def adjust(
        self,
        kind: str,
        readout: str,
        keys: Sequence[str],
        order_keys: Sequence[Sequence[str]],
        scores: Sequence[Sequence[float]],
    ) -> Sequence[Sequence[float]]:
        """Scores with the position prior taken out; as they are without one."""
        if self.prior is None:
            return scores
        return self.prior.adjust(kind, readout, keys, order_keys, scores)

    # -- file ----------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **asdict(self)}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Calibration:
        """Raises CalibrationError, without the file's name, for another schema or an impossible value."""
        if raw.get("schema") != SCHEMA:
            raise CalibrationError(f"schema {raw.get('schema')!r}, but this version reads {SCHEMA}")
        fields = {key: value for key, value in raw.items() if key != "schema"}
        try:
            found = _SHAPE.validate_python(fields)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise CalibrationError(f"not a calibration ({where}: {first['msg']})") from None
        if found.rule not in buckets.RULES:
            raise CalibrationError(f"rule {found.rule!r} is not one of {', '.join(buckets.RULES)}")
        for bucket, value in found.temperatures.items():
            if not 0 < value < float("inf"):
                raise CalibrationError(
                    f"temperature of {bucket!r} is {value!r}; it must be above 0"
                )
        return found


_SHAPE = TypeAdapter(Calibration)


def read(path: str | Path) -> Calibration:
    """A calibration file (or the one in a run's folder). Raises CalibrationError naming the file."""
    file = Path(path)
    if file.is_dir():
        file = file / FILE
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(raw, dict):
            raise CalibrationError("not a JSON object")
        return Calibration.from_json(raw)
    except OSError as error:
        raise CalibrationError(
            f"calibration.path={path}: cannot be read ({error.strerror or error}); "
            "make one with task=calibrate"
        ) from None
    except (ValueError, CalibrationError) as error:
        raise CalibrationError(f"{file}: {error}; make it again with task=calibrate") from None


def file_sha256(path: str | Path) -> str:
    """Hash of the calibration file: what stands for it in a run's identity."""
    file = Path(path)
    file = file / FILE if file.is_dir() else file
    try:
        return sha256_of(file)
    except OSError:
        read(path)  # raises the clear line
        raise


def identity(
    backbone: Mapping[str, Any],
    prompt_hash: str | None,
    readout: Mapping[str, Any],
    orders: Mapping[str, Any],
) -> dict[str, Any]:
    """What a calibration belongs to, in JSON: weights, dtype, prompt, readouts in use, orders.

    `readout` is the resolved `readout` group; only the readouts a question type names are kept.
    """
    named = {kind: readout[kind] for kind in TYPES}
    used = {name: _by_content(own) for name, own in used_options(readout).items()}
    wanted = ("name", "weights_sha256", "adapter_sha256", "dtype")
    return {
        "backbone": {key: backbone.get(key) for key in wanted},
        "prompt_hash": prompt_hash,
        "readout": {**named, **used},
        "orders": dict(orders),
    }


def _by_content(options: Any) -> Any:
    """A readout's options with the hash of its trained weights in place of their path."""
    if not options or options.get("weights") is None:
        return options
    path = Path(options["weights"])
    found = sha256_of(path) if path.is_file() else str(path)
    return {**options, "weights": found}


def check(calibration: Calibration, here: Mapping[str, Any], path: str, *, force: bool) -> None:
    """Raise CalibrationError when the calibration belongs to another backbone, readout or prompt.

    `force` turns the refusal into a warning; other dtypes and orders are warned about.
    """
    differing = [key for key in MUST_MATCH if _differ(calibration.fitted_on, here, key)]
    if differing and not force:
        raise CalibrationError(
            f"calibration.path={path}: fitted for another {' and '.join(map(_word, differing))} "
            f"({_shown(calibration.fitted_on, here, differing[0])}); fit it again with task=calibrate, "
            "or set calibration.force=true"
        )
    for key in [*differing, *(k for k in SHOULD_MATCH if _differ(calibration.fitted_on, here, k))]:
        log.warning(
            "calibration %s was fitted for another %s (%s)",
            path,
            _word(key),
            _shown(calibration.fitted_on, here, key),
        )


def _at(facts: Mapping[str, Any], key: str) -> Any:
    value: Any = facts
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _differ(fitted_on: Mapping[str, Any], here: Mapping[str, Any], key: str) -> bool:
    return bool(_plain(_at(fitted_on, key)) != _plain(_at(here, key)))


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str))


def _word(key: str) -> str:
    words = {
        "backbone.weights_sha256": "backbone",
        "backbone.adapter_sha256": "adapter",
        "backbone.dtype": "dtype",
        "prompt_hash": "prompt",
    }
    return words.get(key, key)


def _shown(fitted_on: Mapping[str, Any], here: Mapping[str, Any], key: str) -> str:
    if key == "backbone.weights_sha256":
        key = (
            key
            if _at(fitted_on, "backbone.name") == _at(here, "backbone.name")
            else "backbone.name"
        )
    length = 12 if key.endswith(("sha256", "hash")) else 60
    before, now = (str(_at(facts, key))[:length] for facts in (fitted_on, here))
    return f"{before}, here {now}"
