import os
import socket

import pytest
import torch
import torch.multiprocessing as mp
from batches import make_batch
from torch import nn as torch_nn

from orderless import SetBatch, nn
from orderless.nn import build_norm
from orderless.nn.norm import NORMS

DIM = 4
RAGGED = [3, 0, 11, 1]


def randomised(layer):
    with torch.no_grad():
        for p in layer.parameters():
            p.copy_(torch.randn_like(p))
    return layer.double()


def test_set_norm_leaves_each_set_with_mean_0_and_variance_1():
    out = nn.SetNorm(DIM).double()(make_batch([50, 80], DIM))
    for s in out:
        assert abs(s.mean()) < 1e-12
        assert abs(s.var(unbiased=False) - 1) < 1e-4  # eps


def test_layer_norm_is_torchs():
    ours, theirs = randomised(nn.LayerNorm(DIM)), torch_nn.LayerNorm(DIM).double()
    theirs.load_state_dict(ours.state_dict())
    batch = make_batch(RAGGED, DIM)
    torch.testing.assert_close(ours(batch).x, theirs(batch.x))


def test_instance_norm_is_torchs_on_each_set():
    ours, theirs = randomised(nn.InstanceNorm(DIM)), torch_nn.InstanceNorm1d(DIM, affine=True).double()
    theirs.load_state_dict(ours.state_dict())
    for s, out in zip(make_batch([3, 11], DIM), ours(make_batch([3, 11], DIM)), strict=True):
        torch.testing.assert_close(out, theirs(s.T).T)


def test_feature_norm_is_torchs_batch_norm_over_all_elements_and_tracks_the_same_statistics():
    ours, theirs = randomised(nn.FeatureNorm(DIM)), torch_nn.BatchNorm1d(DIM).double()
    theirs.load_state_dict(ours.state_dict())
    for seed in range(3):
        batch = make_batch(RAGGED, DIM, seed=seed)
        torch.testing.assert_close(ours(batch).x, theirs(batch.x))
    for key, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[key], value)
    batch = make_batch(RAGGED, DIM, seed=9)
    torch.testing.assert_close(ours.eval()(batch).x, theirs.eval()(batch.x))


@pytest.mark.parametrize("norm", [nn.FeatureNorm, nn.BatchNorm])
def test_the_variance_includes_what_lies_between_sets(norm):
    far_apart = SetBatch.from_list([torch.randn(20, DIM).double() + shift for shift in (-100, 0, 100)])
    out = norm(DIM).double()(far_apart).x
    # eps takes 1e-5 of a variance of 6,700
    torch.testing.assert_close(out.var(0, unbiased=False), torch.ones(DIM).double(), rtol=1e-8, atol=0)


def test_batch_norm_weighs_sets_alike_and_feature_norm_elements():
    batch = SetBatch.from_list([torch.zeros(1, 1).double(), torch.ones(3, 1).double(), torch.empty(0, 1).double()])
    feature, by_set = nn.FeatureNorm(1).double(), nn.BatchNorm(1).double()
    feature(batch)
    by_set(batch)
    assert feature.running_mean.item() == pytest.approx(0.1 * 3 / 4)
    assert by_set.running_mean.item() == pytest.approx(0.1 * 1 / 2)
    # weighted by set: variance 1/4; shares 1/2 and three of 1/6, whose squares add up to 1/3
    assert by_set.running_var.item() == pytest.approx(0.9 + 0.1 * 0.25 / (1 - 1 / 3))


def test_batch_norm_is_feature_norm_when_sizes_are_equal():
    feature, by_set = nn.FeatureNorm(DIM).double(), nn.BatchNorm(DIM).double()
    batch = make_batch([5, 5, 5], DIM)
    torch.testing.assert_close(feature(batch).x, by_set(batch).x)
    torch.testing.assert_close(feature.running_var, by_set.running_var)


@pytest.mark.parametrize("norm", [nn.FeatureNorm, nn.BatchNorm])
@pytest.mark.parametrize("sizes", [[0, 0], []], ids=["empty sets", "no sets"])
def test_a_batch_without_elements_leaves_running_statistics_alone(norm, sizes):
    layer = norm(DIM)
    layer(make_batch(sizes, DIM, dtype=torch.float32))
    assert torch.equal(layer.running_mean, torch.zeros(DIM))
    assert torch.equal(layer.running_var, torch.ones(DIM))
    assert layer.num_batches_tracked == 0


@pytest.mark.parametrize("norm", [nn.FeatureNorm, nn.BatchNorm])
@pytest.mark.parametrize("momentum", [None, -0.1, 1.5])
def test_a_momentum_that_cannot_be_is_refused(norm, momentum):
    with pytest.raises(ValueError, match=f"momentum must be a number from 0 to 1, got {momentum}"):
        norm(DIM, momentum=momentum)


@pytest.mark.parametrize("name", [name for name in NORMS if name != "none"])
def test_an_eps_below_zero_is_refused(name):
    with pytest.raises(ValueError, match="eps must be 0 or more, got -1"):
        build_norm(name, DIM, eps=-1)


@pytest.mark.parametrize("name", ["layer", "feature", "set", "batch", "instance"])
def test_every_norm_is_stable_at_a_large_offset_and_small_spread(name):
    # the spread of layer norm is that of one element's features, of the others that of many elements
    batch = make_batch([400, 300], 64, dtype=torch.float32)
    batch = batch.with_x(batch.x * 1e-2 + 1e4)
    exact = build_norm(name, 64).double()(batch.to(torch.float64)).x
    found = build_norm(name, 64)(batch).x.double()
    assert (found - exact).abs().max() <= 1e-5 * exact.abs().max()


