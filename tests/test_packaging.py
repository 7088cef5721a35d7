"""The package as others get it: complete, importable anywhere, honest about what it depends on."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOMS = (
    "errors places checks hashing pip_download assets files discover quiet contract prompts backbones "
    "forward readouts prepared model metrics calibration data benchmarks training decider evaluation "
    "tracking remote build release stable reporting messages tasks serving"
).split()
"""From top to bottom: a module imports only from its own room and those above it."""

OUTSIDE = set("__init__ answer config loading overrides report run serve usage".split())
"""Where everything is put together: the commands, the schema of every room, and what composes it. Of the rooms
only the last two know of them."""

TORCH_FREE = ["reflex", "reflex.errors", "reflex.contract", "reflex.prompts"]


@pytest.fixture(scope="module")
def pyproject(repo: Path) -> dict:
    return tomllib.loads((repo / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def pins(repo: Path) -> dict[str, Version]:
    lines = (repo / "constraints.txt").read_text().splitlines()
    split = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): Version(version) for name, version in split}


def requirements(pyproject: dict) -> list[Requirement]:
    extras = pyproject["optional-dependencies"].values()
    return [Requirement(line) for group in (pyproject["dependencies"], *extras) for line in group]


def imports_of(path: Path) -> list[tuple[str, int]]:
    """(absolute module name, line) of every import in a file, inside functions too."""
    found: list[tuple[str, int]] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.append((node.module, node.lineno))
    return found


def test_every_requirement_has_a_pin_that_satisfies_it(
    pyproject: dict, pins: dict[str, Version]
) -> None:
    for requirement in requirements(pyproject):
        name = canonicalize_name(requirement.name)
        if name == "pip":  # the environment's own: constrained nowhere
            continue
        assert name in pins, f"constraints.txt lacks {name}"
        assert requirement.specifier.contains(pins[name]), f"{requirement} against {pins[name]}"


def test_pins_hold_on_every_machine(pins: dict[str, Version]) -> None:
    assert pins["torch"] == Version("2.13.0")
    assert [name for name, version in pins.items() if version.local] == []


def test_everything_imported_is_declared(repo: Path, pyproject: dict) -> None:
    owners = metadata.packages_distributions()
    declared = {canonicalize_name(requirement.name) for requirement in requirements(pyproject)}
    missing: list[str] = []
    for path in sorted((repo / "reflex").rglob("*.py")):
        for module, line in imports_of(path):
            top = module.split(".")[0]
            if top in sys.stdlib_module_names or top == "reflex":
                continue
            if not {canonicalize_name(owner) for owner in owners.get(top, [top])} & declared:
                missing.append(f"{path.relative_to(repo)}:{line}: {module}")
    assert missing == []


def test_the_core_needs_no_extra(repo: Path, pyproject: dict) -> None:
    """Only who belongs to an extra may import what it brings."""
    own = {
        ("data", "sources", "base.py"): "hub",
        ("remote", "client.py"): "remote",
        ("reporting", "wandb_report.py"): "report",
    }
    owners = metadata.packages_distributions()
    core = {canonicalize_name(Requirement(line).name) for line in pyproject["dependencies"]}
    extras = {
        name: {canonicalize_name(Requirement(line).name) for line in lines}
        for name, lines in pyproject["optional-dependencies"].items()
    }
    strays: list[str] = []
    for path in sorted((repo / "reflex").rglob("*.py")):
        relative = path.relative_to(repo / "reflex")
        if relative.parts[0] in {"serving", "serve.py"}:
            continue
        allowed = core | extras.get(own.get(relative.parts, ""), set())
        for module, line in imports_of(path):
            top = module.split(".")[0]
            if top in sys.stdlib_module_names or top == "reflex":
                continue
            if not {canonicalize_name(owner) for owner in owners.get(top, [top])} & allowed:
                strays.append(f"reflex/{relative}:{line}: {module}")
    assert strays == []


def test_a_module_imports_only_from_rooms_above_it(repo: Path) -> None:
    wrong: list[str] = []
    for path in sorted((repo / "reflex").rglob("*.py")):
        relative = path.relative_to(repo / "reflex")
        room = relative.parts[0].removesuffix(".py")
        if room in OUTSIDE:
            continue
        assert room in ROOMS, f"reflex/{relative}: name its place in the stairs"
        for module, line in imports_of(path):
            if not module.startswith("reflex."):
                continue
            other = module.split(".")[1]
            outside = other in OUTSIDE and room not in ROOMS[-2:]
            if outside or (other in ROOMS and ROOMS.index(other) > ROOMS.index(room)):
                wrong.append(f"reflex/{relative}:{line}: {module}")
    assert wrong == []


@pytest.mark.parametrize("module", TORCH_FREE)
def test_rooms_that_must_not_import_torch(module: str, repo: Path) -> None:
    code = (
        f"import sys, {module}\n"
        "print(*{'torch', 'transformers', 'lightning', 'wandb'} & sys.modules.keys())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=repo, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_the_repository_names_no_machine_and_no_registry_host(repo: Path) -> None:
    """Neither paths of the machine it was made on nor hosts that packages come from."""
    pattern = re.compile(
        r"pypi\.org|pythonhosted|download\.pytorch|registry\.npmjs|deb\.debian|/opt/(wheels|pypi)"
        r"|(?<![\w.])/(work|root)/|file:///"
    )
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=repo, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git checkout: which files belong to the repository is unknown")
    hits: list[str] = []
    for name in filter(None, listed.stdout.split("\0")):
        path = repo / name
        if path == Path(__file__).resolve() or not path.is_file():
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            if pattern.search(line):
                hits.append(f"{name}:{number}: {line.strip()[:80]}")
    assert hits == []


@pytest.fixture(scope="module")
def wheel(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without a network (hatchling is in extra `dev`)."""
    pytest.importorskip("hatchling", reason="hatchling is not installed: run `make setup`")
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "--no-build-isolation"]
        + ["--disable-pip-version-check", "--wheel-dir", str(out), str(repo)],
        check=True,
        capture_output=True,
        text=True,
    )
    (built,) = out.glob("reflex_systemone-*.whl")
    return built


