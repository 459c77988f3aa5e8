"""The command line as a whole: help, errors, exit codes, and how quickly it answers."""

import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from abps import __version__
from abps.cli import COMMANDS, FROM_SETTINGS

Call = Callable[..., Any]


def test_help(abps: Call, snapshot: Call) -> None:
    answer = abps("--help")
    assert answer.code == 0
    snapshot("help", answer.out)
    assert abps().out == answer.out


def test_version(abps: Call) -> None:
    assert abps("--version").out.strip() == f"abps {__version__}"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_keeps_the_contract(command: str, abps: Call) -> None:
    module: Any = importlib.import_module(f"abps.cli.{command}")
    assert module.HELP
    assert callable(module.run) if command in FROM_SETTINGS else callable(module.execute)
    answer = abps(command, "--help")
    assert answer.code == 0
    assert f"usage: abps {command}" in answer.out


@pytest.mark.parametrize(
    ("name", "words", "code"),
    [
        ("unknown_command", ("trian", "pendulum"), 2),
        ("missing_task", ("train",), 2),
        ("unknown_option", ("train", "pendulum", "--search", "ars", "--stepp", "3"), 2),
        ("unknown_option_of_argparse", ("evaluate", "runs", "--episods", "3"), 2),
        ("wrong_choice_of_argparse", ("evaluate", "runs", "--which", "bst"), 2),
        ("wrong_number", ("train", "pendulum", "--search", "ars", "--step", "much"), 2),
        ("missing_value", ("train", "pendulum", "--episodes"), 2),
        ("unknown_search", ("train", "pendulum", "--search", "asr"), 2),
        ("unknown_preset", ("train", "pendulum", "--preset", "papr"), 2),
        ("unknown_kind", ("train", "pendulum", "--step", "wlak"), 2),
        ("setting_of_another_kind", ("train", "pendulum", "--search", "gibo", "--step.probability", "0.5"), 2),
        ("setting_of_another_search", ("train", "pendulum", "--directions", "3"), 2),
        ("setting_of_0_1_0", ("train", "pendulum", "--no-normalise"), 2),
        ("value_out_of_range", ("train", "pendulum", "--search", "ars", "--top", "9"), 2),
        ("value_out_of_range_in_a_part", ("train", "pendulum", "--search", "mpd", "--step.length", "-1"), 2),
        ("negative_seed", ("train", "pendulum", "--seed", "-1"), 2),
        ("module_that_is_not_there", ("train", "pendulum", "--step", "no_such_module:Step"), 2),
        ("unknown_task", ("train", "Pendulumm-v1", "--search", "ars"), 1),
        ("no_run", ("resume", "nowhere"), 1),
        ("resume_cannot_change_the_search", ("resume", "nowhere", "--plan.probes", "3"), 2),
        ("ask_without_new", ("ask", "run", "--plan.probes", "3"), 2),
        ("discrete_actions", ("train", "CartPole-v1", "--search", "ars"), 1),
    ],
)
def test_errors_are_one_sentence_that_says_what_to_do(
    name: str,
    words: tuple[str, ...],
    code: int,
    abps: Call,
    snapshot: Call,
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = abps(*words)
    assert answer.code == code
    assert answer.out == ""
    assert answer.err.startswith("abps")
    assert answer.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []  # A wrong command leaves nothing behind.
    snapshot(f"error_{name}", answer.err)


def test_help_answers_within_a_second() -> None:
    """The best of three, so that a busy machine is not the software's fault."""

    def seconds() -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "abps", "--help"], check=True, capture_output=True)
        return time.perf_counter() - start

    assert min(seconds() for _ in range(3)) < 1.0


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom abps.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "heavy = ('numpy', 'tyro', 'msgspec', 'jax', 'gymnasium', 'matplotlib', 'rich')\n"
        "sys.exit(any(name in sys.modules for name in heavy))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0


def test_help_of_train_imports_nothing_that_only_training_needs() -> None:
    code = (
        "import sys\nfrom abps.cli import main\nmain(['train', '--help'])\n"
        "sys.exit(any(name in sys.modules for name in ('tyro', 'jax', 'gymnasium', 'matplotlib', 'rich')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0


def test_a_closed_pipe_is_no_accident() -> None:
    command = f"{sys.executable} -m abps tasks | head -n 1"
    answer = subprocess.run(command, shell=True, check=True, capture_output=True, env={**os.environ})  # noqa: S602
    assert answer.stderr == b""


def test_tasks_are_listed(abps: Call) -> None:
    answer = abps("tasks")
    assert answer.code == 0
    for name in ("pendulum", "swimmer", "hopper", "cheetah", "walker", "ant"):
        assert name in answer.out
    assert abps("tasks", "--json").out.startswith('[{"name": "pendulum"')
