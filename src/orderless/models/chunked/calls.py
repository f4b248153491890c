"""`predict` and `forward`: a network on sets of any size, a chunk of elements at a time.

Letters: N sets, T elements in all sets, D features.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from orderless.models.base import SetModel
from orderless.models.chunked.keep import Keep, check_keep, decide
from orderless.models.chunked.passes import Passes, Progress, autocast_of_now, num_passes, places_to_keep
from orderless.models.chunked.source import Blocks, Sets, Source, as_blocks, count_elements
from orderless.models.chunked.steps import Step, check_supported, plan
from orderless.sets import SetBatch

# numbers of a chunk in one layer: 16 MiB of float32 on a CPU, 128 MiB on a GPU; some twenty times that is in use at a time
CHUNK_NUMBERS = {"cpu": 2**22, "cuda": 2**25}
CHUNK_WITH_FEATURIZER = 256  # a convolution makes many numbers of an element


def predict(
    model: SetModel,
    sets: Sets,
    *,
    chunk_elements: int | None = None,
    keep: Keep = "auto",
    folder: str | os.PathLike[str] | None = None,
    progress: bool | Progress = False,
) -> Tensor | SetBatch:
    """What `model` answers, without gradients, for sets that need not fit into memory.

    The same as `model(batch)`, to rounding: every norm, attention and pooling sees all elements of its set. Sets are taken one by
    one, small ones together, in as many passes over a set as the network asks questions about it. Between passes activations are
    kept: `width` numbers for each element of the current set.

    Args:
        model: A network of `create_model`, but not `pointnet++` or `simpleview`.
        sets: A `SetBatch`; or one set: a tensor or array (n, *element), `np.memmap` included, a function that yields blocks of it
            and starts again at every call, or `Blocks`; or a list of such sets. Elements are brought to the device and dtype of
            the network chunk by chunk.
        chunk_elements: Elements in work at a time. Default: as many as make 16 MiB a layer on a CPU, 128 MiB on a GPU.
        keep: Where activations are kept: `device`, `host`, `disk`; `auto`, the first of these that has room; or `nothing`, which
            computes them again from the elements in every pass, so that time grows with the square of the depth.
        folder: For `disk`: on which disk. Default: where the system has its temporary files.
        progress: True for a bar on the terminal, or a function that is called with the number of elements processed and with how
            many there will be in all.

    Returns:
        (N, out_features); with `output="element"` a SetBatch with x (T, out_features).
    """
    check_supported(model)
    check_keep(keep)
    size = _chunk_elements(model, chunk_elements)
    groups = _groups(as_blocks(sets), size)
    steps = _plan(model, _source(model, groups[0], size))
    pooled = model.pool is not None
    passes_each = num_passes(steps, pooled=pooled, for_backward=False)
    total = passes_each * sum(count_elements(one) for group in groups for one in group)
    answers: list[Tensor] = []
    before = 0
    with torch.no_grad(), _shown(progress) as show:
        for group in groups:
            source = _source(model, group, size)
            if len(source.chunks) == 1:
                ((_, x),) = source.read()
                answer = model(source.all_sets().with_x(x))
                answers.append(answer.x if isinstance(answer, SetBatch) else answer)
            else:
                tell = None if show is None else _later(show, before, total)
                passes = _passes(steps, source, keep=keep, folder=folder, pooled=pooled, for_backward=False, progress=tell)
                values = passes.forward()
                answers.append(passes.head(values) if pooled else values[0])
            before += passes_each * source.num_elements
            if show is not None:
                show(before, total)
    answer = torch.cat(answers)
    return answer if pooled else _as_sets(answer, [count_elements(one) for group in groups for one in group])


def forward(
    model: SetModel,
    sets: Sets,
    *,
    chunk_elements: int | None = None,
    keep: Keep = "auto",
    folder: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Tensor | SetBatch:
    """What `model` answers, computed in chunks, and so are the gradients when a loss of it goes `backward()`.

    The same as `model(batch)`, to rounding, and the same gradients. Memory for the work does not grow with the sets; what is kept
    does: `width` numbers for each element and block. Where they do not fit, fewer are kept and the others computed again.

    Args:
        model: A network of `create_model`, as for `predict`. Norms over the batch (`feature`, `batch`) have to be in eval mode.
        sets: As for `predict`. All are taken together. Gradients of the elements are computed where a `SetBatch` or a tensor
            requires them.
        chunk_elements: As for `predict`.
        keep: As for `predict`. The elements' gradients at one place of the network are kept besides.
        folder: As for `predict`.
        progress: A function that is called with the number of elements processed, forward and backward, and with how many there
            will be in all.

    Returns:
        (N, out_features); with `output="element"` a SetBatch with x (T, out_features).
    """
    check_supported(model)
    size = _chunk_elements(model, chunk_elements)
    source = _source(model, as_blocks(sets), size)
    x = _tensor_of(sets)
    weights = [p for p in model.parameters() if p.requires_grad]
    learning = torch.is_grad_enabled() and bool(weights or (x is not None and x.requires_grad))
    pooled = model.pool is not None
    passes = _passes(
        _plan(model, source), source, keep=keep, folder=folder, pooled=pooled, for_backward=learning, progress=progress
    )
    values = _InChunks.apply(passes, x, *weights) if learning else passes.forward()  # type: ignore[no-untyped-call]
    return passes.head(values) if pooled else _as_sets(values[0], source.sizes)


class _InChunks(torch.autograd.Function):
    """From elements and weights to what the head of the network needs, as one node of a graph."""

    @staticmethod
    def forward(ctx: Any, passes: Passes, x: Tensor | None, *weights: nn.Parameter) -> tuple[Tensor, ...]:
        ctx.passes = passes
        ctx.save_for_backward(*weights)  # so that torch complains if they are changed before the backward pass
        return tuple(value.clone() for value in passes.forward())

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # create_graph=True; torch's own `once_differentiable` is overlooked by torch.autograd.grad
            raise RuntimeError("computing in chunks has no second derivatives: leave create_graph out, or call the model itself.")
        weights = ctx.saved_tensors
        wanted = [w for w, needed in zip(weights, ctx.needs_input_grad[2:], strict=True) if needed]
        found = ctx.passes.backward(upstream, wanted, of_elements=ctx.needs_input_grad[1])
        return None, found.of_elements, *(found.of(w) for w in weights)


def _plan(model: SetModel, source: Source) -> list[Step]:
    nothing = source.no_elements()
    with torch.no_grad(), autocast_of_now(nothing.device)():
        return plan(model, nothing)


def _passes(
    steps: list[Step],
    source: Source,
    *,
    keep: Keep,
    folder: str | os.PathLike[str] | None,
    pooled: bool,
    for_backward: bool,
    progress: Progress | None,
) -> Passes:
    places = places_to_keep(steps, pooled=pooled, for_backward=for_backward)
    row = max((steps[n - 1].example.shape[1:].numel() * steps[n - 1].example.element_size() for n in places), default=0)
    keeping = decide(
        keep,
        num_bytes=row * source.num_elements,
        count=len(places) if for_backward else min(len(places), 1),
        always=2 if for_backward and places else 0,  # gradients behind a step, and those before it
        device=source.device,
        folder=folder,
    )
    return Passes(steps, source, keeping, pooled=pooled, for_backward=for_backward, progress=progress)


def _source(model: SetModel, sets: Sequence[Blocks], chunk_elements: int) -> Source:
    weight = next(model.encoder.parameters())
    plain = _takes_vectors(model)
    return Source(
        sets,
        chunk_elements=chunk_elements,
        element_shape=(model.in_features,) if plain else None,
        device=weight.device,
        dtype=weight.dtype if plain else None,  # a featurizer knows what it takes
    )


def _chunk_elements(model: SetModel, given: int | None) -> int:
    if given is None:
        c = model.config
        if not _takes_vectors(model):
            return CHUNK_WITH_FEATURIZER
        numbers = CHUNK_NUMBERS["cuda" if next(model.encoder.parameters()).is_cuda else "cpu"]
        return max(numbers // max(c.width, c.in_features, c.num_heads * c.num_inducing), 1)
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise ValueError(f"chunk_elements must be a whole number of at least 1; got {given!r}.")
    return given


def _takes_vectors(model: SetModel) -> bool:
    """Whether elements are vectors as the encoder takes them: there is no featurizer, or one that leaves their shape alone."""
    return model.element_shape == (model.in_features,)


def _groups(sets: Sequence[Blocks], chunk_elements: int) -> list[list[Blocks]]:
    """Sets that are taken together: one large one, or as many small ones as fill a chunk. At least one group."""
    groups: list[list[Blocks]] = [[]]
    room = chunk_elements
    for one in sets:
        size = count_elements(one)
        if size > room and groups[-1]:
            groups.append([])
            room = chunk_elements
        groups[-1].append(replace(one, num_elements=size))
        room -= size
    return groups


def _tensor_of(sets: Sets) -> Tensor | None:
    """The tensor that gradients of elements may go to."""
    if isinstance(sets, SetBatch):
        return sets.x
    if isinstance(sets, list | tuple) and any(isinstance(one, Tensor) and one.requires_grad for one in sets):
        raise ValueError("gradients of elements are given for a SetBatch or one tensor, not for a list: use SetBatch.from_list.")
    return sets if isinstance(sets, Tensor) else None


def _as_sets(x: Tensor, sizes: Sequence[int]) -> SetBatch:
    return SetBatch(x, torch.tensor([0, *sizes]).cumsum(0))


def _later(show: Progress, before: int, total: int) -> Progress:
    """Tells of one group of sets as part of the whole."""
    return lambda passed, _: show(before + passed, total)


@contextmanager
def _shown(progress: bool | Progress) -> Iterator[Progress | None]:
    """What to call with progress, if anything."""
    if not isinstance(progress, bool):
        yield progress
        return
    if not progress:
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    with Bar(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("passing over the elements", total=None)
        yield lambda passed, total: bar.update(task, completed=passed, total=total)
