"""python -m reflex.report [experiment=NAME] [target=markdown|html|wandb]: recorded runs to pages and the
index.

Reads records (`REFLEX_RUNS`, default `runs/`, and `results/records/`), never a model.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reflex.errors import ConfigError, RecordError, ReflexError

if TYPE_CHECKING:
    from reflex.reporting import Places

USAGE = """\
python -m reflex.report [experiment=NAME] [target=TARGET] [runs_dir=DIR] [results_dir=DIR]

Rebuilds results/NAME.md (full scope) and runs/pages/NAME.md (limited or debug runs) from records
alone, with a page of its own (NAME-SUITE.md, NAME-BACKBONE.md) for every other suite or backbone, then the index
results/README.md. Without experiment=NAME: every experiment with records.
NAME may also be the group of a run outside any experiment.
Hand-written text between <!-- hand:NAME --> and <!-- /hand --> stays.

  target       markdown (default), html (the same page as one self-contained file), or wandb (a Report over
               the sweep's runs: published where there is an account, else its spec in runs/pages/)
  runs_dir     recorded runs, default $REFLEX_RUNS or runs
  results_dir  pages and committed records, default results
"""

KEYS = ("experiment", "target", "runs_dir", "results_dir")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0, or 1 after a one-line error on standard error."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if any(word in ("-h", "--help") for word in words):
        print(USAGE, end="")
        return 0
    try:
        return _report(parse(words))
    except ReflexError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def parse(words: Sequence[str]) -> dict[str, str]:
    """`key=value` words as a dict. Raises ConfigError for any other word, unknown key or
    repetition.
    """
    given: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise ConfigError(f"{word!r} is not key=value; known keys: {', '.join(KEYS)}")
        if key not in KEYS:
            raise ConfigError(f"unknown key {key!r} in {word!r}; known keys: {', '.join(KEYS)}")
        if not value:
            raise ConfigError(f"{key}= has no value; leave the key out for its default")
        if key in given:
            raise ConfigError(f"{key} is given twice")
        given[key] = value
    return given


def _report(given: dict[str, str]) -> int:
    from reflex.places import conf_dir, runs_folder
    from reflex.reporting import Places, find_sweeps, group_sweep, print_table, targets, write_index
    from reflex.tracking.record import find_records

    target = given.get("target", "markdown")
    if target not in targets:
        raise ConfigError(f"target={target!r} is not one of {', '.join(targets)}")
    places = Places(
        Path(given.get("runs_dir") or runs_folder()),
        Path(given.get("results_dir", "results")),
    )
    wanted = given.get("experiment")
    names = [wanted] if wanted else known_experiments(places)
    pages: list[Path] = []
    said: set[str] = set()
    for name in names:
        sweeps, problems = find_sweeps(places, name)
        for problem in problems:
            if problem not in said:
                said.add(problem)
                print(f"warning: {problem}", file=sys.stderr)
        for sweep in sweeps:
            print_table([cell.record for cell in sweep.cells])
            pages.append(targets[target](sweep, places))
    if wanted and not pages:
        # Runs outside an experiment have a page too, under the name of their group.
        cells = find_records(places.runs, group=wanted).found
        if cells:
            print_table([cell.record for cell in cells])
            pages.append(targets[target](group_sweep(places, cells), places))
    if not pages:
        where = f"{places.runs} and {places.all_records}"
        if wanted:
            if (conf_dir() / "experiment" / f"{wanted}.yaml").is_file():
                fix = f"run `python -m reflex.run experiment={wanted}` first"
            else:
                known = ", ".join(known_experiments(places)) or "none"
                fix = f"there are records of: {known}"
            raise RecordError(f"no records of experiment {wanted!r} in {where}; {fix}")
        raise RecordError(f"no records of an experiment in {where}; run one first")
    write_index(places)
    for page in pages:
        print(f"page: {page}")
    return 0


def known_experiments(places: Places) -> list[str]:
    """Names of all experiments that have a readable record, sorted."""
    from reflex.tracking.record import find_records

    names = {found.record.experiment for found in find_records(places.runs).found}
    root = places.all_records
    if root.is_dir():
        for folder in root.iterdir():
            names |= {found.record.experiment for found in find_records(folder).found}
    return sorted(name for name in names if name)


if __name__ == "__main__":
    sys.exit(main())
