"""Set Transformer and Set Transformer++: induced attention among the elements, attention pooling, attention decoder."""

from torch import Tensor, nn

from orderless.models.base import ModelConfig, SetModel
from orderless.models.deep_sets import build_pool
from orderless.nn import ISAB, SAB, ElementLinear, Encoder, ISABPlusPlus, PMAPlusPlus, SABPlusPlus, build_norm
from orderless.nn.residual import AGGREGATES
from orderless.sets import SetBatch

NUM_DECODER_BLOCKS = 3  # as in the released code; Lee et al. have 2


def build_set_transformer(config: ModelConfig, featurizer: nn.Module | None = None) -> SetModel:
    """Set Transformer (Lee et al. 2019): ISABs on the raw elements, PMA, SABs, one linear layer."""
    shape = {"num_heads": config.num_heads, "num_inducing": config.num_inducing}
    in_dims = [config.in_features] + [config.width] * (config.depth - 1)
    encoder = Encoder(*(ISAB(d, config.width, norm=config.norm, eps=config.eps, **shape) for d in in_dims))
    return _with_head(config, encoder, featurizer)


def build_set_transformer_plus_plus(config: ModelConfig, featurizer: nn.Module | None = None) -> SetModel:
    """Set Transformer++ (Zhang et al. 2022): a linear layer, ISAB++ blocks, in the released order a last norm."""
    blocks = [
        ISABPlusPlus(
            config.width,
            num_heads=config.num_heads,
            num_inducing=config.num_inducing,
            norm=config.norm,
            order=config.order,
            aggregate=config.residual if config.residual in AGGREGATES else None,
            eps=config.eps,
        )
        for _ in range(config.depth)
    ]
    last = [build_norm(config.norm, config.width, eps=config.eps)] if config.order == "released" else []
    encoder = Encoder(ElementLinear(config.in_features, config.width), *blocks, *last)
    return _with_head(config, encoder, featurizer)


class AttentionDecoder(nn.Module):
    """Attention blocks on the pooled vector, as a set of one element, then a linear layer. Shapes: (N, width) -> (N, out)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        clean = has_clean_decoder(config)
        self.blocks = nn.Sequential(
            *(
                SABPlusPlus(config.width, num_heads=config.num_heads, norm="none")
                if clean
                else SAB(config.width, num_heads=config.num_heads)
                for _ in range(NUM_DECODER_BLOCKS)
            )
        )
        self.out = nn.Linear(config.width, config.out_features)

    def forward(self, pooled: Tensor) -> Tensor:
        h: SetBatch = self.blocks(SetBatch.from_padded(pooled[:, None]))
        out: Tensor = self.out(h.x)
        return out


def has_clean_decoder(config: ModelConfig) -> bool:
    """The paper keeps the original pooling and decoder in Set Transformer++; the released code uses clean-path blocks."""
    return config.name == "set_transformer++" and config.order == "released"


def _with_head(config: ModelConfig, encoder: Encoder, featurizer: nn.Module | None) -> SetModel:
    if config.output == "element":
        return SetModel(config, encoder, None, nn.Linear(config.width, config.out_features), featurizer)
    if config.pool == "attention" and has_clean_decoder(config):
        pool: nn.Module = PMAPlusPlus(config.width, num_heads=config.num_heads, norm="none")
    else:
        pool = build_pool(config)
    return SetModel(config, encoder, pool, AttentionDecoder(config), featurizer)
