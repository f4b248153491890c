"""AnnData files: cells are elements, a column of `obs` says which set a cell belongs to.

A sparse matrix stays sparse until the cells of a block are written.

Letters: n cells of a block, D variables.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.io.errors import DataError, WrongNameError
from orderless.io.extras import require
from orderless.io.hdf5_sets import open_hdf5
from orderless.io.long_table import check_set_id
from orderless.io.missing import MissingPolicy, split_indicators
from orderless.io.per_set import ConstantColumns, SetNumbers, natural_order
from orderless.io.sample_store import Progress, Reading
from orderless.io.samples import listed
from orderless.io.store import iterate_blocks
from orderless.io.tables import check_names

_WHAT = "an AnnData file (.h5ad)"
_BLOCK = 2**23  # numbers at a time


def read_anndata(
    path: Path,
    *,
    set_id: str | None,
    features: Sequence[str] | None,
    ignore: Sequence[str],
    layer: str | None,
    missing: MissingPolicy,
    progress: Progress,
) -> Reading:
    """Looks at an AnnData file: its sets, its variables, and what `obs` says of each set.

    Args:
        path: The file.
        set_id: Column of `obs` that says which set a cell belongs to.
        features: Variables to take. Default: all.
        ignore: Variables, or columns of `obs`, to leave out.
        layer: Layer to read instead of X.
        missing: What will be done about missing numbers.
        progress: Told how far it is, 0 to 1.
    """
    with open_hdf5(path, _WHAT) as file:
        obs, var = _frame(file, "obs", path), _frame(file, "var", path)
        place = _find_matrix(file, layer, path)
        matrix = _matrix(file, place)
        shape, dtype = _shape(matrix), matrix.dtype
    if shape != (len(obs), len(var)):
        raise DataError(path, expected=f"{place} of shape {(len(obs), len(var))}, as obs and var say", found=str(shape))
    if dtype.kind not in "fiub":  # of complex numbers half would be lost on the way to float32
        fix = "Keep real numbers: the real and imaginary parts as variables of their own." if dtype.kind == "c" else ""
        raise DataError(path, expected=f"real numbers in {place}", found=str(dtype), fix=fix)
    variables = [str(name) for name in var.index]
    if len(set(variables)) != len(variables):
        fix = "Make them so with var_names_make_unique()."
        raise DataError(path, expected="names of variables that differ", found="some that are the same", fix=fix)
    kinds = {str(name): {"f": "float", "i": "number", "u": "number"}.get(obs[name].dtype.kind, "text") for name in obs.columns}
    set_id = check_set_id(set_id, kinds, path)
    asked, indicators = (variables, []) if features is None else split_indicators(features, variables, missing)
    check_names(asked, variables, "features=", path)
    if features is None:
        check_names(ignore, [*variables, *obs.columns], "ignore=", path)
    chosen = [name for name in asked if features is not None or name not in ignore]
    if not chosen:
        raise DataError(path, expected="at least one variable", found="none")
    numbers, codes, known = _group(obs, set_id, [set_id, *ignore], path)
    ids = list(numbers.names)
    order = natural_order(ids)
    final = np.argsort(order).astype(np.int32)[codes]  # (T,) number of each cell's set in that order
    progress(1.0)
    positions = {name: d for d, name in enumerate(variables)}
    columns = None if chosen == variables else [positions[name] for name in chosen]

    def blocks(tell: Progress) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        with open_hdf5(path, _WHAT) as file:
            matrix = _matrix(file, place)
            for block in iterate_blocks(len(final), max(1, _BLOCK // max(1, len(variables)))):
                rows = _checked(matrix[block.start : block.stop])
                rows = rows if columns is None else rows[:, columns]
                yield final[block.start : block.stop], rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows)
                tell(block.stop / len(final))

    unit = next((name for name in ("unit", "units") if name in var.columns), None)
    units = dict(zip(variables, var[unit].astype(str), strict=True)) if unit else {}
    return Reading(
        ids=[ids[i] for i in order],
        features=chosen,
        sizes=numbers.sizes[order],
        blocks=blocks,
        options={"set_id": set_id, "layer": layer},
        units=[units.get(name, "") for name in chosen],
        columns={name: [values.get(i) for i in order] for name, values in known.values.items()},
        varying=known.describe_varying(ids, numbers.sizes),
        notes=[f"columns of obs that differ within sets are not used: {listed(sorted(known.varying))}."] if known.varying else [],
        indicators=indicators,
    )


def _group(obs: Any, set_id: str, without: Sequence[str], path: Path) -> tuple[SetNumbers, NDArray[Any], ConstantColumns]:
    """Sets in the order of their first cell, the number of each cell's set (T,), and columns of `obs` that tell of sets."""
    if not len(obs):
        raise DataError(path, expected="cells", found="none")
    absent = int(obs[set_id].isna().sum())
    if absent:
        raise DataError(path, expected=f"a set in column {set_id!r} of every cell", found=f"none in {absent:,} cells")
    numbers = SetNumbers()
    groups = numbers.number(_arrow(obs[set_id]))
    known = ConstantColumns([str(name) for name in obs.columns if name not in without])
    for name in known.followed:
        known.see(name, _arrow(obs[name]), groups)
    return numbers, groups.codes[groups.local], known


def _arrow(series: Any) -> Any:
    pa = require("pyarrow", "io")
    try:
        return pa.Array.from_pandas(series)
    except (pa.ArrowException, TypeError):  # values of several kinds
        return pa.Array.from_pandas(series.astype(str))


def _frame(file: Any, name: str, path: Path) -> Any:
    if name not in file:
        raise DataError(path, expected=f"{_WHAT} with {name!r}", found=f"only {listed(list(file))}" if len(file) else "nothing")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about older versions of the format, which are read all the same
        frame = require("anndata.io", "io").read_elem(file[name])
    if not hasattr(frame, "columns"):  # of before anndata 0.7, where categories of `obs` are somewhere else
        fix = "Write it again: anndata.read_h5ad(...).write_h5ad(...)."
        raise DataError(path, expected=f"{name!r} as a table", found="an array, as of anndata before 0.7", fix=fix)
    return frame


def _find_matrix(file: Any, layer: str | None, path: Path) -> str:
    layers = list(file["layers"]) if "layers" in file else []
    if layer is not None:
        if layer not in layers:
            raise WrongNameError(path, expected=f"a layer {layer!r}", found=f"layers {listed(layers)}" if layers else "no layer")
        return f"layers/{layer}"
    if "X" not in file:
        fix = f"Name a layer: {listed(layers)}." if layers else ""
        raise DataError(path, expected="a matrix X", found="none", fix=fix)
    return "X"


def _matrix(file: Any, place: str) -> Any:
    """The matrix as something whose rows can be sliced without reading the others."""
    stored = file[place]
    if hasattr(stored, "shape"):
        return stored
    sparse = require("anndata.io", "io").sparse_dataset(stored)
    # by columns: rows cannot be read one by one, so all of it is turned, sparse as it is
    return _checked(sparse.to_memory()).tocsr() if sparse.format == "csc" else sparse


def _checked(rows: Any) -> Any:
    """A sparse matrix with places outside of it would be written outside of memory."""
    if hasattr(rows, "check_format"):
        rows.check_format(full_check=True)
        if (np.diff(rows.indptr) < 0).any():  # which scipy does not look at in a matrix that ends without a number
            raise ValueError("indptr must be a non-decreasing sequence")
    return rows


def _shape(matrix: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in matrix.shape)
