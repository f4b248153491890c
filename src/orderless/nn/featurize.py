"""Featurizers: modules that turn each element, of any shape, into a vector before the network sees it.

Letters: T elements in all sets.
"""

from typing import Literal, get_args

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

    def forward(self, images: Tensor) -> Tensor:
        expected = (self.in_channels, IMAGE_SIZE, IMAGE_SIZE)
        if tuple(images.shape[1:]) != expected:
            raise ValueError(
                f"this ConvFeaturizer takes images of shape {expected}, got {tuple(images.shape[1:])}. "
                f"Images go channels first, resized to {IMAGE_SIZE} x {IMAGE_SIZE}; ConvFeaturizer(in_channels) for others."
            )
        if not images.is_floating_point():
            raise ValueError(f"images must be floating point, got {images.dtype}. Convert them: `images.float() / 255`.")
        features: Tensor = self.layers(images)
        return features.flatten(1)

    def extra_repr(self) -> str:
        return f"{self.in_channels}, activation={self.activation}"