def test_the_wheel_carries_every_config_and_the_typing_marker(repo: Path, wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"reflex/__init__.py", "reflex/py.typed"} <= names
    configs = {
        f"reflex/conf/{path.relative_to(repo / 'conf').as_posix()}"
        for path in (repo / "conf").rglob("*.yaml")
    }
    assert configs
    assert configs <= names
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"reflex"}


def test_an_installed_wheel_finds_its_own_configs(wheel: Path, tmp_path: Path) -> None:
    """Unpacked elsewhere, the package composes from its own conf/, not from the repository's."""
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    code = "import reflex, reflex.places\nprint(reflex.__file__)\nprint(reflex.places.conf_dir())\n"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
    )
    package, conf = map(Path, done.stdout.split("\n")[:2])
    assert package.is_relative_to(site)
    assert conf.resolve() == (site / "reflex" / "conf").resolve()
    assert (conf / "config.yaml").is_file()


def test_a_source_archive_holds_what_its_makefile_and_tests_read(repo: Path) -> None:
    build = tomllib.loads((repo / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    held = {name.removeprefix("/") for name in build["targets"]["sdist"]["include"]}
    tests = "".join(path.read_text() for path in sorted((repo / "tests").glob("*.py")))
    read = set(re.findall(r'(?:repo|REPO) / f?"([.\w]+)', tests))
    read |= set(re.findall(r"(\w+)/\w+\.(?:sh|py)\b", (repo / "Makefile").read_text()))
    # Pages and records of runs are no source; pyproject.toml is always held.
    assert {"scripts", "experiments", "notebooks"} <= read
    assert sorted(read - held - {"results", "pyproject.toml"}) == []
    assert [name for name in sorted(held) if not (repo / name).exists()] == []


def test_make_knows_its_targets_and_help_is_the_default(repo: Path) -> None:
    done = subprocess.run(["make"], cwd=repo, capture_output=True, text=True, check=True)
    listed = re.findall(r"make ([a-z-]+)", done.stdout)
    assert {"help", "setup", "run", "test", "test-slow", "lint"} <= set(listed)


@pytest.mark.parametrize("gone", [False, True])
def test_make_sets_up_anew_where_the_interpreter_is_gone(
    repo: Path, tmp_path: Path, gone: bool
) -> None:
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "scripts/setup.sh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text((repo / name).read_text())
        os.utime(tmp_path / name, (1, 1))
    python = tmp_path / "python3.11"
    if not gone:
        python.touch()
        os.utime(python, (1, 1))
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(python)
    (tmp_path / ".venv" / ".setup-stamp").touch()
    done = subprocess.run(
        ["make", "--dry-run", "setup", "EXTRAS="],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ("scripts/setup.sh" in done.stdout) == gone


def test_setup_explains_itself_where_no_python_will_do(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    for name in ("scripts/setup.sh", "constraints.txt"):
        (tmp_path / name).write_text((repo / name).read_text())
    old = tmp_path / "python3.9"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = subprocess.run(
        ["bash", "scripts/setup.sh"],
        cwd=tmp_path,
        env={**os.environ, "PYTHON": str(old)},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert (
        done.stderr.strip()
        == f"setup: PYTHON={old} is not a Python 3.11-3.13 with venv and ensurepip"
    )
    assert not (tmp_path / ".venv").exists()
