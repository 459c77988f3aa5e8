"""Damaged and hostile files: every loader must answer with a clear `AbpsError` or a recorded fallback, whatever it
is given.

Used by tests/e2e/test_files.py (a hypothesis sample) and benchmarks/kill/fuzz_files.py (tens of thousands of cases). A
case is named by the file it damages and a seed; `check_case` raises when something other than an `AbpsError` comes
out, or a finished episode is lost.
"""

import hashlib
import io
import json
import random
import shutil
import zipfile
from pathlib import Path
from typing import Any, cast

import killing
import numpy as np

from abps.cli.ask import read_robot
from abps.errors import AbpsError
from abps.normaliser import Normaliser
from abps.policies import load_policy
from abps.policies.linear import LinearTanh
from abps.policies.policy import PolicySpace
from abps.run.directory import read_settings, stamp_changes
from abps.run.loop import train
from abps.run.run import open_run
from abps.run.spool import Finished, Spool
from abps.run.start import prepare_start
from abps.run.trajectory_files import read_trajectory, write_trajectory_npz
from abps.search.registry import search_config
from abps.settings import replace
from abps.tasks.limits import Limits
from abps.tasks.spec import TaskSpec
from abps.trajectory import Trajectory

SPEC = TaskSpec("tiny", 3, 1, (-1.0,), (1.0,), gamma=0.9, horizon=8)
ROBOT = b"observations: 3\naction_low: [-1.0]\naction_high: [1.0]\nhorizon: 8\nname: tiny\n"
LIMITED = ROBOT + b"limits:\n  action_rate: [0.5]\n  action_change: [0.25]\n  weights: 3.0\n"
RUN_FILES = (
    "journal.jsonl",
    "episodes.bin",
    "metrics.jsonl",
    "config.yaml",
    "versions.json",
    "newest.json",
    "newest.safetensors",
)
SINGLE_FILES = (
    "policy.npz",
    "limited.npz",
    "controller.npz",
    "trajectory.npz",
    "trajectory.csv",
    "robot.yaml",
    "spool",
)
TARGETS = (*RUN_FILES, *SINGLE_FILES, "resealed checkpoint", "hostile npz")


class Fixture:
    """A finished tiny run and one good file of every kind, made once and copied for every case."""

    def __init__(self, folder: Path, search: str = "ars") -> None:
        self.folder = folder
        self.run = killing.make_run(folder / "run", search, episodes=14, checkpoint_every=2, evaluate_every=0)
        train(self.run, read_settings(self.run))
        self.episodes = len(killing.journal_of(self.run))
        self.files = {
            "policy.npz": (self.run / "policy" / "current.npz").read_bytes(),
            "limited.npz": _limited(),
            "controller.npz": _controller(),
            "trajectory.npz": _npz(),
            "trajectory.csv": _csv(),
            "robot.yaml": LIMITED,
            "spool": self._spool(),
        }

    def _spool(self) -> bytes:
        spool = Spool(self.folder, SPEC)
        spool.save(1, 2, Finished(_trajectory(), 0.5, ("it broke",)))
        return (self.folder / "spool" / "00000001.episode").read_bytes()


def _trajectory() -> Trajectory:
    rng = np.random.default_rng(5)
    return Trajectory.build(
        rng.normal(size=(6, 3)), rng.normal(size=(5, 1)), rng.normal(size=5), terminated=True, truncated=False
    )


def _npz() -> bytes:
    buffer = io.BytesIO()
    write_trajectory_npz(cast("Any", buffer), _trajectory(), "3-00ff00ff")
    return buffer.getvalue()


def _limited() -> bytes:
    """The file of a policy whose rate is limited."""
    spec, buffer = replace(SPEC, limits=Limits(action_rate=(0.5,))), io.BytesIO()
    PolicySpace(LinearTanh(bias=True), spec).policy(np.array([0.1, 0.2, -0.3, 0.4]), Normaliser.empty(3)).write(buffer)
    return buffer.getvalue()


def _controller() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, weights=np.array([[0.5, -0.25, 0.0]]), bias=np.array([0.1]))
    return buffer.getvalue()


