"""The idx format of MNIST: a magic number, the sizes, then numbers with the most significant byte first."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from orderless.io.errors import DataError
from orderless.io.reading import MAX_RATIO, reading

DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
MAX_DIMENSIONS = 8  # the format allows 255; no such file is known, and a damaged header is likelier
_GZIP_MAGIC = b"\x1f\x8b"
_BLOCK = 1 << 20
_AGAIN = "Delete the file and get it again."


def read_idx(path: str | Path) -> NDArray[Any]:
    """Reads an idx file, compressed with gzip or not: the content tells, not the name.

    The header's sizes are checked against the bytes that the file has or could unpack to before anything is allocated, and never
    more than the header promises is unpacked.

    Args:
        path: The file.

    Returns:
        The array in the machine's own byte order.

    Raises:
        MissingDataError: If there is no such file.
        DataError: If it is not an idx file, damaged, too short or too long.
    """
    path = Path(path)
    with reading(path, "an idx file"):
        size = path.stat().st_size
        with path.open("rb") as file:
            is_packed = file.read(2) == _GZIP_MAGIC
            file.seek(0)
            if not is_packed:
                return _parse(path, file, size)
            try:
                with gzip.GzipFile(fileobj=file) as stream:
                    return _parse(path, stream, size * MAX_RATIO)
            except (gzip.BadGzipFile, zlib.error, EOFError) as error:
                raise DataError(path, expected="an idx file in gzip", found=f"damaged gzip ({error})", fix=_AGAIN) from None


def _parse(path: Path, stream: IO[bytes] | gzip.GzipFile, most: int) -> NDArray[Any]:
    head = stream.read(4)
    if len(head) < 4:
        raise DataError(path, expected="an idx file", found=f"{len(head)} bytes", fix=_AGAIN)
    num_dimensions = head[3]
    if head[:2] != b"\0\0" or head[2] not in DTYPES or not 1 <= num_dimensions <= MAX_DIMENSIONS:
        raise DataError(path, expected="the magic number of an idx file, such as 00000803", found=head.hex(), fix=_AGAIN)
    sizes = stream.read(4 * num_dimensions)
    if len(sizes) < 4 * num_dimensions:
        raise DataError(path, expected=f"an idx header with {num_dimensions} sizes", found="its end", fix=_AGAIN)
    shape = tuple(int(n) for n in np.frombuffer(sizes, ">u4"))
    dtype = np.dtype(DTYPES[head[2]])
    promised = math.prod(shape) * dtype.itemsize  # Python's integers: no overflow
    expected = f"{promised} bytes of shape {shape}"
    if promised > most:
        raise DataError(path, expected=expected, found="a file that cannot hold as many", fix=_AGAIN)
    body = bytearray()
    while len(body) <= promised and (block := stream.read(min(_BLOCK, promised + 1 - len(body)))):
        body += block
    if len(body) != promised:
        found = "more" if len(body) > promised else str(len(body))
        raise DataError(path, expected=expected, found=found, fix=_AGAIN)
    return np.frombuffer(body, dtype).reshape(shape).astype(dtype.newbyteorder("="))
