"""Operators of our networks in ONNX's own, where torch's exporter has no word for them, too many words, or the wrong ones.

Letters: N sets, T elements in all sets, D features.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_TILE = 32  # rows


def check_program(program: torch.export.ExportedProgram) -> None:
    """That the program asks nothing of `bucketize` but places among 0, 1, 2, ..., which is all that its translation knows."""
    aten = torch.ops.aten
    for node in program.graph.nodes:
        if node.target is aten.bucketize.Tensor and getattr(node.args[0], "target", None) is not aten.arange.default:
            raise NotImplementedError(f"only bucketize(arange(n), ...) can be written as ONNX, got {node}.")


def translations(op: Any) -> dict[Any, Callable[..., Any]]:
    """ONNX for operators that torch's exporter has no word for, or too many, by the operator of torch.

    Args:
        op: The operators of onnxscript.
    """

    def gather(x: Any, indices: Any) -> Any:
        if len(indices) != 1:
            raise NotImplementedError(f"x[i] with one index is all that is translated, got {len(indices)}.")
        return op.Gather(x, indices[0], axis=0)

    def count_below(ends: Any, count: Any) -> Any:
        """For 0, 1, ..., count - 1, how many of `ends` are no larger: 1 at every end, added up."""
        one, zero = op.Constant(value_ints=[1]), op.Constant(value_ints=[0])
        count = op.Reshape(count, one)
        at_ends = add_up(op.Expand(zero, op.Add(count, one)), ends, op.Expand(one, op.Shape(ends)))
        return op.Slice(op.CumSum(at_ends, op.Constant(value_int=0)), zero, count)

    def add_up(x: Any, index: Any, source: Any) -> Any:
        """x[index[i]] += source[i], one after the other; `ScatterND` lets threads add to one row at once, and loses some."""
        return op.ScatterElements(x, op.Expand(index, op.Shape(source)), source, axis=0, reduction="add")

    def add_up_sorted(x: Any, index: Any, source: Any) -> Any:
        """The same for rows (T, D) whose indices never fall: tiles of rows are summed first, which many threads do at once."""
        one, zero, tile = op.Constant(value_ints=[1]), op.Constant(value_ints=[0]), op.Constant(value_ints=[_TILE])
        rows, sets, axis = op.Shape(index), op.Shape(x, start=0, end=1), op.Constant(value_int=0)
        sizes = add_up(op.Expand(zero, sets), index, op.Expand(one, rows))
        tiles = op.Div(op.Add(sizes, op.Constant(value_ints=[_TILE - 1])), tile)
        ends, last = op.CumSum(sizes, axis), op.CumSum(tiles, axis)
        most = op.Add(op.Div(rows, tile), sets)  # tiles, whatever the sizes
        owner = count_below(last, most)
        set_of = op.Min(owner, op.Sub(sets, one))  # a spare tile, with no row in it, goes to the last set
        number = op.Range(axis, op.Squeeze(most), op.Constant(value_int=1))
        first = op.Add(
            op.Gather(op.Sub(ends, sizes), set_of), op.Mul(op.Sub(number, op.Gather(op.Sub(last, tiles), set_of)), tile)
        )
        row = op.Add(op.Unsqueeze(first, one), op.Constant(value_ints=list(range(_TILE))))  # (tiles, rows of a tile)
        is_row = op.And(op.Less(row, op.Unsqueeze(op.Gather(ends, set_of), one)), op.Less(op.Unsqueeze(owner, one), sets))
        no_row = op.Expand(op.CastLike(op.Constant(value_float=0.0), source), op.Concat(one, op.Shape(source, start=1), axis=0))
        cut = op.Gather(op.Concat(source, no_row, axis=0), op.Where(is_row, row, rows), axis=0)
        return add_up(x, op.Unsqueeze(set_of, one), op.ReduceSum(cut, one, keepdims=0))

    def index_add(x: Any, dim: int, index: Any, source: Any, alpha: float = 1) -> Any:
        if dim != 0 or alpha != 1:
            raise NotImplementedError(f"rows are added as they are; got dim={dim}, alpha={alpha}.")
        if len(source.shape) == 2:  # elements of sets, which come one set after another
            return add_up_sorted(x, index, source)
        return add_up(x, op.Unsqueeze(index, op.Constant(value_ints=list(range(1, len(source.shape))))), source)

    def repeat_interleave(repeats: Any, output_size: Any = None) -> Any:
        if output_size is None:
            raise NotImplementedError("the number of elements must be known: pass output_size.")
        return count_below(op.CumSum(repeats, op.Constant(value_int=0)), output_size)

    def bucketize(x: Any, boundaries: Any, out_int32: bool = False, right: bool = False) -> Any:
        if out_int32 or not right:
            raise NotImplementedError(f"int64 and right=True are translated; got out_int32={out_int32}, right={right}.")
        return op.Gather(count_below(boundaries, op.Shape(x)), x)  # `check_program` has seen that x is 0, 1, ...

    aten = torch.ops.aten
    return {
        aten.index.Tensor: gather,
        aten.index_add.default: index_add,
        aten.repeat_interleave.Tensor: repeat_interleave,
        aten.bucketize.Tensor: bucketize,
    }
