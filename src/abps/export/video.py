"""A policy at work as MP4 or GIF, rendered without a display.

MuJoCo draws through EGL (a graphics driver, or Mesa's software one) or OSMesa (software). Which of them works is found
out in a small process of its own, because a failed attempt cannot be taken back inside this one.
"""

import contextlib
import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from abps.errors import ConfigError, TaskError
from abps.policies import Policy
from abps.seeding import integer_seed
from abps.tasks.config import TaskConfig
from abps.tasks.environments import make_env

__all__ = ["Video", "choose_gl", "record_video"]

ENDINGS = {".mp4": 50.0, ".gif": 25.0}
"""File ending → the most frames per second it is given; GIF viewers slow down beyond."""

LONGEST = 1000
"""Steps after which an episode without a limit of its own is cut."""

ADVICE = "install a software renderer (Debian, Ubuntu: apt-get install libegl1 or libosmesa6) or set MUJOCO_GL"

PROBE = """
import mujoco
model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>")
renderer = mujoco.Renderer(model, 8, 8)
renderer.update_scene(mujoco.MjData(model))
renderer.render()
renderer.close()
"""


class Video(NamedTuple):
    """What was filmed."""

    path: Path
    frames: int
    fps: float
    steps: int
    total: float
    """Undiscounted return of the episode."""


def record_video(
    policy: Policy, task: TaskConfig, path: Path, *, seed: int = 0, steps: int = 0, size: int = 480
) -> Video:
    """Run one episode and write it as a film in real time.

    Args:
        policy: who acts.
        task: where.
        path: an .mp4 or .gif file.
        seed: of the episode's initial state.
        steps: stop after so many; 0: at the end of the episode.
        size: width and height in pixels, where the environment can be told.

    Raises:
        ConfigError: the file's ending, or a missing package.
        TaskError: the environment cannot be made or drawn here.
    """
    path = Path(path)
    if path.suffix.lower() not in ENDINGS:
        raise ConfigError(f"cannot write {path.name}: the name must end in .mp4 or .gif")
    if size < 16 or size % 2:
        raise ConfigError(f"the size must be an even number of at least 16 pixels, got {size}")
    imageio = _imageio()
    if "MUJOCO_GL" not in os.environ:
        found = choose_gl()
        if found is not None:
            os.environ["MUJOCO_GL"] = found
    env = _drawable(task, size)
    try:
        if env.observation_space.shape != (policy.spec.observation_dim,):
            raise TaskError(
                f"the policy takes {policy.spec.observation_dim} observations, {task.id!r} gives "
                f"{env.observation_space.shape}"
            )
        limit = env.spec.max_episode_steps if env.spec is not None else None
        return _film(policy, env, imageio, path, integer_seed(seed, "video"), steps or task.horizon or limit or LONGEST)
    finally:
        env.close()


def choose_gl() -> str | None:
    """The first way to draw that works on this machine: "egl", "osmesa" or None."""
    for name in ("egl", "osmesa"):
        environment = {**os.environ, "MUJOCO_GL": name}
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                [sys.executable, "-c", PROBE], env=environment, capture_output=True, check=False, timeout=60
            )
            if done.returncode == 0:
                return name
    return None


def _film(policy: Policy, env: "gymnasium.Env[Any, Any]", imageio: Any, path: Path, seed: int, steps: int) -> Video:
    rate = float(env.metadata.get("render_fps") or 30.0)
    every = int(np.ceil(rate / ENDINGS[path.suffix.lower()]))
    frames, taken, total = 0, 0, 0.0
    with _writer(imageio, path, rate / every) as writer:
        observation, _ = env.reset(seed=seed)
        for taken in range(steps + 1):
            if taken % every == 0:
                writer.append_data(_frame(env))
                frames += 1
            if taken == steps:
                break
            observation, reward, terminated, truncated, _ = env.step(policy(observation))
            total += float(reward)
            if terminated or truncated:
                writer.append_data(_frame(env))
                frames, taken = frames + 1, taken + 1
                break
    return Video(path, frames, rate / every, taken, total)


def _frame(env: "gymnasium.Env[Any, Any]") -> Any:
    try:
        frame = env.render()
    except Exception as error:  # Every GL library has errors of its own.
        raise TaskError(f"cannot draw the environment: {type(error).__name__}: {error}; {ADVICE}") from error
    if not isinstance(frame, np.ndarray) or frame.ndim != 3:
        raise TaskError(f"the environment draws no pictures: render() returned {type(frame).__name__}")
    return frame


@contextlib.contextmanager
def _writer(imageio: Any, path: Path, fps: float) -> Iterator[Any]:
    """A film under another name until it is complete."""
    part = path.with_name(f".{path.stem}.part{path.suffix.lower()}")
    options: dict[str, Any] = (
        {"fps": fps, "macro_block_size": 2} if path.suffix.lower() == ".mp4" else {"duration": 1000 / fps, "loop": 0}
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with imageio.get_writer(part, mode="I", **options) as writer:
            yield writer
        part.replace(path)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error}") from error
    finally:
        part.unlink(missing_ok=True)


def _imageio() -> Any:
    try:
        importlib.import_module("imageio_ffmpeg")
        return importlib.import_module("imageio.v2")
    except ImportError as error:
        raise ConfigError("videos need the package imageio with ffmpeg: pip install 'abps[video]'") from error


def _drawable(task: TaskConfig, size: int) -> "gymnasium.Env[Any, Any]":
    """The task's environment with pictures switched on, of this size if it can be told."""
    sized = {"width": size, "height": size}
    for extra in (sized, {}) if ":" not in task.id else ({},):
        try:
            env = make_env(task, render_mode="rgb_array", **extra)
        except TaskError as error:
            if extra and isinstance(error.__cause__, TypeError):
                continue  # An environment that takes no size is asked again without.
            raise _undrawable(task, error) from error
        if getattr(env, "render_mode", None) != "rgb_array":
            env.close()
            raise TaskError(f"{task.id!r} draws no pictures: let the factory take render_mode and pass it on")
        return env
    raise AssertionError("unreachable")


def _undrawable(task: TaskConfig, error: TaskError) -> TaskError:
    """Why there are no pictures: the environment cannot be made at all, takes no render_mode, or lacks a renderer."""
    try:
        make_env(task).close()
    except TaskError as other:
        return other
    if isinstance(error.__cause__, TypeError):
        return TaskError(f"{task.id!r} draws no pictures: let the factory take render_mode and pass it on ({error})")
    return TaskError(f"cannot make {task.id!r} for drawing: {error}; {ADVICE}")
