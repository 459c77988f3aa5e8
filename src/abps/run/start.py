"""Warm starts of runs: the policy that a search starts from, kept with the run so that a resumed one starts there, too.

`policy/initial.npz` holds the policy as one of the search's own class; `initial` in config.yaml says where it is from
and ends with its checksum.
"""

import io
import re
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from abps.errors import AbpsError, RunError
from abps.policies.policy import Policy, PolicySpace, load_policy
from abps.policies.start import InitialLike, read_start
from abps.run.demonstrations import demonstrated
from abps.run.directory import RunSettings
from abps.search.base import Search, SearchConfig
from abps.search.limits import LimitKeeper
from abps.tasks.spec import TaskSpec

__all__ = ["INITIAL_FILE", "RunStart", "prepare_start", "start_search"]

INITIAL_FILE = "policy/initial.npz"


class RunStart(NamedTuple):
    """A warm start before its run exists."""

    text: str
    """For `RunSettings.initial`."""
    files: dict[str, bytes]
    """For `create_directory`."""


def prepare_start(source: InitialLike | None, spec: TaskSpec, config: SearchConfig) -> RunStart:
    """Read what a search is to start from, before anything is written; None: where its class of policies does.

    The search is made once, so that one that cannot work here (a package is missing) leaves no run behind. Beside
    everything that `read_start` takes: a controller or recorded episodes in files (`demonstrations`).

    Raises:
        ConfigError: there is no such policy, it cannot be one of the search's, or there can be no such search here.
        ShapeError: it belongs to a task of another size.
    """
    config.make(spec)
    if source is None:
        return RunStart("", {})
    space = PolicySpace(config.policy, spec)
    shown = demonstrated(Path(source), space, config.observations) if isinstance(source, str | Path) else None
    start = shown or read_start(source, space, config.observations)
    LimitKeeper.of(space, start.parameters, start.normaliser)  # Raises for a policy that is outside the limits.
    policy, buffer = space.policy(start.parameters, start.normaliser), io.BytesIO()
    policy.write(buffer)
    return RunStart(f"{start.source} (checksum {_checksum(policy)})", {INITIAL_FILE: buffer.getvalue()})


def start_search(search: Search[Any], path: Path, settings: RunSettings) -> None:
    """Let a search that was told nothing start where the run's settings say.

    Raises:
        RunError: the policy is missing or damaged.
    """
    if not settings.initial:
        return
    file = path / INITIAL_FILE
    try:
        policy = load_policy(file, settings.search_config.policy)
        search.start_from(policy.parameters, policy.normaliser)
    except AbpsError as error:
        raise RunError(f"the policy that this run starts from cannot be used: {error}") from error
    expected = re.search(r"\(checksum ([0-9a-f]{8})\)$", settings.initial)
    if expected is None or expected[1] != _checksum(policy):
        raise RunError(f"{file} is not the policy that {path / 'config.yaml'} speaks of; restore it from a copy")


def _checksum(policy: Policy) -> str:
    """Of everything that makes the policy act as it does; files differ in their dates."""
    normaliser = policy.normaliser
    parts = (policy.parameters, normaliser.mean, normaliser.m2)
    return f"{zlib.crc32(b''.join(part.tobytes() for part in parts), normaliser.count & 0xFFFFFFFF):08x}"
