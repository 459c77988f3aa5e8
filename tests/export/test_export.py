"""Exported policies against the original: numpy as a program, ONNX in its runtime, C compiled and run."""

import argparse
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from abps.cli import export as command
from abps.errors import ConfigError, NumericsError, RunError
from abps.export import FORMATS, c_policy, export_policy, numpy_policy, onnx_policy
from abps.export.form import PolicyArrays, check, safe_text, sample_observations
from abps.normaliser import Normaliser
from abps.policies import load_policy
from abps.policies.base import Layered, PolicyClass
from abps.policies.linear import LinearTanh
from abps.policies.policy import Policy, PolicySpace
from abps.registry import KINDS, find
from abps.settings import replace
from abps.tasks.spec import TaskSpec

ACT = {"numpy": numpy_policy.act_numpy, "onnx": onnx_policy.act_onnx, "c": c_policy.act_c}
WRITE = {"numpy": numpy_policy.write_numpy, "onnx": onnx_policy.write_onnx, "c": c_policy.write_c}


def make_policy(kind: str = "linear-tanh", *, name: str = "hopper", observations: int = 11, actions: int = 3) -> Policy:
    """A random policy with skewed bounds and sensors of very different scales, one of which never moves."""
    rng = np.random.default_rng([actions, observations])
    scale = 10.0 ** rng.uniform(-3, 3, observations)
    data = rng.normal(5.0, 1.0, (500, observations)) * scale
    data[:, 0] = 7.25
    spec = TaskSpec(
        name,
        observations,
        actions,
        tuple((-1.0 - np.arange(actions)).tolist()),
        tuple(np.linspace(0.5, 3.0, actions).tolist()),
    )
    space = PolicySpace(find("policy", kind)(), spec)
    parameters = space.initial() + rng.normal(scale=0.5, size=space.size)
    if kind in ("linear-tanh", "clipped-linear"):
        parameters.reshape(actions, observations)[:, 0] *= 1e-6
    return space.policy(parameters, Normaliser.empty(observations).add(data))


@pytest.mark.parametrize("kind", list(KINDS["policy"]))
@pytest.mark.parametrize("target", FORMATS)
def test_exported_policies_act_the_same(target: str, kind: str, tmp_path: Path) -> None:
    policy = make_policy(kind)
    done = export_policy(policy, target, tmp_path / "new" / "folder")
    assert done.error is not None
    assert done.error <= 1e-6
    rng = np.random.default_rng(99)
    observations = policy.normaliser.mean + policy.normaliser.std * rng.normal(scale=2.0, size=(64, 11))
    actions = ACT[target](done.files[0].parent, observations)
    expected = np.stack([policy(observation) for observation in observations])
    np.testing.assert_allclose(actions, expected, atol=1e-6, rtol=0)
    saturated = np.mean(
        (np.abs(expected - policy.spec.action_low) < 1e-3) | (np.abs(expected - policy.spec.action_high) < 1e-3)
    )
    assert saturated < 0.9, "mostly saturated actions would prove nothing"


@pytest.mark.parametrize("target", FORMATS)
def test_one_action_one_observation(target: str, tmp_path: Path) -> None:
    spec = TaskSpec("tiny", 1, 1, (-2.0,), (2.0,))
    policy = PolicySpace(LinearTanh(), spec).policy(np.array([0.3]), Normaliser.empty(1))
    done = export_policy(policy, target, tmp_path)
    assert done.error is not None
    assert done.error < 1e-12


@pytest.mark.parametrize("damage", ["mean", "std", "low", "high"])
@pytest.mark.parametrize("target", FORMATS)
def test_the_check_notices_every_wrong_number(target: str, damage: str, tmp_path: Path) -> None:
    """Negative control: leave out the normaliser or a bound, and the comparison must fail."""
    policy = make_policy(observations=3, actions=2)
    right = PolicyArrays.of(policy)
    WRITE[target](replace(right, **{damage: getattr(right, damage) * 1.001 + 0.001}), tmp_path)
    with pytest.raises(NumericsError, match="differs from the policy"):
        check(policy, lambda observations: ACT[target](tmp_path, observations), target)


@pytest.mark.parametrize("damage", ["weights", "bias", "function", "plain"])
@pytest.mark.parametrize(("kind", "place"), [("linear-tanh", 0), ("fourier", 0), ("radial", 1), ("mlp", 0)])
@pytest.mark.parametrize("target", ["numpy", "onnx"])
def test_the_check_notices_every_wrong_layer(target: str, kind: str, place: int, damage: str, tmp_path: Path) -> None:
    """Negative control; C is written from the same layers, and its checks above cost a compiler each."""
    policy = make_policy(kind, observations=3, actions=2)
    right = PolicyArrays.of(policy)
    layer = right.layers[place]
    value = {
        "weights": layer.weights + 0.001,
        "bias": layer.bias + 0.001,
        "function": "sin" if layer.function == "tanh" else "tanh",
        "plain": layer.plain + 1,
    }[damage]
    if kind == "linear-tanh" and damage in ("function", "plain"):
        return  # Its only layer has no function.
    layers = (*right.layers[:place], layer._replace(**{damage: value}), *right.layers[place + 1 :])
    WRITE[target](replace(right, layers=layers), tmp_path)
    with pytest.raises(NumericsError, match="differs from the policy"):
        check(policy, lambda observations: ACT[target](tmp_path, observations), target)


