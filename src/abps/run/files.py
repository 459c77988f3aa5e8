"""Writing files so that a crash at any instant leaves the old content or the new, never half of either.

Nothing here follows a symbolic link in the last part of a path: a run directory that came from a stranger cannot make
us write outside it. Reading is bounded: a file that is larger than it can honestly be is refused before it is read.
Files that belong together are synced at the same time, because a disk takes about as long for several as for one.
"""

import contextlib
import json
import os
import threading
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from abps.errors import RunError

__all__ = [
    "Piece",
    "append_synced",
    "append_together",
    "checked_json",
    "parse_checked_json",
    "read_bounded",
    "replace_atomically",
    "replace_together",
    "sync_directory",
]


def sync_directory(path: Path) -> None:
    """Make renames and new names in `path` survive a power loss."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_atomically(path: Path, content: bytes) -> None:
    """Write `content` to a temporary name, sync it, and rename it to `path`.

    Raises:
        RunError: the disk refuses (full, read-only); `path` still has its old content.
    """
    replace_together({path: content})


def replace_together(contents: dict[Path, bytes]) -> None:
    """Replace files of one directory, each atomically, in this order; one wait for all contents, one for the names.

    Raises:
        RunError: the disk refuses; every file has its old content, or (when only a rename failed) its new one.
    """
    temporaries = {path: path.with_name(path.name + ".tmp") for path in contents}
    try:
        with contextlib.ExitStack() as stack:
            descriptors = []
            for path, content in contents.items():
                with contextlib.suppress(FileNotFoundError):
                    temporaries[path].unlink()  # Left by a crash, or put there by someone as a link.
                descriptors.append(os.open(temporaries[path], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
                stack.callback(os.close, descriptors[-1])
                _write_all(descriptors[-1], content)
            _sync_all(descriptors)
        for path, temporary in temporaries.items():
            temporary.replace(path)
        for directory in dict.fromkeys(path.parent for path in contents):
            sync_directory(directory)
    except OSError as error:
        for temporary in temporaries.values():
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
        raise RunError(f"cannot write {_names(contents)}: {error.strerror or error}") from error


class Piece(NamedTuple):
    """What is to stand at the end of a file, from byte `at` on."""

    path: Path
    content: bytes
    at: int


def append_synced(path: Path, content: bytes, at: int) -> None:
    """Write `content` at byte `at`, cut off whatever lay beyond it, and sync.

    Raises:
        RunError: the disk refuses; the file is cut back to `at`.
    """
    append_together(Piece(path, content, at))


def append_together(*pieces: Piece) -> None:
    """`append_synced` for several files with one wait.

    They are written in the given order, so a process that is killed never leaves a later piece without the earlier
    ones. A power loss before the wait is over can: any subset may have reached the disk.

    Raises:
        RunError: the disk refuses; every file is cut back to its `at`.
    """
    opened: list[tuple[int, int]] = []
    try:
        with contextlib.ExitStack() as stack:
            new = {piece.path.parent for piece in pieces if not piece.path.exists()}
            try:
                for path, content, at in pieces:
                    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666)
                    stack.callback(os.close, descriptor)
                    opened.append((descriptor, at))
                    _write_at(descriptor, content, at)
                _sync_all([descriptor for descriptor, _ in opened])
            except OSError:
                for descriptor, at in reversed(opened):
                    with contextlib.suppress(OSError):
                        os.ftruncate(descriptor, at)
                raise
        for directory in new:
            sync_directory(directory)
    except OSError as error:
        names = _names(piece.path for piece in pieces)
        raise RunError(f"cannot append to {names}: {error.strerror or error}") from error


def _write_at(descriptor: int, content: bytes, at: int) -> None:
    os.lseek(descriptor, at, os.SEEK_SET)
    _write_all(descriptor, content)
    if os.fstat(descriptor).st_size > at + len(content):
        os.ftruncate(descriptor, at + len(content))


def _sync_all(descriptors: list[int]) -> None:
    """Sync all at once. The threads end here, so a process that forks later has none."""
    failures: list[OSError] = []

    def sync(descriptor: int) -> None:
        try:
            os.fdatasync(descriptor)
        except OSError as error:
            failures.append(error)

    helpers = [threading.Thread(target=sync, args=(descriptor,)) for descriptor in descriptors[1:]]
    for helper in helpers:
        helper.start()
    sync(descriptors[0])
    for helper in helpers:
        helper.join()
    if failures:
        raise failures[0]


def _names(paths: Iterable[Path]) -> str:
    return " and ".join(str(path) for path in paths)


def _write_all(descriptor: int, content: bytes) -> None:
    """Write everything, although a nearly full disk takes only a part at first."""
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def read_bounded(path: Path, limit: int) -> bytes:
    """Return a file's content.

    Raises:
        RunError: it is missing, unreadable, not a plain file, or larger than `limit` bytes.
    """
    try:
        if not path.is_file():
            raise RunError(f"{path} is missing" if not path.exists() else f"{path} is not a plain file")
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror or error}") from error
    if len(content) > limit:
        raise RunError(f"{path} is larger than the {limit} bytes that such a file can have")
    return content


def checked_json(record: dict[str, Any]) -> bytes:
    """Return one line of JSON that carries a checksum of itself in its last field, `check`."""
    body = json.dumps(record, allow_nan=False)
    return f'{body[:-1]}, "check": {zlib.crc32(body.encode())}}}\n'.encode()


def parse_checked_json(line: bytes) -> dict[str, Any] | None:
    """Return what `checked_json` wrote, or None when the line is damaged or cut short."""
    head, separator, tail = line.rpartition(b', "check": ')
    if not separator or not line.endswith(b"}\n"):
        return None
    body = head + b"}"
    try:
        if int(tail[:-2]) != zlib.crc32(body):
            return None
        record = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
