"""Calling anybody's module on a SetBatch, whatever form of sets it takes, and reading its answer in one form.

A module may take a `SetBatch`, a padded tensor x (N, M, D) with something that says what is padding, or only a dense tensor. It
may answer per set (a tensor whose first dimension is N, or a SetBatch of sets of other sizes, such as seeds) or per element (a
SetBatch of the same sizes, a (T, ...) tensor, or a padded (N, M, ...) tensor). Where numbers agree by chance, as N and T do when
every set has one element, it is tried on larger sets.

Letters: N sets, M elements in the largest set, T elements in all sets.
"""

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from orderless.sets import SetBatch

Takes = Literal["auto", "set_batch", "mask", "padding_mask", "lengths", "dense"]
_BY_CLEARNESS: tuple[Takes, ...] = ("padding_mask", "lengths", "mask")
Module = Callable[..., Any]


class Caller:
    """A module together with the form in which it takes sets.

    Args:
        module: An `nn.Module` or any function. It is used in the mode, training or eval, in which it is.
        batch: Something to try it on where its signature does not tell what it takes.
        takes: `set_batch`; `mask` for `module(x, mask)` with True at real elements; `padding_mask` with True at padding;
            `lengths` for `module(x, lengths)`; `dense` for `module(x)` with sets of equal sizes; `auto` decides by the
            annotation of the first parameter and the names of the others, and tries where they tell nothing. What tells the
            padding goes to the second place, or by its name where that has another.
    """

    def __init__(self, module: Module, batch: SetBatch, takes: Takes = "auto") -> None:
        if takes not in get_args(Takes):
            raise ValueError(f"takes must be one of {', '.join(get_args(Takes))}; got {takes!r}.")
        if isinstance(module, type):
            raise TypeError(f"expected a module, got the class {module.__name__}. Make one: `{module.__name__}(...)`.")
        if not isinstance(batch, SetBatch):
            raise TypeError(
                f"a module is tried on a SetBatch, got {type(batch).__name__}. See SetBatch.from_list and from_padded."
            )
        self.module = module
        self.takes = _guess(module, batch) if takes == "auto" else takes
        self.keyword = _keyword(module, self.takes)
        self._per_element: bool | None = None  # until it is tried

    def __call__(self, batch: SetBatch) -> Tensor | SetBatch:
        """The module's answer: a SetBatch of the same sizes per element; anything else per set."""
        if self.takes == "set_batch":
            return self._read(self.module(_own(batch)), batch)
        x, mask = batch.to_padded()
        if self.takes == "dense" and not bool(mask.all()):
            raise ValueError("a module that takes a dense tensor can only be tried on sets of equal sizes.")
        return self._on_padded(x, mask, batch)

    def on_padded(self, x: Tensor, mask: Tensor) -> Tensor | SetBatch:
        """The answer for sets given padded. A module that takes a SetBatch gets one without the padding."""
        batch = SetBatch.from_padded(x, mask)
        if self.takes == "set_batch":
            return self._read(self.module(_own(batch)), batch)
        if self.takes == "dense":
            raise ValueError("a module that takes only a dense tensor cannot know what is padding.")
        return self._on_padded(x, mask, batch)

    def _on_padded(self, x: Tensor, mask: Tensor, batch: SetBatch) -> Tensor | SetBatch:
        answer = self._raw(x, mask)
        if isinstance(answer, Tensor) and answer.ndim >= 2 and answer.shape[:2] == mask.shape:
            # (N, M, ...) may be per element, or M numbers per set: only the former grows with another column
            column = x[:, :1] if x.shape[1] else x.new_zeros(len(x), 1, *x.shape[2:])
            wider = self._raw(torch.cat([x, column], dim=1), torch.cat([mask, mask.new_zeros(len(x), 1)], dim=1))
            if wider.shape[1] == answer.shape[1] + 1:
                return SetBatch.from_padded(answer, mask)
        return self._read(answer, batch)

    def _read(self, answer: Any, batch: SetBatch) -> Tensor | SetBatch:
        if isinstance(answer, SetBatch):
            return self._read_sets(answer, batch)
        if not isinstance(answer, Tensor):
            got = type(answer).__name__
            raise TypeError(f"the module must return a tensor or a SetBatch, got {got}. Wrap it to return the part to check.")
        rows = answer.shape[0] if answer.ndim else None
        if rows not in (batch.num_sets, batch.num_elements):
            raise ValueError(
                f"the module got {batch.num_sets} sets and returned a tensor of shape {tuple(answer.shape)}; "
                "expected one row per set, one per element, a padded (N, M, ...) tensor, or a SetBatch."
            )
        if batch.num_sets != batch.num_elements:
            return answer if rows == batch.num_sets else batch.with_x(answer)
        try:
            return batch.with_x(answer) if self._answers_per_element(batch) else answer
        except Exception as error:  # somebody else's module may raise anything
            raise ValueError(
                f"the module returned {rows} rows for {rows} sets of {rows} elements in all, and raised {type(error).__name__} "
                "on larger sets, so that one row per set cannot be told from one per element. Give a batch with more elements "
                "than sets."
            ) from error

    def _read_sets(self, answer: SetBatch, batch: SetBatch) -> Tensor | SetBatch:
        if answer.num_sets != batch.num_sets:
            raise ValueError(f"the module got {batch.num_sets} sets and returned a SetBatch of {answer.num_sets}.")
        if is_per_element(answer, batch) and batch.num_elements and len(set(batch.sizes.tolist())) == 1:
            # sets of 4 elements may have got 4 seeds each; where nothing larger can be tried, sizes have the say
            with contextlib.suppress(Exception):
                if not self._answers_per_element(batch):
                    return answer.x.reshape(batch.num_sets, -1, *answer.x.shape[1:])
        return answer

    def _answers_per_element(self, batch: SetBatch) -> bool:
        """Whether the module gives one row per element: tried on sets of one element more, of which it then gives more rows."""
        if self._per_element is None:
            if batch.num_elements == 0:
                return False
            larger = SetBatch.from_list([torch.cat([s, (s if len(s) else batch.x)[:1]]) for s in batch.to_list()])
            answer = self.module(larger) if self.takes == "set_batch" else self._raw(*larger.to_padded())
            is_sets = isinstance(answer, SetBatch)
            self._per_element = is_per_element(answer, larger) if is_sets else answer.shape[0] == larger.num_elements
        return self._per_element

    def _raw(self, x: Tensor, mask: Tensor) -> Any:
        x = x.clone()  # a module may work on what it is given in place, as where it unmasks a place of every empty set
        if self.takes == "dense":
            return self.module(x)
        told = {"mask": mask.clone(), "padding_mask": ~mask, "lengths": mask.sum(1)}[self.takes]
        return self.module(x, told) if self.keyword is None else self.module(x, **{self.keyword: told})


