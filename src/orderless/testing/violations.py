"""How far a module is from each symmetry: the largest difference found, relative to the size of its answers.

A violation of 0.1 means that the answer for a set moved by a tenth of what sets of its size get. Rounding gives about 1e-15 in
float64 and 1e-6 in float32. An answer of NaN or Inf to finite elements counts as infinite.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn

from orderless.sets import SetBatch
from orderless.testing.calling import Caller, Module, Takes, is_per_element, untouched

SMALL = 1e-3
DRAWS = 3  # sets of like size that a set is measured among: one answer may be near zero by chance, so many hardly are
CROWD, MOST_IN_CROWD = 32, 10_000  # sets before those that are looked at, and how many elements they may have together
MORE_PADDING = 7  # rows of each set
IN_GRADIENTS = "makes gradients NaN or Inf, though the answer does not move"
# of both signs: whether a score that is lowered by some thousands outweighs the others depends on that
PADDING_FILLS = {"zeros": 0.0, "large numbers": 1e4, "large negative numbers": -1e4, "NaN": math.nan, "Inf": math.inf}


def permutation_violation(module: Module, batch: SetBatch, *, takes: Takes = "auto", seed: int = 0) -> tuple[float, str]:
    """Shuffles the elements of every set. Returns the violation and which symmetry was tried: invariance or equivariance.

    A batch without a set of two or more elements shows nothing, and gives 0.
    """
    call = Caller(module, batch, takes)
    order = shuffle_within_sets(batch, seed)
    with untouched(module):
        plain = call(batch)
    with untouched(module):
        shuffled = call(batch.with_x(batch.x[order]))
    if is_per_element(plain, batch):
        expected = batch.with_x(values_of(plain)[order])
        return _largest_difference(expected, shuffled, _of_like_size(call, batch, expected, seed)), "equivariance"
    return _largest_difference(plain, shuffled, _of_like_size(call, batch, plain, seed)), "invariance"


def independence_violation(module: Module, batch: SetBatch, *, allowed: float, takes: Takes = "auto", seed: int = 0) -> float:
    """Gives each set other batch mates: none, the batch in another order, mates with other content, twice as many, and a crowd.

    Where the module raises in some company, that is raised, unless in another the answer moved by more than `allowed`.
    """
    call = Caller(module, batch, takes)
    generator = torch.Generator().manual_seed(seed)
    everyone = range(batch.num_sets)
    order = moved_places(batch.num_sets, generator).tolist()
    other = batch.with_x(other_content(batch.x, generator))
    with untouched(module):
        answer = call(batch)
    together, alike = by_set(answer), _of_like_size(call, batch, answer, seed)

    # each company is a batch, and for each of its sets that is one of ours, which one
    companies: list[tuple[SetBatch, dict[int, int]]] = [(batch[order], dict(enumerate(order)))]
    companies += [(SetBatch.cat([batch[[i]] if i == n else other[[i]] for i in everyone]), {n: n}) for n in everyone]
    companies += [(batch[[n]], {0: n}) for n in everyone]
    companies += [
        (SetBatch.cat([before, batch]), {before.num_sets + n: n for n in everyone}) for before in (other, crowd_of(other))
    ]
    worst, raised = 0.0, None
    for company, places in companies:
        try:
            with untouched(module):
                answers = by_set(call(company))
        except Exception as error:  # kept: how far an answer moved, where it did, says more
            raised = raised or error
            continue
        for place, n in places.items():
            worst = max(worst, relative_difference(together[n], answers[place], among=together))
            worst = max(worst, relative_difference(together[n], answers[place], among=[together[n], *alike[n]]))
    if raised is not None and worst <= allowed:
        raise raised
    return worst


def padding_violation(module: Module, batch: SetBatch, *, takes: Takes = "auto") -> tuple[float, str]:
    """Pads further, with zeros, large numbers of both signs, NaN and Inf. Returns the violation and the content that caused it.

    Whole numbers may be places in a table, so they are padded with those that are there: the smallest and the largest. A mask may
    say that padding comes first, too.
    """
    call = Caller(module, batch, takes)
    with untouched(module):
        plain = call(batch)
    alike = _of_like_size(call, batch, plain, seed=0)
    worst, cause = 0.0, ""
    ways = list(padded_further(batch))
    if call.takes in ("mask", "padding_mask") and ways:
        name, longer, mask = ways[0]
        ways.append((f"{name} before the elements", longer.roll(MORE_PADDING, 1), mask.roll(MORE_PADDING, 1)))
    for name, longer, mask in ways:
        with untouched(module):
            padded = call.on_padded(longer, mask)
        moved = _largest_difference(plain, padded, alike)
        if moved > worst:
            worst, cause = moved, name
    if worst == 0 and call.takes == "set_batch":
        cause = "a SetBatch has none"
    return worst, cause


def padding_in_gradients(module: Module, batch: SetBatch, *, takes: Takes = "auto") -> str | None:
    """The finite content of padding that makes gradients NaN or Inf, if one does.

    A `where` keeps padding out of the answer only: the slope of a root or a norm at zeros is infinite, and 0 times that is NaN in
    the backward pass. NaN and Inf are not tried as padding: with them, any layer before the `where` has such gradients. Gradients
    that are NaN or Inf without padding, too, set by set, are not blamed on it.
    """
    call = Caller(module, batch, takes)
    if call.takes == "set_batch" or not batch.dtype.is_floating_point:
        return None

    def is_sound(alone: SetBatch) -> bool:
        return gradients_are_finite(module, alone.x, lambda x: call(alone.with_x(x)))

    for name, longer, mask in padded_further(batch):
        if math.isfinite(PADDING_FILLS[name]) and not gradients_are_finite(module, longer, partial(call.on_padded, mask=mask)):
            return name if all(is_sound(batch[[n]]) for n in batch.sizes.nonzero().flatten().tolist()) else None
    return None


def gradients_are_finite(module: Module, x: Tensor, answer_to: Callable[[Tensor], Tensor | SetBatch]) -> bool:
    """Whether the sum of a module's answer to elements has finite gradients, of the elements and of its weights."""
    x = x.clone().requires_grad_()
    weights = [p for p in module.parameters() if p.requires_grad] if isinstance(module, nn.Module) else []
    with untouched(module), torch.enable_grad():
        total = values_of(answer_to(x)).sum()
        if not total.requires_grad:
            return True
        gradients = torch.autograd.grad(total, [x, *weights], allow_unused=True)
    return all(g is None or bool(g.isfinite().all()) for g in gradients)


