"""Videos: real films of real tasks where a GL library is installed, clear errors where something is missing."""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from abps.cli import video as command
from abps.errors import ConfigError, RunError, TaskError
from abps.export.video import choose_gl, record_video
from abps.normaliser import Normaliser
from abps.policies.linear import LinearTanh
from abps.policies.policy import Policy, PolicySpace
from abps.tasks.config import TaskConfig
from abps.tasks.spec import TaskSpec

pytest.importorskip("imageio_ffmpeg")


class Painted(gymnasium.Env):
    """Ends after 30 steps; its pictures are a bar that grows with time."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 40}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,))
        self.action_space = spaces.Box(-1.0, 1.0, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(2), {}

    def step(self, action):
        self.time += 1
        return np.ones(2) * self.time, 1.0, self.time == 30, False, {}

    def render(self):
        picture = np.zeros((32, 64, 3), dtype=np.uint8)
        picture[:, : 2 * self.time] = 255
        return picture


def blind() -> gymnasium.Env:
    """A factory that knows nothing of pictures."""
    return Painted()


def handing_on(**arguments: Any) -> gymnasium.Env:
    """A factory that hands everything on to a class without pictures."""

    class Plain(Painted):
        def __init__(self) -> None:
            super().__init__()

    return Plain(**arguments)


@pytest.fixture
def policy() -> Policy:
    space = PolicySpace(LinearTanh(), TaskSpec("painted", 2, 1, (-1.0,), (1.0,)))
    return space.policy(np.zeros(2), Normaliser.empty(2))


@pytest.fixture
def painted(monkeypatch: pytest.MonkeyPatch) -> TaskConfig:
    module = type(sys)("painted_task")
    module.make, module.blind, module.handing_on = Painted, blind, handing_on  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "painted_task", module)
    monkeypatch.setenv("MUJOCO_GL", "egl")  # No probing: this environment paints itself.
    return TaskConfig(id="painted_task:make", name="painted")


@pytest.mark.parametrize("ending", ["mp4", "gif"])
def test_frames_and_speed(ending: str, policy: Policy, painted: TaskConfig, tmp_path: Path) -> None:
    import imageio.v2 as imageio

    done = record_video(policy, painted, tmp_path / "new" / f"film.{ending}")
    assert (done.steps, done.total) == (30, 30.0)
    assert done.fps == {"mp4": 40.0, "gif": 20.0}[ending]
    assert done.frames == {"mp4": 31, "gif": 16}[ending]
    with imageio.get_reader(done.path) as reader:
        frames = [np.asarray(frame)[..., :3] for frame in cast("Any", reader)]
    assert len(frames) == done.frames
    brightness = [frame.mean() for frame in frames]
    assert np.all(np.diff(brightness) > 0), "the bar grows from picture to picture"
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [f"film.{ending}"], (
        "no half-written film is left"
    )


def test_steps_limit(policy: Policy, painted: TaskConfig, tmp_path: Path) -> None:
    done = record_video(policy, painted, tmp_path / "film.gif", steps=4)
    assert (done.steps, done.frames) == (4, 3)


def test_bad_input_is_refused(policy: Policy, painted: TaskConfig, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\.mp4 or \.gif"):
        record_video(policy, painted, tmp_path / "film.avi")
    with pytest.raises(ConfigError, match="even number"):
        record_video(policy, painted, tmp_path / "film.mp4", size=33)
    with pytest.raises(TaskError, match="draws no pictures"):
        record_video(policy, TaskConfig(id="painted_task:blind", name="blind"), tmp_path / "film.mp4")
    with pytest.raises(TaskError, match=r"draws no pictures: let the factory take render_mode.*TypeError"):
        record_video(policy, TaskConfig(id="painted_task:handing_on", name="plain"), tmp_path / "film.mp4")
    with pytest.raises(TaskError, match="cannot make") as caught:
        record_video(policy, TaskConfig(id="NoSuchTask-v9", name="none"), tmp_path / "film.mp4")
    assert "renderer" not in str(caught.value), "a renderer would not help"
    space = PolicySpace(LinearTanh(), TaskSpec("painted", 3, 1, (-1.0,), (1.0,)))
    other = space.policy(np.zeros(3), Normaliser.empty(3))
    with pytest.raises(TaskError, match="takes 3 observations"):
        record_video(other, painted, tmp_path / "film.mp4")


def test_a_broken_renderer_is_explained(
    policy: Policy, painted: TaskConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Painted) -> None:
        raise OSError("libEGL.so.1: cannot open shared object file")

    monkeypatch.setattr(Painted, "render", fail)
    with pytest.raises(TaskError, match="apt-get install libegl1 or libosmesa6"):
        record_video(policy, painted, tmp_path / "film.mp4")
    assert list(tmp_path.iterdir()) == []


def test_missing_package_is_explained(
    policy: Policy, painted: TaskConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(ConfigError, match=r"abps\[video\]"):
        record_video(policy, painted, tmp_path / "film.mp4")


def test_gl_is_chosen_by_trying(monkeypatch: pytest.MonkeyPatch) -> None:
    works: list[str] = []

    def run(command: list[str], env: dict[str, str], **rest: object) -> subprocess.CompletedProcess:
        return subprocess.CompletedProcess(command, 0 if env["MUJOCO_GL"] in works else 1)

    monkeypatch.setattr("abps.export.video.subprocess.run", run)
    assert choose_gl() is None
    works.append("osmesa")
    assert choose_gl() == "osmesa"
    works.append("egl")
    assert choose_gl() == "egl"


def test_command_on_mujoco(tmp_path: Path) -> None:
    """A real film in a process of its own, where MUJOCO_GL is not yet decided."""
    code = """
import sys
from pathlib import Path
import numpy as np
from abps.tasks.config import TaskConfig
from abps.export.video import record_video
from abps.normaliser import Normaliser
from abps.policies.linear import LinearTanh
from abps.policies.policy import PolicySpace
from abps.tasks.spec import TaskSpec
space = PolicySpace(LinearTanh(), TaskSpec("hopper", 11, 3, (-1.0,) * 3, (1.0,) * 3))
policy = space.policy(np.zeros(33), Normaliser.empty(11))
done = record_video(policy, TaskConfig(id="Hopper-v4", name="hopper"), Path(sys.argv[1]), steps=12, size=64)
print(done.frames, done.fps)
"""
    environment = {key: value for key, value in os.environ.items() if key != "MUJOCO_GL"}
    out = tmp_path / "film.mp4"
    done = subprocess.run(
        [sys.executable, "-c", code, str(out)], env=environment, capture_output=True, text=True, check=False
    )
    if "apt-get install" in done.stderr:
        pytest.skip("no GL library (apt-get install libegl1 or libosmesa6)")
    assert done.returncode == 0, done.stderr
    import imageio.v2 as imageio

    with imageio.get_reader(out) as reader:
        frames = [np.asarray(frame) for frame in cast("Any", reader)]
    assert len(frames) == int(done.stdout.split()[0])
    assert frames[0].shape == (64, 64, 3)
    assert frames[0].std() > 5, "the picture shows something"


def test_command_refuses_what_is_no_run(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    with pytest.raises(RunError, match="no run"):
        command.execute(parser.parse_args([str(tmp_path)]))
    with pytest.raises(ConfigError, match="negative"):
        command.execute(parser.parse_args([str(tmp_path), "--steps", "-1"]))