def _own(batch: SetBatch) -> SetBatch:
    """The same sets in memory of their own: a module may work on its input in place."""
    return batch.with_x(batch.x.clone())


def is_per_element(answer: Tensor | SetBatch, batch: SetBatch) -> bool:
    """Whether an answer has one row for each element of the batch, rather than something for each set."""
    return isinstance(answer, SetBatch) and torch.equal(answer.offsets, batch.offsets)


@contextlib.contextmanager
def untouched(module: Module) -> Iterator[None]:
    """Runs a check without gradients and gives a module its buffers (running statistics) and the random state back."""
    owners = list(module.modules()) if isinstance(module, nn.Module) else []
    buffers = [(owner, name, b) for owner in owners for name, b in owner._buffers.items() if b is not None and not is_lazy(b)]
    saved = [b.clone() for _, _, b in buffers]
    devices = {b.device for owner in owners for b in owner.parameters(recurse=False) if b.device.type == "cuda"}
    with torch.no_grad(), torch.random.fork_rng(devices=[device.index or 0 for device in devices]):
        try:
            yield
        finally:
            for (owner, name, buffer), before in zip(buffers, saved, strict=True):
                owner._buffers[name] = buffer.copy_(before)  # the same tensor, also where the module put another in its place


def _guess(module: Module, batch: SetBatch) -> Takes:
    parameters = _parameters(module)
    if not parameters or "SetBatch" in str(parameters[0].annotation):
        return "set_batch"
    if _needs_second(parameters):
        return _tells(parameters[1].name) or "mask"
    told = {_tells(parameter.name) for parameter in parameters[1:] if _may_hold_padding(parameter)}
    for takes in _BY_CLEARNESS:  # PyTorch's own layers have a mask of attention and one of padding
        if takes in told:
            return takes
    return _try(module, batch)


def _parameters(module: Module) -> list[inspect.Parameter]:
    """What a module is called with; nothing where that cannot be read."""
    module = getattr(module, "_orig_mod", module)  # torch.compile wraps it in something that takes everything
    function = module.forward if isinstance(module, nn.Module) else module
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # built in C: no signature to read
        return []
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [*positional, *(p for p in parameters if p.kind is p.KEYWORD_ONLY)] if positional else []


def _tells(name: str) -> Takes | None:
    """What a parameter of this name tells about padding."""
    if "padding" in name or ("pad" in name and "mask" in name):
        return "padding_mask"
    if name in ("lengths", "length", "sizes", "num_elements"):
        return "lengths"
    return "mask" if "mask" in name else None


def _keyword(module: Module, takes: Takes) -> str | None:
    """The keyword by which the padding has to be passed; None where it may be the second argument."""
    parameters = _parameters(module)
    if _needs_second(parameters):
        return None
    for place, parameter in enumerate(parameters):
        if place and _may_hold_padding(parameter) and _tells(parameter.name) == takes:
            return parameter.name if place > 1 or parameter.kind is parameter.KEYWORD_ONLY else None
    return None


def _needs_second(parameters: list[inspect.Parameter]) -> bool:
    """Whether the module cannot be called with one argument, and the second is passed by its place."""
    second = parameters[1] if len(parameters) > 1 else None
    return second is not None and second.default is second.empty and second.kind is not second.KEYWORD_ONLY


def _may_hold_padding(parameter: inspect.Parameter) -> bool:
    """Not `return_mask=False`."""
    return parameter.default is None or parameter.default is parameter.empty


def _try(module: Module, batch: SetBatch) -> Takes:
    """One parameter without annotation: a SetBatch, unless only a dense tensor works."""
    largest = batch[[int(batch.sizes.argmax())]] if len(batch) else batch
    tries: list[tuple[SetBatch | Tensor, Takes]] = [(batch, "set_batch"), (largest.to_padded()[0], "dense")]
    for argument, takes in tries:
        with contextlib.suppress(Exception), untouched(module):
            module(argument)
            return takes
    return "set_batch"