def test_unverified_files_are_not_handed_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_policy, "act_numpy", lambda directory, observations: np.zeros((len(observations), 3)))
    with pytest.raises(NumericsError):
        export_policy(make_policy(), "numpy", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_single_precision_would_be_noticed() -> None:
    """Why everything is float64: with float32 a sensor that hardly moves costs more than the tolerance."""
    policy = make_policy()
    f = PolicyArrays.of(policy)

    def single(observations: np.ndarray) -> np.ndarray:
        o, m, s, w = (x.astype(np.float32) for x in (observations, f.mean, f.std, f.layers[0].weights))
        return f.centre + f.half * np.tanh(((o - m) / s) @ w.T)

    with pytest.raises(NumericsError):
        check(policy, single, "float32")


HOSTILE = '"""\nimport os\nos.abort()\n"""*/ int x = 1; /* <b>\\'


@pytest.mark.parametrize("target", FORMATS)
def test_a_strangers_task_name_is_only_a_name(target: str, tmp_path: Path) -> None:
    done = export_policy(make_policy(name=HOSTILE), target, tmp_path)
    assert done.error is not None
    for file in done.files:
        assert b"os.abort()" not in file.read_bytes()
        assert b"int x = 1;" not in file.read_bytes()
    assert set(safe_text(HOSTILE)) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ._-?")


def test_numpy_file_takes_batches_and_refuses_wrong_sizes(tmp_path: Path) -> None:
    policy = make_policy()
    path = export_policy(policy, "numpy", tmp_path).files[0]
    space: dict = {"__name__": "policy"}
    exec(compile(path.read_text(), str(path), "exec"), space)  # noqa: S102 - our own file, just written
    batch = sample_observations(PolicyArrays.of(policy), 8)
    np.testing.assert_allclose(space["act"](batch)[2], policy(batch[2]), atol=1e-9)
    with pytest.raises(ValueError, match="expected 11 numbers"):
        space["act"](np.zeros(10))


def test_c_header_is_also_cpp(tmp_path: Path) -> None:
    compiler = c_policy.compiler()
    assert compiler is not None, "the tests need a C compiler"
    export_policy(make_policy(), "c", tmp_path)
    (tmp_path / "use.cpp").write_text(
        '#include "policy.h"\nint f() { double o[ABPS_OBSERVATION_SIZE] = {0}, a[ABPS_ACTION_SIZE]; '
        "abps_policy_act(o, a); return 0; }\n"
    )
    subprocess.run([compiler, "-x", "c++", "-fsyntax-only", "-Wall", "-Werror", str(tmp_path / "use.cpp")], check=True)


def test_without_a_compiler_c_is_written_but_not_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c_policy, "compiler", lambda: None)
    done = export_policy(make_policy(), "c", tmp_path)
    assert done.error is None
    assert "compiler" in done.note
    assert (tmp_path / "policy.c").is_file()


def test_without_onnx_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ConfigError, match=r"abps\[onnx\]"):
        export_policy(make_policy(), "onnx", tmp_path)


class Bent(PolicyClass):
    """A class that says nothing of layers: whatever it does with its inputs, no exporter can write it."""

    def initial(self, spec):
        return np.zeros(spec.observation_dim)

    def actions(self, spec, parameters, inputs):
        return np.sin(inputs * parameters)[:, : spec.action_dim]

    def pullback(self, spec, parameters, inputs, cotangents):
        raise NotImplementedError

    def metric(self, spec, parameters, inputs, weights):
        raise NotImplementedError

    def to_arrays(self, spec, parameters):
        return {"waves": parameters}

    def from_arrays(self, spec, arrays):
        return arrays["waves"]


def test_unknown_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown format 'rust'"):
        export_policy(make_policy(), "rust", tmp_path)
    bent = PolicySpace(Bent(), make_policy().spec).policy(np.ones(11), Normaliser.empty(11))
    for target in FORMATS:
        with pytest.raises(ConfigError, match=r"Bent' cannot be exported"):
            export_policy(bent, target, tmp_path)


def test_every_policy_class_can_be_exported() -> None:
    assert all(isinstance(find("policy", kind)(), Layered) for kind in KINDS["policy"])


def test_a_file_given_as_the_directory_is_refused(tmp_path: Path) -> None:
    make_policy().save(tmp_path / "policy.npz")
    with pytest.raises(ConfigError, match=r"--out is a directory.*leave out 'mine.py'"):
        _execute(str(tmp_path / "policy.npz"), "--out", str(tmp_path / "mine.py"))
    assert [path.name for path in tmp_path.iterdir()] == ["policy.npz"]


def _execute(*words: str) -> int:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    return command.execute(parser.parse_args(words))


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "policy").mkdir()
    make_policy().save(tmp_path / "policy" / "best.npz")
    assert _execute(str(tmp_path)) == 0
    assert "verified: largest difference" in capsys.readouterr().out
    assert (tmp_path / "export" / "numpy" / "policy.py").is_file()
    assert _execute(str(tmp_path), "--format", "c", "--out", str(tmp_path / "c"), "--json") == 0
    assert json.loads(capsys.readouterr().out)["error"] < 1e-6
    assert load_policy(tmp_path / "policy" / "best.npz").spec.observation_dim == 11
    with pytest.raises(RunError, match="no current policy"):
        _execute(str(tmp_path), "--which", "current")
    with pytest.raises(RunError, match="does not exist"):
        _execute(str(tmp_path / "nowhere"))
