"""How far the gradients of a module are from each symmetry, where its answers are right.

A module is given fixed random numbers c, one for each number of its answer y, and <c, y> is differentiated by the elements and by
the weights. What y keeps, the gradient must keep: it is shuffled as the elements are, that of a set's elements is what the set
gets alone, and padding gets none. A custom backward pass, a straight-through estimator or a kernel can break each of these and
leave every answer right.

A violation of 0.1 means that the gradient of a set moved by a tenth of its size, both as the root of summed squares over the
set's elements: a single element may get next to nothing.

Where a gradient jumps, as at a ReLU of 0, rounding decides on its side. So what moved is asked again at elements a little
elsewhere, and only what moves each time counts. (Elements that tie do so there, too.) Of equal elements in a set, a maximum may
name any: whatever made them gets the sum, so that is compared.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from orderless.sets import SetBatch
from orderless.testing.calling import Caller, Module, Takes, is_per_element, untouched
from orderless.testing.violations import (
    PADDING_FILLS,
    SMALL,
    by_set,
    crowd_of,
    moved_places,
    other_content,
    padded_further,
    shuffle_within_sets,
    values_of,
)

AGAIN = 3  # times that a gradient is asked for elsewhere, once it moved
# a gradient that moves with the last digits of the elements is made of rounding; to add in another order is to round everywhere
LAST_DIGITS, MANY_TIMES = 8, 10
ELEMENTS, WEIGHTS, PADDING = "the gradient of the elements", "the gradient of the weights", "the gradient of the padding"

Found = tuple[float, str]  # a violation, and whose gradient it is
NOTHING: Found = (0.0, "")


@dataclass
class _Gradients:
    """Of <c, y>.

    Shapes: elements (T, features), None where they are no floating-point numbers; one of `weights` for each weight.
    """

    elements: Tensor | None
    weights: list[Tensor]


def permutation_of_gradients(module: Module, batch: SetBatch, *, allowed: float, takes: Takes = "auto", seed: int = 0) -> Found:
    """Shuffles the elements of every set and, where there is one answer per element, c alike."""
    call = Caller(module, batch, takes)
    order = shuffle_within_sets(batch, seed)
    back = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))

    def ask(batch: SetBatch) -> Found:
        c = _multipliers(call, batch, seed)
        plain = _gradients(call, batch, c)
        if plain is None:
            return NOTHING
        per_element = is_per_element(c, batch)
        c_shuffled = batch.with_x(values_of(c)[order]) if per_element else c
        shuffled = _gradients(call, batch.with_x(batch.x[order]), c_shuffled)
        if shuffled is not None and shuffled.elements is not None:
            shuffled.elements = shuffled.elements[back]
        return _largest(plain, shuffled, batch, c, allowed)

    return _asked_again(ask, call, batch, allowed, seed)


def independence_of_gradients(module: Module, batch: SetBatch, *, allowed: float, takes: Takes = "auto", seed: int = 0) -> Found:
    """Gives each set mates: those of the batch, in another order too, others before them, and a crowd.

    In each company all answers are differentiated at once. What an answer lets into the elements of another set, and what it
    takes from there, moves the gradient from what the set gets alone.
    """
    call = Caller(module, batch, takes)

    def ask(batch: SetBatch) -> Found:
        c = _multipliers(call, batch, seed)
        together = _gradients(call, batch, c)
        if together is None:
            return NOTHING
        cs = by_set(c)
        alone = _alone(call, batch, cs, together)
        found = [_largest(alone, together, batch, c, allowed)]
        generator = torch.Generator().manual_seed(seed)
        order = moved_places(batch.num_sets, generator).tolist()
        other = batch.with_x(other_content(batch.x, generator))
        # each company is a batch, what its answers are multiplied by, and where our sets are in it
        companies = [(batch[order], [cs[n] for n in order], [order.index(n) for n in range(batch.num_sets)])]
        for before in (other, crowd_of(other)):
            strangers = by_set(_multipliers(call, before, seed + 1)) if len(before) else []
            places = [before.num_sets + n for n in range(batch.num_sets)]
            companies.append((SetBatch.cat([before, batch]), [*strangers, *cs], places))
        for company, multipliers, places in companies:
            got = _gradients(call, company, torch.cat(multipliers))
            if got is not None and got.elements is not None:
                rows = got.elements.split(company.sizes.tolist())
                ours = _Gradients(torch.cat([rows[place] for place in places]), [])
                found.append(_largest(alone, ours, batch, c, allowed))
        return max(found)

    return _asked_again(ask, call, batch, allowed, seed)


def padding_of_gradients(module: Module, batch: SetBatch, *, allowed: float, takes: Takes = "auto") -> tuple[float, str, str]:
    """Pads further with finite numbers. Returns the violation, whose gradient it is, and the content that caused it.

    NaN and Inf are not tried: any layer before the `where` that keeps them out has such gradients.
    """
    call = Caller(module, batch, takes)
    if call.takes == "set_batch" or not batch.dtype.is_floating_point:
        return (*NOTHING, "")
    causes: dict[Found, str] = {}

    def ask(batch: SetBatch) -> Found:
        c = _multipliers(call, batch, seed=0)
        plain = _gradients(call, batch, c)
        if plain is None or plain.elements is None:
            return NOTHING
        found = [NOTHING]
        for name, longer, mask in padded_further(batch):
            if not math.isfinite(PADDING_FILLS[name]):
                continue
            padded = _differentiate(module, longer, partial(call.on_padded, mask=mask), c)
            if padded is None or padded.elements is None:
                continue
            by_place = padded.elements.reshape(*mask.shape, -1)
            stray = by_place.masked_fill(mask[..., None], 0).flatten(1).norm(dim=1)
            of_padding = (_ratio(stray, _sizes(plain.elements, batch, c)), PADDING)
            of_others = _largest(plain, _Gradients(by_place[mask], padded.weights), batch, c, allowed)
            found.append(max(of_padding, of_others))
            causes.setdefault(found[-1], name)
        return max(found)

    found = _asked_again(ask, call, batch, allowed, seed=0)
    return (*found, causes.get(found, ""))


def _alone(call: Caller, batch: SetBatch, cs: list[Tensor], together: _Gradients) -> _Gradients:
    """What each set gets alone, and the sum of what they give the weights; where there are empty sets, that of them together."""
    sizes = batch.sizes.tolist()
    parts = [_gradients(call, batch[[n]], cs[n]) for n, size in enumerate(sizes) if size]
    given = [part for part in parts if part is not None]
    if len(given) < len(parts) or not given:
        return together
    elements = None if together.elements is None else torch.cat([g.elements for g in given if g.elements is not None])
    sums = [torch.stack(of_one).sum(0) for of_one in zip(*(g.weights for g in given), strict=True)]
    return _Gradients(elements, sums if all(sizes) else together.weights)


def _asked_again(ask: Callable[[SetBatch], Found], call: Caller, batch: SetBatch, allowed: float, seed: int) -> Found:
    """What is found at the elements given and, where that is too much, nearby: a jump of the gradient is not in all of them."""
    generator = torch.Generator().manual_seed(seed)
    worst = NOTHING
    for attempt in range(1 + AGAIN if batch.dtype.is_floating_point else 1):
        tried = batch if attempt == 0 else batch.with_x(_nearby(batch.x, generator, 0.1))
        try:
            found = ask(tried)
            if found[0] > allowed and found[0] <= MANY_TIMES * _by_rounding(call, tried, generator):
                return NOTHING
        except Exception:  # somebody else's module may raise anything, and need not be one to differentiate
            if attempt == 0:
                return NOTHING
            continue
        worst = found if attempt == 0 else min(worst, found)
        if worst[0] <= allowed:
            break
    return worst


def _by_rounding(call: Caller, batch: SetBatch, generator: torch.Generator) -> float:
    """How far the gradient moves where the elements move by their last digits, as in a network whose numbers explode."""
    if not batch.dtype.is_floating_point:
        return 0.0
    c = _multipliers(call, batch, seed=0)
    moved = batch.with_x(_nearby(batch.x, generator, LAST_DIGITS * torch.finfo(batch.dtype).eps))
    plain, found = _gradients(call, batch, c), _gradients(call, moved, c)
    if plain is None or found is None:
        return 0.0
    noise, _ = _largest(plain, found, batch, c, math.inf)
    return noise if noise < math.inf else 0.0


def _nearby(x: Tensor, generator: torch.Generator, by: float) -> Tensor:
    """Each feature stretched and shifted by a part of its size, at most: elements that tie in it still do."""
    stretch, shift = ((torch.rand(2, *x.shape[1:], generator=generator, dtype=torch.float64) * 2 - 1) * by).to(x)
    return x * (1 + stretch) + shift * x.abs().mean()


def _multipliers(call: Caller, batch: SetBatch, seed: int) -> Tensor | SetBatch:
    """c, one random number for each number of the answer."""
    with untouched(call.module):
        answer = call(batch)
    values = values_of(answer)
    generator = torch.Generator().manual_seed(seed)
    c = torch.randn(values.shape, generator=generator, dtype=torch.float64).to(values)
    return answer.with_x(c) if isinstance(answer, SetBatch) else c


def _gradients(call: Caller, batch: SetBatch, c: Tensor | SetBatch) -> _Gradients | None:
    return _differentiate(call.module, batch.x, lambda x: call(batch.with_x(x)), c)


def _differentiate(
    module: Module, x: Tensor, answer_to: Callable[[Tensor], Tensor | SetBatch], c: Tensor | SetBatch
) -> _Gradients | None:
    """None where the answer has no gradient."""
    x = x.clone().requires_grad_(x.is_floating_point())
    weights = [p for p in module.parameters() if p.requires_grad] if isinstance(module, nn.Module) else []
    inputs = [x, *weights] if x.requires_grad else weights
    with untouched(module), torch.enable_grad():
        y = values_of(answer_to(x))
        if not y.requires_grad or not inputs:
            return None
        given = torch.autograd.grad(y, inputs, grad_outputs=values_of(c), allow_unused=True)
    gradients = [torch.zeros_like(i) if g is None else g for i, g in zip(inputs, given, strict=True)]
    # (N, M, ...) where x is padded
    elements = gradients.pop(0).reshape(-1, math.prod(x.shape[1:])) if x.requires_grad else None
    return _Gradients(elements, gradients)


def _largest(expected: _Gradients, found: _Gradients | None, batch: SetBatch, c: Tensor | SetBatch, allowed: float) -> Found:
    """The largest violation among the sets, or else among the weights; one that has no gradient any more has that of zeros."""
    of_elements = of_weights = 0.0
    if expected.elements is not None:
        there = torch.zeros_like(expected.elements) if found is None or found.elements is None else found.elements
        sizes = _sizes(expected.elements, batch, c)
        of_elements = _ratio(_by_set_norm(there - expected.elements, batch), sizes)
        if allowed < of_elements < math.inf:
            of_elements = _ratio(_by_set_norm(_of_equals(there - expected.elements, batch), batch), sizes)
    if found is not None and found.weights:
        norms = torch.stack([g.double().norm() for g in expected.weights])
        differences = torch.stack([(g - w).double().norm() for g, w in zip(found.weights, expected.weights, strict=True)])
        least = SMALL * max(norms.nan_to_num(0, 0, 0).max().item(), values_of(c).double().norm().item()) or SMALL
        of_weights = _ratio(differences, norms.clamp(min=least))
    return max((of_elements, ELEMENTS), (of_weights, WEIGHTS)) if of_elements <= allowed else (of_elements, ELEMENTS)


def _sizes(elements: Tensor, batch: SetBatch, c: Tensor | SetBatch) -> Tensor:
    """(N,) how large the gradient of each set is. One that is near zero is measured on a thousandth of the largest in the batch
    or, as all may be rounding, of that of c itself in units of x.
    """
    norms = _by_set_norm(elements, batch)
    if not len(norms):
        return norms
    unit = batch.x.double().square().mean().sqrt().item() if batch.x.numel() else 1.0
    of_c = values_of(c).double().norm().item() / math.sqrt(len(norms)) / (unit or 1.0)
    return norms.clamp(min=SMALL * max(norms.nan_to_num(0, 0, 0).max().item(), of_c) or SMALL)


def _by_set_norm(elements: Tensor, batch: SetBatch) -> Tensor:
    """(N,) roots of summed squares."""
    squares = elements.double().square().sum(1)
    return torch.stack([part.sum() for part in squares.split(batch.sizes.tolist())]).sqrt() if len(batch) else squares[:0]


def _of_equals(elements: Tensor, batch: SetBatch) -> Tensor:
    """The rows of equal elements of a set added up, in the place of the first of them."""
    numbers = torch.arange(len(batch), device=batch.device).repeat_interleave(batch.sizes)
    rows = torch.cat([numbers[:, None].double(), batch.x.reshape(len(batch.x), -1).double()], dim=1)
    _, which = torch.unique(rows, dim=0, return_inverse=True)
    first = torch.full_like(which, len(which)).scatter_reduce_(0, which, torch.arange(len(which), device=batch.device), "amin")
    return torch.zeros_like(elements).index_add_(0, first[which], elements)


def _ratio(differences: Tensor, sizes: Tensor) -> float:
    """The largest, infinite where numbers are lost. Gradients that are NaN or Inf to begin with show nothing."""
    if not len(sizes):
        return 0.0
    ratios = (differences / sizes).nan_to_num(math.inf, math.inf).where(sizes.isfinite(), 0)
    return ratios.max().item()
