"""Sets of images, drawn side by side.

Letters: n images of one set, C channels, H and W height and width.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, isqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from orderless.io.extras import require
from orderless.look import MARK, SOFT
from orderless.tasks.picture.reading import Example

DRAWN_IMAGES: Final = 16  # of one set


def draw_images(axes: Sequence[Any], examples: Sequence[Example]) -> None:
    """The first images of every set, or those around the one that the target points at."""
    sets = [as_images(example.x) for example in examples]
    white = _white(sets)
    for ax, example, images in zip(axes, examples, sets, strict=True):
        ax.set_axis_off()
        ax.set_anchor("N")
        if not len(images):
            continue
        first = 0 if example.chosen is None else max(0, min(example.chosen - DRAWN_IMAGES // 2, len(images) - DRAWN_IMAGES))
        shown = images[first : first + DRAWN_IMAGES]
        sheet, places = _sheet(shown / white)
        height, width = shown.shape[1:3]
        ax.imshow(sheet.clip(0, 1), interpolation="nearest")
        if example.chosen is not None:
            y, x = places[example.chosen - first]
            line = {"fill": False, "edgecolor": MARK, "linewidth": 3.5}
            rectangle = require("matplotlib.patches", "plot").Rectangle
            ax.add_patch(rectangle((x - 0.5, y - 0.5), width, height, clip_on=False, **line))
        if len(images) > len(shown):
            ax.text(
                0.5, -0.02, f"{len(shown)} of {len(images)} images", transform=ax.transAxes, ha="center", va="top", color=SOFT
            )


def as_images(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Images (n, C, H, W), (n, H, W) or (n, H * W) as (n, H, W, C), with C 1 or 3."""
    if x.ndim == 2 and isqrt(x.shape[1]) ** 2 == x.shape[1]:
        return x.reshape(len(x), isqrt(x.shape[1]), isqrt(x.shape[1]), 1)
    if x.ndim == 3:
        return x[..., None]
    if x.ndim == 4 and x.shape[1] in (1, 3):
        return np.moveaxis(x, 1, 3)
    raise ValueError(f"an image has shape (1, H, W), (3, H, W), (H, W) or (H * W,) with H = W; got elements {x.shape[1:]}.")


def _white(sets: Sequence[NDArray[np.float32]]) -> float:
    """The brightest value of the pixels' scale: 1, 16 (scikit-learn's digits) or 255."""
    most = max((float(images.max()) for images in sets if images.size), default=1.0)
    return next((scale for scale in (1.0, 16.0, 255.0) if most <= scale), most)


def _sheet(images: NDArray[np.float32]) -> tuple[NDArray[np.float32], list[tuple[int, int]]]:
    """Images (n, H, W, C) side by side on a white sheet (rows, columns, 3), and the upper left corner of each."""
    count, height, width, _ = images.shape
    columns = ceil(count**0.5)
    gap = max(1, round(0.08 * width))
    rows = ceil(count / columns)
    sheet = np.ones((rows * (height + gap) - gap, columns * (width + gap) - gap, 3), dtype=np.float32)
    places = [(n // columns * (height + gap), n % columns * (width + gap)) for n in range(count)]
    for image, (y, x) in zip(images, places, strict=True):
        sheet[y : y + height, x : x + width] = image  # one channel becomes three
    return sheet, places
