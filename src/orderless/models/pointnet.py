"""PointNet++ with multi-scale grouping (Qi, Yi, Su, Guibas 2017), as a network on sets.

Two levels choose centroids and look at their neighbourhoods at three scales; a third looks at all centroids at once. Three things
are not as in the published code, where the order of the points decides: sampling begins at the point farthest from the middle,
of the points within a radius the nearest are taken instead of the first, and points that are repeated to fill a level are no
neighbours in the next.

Letters: N sets, T points in all sets, R rows of points, C centroids, K neighbours, F features.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from orderless import ops
from orderless.models.base import ModelConfig, SetModel
from orderless.models.points import in_canonical_order, nan_where_not_finite
from orderless.models.rows import RowNorm, linear_norm_relu
from orderless.nn import Encoder, MaxPool
from orderless.sets import SetBatch

DROPOUT = 0.5
WIDTH = 1024  # of the published network; another one scales all layers alike
WIDTH_UNIT = 32  # its narrowest layer, which becomes one of a feature


@dataclass(frozen=True)
class Scale:
    """Neighbours of a centroid within `radius`, at most `num_neighbours`, and the layers that look at each of them."""

    radius: float
    num_neighbours: int
    widths: tuple[int, ...]


LEVELS: tuple[tuple[int, tuple[Scale, ...]], ...] = (  # centroids, and scales
    (512, (Scale(0.1, 16, (32, 32, 64)), Scale(0.2, 32, (64, 64, 128)), Scale(0.4, 128, (64, 96, 128)))),
    (128, (Scale(0.2, 32, (64, 64, 128)), Scale(0.4, 64, (128, 128, 256)), Scale(0.8, 128, (128, 128, 256)))),
)
GLOBAL_WIDTHS = (256, 512, 1024)
HEAD_WIDTHS = (512, 256)


def build_pointnet_plus_plus(config: ModelConfig, featurizer: nn.Module | None = None) -> SetModel:
    """PointNet++ with multi-scale grouping, whose layers are those published times `config.width / 1024`."""
    sizes = [scaled(width, config) for width in (*GLOBAL_WIDTHS[-1:], *HEAD_WIDTHS)]
    head: list[nn.Module] = []
    for in_features, out_features in itertools.pairwise(sizes):
        head += [*linear_norm_relu(in_features, out_features, eps=config.eps), nn.Dropout(DROPOUT)]
    decoder = nn.Sequential(*head, nn.Linear(sizes[-1], config.out_features))
    return SetModel(config, Encoder(PointNetEncoder(config)), MaxPool(), decoder, featurizer)


def scaled(width: int, config: ModelConfig) -> int:
    """Features of a layer that has `width` of them in the published network."""
    return width * config.width // WIDTH


class PointNetEncoder(nn.Module):
    """From clouds to 128 centroids each, with `width` features that see the cloud around them.

    Shapes: SetBatch with x (T, 3) -> SetBatch of N sets of 128, x (128 N, width). The elements are in an order that depends on
    the points alone, not on theirs. Those of an empty set are zeros.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.levels = nn.ModuleList()
        in_features = 0
        for num_centroids, scales in LEVELS:
            level = Level(num_centroids, scales, in_features, config)
            self.levels.append(level)
            in_features = level.out_features
        widths = [3 + in_features, *(scaled(width, config) for width in GLOBAL_WIDTHS)]
        self.last = nn.Sequential(*(linear_norm_relu(a, b, eps=config.eps) for a, b in itertools.pairwise(widths)))

    def forward(self, batch: SetBatch) -> SetBatch:
        batch = in_canonical_order(batch)
        dtype = ops.statistics_dtype(batch.dtype)
        # an empty set has a row of its own behind all others, so that there is something to look at
        cloud = Cloud(
            points=F.pad(batch.x.to(dtype), (0, 0, 0, 1)),
            starts=torch.where(batch.sizes > 0, batch.offsets[:-1], batch.num_elements),
            sizes=batch.sizes,
            room=batch.set_size or 0,
        )
        for level in self.levels:
            cloud = level(cloud)
        assert cloud.features is not None
        h = torch.cat([cloud.points.to(cloud.features.dtype), cloud.features], 1)  # (N C, 3 + F)
        h = self.last(h).unflatten(0, (batch.num_sets, cloud.room))  # (N, C, width)
        h = h + nan_where_not_finite(batch)[:, None, None].to(h.dtype)  # a point that is NaN is nobody's neighbour
        return SetBatch.from_padded(torch.where((batch.sizes > 0)[:, None, None], h, 0))


