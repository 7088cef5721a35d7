"""`model=remote`: an evaluation whose answers come from a server. What it is follows from /health."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from reflex.benchmarks.left_out import answered_only
from reflex.contract import TYPES, Request, Response
from reflex.data.rows import items_sha256, rows_sha256
from reflex.errors import ConfigError, RemoteError
from reflex.remote import health
from reflex.remote.answers import decisions_of
from reflex.remote.client import Asked, RemoteDecider
from reflex.remote.cost import cost_of
from reflex.remote.kept import ANSWERS, Kept
from reflex.remote.remote import OF_THE_SERVER, RemoteModel, remote_model
from reflex.tasks.identity import Sweep, given_keys, key_of, run_identity
from reflex.tasks.numbers import data_facts, finished

if TYPE_CHECKING:
    import pandas as pd

    from reflex.benchmarks.base import Suite
    from reflex.tracking.record import RunIdentity

log = logging.getLogger(__name__)

CLAIMS = ("backbone", "prompt", "readout", "orders", "calibration")
"""Those of them that a command may claim of the server, which then has to confirm it."""

SAY_EVERY_S = 15.0

LEAVING_S = 15.0
"""How long /health is waited for when the run has failed or is being stopped."""


def remote_identity(cfg: DictConfig, suite: Suite) -> RunIdentity:
    """Which cell this is. Raises ConfigError for a claim that the server does not confirm, RemoteError."""
    config = _model(cfg)
    facts = health.served(config.base_url)
    check_claims(cfg, facts)
    identity = health.identity(facts)
    plain: Any = OmegaConf.to_container(cfg, resolve=True)
    # What this configuration says of these is not what answered.
    own = OmegaConf.create({**plain, **dict.fromkeys(OF_THE_SERVER)})
    del own["forward"]  # no group: left out, since it cannot be null
    found = run_identity(
        own,
        {
            # Where the server does not say what it is, its address is all there is.
            "served": identity or {"base_url": config.base_url},
            "data": rows_sha256(suite.rows),
            "items": items_sha256(suite.rows),
        },
    )
    told = health.summary(facts)
    # An address is no axis where the server says what it is: two addresses differ in what they serve.
    hidden = {*OF_THE_SERVER, *(("model.base_url",) if identity else ())}
    kept = {k: v for k, v in found.axes.items() if k not in hidden and _top(k) not in OF_THE_SERVER}
    source = facts.get("backbone", {}).get("source") if identity else None
    swept = found.name.replace("\\:", ":")  # as Hydra escapes an address
    name = swept if "=" in swept else told.get("backbone") or config.base_url
    return found.model_copy(
        update={
            "axes": {"model": "remote", **told, **kept},
            "name": name,
            "debug": bool(cfg.smoke) or source == "random",
        }
    )


def check_claims(cfg: DictConfig, facts: dict[str, Any]) -> None:
    """Raise ConfigError unless /health confirms what the command says of the server.

    In a sweep, every cell is checked before the first one asks anything.
    """
    sweep = Sweep.from_env()
    claimed = given_keys() | set(sweep.keys if sweep else ())
    axes = [axis for axis in CLAIMS if axis in {_top(key) for key in claimed}]
    health.confirm(_model(cfg).base_url, facts, {axis: _claim(cfg, axis) for axis in axes})
    if sweep is None or sweep.group in _checked:
        return
    for sibling in _siblings(sweep):
        url = _model(sibling).base_url
        told = facts if url == _model(cfg).base_url else health.served(url)
        health.confirm(url, told, {axis: _claim(sibling, axis) for axis in axes})
    _checked.add(sweep.group)


_checked: set[str] = set()


def _siblings(sweep: Sweep) -> list[DictConfig]:
    """The configurations of a sweep's cells, as far as they differ in what is claimed and in whom is asked."""
    values: dict[str, list[str]] = {}
    for override in OverridesParser.create().parse_overrides(list(sweep.overrides)):
        key = override.get_key_element()
        if override.is_sweep_override() and _top(key) in (*CLAIMS, "model"):
            values[key] = [str(value) for value in override.sweep_string_iterator()]
    if not any(_top(key) in CLAIMS for key in values):
        return []
    rest = [o for o in HydraConfig.get().overrides.task if key_of(o) not in values]
    return [
        hydra.compose("config", [*rest, *(f"{k}={v}" for k, v in zip(values, cell, strict=True))])
        for cell in product(*values.values())
    ]


def _claim(cfg: DictConfig, axis: str) -> Any:
    if axis == "prompt":
        style = instantiate(cfg.prompt)
        return {"style": style.name, "hash": style.fingerprint()}
    if axis == "readout":
        return {kind: cfg.readout[kind] for kind in TYPES}
    if axis == "orders":
        return OmegaConf.to_container(cfg.orders, resolve=True)
    return cfg[axis].name