def _csv() -> bytes:
    trajectory = _trajectory()
    rows = ["o0,o1,o2,a0,reward,terminated"]
    for time in range(5):
        cells = [*trajectory.observations[time], *trajectory.actions[time], trajectory.rewards[time], int(time == 4)]
        rows.append(",".join(str(cell) for cell in cells))
    rows.append(",".join(str(cell) for cell in trajectory.observations[5]) + ",,,")
    return "\n".join(rows).encode() + b"\n"


def damaged(content: bytes, rng: random.Random, other: bytes = b"") -> bytes:
    """The content cut short, flipped, blanked, repeated, replaced or mixed with another file's."""
    data = bytearray(content)
    place = rng.randrange(len(data) + 1)
    length = rng.choice((1, 2, 8, 64, 512))
    kind = rng.randrange(9)
    if kind == 0:
        return bytes(data[:place])
    if kind in (1, 2) and data:
        for _ in range(rng.choice((1, 1, 1, 3, 20))):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind == 3:
        data[place : place + length] = bytes(length)
    elif kind == 4:
        data[place:place] = data[place : place + length]
    elif kind == 5:
        data[place : place + length] = rng.randbytes(length)
    elif kind == 6:
        return other
    elif kind == 7:
        del data[place : place + length]
    else:
        digits = [index for index, byte in enumerate(data) if chr(byte).isdigit()]
        for index in rng.sample(digits, min(len(digits), 3)):
            data[index] = ord(rng.choice("0123456789"))
    return bytes(data)


def check_case(fixture: Fixture, target: str, seed: int, scratch: Path) -> str:
    """Damage one file and load it; return what happened.

    Raises:
        AssertionError: a finished episode is lost.
        Exception: anything that is not an `AbpsError` came out of a loader.
    """
    rng = random.Random(seed)  # noqa: S311 (damage is no secret)
    if target in SINGLE_FILES:
        content = damaged(fixture.files[target], rng, fixture.files[rng.choice(SINGLE_FILES)])
        return _load_single(target, content, scratch)
    if target == "hostile npz":
        return _load_single(rng.choice(("policy.npz", "trajectory.npz", "controller.npz")), hostile_npz(rng), scratch)
    return _load_run(fixture, target, rng, scratch)


def _load_single(target: str, content: bytes, scratch: Path) -> str:
    path = scratch / target
    if target == "spool":
        (scratch / "spool").mkdir(exist_ok=True)
        (scratch / "spool" / "00000001.episode").write_bytes(content)
        return "refused" if Spool(scratch, SPEC).load(1, 2) is None else "read"
    path.write_bytes(content)
    loaders = {
        "policy.npz": load_policy,
        "limited.npz": lambda file: load_policy(file).start()(np.zeros(3)),
        "controller.npz": lambda file: prepare_start(file, SPEC, search_config("abs")),
        "trajectory.npz": lambda file: (prepare_start(file, SPEC, search_config("abs")), read_trajectory(file, SPEC)),
        "trajectory.csv": lambda file: (prepare_start(file, SPEC, search_config("abs")), read_trajectory(file, SPEC)),
        "robot.yaml": read_robot,
    }
    try:
        loaders[target](path)
    except AbpsError:
        return "refused"
    return "read"


def _load_run(fixture: Fixture, target: str, rng: random.Random, scratch: Path) -> str:
    run = scratch / "run"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(fixture.run, run)
    newest = max((run / "checkpoint").glob("*.json"))
    special = {"newest.json": newest, "newest.safetensors": newest.with_suffix(".safetensors")}
    if target == "resealed checkpoint":
        newest.write_bytes(resealed(newest.read_bytes(), rng))
    else:
        file = special.get(target, run / target)
        other = (run / rng.choice(("journal.jsonl", "metrics.jsonl", "config.yaml", "episodes.bin"))).read_bytes()
        file.write_bytes(damaged(file.read_bytes(), rng, other))
    stamp_changes(run)
    lines, data = (run / "journal.jsonl").read_bytes(), (run / "episodes.bin").read_bytes()
    try:
        with open_run(run, SPEC, None) as opened:
            if not opened.stop():
                opened.slots()
            answer = "fallback" if opened.warnings else "read"
            told = opened.search.episodes
    except AbpsError:
        assert lines == (run / "journal.jsonl").read_bytes(), "a refused run was changed"
        assert data == (run / "episodes.bin").read_bytes(), "a refused run was changed"
        return "refused"
    if target == "episodes.bin" and told == fixture.episodes - 1:
        return _check_torn(fixture, run, data)
    if target not in ("journal.jsonl", "config.yaml", "resealed checkpoint"):
        assert told == fixture.episodes, f"{fixture.episodes - told} finished episodes are lost"
    if target == "journal.jsonl":
        whole = [line for line in lines.split(b"\n")[:-1] if b"\0" not in line]
        assert told >= len(whole), "a whole line of the journal is lost"
    return answer


