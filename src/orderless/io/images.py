"""Photographs to arrays, with several threads: Pillow decodes outside Python's lock."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from orderless.io.errors import DataError
from orderless.io.extras import require
from orderless.io.reading import describe, reading

MAX_PIXELS = 1 << 24  # 4096 x 4096: far more than any image here, far less than a decompression bomb
FORMATS = ("JPEG", "PNG")  # closed: Pillow knows formats that start other programs
_CHUNK = 64


def decode_images(
    sources: Sequence[Path | bytes | memoryview], *, size: int, resize: bool, name: Callable[[int], str | Path] | None = None
) -> NDArray[np.uint8]:
    """Decodes JPEG or PNG images to RGB, all of one size.

    Args:
        sources: Files, or their bytes.
        size: Height and width of the result.
        resize: Whether the whole image is squashed to the size with bicubic interpolation, whatever its sides' ratio. Otherwise
            an image of another size is an error.
        name: What to call image `i` in an error. By default its path.

    Returns:
        (n, 3, size, size) numbers from 0 to 255.

    Raises:
        DataError: If an image is damaged, truncated, no image or too large. It names the image.
        ImportError: If Pillow is not installed.
    """
    image_module = require("PIL.Image", "io")
    out = np.empty((len(sources), 3, size, size), np.uint8)

    def decode(i: int) -> None:
        source = sources[i]
        label = Path(name(i) if name else source if isinstance(source, Path) else f"image {i}")
        file: Path | io.BytesIO = source if isinstance(source, Path) else io.BytesIO(source)
        with reading(label, "an image"):
            if isinstance(source, Path):
                source.stat()  # Pillow's own errors are OSErrors too: a missing file is told apart here
        try:
            with image_module.open(file, formats=FORMATS) as image:
                width, height = image.size
                if width * height > MAX_PIXELS:
                    raise DataError(label, expected=f"an image of at most {MAX_PIXELS} pixels", found=f"{width} x {height}")
                if not resize and (width, height) != (size, size):
                    raise DataError(label, expected=f"an image of {size} x {size} pixels", found=f"{width} x {height}")
                pixels = image.convert("RGB")
                if pixels.size != (size, size):
                    pixels = pixels.resize((size, size), image_module.Resampling.BICUBIC)
                out[i] = np.asarray(pixels).transpose(2, 0, 1)
        except DataError:
            raise
        except Exception as error:  # Pillow raises many kinds for damaged files, SyntaxError among them
            found = f"a damaged one or none ({describe(error)})"
            raise DataError(label, expected="a JPEG or PNG image", found=found, fix="Get the file again.") from None

    def decode_chunk(start: int) -> None:
        for i in range(start, min(start + _CHUNK, len(sources))):
            decode(i)

    pool = ThreadPoolExecutor(num_threads())
    try:
        for _ in pool.map(decode_chunk, range(0, len(sources), _CHUNK)):
            pass
    finally:
        pool.shutdown(cancel_futures=True)  # after an error or Ctrl-C the rest is not decoded for nothing
    return out


def num_threads() -> int:
    """Threads to decode with: one per core, at least 2 to overlap reading with decoding, at most 8."""
    return max(2, min(8, os.cpu_count() or 1))
