"""Featurizers: modules that turn each element, of any shape, into a vector before the network sees it.

Letters: T elements in all sets, D features.
"""

from collections.abc import Sequence
from typing import Any, Literal, Self, get_args

import torch
from torch import Tensor, nn

Activation = Literal["none", "relu"]
IMAGE_SIZE = 64


class ConvFeaturizer(nn.Module):
    """Nine 3 x 3 convolutions and three max poolings: 64 x 64 images to 256 features.

    Args:
        in_channels: Colours of an image.
        activation: After each convolution. `none` is what the paper describes and the released code does; a stack of
            convolutions without it is linear between poolings, so `relu` is offered.

    Shapes: (T, in_channels, 64, 64) -> (T, 256).

    Reference: Zhang et al. (2022), appendix "Convolutional blocks for set anomaly" (which says 255; the layers give 256).
    """

    out_features = 256

    def __init__(self, in_channels: int = 3, *, activation: Activation = "none") -> None:
        super().__init__()
        if activation not in get_args(Activation):
            raise ValueError(f"activation must be one of {', '.join(get_args(Activation))}; got {activation!r}.")
        self.in_channels, self.activation = in_channels, activation
        layers: list[nn.Module] = []
        channels = in_channels
        for widths, pool in (((32, 32, 64), 2), ((64, 64, 128), 2), ((128, 128, 256), 5)):
            for width in widths:
                layers += [nn.Conv2d(channels, width, kernel_size=3)] + [nn.ReLU()] * (activation == "relu")
                channels = width
            layers.append(nn.MaxPool2d(pool))
        self.layers = nn.Sequential(*layers)

    @property
    def element_shape(self) -> tuple[int, ...]:
        """Shape of the images that it takes."""
        return (self.in_channels, IMAGE_SIZE, IMAGE_SIZE)

    def forward(self, images: Tensor) -> Tensor:
        expected = self.element_shape
        if tuple(images.shape[1:]) != expected:
            raise ValueError(
                f"this ConvFeaturizer takes images of shape {expected}, got {tuple(images.shape[1:])}. "
                f"Images go channels first, resized to {IMAGE_SIZE} x {IMAGE_SIZE}; ConvFeaturizer(in_channels) for others."
            )
        if not images.is_floating_point():
            raise ValueError(f"images must be floating point, got {images.dtype}. Convert them: `images.float() / 255`.")
        # channels last in memory, which is fastest for convolutions on GPUs and CPUs; by operations that vmap supports
        features: Tensor = self.layers(images.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2))
        return features.flatten(1)

    def extra_repr(self) -> str:
        return f"{self.in_channels}, activation={self.activation}"


class Standardizer(nn.Module):
    """Subtracts a mean from every feature, divides by a spread and clips: fixed numbers, which are saved with the network.

    A residual stream begins with the first layer's output. Where elements come as pixels from 0 to 255, that output is a hundred
    times as large as what blocks add to it, and depth is of little use.

    Args:
        mean: Of each feature, over training elements.
        spread: Their standard deviations, all above 0.
        clip: The largest distance from the mean, in spreads.

    It computes in float32 at least, and its own numbers stay so in `model.half()` or `model.bfloat16()`: a mean of 100,000 is
    infinite in one, and has two or three digits in the other.

    Shapes: (T, D) -> (T, D), in the dtype of the elements.
    """

    mean: Tensor
    spread: Tensor

    def __init__(self, mean: Sequence[float] | Tensor, spread: Sequence[float] | Tensor, *, clip: float = 10.0) -> None:
        super().__init__()
        mean, spread = (torch.as_tensor(numbers, dtype=torch.float32).clone() for numbers in (mean, spread))
        if mean.dim() != 1 or mean.shape != spread.shape or not len(mean):
            raise ValueError(f"mean and spread must both be (D,), got {tuple(mean.shape)} and {tuple(spread.shape)}.")
        if mean.device.type != "meta" and not bool((torch.isfinite(mean) & torch.isfinite(spread) & (spread > 0)).all()):
            raise ValueError("means must be finite, and spreads finite and above 0: give 1 for a feature that does not vary.")
        if not isinstance(clip, int | float) or not clip > 0:
            raise ValueError(f"clip must be a number above 0, got {clip!r}.")
        self.register_buffer("mean", mean)
        self.register_buffer("spread", spread)
        self.clip = float(clip)

    @property
    def out_features(self) -> int:
        return len(self.mean)

    @property
    def element_shape(self) -> tuple[int, ...]:
        """Shape of the elements that it takes, which it does not change."""
        return (len(self.mean),)

    def forward(self, x: Tensor) -> Tensor:
        if tuple(x.shape[1:]) != (self.out_features,):
            raise ValueError(f"this Standardizer takes elements of {self.out_features} features, got shape {tuple(x.shape[1:])}.")
        standard = ((x - self.mean) / self.spread).clamp(-self.clip, self.clip)
        return standard.to(x.dtype) if x.is_floating_point() else standard

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """Called by `to`, `half` and the like."""
        before = self.mean, self.spread
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.mean.dtype in (torch.float16, torch.bfloat16):
            self.mean, self.spread = (numbers.to(self.mean.device) for numbers in before)
        return self

    def extra_repr(self) -> str:
        return f"{self.out_features}, clip={self.clip:g}"
