"""What every model is: a configuration, an equivariant encoder, and a head for sets or for elements.

Letters: N sets, M elements in each set of a dense tensor, T elements in all sets, D features.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from orderless.nn import Encoder, NormName, Order, PoolName, ResidualName
from orderless.sets import SetBatch

_CAST_BY_AUTOCAST = {torch.float32, torch.bfloat16, torch.float16}

Output = Literal["set", "element"]


@dataclass(frozen=True)
class ModelConfig:
    """All that is needed to build a model again, apart from its weights and a user's own featurizer."""

    name: str
    in_features: int
    out_features: int
    depth: int
    width: int
    norm: NormName
    residual: ResidualName
    pool: PoolName
    order: Order
    output: Output
    num_heads: int
    num_inducing: int
    eps: float


class SetModel(nn.Module):
    """A network on sets: `encode` is equivariant, the head invariant (or equivariant with `output="element"`).

    Args:
        config: Which network.
        encoder: SetBatch -> SetBatch.
        pool: SetBatch -> (N, width), or None with `output="element"`.
        decoder: (N, width) -> (N, out_features); with `output="element"` it acts on every element.
        featurizer: Applied to the elements before the encoder.

    Shapes: SetBatch with x (T, in_features), or a dense (N, M, in_features) tensor -> (N, out_features), or with
    `output="element"` a SetBatch with x (T, out_features). With a featurizer elements have the shape that it takes.
    """

    def __init__(
        self,
        config: ModelConfig,
        encoder: Encoder,
        pool: nn.Module | None,
        decoder: nn.Module,
        featurizer: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.featurizer = featurizer
        self.encoder = encoder
        self.pool = pool
        self.decoder = decoder

    def forward(self, batch: SetBatch | Tensor, mask: Tensor | None = None) -> Tensor | SetBatch:
        """The prediction for each set, or each element.

        Args:
            batch: The sets, packed or as a dense tensor.
            mask: With a dense tensor: (N, M) bool, True at real elements.
        """
        batch = self._elements(batch, mask)
        if self.pool is None:
            h: SetBatch = self.encoder(batch)
            return h.with_x(self.decoder(h.x))
        pooled = self.encoder.pooled(batch, self.pool)
        return decode(self.decoder, pooled.x if isinstance(pooled, SetBatch) else pooled)

    def encode(self, batch: SetBatch | Tensor, mask: Tensor | None = None) -> SetBatch:
        """The equivariant encoder's output, one vector of `width` features per element. Arguments as in `forward`.

        `pointnet++` and `simpleview` give one vector per centroid or per view, which they look at instead of elements.
        """
        h: SetBatch = self.encoder(self._elements(batch, mask))
        return h

    def _elements(self, batch: SetBatch | Tensor, mask: Tensor | None) -> SetBatch:
        """What the encoder takes: the sets, packed, after the featurizer."""
        batch = _as_set_batch(batch, mask)
        if self.featurizer is not None:
            batch = batch.with_x(self.featurizer(batch.x))  # which refuses another number of elements
        self._check_elements(batch)
        return batch

    @property
    def in_features(self) -> int:
        return self.config.in_features

    @property
    def element_shape(self) -> tuple[int, ...] | None:
        """Shape of the elements that it takes; None if a user's own featurizer has no `element_shape`."""
        if self.featurizer is None:
            return (self.in_features,)
        shape = getattr(self.featurizer, "element_shape", None)
        return None if shape is None else tuple(shape)

    @property
    def out_features(self) -> int:
        return self.config.out_features

    def _check_elements(self, batch: SetBatch) -> None:
        if tuple(batch.element_shape) != (self.in_features,):
            source = "after the featurizer, " if self.featurizer is not None else ""
            raise ValueError(
                f"{source}elements must be vectors of in_features={self.in_features} numbers, "
                f"got elements of shape {tuple(batch.element_shape)}."
            )
        dtype = next(self.encoder.parameters()).dtype
        may_cast = autocast_is_on(batch.device) and {batch.dtype, dtype} <= _CAST_BY_AUTOCAST
        if batch.dtype != dtype and not may_cast:
            other_way = f" or `model.to({batch.dtype})`" if batch.x.is_floating_point() else ""
            raise ValueError(
                f"the model's weights are {dtype} but the elements are {batch.dtype}. Cast: `batch.to({dtype})`{other_way}."
            )

    def __repr__(self) -> str:
        c = self.config
        options = [f"depth={c.depth}", f"width={c.width}", f"norm={c.norm}", f"residual={c.residual}"]
        options += [f"pool={c.pool}"] if c.output == "set" else []
        options += [f"order={c.order}", f"output={c.output}"]
        options += ["featurizer=" + type(self.featurizer).__name__] if self.featurizer is not None else []
        count = sum(p.numel() for p in self.parameters())
        return f"{c.name}({c.in_features} -> {c.out_features}, {', '.join(options)}; {count:,} parameters)"


def decode(decoder: nn.Module, pooled: Tensor) -> Tensor:
    """A decoder's answers for pooled vectors, (N, width) -> (N, out_features): in the precision of its weights, autocast or not.

    With one vector per set that takes hardly any time, and an answer in bfloat16 would have only two or three digits.
    """
    weight = next(decoder.parameters(), None)
    if weight is None or not autocast_is_on(pooled.device):
        out: Tensor = decoder(pooled)
        return out
    with torch.autocast(pooled.device.type, enabled=False):
        full: Tensor = decoder(pooled.to(weight.dtype))
    return full


def autocast_is_on(device: torch.device) -> bool:
    """Whether autocast is in force on a device. torch refuses to answer for the meta device, which has shapes only."""
    return device.type != "meta" and torch.is_autocast_enabled(device.type)


def _as_set_batch(batch: SetBatch | Tensor, mask: Tensor | None) -> SetBatch:
    if isinstance(batch, SetBatch):
        if mask is not None:
            raise ValueError("a SetBatch has no padding: pass mask only with a dense (N, M, D) tensor.")
        return batch
    if not isinstance(batch, Tensor):
        raise TypeError(
            f"a model takes a SetBatch or a dense (N, M, D) tensor, got {type(batch).__name__}. "
            "Sets in a list go through SetBatch.from_list."
        )
    if batch.ndim < 3:
        raise ValueError(
            f"a dense tensor must be (N, M, D): sets, elements, features; got shape {tuple(batch.shape)}. "
            "For one set pass `x[None]`; for packed elements pass SetBatch(x, offsets)."
        )
    return SetBatch.from_padded(batch, mask)