@pytest.mark.parametrize("name", ["layer", "feature", "set", "batch", "instance"])
def test_gradients_of_norms_are_right(name):
    layer = randomised(build_norm(name, 3))
    batch = make_batch([4, 0, 2], 3)
    assert torch.autograd.gradcheck(lambda x: layer(batch.with_x(x)).x, batch.x.requires_grad_())


def test_an_unknown_norm_is_refused_with_the_list():
    with pytest.raises(ValueError, match="norm must be one of none, layer, feature, set, batch, instance; got 'sett'"):
        build_norm("sett", 3)


def test_norms_say_what_they_are():
    assert repr(nn.SetNorm(3)) == "SetNorm(3, eps=1e-05)"
    assert repr(nn.FeatureNorm(3, sync=True)) == "FeatureNorm(3, eps=1e-05, momentum=0.1, sync=True)"


SHARDS = [[3, 0, 5], [7]]


def _one_process(rank, port, results):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.distributed.init_process_group("gloo", rank=rank, world_size=len(SHARDS))
    for norm in (nn.FeatureNorm, nn.BatchNorm):
        layer = norm(DIM, sync=True).double()
        batch = make_batch(SHARDS[rank], DIM, seed=rank)
        batch.x.requires_grad_()
        out = layer(batch).x
        (out * torch.arange(out.numel(), dtype=torch.float64).reshape(out.shape).cos()).sum().backward()
        results[norm.__name__, rank] = (out.detach(), batch.x.grad, layer.running_var.clone())
    torch.distributed.destroy_process_group()


def test_sync_takes_statistics_and_gradients_over_all_processes():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with mp.Manager() as manager:
        results = manager.dict()
        mp.spawn(_one_process, args=(port, results), nprocs=len(SHARDS))
        for norm in (nn.FeatureNorm, nn.BatchNorm):
            layer = norm(DIM).double()
            batch = SetBatch.cat([make_batch(s, DIM, seed=rank) for rank, s in enumerate(SHARDS)])
            batch.x.requires_grad_()
            out = layer(batch).x
            counts = [sum(s) * DIM for s in SHARDS]
            weights = torch.cat([torch.arange(c, dtype=torch.float64).cos() for c in counts]).reshape(out.shape)
            (out * weights).sum().backward()
            parts = [results[norm.__name__, rank] for rank in range(len(SHARDS))]
            torch.testing.assert_close(torch.cat([p[0] for p in parts]), out.detach())
            torch.testing.assert_close(torch.cat([p[1] for p in parts]), batch.x.grad)
            for part in parts:
                torch.testing.assert_close(part[2], layer.running_var)


@pytest.mark.parametrize("make", NORMS.values())
@pytest.mark.parametrize(("dim", "width"), [(3, 1), (1, 3), (4, 3)])
def test_elements_of_another_width_are_refused(make, dim, width):
    with pytest.raises(ValueError, match=rf"Norm\({dim}\) takes elements of shape \({dim},\), got \({width},\)"):
        make(dim)(make_batch([3, 0, 2], width))


@pytest.mark.traced
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning:torch.*")  # torch's own
@pytest.mark.parametrize("kind", [nn.FeatureNorm, nn.BatchNorm])
def test_compiled_norms_over_the_batch_keep_a_small_spread_at_a_large_offset(kind):
    """Torch's compiler adds up a column one by one on a CPU, for which float32 has not the digits."""
    batch = SetBatch.from_padded(torch.randn(100, 1000, 4) * 1e-2 + 1e4)
    exact = kind(4).double()(batch.to(torch.float64)).x
    torch.testing.assert_close(torch.compile(kind(4))(batch).x.double(), exact, rtol=0, atol=1e-4)  # numbers have size 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", [nn.FeatureNorm, nn.BatchNorm])
def test_running_statistics_keep_their_digits_in_low_precision(kind, dtype):
    norm = kind(2).to(dtype)
    assert norm.weight.dtype == dtype
    assert norm.running_mean.dtype == norm.running_var.dtype == torch.float32
    for _ in range(100):
        norm(SetBatch.from_padded(torch.randn(2, 50, 2).to(dtype) * 1000))  # a variance beyond float16
    assert norm.running_var.isfinite().all()
    torch.testing.assert_close(norm.running_var, torch.full((2,), 1e6), rtol=0.2, atol=0)  # of 100 elements a batch


@pytest.mark.parametrize("name", NORMS)
def test_whole_numbers_are_refused(name):
    with pytest.raises(TypeError, match=r"takes floating-point numbers, got torch.int64. Convert with `.float\(\)`"):
        build_norm(name, 2)(SetBatch(torch.tensor([[1, 2], [5, 9]]), torch.tensor([0, 2])))


@pytest.mark.parametrize("make", [nn.FeatureNorm, nn.BatchNorm])
def test_one_element_tells_nothing_of_the_spread(make):
    norm = make(DIM)
    before = {name: value.clone() for name, value in norm.named_buffers()}
    out = norm(SetBatch.from_list([torch.full((1, DIM), 3.0), torch.zeros(0, DIM)]))
    assert torch.equal(out.x, norm.bias[None])
    assert all(torch.equal(value, before[name]) for name, value in norm.named_buffers())
