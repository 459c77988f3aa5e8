"""How the tests call the command line: in this process, as a user would type it."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from abps.cli import main
from abps.registry import KINDS

SNAPSHOTS = Path(__file__).parent / "snapshots"
WRITTEN_WITH = (3, 11)


class Answer(NamedTuple):
    """What a command answered."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def own_parts_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what other tests registered in this process: help lists every kind."""
    for family, kinds in KINDS.items():
        monkeypatch.setitem(KINDS, family, {kind: place for kind, place in kinds.items() if isinstance(place, str)})


@pytest.fixture
def abps(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Answer]:
    """Call `abps` with words; help and usage are wrapped at 100 columns whatever the terminal is."""
    monkeypatch.setenv("COLUMNS", "100")

    def call(*words: object) -> Answer:
        capsys.readouterr()
        try:
            code = main([str(word) for word in words])
        except SystemExit as end:  # argparse's way to end after --help or a wrong option
            code = int(end.code or 0)
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return call


@pytest.fixture
def snapshot() -> Callable[[str, str], None]:
    """Compare a text with tests/cli/snapshots/<name>.txt; a missing one is written, and the test fails once."""

    def compare(name: str, text: str) -> None:
        if sys.version_info[:2] != WRITTEN_WITH:
            pytest.skip("argparse words its own part of the text differently in every version of Python")
        path = SNAPSHOTS / f"{name}.txt"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            pytest.fail(f"{path} did not exist; it has been written, read it and commit it")
        assert text == path.read_text(), f"if the new text is better, delete {path} and run the test again"

    return compare
