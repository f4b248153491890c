"""The networks tailored to point clouds that the paper's appendix compares with.

Letters: N sets, T elements in all sets, D features.
"""

from torch import nn

from orderless import ops
from orderless.models.base import ModelConfig, SetModel
from orderless.nn import ISAB, PMA, ElementDropout, ElementLinear, ElementTanh, Encoder, MaxPool
from orderless.sets import SetBatch

DROPOUT = 0.5


def build_deep_sets_pointcloud(config: ModelConfig, featurizer: nn.Module | None = None) -> SetModel:
    """Deep Sets as Zaheer et al. (2017) tailored it: three layers that subtract the set's maximum, tanh, dropout."""
    width = config.width
    in_dims = [config.in_features] + [width] * (config.depth - 1)
    encoder = Encoder(*(layer for d in in_dims for layer in (SubtractMax(), ElementLinear(d, width), ElementTanh())))
    decoder = nn.Sequential(
        nn.Dropout(DROPOUT),
        nn.Linear(width, width),
        nn.Tanh(),
        nn.Dropout(DROPOUT),
        nn.Linear(width, config.out_features),
    )
    return SetModel(config, encoder, MaxPool(), decoder, featurizer)


def build_set_transformer_pointcloud(config: ModelConfig, featurizer: nn.Module | None = None) -> SetModel:
    """Set Transformer as Lee et al. (2019) tailored it: a linear layer, two ISABs, PMA between dropouts, a linear layer."""
    width, heads = config.width, config.num_heads
    isabs = (ISAB(width, width, num_heads=heads, num_inducing=config.num_inducing) for _ in range(config.depth))
    encoder = Encoder(ElementLinear(config.in_features, width), *isabs)
    pool = nn.Sequential(ElementDropout(DROPOUT), PMA(width, num_heads=heads), ElementDropout(DROPOUT))
    return SetModel(config, encoder, pool, nn.Linear(width, config.out_features), featurizer)


class SubtractMax(nn.Module):
    """x - max(x) over each set, feature by feature. Shapes: SetBatch with x (T, D) -> the same. Permutation equivariant."""

    def forward(self, batch: SetBatch) -> SetBatch:
        top = ops.set_max(batch.x, batch.offsets, set_size=batch.set_size)  # (N, D)
        return batch.with_x(batch.x - ops.broadcast_sets(top, batch.offsets, batch.num_elements, set_size=batch.set_size))
