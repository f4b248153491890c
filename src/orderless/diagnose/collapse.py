"""What norms do to sets: elements that were different, and come out the same.

Layer norm standardises every element by itself. In two dimensions it leaves of an element only on which side of the line y = x it
lies: all come out at (-1, 1), (0, 0) or (1, -1). So shapes with as many points on either side become one and the same. Set norm
moves and scales a set as a whole, so its shape stays.

Letters: T elements, D features, K points of a shape on either side of the line.

Reference: Zhang, Tozzo, Higgins, Ranganath (2022), section "Layer norm can hurt performance" and its appendix on two dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from itertools import combinations
from typing import Any, Final

import torch
from torch import Tensor, nn

from orderless.diagnose.layers import bare, for_reading
from orderless.nn import LayerNorm, SetNorm
from orderless.nn.norm import NORMS
from orderless.sets import SetBatch

POINTS_PER_SIDE: Final = 40
_NORMS: tuple[type[nn.Module], ...] = tuple(NORMS.values())
_EXACT: Final = 1e-12  # eps of the norms here: 1e-5 would move points near the line by a few thousandths
_MERGED: Final = 0.1  # a pair is merged if its distance, of the set's size, is less than this part of what it was
_DISTINCT: Final = 1e-3  # of the set's size: pairs closer than this were the same before
_MOST_SETS, _MOST_ELEMENTS = 8, 256  # whose pairs are looked at

# The right half of each outline, from its top to its bottom. The axis of symmetry will be the line y = x.
_STAR = [(math.sin(k * math.pi / 5), math.cos(k * math.pi / 5)) for k in range(6)]
_OUTLINES: Final[Mapping[str, list[tuple[float, float]]]] = {
    "circle": [(math.sin(k * math.pi / 180), math.cos(k * math.pi / 180)) for k in range(181)],
    "square": [(0, 1), (1, 0), (0, -1)],
    "triangle": [(0, 1), (math.sqrt(3) / 2, -0.5), (0, -0.5)],
    "star": [(u * (1 if k % 2 == 0 else 0.4), v * (1 if k % 2 == 0 else 0.4)) for k, (u, v) in enumerate(_STAR)],
}


def make_shapes(points_per_side: int = POINTS_PER_SIDE) -> dict[str, Tensor]:
    """Outlines of shapes with equally many points on either side of the line y = x, and two on it.

    Args:
        points_per_side: K.

    Returns:
        By name, (2 K + 2, 2) each, in float64.
    """
    return {name: _mirrored(_along(outline, points_per_side)) for name, outline in _OUTLINES.items()}


def normalize_shapes(shapes: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """What layer norm and set norm make of shapes, by the names `layer` and `set`, then by that of the shape."""
    batch = SetBatch.from_list(list(shapes.values()))
    return {
        name: dict(zip(shapes, norm.double()(batch).x.detach().split(batch.sizes.tolist()), strict=True))
        for name, norm in (("layer", LayerNorm(2, eps=_EXACT)), ("set", SetNorm(2, eps=_EXACT)))
    }


def shape_distance(a: Tensor, b: Tensor) -> float:
    """How far two sets of equally many points are apart: the mean way of a point when each moves to one of the other set.

    It is 0 if they are the same points, in whatever order, and only then (the earth mover's distance).
    """
    from scipy.optimize import linear_sum_assignment  # comes with scikit-learn; imported here since it takes a while

    if a.shape != b.shape:
        raise ValueError(f"the sets must have equally many points, got {tuple(a.shape)} and {tuple(b.shape)}.")
    ways = torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist").numpy()  # products would round 0 to 1e-8
    return float(ways[linear_sum_assignment(ways)].mean())


def compare_shapes() -> dict[str, tuple[float, float]]:
    """The smallest and the largest distance between any two shapes: as they are (`none`), after `layer` and after `set` norm."""
    shapes = make_shapes()
    found = {"none": shapes, **normalize_shapes(shapes)}
    ways = {name: [shape_distance(a, b) for a, b in combinations(of.values(), 2)] for name, of in found.items()}
    return {name: (min(of), max(of)) for name, of in ways.items()}


def share_merged(before: SetBatch, after: SetBatch) -> float:
    """Which share of the pairs of elements of a set came out all but the same, of those that were not the same before.

    A distance counts relative to the size of its set (the root mean square of an element about the mean of all numbers of the
    set), so that moving and scaling a whole set merges nothing. A pair is merged if that falls below a tenth of what it was. Of
    large batches the first few sets and elements are looked at.

    Args:
        before: Sets of vectors.
        after: The same sets, in the same order, behind a norm.

    Returns:
        From 0 to 1; 0 where there are no pairs.
    """
    merged, pairs = 0, 0
    for x, y in zip(before.to_list()[:_MOST_SETS], after.to_list()[:_MOST_SETS], strict=True):
        was, became = _relative_distances(x), _relative_distances(y)
        distinct = was > _DISTINCT
        merged += int((became < _MERGED * was)[distinct].sum())
        pairs += int(distinct.sum())
    return merged / pairs if pairs else 0.0


def read_collapse(model: nn.Module, sets: SetBatch) -> dict[str, float]:
    """`share_merged` of every norm in a network, by its name, in forward order. It leaves no trace, as `read_layers`.

    Args:
        model: A network with norms of `orderless.nn`. Others are not looked at.
        sets: What it takes, on its device.
    """
    model = bare(model)
    merged: dict[str, float] = {}

    def look(_: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], output: SetBatch, *, name: str) -> None:
        (batch,) = (*inputs, *named.values())  # a norm takes nothing else
        merged[name] = max(share_merged(batch, output), merged.get(name, 0.0))

    handles = [
        module.register_forward_hook(partial(look, name=name), with_kwargs=True)
        for name, module in model.named_modules()
        if isinstance(module, _NORMS)
    ]
    try:
        with for_reading(model), torch.no_grad():
            model(sets)
    finally:
        for handle in handles:
            handle.remove()
    return merged


def _relative_distances(x: Tensor) -> Tensor:
    """(pairs,) distances between elements, of the size of the set: what set norm divides by, so that it changes none of them."""
    x = x[:_MOST_ELEMENTS].detach().flatten(1).double()
    size = (x - x.mean()).norm() / math.sqrt(max(len(x), 1))
    ways = torch.pdist(x)
    return ways / size if size > 0 else ways


def _along(outline: list[tuple[float, float]], count: int) -> Tensor:
    """(count + 2, 2): the ends of an outline and `count` points between them, equally far apart along it."""
    corners = torch.tensor(outline, dtype=torch.float64)
    reached = torch.cat([torch.zeros(1, dtype=torch.float64), corners.diff(dim=0).norm(dim=1).cumsum(0)])
    wanted = torch.linspace(0, 1, count + 2, dtype=torch.float64) * reached[-1]
    piece = (torch.searchsorted(reached, wanted) - 1).clamp(min=0)
    share = ((wanted - reached[piece]) / (reached[piece + 1] - reached[piece]))[:, None]
    return corners[piece] * (1 - share) + corners[piece + 1] * share


def _mirrored(half: Tensor) -> Tensor:
    """(K + 2, 2) right half, ends on the axis -> (2 K + 2, 2) both halves, turned so that the axis is y = x."""
    inner = half[1:-1]
    ends = torch.stack([half[0], half[-1]])
    ends[:, 0] = 0  # exactly on the axis, whatever rounding left of a sine of pi
    across, along = torch.cat([inner, inner * torch.tensor([-1.0, 1.0], dtype=torch.float64), ends]).unbind(1)
    return torch.stack([along + across, along - across], 1) / math.sqrt(2)
