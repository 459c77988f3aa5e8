"""A run's directory: where each file lies, who may write it, and what is written before the first episode."""

import fcntl
import json
import os
import platform
import re
import shutil
import subprocess
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

from abps.errors import ConfigError, RunError
from abps.run.config import RunConfig
from abps.run.files import read_bounded, replace_atomically
from abps.search.base import SearchConfig
from abps.search.budget import BudgetConfig
from abps.settings import from_dict, to_dict
from abps.tasks.config import HardwareConfig, TaskConfig

__all__ = [
    "FORMAT",
    "OldFormatError",
    "RunSettings",
    "claim",
    "create_directory",
    "move_aside",
    "new_directory",
    "no_run",
    "parse_yaml",
    "read_settings",
    "run_path",
    "run_place",
    "settings_document",
    "settings_from_document",
    "stamp_changes",
    "stamp_versions",
    "write_settings",
]

MAX_CONFIG_BYTES = 1024 * 1024
MAX_VARIANT_NAME = 120
FORMAT = 2
"""Version of config.yaml; format 1 had no such line (abps 0.1.0)."""
STAMPED = ("numpy", "scipy", "jax", "optax", "gymnasium", "mujoco")


class OldFormatError(RunError):
    """A whole run whose settings another version of abps wrote."""


@dataclass(frozen=True)
class RunSettings:
    """Everything that defines a run, as saved in `config.yaml`."""

    task: TaskConfig
    search: str
    search_config: SearchConfig
    budget: BudgetConfig
    run: RunConfig
    seed: int
    variant: str = ""
    """What sets this run apart from others of its search in a study, e.g. `step=0.005`; empty: nothing does."""
    hardware: HardwareConfig | None = None
    """Set when episodes come from a real system through `abps ask` and `abps tell`."""
    initial: str = ""
    """Where the search starts, when it is not its policy class's own start: in words, and with the checksum of the
    policy in `policy/initial.npz` (see `run.start`)."""


def run_path(root: Path, settings: RunSettings) -> Path:
    """Return the directory of a run with these settings."""
    return run_place(root, settings.task.name, settings.search, settings.variant, settings.seed)


def run_place(root: Path, task: str, search: str, variant: str, seed: int) -> Path:
    """Return `root/<task>/<search>[@variant]/seed-<n>`, with characters that do not belong into a path replaced."""
    task = re.sub(r"[^A-Za-z0-9._-]+", "-", task).strip(".-") or "task"
    folder = re.sub(r"[^A-Za-z0-9._=,+-]+", "-", variant)
    if len(folder) > MAX_VARIANT_NAME:
        folder = f"{folder[:MAX_VARIANT_NAME]}-{zlib.crc32(variant.encode()):08x}"
    search = re.sub(r"[^A-Za-z0-9._-]+", "-", search).strip(".-") or "search"
    return root / task / (f"{search}@{folder}" if folder else search) / f"seed-{seed}"


def create_directory(path: Path, settings: RunSettings, files: Mapping[str, bytes] | None = None) -> None:
    """Make a new run directory with its settings and versions.

    Args:
        path: where; there must be no run yet.
        settings: what config.yaml will say.
        files: further files that the run needs from the first, by their path in it.

    Raises:
        ConfigError: the settings could not be read back: a part of your own that no file can name.
        RunError: there is a run already, or the path cannot be made.
    """
    settings_from_document(settings_document(settings))
    try:
        (path / "policy").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot make the run directory {path}: {error.strerror or error}") from error
    with claim(path):
        if (path / "config.yaml").exists():
            raise RunError(
                f"there is a run in {path} already; go on with `abps resume {path}`, or start over with --overwrite "
                "(the old run is kept beside it), or take another --seed"
            )
        replace_atomically(path / "versions.json", (json.dumps(stamp_versions(), indent=1) + "\n").encode())
        for name, content in (files or {}).items():
            replace_atomically(path / name, content)
        write_settings(path, settings)


