"""Reading sets: every form in which they may come, batch by batch, so that memory does not grow with them.

Sets may come as

- a list of (n_i, *element) arrays or tensors,
- a `SetBatch`,
- a dense array or tensor (N, M, *element),
- anything with `len` and with `.batches(batch_size)` that yields objects with `.sets`, such as `SetDataset`,
- anything with `sets` that are gathered by number, such as `orderless.io.Samples`.

Letters: N sets, T elements, M elements of the largest set, D features of an element, S sampled elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import Tensor

from orderless.sets import SetBatch

Array = NDArray[np.float64]

_GATHERED_ELEMENTS = 2**18  # of stored sets that are held at once, where a single set is not larger by itself


def iterate_sets(X: Any, batch_size: int) -> Iterator[SetBatch]:
    """Goes through sets in their order, in batches.

    Args:
        X: Sets, in any of the forms that the top of this file lists.
        batch_size: Sets in a batch.
    """
    check_positive(batch_size=batch_size)
    if _is_dataset(X):
        return (labelled.sets for labelled in X.batches(batch_size))
    if _is_stored(X):
        return _iterate_stored(X.sets, batch_size)
    X = _as_sequence(X)
    return (_join(X[start : start + batch_size]) for start in range(0, len(X), batch_size))


def num_sets(X: Any) -> int:
    """How many sets there are, in any of the forms that `iterate_sets` takes."""
    return len(X if _is_dataset(X) or _is_stored(X) else _as_sequence(X))


def take_sets(X: Any, indices: Sequence[int] | NDArray[np.integer[Any]]) -> Any:
    """Some sets, in the form in which all came: a list gives a list, stored sets give stored sets.

    Args:
        X: Sets, in any form that `iterate_sets` takes but one that only has `batches`.
        indices: Numbers of the sets that are wanted, in the order in which they are wanted.
    """
    chosen = np.asarray(indices, dtype=np.int64)
    if hasattr(X, "select") and _is_stored(X):
        return X.select(chosen)
    if isinstance(X, list | tuple):
        return [X[n] for n in chosen.tolist()]
    if isinstance(X, SetBatch | Tensor):
        return X[torch.from_numpy(chosen)]
    if isinstance(X, np.ndarray):
        return X[chosen]
    raise TypeError(
        "sets to take from must come as a list of (n_i, D) arrays, an array of such, a SetBatch, an array (N, M, D) or Samples, "
        f"got {type(X).__name__}."
    )


def sizes_of(X: Any) -> NDArray[np.int64]:
    """(N,) how many elements each set has. A dataset knows, and need not be read."""
    if hasattr(X, "sizes"):
        return np.asarray(X.sizes.cpu() if isinstance(X.sizes, Tensor) else X.sizes)
    sizes = [batch.sizes.cpu().numpy() for batch in iterate_sets(X, 64)]
    return np.concatenate(sizes) if sizes else np.zeros(0, dtype=np.int64)


def num_features(batch: SetBatch) -> int:
    """D: how many numbers an element has, whatever its shape."""
    return int(np.prod(batch.element_shape, dtype=np.int64))


def elements_of(batch: SetBatch) -> NDArray[Any]:
    """(T, D) float32 or float64, finite."""
    x = batch.x.detach().cpu()
    if x.is_complex():
        raise ValueError("elements must be real numbers, got complex ones. Pass real and imaginary parts as two features.")
    if x.dtype != torch.float64:
        x = x.to(torch.float32 if x.is_floating_point() else torch.float64)
    elements = x.reshape(len(x), num_features(batch)).numpy()
    if not np.isfinite(elements).all():
        raise ValueError("elements must be finite, got NaN or infinity. Leave out such elements, or fill in what is missing.")
    return elements


def sample_elements(X: Any, count: int, random_state: int, batch_size: int) -> NDArray[Any]:
    """About `count` training elements at most, (S, D): as many of each set, or one of each of `count` sets where N is larger.

    Within a set they lie at equal steps from a random start, so none is taken twice. Depends on neither `batch_size` nor the
    form of `X`.
    """
    rng = check_random_state(random_state)
    N = num_sets(X)
    each = max(1, count // N)
    some = np.arange(N) if count >= N else np.flatnonzero(sizes_of(X))  # of a set without elements nothing can be taken
    chosen = np.zeros(N, dtype=np.int64)
    chosen[some[rng.permutation(len(some))[:count]]] = each  # (N,) how many of each set
    start = rng.uniform(size=N)
    parts, before = [], 0
    for batch in iterate_sets(X, batch_size):
        offsets = batch.offsets.cpu().numpy()
        now = slice(before, before + len(batch))
        sizes = np.diff(offsets)
        taken = np.minimum(chosen[now], sizes)
        which = np.repeat(np.arange(len(batch)), taken)  # (s,) the set of each element that is taken
        step = np.arange(len(which)) - np.repeat(taken.cumsum() - taken, taken)  # 0, 1, ... within each set
        place = ((step + start[now][which]) * sizes[which] / taken[which]).astype(np.int64)
        parts.append(elements_of(batch)[offsets[which] + np.minimum(place, sizes[which] - 1)])
        before += len(batch)
    sample = np.concatenate(parts)
    if len(sample) == 0:
        raise ValueError(f"fit needs at least one element, got {N} empty sets.")
    return sample


def check_positive(**counts: int) -> None:
    """Fails where a count is below 1, and says which."""
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} must be 1 or more, got {count}.")


def _is_dataset(X: Any) -> bool:
    return hasattr(X, "batches") and hasattr(X, "__len__")


def _is_stored(X: Any) -> bool:
    return hasattr(getattr(X, "sets", None), "gather")


def _iterate_stored(sets: Any, batch_size: int) -> Iterator[SetBatch]:
    """At most `batch_size` sets at once, and fewer where they are large."""
    sizes = np.asarray(sets.sizes, dtype=np.int64)
    start = 0
    while start < len(sizes):
        held = sizes[start : start + batch_size].cumsum()
        stop = start + max(1, int(np.searchsorted(held, _GATHERED_ELEMENTS, side="right")))
        numbers = np.arange(start, stop)
        yield SetBatch(sets.gather(numbers), np.concatenate([[0], sizes[numbers].cumsum()]))
        start = stop


def _as_sequence(X: Any) -> Any:
    """Something with `len` and slices."""
    if isinstance(X, SetBatch | list | tuple):
        return X
    if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1:
        return list(X)
    if isinstance(X, np.ndarray | Tensor):
        if X.ndim < 3:
            raise ValueError(
                f"sets in one array must have shape (N, M, D), N sets of M elements of D numbers, got {tuple(X.shape)}. "
                "One set alone is `x[None]`; sets of single numbers are `x[..., None]`."
            )
        return X
    raise TypeError(
        "sets must come as a list of (n_i, D) arrays, a SetBatch, an array (N, M, D) or something with `batches`, "
        f"got {type(X).__name__}."
    )


def _join(sets: Any) -> SetBatch:
    if isinstance(sets, SetBatch):
        return sets
    return SetBatch.from_padded(sets) if isinstance(sets, np.ndarray | Tensor) else SetBatch.from_list(sets)
