"""Reading `.npz` and `.npy` files from strangers: no pickle, and every size is checked before memory is reserved.

`numpy.load` believes what an array's header claims and unpacks whatever the archive holds. Here the caller says which
arrays there may be and how large they may be; a member that claims, or unpacks to, anything else is refused.
"""

import io
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from abps.errors import ShapeError
from abps.words import printable

__all__ = ["read_npy", "read_npz"]

MAX_HEADER = 10_000
MAX_TEXT = 4096
"""Bytes of the longest text, e.g. a task's name."""
MAX_MEMBERS = 100
KINDS = "fiubU"
"""Floats, integers, booleans and text; never objects, which would need pickle."""


def read_npz(path: Path, limits: Mapping[str, int] | int, *, required: tuple[str, ...] = ()) -> dict[str, NDArray[Any]]:
    """Return the named arrays of an `.npz` file.

    Args:
        path: the file.
        limits: for every array that is wanted, the largest number of elements it can honestly have; others are not
            read. One number: all arrays are wanted, and none can have more.
        required: names that must be there.

    Raises:
        FileNotFoundError: there is no such file.
        ShapeError: it is not such a file, or an array is missing, too large, or of objects.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            for name in required:
                if name not in members:
                    there = ", ".join(map(printable, sorted(members)[:20])) or "nothing"
                    raise ShapeError(f"{path} has no array {name!r}; it has {there}")
            if isinstance(limits, int):
                if len(members) > MAX_MEMBERS:
                    raise ShapeError(f"{path} has {len(members)} arrays; at most {MAX_MEMBERS} make sense here")
                limits = dict.fromkeys(members, limits)
            return {name: _member(archive, members[name], limit) for name, limit in limits.items() if name in members}
    except (FileNotFoundError, ShapeError):
        raise
    except OSError as error:
        raise ShapeError(f"cannot read {path}: {error.strerror or error}") from error
    except Exception as error:  # zipfile, zlib, numpy's header parser: a damaged file has many ways to be wrong.
        raise ShapeError(f"{path} is not a readable .npz file: {type(error).__name__}: {error}") from error


def read_npy(path: Path, limit: int) -> NDArray[Any]:
    """Return the array of a `.npy` file.

    Args:
        path: the file.
        limit: the largest number of elements it can honestly have.

    Raises:
        ShapeError: it cannot be read, or the array is too large, or of objects.
    """
    try:
        with path.open("rb") as stream:
            return _array(stream, path.name, limit)
    except ShapeError:
        raise
    except OSError as error:
        raise ShapeError(f"cannot read {path}: {error.strerror or error}") from error
    except Exception as error:
        raise ShapeError(f"{path} is not a readable .npy file: {type(error).__name__}: {error}") from error


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, limit: int) -> NDArray[Any]:
    with archive.open(info) as stream:
        return _array(stream, info.filename, limit)


def _array(stream: IO[bytes], name: str, limit: int) -> NDArray[Any]:
    """Read one array whose header, size on paper and real size agree."""
    version = npy.read_magic(stream)
    reader = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = reader(stream, max_header_size=MAX_HEADER)
    count = math.prod(shape)
    if dtype.kind not in KINDS or (dtype.kind == "U" and (count != 1 or dtype.itemsize > MAX_TEXT)):
        raise ShapeError(f"array {name!r} is of type {dtype}, which is not plain numbers")
    if count > limit or any(size < 0 for size in shape):
        raise ShapeError(f"array {name!r} claims the shape {shape}; at most {limit} numbers make sense here")
    size = count * dtype.itemsize
    data = stream.read(size + 1)
    if len(data) != size:
        raise ShapeError(f"array {name!r} has another size than its header claims ({shape}, {dtype})")
    return np.ndarray(shape, dtype, io.BytesIO(data).getbuffer(), order="F" if fortran else "C").copy()