def padded_further(batch: SetBatch) -> Iterator[tuple[str, Tensor, Tensor]]:
    """The sets with more padding than they need: what it holds, in words, and x and mask."""
    x, mask = batch.to_padded()
    num_sets, size = mask.shape
    longer_mask = torch.cat([mask, mask.new_zeros(num_sets, MORE_PADDING)], dim=1)
    fills = PADDING_FILLS if x.is_floating_point() else _whole_fills(batch.x)
    for name, fill in fills.items():
        longer = x.new_full((num_sets, size + MORE_PADDING, *x.shape[2:]), fill)
        longer[:, :size][mask] = x[mask]
        yield name, longer, longer_mask


def _whole_fills(x: Tensor) -> dict[str, float]:
    known = {"the smallest number": x.min().item(), "the largest number": x.max().item()} if x.numel() else {"zeros": 0}
    return {name: float(value) for name, value in known.items()}


def relative_difference(a: Tensor, b: Tensor, *, among: list[Tensor] | None = None) -> float:
    """Largest difference, each column relative to the largest number in that column of `a`, or of all answers `among`.

    A column much smaller than the others, or near zero, is measured on a thousandth of the largest number, or of 1: there,
    rounding is all there may be.

    Shapes: a, b and those of `among` are (rows, features).
    """
    if a.shape != b.shape:
        raise ValueError(f"the module's answers have shapes {tuple(a.shape)} and {tuple(b.shape)}.")
    if a.numel() == 0:
        return 0.0
    if not bool(a.isfinite().all() and b.isfinite().all()):
        return math.inf
    columns = torch.cat(among or [a]).double().abs().amax(0)  # (features,)
    scale = columns.clamp(min=max(columns.max().item(), 1.0) * SMALL)
    return ((a.double() - b.double()).abs() / scale).max().item()


