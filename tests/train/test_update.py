"""From gradients to new weights: step by step, and as it is recorded."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from orderless.train.update import Guard, Update, unchanged

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
DEVICES = [pytest.param("cpu"), pytest.param("cuda:0", marks=needs_gpu)]
OPTIMIZERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


class Net(nn.Module):
    """A weight that is trained, one that is not, one that nothing uses, and a buffer that every pass changes."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(3, 4), nn.Linear(4, 1)
        self.unused, self.frozen = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(1), requires_grad=False)
        self.register_buffer("passes", torch.zeros(()))

    def forward(self, x):
        self.passes += 1
        return self.outer(self.inner(x).tanh()) * self.frozen


def make_update(device="cpu", *, optimizer="adam", ema=None, guarded=True, **options):
    torch.manual_seed(0)
    net = Net().to(device)
    weights = [p for p in net.parameters() if p.requires_grad]
    optimizer = OPTIMIZERS[optimizer](weights, lr=0.1, weight_decay=0.1, fused=True)
    average = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(ema)) if ema else None
    guard = Guard(torch.device(device), optimizer) if guarded else None
    return Update(net, optimizer, average=average, guard=guard, **options)


def differentiate(update, seed):
    """Puts gradients into the weights, and gives the loss."""
    x = torch.randn(8, 3, generator=torch.Generator().manual_seed(seed)).to(update.rate.device)
    update.optimizer.zero_grad(set_to_none=True)
    loss = update.model(x).square().mean()
    loss.backward()
    return loss


def state(update):
    """All that a step may change, as it would be in a checkpoint."""
    optimizer = update.optimizer.state_dict()
    average = {} if update.average is None else update.average.state_dict()
    tensors = [*update.model.state_dict().values(), *average.values()]
    tensors += [value for slots in optimizer["state"].values() for value in slots.values()]
    return torch.cat([tensor.double().cpu().flatten() for tensor in tensors]), optimizer["param_groups"]


def test_the_loss_and_the_norm_before_clipping_are_given():
    update = make_update(clip_norm=0.01)
    loss = differentiate(update, 1)
    norm = nn.utils.get_total_norm([p.grad for p in update.parameters if p.grad is not None])
    assert update.measure(loss).tolist() == [loss.item(), norm.item()]
    after = nn.utils.get_total_norm([p.grad for p in update.parameters if p.grad is not None])
    assert after.item() == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("ema", [None, 0.9])
def test_recorded_updates_are_the_usual_ones(device, optimizer, ema):
    usual, recorded = (make_update(device, optimizer=optimizer, ema=ema, clip_norm=0.1) for _ in range(2))
    for step, rate in enumerate((0.1, 0.05, 0.2)):
        for update in (usual, recorded):
            update.set_rate(rate)
            update.measure(differentiate(update, step))
        usual.apply()
        recorded.rate.fill_(rate)
        recorded.apply_on_device()
        recorded.applied()
        (expected, options), (found, found_options) = state(usual), state(recorded)
        # the rate is a float32 on the device, and a float64 in the program
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)
        assert found_options == options
        assert options[0]["lr"] == rate


def test_the_moving_average_begins_with_the_weights_after_the_first_step():
    update = make_update(ema=0.9)
    update.measure(differentiate(update, 1))
    update.rate.fill_(0.1)
    update.apply_on_device()
    update.applied()
    for mine, its in zip(update.average.module.parameters(), update.model.parameters(), strict=True):
        assert torch.equal(mine, its)
    assert int(update.average.n_averaged) == 1


def test_pytorch_is_told_that_a_replay_changed_weights():
    """What was kept for a backward pass is stale then, and whoever remembers a version of a weight must see a new one."""
    update = make_update(ema=0.9)
    tensors = [*update.parameters, *update.model.buffers(), *update.average.module.parameters()]
    before = [tensor._version for tensor in tensors]
    update.applied()
    assert all(tensor._version > version for tensor, version in zip(tensors, before, strict=True))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("ema", [None, 0.9])
@pytest.mark.parametrize("steps_before", [0, 2])
def test_what_is_tried_leaves_no_trace(device, ema, steps_before):
    update, twin = (make_update(device, ema=ema) for _ in range(2))
    for each in (update, twin):
        for step in range(steps_before):
            each.measure(differentiate(each, step))
            each.apply()
    with update.untouched():
        for seed in (7, 8):
            update.measure(differentiate(update, seed))
            update.rate.fill_(100.0)
            update.apply_on_device()
    assert all(p.grad is None for p in update.parameters)
    for each in (update, twin):
        each.measure(differentiate(each, 9))
        each.apply()
    (found, options), (expected, expected_options) = state(update), state(twin)
    assert torch.equal(found, expected)
    assert options == expected_options


def test_what_is_tried_leaves_no_trace_when_it_fails():
    update, twin = (make_update(ema=0.9) for _ in range(2))

    def fail():
        with update.untouched():
            update.measure(differentiate(update, 1))
            update.apply_on_device()
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        fail()
    for each in (update, twin):
        each.measure(differentiate(each, 9))
        each.apply()
    assert torch.equal(state(update)[0], state(twin)[0])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("loss", "norm"), [(math.nan, 1.0), (1.0, math.inf)], ids=["loss", "gradient"])
def test_from_a_step_that_failed_on_the_optimizer_leaves_the_weights_alone(device, loss, norm):
    weight = nn.Parameter(torch.ones(1, device=device))
    optimizer = torch.optim.Adam([weight], lr=0.1, fused=True)
    guard = Guard(torch.device(device), optimizer)
    values = []
    for step in range(1, 5):
        weight.grad = torch.ones_like(weight)
        guard.look(torch.tensor([loss, norm] if step == 3 else [1.0, 1.0], device=device))
        optimizer.step()
        values.append(weight.item())
    assert values[0] != values[1]
    assert values[1] == values[2] == values[3]  # the fourth step was finite again
    assert optimizer.state[weight]["step"].item() == 2


def test_a_raised_guard_is_afterwards_what_it_was():
    weight = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.Adam([weight], lr=0.1, fused=True)
    guard = Guard(torch.device("cpu"), optimizer)
    with guard.up():
        assert optimizer.found_inf.item() == 1
        guard.look(torch.tensor([math.nan, 1.0]))
    assert optimizer.found_inf.item() == 0
    guard.look(torch.tensor([math.nan, 1.0]))
    with guard.up():
        pass
    assert optimizer.found_inf.item() == 1


def test_tensors_are_afterwards_what_they_were():
    net = Net()
    before = copy.deepcopy(net.state_dict())
    with unchanged([*net.parameters(), *net.buffers()]):
        for p in net.parameters():
            p.data.add_(1)
        net(torch.ones(2, 3))
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())


def test_the_average_has_buffers_that_the_network_replaced():
    class Replaces(nn.Module):
        """One buffer is another tensor after each pass; one is made in the first pass."""

        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 1)
            self.register_buffer("mean", torch.zeros(1))
            self.register_buffer("late", None)

        def forward(self, x):
            h = self.inner(x)
            self.mean = 0.9 * self.mean + 0.1 * h.detach().mean(0)
            self.late = torch.ones(2) if self.late is None else self.late + 1
            return h

    net = Replaces()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1, fused=True)
    update = Update(net, optimizer, average=AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.5)))
    for _ in range(3):
        loss = net(torch.randn(8, 3)).square().mean()
        loss.backward()
        update.measure(loss)
        update.apply()
    assert net.mean != 0
    assert torch.equal(update.average.module.mean, net.mean)
    assert update.average.module.late.tolist() == [3, 3]
    assert update.average.module.late is not net.late
