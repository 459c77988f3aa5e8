"""Writing files so that a crash at any instant leaves the old content or the new, never half of either."""

import json
import os
import zlib
from pathlib import Path
from typing import Any

from abps.errors import RunError

__all__ = ["append_synced", "checked_json", "parse_checked_json", "replace_atomically", "sync_directory"]


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
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_directory(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise RunError(f"cannot write {path}: {error.strerror or error}") from error


def append_synced(path: Path, content: bytes, at: int) -> None:
    """Append `content` at byte `at` and sync it; whatever half-written bytes lay beyond `at` are overwritten and cut off.

    Raises:
        RunError: the disk refuses; the file is cut back to `at`.
    """
    try:
        with path.open("r+b" if path.exists() else "w+b") as file:
            file.seek(at)
            try:
                file.write(content)
                file.truncate()
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                file.truncate(at)
                raise
    except OSError as error:
        raise RunError(f"cannot append to {path}: {error.strerror or error}") from error


def checked_json(record: dict[str, Any]) -> bytes:
    """Return one line of JSON that carries a checksum of itself in its last field, `check`."""
    body = json.dumps(record, allow_nan=False, ensure_ascii=False)
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
