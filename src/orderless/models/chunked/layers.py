"""Layers as walks: what they do to the elements of one chunk, stopping at each question about whole sets.

A walk is a generator. It computes with the elements of the chunk, yields a `Question` where it needs to know something of whole
sets, is sent the `Answer`, and continues; in the end it returns the new elements. So it reads like the layer's `forward`, and can
be run as far as answers are known. A layer without a question acts on each element alone, and is called as it is.

Letters: N sets, T elements in all sets, n elements in a chunk, S sets that have elements in it, D features, I points of a set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from typing import Any

import torch
from torch import Tensor, nn

from orderless.models.chunked.questions import Answer, Gathering, Max, Mean, Moments, Question, Sum
from orderless.models.chunked.source import Chunk
from orderless.models.pointcloud import SubtractMax
from orderless.nn import (
    ISAB,
    MAB,
    PMA,
    AggregatedBlock,
    AggregatedSkip,
    BatchNorm,
    CleanBlock,
    ElementDropout,
    ElementLinear,
    ElementReLU,
    ElementTanh,
    FeatureNorm,
    FreqAddBlock,
    InstanceNorm,
    ISABPlusPlus,
    LayerNorm,
    MABPlusPlus,
    MaxPool,
    MeanPool,
    MultiheadAttention,
    NonCleanBlock,
    PlainLayer,
    PMAPlusPlus,
    SetNorm,
    SumPool,
)
from orderless.nn.residual import NormFirstBranch, WeightFirstBranch
from orderless.sets import SetBatch

Walk = Generator[Question, Answer, Tensor]


def walk(module: nn.Module, x: Tensor, chunk: Chunk) -> Walk:
    """What `module` makes of the elements (n, ...) of a chunk."""
    return WALKS[type(module)](module, x, chunk)


def _alone(layer: nn.Module, x: Tensor, chunk: Chunk) -> Walk:
    """A layer that is done to each element alone."""
    yield from ()
    done: SetBatch = layer(chunk.batch(x))
    return done.x


def _nothing(layer: nn.Module, x: Tensor, chunk: Chunk) -> Walk:
    yield from ()
    return x


def _in_turn(layers: nn.Sequential, x: Tensor, chunk: Chunk) -> Walk:
    for layer in layers:
        x = yield from walk(layer, x, chunk)
    return x


# ------------------------------------------------------------------------------------------------------------- norms


def _norm(norm: SetNorm | InstanceNorm, x: Tensor, chunk: Chunk) -> Walk:
    moments = yield from _moments(norm, x, chunk)
    return _normalise(norm, x, moments, chunk)


def _moments(norm: nn.Module, x: Tensor, chunk: Chunk) -> Generator[Question, Answer, Answer | None]:
    """What a norm has to know of whole sets; None where it needs nothing."""
    if not isinstance(norm, SetNorm | InstanceNorm):
        return None
    return (yield Moments(x, chunk, per_feature=isinstance(norm, InstanceNorm)))


def _normalise(norm: nn.Module, x: Tensor, moments: Answer | None, chunk: Chunk) -> Tensor:
    if moments is None:
        done: SetBatch = norm(chunk.batch(x))
        return done.x
    assert isinstance(norm, SetNorm | InstanceNorm)
    rest, variance = moments.value.unbind(-1)  # (S, 1 or D) each
    gain = torch.rsqrt(variance + norm.eps) * norm.weight  # (S, D), so that elements meet one product and two sums
    h = x.to(rest.dtype) - chunk.spread(moments.fixed[..., 0])
    return torch.addcmul(chunk.spread(norm.bias - rest * gain), h, chunk.spread(gain)).to(x.dtype)


# --------------------------------------------------------------------------------------------------------- Deep Sets


def _plain_layer(layer: PlainLayer, x: Tensor, chunk: Chunk) -> Walk:
    return (yield from walk(layer.norm, layer.fc(x), chunk)).relu()


def _freq_add(block: FreqAddBlock, x: Tensor, chunk: Chunk) -> Walk:
    return (x + (yield from walk(block.norm, block.fc(x), chunk))).relu()


def _non_clean(block: NonCleanBlock, x: Tensor, chunk: Chunk) -> Walk:
    return (x + (yield from walk(block.branch, x, chunk))).relu()


def _clean(block: CleanBlock, x: Tensor, chunk: Chunk) -> Walk:
    return x + (yield from walk(block.branch, x, chunk))


def _aggregated(block: AggregatedBlock, x: Tensor, chunk: Chunk) -> Walk:
    return (yield from walk(block.skip, x, chunk)) + (yield from walk(block.branch, x, chunk))


def _norm_first(branch: NormFirstBranch, x: Tensor, chunk: Chunk) -> Walk:
    h = (yield from walk(branch.norm1, x, chunk)).relu()
    h = (yield from walk(branch.norm2, branch.fc1(h), chunk)).relu()
    return branch.fc2(h)


def _weight_first(branch: WeightFirstBranch, x: Tensor, chunk: Chunk) -> Walk:
    h = (yield from walk(branch.norm1, branch.fc1(x), chunk)).relu()
    return (yield from walk(branch.norm2, branch.fc2(h), chunk))


def _skip(skip: AggregatedSkip, x: Tensor, chunk: Chunk) -> Walk:
    return chunk.spread((yield from walk(skip.pool, x, chunk)))


def _subtract_max(layer: SubtractMax, x: Tensor, chunk: Chunk) -> Walk:
    return x - chunk.spread((yield Max(x, chunk)).value.to(x.dtype))


# --------------------------------------------------------------------------------------------------------- attention


def _isab_plus_plus(block: ISABPlusPlus, x: Tensor, chunk: Chunk) -> Walk:
    gather, scatter = block.gather, block.scatter
    assert isinstance(gather, MABPlusPlus)
    assert isinstance(scatter, MABPlusPlus)
    moments = yield from _moments(gather.key_norm, x, chunk)  # as keys and as queries: the same elements, asked about once
    points = yield from _gather_plus_plus(gather, block.points, lambda: _normalise(gather.key_norm, x, moments, chunk), x, chunk)
    queries = _normalise(scatter.query_norm, x, moments, chunk)
    return (yield from _scatter_plus_plus(scatter, x, queries, points, chunk))


def _pma_plus_plus(pool: PMAPlusPlus, x: Tensor, chunk: Chunk) -> Walk:
    mab = pool.mab
    assert isinstance(mab, MABPlusPlus)
    keys = yield from walk(mab.key_norm, x, chunk)
    return (yield from _gather_plus_plus(mab, pool.seeds, lambda: keys, x, chunk)).x


def _gather_plus_plus(
    mab: MABPlusPlus, points: Tensor, make_keys: Callable[[], Tensor], x: Tensor, chunk: Chunk
) -> Generator[Question, Answer, SetBatch]:
    """`MABPlusPlus` from learned points (I, D) to elements: everything but the attention is done to the points alone."""
    sets = SetBatch.repeat(points, chunk.num_sets)

    def keys_and_values() -> tuple[Tensor, Tensor]:
        keys = make_keys()
        return keys, keys if mab.order == "released" else x

    q = sets.with_x(mab.attend.fc_q(mab.query_norm(sets).x))
    attended = yield from _attend(mab.attend, q, keys_and_values, chunk)
    return mab.after_attention(sets, sets.with_x(attended))


def _scatter_plus_plus(mab: MABPlusPlus, x: Tensor, queries: Tensor, points: SetBatch, chunk: Chunk) -> Walk:
    """`MABPlusPlus` from elements to the points of their set, which is done to each element alone but for norms and skips."""
    keys = mab.key_norm(points)
    values = keys if mab.order == "released" else points
    attended: SetBatch = mab.attend(chunk.batch(queries), keys, values)
    h = (yield from walk(mab.skip, x, chunk)) + attended.x
    skip = yield from walk(mab.skip, h, chunk)
    return skip + mab.feed_forward((yield from walk(mab.out_norm, h, chunk)))


def _isab(block: ISAB, x: Tensor, chunk: Chunk) -> Walk:
    gather, scatter = block.gather, block.scatter
    assert isinstance(gather, MAB)
    assert isinstance(scatter, MAB)
    points = yield from _gather(gather, block.points, x, chunk)
    return (yield from _scatter(scatter, x, points, chunk))


def _pma(pool: PMA, x: Tensor, chunk: Chunk) -> Walk:
    assert isinstance(pool.mab, MAB)
    return (yield from _gather(pool.mab, pool.seeds, x, chunk)).x


def _gather(mab: MAB, points: Tensor, x: Tensor, chunk: Chunk) -> Generator[Question, Answer, SetBatch]:
    """`MAB` from learned points (I, D) to elements."""
    sets = SetBatch.repeat(points, chunk.num_sets)
    q = sets.with_x(mab.attend.fc_q(sets.x))
    h: SetBatch = mab.attention_norm(sets.with_x(q.x + (yield from _attend(mab.attend, q, lambda: (x, x), chunk))))
    return mab.out_norm(h.with_x(h.x + mab.fc(h.x).relu()))


def _scatter(mab: MAB, x: Tensor, points: SetBatch, chunk: Chunk) -> Walk:
    """`MAB` from elements to the points of their set."""
    q = mab.attend.fc_q(x)
    attended = mab.attend.from_query(chunk.batch(q), points, points)
    h = yield from walk(mab.attention_norm, q + attended.x, chunk)
    return (yield from walk(mab.out_norm, h + mab.fc(h).relu(), chunk))


def _attend(attend: MultiheadAttention, q: SetBatch, keys_and_values: Callable[[], tuple[Tensor, Tensor]], chunk: Chunk) -> Walk:
    """`MultiheadAttention` of projected queries, I a set, over the elements of their set: (S * I, D).

    Keys and values are made when they are needed: not on the way through a question that is answered already.
    """
    assert q.set_size is not None

    def project() -> tuple[Tensor, Tensor]:
        keys, values = keys_and_values()
        return attend.fc_k(keys), attend.fc_v(values)

    queries = q.x.reshape(q.num_sets, q.set_size, attend.dim)
    answer = yield Gathering(queries, project, chunk, num_heads=attend.num_heads, scale=1 / math.sqrt(attend.dim))
    return answer.value.flatten(0, 1).to(q.dtype)


# ----------------------------------------------------------------------------------------------------------- pooling


def _sum(pool: SumPool, x: Tensor, chunk: Chunk) -> Walk:
    return (yield Sum(x, chunk)).value.to(x.dtype)


def _mean(pool: MeanPool, x: Tensor, chunk: Chunk) -> Walk:
    return (yield Mean(x, chunk)).value.to(x.dtype)


def _max(pool: MaxPool, x: Tensor, chunk: Chunk) -> Walk:
    return (yield Max(x, chunk)).value.to(x.dtype)


WALKS: dict[type[nn.Module], Callable[[Any, Tensor, Chunk], Walk]] = {
    nn.Sequential: _in_turn,
    nn.Identity: _nothing,
    ElementDropout: _nothing,  # in eval mode; `check_supported` sees to it
    ElementLinear: _alone,
    ElementReLU: _alone,
    ElementTanh: _alone,
    LayerNorm: _alone,
    FeatureNorm: _alone,  # in eval mode
    BatchNorm: _alone,  # in eval mode
    SetNorm: _norm,
    InstanceNorm: _norm,
    PlainLayer: _plain_layer,
    FreqAddBlock: _freq_add,
    NonCleanBlock: _non_clean,
    CleanBlock: _clean,
    AggregatedBlock: _aggregated,
    AggregatedSkip: _skip,
    NormFirstBranch: _norm_first,
    WeightFirstBranch: _weight_first,
    SubtractMax: _subtract_max,
    ISAB: _isab,
    ISABPlusPlus: _isab_plus_plus,
    PMA: _pma,
    PMAPlusPlus: _pma_plus_plus,
    SumPool: _sum,
    MeanPool: _mean,
    MaxPool: _max,
}
