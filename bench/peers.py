"""What others compute, to be measured beside ours: the same networks on padded dense tensors, written in two ways.

- `released`: as the authors' released code computes them. Every set norm is a layer norm over elements and features, then a
  product with the diagonal matrix of its scales; heads are cut apart and stacked along the batch, scores and weights of the
  attention are whole tensors. What that code does beside the computation is left out: it pools twice and compares.
- `plain`: as somebody who knows PyTorch would write them today, and give them to `torch.compile`: the scale is an elementwise
  product, attention is `F.scaled_dot_product_attention`.

Parameters have the names that our models give them, so that the same weights can be loaded. Sets of different sizes are padded,
and `mask` says where elements are; padding changes no result (in the released code it does).

Letters: N sets, M elements in the largest set, D features, H heads, I inducing points.
"""

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import orderless as ol
from orderless.models import ModelConfig, SetModel

Style = Literal["released", "plain"]


def build_peer(model: SetModel, style: Style) -> nn.Module:
    """The same network as `model`, with the same weights, on dense tensors: (N, M, in_features) and a mask -> (N, out_features).

    Raises:
        ValueError: If `model` is not one of the four networks as they are by default.
    """
    config = model.config
    if config != ol.create_model(config.name, config.in_features, config.out_features, **_sizes(config)).config:
        raise ValueError(f"there are peers of the default networks only, not of {model}.")
    makers: dict[str, Callable[[ModelConfig, Style], nn.Module]] = {
        "deep_sets": OriginalDeepSets,
        "deep_sets++": DeepSets,
        "set_transformer": OriginalSetTransformer,
        "set_transformer++": SetTransformer,
    }
    if config.name not in makers:
        raise ValueError(f"there are peers of {' and '.join(makers)}, not of {config.name}.")
    peer = makers[config.name](config, style).to(next(model.parameters()))  # before loading, which would round
    peer.load_state_dict(model.state_dict())
    return peer


