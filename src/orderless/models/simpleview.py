"""SimpleView (Goyal, Law, Liu, Newell, Deng 2021): six depth images of a point cloud, and a small ResNet-18 that looks at them.

The images are those of the published code: perspective views from the six sides of a cube, in which a point fills one pixel, and
points that share a pixel are averaged, near ones weighing more. So the order of the points is lost, to rounding.

Letters: N sets, T points in all sets, V views, P pixels along a side, F features.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from orderless import ops
from orderless.models.base import ModelConfig, SetModel
from orderless.models.points import nan_where_not_finite, set_numbers
from orderless.models.rows import linear_norm_relu
from orderless.nn import ElementDropout, Encoder, FeatureNorm
from orderless.sets import SetBatch

DROPOUT = 0.5
RESOLUTION = 128
DISTANCE = 1.4  # from the camera to the middle of the cloud, whose points lie within 1 of it
WIDTH = 128  # of the published network, whose first layers have an eighth of it
WIDTH_UNIT = 8
BLOCKS = 2  # of each of the four stages
# Six views. For each, which coordinate runs down the image, which across, and which away from the camera, and in which direction.
VIEWS: tuple[tuple[tuple[int, int, int], tuple[int, int, int]], ...] = (
    ((1, 0, 2), (-1, 1, 1)),
    ((1, 2, 0), (-1, -1, 1)),
    ((1, 0, 2), (-1, -1, -1)),
    ((1, 2, 0), (-1, 1, -1)),
    ((2, 0, 1), (-1, 1, -1)),
    ((2, 0, 1), (1, 1, 1)),
)


def build_simpleview(config: ModelConfig, featurizer: nn.Module | None = None) -> SetModel:
    """SimpleView, whose views have `config.width` features each; the image network begins with an eighth of that."""
    width, eps = config.width, config.eps
    encoder = Encoder(DepthImages(RESOLUTION), ImageNetwork(width // WIDTH_UNIT, eps=eps))
    pool = nn.Sequential(FeatureNorm(width, eps=eps), ElementDropout(DROPOUT), JoinViews())
    joined = linear_norm_relu(len(VIEWS) * width, width, eps=eps)
    decoder = nn.Sequential(*joined, nn.Dropout(DROPOUT), nn.Linear(width, config.out_features))
    return SetModel(config, encoder, pool, decoder, featurizer)


class DepthImages(nn.Module):
    """How far the points are, seen from six sides; 0 where there is none.

    Points at one pixel give their harmonic mean, which is the mean of depths weighted by their inverses. Points behind the camera
    and beside the image are not seen.

    Shapes: SetBatch with x (T, 3) -> SetBatch of N sets of 6 images, x (6 N, 1, P, P). Permutation invariant: views have an order
    of their own.

    Args:
        resolution: Pixels along a side, P.
    """

    def __init__(self, resolution: int) -> None:
        super().__init__()
        self.resolution = resolution

    def forward(self, batch: SetBatch) -> SetBatch:
        num_images = batch.num_sets * len(VIEWS)
        pixel, weight = zip(*(self._look(batch, number) for number in range(len(VIEWS))), strict=True)
        pixels, weights = torch.cat(pixel), torch.cat(weight)  # (V T,)
        blank = weights.new_zeros(num_images * self.resolution**2)
        count = blank.index_add(0, pixels, (weights > 0).to(weights.dtype))
        total = blank.index_add(0, pixels, weights)
        depth = count / torch.where(count > 0, total, 1)
        images = depth.to(batch.dtype).reshape(num_images, 1, self.resolution, self.resolution)
        images = images.unflatten(0, (batch.num_sets, len(VIEWS)))
        flaw = nan_where_not_finite(batch)  # a point that is NaN is seen nowhere
        return SetBatch.from_padded(images + flaw[:, None, None, None, None])

    def _look(self, batch: SetBatch, number: int) -> tuple[Tensor, Tensor]:
        """(T,) the pixel of each point in view `number`, counted through all images, and 1 / depth; 0 where it is not seen."""
        axes, signs = VIEWS[number]
        x = batch.x.to(ops.statistics_dtype(batch.dtype))
        down, across, away = (x[:, axis] * sign for axis, sign in zip(axes, signs, strict=True))
        depth = away + DISTANCE
        in_front = depth > 0
        depth = torch.where(in_front, depth, 1)
        row, column = (((side.detach() / depth.detach() + 1) * self.resolution / 2).ceil() for side in (down, across))
        seen = in_front & (row >= 0) & (row < self.resolution) & (column >= 0) & (column < self.resolution)
        place = torch.where(seen, row * self.resolution + column, 0).long()
        image = set_numbers(batch) * len(VIEWS) + number
        return image * self.resolution**2 + place, torch.where(seen, 1 / depth, 0)


class ImageNetwork(nn.Module):
    """A ResNet-18 for images of one channel, whose first layer keeps their resolution.

    Shapes: SetBatch with x (T, 1, P, P) -> SetBatch with x (T, 8 * width).
    """

    def __init__(self, width: int, *, eps: float) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(1, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width, eps=eps),
            nn.ReLU(),
        ]
        in_channels = width
        for stage in range(4):
            for block in range(BLOCKS):
                out_channels, stride = width * 2**stage, 2 if stage and not block else 1
                layers.append(ImageBlock(in_channels, out_channels, stride, eps=eps))
                in_channels = out_channels
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def forward(self, batch: SetBatch) -> SetBatch:
        return batch.with_x(self.layers(batch.x))


class ImageBlock(nn.Module):
    """relu(x + f(x)) with two convolutions in f, which is nothing at first: its last norm begins with the weight 0."""

    def __init__(self, in_channels: int, out_channels: int, stride: int, *, eps: float) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(out_channels, eps=eps),
            nn.ReLU(),
            nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False),
            last := nn.BatchNorm2d(out_channels, eps=eps),
        )
        self.skip: nn.Module = nn.Identity()
        if stride > 1 or in_channels != out_channels:
            self.skip = nn.Sequential(
                nn.Conv2d(in_channels, out_channels, 1, stride, bias=False), nn.BatchNorm2d(out_channels, eps=eps)
            )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        nn.init.zeros_(last.weight)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.skip(x) + self.branch(x))


class JoinViews(nn.Module):
    """The features of all views of a set, one after another. Shapes: SetBatch with x (V N, F) -> (N, V F)."""

    def forward(self, batch: SetBatch) -> Tensor:
        return batch.x.unflatten(0, (batch.num_sets, len(VIEWS))).flatten(1)
