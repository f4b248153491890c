"""Layers on `SetBatch`. A signature tells the symmetry: SetBatch -> SetBatch is equivariant, SetBatch -> Tensor invariant.

The one exception is attention pooling, `PMA`: it gives each set its seeds, in their order, as a SetBatch of other sizes.
"""

from orderless.nn.attention import (
    ISAB,
    MAB,
    PMA,
    SAB,
    ISABPlusPlus,
    MABPlusPlus,
    MultiheadAttention,
    PMAPlusPlus,
    SABPlusPlus,
)
from orderless.nn.elementwise import ElementDropout, ElementLinear, ElementReLU, ElementTanh
from orderless.nn.encoder import Encoder
from orderless.nn.featurize import ConvFeaturizer, Standardizer
from orderless.nn.norm import BatchNorm, FeatureNorm, InstanceNorm, LayerNorm, NormName, SetNorm, build_norm
from orderless.nn.pool import MaxPool, MeanPool, PoolName, SumPool
from orderless.nn.residual import (
    AggregatedBlock,
    AggregatedSkip,
    CleanBlock,
    FreqAddBlock,
    NonCleanBlock,
    Order,
    PlainLayer,
    ResidualName,
)

__all__ = [
    "ISAB",
    "MAB",
    "PMA",
    "SAB",
    "AggregatedBlock",
    "AggregatedSkip",
    "BatchNorm",
    "CleanBlock",
    "ConvFeaturizer",
    "ElementDropout",
    "ElementLinear",
    "ElementReLU",
    "ElementTanh",
    "Encoder",
    "FeatureNorm",
    "FreqAddBlock",
    "ISABPlusPlus",
    "InstanceNorm",
    "LayerNorm",
    "MABPlusPlus",
    "MaxPool",
    "MeanPool",
    "MultiheadAttention",
    "NonCleanBlock",
    "NormName",
    "Order",
    "PMAPlusPlus",
    "PlainLayer",
    "PoolName",
    "ResidualName",
    "SABPlusPlus",
    "SetNorm",
    "Standardizer",
    "SumPool",
    "build_norm",
]
