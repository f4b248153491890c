"""`SetBatch`: many sets in one tensor, laid end to end, with no padding.

Letters: N sets, T elements in all sets together, M elements in the largest set.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils.data._utils.collate import default_collate_fn_map

_MANY_SETS, _SETS_PER_ELEMENT = 100_000, 10  # more of them than both, nearly all empty, are rather names that are numbers
_RENUMBER = "Identifiers become numbers of sets with `np.unique(ids, return_inverse=True)[1]`."

ArrayLike = Tensor | npt.NDArray[Any] | Sequence[Any]


@dataclass(frozen=True, init=False, eq=False, repr=False)
class SetBatch:
    """N sets laid end to end; no padding.

    Args:
        x: (T, *element) elements of all sets. Set `n` is `x[offsets[n]:offsets[n + 1]]`.
        offsets: (N + 1,) integers that start at 0, never decrease and end at T. Two equal neighbours are an empty set.

    Attributes:
        x: The elements, as given.
        offsets: (N + 1,) int64 on the device of `x`.
        set_size: The number of elements of every set where the batch was built dense, so that layers may work on a
            (N, M, ...) view; None where sizes may differ. It never changes a result beyond rounding.

    A batch cannot be changed, only replaced: `with_x` puts new elements into the same sets. It is a pytree whose leaves
    are `x` and `offsets`, so `tree_map`, `torch.compile`, `torch.export` and `DataLoader` see through it.
    """

    x: Tensor
    offsets: Tensor
    set_size: int | None

    def __init__(self, x: Tensor | npt.NDArray[Any], offsets: ArrayLike) -> None:
        x = _as_elements(x, "x")
        offsets = _as_integers(offsets, "offsets")
        if not torch.compiler.is_compiling():  # reading values would break the graph; the shapes are all a tracer has
            _check_offsets(offsets, x.shape[0])
        _fill(self, x, offsets.to(x.device, copy=True), None)  # a copy: the caller's may change, a batch may not

    # ---------------------------------------------------------------------------------------------- construction

    @classmethod
    def from_list(cls, sets: Sequence[Tensor | npt.NDArray[Any]]) -> SetBatch:
        """Joins sets given one by one.

        Args:
            sets: Tensors or arrays (n_i, *element). Sizes may differ and may be 0; element shape, dtype and device may not.
        """
        tensors = [_as_elements(s, f"set {i}") for i, s in enumerate(sets)]
        if not tensors:
            raise ValueError(
                "from_list needs at least one set to know the shape of an element, got an empty list. "
                "For a batch of no sets pass `SetBatch(torch.empty(0, D), [0])`."
            )
        _check_alike(tensors, "set")
        sizes = torch.tensor([t.shape[0] for t in tensors], dtype=torch.int64)
        x = torch.cat(tensors)
        return cls._trusted(x, _offsets_from_sizes(sizes).to(x.device))

    @classmethod
    def from_padded(
        cls, x: Tensor | npt.NDArray[Any], mask: ArrayLike | None = None, *, lengths: ArrayLike | None = None
    ) -> SetBatch:
        """Takes the real elements out of a padded tensor. What the padding holds never matters, NaN included.

        Args:
            x: (N, M, *element).
            mask: (N, M) bool, True where there is an element. They need not come first.
            lengths: (N,) integers instead of `mask`: the first `lengths[n]` rows of set `n` are its elements.
                With neither, every row is an element.
        """
        x = _as_elements(x, "x", min_dim=2)
        num_sets, max_size = x.shape[:2]
        if mask is not None and lengths is not None:
            raise ValueError("from_padded takes mask or lengths, got both. Pass the one you trust.")
        if mask is None and lengths is None:
            return cls._dense(x)
        if lengths is not None:
            mask = _mask_from_lengths(lengths, num_sets, max_size, x.device)
        mask = _as_tensor(mask, "mask").to(x.device)
        _refuse_meta(mask, "mask")
        if mask.dtype != torch.bool or mask.shape != x.shape[:2]:
            raise ValueError(
                f"mask must be bool of shape {tuple(x.shape[:2])} to match x {tuple(x.shape)}, "
                f"got {mask.dtype} of shape {tuple(mask.shape)}. A mask of 0 and 1 becomes bool "
                "with `mask.bool()`; lengths go to `SetBatch.from_padded(x, lengths=...)`."
            )
        return cls._trusted(x[mask], _offsets_from_sizes(mask.sum(1)))

    @classmethod
    def from_index(cls, x: Tensor | npt.NDArray[Any], index: ArrayLike, *, num_sets: int | None = None) -> SetBatch:
        """Groups elements by the number of the set they belong to, as PyTorch Geometric's `batch` vector does.

        Args:
            x: (T, *element).
            index: (T,) integers in [0, num_sets), in any order. Elements of one set keep their order. Identifiers that are
                names, or large numbers, become such integers with `np.unique(ids, return_inverse=True)[1]`.
            num_sets: Number of sets N; sets without an element are empty. Default: the largest index plus one.
        """
        x = _as_elements(x, "x")
        index = _as_integers(index, "index").to(x.device)
        _refuse_meta(index, "index")
        if index.shape != x.shape[:1]:
            raise ValueError(
                f"index must have one number per element, shape ({x.shape[0]},) to match x {tuple(x.shape)}, "
                f"got shape {tuple(index.shape)}."
            )
        lowest, highest = (int(index.min()), int(index.max())) if index.numel() else (0, -1)
        if num_sets is None and highest >= max(_MANY_SETS, _SETS_PER_ELEMENT * x.shape[0]):
            raise ValueError(
                f"index goes up to {highest}, which would make {highest + 1} sets, nearly all empty, of {x.shape[0]} elements. "
                f"{_RENUMBER} If there are as many sets, say so with num_sets."
            )
        num_sets = highest + 1 if num_sets is None else _as_count(num_sets, "num_sets")
        if lowest < 0 or highest >= num_sets:
            raise ValueError(
                f"index must lie in [0, num_sets) = [0, {num_sets}), got values from {lowest} to {highest}. "
                f"Raise num_sets or renumber the sets. {_RENUMBER}"
            )
        order = torch.argsort(index, stable=True)
        try:
            sizes = torch.bincount(index, minlength=num_sets)
        except (RuntimeError, ValueError) as error:  # of the allocator, which knows bytes only, or of a number beyond int64
            raise ValueError(f"there is no memory for the sizes of num_sets={num_sets} sets. {_RENUMBER}") from error
        return cls._trusted(x[order], _offsets_from_sizes(sizes))

    @classmethod
    def from_nested(cls, nested: Tensor) -> SetBatch:
        """Converts a torch NestedTensor whose second dimension is the ragged one."""
        if not (isinstance(nested, Tensor) and nested.is_nested):
            got = f"a plain tensor of shape {tuple(nested.shape)}" if isinstance(nested, Tensor) else type(nested).__name__
            raise ValueError(f"from_nested takes a NestedTensor, got {got}. For a padded tensor use from_padded.")
        if nested.layout != torch.jagged:
            return cls.from_list(nested.unbind())
        if nested._ragged_idx != 1:  # type: ignore[attr-defined]
            raise ValueError(
                "only the number of elements, dimension 1, may be ragged, "
                f"but in this NestedTensor it is dimension {nested._ragged_idx}. "  # type: ignore[attr-defined]
                "Transpose it, or build it with layout=torch.jagged from (n_i, *element) tensors."
            )
        if nested.lengths() is not None:  # type: ignore[attr-defined]
            return cls.from_list(nested.unbind())  # a view with holes: its values are not one set after another
        return cls(nested.values(), nested.offsets())  # type: ignore[attr-defined]

    @classmethod
    def repeat(cls, points: Tensor | npt.NDArray[Any], num_sets: int) -> SetBatch:
        """Makes `num_sets` copies of the same set of points, for inducing points and seeds.

        Shapes: points (I, *element) -> x (num_sets * I, *element).
        """
        if isinstance(points, (np.ndarray, list, tuple)):
            points = _as_elements(points, "points")
        # not what tracers have for a number
        if isinstance(num_sets, (float, str, np.generic)) or (type(num_sets) is int and num_sets < 0):
            num_sets = _as_count(num_sets, "num_sets")
        if points.ndim == 0:
            raise ValueError("points must have shape (I, *element), got (). For one number use `point[None]`.")
        set_size = points.shape[0]
        x = points.repeat(num_sets, *[1] * (points.ndim - 1))
        return cls._trusted(x, torch.arange(num_sets + 1, device=x.device) * set_size, set_size)

    @classmethod
    def cat(cls, batches: Sequence[SetBatch]) -> SetBatch:
        """Joins batches into one that holds all their sets, in order."""
        batches = list(batches)
        if not batches:
            raise ValueError("cat needs at least one SetBatch, got an empty list.")
        for b in batches:
            if not isinstance(b, SetBatch):
                raise TypeError(f"cat joins SetBatch objects, got {type(b).__name__}. For plain sets use from_list.")
        _check_alike([b.x for b in batches], "batch")
        set_size = batches[0].set_size if len({b.set_size for b in batches}) == 1 else None
        sizes = torch.cat([b.sizes for b in batches])
        return cls._trusted(torch.cat([b.x for b in batches]), _offsets_from_sizes(sizes), set_size)

    @classmethod
    def _dense(cls, x: Tensor) -> SetBatch:
        """(N, M, *element) with every row an element."""
        num_sets, set_size = x.shape[0], x.shape[1]
        offsets = torch.arange(num_sets + 1, device=x.device) * set_size
        return cls._trusted(x.reshape(num_sets * set_size, *x.shape[2:]), offsets, set_size)

    @staticmethod
    def _trusted(x: Tensor, offsets: Tensor, set_size: int | None = None) -> SetBatch:
        """Builds a batch from parts known to fit; the way for everything that must not read values (compile, pytree)."""
        batch = object.__new__(SetBatch)
        _fill(batch, x, offsets, set_size)
        return batch

    # ------------------------------------------------------------------------------------------------ conversion

    def to_list(self) -> list[Tensor]:
        """The sets one by one, as (n_i, *element) views."""
        if self.set_size is not None:  # known without a look at the offsets, which have no values on the meta device
            return list(self.x.reshape(self.num_sets, self.set_size, *self.element_shape).unbind())
        _refuse_meta(self.offsets, "sizes of sets")
        return list(self.x.split(self.sizes.tolist()))

    def to_padded(self, fill: float = 0.0) -> tuple[Tensor, Tensor]:
        """Pads every set to the largest.

        Returns:
            x (N, M, *element) with `fill` in the padding, and mask (N, M) bool, True at real elements. Where all sets have one
            size there is no padding, and x is a view of the batch's elements.
        """
        if self.set_size is not None:
            x = self.x.reshape(self.num_sets, self.set_size, *self.element_shape)
            return x, torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        _refuse_meta(self.offsets, "sizes of sets")
        sizes = self.sizes
        max_size = int(sizes.max()) if self.num_sets else 0
        mask = torch.arange(max_size, device=self.x.device) < sizes[:, None]  # (N, M)
        padded = self.x.new_full((self.num_sets, max_size, *self.element_shape), fill)
        return padded.index_put((mask,), self.x), mask

    def to_nested(self) -> Tensor:
        """The batch as a torch jagged NestedTensor."""
        return torch.nested.nested_tensor_from_jagged(self.x, self.offsets)

    def to(self, *args: Any, **kwargs: Any) -> SetBatch:
        """Moves or casts as `Tensor.to` does; a dtype goes to the elements, offsets stay int64."""
        x = self.x.to(*args, **kwargs)
        non_blocking = kwargs.get("non_blocking", any(a is True for a in args))
        return SetBatch._trusted(x, self.offsets.to(x.device, non_blocking=non_blocking), self.set_size)

    def cpu(self) -> SetBatch:
        """The batch in the memory of the CPU."""
        return self.to("cpu")

    def cuda(self, device: torch.device | int | str | None = None, *, non_blocking: bool = False) -> SetBatch:
        """The batch on a GPU: `device`, or the current one."""
        x = self.x.cuda(device, non_blocking=non_blocking)
        return SetBatch._trusted(x, self.offsets.to(x.device, non_blocking=non_blocking), self.set_size)

    def float(self) -> SetBatch:
        """Elements in float32; offsets stay int64, here and below."""
        return self.to(torch.float32)

    def double(self) -> SetBatch:
        """Elements in float64."""
        return self.to(torch.float64)

    def half(self) -> SetBatch:
        """Elements in float16."""
        return self.to(torch.float16)

    def bfloat16(self) -> SetBatch:
        """Elements in bfloat16."""
        return self.to(torch.bfloat16)

    def pin_memory(self) -> SetBatch:
        """Copies the batch to page-locked memory, for fast transfer to a GPU."""
        return SetBatch._trusted(self.x.pin_memory(), self.offsets.pin_memory(), self.set_size)

    def with_x(self, x: Tensor) -> SetBatch:
        """The same sets with other elements, one for one: x (T, *any)."""
        if not torch.compiler.is_compiling():
            _refuse_numpy(x, "with_x")
            if x.shape[:1] != self.x.shape[:1]:
                got = x.shape[0] if len(x.shape) else "a single number"
                raise ValueError(f"with_x takes one new element for each of the {self.x.shape[0]} old ones, got {got}.")
        return SetBatch._trusted(x, self.offsets, self.set_size)

    def mark_dynamic(self) -> SetBatch:
        """Tells `torch.compile` that the numbers of elements and sets will vary, so that it compiles once for all of them."""
        torch._dynamo.maybe_mark_dynamic(self.x, 0)
        torch._dynamo.maybe_mark_dynamic(self.offsets, 0)
        return self

    # ---------------------------------------------------------------------------------------------------- access

    @property
    def sizes(self) -> Tensor:
        """(N,) int64 number of elements of each set."""
        return self.offsets.diff()

    @property
    def num_sets(self) -> int:
        """Number of sets N. Unlike `len`, it stays symbolic while a model is traced."""
        return self.offsets.shape[0] - 1

    @property
    def num_elements(self) -> int:
        """Number of elements of all sets together, T."""
        return self.x.shape[0]

    @property
    def element_shape(self) -> torch.Size:
        """Shape of one element."""
        return self.x.shape[1:]

    @property
    def dtype(self) -> torch.dtype:
        """Of the elements."""
        return self.x.dtype

    @property
    def device(self) -> torch.device:
        """Of elements and offsets alike."""
        return self.x.device

    def __len__(self) -> int:
        return self.num_sets

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.to_list())

    @overload
    def __getitem__(self, key: int) -> Tensor: ...
    @overload
    def __getitem__(self, key: slice | Sequence[int] | Sequence[bool] | Tensor | npt.NDArray[Any]) -> SetBatch: ...
    def __getitem__(self, key: int | slice | Sequence[int] | Sequence[bool] | Tensor | npt.NDArray[Any]) -> Tensor | SetBatch:
        """`b[i]` is one set (n_i, *element); a slice, a list of numbers or a bool mask picks sets into a new batch."""
        number = key.item() if isinstance(key, (Tensor, np.ndarray)) and key.ndim == 0 else key
        if isinstance(number, (int, np.integer)) and not isinstance(number, bool):
            return self._one_set(int(number))
        _refuse_meta(self.offsets, "sizes of sets")
        chosen = _as_set_numbers(number, self.num_sets).to(self.offsets.device)
        sizes = self.sizes[chosen]
        offsets = _offsets_from_sizes(sizes)
        total = int(offsets[-1])
        # element t of the new batch sits as far into its set as it did in the old one
        shift = torch.repeat_interleave(self.offsets[chosen] - offsets[:-1], sizes, output_size=total)
        return SetBatch._trusted(self.x[torch.arange(total, device=self.x.device) + shift], offsets, self.set_size)

    def _one_set(self, n: int) -> Tensor:
        if not -self.num_sets <= n < self.num_sets:
            raise IndexError(f"set {n} asked for, but the batch has {self.num_sets} sets.")
        n %= self.num_sets
        if self.set_size is not None:
            return self.x[n * self.set_size : (n + 1) * self.set_size]
        _refuse_meta(self.offsets, "sizes of sets")
        start, stop = self.offsets[n : n + 2].tolist()
        return self.x[start:stop]

    def __repr__(self) -> str:
        sizes = [] if self.offsets.is_meta else self.offsets[:7].diff().tolist()  # a meta tensor has no values to show
        shown = ", ".join([*map(str, sizes), *(["..."] if len(sizes) < self.num_sets else [])])
        x = f"x={tuple(self.x.shape)} {str(self.dtype).removeprefix('torch.')}"
        return f"SetBatch({self.num_sets} sets, sizes=[{shown}], {x}, device={self.device})"


def _fill(batch: SetBatch, x: Tensor, offsets: Tensor, set_size: int | None) -> None:
    object.__setattr__(batch, "x", x)  # the class is frozen; this is the one place that may write
    object.__setattr__(batch, "offsets", offsets)
    object.__setattr__(batch, "set_size", set_size)


def _as_elements(x: Any, name: str, *, min_dim: int = 1) -> Tensor:
    if not isinstance(x, (Tensor, np.ndarray)):
        raise TypeError(f"{name} must be a tensor or a numpy array, got {type(x).__name__}. Convert with `torch.as_tensor`.")
    if isinstance(x, np.ndarray) and x.dtype.kind not in "biufc":
        raise TypeError(
            f"{name} must hold numbers, got a numpy array of dtype {x.dtype}. Sets of different sizes go to SetBatch.from_list."
        )
    x = _as_tensor(x, name)
    if x.is_nested or x.layout != torch.strided:
        got, way_out = ("a NestedTensor", "Use SetBatch.from_nested.") if x.is_nested else (x.layout, "Pass `x.to_dense()`.")
        raise TypeError(f"{name} must be a dense tensor, got {got}. {way_out}")
    if x.ndim < min_dim:
        wanted = "(T, *element)" if min_dim == 1 else "(N, M, *element)"
        raise ValueError(f"{name} must have shape {wanted}, got {tuple(x.shape)}.")
    return x


def _refuse_numpy(x: object, who: str) -> None:
    if isinstance(x, np.ndarray):  # but not what stands for a tensor, as tracers have it
        raise TypeError(f"{who} takes a tensor, got ndarray. Convert with `torch.as_tensor`.")


def _as_integers(values: ArrayLike, name: str) -> Tensor:
    tensor = _as_tensor(values, name, device="cpu")  # where they can be read, and checked, whatever the default device is
    if tensor.numel() and not _is_integer(tensor):  # an empty list becomes a float tensor, and is as good as integers
        raise TypeError(f"{name} must be integers, got {tensor.dtype}. Convert with `.long()` if they are whole numbers.")
    if tensor.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {tuple(tensor.shape)}.")
    return tensor.to(torch.int64)


def _as_count(value: Any, name: str) -> int:
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, got {value!r}. Convert with `int()` if it is one.") from None
    if count < 0:
        raise ValueError(f"{name} must be at least 0, got {count}.")
    return count


def _as_tensor(values: Any, name: str, *, device: str | None = None) -> Tensor:
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} must not be a masked array, whose mask would be lost: fill it, or leave out what is masked.")
    if isinstance(values, np.ndarray) and not (values.dtype.isnative and _are_strides_of_torch(values)):
        values = values.astype(values.dtype.newbyteorder("="), order="C")  # torch takes neither; FCS files are big-endian
    try:
        if isinstance(values, np.ndarray) and not values.flags.writeable:  # a mapped file: shared, though it may be read only
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "The given NumPy array is not writ", UserWarning)
                return torch.as_tensor(values, device=device)
        return values if isinstance(values, Tensor) else torch.as_tensor(values, device=device)
    except (TypeError, ValueError, RuntimeError) as error:
        hint = f" {_RENUMBER}" if name == "index" else ""
        raise TypeError(f"{name} must be a tensor or array of numbers, got {type(values).__name__}: {error}.{hint}") from error


def _are_strides_of_torch(values: npt.NDArray[Any]) -> bool:
    """Whether steps go forward and by whole numbers: backwards go views such as `a[::-1]`, and by parts a field of records."""
    return all(stride >= 0 and stride % max(values.itemsize, 1) == 0 for stride in values.strides)


def _is_integer(tensor: Tensor) -> bool:
    return not (tensor.dtype == torch.bool or tensor.is_floating_point() or tensor.is_complex())


def _check_offsets(offsets: Tensor, num_elements: int) -> None:
    if offsets.numel() == 0:
        raise ValueError("offsets must hold at least the number 0 (N + 1 numbers for N sets), got none.")
    if offsets.is_meta:
        return  # there are no values to check
    first, last = int(offsets[0]), int(offsets[-1])
    falls = (offsets.diff() < 0).nonzero()
    if falls.numel():
        n = int(falls[0])
        raise ValueError(
            f"offsets must never decrease, but offsets[{n}] = {int(offsets[n])} and offsets[{n + 1}] = {int(offsets[n + 1])}. "
            "If these are sizes, pass their cumulative sum with a 0 in front."
        )
    if first != 0 or last != num_elements:
        raise ValueError(
            f"offsets must start at 0 and end at the number of elements {num_elements}, "
            f"but they run from {first} to {last}. If these are sizes, pass their cumulative sum with a 0 in front."
        )


def _check_alike(tensors: Sequence[Tensor], what: str) -> None:
    first = tensors[0]
    for i, t in enumerate(tensors):
        if t.shape[1:] != first.shape[1:]:
            raise ValueError(
                f"every {what} must hold elements of one shape: {what} 0 has {tuple(first.shape[1:])}, "
                f"{what} {i} has {tuple(t.shape[1:])}. "
                "Only the number of elements may differ; an empty set has shape (0, *element)."
            )
        if t.dtype != first.dtype or t.device != first.device:
            raise ValueError(
                f"every {what} must have one dtype and device: {what} 0 is {first.dtype} on {first.device}, "
                f"{what} {i} is {t.dtype} on {t.device}. Convert with `.to(...)` first."
            )


def _mask_from_lengths(lengths: ArrayLike, num_sets: int, max_size: int, device: torch.device) -> Tensor:
    lengths = _as_integers(lengths, "lengths").to(device)
    _refuse_meta(lengths, "lengths")
    if lengths.shape != (num_sets,):
        raise ValueError(f"lengths must have shape ({num_sets},), one per set, got {tuple(lengths.shape)}.")
    if num_sets and not (int(lengths.min()) >= 0 and int(lengths.max()) <= max_size):
        raise ValueError(
            f"lengths must lie in [0, {max_size}], the padded size of x, "
            f"got values from {int(lengths.min())} to {int(lengths.max())}."
        )
    return torch.arange(max_size, device=device) < lengths[:, None]


def _as_set_numbers(key: Any, num_sets: int) -> Tensor:
    if isinstance(key, slice):
        chosen = range(*key.indices(num_sets))
        return torch.arange(len(chosen)) * chosen.step + chosen.start  # torch.arange itself refuses b[4:1]
    wanted = "a batch is indexed by an int, a slice, a list of ints or a bool mask"
    try:
        numbers = _as_tensor(key, "index")
    except TypeError as error:
        raise IndexError(f"{wanted}, got {type(key).__name__}. For features, index `batch.x`.") from error
    if numbers.dtype == torch.bool:
        if numbers.shape != (num_sets,):
            raise IndexError(f"a bool mask must have shape ({num_sets},), one per set, got {tuple(numbers.shape)}.")
        return numbers.nonzero().squeeze(1)
    if numbers.dtype == torch.uint8:
        raise IndexError("uint8 may be meant as a mask or as numbers of sets: pass `key.bool()` or `key.long()`.")
    if numbers.ndim != 1 or (numbers.numel() and not _is_integer(numbers)):
        raise IndexError(f"{wanted}, got {numbers.dtype} of shape {tuple(numbers.shape)}.")
    numbers = numbers.to(torch.int64)
    if numbers.numel() and not (-num_sets <= int(numbers.min()) and int(numbers.max()) < num_sets):
        raise IndexError(f"sets {int(numbers.min())} to {int(numbers.max())} asked for, but the batch has {num_sets} sets.")
    return torch.where(numbers < 0, numbers + num_sets, numbers)


def _refuse_meta(values: Tensor, what: str) -> None:
    if values.is_meta:
        raise ValueError(f"{what} cannot be read on the meta device: build the batch on the CPU and move it with `.to('meta')`.")


def _offsets_from_sizes(sizes: Tensor) -> Tensor:
    return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]).to(torch.int64)


# `set_size` is left out of the tree: as a constant of it, every dense size would be compiled and exported anew.
pytree.register_pytree_node(
    SetBatch,
    lambda batch: ([batch.x, batch.offsets], None),
    lambda leaves, _: SetBatch._trusted(*leaves),
    serialized_type_name="orderless.SetBatch",
    flatten_with_keys_fn=lambda batch: (
        [(pytree.GetAttrKey("x"), batch.x), (pytree.GetAttrKey("offsets"), batch.offsets)],
        None,
    ),
    to_dumpable_context=lambda _: None,
    from_dumpable_context=lambda _: None,
)


def _collate(batches: Sequence[SetBatch], *, collate_fn_map: Any = None) -> SetBatch:
    return SetBatch.cat(batches)


# the documented way to teach `default_collate` a type: samples that hold a SetBatch are joined without a collate_fn
default_collate_fn_map[SetBatch] = _collate

# plain tensors and numbers: files that hold a batch need no unsafe unpickling
torch.serialization.add_safe_globals([SetBatch])
