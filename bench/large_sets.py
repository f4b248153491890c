"""Predicts one set of any size in chunks, or learns from it, and compares with one shot where that fits.

    python bench/large_sets.py --elements 1000000
    python bench/large_sets.py --elements 100000000 --model deep_sets++ --depth 50 --one-shot never
    python bench/large_sets.py --elements 1000000 --learn

Elements are made where they are needed from their numbers, the same ones in every pass, so the set itself takes no room. What
takes room is printed: the activations that are kept between passes, and the peak. Ends with an error if chunks and one shot
differ by more than rounding.
"""

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from measured import describe_machine
from torch import Tensor

import orderless as ol
from orderless.models import chunked

NUM_FEATURES = 2
FITS_ONE_SHOT = 2_000_000
CHUNK = {"cpu": 2**15, "cuda": 2**18}
# relative to the answer, or to the largest gradient: a few hundred roundings, which is what a sum over so many elements leaves
TOLERANCE = {"float32": 5e-5, "bfloat16": 5e-2, "float64": 1e-10}


def main() -> None:
    """One set, one network, one row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, default=1_000_000)
    parser.add_argument("--model", default="deep_sets++", choices=["deep_sets++", "set_transformer++"])
    parser.add_argument("--depth", type=int, default=None, help="default: that of the model, 50 or 16")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--dtype", default="float32", choices=list(TOLERANCE))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--chunk", type=int, default=None, help="elements in work at a time")
    parser.add_argument("--keep", default="auto", choices=["auto", "device", "host", "disk", "nothing"])
    parser.add_argument("--folder", type=Path, default=None, help="for --keep disk")
    parser.add_argument("--learn", action="store_true", help="gradients as well")
    parser.add_argument("--one-shot", default="auto", choices=["auto", "always", "never"], help=f"auto: up to {FITS_ONE_SHOT:,}")
    parser.add_argument("--out", type=Path, default=None, help="append the row to this JSONL file")
    options = parser.parse_args()
    row = measure(options)
    for name, value in row.items():
        print(f"{name:24}{value}")
    if options.out is not None:
        with options.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
    if row["difference"] is not None and not row["difference"] <= TOLERANCE[options.dtype]:  # type: ignore[operator]
        sys.exit(f"chunks and one shot differ by {row['difference']:.1e}, more than {TOLERANCE[options.dtype]:.0e}.")


def measure(options: argparse.Namespace) -> dict[str, object]:
    """What happened, and on what."""
    device, dtype = torch.device(options.device), getattr(torch, options.dtype)
    torch.manual_seed(0)
    model = ol.create_model(options.model, NUM_FEATURES, 1, depth=options.depth, width=options.width).to(device, dtype)
    work = learn if options.learn else predict
    chunk = options.chunk or CHUNK[device.type]

    def in_chunks(sets: chunked.Blocks) -> Tensor | ol.SetBatch:
        call = chunked.forward if options.learn else chunked.predict
        return call(model, sets, chunk_elements=chunk, keep=options.keep, folder=options.folder)

    work(model, in_chunks, elements(2 * chunk, chunk, device, dtype))  # to warm up
    _forget_peak(device)
    start = time.perf_counter()
    answer, gradients = work(model, in_chunks, elements(options.elements, chunk, device, dtype))
    seconds, peak = time.perf_counter() - start, _peak(device)
    difference = None
    if options.one_shot == "always" or (options.one_shot == "auto" and options.elements <= FITS_ONE_SHOT):
        x = torch.cat([torch.as_tensor(block) for block in elements(options.elements, chunk, device, dtype).read()])
        expected, expected_gradients = work(model, model, ol.SetBatch.from_padded(x[None]))
        difference = max(_distance(answer, expected), _distance(gradients, expected_gradients))
    return {
        "model": options.model,
        "depth": model.config.depth,
        "width": model.config.width,
        "elements": options.elements,
        "dtype": options.dtype,
        "direction": "forward+backward" if options.learn else "forward",
        "keep": options.keep,
        "chunk_elements": chunk,
        "seconds": round(seconds, 3),
        "elements_per_second": round(options.elements / seconds),
        "peak_mib": round(peak / 2**20, 1),
        "kept_at_a_place_mib": round(options.elements * model.config.width * dtype.itemsize / 2**20, 1),
        "answer": answer.flatten().tolist(),
        "difference": difference,
        **describe_machine(options.device),
    }


def elements(num_elements: int, block: int, device: torch.device, dtype: torch.dtype) -> chunked.Blocks:
    """One set of normal numbers whose spread grows from its first to its last element, so that no chunk is like another."""

    def read() -> Iterator[Tensor]:
        for start in range(0, num_elements, block):
            numbers = torch.arange(start * NUM_FEATURES, min(start + block, num_elements) * NUM_FEATURES, device=device)
            x = normal(numbers) * (1 + numbers / (num_elements * NUM_FEATURES))
            yield x.reshape(-1, NUM_FEATURES).to(dtype)

    return chunked.Blocks(read, num_elements)


def normal(numbers: Tensor) -> Tensor:
    """A normal random number for each whole number, always the same one: splitmix64 (Steele, Lea, Flood 2014) as its counter."""
    z = (numbers + 1) * _signed(0x9E3779B97F4A7C15)
    z = (z ^ _shifted(z, 30)) * _signed(0xBF58476D1CE4E5B9)
    z = (z ^ _shifted(z, 27)) * _signed(0x94D049BB133111EB)
    uniform = (_shifted(z ^ _shifted(z, 31), 12).double() + 0.5) * 2.0**-52  # exact, and neither 0 nor 1
    return torch.special.ndtri(uniform)


def _shifted(z: Tensor, by: int) -> Tensor:
    """Shifted to the right as if it had no sign."""
    return (z >> by) & ((1 << (64 - by)) - 1)


def _signed(number: int) -> int:
    return number - 2**64


def predict(model: ol.models.SetModel, call: Callable[..., object], sets: object) -> tuple[Tensor, Tensor]:
    """The answer, and no gradients."""
    with torch.no_grad():
        answer = call(sets)
    assert isinstance(answer, Tensor)
    return answer.double().cpu(), torch.zeros(0)


def learn(model: ol.models.SetModel, call: Callable[..., object], sets: object) -> tuple[Tensor, Tensor]:
    """The answer, and all gradients of its sum."""
    model.zero_grad()
    answer = call(sets)
    assert isinstance(answer, Tensor)
    answer.sum().backward()
    found = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
    return answer.detach().double().cpu(), torch.cat([g.flatten() for g in found]).double().cpu()


def _distance(found: Tensor, expected: Tensor) -> float:
    return ((found - expected).abs().max() / expected.abs().max()).item() if expected.numel() else 0.0


def _forget_peak(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)


def _peak(device: torch.device) -> int:
    """On a GPU what was allocated there; elsewhere the most that the process ever held."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
