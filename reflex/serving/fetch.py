"""A run that lies elsewhere, brought here: a repository on the hub, or the record that a W&B run keeps."""

from __future__ import annotations

from pathlib import Path

from reflex.errors import RecordError, brief
from reflex.places import runs_folder
from reflex.tracking.record import RECORD

FETCHED = ".fetched"
"""Below the runs folder: what came from W&B. (The hub has a cache of its own.)"""


def from_hub(run: str) -> Path:
    """The files of a hub repository that holds a record.json: a pushed release, or a run's folder.

    Raises RecordError, one line: no such repository, no network and nothing cached, or no record in it.
    """
    from huggingface_hub import errors, snapshot_download

    try:
        folder = Path(snapshot_download(run))
    except (errors.HFValidationError, errors.RepositoryNotFoundError):
        why = "the hub has no such repository, or only for an account (hf auth login)"
    except errors.LocalEntryNotFoundError:
        why = "the hub cannot be reached and the repository is not in its cache"
    except Exception as error:  # hub, http and file errors share no base class
        why = brief(error)
    else:
        if not (folder / RECORD).is_file():
            raise RecordError(
                f"run={run}: that repository holds no {RECORD}; push a release folder (task=release)"
            )
        return folder
    raise RecordError(
        f"run={run}: neither a folder, a recorded hash, a release nor a hub id: {why}"
    )


def from_wandb(path: str) -> Path:
    """The newest run-record artifact of a W&B run, `entity/project/run`, as a folder.

    Raises RecordError, one line: no account here, no such run, no network, or no such artifact.
    """
    from reflex.tracking.config import has_account

    run = f"run=wandb:{path}"
    if path.count("/") != 2 or not all(path.split("/")):
        raise RecordError(f"{run}: not understood; write run=wandb:entity/project/run")
    if not has_account():
        raise RecordError(f"{run}: no W&B account here; wandb login, or set WANDB_API_KEY")
    try:
        import wandb

        kept = [
            artifact
            for artifact in wandb.Api().run(path).logged_artifacts()
            if artifact.type == "run-record"
        ]
        root = runs_folder() / FETCHED
        folder = Path(str(kept[-1].download(root=str(root / _name(kept[-1]))))) if kept else None
    except Exception as error:  # W&B errors come in many classes; all mean the same to a user
        raise RecordError(f"{run}: cannot be read ({brief(error)})") from None
    if folder is None or not (folder / RECORD).is_file():
        raise RecordError(
            f"{run}: that run logged no run-record artifact; serve one that reflex.run finished"
        )
    return folder


def _name(artifact: object) -> str:
    """A folder name: an artifact is called `<name>:v<number>`."""
    return str(getattr(artifact, "name", "run")).replace(":", "-").replace("/", "-")
