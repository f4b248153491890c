"""What depth does to Deep Sets and to Deep Sets++, in about a minute on a laptop.

Three things the paper claims: at 50 layers the gradients of Deep Sets vanish on their way to the first layer; those of
Deep Sets++ do not; so the one learns and the other stays at what a constant scores. The task is a small Normal Var: predict
the variance of each set of numbers. Run it with `python examples/depth.py`.
"""

import time

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor
from torch.nn.functional import mse_loss

import orderless as ol

DEPTH, WIDTH = 50, 64
NUM_SETS, SET_SIZE = 1024, 100
NUM_STEPS, BATCH_SIZE, LEARNING_RATE = 150, 32, 1e-3

console = Console()


def normal_var(num_sets: int, seed: int) -> tuple[Tensor, Tensor]:
    """Sets of normal numbers with mean in [-10, 10] and variance in [0, 10], and their empirical variance."""
    g = torch.Generator().manual_seed(seed)
    mean = torch.rand(num_sets, 1, 1, generator=g) * 20 - 10
    variance = torch.rand(num_sets, 1, 1, generator=g) * 10
    sets = mean + variance.sqrt() * torch.randn(num_sets, SET_SIZE, 1, generator=g)
    return sets, sets.var(1, unbiased=False)


def gradient_norms(model: ol.models.SetModel, sets: Tensor, target: Tensor) -> list[float]:
    """Gradient norms of the encoder's weight matrices, first layer first."""
    model.zero_grad()
    mse_loss(model(sets), target).backward()
    weights = [p for p in model.encoder.parameters() if p.ndim == 2]
    return [p.grad.norm().item() for p in weights if p.grad is not None]


def train(model: ol.models.SetModel, sets: Tensor, target: Tensor) -> None:
    """Adam on random batches."""
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    g = torch.Generator().manual_seed(0)
    for _ in track(range(NUM_STEPS), model.config.name, console=console, transient=True, disable=not console.is_terminal):
        chosen = torch.randint(len(sets), (BATCH_SIZE,), generator=g)
        optimizer.zero_grad()
        mse_loss(model(sets[chosen]), target[chosen]).backward()
        optimizer.step()


def main() -> None:
    """Builds both networks, looks at their gradients, trains them, and prints the comparison."""
    sets, target = normal_var(NUM_SETS, seed=0)
    test_sets, test_target = normal_var(256, seed=1)
    constant = mse_loss(target.mean().expand_as(test_target), test_target).item()
    console.print(
        f"{DEPTH} layers, width {WIDTH}; predict the variance of {SET_SIZE} numbers; "
        f"{NUM_STEPS} steps of {BATCH_SIZE} sets. A constant scores {constant:.2f}."
    )
    table = Table(box=None, pad_edge=False)
    for column in ("network", "gradient of first / last layer", "test MSE before", "test MSE after", "seconds"):
        table.add_column(column, justify="left" if column == "network" else "right")
    for name in ("deep_sets", "deep_sets++"):
        torch.manual_seed(0)
        model = ol.create_model(name, in_features=1, out_features=1, depth=DEPTH, width=WIDTH)
        console.print(f"{name}: training ...")
        norms = gradient_norms(model, sets[:BATCH_SIZE], target[:BATCH_SIZE])
        with torch.no_grad():
            before = mse_loss(model(test_sets), test_target).item()
        start = time.perf_counter()
        train(model, sets, target)
        seconds = time.perf_counter() - start
        with torch.no_grad():
            after = mse_loss(model(test_sets), test_target).item()
        table.add_row(name, f"{norms[0] / norms[-1]:.1e}", f"{before:.2f}", f"{after:.2f}", f"{seconds:.0f}")
    console.print(table)
    ol.testing.assert_invariant(model.double(), ol.SetBatch.from_list([s.double() for s in test_sets[:4]]))
    console.print("deep_sets++ gives the same answer whatever the order of the numbers (checked to 1e-9 in float64).")


if __name__ == "__main__":
    main()
