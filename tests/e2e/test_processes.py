"""Signals, second processes and existing runs, through the real command line."""

import os
import signal
import subprocess
import sys
import time

import killing
import pytest


@pytest.fixture
def training(environment, tmp_path):
    """A run under way in another process, with at least two episodes done."""
    path = killing.make_run(tmp_path / "run", "ars", episodes=400)
    config = path / "config.yaml"
    config.write_text(config.read_text().replace("killing:TinyEnv", "faulty_envs:Slow"))
    command = [sys.executable, "-m", "abps", "resume", str(path)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while len(killing.journal_of(path)) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    yield path, process
    if process.poll() is None:
        process.kill()
    process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_is_saved_and_says_how_to_go_on(number, training, abps):
    path, process = training
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"Go on with: abps resume {path}" in errors
    assert "Traceback" not in errors
    done = len(killing.journal_of(path))
    assert done >= 2
    again = abps("resume", path, "--episodes", done + 2, "--quiet")
    assert again.returncode == 0, again.stderr
    journal = killing.journal_of(path)
    assert len(journal) >= done + 2
    assert [line["episode"] for line in journal] == list(range(len(journal)))


def test_second_process_stops_with_a_clear_sentence(training, abps):
    path, process = training
    before = (path / "config.yaml").read_bytes()
    second = abps("resume", path, "--quiet")
    assert second.returncode == 1
    assert second.stderr == (
        f"abps resume: the run in {path} is in use by process {process.pid}; wait for it, or stop it first\n"
    )
    assert (path / "config.yaml").read_bytes() == before
    assert process.poll() is None
    from abps.errors import RunError
    from abps.run.directory import move_aside

    with pytest.raises(RunError, match="in use"):  # `train --overwrite` must not pull the run away under its process.
        move_aside(path)


def test_training_an_existing_run_is_refused(abps, tmp_path):
    words = ("train", "killing:TinyEnv", "--search", "ars", "--episodes", 16, "--runs", tmp_path, "--quiet")
    assert abps(*words).returncode == 0
    path = tmp_path / "killing-TinyEnv" / "ars" / "seed-0"
    before = killing.comparable(path)
    again = abps(*words)
    assert again.returncode == 1
    assert f"go on with `abps resume {path}`" in again.stderr
    assert "--overwrite" in again.stderr
    assert killing.comparable(path) == before
    assert abps(*words, "--overwrite").returncode == 0
    assert killing.differences(before, killing.comparable(path)) == []
    assert killing.differences(before, killing.comparable(path.with_name("seed-0.old-1"))) == []


def test_orphaned_worker_ends_with_its_parent(environment, tmp_path):
    """A worker in the middle of an endless episode does not outlive a killed run."""
    path = killing.make_run(tmp_path / "run", "ars", timeout=3600.0, evaluate_every=0)
    config = path / "config.yaml"
    config.write_text(config.read_text().replace("killing:TinyEnv", "faulty_envs:Hangs"))
    command = [sys.executable, "-m", "abps", "resume", str(path), "--quiet"]
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    workers = _wait_for(lambda: _workers_of(process.pid))
    time.sleep(1.0)
    process.kill()
    process.wait()
    assert workers
    assert _wait_for(lambda: not any(_is_alive(pid) for pid in workers))


def _wait_for(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not (answer := condition()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return answer


def _workers_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            children = [int(word) for word in file.read().split()]
        return [child for child in children if b"spawn_main" in open(f"/proc/{child}/cmdline", "rb").read()]
    except OSError:
        return []


def _is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
    finally:
        os.sched_yield()