def _check_torn(fixture: Fixture, run: Path, data: bytes) -> str:
    """The last episode was taken out: its data must really have been damaged, be kept, and come back when it is run
    again."""
    line = (fixture.run / "journal.jsonl").read_bytes().splitlines(keepends=True)[-1]
    start, size = json.loads(line)["offset"], json.loads(line)["bytes"]
    damage = data[start : start + size]
    assert damage != (fixture.run / "episodes.bin").read_bytes()[start : start + size], "1 finished episodes are lost"
    (kept,) = (run / "discarded").iterdir()
    assert kept.read_bytes() == line + damage, "a damaged last episode was not kept"
    train(run, read_settings(run))
    assert killing.journal_of(run) == killing.journal_of(fixture.run), "a damaged last episode did not come back"
    assert (run / "episodes.bin").read_bytes() == (fixture.run / "episodes.bin").read_bytes()
    return "last again"


def resealed(content: bytes, rng: random.Random) -> bytes:
    """A checkpoint whose tree was changed by someone who knows how checksums are made."""
    document = json.loads(content)
    document.pop("sha256")
    _change_leaf(document, rng)
    body = json.dumps(document, sort_keys=True)
    return json.dumps({"sha256": hashlib.sha256(body.encode()).hexdigest(), **document}).encode()


def _change_leaf(node: Any, rng: random.Random) -> None:
    strange = (
        None,
        -1,
        10**30,
        1.5,
        "x",
        [],
        {},
        True,
        "../../etc/passwd",
        {"$float": "nan"},
        {"$tensor": "/search/centre"},
    )
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(node[key], dict | list) and node[key] and rng.random() < 0.8:
            node = node[key]
            continue
        node[key] = rng.choice(strange)
        return


def hostile_npz(rng: random.Random) -> bytes:
    """Archives that lie: enormous claims, bombs, objects, strange names, wrong headers."""
    good = {
        "observations": np.zeros((6, 3)),
        "actions": np.zeros((5, 1)),
        "rewards": np.zeros(5),
        "terminated": np.array(False),
        "weights": np.zeros((1, 3)),
        "kind": np.array("linear-tanh"),
        "task": np.array("tiny"),
        "observation_mean": np.zeros(3),
        "observation_m2": np.ones(3),
        "observation_count": np.array(3),
        "action_low": -np.ones(1),
        "action_high": np.ones(1),
    }
    victim = rng.choice(list(good))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in good.items():
            data = _npy(array) if name != victim else _hostile_array(array, rng)
            archive.writestr(
                rng.choice(("../", "/", "")) + name + ".npy" if rng.random() < 0.1 else name + ".npy", data
            )
    return buffer.getvalue()


def _npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def _hostile_array(array: np.ndarray, rng: random.Random) -> bytes:
    shape = rng.choice(
        ("(1000000000000,)", "(-1,)", "(10000000, 10000000)", "(2, 2)", "()", "(0,)", "'x'", "(1.5,)", "(" * 50)
    )
    kind = rng.choice(("<f8", "|O", "<U1000000000", "|V8", "<c16", "<M8[s]", "|b1", "__import__('os')"))
    choice = rng.randrange(6)
    if choice == 0:
        return _header(shape, "<f8") + bytes(64)
    if choice == 1:
        return _header("(3,)", kind) + bytes(64)
    if choice == 2:
        return _header("(100000000,)", "<f8") + bytes(8 * 10_000_000)  # Deflates to almost nothing: a bomb.
    if choice == 3:
        return _npy(np.array([{"a": print}], dtype=object))
    if choice == 4:
        return _npy(np.full(array.shape, np.nan))
    return rng.randbytes(rng.randrange(200))


def _header(shape: str, kind: str) -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (118 - len(text) % 118) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()