def measure(
    cfg: DictConfig, suite: Suite, folder: Path
) -> tuple[dict[str, Any], pd.DataFrame, dict[str, bytes]]:
    """What a finished record says beyond its identity, the predictions, and further files.

    Answers are kept in `folder` as they come; only what is missing there is asked. Raises RemoteError
    when more than `model.max_failures` items stay unanswered, another model answers at the end (whose answers are
    dropped), or nobody says who does.
    """
    import pandas as pd

    from reflex.calibration.none import NoCalibration
    from reflex.evaluation.rows import row_predictions
    from reflex.tasks.fitting import Raw, settle

    config = _model(cfg)
    decider = RemoteDecider(config)
    requests = {
        index: Request(model=config.model, state=row.state, questions=row.questions)
        for index, row in enumerate(suite.rows)
    }
    if cfg.force:
        (folder / ANSWERS).unlink(missing_ok=True)
    with Kept(folder) as kept:
        kept.check_one_model()
        try:
            _ask(decider, suite, requests, kept)
        except BaseException:  # Ctrl-C too: what is kept is there for the next try
            _drop_if_changed(config, decider.served, kept)
            raise
        check_unchanged(config, decider.served, kept)
        there = kept.answered
        unanswered = [index for index in requests if index not in there]
        if len(unanswered) > config.max_failures or not there:
            first = suite.rows[unanswered[0]].id
            raise RemoteError(
                f"{len(unanswered)} of {len(requests)} items stayed unanswered (item {first}: "
                f"{kept.lines[unanswered[0]]['error']}); the answers are kept, the same command asks only "
                "for the missing ones (or allow them with model.max_failures)"
            )
        rows = []
        for index, row in enumerate(suite.rows):
            if index in there:
                response = Response.model_validate(kept.lines[index]["response"])
                decisions = decisions_of(requests[index], response, decider.readouts)
                rows += row_predictions(row, decisions)
        predictions = pd.DataFrame(rows)
        cost = cost_of(kept, len(predictions), config.concurrency)
    backbone = decider.served.get("backbone")
    prompt = decider.served.get("prompt")
    raw = Raw(
        predictions,
        backbone if isinstance(backbone, dict) else {"name": decider.name},
        prompt.get("hash") if isinstance(prompt, dict) else None,
        cost,
    )
    settled = settle(cfg, NoCalibration(), raw, {})  # parts fit rows from measured ones
    answered = [row for index, row in enumerate(suite.rows) if index in there]
    told = answered_only(suite, answered, f"{decider.name} at {config.base_url}")
    data = {
        **data_facts(suite),  # the hashes are of what was asked
        "n_rows": len(answered),
        "facts": told.facts,
        "unanswered": [suite.rows[i].id for i in unanswered],
    }
    found, measured, files = finished(raw, settled, told, data, cfg.seed)
    found["served"] = {"base_url": config.base_url, "health": decider.served}
    return found, measured, files


def _ask(decider: RemoteDecider, suite: Suite, requests: dict[int, Request], kept: Kept) -> None:
    """Ask for every row that `kept` lacks."""
    there = kept.answered
    missing = {index: request for index, request in requests.items() if index not in there}
    if len(missing) < len(requests):
        log.info("%d of %d items were answered before", len(requests) - len(missing), len(requests))
    session = start = said = time.time()
    done = 0

    def keep(index: int, asked: Asked) -> None:
        nonlocal done, said
        line: dict[str, Any] = {
            "row": index,
            "item": suite.rows[index].id,
            "session": session,
            "at": round(time.time(), 3),
            "ms": round(asked.ms, 3),
            "failed_tries": asked.failed_tries,
        }
        if asked.response is None:
            line["error"] = asked.error
        else:
            line["response"] = asked.response.model_dump(mode="json")
        kept.add(line)
        kept.check_one_model()
        done += 1
        now = time.time()
        if now - said > SAY_EVERY_S:
            said, rate = now, done / (now - start)
            left = (len(missing) - done) / rate
            log.info("%d/%d items, %.1f items/s, %.0f s left", done, len(missing), rate, left)

    if missing:
        decider.ask_all(missing, keep)


def check_unchanged(
    config: RemoteModel, before: Mapping[str, Any], kept: Kept, wait_s: float = 120.0
) -> None:
    """Raise RemoteError unless the server is what it was; answers are dropped where it says that it is another."""
    after = health.identity(health.served(config.base_url, wait_s))
    if after == health.identity(before):
        return
    if not after:
        raise RemoteError(
            f"{config.base_url}: /health does not say any more what it serves, so nobody knows whose answers "
            "these are; they are kept: run the same command again when it does"
        )
    kept.discard()
    raise RemoteError(
        f"{config.base_url}: serves something else than when this run started, so the answers were "
        "dropped; run the same command again"
    )


def _drop_if_changed(config: RemoteModel, before: Mapping[str, Any], kept: Kept) -> None:
    """`check_unchanged` where another error is on its way, which is the one to tell."""
    try:
        check_unchanged(config, before, kept, LEAVING_S)
    except RemoteError as problem:
        log.warning("%s", problem)


def _model(cfg: DictConfig) -> RemoteModel:
    config = remote_model(cfg)
    if config is None:
        raise ConfigError("model=local: a sweep asks servers in all of its cells, or in none")
    return config


def _top(key: str) -> str:
    return key.partition(".")[0]
