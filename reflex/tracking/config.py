"""Group `tracker`: what the user may set, and what it means here and now. Only a question to wandb's own
settings imports wandb: composing a configuration does not."""

from __future__ import annotations

import netrc
import os
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from reflex.errors import ConfigError


class WandbMode(Enum):
    """`auto`: online where an account is configured, else offline."""

    auto = "auto"
    online = "online"
    offline = "offline"
    disabled = "disabled"


@dataclass
class WandbTracker:
    """Group `tracker`. `WANDB_MODE` wins over `mode`, except that `disabled` stays disabled.

    Runs of `debug=…` go to `<project>-debug`. Timeouts are in seconds; what is not uploaded by then
    stays on the disk for `wandb sync`.
    """

    project: str = "reflex"
    entity: str | None = None
    mode: WandbMode = WandbMode.auto
    tags: list[str] = field(default_factory=list)
    init_timeout: float = 30.0
    finish_timeout: float = 300.0


def project_of(project: str, debug: bool) -> str:
    """Where the runs of `project` go: those of `debug=…` to a project of their own."""
    return f"{project}-debug" if debug else project


def resolve_mode(config: WandbTracker) -> Literal["online", "offline", "disabled"]:
    """What `mode` means here and now, without asking the network. Raises ConfigError for a `WANDB_MODE` that
    does not exist."""
    wanted = WandbMode(getattr(config.mode, "value", config.mode))
    if wanted is WandbMode.disabled:
        return "disabled"
    said = os.environ.get("WANDB_MODE", "").strip().lower()
    if said:
        known: dict[str, Literal["online", "offline", "disabled"]] = {
            "online": "online",
            "run": "online",
            "shared": "online",
            "offline": "offline",
            "dryrun": "offline",
            "disabled": "disabled",
        }
        if said not in known:
            raise ConfigError(f"WANDB_MODE={said!r} is not one of online, offline, disabled")
        return known[said]
    if wanted is WandbMode.auto:
        return "online" if has_account() else "offline"
    return "online" if wanted is WandbMode.online else "offline"


def has_account() -> bool:
    """Whether W&B would find a key: environment, identity token, or a netrc entry of its host."""
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    address = os.environ.get("WANDB_BASE_URL") or _configured_address()
    # The old host as well: keys stored for it still serve the address it moved to.
    hosts = {urlsplit(address).netloc, "api.wandb.ai"}
    for name in [os.environ["NETRC"]] if os.environ.get("NETRC") else ["~/.netrc", "~/_netrc"]:
        try:
            known = netrc.netrc(Path(name).expanduser())
        except (OSError, RuntimeError, netrc.NetrcParseError):
            continue
        if any(known.authenticators(host) for host in hosts):
            return True
    return False


def _configured_address() -> str:
    # `wandb login --host` keeps the address of a private server in its settings file.
    try:
        import wandb

        return str(wandb.setup(settings=wandb.Settings(silent=True)).settings.base_url)
    except Exception:
        return ""
