"""`python -m reflex.serve`: a recorded run, or a configuration, behind POST /v1/systemone.

    python -m reflex.serve                                     the default configuration
    python -m reflex.serve backbone=smollm2_135m orders=two serve.port=8080
    python -m reflex.serve run=runs/1a2b…                      what was measured is what is served
    python -m reflex.serve run=1a2b3c device=cuda              command line wins over the record
    python -m reflex.serve run=stable                          what the gate released for this profile
    python -m reflex.serve --cfg                               print the configuration and stop

Every key of the run's configuration, and `serve.*` (conf/serve/), may be set.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point. Exit status 1 with one line when the configuration cannot work."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if "--help" in given or "-h" in given:
        print(__doc__)
        return
    from omegaconf import OmegaConf

    from reflex.messages import USER_ERRORS, one_line

    show = "--cfg" in given
    try:
        from reflex.serving.source import resolve

        cfg, source = resolve([argument for argument in given if argument != "--cfg"])
        if show:
            print(OmegaConf.to_yaml(cfg))
            return
        from reflex.serving.server import serve

        serve(cfg, source)
    except USER_ERRORS as error:
        sys.exit(f"error: {one_line(error)}")
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "uvicorn", "zstandard", "prometheus_client", "starlette"):
            raise
        sys.exit(f"error: {error.name} is not installed: pip install 'reflex-systemone[serve]'")


if __name__ == "__main__":
    main()