def _largest_difference(a: Tensor | SetBatch, b: Tensor | SetBatch, alike: list[list[Tensor]]) -> float:
    """Largest difference between two answers, relative to all numbers of `a`, and set by set to what sets of its size give.

    The answer of a sum over 20,000 elements says nothing of how large the one over 5 is: among all, its error would not be seen.
    """
    among_all = relative_difference(values_of(a), values_of(b))
    by_size = [relative_difference(p, q, among=[p, *like]) for p, q, like in zip(by_set(a), by_set(b), alike, strict=False)]
    return max([among_all, *by_size])


def _of_like_size(call: Caller, batch: SetBatch, answer: Tensor | SetBatch, seed: int) -> list[list[Tensor]]:
    """For each set what to measure it among: the answers for a few sets of its size, of elements drawn from the whole batch.

    In half precision it is the whole answer: two or three digits are too few to tell rounding from more in a part of it. There
    is nothing where the module does not take as many sets, or where what it says of them are no numbers.
    """
    if batch.dtype in (torch.float16, torch.bfloat16):
        return [by_set(answer)] * batch.num_sets
    generator = torch.Generator().manual_seed(seed)
    orders = [torch.randperm(batch.num_elements, generator=generator).to(batch.device) for _ in range(DRAWS)]
    drawn = SetBatch.cat([batch.with_x(batch.x[order]) for order in orders])
    try:
        with untouched(call.module):
            drawn_answers = by_set(call(drawn))
    except Exception:  # somebody else's module may raise anything; what it says of the batch itself is measured all the same
        drawn_answers = []
    return [[a for a in drawn_answers[n :: batch.num_sets] if bool(a.isfinite().all())] for n in range(batch.num_sets)]


def values_of(answer: Tensor | SetBatch) -> Tensor:
    """All numbers of an answer, one row per set or element."""
    x = answer.x if isinstance(answer, SetBatch) else answer
    x = torch.view_as_real(x) if x.is_complex() else x
    return x.reshape(x.shape[0], math.prod(x.shape[1:]))


def by_set(answer: Tensor | SetBatch) -> list[Tensor]:
    """The answer for each set, as (rows, features)."""
    values = values_of(answer)
    return list(values.split(answer.sizes.tolist())) if isinstance(answer, SetBatch) else list(values[:, None])


def shuffle_within_sets(batch: SetBatch, seed: int) -> Tensor:
    """(T,) element numbers in which no element of a set of two or more stands where it was."""
    generator = torch.Generator().manual_seed(seed)
    parts = [
        start + moved_places(size, generator) for start, size in zip(batch.offsets.tolist(), batch.sizes.tolist(), strict=False)
    ]
    return torch.cat(parts).to(batch.device) if parts else torch.arange(0, device=batch.device)


def moved_places(count: int, generator: torch.Generator) -> Tensor:
    """A random permutation that leaves nothing in its place, where there is more than one: a step along a random ring."""
    ring = torch.randperm(count, generator=generator)
    return torch.empty_like(ring).scatter_(0, ring, ring.roll(1))


def crowd_of(batch: SetBatch) -> SetBatch:
    """The smallest set that has an element many times over: more sets than limits that people build in, and all of one size."""
    sizes = batch.sizes.tolist()
    n = min((n for n, size in enumerate(sizes) if size), key=lambda n: sizes[n], default=None)
    return batch[[] if n is None else [n] * max(1, min(CROWD, MOST_IN_CROWD // sizes[n]))]


def other_content(x: Tensor, generator: torch.Generator) -> Tensor:
    """Elements of the same kind but ten times larger, so that a statistic they leak into moves."""
    if x.is_floating_point():
        return torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x) * 10 + 3
    return x[torch.randperm(x.shape[0], generator=generator).to(x.device)]