@contextmanager
def new_directory(
    path: Path, settings: RunSettings, files: Mapping[str, bytes] | None = None, *, overwrite: bool = False
) -> Iterator[None]:
    """Make a new run directory; when the block fails, everything is as before.

    Args:
        path: where.
        settings: what config.yaml will say.
        files: see `create_directory`.
        overwrite: whether a run that is there is moved aside.

    Raises:
        RunError: there is a run already, or the path cannot be made.
    """
    there = path.exists()
    made = [folder for folder in path.parents if not folder.exists()]  # The innermost first.
    moved = move_aside(path) if overwrite and there else None
    try:
        create_directory(path, settings, files)
    except BaseException:
        _put_back(path, moved)
        raise
    try:
        yield
    except BaseException:
        if there and moved is None:  # A folder that was there before the run keeps what else is in it.
            for name in ("config.yaml", "versions.json", *(files or {})):
                (path / name).unlink(missing_ok=True)
        else:
            shutil.rmtree(path, ignore_errors=True)
        for folder in made:
            with suppress(OSError):  # Another run may be in it by now.
                folder.rmdir()
        _put_back(path, moved)
        raise


def _put_back(path: Path, moved: Path | None) -> None:
    if moved is not None and not path.exists():
        moved.rename(path)


def move_aside(path: Path) -> Path:
    """Rename an existing run so that a new one can take its place; return where it went.

    Raises:
        RunError: another process is at work in it, or it cannot be renamed.
    """
    with claim(path):
        number = 1
        while (moved := path.with_name(f"{path.name}.old-{number}")).exists():
            number += 1
        try:
            path.rename(moved)
        except OSError as error:
            raise RunError(f"cannot rename {path}: {error.strerror or error}") from error
        return moved


def write_settings(path: Path, settings: RunSettings) -> None:
    """Write `config.yaml`."""
    text = yaml.safe_dump(settings_document(settings), sort_keys=False, allow_unicode=True)
    replace_atomically(path / "config.yaml", text.encode())


def settings_document(settings: RunSettings) -> dict[str, Any]:
    """Return the settings as nested dictionaries of scalars and lists, as `config.yaml` holds them."""
    return {
        "format": FORMAT,
        "seed": settings.seed,
        **({"variant": settings.variant} if settings.variant else {}),
        "task": to_dict(settings.task),
        "search": {"name": settings.search, "settings": to_dict(settings.search_config)},
        "budget": to_dict(settings.budget),
        "run": to_dict(settings.run),
        **({"hardware": to_dict(settings.hardware)} if settings.hardware else {}),
        **({"initial": settings.initial} if settings.initial else {}),
    }


def settings_from_document(document: Any) -> RunSettings:
    """The inverse of `settings_document`; whatever is missing or wrong raises (ConfigError, KeyError, TypeError, …)."""
    search, hardware, seed = document["search"]["name"], document.get("hardware"), document["seed"]
    if type(seed) is not int:
        raise ConfigError(f"seed must be an integer, got {seed!r}")
    return RunSettings(
        task=from_dict(TaskConfig, document["task"], where="task."),
        search=search,
        search_config=from_dict(SearchConfig, document["search"]["settings"], where=f"{search}."),
        budget=from_dict(BudgetConfig, document["budget"], where="budget."),
        run=from_dict(RunConfig, document["run"], where="run."),
        seed=seed,
        variant=str(document.get("variant", "")),
        hardware=None if hardware is None else from_dict(HardwareConfig, hardware, where="hardware."),
        initial=str(document.get("initial", "")),
    )


def no_run(path: Path) -> RunError:
    """The error for a directory that is no run; it names a run that lies in it, if there is one."""
    for pattern in ("*/config.yaml", "*/*/config.yaml", "*/*/*/config.yaml"):  # runs/<task>/<search>/seed-<n>
        for found in sorted(path.glob(pattern)):
            return RunError(f"there is no run in {path} itself (no config.yaml); a run in it is {found.parent}")
    return RunError(f"there is no run in {path} (no config.yaml)")


