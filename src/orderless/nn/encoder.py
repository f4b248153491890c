"""Encoders: layers one after another, where kernels for a GPU may take several layers at once.

An encoder computes what its layers compute one by one. That is also how it runs everywhere but on a GPU, and wherever a layer has
a hook, which has to see that layer's own input and output.

Letters: N sets, T elements in all sets, D features, L blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from orderless import ops
from orderless.nn.attention import ISABPlusPlus, MABPlusPlus, PMAPlusPlus
from orderless.nn.elementwise import ElementLinear, ElementReLU
from orderless.nn.hooks import has_hooks
from orderless.nn.norm import BatchNorm, FeatureNorm, SetNorm
from orderless.nn.pool import MeanPool, SumPool
from orderless.nn.residual import CleanBlock, NormFirstBranch
from orderless.sets import SetBatch


class Encoded(NamedTuple):
    """The elements as encoded, and the statistics of the sets if kernels have computed them on the way."""

    batch: SetBatch
    statistics: Any = None


class Encoder(nn.Sequential):
    """Layers one after another. Shapes: SetBatch -> SetBatch. Permutation equivariant.

    Attributes:
        recompute: Keep only the input of each layer, and compute the layer again in the backward pass: less memory, more time. It
            may be set at any time: `model.encoder.recompute = True`. Layers with running statistics are not recomputed.
        compile_layers: Compile each layer that has no kernel with `torch.compile`. Layers of a kind share their code, so a deep
            network is compiled as fast as a shallow one. But every layer remains a call of its own, unlike with
            `torch.compile(model)`, so it is meant for CUDA graphs, which replay calls at no cost. A layer with a hook is not
            compiled.
    """

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__(*layers)
        self.recompute = self.compile_layers = False

    def forward(self, batch: SetBatch) -> SetBatch:
        layers = list(self)
        fuse = _may_fuse(layers, batch)
        if self.recompute and torch.is_grad_enabled():
            return _run_with_recomputation(layers, batch, fuse=fuse, compiled=self.compile_layers)
        return _run(layers, batch, fuse=fuse, compiled=self.compile_layers).batch

    def pooled(self, batch: SetBatch, pool: nn.Module) -> SetBatch | Tensor:
        """The pooled result: `pool(self(batch))`, without writing the elements before the pooling where kernels can do without.

        A sum and a linear layer may change places, so after norm and ReLU it is their sum or mean that is mapped.
        """
        layers: list[Any] = list(self)
        keeps_inputs_only = self.recompute and torch.is_grad_enabled()
        if keeps_inputs_only or has_hooks(self) or has_hooks(pool) or not _may_fuse(layers, batch):
            return pool(self(batch))
        last = tuple(type(layer) for layer in layers[-3:])
        if type(pool) in (SumPool, MeanPool) and last == (SetNorm, ElementReLU, ElementLinear):
            before, norm, linear = self._run(layers[:-3], batch), layers[-3], layers[-1]
            if before.statistics is not None:
                return _norm_relu_linear_pool(before, norm, linear, mean=type(pool) is MeanPool)
            return pool(self._run(layers[-3:], before.batch).batch)
        if type(pool) is PMAPlusPlus and pool.takes_raw_elements() and last[-1:] == (SetNorm,):
            before, norm = self._run(layers[:-1], batch), layers[-1]
            return _attention_pool(before, norm, pool) if before.statistics is not None else pool(norm(before.batch))
        return pool(self(batch))

    def _run(self, layers: Sequence[nn.Module], batch: SetBatch) -> Encoded:
        return _run(layers, batch, fuse=True, compiled=self.compile_layers)


def _may_fuse(layers: Sequence[nn.Module], batch: SetBatch) -> bool:
    """Whether kernels may take several layers at once: they run on such elements, and there is no hook in between."""
    return batch.x.ndim == 2 and ops.backend.choose(batch.x).name == "triton" and not any(has_hooks(layer) for layer in layers)


def _run(layers: Sequence[nn.Module], batch: SetBatch, *, fuse: bool, compiled: bool) -> Encoded:
    """The layers one after another, runs of blocks of one kind at once where that is possible."""
    call = _call_compiled if compiled else _call
    if not fuse:
        for layer in layers:
            batch = call(layer, batch)
        return Encoded(batch)
    encoded = Encoded(batch)
    for kind, blocks in _runs(layers):
        if kind is CleanBlock and ops.clean_blocks_obstacle(encoded.batch.x) is None:
            encoded = _clean_blocks(blocks, encoded.batch)
        elif kind is ISABPlusPlus and ops.induced_blocks_obstacle(encoded.batch.x, *_attention_sizes(blocks[0])) is None:
            encoded = _induced_blocks(blocks, encoded.batch)
        else:
            for layer in blocks:
                encoded = Encoded(call(layer, encoded.batch))
    return encoded


def _call(layer: nn.Module, batch: SetBatch) -> SetBatch:
    found: SetBatch = layer(batch)
    return found


def _call_compiled(layer: nn.Module, batch: SetBatch) -> SetBatch:
    kind: Any = type(layer)
    return _call(layer, batch) if has_hooks(layer) else _compiled_forward(kind)(layer, batch)


@cache
def _compiled_forward(kind: Any) -> Callable[[nn.Module, SetBatch], SetBatch]:
    compiled: Callable[[nn.Module, SetBatch], SetBatch] = torch.compile(kind.forward)
    return compiled


def _run_with_recomputation(layers: Sequence[nn.Module], batch: SetBatch, *, fuse: bool, compiled: bool) -> SetBatch:
    call = _call_compiled if compiled else _call
    for layer in layers:
        if any(isinstance(m, FeatureNorm | BatchNorm | nn.modules.batchnorm._BatchNorm) for m in layer.modules()):
            batch = call(layer, batch)  # computed again, its running statistics would take the batch in twice
            continue
        draws = not all(_never_draws(m) for m in layer.modules())  # then the same numbers are drawn again
        run = partial(_run, [layer], fuse=fuse, compiled=compiled)
        batch = checkpoint(run, batch, use_reentrant=False, preserve_rng_state=draws).batch
    return batch


def _runs(layers: Sequence[nn.Module]) -> list[tuple[type[nn.Module] | None, list[nn.Module]]]:
    """Layers in a row that are alike, with their kind; `itertools.groupby` would be a graph break."""
    runs: list[tuple[tuple[Any, ...] | None, list[nn.Module]]] = []
    for layer in layers:
        traits = _traits(layer)
        if runs and traits is not None and traits == runs[-1][0]:
            runs[-1][1].append(layer)
        else:
            runs.append((traits, [layer]))
    return [(None if traits is None else traits[0], run) for traits, run in runs]


def _never_draws(module: nn.Module) -> bool:
    """Whether a module, without those inside it, is known to compute without random numbers."""
    is_ours = type(module).__module__.startswith("orderless.nn.") and not isinstance(module, nn.Dropout)
    return is_ours or type(module) in (nn.Linear, nn.Identity)


def _traits(layer: nn.Module) -> tuple[Any, ...] | None:
    """Kind and constants of a block that ops take a run of, if they are alike; None for other layers.

    Kernels know set norms, clean paths and the released order, and nothing that was put in their place.
    """
    if type(layer) is CleanBlock and type(layer.branch) is NormFirstBranch:
        b: Any = layer.branch
        norms, maps = [b.norm1, b.norm2], [b.fc1, b.fc2]
        return (CleanBlock, b.norm1.eps) if _are_plain(norms, maps) and all(fc.bias is None for fc in maps) else None
    if type(layer) is ISABPlusPlus:
        gather, scatter = layer.gather, layer.scatter
        if not all(type(mab) is MABPlusPlus and mab.is_plain() for mab in (gather, scatter)):
            return None
        norms, maps = _parts_of_isab(layer)
        heads = {gather.attend.num_heads, scatter.attend.num_heads}
        if _are_plain(norms, maps) and isinstance(gather.query_norm, nn.Identity) and len(heads) == 1:
            return (ISABPlusPlus, norms[0].eps, *_attention_sizes(layer))
    return None


def _are_plain(norms: list[Any], maps: list[Any]) -> bool:
    return (
        all(type(norm) is SetNorm for norm in norms)
        and len({norm.eps for norm in norms}) == 1
        and all(type(fc) is nn.Linear for fc in maps)
    )


def _parts_of_isab(block: Any) -> tuple[list[Any], list[Any]]:
    """The norms and the linear maps of a block, in the order of `ops.InducedParameters`."""
    gather, scatter = block.gather, block.scatter
    norms = [gather.key_norm, gather.out_norm, scatter.query_norm, scatter.key_norm, scatter.out_norm]
    return norms, [fc for mab in (gather, scatter) for fc in (mab.attend.fc_q, mab.attend.fc_k, mab.attend.fc_v, mab.fc)]


def _clean_blocks(blocks: Sequence[Any], batch: SetBatch) -> Encoded:
    branches = [block.branch for block in blocks]
    scale = torch.stack([norm.weight for b in branches for norm in (b.norm1, b.norm2)]).unflatten(0, (-1, 2))
    shift = torch.stack([norm.bias for b in branches for norm in (b.norm1, b.norm2)]).unflatten(0, (-1, 2))
    weight = torch.stack([fc.weight for b in branches for fc in (b.fc1, b.fc2)]).unflatten(0, (-1, 2))
    x, statistics = ops.clean_blocks(batch.x, batch.offsets, scale, shift, weight, eps=branches[0].norm1.eps)
    return Encoded(batch.with_x(x), statistics)


def _attention_sizes(block: Any) -> tuple[int, int]:
    return block.points.shape[0], block.gather.attend.num_heads


def _induced_blocks(blocks: Sequence[Any], batch: SetBatch) -> Encoded:
    """Hands the parameters of all blocks over."""
    parts = [_parts_of_isab(block) for block in blocks]
    norms, maps = [norm for norms, _ in parts for norm in norms], [fc for _, maps in parts for fc in maps]
    parameters = ops.InducedParameters(
        points=torch.stack([block.points for block in blocks]),
        weights=torch.stack([fc.weight for fc in maps]).unflatten(0, (-1, 8)),
        biases=torch.stack([fc.bias for fc in maps]).unflatten(0, (-1, 8)),
        scales=torch.stack([norm.weight for norm in norms]).unflatten(0, (-1, 5)),
        shifts=torch.stack([norm.bias for norm in norms]).unflatten(0, (-1, 5)),
    )
    num_heads = blocks[0].gather.attend.num_heads
    x, statistics = ops.induced_blocks(batch.x, batch.offsets, parameters, num_heads=num_heads, eps=norms[0].eps)
    return Encoded(batch.with_x(x), statistics)


def _norm_relu_linear_pool(before: Encoded, norm: SetNorm, linear: ElementLinear, *, mean: bool) -> Tensor:
    batch = before.batch
    pooled = ops.norm_relu_pool(
        batch.x, batch.offsets, norm.weight, norm.bias, mean=mean, eps=norm.eps, statistics=before.statistics
    )
    out = F.linear(pooled, linear.weight)
    times = (batch.sizes > 0 if mean else batch.sizes)[:, None]  # how often the bias is in the sum, or in the mean
    wide = ops.statistics_dtype(out.dtype)  # in which sizes are exact
    return out if linear.bias is None else out + (times * linear.bias.to(wide)).to(out.dtype)


def _attention_pool(before: Encoded, norm: SetNorm, pool: PMAPlusPlus) -> SetBatch:
    """Attention pooling behind a set norm. Values are linear in the elements: the weighted mean comes first, then the map."""
    mab = pool.mab
    assert isinstance(mab, MABPlusPlus)
    batch, attend = before.batch, mab.attend
    heads = (attend.num_heads, -1)
    queries = ops.fold_queries(
        pool.seeds, attend.fc_q.weight, attend.fc_q.bias, attend.fc_k.weight, num_heads=attend.num_heads
    )  # (H, I, D)
    queries = queries + 0 * attend.fc_k.bias.sum()  # it cancels in the softmax, but a parameter has a gradient, of zeros
    seen = ops.norm_attention_pool(
        batch.x,
        batch.offsets,
        queries.flatten(0, 1),
        norm.weight,
        norm.bias,
        eps=norm.eps,
        statistics=before.statistics,
    ).unflatten(1, queries.shape[:2])  # (N, H, I, D)
    # every head's part of the map on what every head has seen, of which the own is kept: torch.einsum would refuse one set
    # in a program exported for any number
    values = F.linear(seen, attend.fc_v.weight.to(seen.dtype)).unflatten(3, heads)  # (N, H, I, H, C)
    values = values.diagonal(dim1=1, dim2=3).mT.flatten(2)  # (N, I, D)
    bias = attend.fc_v.bias * (batch.sizes > 0)[:, None, None]  # attention over nothing is zero, bias and all
    seeds = SetBatch.repeat(pool.seeds, batch.num_sets)
    attended = (values + bias).flatten(0, 1)
    return mab.after_attention(seeds, seeds.with_x(attended.to(torch.promote_types(batch.dtype, pool.seeds.dtype))))
