"""PointNet++: its choices of points (`sampling.py`), its layers (`rows.py`), and the network (`pointnet.py`)."""

import pytest
import torch
from legal import few_centroids_and_pixels

import orderless as ol
from orderless import SetBatch
from orderless.models.pointnet import LEVELS
from orderless.models.points import in_canonical_order
from orderless.models.rows import RowNorm
from orderless.testing import assert_invariant

CUBE = torch.cartesian_prod(*[torch.tensor([-0.5, 0.5])] * 3)  # its corners are equally far from the middle


@pytest.fixture
def model():
    torch.manual_seed(0)
    with few_centroids_and_pixels():
        return ol.create_model("pointnet++", 3, 5, width=32).eval()


def test_the_network_is_the_published_one():
    model = ol.create_model("pointnet++", 3, 40)
    assert [(count, [(s.radius, s.num_neighbours, s.widths) for s in scales]) for count, scales in LEVELS] == [
        (512, [(0.1, 16, (32, 32, 64)), (0.2, 32, (64, 64, 128)), (0.4, 128, (64, 96, 128))]),
        (128, [(0.2, 32, (64, 64, 128)), (0.4, 64, (128, 128, 256)), (0.8, 128, (128, 128, 256))]),
    ]
    assert sum(p.numel() for p in model.parameters()) == 1_742_856  # published as 1.74 million
    shapes = [tuple(m.weight.shape) for m in model.modules() if isinstance(m, torch.nn.Linear)]
    assert shapes[-6:] == [(256, 643), (512, 256), (1024, 512), (512, 1024), (256, 512), (40, 256)]
    assert [type(m).__name__ for m in model.decoder][:4] == ["Linear", "RowNorm", "ReLU", "Dropout"]


def test_sets_are_sorted_by_their_coordinates():
    batch = SetBatch.from_list([torch.tensor([[1.0, 0, 0], [0, 2, 1], [0, 2, 0]]), torch.tensor([[0.0, 1, 1], [0, 0, 3]])])
    expected = [[0, 2, 0], [0, 2, 1], [1, 0, 0], [0, 0, 3], [0, 1, 1]]
    assert in_canonical_order(batch).x.tolist() == expected


@pytest.mark.parametrize("points", [CUBE, torch.cat([CUBE, CUBE]), torch.zeros(40, 3), CUBE.repeat(12, 1) * 0.2], ids=range(4))
def test_ties_and_equal_points_do_not_let_the_order_decide(model, points):
    """To the last bit: everything behind the sorting is computed from the same numbers."""
    grid = torch.cat([points, 0.5 * points])
    for seed in range(5):
        order = torch.randperm(len(grid), generator=torch.Generator().manual_seed(seed))
        assert torch.equal(model(grid[None]), model(grid[order][None]))


def test_the_published_sampling_by_index_would_be_noticed(model, monkeypatch):
    monkeypatch.setattr("orderless.models.pointnet.in_canonical_order", lambda batch: batch)
    with pytest.raises(AssertionError, match="shuffling"):
        assert_invariant(model, SetBatch.from_list([0.5 * CUBE.repeat(8, 1)[: 8 * 7 + 3], CUBE]))


def test_a_repeated_point_is_no_neighbour_in_the_next_level(model):
    """A set of few points gets the answer of its points; copies that fill the level would crowd them out of neighbourhoods."""
    seen = []
    model.encoder[0].levels[1].register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    model(torch.randn(2, 5, 3))
    assert seen[0].sizes.tolist() == [5, 5]
    assert len(seen[0].points) == 2 * seen[0].room


def test_an_answer_is_that_of_the_definition(model):
    """One level by hand, for a cloud whose points are all centroids."""
    points = torch.rand(9, 3) * 0.4
    level = model.encoder[0].levels[0]
    seen = []
    level.register_forward_hook(lambda *args: seen.append(args[2]))
    model(points[None])
    (cloud,) = seen
    centres, found = cloud.points[:9], cloud.features[:9]
    parts = []
    for scale in level.scales:
        rows = []
        for centre in centres:
            near = sorted(points, key=lambda p: float((p - centre).norm()))[: scale.num_neighbours]
            inside = torch.stack([p - centre for p in near if (p - centre).norm() < scale.radius])
            rows.append(scale.rest(torch.relu(scale.norm(inside @ scale.first.weight.T))).amax(0))
        parts.append(torch.stack(rows))
    torch.testing.assert_close(found, torch.cat(parts, 1))


def test_elements_of_the_encoder_are_centroids(model):
    encoded = model.encode(SetBatch.from_list([torch.randn(7, 3), torch.randn(0, 3)]))
    assert (encoded.set_size, encoded.x.shape[1]) == (4, 32)
    assert not encoded[1].any()


@pytest.mark.parametrize("num_rows", [0, 1])
def test_a_norm_takes_few_rows_in_training(num_rows):
    norm = RowNorm(4)
    torch.nn.init.constant_(norm.bias, 3.0)
    assert (norm(torch.randn(num_rows, 4)) == 3).all()
    assert torch.equal(norm.running_var, torch.ones(4))
    torch.testing.assert_close(RowNorm(4)(rows := torch.randn(5, 4)), torch.nn.BatchNorm1d(4)(rows))


def test_a_norm_of_many_rows_has_the_digits_of_float32():
    """PyTorch's own, on a CPU, is wrong by 1e-3 here."""
    rows = torch.relu(torch.randn(200_000, 4) + 1)
    ours, exact = RowNorm(4), torch.nn.BatchNorm1d(4).double()
    for norm in (ours, exact):
        torch.nn.init.uniform_(norm.weight, 0.5, 2.0)
        torch.nn.init.uniform_(norm.bias)
    exact.load_state_dict(ours.state_dict())
    inputs = [rows.clone().requires_grad_(), rows.double().requires_grad_()]
    direction = torch.randn_like(rows)
    found, expected = (norm(x) for norm, x in zip((ours, exact), inputs, strict=True))
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
    found.backward(direction)
    expected.backward(direction.double())
    torch.testing.assert_close(inputs[0].grad.double(), inputs[1].grad, rtol=1e-5, atol=1e-5)
    for (name, mine), its in zip(ours.state_dict().items(), exact.state_dict().values(), strict=True):
        torch.testing.assert_close(mine.to(its.dtype), its, rtol=1e-5, atol=1e-6, msg=name)
    assert ours(rows.bfloat16()).dtype == torch.bfloat16


def test_a_training_step_on_one_cloud_leaves_statistics_finite(model):
    model.train()
    model(torch.randn(1, 20, 3)).sum().backward()
    model(SetBatch(torch.empty(0, 3), [0]))
    assert all(buffer.isfinite().all() for buffer in model.buffers())


def test_layers_computed_again_on_the_way_back_take_their_statistics_once(model):
    model.train()
    model.encoder.recompute = True
    model(torch.randn(3, 20, 3)).sum().backward()
    assert {int(m.num_batches_tracked) for m in model.modules() if isinstance(m, RowNorm)} == {1}


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_cloud_with_a_point_that_is_not_finite_does_not_pass_for_one_without_it(wrong):
    clouds = [torch.randn(40, 3), torch.randn(30, 3)]
    model = ol.create_model("pointnet++", 3, 2, width=32).eval()
    right = model(ol.SetBatch.from_list(clouds))
    clouds[0][7, 1] = wrong
    found = model(ol.SetBatch.from_list(clouds))
    assert found[0].isnan().all()
    torch.testing.assert_close(found[1], right[1])