@dataclass(frozen=True)
class Cloud:
    """Points of N sets with what is known of them.

    Attributes:
        points: (R, 3).
        starts: (N,) the first row of each set, which is there even if the set is empty.
        sizes: (N,) how many rows, from there on, are points of it.
        room: No set has more rows than that; 0 if that is not known.
        features: (R, F), if there are any.
    """

    points: Tensor
    starts: Tensor
    sizes: Tensor
    room: int
    features: Tensor | None = None


class Level(nn.Module):
    """Chooses centroids, and describes each by its neighbourhoods, at all scales. Shapes: Cloud -> Cloud of N C points."""

    def __init__(self, num_centroids: int, scales: tuple[Scale, ...], in_features: int, config: ModelConfig) -> None:
        super().__init__()
        self.num_centroids = num_centroids
        self.num_neighbours = max(scale.num_neighbours for scale in scales)
        self.scales = nn.ModuleList(Neighbourhood(scale, in_features, config) for scale in scales)
        self.out_features = sum(scaled(scale.widths[-1], config) for scale in scales)

    def forward(self, cloud: Cloud) -> Cloud:
        known = (cloud.points.detach(), cloud.starts, cloud.sizes)
        chosen, sizes = ops.farthest_points(*known, self.num_centroids, cloud.room)  # (N, C), (N,)
        centres = cloud.points.index_select(0, chosen.flatten())  # (N C, 3)
        spread = centres.detach().unflatten(0, chosen.shape)
        rows, squared = (t.flatten(0, 1) for t in ops.nearest_points(*known, spread, self.num_neighbours, cloud.room))  # (N C, K)
        return Cloud(
            points=centres,
            starts=torch.arange(chosen.shape[0], device=chosen.device) * self.num_centroids,
            sizes=sizes,
            room=self.num_centroids,
            features=torch.cat([scale(cloud, centres, rows, squared) for scale in self.scales], 1),
        )


class Neighbourhood(nn.Module):
    """The neighbours of every centroid within a radius through the same layers, then the maximum over them.

    Places that no neighbour takes are filled with the nearest point, as published. That changes no maximum.
    """

    def __init__(self, scale: Scale, in_features: int, config: ModelConfig) -> None:
        super().__init__()
        self.radius, self.num_neighbours = scale.radius, scale.num_neighbours
        widths = [scaled(width, config) for width in scale.widths]
        self.first = nn.Linear(3 + in_features, widths[0], bias=False)
        nn.init.kaiming_normal_(self.first.weight)
        self.norm = RowNorm(widths[0], eps=config.eps)
        self.rest = nn.Sequential(*(linear_norm_relu(a, b, eps=config.eps) for a, b in itertools.pairwise(widths)))

    def forward(self, cloud: Cloud, centres: Tensor, rows: Tensor, squared: Tensor) -> Tensor:
        """(N C, F') features of the centroids.

        Args:
            cloud: What to look at.
            centres: (N C, 3) where the centroids are.
            rows: (N C, K) their neighbours in the cloud, the nearest first.
            squared: (N C, K) the distances of these, squared.
        """
        rows, squared = rows[:, : self.num_neighbours], squared[:, : self.num_neighbours]
        rows = torch.where(squared < self.radius**2, rows, rows[:, :1]).flatten()  # (N C K,)
        towards = cloud.points.index_select(0, rows).unflatten(0, (-1, self.num_neighbours)) - centres[:, None]
        to_place, to_features = self.first.weight.split([3, self.first.in_features - 3], 1)
        h = F.linear(towards.flatten(0, 1).to(to_place.dtype), to_place)
        if cloud.features is not None:  # a point's part is the same for all that it is a neighbour of
            h = h + F.linear(cloud.features, to_features).index_select(0, rows)
        h = self.rest(torch.relu(self.norm(h)))
        offsets = torch.arange(centres.shape[0] + 1, device=h.device) * self.num_neighbours
        return ops.set_max(h, offsets, set_size=self.num_neighbours)
