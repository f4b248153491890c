"""One picture of a task: a few of its sets, and how elements, targets and sizes are distributed.

Only a few hundred sets are read, however many there are. Targets and sizes are shown for all sets: they are in memory anyway.

Letters: N sets, T elements, D features, B bins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, isqrt
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from orderless.files import written_aside
from orderless.io.extras import require
from orderless.look import DENSITY, DPI, MARK, SOFT, STYLE, TEST, TRAIN, WIDTH, check_picture_path
from orderless.sets import SetBatch
from orderless.tasks.dataset import SetDataset
from orderless.tasks.task_data import TaskData
from orderless.words import counted, shortened

HEIGHT: Final = 8.0  # inches
MOST_SETS: Final = 12  # drawn one by one
USUAL_SETS: Final = {"histogram": 6, "scatter": 6, "points": 12, "images": 4}
SAMPLED_SETS: Final = 200  # of each split, for the distribution of elements
SAMPLED_NUMBERS: Final = 4_000_000  # of each split; large sets are sampled fewer
DRAWN_ELEMENTS: Final = 2000  # of one set
DRAWN_IMAGES: Final = 16  # of one set
LONGEST_NAME: Final = 14  # letters of a class
LETTERS_IN_A_ROW: Final = 60  # of class names; where there are more, the names stand upright
COLORS: Final = {"training": TRAIN, "test": TEST}
KINDS: Final = {
    "published": "the published data",
    "substituted": "NOT the published data: other real data in their place",
    "simulated": "NOT the published data: simulated in their place",
    "exact": "exact by construction",
}


def draw_task(data: TaskData, path: str | Path, *, num_sets: int | None = None, seed: int = 0) -> Path:
    """Draws what a task looks like into a PNG file.

    Args:
        data: The prepared task.
        path: The file to write; it ends in `.png`, and its folder exists. A file of that name is replaced.
        num_sets: Training sets that are drawn one by one, 1 to 12. They are spread over the targets. Default: as many as look
            good.
        seed: Of the choice of sets. The same seed gives the same picture.

    Returns:
        The path.

    Raises:
        ValueError: If the path, the number or the seed is none of those, or if elements cannot be drawn as the task says.
        ImportError: If matplotlib is not installed; the message says how to install it.
    """
    path = check_picture_path(path, ["png"])
    num_sets = USUAL_SETS[data.task.drawing] if num_sets is None else num_sets
    if not 1 <= num_sets <= MOST_SETS:
        raise ValueError(f"num_sets must be 1 to {MOST_SETS}, got {num_sets}.")
    if seed < 0:
        raise ValueError(f"seed must be 0 or more, got {seed}.")
    drawer = _drawer(data)
    matplotlib = require("matplotlib", "plot")
    figure_module = require("matplotlib.figure", "plot")
    agg = require("matplotlib.backends.backend_agg", "plot")
    examples = _examples(data, num_sets, np.random.default_rng([seed, 0]))
    samples = {
        name: _sample(split, np.random.default_rng([seed, 1 + n])) for n, (name, split) in enumerate(_splits(data).items())
    }
    with matplotlib.rc_context(STYLE):
        figure = figure_module.Figure(figsize=(WIDTH, HEIGHT), dpi=DPI)
        agg.FigureCanvasAgg(figure)
        top = _draw_header(figure, data)
        middle = 0.40
        _draw_examples(figure, drawer, examples, (middle, top))
        _draw_distributions(figure, data, drawer, samples, (0.0, middle))
        _write(figure, path)
    return path


# ------------------------------------------------------------------------------------------------------- reading


@dataclass(frozen=True)
class _Example:
    """A set to draw: its elements as stored, and what is said below it."""

    x: NDArray[np.float32]
    caption: str
    chosen: int | None = None  # the element that the target points at


def _splits(data: TaskData) -> dict[str, SetDataset]:
    return {"training": data.train, "test": data.test}


def _examples(data: TaskData, num_sets: int, rng: np.random.Generator) -> list[_Example]:
    raw = data.train.raw
    kind = data.task.objective
    filled = np.flatnonzero(raw.sizes > 0)
    candidates = filled if filled.size else np.arange(len(raw))  # an empty set is drawn only where there is no other
    target = raw.target.numpy().reshape(len(raw), -1)[candidates, 0] if len(raw) else np.zeros(0)
    examples = []
    for index in candidates[_spread_over(target, num_sets, rng, classes=kind == "classification")].tolist():
        x, wanted = raw[index]
        chosen = None
        if kind == "regression":
            caption = "target " + ", ".join(f"{value:#.3g}".rstrip(".") for value in wanted.flatten().tolist()[:3])
        elif kind == "classification":
            caption = data.class_names[int(wanted)]
        else:
            chosen = int(wanted)
            caption = f"odd one: {chosen + 1} of {len(x)}"
        examples.append(_Example(x.numpy(), caption, chosen))
    return examples


def _spread_over(target: NDArray[Any], count: int, rng: np.random.Generator, *, classes: bool) -> NDArray[np.int64]:
    """Positions of `count` sets: equally many of each class as far as there are enough, or one of each quantile of the target."""
    shuffled = rng.permutation(len(target))
    if classes:
        groups = [shuffled[target[shuffled] == name] for name in rng.permutation(np.unique(target))]
        rounds = [group[n] for n in range(count) for group in groups if n < len(group)]
        picked = np.array(rounds[:count], dtype=np.int64)
    else:
        ordered = shuffled[np.argsort(target[shuffled], kind="stable")]
        picked = np.array([rng.choice(part) for part in np.array_split(ordered, count) if len(part)], dtype=np.int64)
    return picked[np.argsort(target[picked], kind="stable")]


def _sample(split: SetDataset, rng: np.random.Generator) -> SetBatch:
    """Some sets, as they are stored."""
    raw = split.raw
    order = rng.permutation(len(raw))[:SAMPLED_SETS]
    numbers = np.cumsum(raw.sizes[order]) * int(np.prod(raw.element_shape, dtype=np.int64))
    count = max(1, int(np.searchsorted(numbers, SAMPLED_NUMBERS, side="right")))
    return raw[np.sort(order[:count])].sets


# ------------------------------------------------------------------------------------------------------- drawers


@dataclass(frozen=True)
class _Drawer:
    """How the sets of a task are drawn.

    Attributes:
        draw: Draws the examples into a grid of axes.
        summarize: From elements (T, *element) to the numbers whose distribution is shown: (label, numbers) pairs.
        projection: Of the axes of one set.
    """

    draw: Callable[[Sequence[Any], Sequence[_Example]], None]
    summarize: Callable[[NDArray[np.float32]], list[tuple[str, NDArray[np.float32]]]]
    projection: str | None = None


def _drawer(data: TaskData) -> _Drawer:
    kind = data.task.drawing
    shape = data.train.raw.element_shape
    units = data.task.units
    if kind == "images":
        _as_images(np.zeros((0, *shape), np.float32))  # refuses what is no image
        return _Drawer(_draw_images, lambda x: [("mean brightness of an image", x.mean(tuple(range(1, x.ndim))))])
    if len(shape) != 1 or (kind == "points" and shape != (3,)):
        wanted = "(3,)" if kind == "points" else "(D,)"
        raise ValueError(f"{data.name} is drawn as {kind}, so its elements must have shape {wanted}, got {shape}.")
    if kind == "points":
        return _Drawer(_draw_points, lambda x: _by_feature(x, units or ("x", "y", "z")), "3d")
    if kind == "scatter" and shape[0] > 1:
        names = _feature_names(units, shape[0])
        return _Drawer(lambda axes, sets: _draw_scatter(axes, sets, names), lambda x: _by_feature(x, names)[:2])
    if shape[0] == 1:
        name = units[0] if units else "element"
        return _Drawer(lambda axes, sets: _draw_histograms(axes, sets, name), lambda x: [(name, x[:, 0])])
    return _Drawer(_draw_heat_maps, lambda x: [(f"value of any of the {shape[0]} features", x.reshape(-1))])


def _feature_names(units: Sequence[str], count: int) -> tuple[str, ...]:
    return tuple(units) if len(units) == count else tuple(f"feature {d + 1}" for d in range(count))


def _by_feature(x: NDArray[np.float32], names: Sequence[str]) -> list[tuple[str, NDArray[np.float32]]]:
    return [(name, x[:, d]) for d, name in enumerate(names)]


def _draw_histograms(axes: Sequence[Any], examples: Sequence[_Example], label: str) -> None:
    edges = _edges([example.x for example in examples], 48)
    for ax, example in zip(axes, examples, strict=True):
        ax.hist(_finite(example.x), bins=edges, color=TRAIN)
        ax.set_xlim(edges[0], edges[-1])
        _label(ax, label, "number of elements")
        _hide_scale(ax)


def _draw_heat_maps(axes: Sequence[Any], examples: Sequence[_Example]) -> None:
    """Every feature is a column, whose colour says how many elements have that value."""
    edges = _edges([example.x for example in examples], 64)
    for ax, example in zip(axes, examples, strict=True):
        counts = np.stack([np.histogram(_finite(column), bins=edges)[0] for column in example.x.T], 1)  # (B, D)
        extent = (0.5, counts.shape[1] + 0.5, edges[0], edges[-1])
        # roots: a narrow feature would leave the wide ones dark
        ax.imshow(np.sqrt(counts), origin="lower", aspect="auto", cmap="Blues", extent=extent, interpolation="nearest")
        _label(ax, "feature", "value of the elements")


def _draw_scatter(axes: Sequence[Any], examples: Sequence[_Example], names: Sequence[str]) -> None:
    x_edges, y_edges = (_edges([example.x[:, d] for example in examples], 40) for d in (0, 1))
    for ax, example in zip(axes, examples, strict=True):
        x, y = _thin(example.x[np.isfinite(example.x[:, :2]).all(1)])[:, :2].T
        counts, _, _ = np.histogram2d(x, y, bins=(x_edges, y_edges))
        smooth = _smooth(_smooth(counts).T).T
        column = np.clip(np.searchsorted(x_edges, x) - 1, 0, len(x_edges) - 2)
        row = np.clip(np.searchsorted(y_edges, y) - 1, 0, len(y_edges) - 2)
        density = smooth[column, row]
        order = np.argsort(density, kind="stable")  # the dense ones on top
        ax.scatter(x[order], y[order], c=density[order], cmap=DENSITY, s=5, linewidths=0, rasterized=True)
        for set_limits, edges in ((ax.set_xlim, x_edges), (ax.set_ylim, y_edges)):
            margin = 0.04 * (edges[-1] - edges[0])
            set_limits(edges[0] - margin, edges[-1] + margin)
        _label(ax, names[0], names[1])


def _draw_points(axes: Sequence[Any], examples: Sequence[_Example]) -> None:
    for ax, example in zip(axes, examples, strict=True):
        points = _thin(example.x[np.isfinite(example.x).all(1)])
        ax.set_axis_off()
        ax.set_proj_type("persp")
        ax.view_init(elev=22, azim=-60)
        if len(points):
            low, high = points.min(0), points.max(0)
            middle, half = (low + high) / 2, max(float((high - low).max()) / 2, 1e-6)
            for name, at in zip("xyz", middle.tolist(), strict=True):
                getattr(ax, f"set_{name}lim")(at - half, at + half)
            # dark in front, light behind; the lightest colours are left out, they would vanish on white
            near = points @ np.array([0.46, -0.80, 0.37], dtype=np.float32)
            limits = {"vmin": float(near.min()) - 0.5 * half, "vmax": float(near.max())}
            ax.scatter(*points.T, c=near, cmap=f"{DENSITY}_r", s=4, linewidths=0, depthshade=False, **limits)
        ax.set_box_aspect((1, 1, 1), zoom=1.3)


def _draw_images(axes: Sequence[Any], examples: Sequence[_Example]) -> None:
    sets = [_as_images(example.x) for example in examples]
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


def _as_images(x: NDArray[np.float32]) -> NDArray[np.float32]:
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


# ------------------------------------------------------------------------------------------------------- drawing


def _draw_header(figure: Any, data: TaskData) -> float:
    """Title, what it is about, counts and provenance; returns where they end, as a fraction of the height."""
    title, about = data.title, data.task.about
    figure.text(0.03, 0.965, title, fontsize=_fitting(title, 17, 95), fontweight="bold", va="center")
    figure.text(0.03, 0.928, about, fontsize=_fitting(about, 11, 150), va="center")
    shape = data.element_shape
    features = counted(shape[0], "feature") if len(shape) == 1 else f"elements of shape {' x '.join(map(str, shape))}"
    counts = f"{len(data.train):,} training and {len(data.test):,} test sets  ·  {_sizes_in_words(data)}  ·  {features}"
    figure.text(0.03, 0.897, counts, fontsize=_fitting(counts, 10, 150), color=SOFT, va="center")
    real = data.source.kind in ("published", "exact")
    provenance = f"{data.name}  ·  {KINDS[data.source.kind]}"
    weight = "normal" if real else "bold"
    figure.text(
        0.03,
        0.868,
        provenance,
        fontsize=_fitting(provenance, 10, 150),
        color=SOFT if real else MARK,
        fontweight=weight,
        va="center",
    )
    return 0.845


def _fitting(text: str, size: float, letters: int) -> float:
    """A font size at which the text stays on one line, which holds that many letters at the size given."""
    return size * min(1.0, letters / max(len(text), 1))


def _sizes_in_words(data: TaskData) -> str:
    said = {}
    for name, split in _splits(data).items():
        low, high = (int(split.sizes.min()), int(split.sizes.max())) if len(split) else (0, 0)
        said[name] = counted(low, "element") if low == high else f"{low:,} to {high:,} elements"
    if said["training"] == said["test"]:
        return f"{said['test']} in a set" if _ragged(data) else f"{said['test']} in every set"
    return ", ".join(f"{words} in a {name} set" for name, words in said.items())


def _ragged(data: TaskData) -> bool:
    return any(len(np.unique(split.sizes)) > 1 for split in _splits(data).values())


def _draw_examples(figure: Any, drawer: _Drawer, examples: Sequence[_Example], span: tuple[float, float]) -> None:
    bottom, top = span
    figure.text(0.03, top - 0.012, "Some of the training sets", fontsize=11, fontweight="bold", va="center")
    if not examples:
        figure.text(0.5, (bottom + top) / 2, "there are no training sets", ha="center", color=SOFT)
        return
    columns = len(examples) if len(examples) <= 6 else ceil(len(examples) / 2)
    rows = ceil(len(examples) / columns)
    bare = drawer.projection == "3d" or drawer.draw is _draw_images
    left, low = (0.03, bottom + 0.02) if bare else (0.07, bottom + 0.065)
    space = {"wspace": 0.12, "hspace": 0.22} if bare else {"wspace": 0.14, "hspace": 0.55}
    grid = figure.add_gridspec(rows, columns, left=left, right=0.97, bottom=low, top=top - 0.07, **space)
    axes = [figure.add_subplot(grid[n // columns, n % columns], projection=drawer.projection) for n in range(len(examples))]
    for ax, example in zip(axes, examples, strict=True):
        ax.set_title(example.caption, loc="center", fontsize=_fitting(example.caption, 10, 24))
        if not len(example.x):
            ax.annotate("empty set", (0.5, 0.5), xycoords="axes fraction", ha="center", color=SOFT)
    drawer.draw(axes, examples)


def _label(ax: Any, x: str, y: str) -> None:
    """Names the axes at the edge of the grid only; inside it they are the same."""
    place = ax.get_subplotspec()
    ax.set_xlabel(x)
    if place.is_first_col():
        ax.set_ylabel(y)
    else:
        ax.tick_params(labelleft=False)


def _hide_scale(ax: Any) -> None:
    """No numbers at the height of bars whose shape is what matters."""
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)


def _draw_distributions(
    figure: Any, data: TaskData, drawer: _Drawer, samples: dict[str, SetBatch], span: tuple[float, float]
) -> None:
    bottom, top = span
    figure.text(0.03, top - 0.012, "All sets", fontsize=11, fontweight="bold", va="center")
    patch = require("matplotlib.patches", "plot").Patch
    handles = [patch(facecolor=color, alpha=0.6, edgecolor=color, label=name) for name, color in COLORS.items()]
    figure.legend(handles=handles, loc="center left", bbox_to_anchor=(0.095, top - 0.011), ncols=2, handlelength=1.4)
    by_split = {name: drawer.summarize(sample.x.numpy()) for name, sample in samples.items()}
    labels = [label for label, _ in by_split["training"]]
    names = [shortened(name, LONGEST_NAME) for name in data.class_names] if data.task.objective == "classification" else []
    upright = sum(map(len, names)) + 2 * len(names) > LETTERS_IN_A_ROW
    target_width = max(1.2, len(names) / 12)
    widths = [1.2 / len(labels) ** 0.5] * len(labels) + [target_width] + [0.8] * _ragged(data)
    low = bottom + (0.135 if upright else 0.075)
    grid = figure.add_gridspec(
        1, len(widths), left=0.06, right=0.97, bottom=low, top=top - 0.075, width_ratios=widths, wspace=0.22
    )
    axes = [figure.add_subplot(grid[0, n]) for n in range(len(widths))]
    for d, label in enumerate(labels):
        _draw_overlaid(axes[d], {name: pairs[d][1] for name, pairs in by_split.items()})
        axes[d].set_xlabel(label)
    shown = [len(sample) for sample in samples.values()]
    whole = shown == [len(split) for split in _splits(data).values()]
    axes[0].set_title("Elements" if whole else f"Elements (of {shown[0]:,} training and {shown[1]:,} test sets)")
    _draw_targets(axes[len(labels)], data, names, upright=upright)
    if _ragged(data):
        _draw_overlaid(axes[-1], {name: split.sizes for name, split in _splits(data).items()})
        axes[-1].set_title("Sizes")
        axes[-1].set_xlabel("elements of a set")
    axes[0].set_ylabel("share of elements")


def _draw_targets(ax: Any, data: TaskData, names: Sequence[str], *, upright: bool) -> None:
    targets = {name: split.target.numpy() for name, split in _splits(data).items()}
    ax.set_title("Targets")
    if data.task.objective == "regression":
        _draw_overlaid(ax, targets)
        ax.set_xlabel("target")
        ax.set_ylabel("share of sets")
        return
    ax.set_title("Targets (share of sets)")
    if data.task.objective == "element_choice":
        last = max((int(target.max()) for target in targets.values() if target.size), default=0)
        names = [str(n + 1) if last < 30 or n % 10 == 9 else "" for n in range(last + 1)]
        ax.set_xlabel("place of the odd one")
    for n, (name, target) in enumerate(targets.items()):
        share = np.bincount(target, minlength=len(names)) / max(len(target), 1)
        ax.bar(np.arange(len(names)) + 0.4 * n - 0.2, share, width=0.4, color=COLORS[name], alpha=0.85)
    ax.set_xlim(-0.6, len(names) - 0.4)
    ax.set_xticks(np.arange(len(names)), names, rotation=90 if upright else 0, fontsize=8 if len(names) <= 24 else 7)
    ax.tick_params(axis="x", length=0)
    ax.yaxis.set_major_formatter(require("matplotlib.ticker", "plot").PercentFormatter(1.0, decimals=None))


def _draw_overlaid(ax: Any, numbers: dict[str, NDArray[Any]]) -> None:
    """Histograms of both splits over the same bins, each with area 1."""
    parts = {name: _finite(values) for name, values in numbers.items()}
    fewest = min(part.size for part in parts.values())
    edges = _edges(list(parts.values()), int(np.clip(2 * fewest ** (1 / 3), 8, 50)), most_outside=1.5)  # Rice's rule
    for name, part in parts.items():
        if part.size:
            weights = np.full(part.size, 1 / part.size)
            ax.hist(part, bins=edges, weights=weights, histtype="stepfilled", color=COLORS[name], alpha=0.35)
            ax.hist(part, bins=edges, weights=weights, histtype="step", color=COLORS[name], linewidth=1.3)
    ax.set_xlim(edges[0], edges[-1])
    _hide_scale(ax)


def _edges(numbers: Sequence[NDArray[Any]], count: int, *, most_outside: float = 2.0) -> NDArray[np.float64]:
    """Edges of about `count` bins; whole numbers get bins of equally many.

    The most extreme 0.1 % on either side are cut off where they make the range `most_outside` times as wide, or wider.
    """
    pooled = np.concatenate([_finite(part) for part in numbers])
    if not pooled.size:
        return np.linspace(0.0, 1.0, count + 1)
    low, high = pooled.min(), pooled.max()
    inner_low, inner_high = np.quantile(pooled, [0.001, 0.999])
    if high - low > most_outside * (inner_high - inner_low) > 0:
        low, high = inner_low, inner_high
    if high - low < 1000 and (pooled == np.round(pooled)).all():
        low, high = np.floor(low), np.ceil(high)
        span = int(high - low) + 1
        about = ceil(span / count) if span > 2 * count else 1
        # of the steps near that, the one whose last bin hangs over least: a bin half outside would look half empty
        step = min(range(ceil(about * 0.75), about + about // 2 + 1), key=lambda wide: (-span % wide) / wide)
        return np.arange(low - 0.5, high + step, step)
    if high - low < 1e-6 * max(abs(low), abs(high), 1e-6):  # all but the same number
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, count + 1)


def _finite(numbers: NDArray[Any]) -> NDArray[np.float64]:
    flat = numbers.reshape(-1).astype(np.float64)
    return flat[np.isfinite(flat)]


def _thin(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """At most so many elements of a set that they can be seen."""
    return x[:: ceil(len(x) / DRAWN_ELEMENTS)] if len(x) else x


def _smooth(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Averages neighbours along the first axis."""
    padded = np.pad(counts, ((2, 2), (0, 0)))
    weights = (1, 4, 6, 4, 1)
    return sum((w * padded[n : n + len(counts)] for n, w in enumerate(weights)), np.zeros_like(counts)) / 16


# ------------------------------------------------------------------------------------------------------- writing


def _write(figure: Any, path: Path) -> None:
    with written_aside(path) as beside:
        figure.savefig(beside, format="png", dpi=DPI)
