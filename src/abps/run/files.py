"""Writing files so that a crash at any instant leaves the old content or the new, never half of either.

Nothing here follows a symbolic link in the last part of a path: a run directory that came from a stranger cannot make us write
outside it. Reading is bounded: a file that is larger than it can honestly be is refused before it is read.
"""

import contextlib
import json
import os
import zlib
from pathlib import Path
from typing import Any

from abps.errors import RunError

__all__ = [
    "append_synced",
    "checked_json",
    "parse_checked_json",
    "read_bounded",
    "replace_atomically",
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
    temporary = path.with_name(path.name + ".tmp")
    try:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()  # Left by a crash, or put there by someone as a link.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            _write_all(descriptor, content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
        sync_directory(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise RunError(f"cannot write {path}: {error.strerror or error}") from error


def append_synced(path: Path, content: bytes, at: int) -> None:
    """Write `content` at byte `at`, cut off whatever lay beyond it, and sync.

    Raises:
        RunError: the disk refuses; the file is cut back to `at`.
    """
    try:
        is_new = not path.exists()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            _write_at(descriptor, content, at)
        finally:
            os.close(descriptor)
        if is_new:
            sync_directory(path.parent)
    except OSError as error:
        raise RunError(f"cannot append to {path}: {error.strerror or error}") from error


def _write_at(descriptor: int, content: bytes, at: int) -> None:
    os.lseek(descriptor, at, os.SEEK_SET)
    try:
        _write_all(descriptor, content)
        if os.fstat(descriptor).st_size > at + len(content):
            os.ftruncate(descriptor, at + len(content))
        os.fdatasync(descriptor)
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, at)
        raise


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