def read_settings(path: Path) -> RunSettings:
    """Read `config.yaml`; nothing in it can execute code, but a part named `module:Name` is imported.

    Raises:
        RunError: there is no run, or its settings are damaged.
    """
    file = path / "config.yaml"
    if not file.exists():
        raise no_run(path)
    try:
        document = parse_yaml(read_bounded(file, MAX_CONFIG_BYTES))
        if isinstance(document, dict) and document.get("imported"):
            raise RunError(
                f"the run in {path} was imported: it is a curve without episodes or a policy, which can be compared, "
                "reported and drawn, but not resumed, evaluated or exported"
            )
        if isinstance(document, dict) and document.get("format", 1) != FORMAT and "search" in document:
            raise OldFormatError(f"the run in {path} was made by another version: {_format_sentence(path, document)}")
        return settings_from_document(document)
    except ConfigError as error:
        raise RunError(f"{file} is damaged, or names a part that is not here: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise RunError(f"{file} is damaged: {error}") from error


def _format_sentence(path: Path, document: dict[str, Any]) -> str:
    try:
        stamp = json.loads(read_bounded(path / "versions.json", MAX_CONFIG_BYTES))
        writer = f"abps {stamp['abps']} (commit {stamp['commit']})"
    except (RunError, ValueError, KeyError, TypeError):
        writer = "an older abps"
    return (
        f"its settings have format {document.get('format', 1)!r}, this version reads format {FORMAT}. Go on with it by "
        f"{writer}; `abps report` and `abps export` read it here all the same"
    )


class _PlainLoader(yaml.SafeLoader):
    """Safe YAML without aliases: a small file cannot stand for an enormous document."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases (*name) are not allowed in a settings file")
        return super().compose_node(parent, index)


def parse_yaml(content: bytes, file: Path | None = None) -> Any:
    """Return a YAML document of plain values, read from a file; nothing in it can execute code.

    Raises:
        ConfigError: it is not YAML, or uses more of it than settings need.
    """
    try:
        return yaml.load(content, _PlainLoader)  # noqa: S506 (the loader is a safe one)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        name = f"{file} is " if file is not None else ""
        raise ConfigError(f"{name}not a readable settings file: {' '.join(str(error).split())}") from error


def stamp_versions() -> dict[str, str]:
    """Return the versions of everything a result depends on."""
    from abps import __version__

    versions = {"abps": __version__, "python": platform.python_version(), "platform": platform.platform()}
    versions.update({package: _installed(package) for package in STAMPED})
    versions["cpu"] = _cpu_name()
    versions["commit"] = _commit()
    return versions


def stamp_changes(path: Path) -> list[str]:
    """Say which versions differ between a run's stamp and this installation."""
    try:
        stamped = json.loads(read_bounded(path / "versions.json", MAX_CONFIG_BYTES))
        current = stamp_versions()
        names = ("abps", "python", *STAMPED, "cpu")
        return [
            f"the run began with {name} {stamped.get(name)}, here is {current[name]}"
            for name in names
            if stamped.get(name) != current[name]
        ]
    except (RunError, ValueError, AttributeError, RecursionError):
        return [f"{path / 'versions.json'} cannot be read"]


@cache
def _installed(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


@cache
def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


@cache
def _commit() -> str:
    """The commit of the code that this process runs, whatever is checked out later."""
    try:
        answer = subprocess.run(
            ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return answer.stdout.strip()


@contextmanager
def claim(path: Path) -> Iterator[None]:
    """Own a run directory: no second process can, and the claim ends with the process however it dies.

    Raises:
        RunError: another process owns it.
    """
    try:
        descriptor = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise RunError(f"cannot open the run directory {path}: {error.strerror or error}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.read(descriptor, 20).decode(errors="replace").strip() or "unknown"
            raise RunError(f"the run in {path} is in use by process {owner}; wait for it, or stop it first") from error
        with suppress(OSError):  # Our process id, for the other one's message; a full disk must not stop us here.
            os.ftruncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
        yield
    finally:
        os.close(descriptor)
