"""Deep Sets and Deep Sets++: every element through the same layers, a pooling, a decoder."""

from collections.abc import Callable

from torch import nn

from orderless.models.base import ModelConfig, SetModel
from orderless.nn import (
    PMA,
    AggregatedBlock,
    CleanBlock,
    ElementLinear,
    ElementReLU,
    Encoder,
    FreqAddBlock,
    NonCleanBlock,
    PlainLayer,
    build_norm,
)
from orderless.nn.pool import POOLS
from orderless.nn.residual import AGGREGATES


def build_deep_sets(config: ModelConfig, featurizer: nn.Module | None = None) -> SetModel:
    """Deep Sets (Zaheer et al. 2017) or Deep Sets++ (Zhang et al. 2022), as `config.residual` says."""
    encoder = Encoder(*_one_layer_blocks(config) if _has_one_layer_blocks(config) else _two_layer_blocks(config))
    if config.output == "element":
        return SetModel(config, encoder, None, nn.Linear(config.width, config.out_features), featurizer)
    return SetModel(config, encoder, build_pool(config), _decoder(config), featurizer)


def build_pool(config: ModelConfig) -> nn.Module:
    """The pooling of `config`, with the original attention block where it is attention."""
    if config.pool == "attention":
        return PMA(config.width, num_heads=config.num_heads)
    return POOLS[config.pool]()


def _has_one_layer_blocks(config: ModelConfig) -> bool:
    return config.residual in ("none", "freq_add")


def _one_layer_blocks(config: ModelConfig) -> list[nn.Module]:
    """2 * (depth // 2) + 1 layers of linear, norm, ReLU (with an addition in FreqAdd), then one linear."""
    width, norm, eps = config.width, config.norm, config.eps
    layers: list[nn.Module] = [PlainLayer(config.in_features, width, norm=norm, eps=eps)]
    for _ in range(2 * (config.depth // 2)):
        if config.residual == "freq_add":
            layers.append(FreqAddBlock(width, norm=norm, eps=eps))
        else:
            layers.append(PlainLayer(width, width, norm=norm, eps=eps))
    return [*layers, ElementLinear(width, width)]


def _two_layer_blocks(config: ModelConfig) -> list[nn.Module]:
    """A linear layer, depth // 2 residual blocks of two layers, and a tail."""
    first = ElementLinear(config.in_features, config.width, bias=config.norm == "none")
    blocks = [_block(config) for _ in range(config.depth // 2)]
    return [first, *blocks, *_tail(config)]


def _block(config: ModelConfig) -> nn.Module:
    width, norm, eps = config.width, config.norm, config.eps
    makers: dict[str, Callable[[], nn.Module]] = {
        "clean": lambda: CleanBlock(width, norm=norm, order=config.order, eps=eps),
        "non_clean": lambda: NonCleanBlock(width, norm=norm, eps=eps),
        **{
            aggregate: lambda a=aggregate: AggregatedBlock(width, a, norm=norm, order=config.order, eps=eps)  # type: ignore[misc]
            for aggregate in AGGREGATES
        },
    }
    return makers[config.residual]()


def _tail(config: ModelConfig) -> list[nn.Module]:
    """What follows the last block: norm, ReLU, weight after clean paths, a weight otherwise.

    The released code gives aggregated residuals a weight alone, and drops the tail where the output is per element.
    """
    if config.output == "element" and config.order == "released":
        return []
    linear = ElementLinear(config.width, config.width)
    pre_activation = config.residual == "clean" or (config.residual in AGGREGATES and config.order == "paper")
    if pre_activation:
        return [build_norm(config.norm, config.width, eps=config.eps), ElementReLU(), linear]
    return [linear]


def _decoder(config: ModelConfig) -> nn.Module:
    width = config.width
    hidden = [layer for _ in range(3) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(width, config.out_features))