class OriginalDeepSets(nn.Module):
    """Deep Sets: linear layers with ReLUs, a linear layer, a sum, a decoder."""

    def __init__(self, config: ModelConfig, style: Style) -> None:
        super().__init__()
        width, num_layers = config.width, 2 * (config.depth // 2) + 1
        layers = [nn.ModuleDict({"fc": nn.Linear(config.in_features if n == 0 else width, width)}) for n in range(num_layers)]
        self.encoder = nn.ModuleList([*layers, nn.Linear(width, width)])
        self.decoder = make_decoder(config)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        layers: Any = self.encoder[:-1]
        for layer in layers:
            x = layer["fc"](x).relu()
        return self.decoder(hide(self.encoder[-1](x), mask).sum(1))


class DeepSets(nn.Module):
    """Deep Sets++: a linear layer, residual blocks of two layers, norm, ReLU, a linear layer, a sum, a decoder."""

    def __init__(self, config: ModelConfig, style: Style) -> None:
        super().__init__()
        width = config.width
        blocks = [Block(config, style) for _ in range(config.depth // 2)]
        last = (SetNorm(config, style), nn.ReLU(), nn.Linear(width, width))
        self.encoder = nn.ModuleList([nn.Linear(config.in_features, width, bias=False), *blocks, *last])
        self.decoder = make_decoder(config)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        h: Tensor = self.encoder[0](x)
        for block in self.encoder[1:-3]:
            h = block(h, mask)
        norm, relu, linear = self.encoder[-3:]
        h = hide(linear(relu(norm(h, mask))), mask)
        return self.decoder(h.sum(1))


def make_decoder(config: ModelConfig) -> nn.Module:
    """Three linear layers with ReLUs, and a last one."""
    hidden = [layer for _ in range(3) for layer in (nn.Linear(config.width, config.width), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(config.width, config.out_features))


class Block(nn.Module):
    """norm, ReLU, weight, norm, ReLU, weight, added to the input."""

    def __init__(self, config: ModelConfig, style: Style) -> None:
        super().__init__()
        width = config.width
        self.branch = nn.ModuleDict(
            {
                "norm1": SetNorm(config, style),
                "fc1": nn.Linear(width, width, bias=False),
                "norm2": SetNorm(config, style),
                "fc2": nn.Linear(width, width, bias=False),
            }
        )

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        branch = self.branch
        h = branch["fc1"](branch["norm1"](x, mask).relu())
        return x + branch["fc2"](branch["norm2"](h, mask).relu())


class OriginalSetTransformer(nn.Module):
    """Set Transformer: induced attention blocks on the raw elements, attention pooling, a decoder of attention blocks."""

    def __init__(self, config: ModelConfig, style: Style) -> None:
        super().__init__()
        dims = [config.in_features, *[config.width] * (config.depth - 1)]
        self.encoder = nn.ModuleList(InducedAttention(config, style, dim=dim, clean=False) for dim in dims)
        self.pool = AttentionPool(config, style, clean=False)
        self.decoder = AttentionDecoder(config, style, clean=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        for layer in self.encoder:
            x = layer(x, mask)
        return self.decoder(self.pool(x, mask))


class SetTransformer(nn.Module):
    """Set Transformer++: a linear layer, induced attention blocks, a norm, attention pooling, a decoder of attention blocks."""

    def __init__(self, config: ModelConfig, style: Style) -> None:
        super().__init__()
        blocks = [InducedAttention(config, style) for _ in range(config.depth)]
        self.encoder = nn.ModuleList([nn.Linear(config.in_features, config.width), *blocks, SetNorm(config, style)])
        self.pool = AttentionPool(config, style)
        self.decoder = AttentionDecoder(config, style)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        h: Tensor = self.encoder[0](x)
        for layer in self.encoder[1:]:
            h = layer(h, mask)
        return self.decoder(self.pool(h, mask))


class AttentionPool(nn.Module):
    """A learned seed attends to the elements."""

    def __init__(self, config: ModelConfig, style: Style, *, clean: bool = True) -> None:
        super().__init__()
        self.seeds = nn.Parameter(torch.empty(1, config.width))
        self.mab = AttentionBlock(config, style, clean=clean)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return self.mab(self.seeds.expand(len(x), -1, -1), x, key_mask=mask)


class AttentionDecoder(nn.Module):
    """The pooled vector, as a set of one element, attends to itself three times; then a linear layer."""

    def __init__(self, config: ModelConfig, style: Style, *, clean: bool = True) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(SelfAttention(config, style, clean=clean) for _ in range(3))
        self.out = nn.Linear(config.width, config.out_features)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.out(x.squeeze(1))


class InducedAttention(nn.Module):
    """Learned points gather from the elements, the elements read from the points."""

    def __init__(self, config: ModelConfig, style: Style, *, dim: int | None = None, clean: bool = True) -> None:
        super().__init__()
        self.points = nn.Parameter(torch.empty(config.num_inducing, config.width))
        norms = ("query_norm", "key_norm", "out_norm") if clean else ()
        self.gather = AttentionBlock(config, style, norms=norms[1:], key_dim=dim, clean=clean)
        self.scatter = AttentionBlock(config, style, norms=norms, query_dim=dim, clean=clean)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        h = self.gather(self.points.expand(len(x), -1, -1), x, key_mask=mask)
        return self.scatter(x, h, query_mask=mask)


class SelfAttention(nn.Module):
    """The elements of each set attend to each other."""

    def __init__(self, config: ModelConfig, style: Style, *, clean: bool = True) -> None:
        super().__init__()
        self.mab = AttentionBlock(config, style, clean=clean)

    def forward(self, x: Tensor) -> Tensor:
        return self.mab(x, x)


class AttentionBlock(nn.Module):
    """A multihead attention block in the order of the released code, with the norms that are named.

    What is added to the attention is its query: as it came, which is a clean path, or as it was mapped.
    """

    def __init__(
        self,
        config: ModelConfig,
        style: Style,
        *,
        norms: tuple[str, ...] = (),
        query_dim: int | None = None,
        key_dim: int | None = None,
        clean: bool = True,
    ) -> None:
        super().__init__()
        width = config.width
        self.heads, self.style, self.clean = config.num_heads, style, clean
        dims = {"fc_q": query_dim or width, "fc_k": key_dim or width, "fc_v": key_dim or width}
        self.attend = nn.ModuleDict({name: nn.Linear(dim, width) for name, dim in dims.items()})
        self.fc = nn.Linear(width, width)
        self.query_norm, self.key_norm, self.out_norm = (
            SetNorm(config, style) if name in norms else NoNorm() for name in ("query_norm", "key_norm", "out_norm")
        )

    def forward(
        self, x: Tensor, y: Tensor, *, query_mask: Tensor | None = None, key_mask: Tensor | None = None
    ) -> Tensor:  # (N, Q, D), (N, M, D) -> (N, Q, D)
        queries, keys = self.query_norm(x, query_mask), self.key_norm(y, key_mask)
        q, k, v = self.attend["fc_q"](queries), self.attend["fc_k"](keys), self.attend["fc_v"](keys)
        h = (x if self.clean else q) + ATTENTIONS[self.style](q, k, v, self.heads, key_mask)
        return h + self.fc(self.out_norm(h, query_mask)).relu()


def attend_stacked(q: Tensor, k: Tensor, v: Tensor, num_heads: int, mask: Tensor | None) -> Tensor:
    """Attention with the heads stacked along the batch, and scores and weights as whole tensors, as released."""
    num_sets, dim = q.shape[0], q.shape[2]
    qs, ks, vs = (torch.cat(a.split(dim // num_heads, 2), 0) for a in (q, k, v))  # (H * N, ..., D / H)
    scores = qs.bmm(ks.transpose(1, 2)) / math.sqrt(dim)
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None].repeat(num_heads, 1, 1), -math.inf)
    return torch.cat(torch.softmax(scores, 2).bmm(vs).split(num_sets, 0), 2)


def attend_fused(q: Tensor, k: Tensor, v: Tensor, num_heads: int, mask: Tensor | None) -> Tensor:
    """Attention by PyTorch's own fused function."""
    qs, ks, vs = (a.unflatten(2, (num_heads, -1)).transpose(1, 2) for a in (q, k, v))  # (N, H, ..., D / H)
    shown = None if mask is None else mask[:, None, None]
    out = F.scaled_dot_product_attention(qs, ks, vs, shown, scale=1 / math.sqrt(q.shape[2]))
    return out.transpose(1, 2).flatten(2)


ATTENTIONS: dict[str, Callable[[Tensor, Tensor, Tensor, int, Tensor | None], Tensor]] = {
    "released": attend_stacked,
    "plain": attend_fused,
}


class SetNorm(nn.Module):
    """Set norm of a padded tensor."""

    def __init__(self, config: ModelConfig, style: Style) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(config.width))
        self.bias = nn.Parameter(torch.zeros(config.width))
        self.eps, self.style = config.eps, style

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return set_norm(x, self.weight, self.bias, self.eps, mask, style=self.style)


class NoNorm(nn.Module):
    """In the place of a norm."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return x


def set_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float, mask: Tensor | None = None, *, style: Style) -> Tensor:
    """(N, M, D) -> (N, M, D): each set standardised, then scaled and shifted per feature, by a diagonal matrix as released."""
    h = F.layer_norm(x, x.shape[1:], eps=eps) if mask is None else standardise_padded(x, mask, eps)
    if style == "released":
        return F.linear(h, torch.diag_embed(weight)) + bias
    return h * weight + bias


def standardise_padded(x: Tensor, mask: Tensor, eps: float) -> Tensor:
    """Each set less its mean, over its standard deviation; padding comes out as 0."""
    count = mask.sum(1) * x.shape[2]  # (N,)
    centred = hide(x - (hide(x, mask).sum((1, 2)) / count)[:, None, None], mask)
    variance = centred.square().sum((1, 2)) / count
    return centred * torch.rsqrt(variance + eps)[:, None, None]


def hide(x: Tensor, mask: Tensor | None) -> Tensor:
    """Zeros in place of padding."""
    return x if mask is None else x.masked_fill(~mask[..., None], 0)


def pyg_set_norm(weight: Tensor, bias: Tensor, eps: float) -> nn.Module:
    """PyTorch Geometric's layer norm over graphs, which is set norm but for the place of eps. It takes (T, D) and set numbers."""
    from torch_geometric.nn import LayerNorm  # type: ignore[import-not-found] # here only where it is measured

    norm = LayerNorm(len(weight), eps=eps, mode="graph").to(weight)
    norm.load_state_dict({"weight": weight, "bias": bias})
    return norm


def _sizes(config: ModelConfig) -> dict[str, Any]:
    names = ["depth", "width"]
    if config.name.startswith("set_transformer"):
        names += ["num_heads", "num_inducing"]
    return {name: getattr(config, name) for name in names}
