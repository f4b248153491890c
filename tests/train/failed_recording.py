"""A recording that fails half-way on a GPU: the random numbers, the stream and later recordings must not suffer."""

from contextlib import nullcontext

import torch
from torch import nn

from orderless import SetBatch
from orderless.tasks.dataset import LabelledSets
from orderless.tasks.objectives import OBJECTIVES
from orderless.train.graphs import GraphedSteps, Recorder
from orderless.train.learner import Learner
from orderless.train.update import Guard, Update

DEVICE = torch.device("cuda", 0)


class Late(nn.Module):
    """Waits for the GPU only while it is recorded, so that no rehearsal finds it out."""

    def __init__(self, *, waits: bool) -> None:
        super().__init__()
        self.weight, self.waits = nn.Parameter(torch.ones(())), waits

    def forward(self, sets: SetBatch) -> torch.Tensor:
        x = nn.functional.dropout(sets.x, 0.5) * self.weight
        if self.waits and torch.cuda.is_current_stream_capturing():
            x.sum().item()
        return x[sets.offsets[:-1]]


def make_steps(*, waits: bool) -> GraphedSteps:
    model = Late(waits=waits).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)
    update = Update(model, optimizer, guard=Guard(DEVICE, optimizer))
    return GraphedSteps(Learner(model, OBJECTIVES["regression"]), update, nullcontext, Recorder(DEVICE), ragged=False)


def main() -> None:
    """Fails, and looks around."""
    batch = LabelledSets(SetBatch.from_padded(torch.rand(16, 8, 1, device=DEVICE)), torch.zeros(16, 1, device=DEVICE))
    torch.cuda.manual_seed(3)
    expected = torch.rand(4, device=DEVICE)
    torch.cuda.manual_seed(3)
    assert make_steps(waits=True)(batch, 0.01) is None
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    assert torch.equal(torch.rand(4, device=DEVICE), expected)
    steps = make_steps(waits=False)
    losses = [steps(batch, 0.01) for _ in range(3)]
    assert all(numbers is not None for numbers in losses)
    torch.cuda.synchronize()
    print("usable")


if __name__ == "__main__":
    main()
