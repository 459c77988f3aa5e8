"""A policy as one Python file that needs numpy and nothing else.

Along a path, or with a limited rate of the actions, every episode has its own controller.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np

from abps.arrays import Array
from abps.export.form import PolicyArrays, literal, moves, safe_text
from abps.policies.layers import Layer

__all__ = ["act_numpy", "write_numpy"]

FILE = "policy.py"

HEAD = '''"""Deterministic policy for "{task}", exported by abps: {a} actions from {s} observations. Needs numpy only.

{usage}
"""

import numpy as np

{numbers}
OBSERVATION_MEAN = np.array([{mean}])
OBSERVATION_STD = np.array([{std}])
ACTION_LOW = np.array([{low}])
ACTION_HIGH = np.array([{high}])
ACTION_CENTRE = (ACTION_HIGH + ACTION_LOW) / 2.0
ACTION_HALF = (ACTION_HIGH - ACTION_LOW) / 2.0
'''

AT_REST = """    from policy import act
    action = act(observation)        # ({s},) -> ({a},); also (n, {s}) -> (n, {a})

As a program it reads one observation per line (numbers separated by spaces) and prints one action per line."""

WITH_STATE = """During an episode {why}, so that every episode needs a controller of its own:

    from policy import start
    act = start()                    # at the beginning of an episode
    action = act(observation)        # once per step, ({s},) -> ({a},)

As a program it reads the observations of one episode, one per line (numbers separated by spaces), and prints one action
per line."""

ACT = '''

def act(observation):
    """Return the action for an observation; the raw one, it is normalised here."""
    observation = np.asarray(observation, dtype=np.float64)
    if observation.shape[-1:] != OBSERVATION_MEAN.shape:
        raise ValueError(f"expected {s} numbers in an observation, got the shape {{observation.shape}}")
    values = (observation - OBSERVATION_MEAN) / OBSERVATION_STD
{layers}
    return {squash}


def start():
    """Return the controller of one episode; this policy is at rest, so that it is always the same."""
    return act
'''

START = '''

def start():
    """Return the controller of one episode: a function from an observation to an action that counts its calls."""
    step, last{more_names} = 0, {knots} - 1{more_values}

    def act(observation):
        nonlocal step{more_names}
        observation = np.asarray(observation, dtype=np.float64)
        if observation.shape != OBSERVATION_MEAN.shape:
            raise ValueError(f"expected {s} numbers in an observation, got the shape {{observation.shape}}")
        before, share = min(step // KNOT_INTERVAL, last), step % KNOT_INTERVAL / KNOT_INTERVAL
        after = min(before + 1, last)
        step += 1
        values = (observation - OBSERVATION_MEAN) / OBSERVATION_STD
{layers}
{finish}

    return act
'''

MAIN = """

if __name__ == "__main__":
    import sys

    controller = start()
    for line in sys.stdin:
        print(*(repr(float(value)) for value in controller(np.array(line.split(), dtype=np.float64))))
"""

FINISH = "        return {squash}"

FINISH_LIMITED = """        wanted = {squash}
        action = np.minimum(np.maximum(wanted, action - ACTION_RATE), action + ACTION_RATE)
        return action.copy()"""

SQUASH = {
    "tanh": "ACTION_CENTRE + ACTION_HALF * np.tanh(values)",
    "clip": "np.clip(ACTION_CENTRE + values, ACTION_LOW, ACTION_HIGH)",
}


def write_numpy(form: PolicyArrays, directory: Path) -> list[Path]:
    """Write `policy.py`; return the files."""
    path, sizes = Path(directory) / FILE, {"a": form.low.size, "s": form.mean.size, "why": form.why_state}
    usage = WITH_STATE if form.knots else AT_REST
    text = HEAD.format(
        **sizes, task=safe_text(form.task), usage=usage.format(**sizes), numbers=_parameters(form),
        mean=_numbers(form.mean), std=_numbers(form.std), low=_numbers(form.low), high=_numbers(form.high),
    )  # fmt: skip
    path.write_text(text + _body(form) + MAIN, encoding="utf-8")
    return [path]


def _body(form: PolicyArrays) -> str:
    """The functions of the file."""
    squash, indent = SQUASH[form.squash], 8 if form.knots else 4
    lines = [" " * indent + line for number, layer in enumerate(form.layers, 1) for line in _layer(number, layer)]
    inner = {"s": form.mean.size, "layers": "\n".join(lines)}
    if not form.knots:
        return ACT.format(**inner, squash=squash)
    limited = form.rate is not None
    return START.format(
        **inner,
        knots=form.knots,
        more_names=", action" if limited else "",
        more_values=", ACTION_START" if limited else "",
        finish=(FINISH_LIMITED if limited else FINISH).format(squash=squash),
    )


def _layer(number: int, layer: Layer) -> list[str]:
    """The lines that take `values` through a layer."""
    weights, bias = f"WEIGHTS_{number}", f"BIAS_{number}"
    if moves(layer):
        weights, bias = (f"((1.0 - share) * {name}[before] + share * {name}[after])" for name in (weights, bias))
    lines = [f"values = values @ {weights}.T + {bias}"]
    if layer.function != "identity":
        part = f"values[..., :{layer.bias.shape[-1] - layer.plain}]"
        lines.append(f"{part} = np.{layer.function}({part})")
    return lines


def _parameters(form: PolicyArrays) -> str:
    """Weights and bias of every layer, of all knots where they move."""
    lines: list[str] = []
    for number, layer in enumerate(form.layers, 1):
        if moves(layer):
            knots = "\n".join(f"    [\n{_rows(weights, 8)}\n    ]," for weights in layer.weights)
            lines.append(f"WEIGHTS_{number} = np.array([\n{knots}\n])  # of every knot")
            lines.append(f"BIAS_{number} = np.array([\n{_rows(layer.bias)}\n])")
        else:
            lines.append(f"WEIGHTS_{number} = np.array([\n{_rows(layer.weights)}\n])")
            lines.append(f"BIAS_{number} = np.array([{_numbers(layer.bias)}])")
    if form.knots:
        interval = int(form.interval)
        lines.append(f"KNOT_INTERVAL = {interval}  # steps between two knots; after the last one nothing moves")
    if form.rate is not None:
        lines.append(f"ACTION_RATE = np.array([{_numbers(form.rate)}])  # largest change of an action per step")
        lines.append(f"ACTION_START = np.array([{_numbers(form.start)}])  # the action before the first step")
    return "\n".join(lines)


def _rows(matrix: Array, indent: int = 4) -> str:
    return "\n".join(f"{' ' * indent}[{_numbers(row)}]," for row in matrix)


def act_numpy(directory: Path, observations: Array) -> Array:
    """Actions of the written file, run as a program of its own: (m, s) → (m, a)."""
    command = [sys.executable, "-I", str(Path(directory) / FILE)]
    return through_program(command, observations)


def through_program(command: list[str], observations: Array) -> Array:
    """Send observations through a program that reads and prints one line each."""
    text = "".join(" ".join(literal(value) for value in row) + "\n" for row in observations)
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=120)
    return np.array([[float(word) for word in line.split()] for line in done.stdout.splitlines()])


def _numbers(values: Array | None) -> str:
    return ", ".join(literal(value) for value in np.asarray(values))
