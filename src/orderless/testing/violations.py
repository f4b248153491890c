"""How far a module is from each symmetry: the largest difference found, relative to the largest number it returns.

A violation of 0.1 means that the answer moved by a tenth of its size. Rounding gives about 1e-15 in float64 and 1e-6 in
float32. NaN where there was none counts as infinite.
"""

import math

import torch
from torch import Tensor

from orderless.sets import SetBatch
from orderless.testing.calling import Caller, Module, Takes, untouched

MATERIAL = 1e-3  # no rounding, in any dtype
PADDING_FILLS = {"zeros": 0.0, "large numbers": 1e4, "NaN": math.nan, "Inf": math.inf}


def permutation_violation(module: Module, batch: SetBatch, *, takes: Takes = "auto", seed: int = 0) -> tuple[float, str]:
    """Shuffles the elements of every set. Returns the violation and which symmetry was tried: invariance or equivariance."""
    call = Caller(module, takes)
    order = _shuffle_within_sets(batch, seed)
    with untouched(module):
        plain = call(batch)
    with untouched(module):
        shuffled = call(batch.with_x(batch.x[order]))
    if isinstance(plain, SetBatch) and isinstance(shuffled, SetBatch):
        return relative_difference(plain.x[order], shuffled.x), "equivariance"
    return relative_difference(plain, shuffled), "invariance"


def independence_violation(module: Module, batch: SetBatch, *, takes: Takes = "auto", seed: int = 0) -> float:
    """Gives each set other batch mates: none, the batch in another order, and mates with other content."""
    call = Caller(module, takes)
    generator = torch.Generator().manual_seed(seed)
    everyone = range(batch.num_sets)
    order = _moved(batch.num_sets, generator).tolist()
    other = batch.with_x(_other_content(batch.x, generator))
    with untouched(module):
        together = _by_set(call(batch))

    # each company is a batch, and for each of its sets that is one of ours, which one
    companies: list[tuple[SetBatch, dict[int, int]]] = [(batch[order], dict(enumerate(order)))]
    companies += [(SetBatch.cat([batch[[i]] if i == n else other[[i]] for i in everyone]), {n: n}) for n in everyone]
    companies += [(batch[[n]], {0: n}) for n in everyone]
    worst, raised = 0.0, None
    for company, places in companies:
        try:
            with untouched(module):
                answers = _by_set(call(company))
        except Exception as error:  # say how far the answer moved where it did; raise where that is all there is to say
            raised = raised or error
            continue
        for place, n in places.items():
            worst = max(worst, relative_difference(together[n], answers[place], scale_of=together))
    if raised is not None and worst < MATERIAL:
        raise raised
    return worst


def padding_violation(module: Module, batch: SetBatch, *, takes: Takes = "auto", extra: int = 7) -> tuple[float, str]:
    """Pads further, with zeros, large numbers, NaN and Inf. Returns the violation and the content that caused it."""
    call = Caller(module, takes)
    with untouched(module):
        plain = call(batch)
    x, mask = batch.to_padded()
    num_sets, size = mask.shape
    worst, cause = 0.0, "none"
    for name, fill in PADDING_FILLS.items():
        longer = x.new_full((num_sets, size + extra, *x.shape[2:]), fill)
        longer[:, :size][mask] = x[mask]
        longer_mask = torch.cat([mask, mask.new_zeros(num_sets, extra)], dim=1)
        with untouched(module):
            padded = call.on_padded(longer, longer_mask)
        moved = relative_difference(_values(plain), _values(padded))
        if moved > worst:
            worst, cause = moved, name
    return worst, cause


def relative_difference(a: Tensor | SetBatch, b: Tensor | SetBatch, *, scale_of: list[Tensor] | None = None) -> float:
    """Largest difference over the largest number of `a`, or of all of `scale_of`."""
    first, second = _values(a).double(), _values(b).double()
    if first.shape != second.shape:
        raise ValueError(f"the module's answers have shapes {tuple(first.shape)} and {tuple(second.shape)}.")
    if first.numel() == 0:
        return 0.0
    if not bool((first.isfinite() == second.isfinite()).all()):
        return math.inf
    both = first.isfinite()
    difference = (first - second)[both].abs().max().item() if bool(both.any()) else 0.0
    numbers = torch.cat([t.double().flatten() for t in scale_of]) if scale_of else first
    numbers = numbers[numbers.isfinite()].abs()
    scale = numbers.max().item() if numbers.numel() else 0.0
    return difference / scale if scale > 0 else (math.inf if difference > 0 else 0.0)


def _values(answer: Tensor | SetBatch) -> Tensor:
    return answer.x if isinstance(answer, SetBatch) else answer


def _by_set(answer: Tensor | SetBatch) -> list[Tensor]:
    return answer.to_list() if isinstance(answer, SetBatch) else list(answer)


def _shuffle_within_sets(batch: SetBatch, seed: int) -> Tensor:
    """(T,) element numbers in which every set of two or more elements stands in another order than before."""
    generator = torch.Generator().manual_seed(seed)
    parts = [start + _moved(size, generator) for start, size in zip(batch.offsets.tolist(), batch.sizes.tolist(), strict=False)]
    return torch.cat(parts).to(batch.device) if parts else torch.arange(0, device=batch.device)


def _moved(count: int, generator: torch.Generator) -> Tensor:
    """A random permutation that is never the identity, where there is another one."""
    order = torch.randperm(count, generator=generator)
    return order.roll(1) if count > 1 and bool((order == torch.arange(count)).all()) else order


def _other_content(x: Tensor, generator: torch.Generator) -> Tensor:
    """Elements of the same kind but ten times larger, so that a statistic they leak into moves."""
    if x.is_floating_point():
        return torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x) * 10 + 3
    return x[torch.randperm(x.shape[0], generator=generator).to(x.device)]
