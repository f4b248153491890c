"""What norms leave of sets: in two dimensions layer norm leaves three points, set norm everything but size and place."""

from itertools import combinations

import pytest
import torch
from batches import make_batch
from torch import nn

import orderless as ol
from orderless.diagnose import read_collapse
from orderless.diagnose.collapse import compare_shapes, make_shapes, normalize_shapes, shape_distance, share_merged
from orderless.nn import InstanceNorm, LayerNorm, SetNorm


def test_every_shape_has_as_many_points_on_either_side():
    for points in make_shapes(7).values():
        side = torch.sign(points[:, 0] - points[:, 1])
        assert [(side == s).sum().item() for s in (-1, 0, 1)] == [7, 2, 7]


def test_shapes_mirror_themselves_in_the_line():
    for points in make_shapes().values():
        assert shape_distance(points, points.flip(1)) < 1e-12


def test_shapes_differ():
    shapes = make_shapes()
    assert list(shapes) == ["circle", "square", "triangle", "star"]
    assert all(shape_distance(a, b) > 0.1 for a, b in combinations(shapes.values(), 2))


def test_points_of_the_circle_lie_on_it_and_of_the_square_too():
    shapes = make_shapes()
    torch.testing.assert_close(shapes["circle"].norm(dim=1), torch.ones(82, dtype=torch.float64), rtol=0, atol=1e-4)  # a polygon
    torch.testing.assert_close(shapes["square"].abs().amax(1), torch.full((82,), 0.5**0.5, dtype=torch.float64))


def test_layer_norm_leaves_three_points():
    for points in normalize_shapes(make_shapes(10))["layer"].values():
        found, counts = points.round(decimals=9).unique(dim=0, return_counts=True)
        assert found.tolist() == [[-1, 1], [0, 0], [1, -1]]
        assert counts.tolist() == [10, 2, 10]


def test_set_norm_only_moves_and_scales():
    shapes = make_shapes()
    for before, after in zip(shapes.values(), normalize_shapes(shapes)["set"].values(), strict=True):
        ratio = torch.pdist(after) / torch.pdist(before)
        torch.testing.assert_close(ratio, ratio[:1].expand_as(ratio))


def test_layer_norm_makes_shapes_indistinguishable_and_set_norm_does_not():
    found = compare_shapes()
    assert found["layer"][1] < 1e-9
    assert found["none"][0] > 0.1
    assert found["set"][0] > 0.1


def test_a_distance_between_shapes_does_not_depend_on_the_order_of_points():
    circle, star = (make_shapes()[name] for name in ("circle", "star"))
    shuffled = star[torch.randperm(len(star))]
    assert shape_distance(star, shuffled) == 0
    assert shape_distance(circle, shuffled) == pytest.approx(shape_distance(circle, star))


def test_a_distance_between_shapes_is_the_way_that_points_move():
    points = torch.tensor([[0.0, 0.0], [5.0, 0.0]])
    assert shape_distance(points, points + torch.tensor([0.0, 3.0])) == pytest.approx(3)
    with pytest.raises(ValueError, match="equally many points"):
        shape_distance(points, points[:1])


# --------------------------------------------------------------------------------------------------- any norm, any network


def test_moving_and_scaling_merges_nothing(sizes):
    batch = make_batch(sizes)
    assert share_merged(batch, batch.with_x(1e-6 * batch.x + 3)) == 0
    assert share_merged(batch, SetNorm(4).double()(batch)) == 0


def test_layer_norm_merges_elements_that_differ_in_scale():
    ray = torch.tensor([1.0, 2.0, 4.0])
    scales = torch.tensor([1.0, 2.0, 3.0, -1.0])[:, None]
    batch = ol.SetBatch.from_list([scales * ray])
    # of six pairs the three between positive multiples are merged
    assert share_merged(batch, LayerNorm(3)(batch)) == pytest.approx(3 / 6)


@pytest.mark.parametrize("apart", [0.0, 1e-4], ids=["equal", "all but equal"])
def test_pairs_that_were_the_same_before_do_not_count(apart):
    batch = ol.SetBatch.from_list([torch.tensor([[0.0], [apart], [1.0]])])
    assert share_merged(batch, batch) == 0
    assert share_merged(batch, batch.with_x(torch.tensor([[0.0], [0.0], [1.0]]))) == 0
    assert share_merged(batch, batch.with_x(torch.tensor([[0.0], [1.0], [0.0]]))) == pytest.approx(1 / 2)


def test_distances_are_compared_within_a_set():
    apart = ol.SetBatch.from_list([torch.tensor([[0.0], [1.0]]), torch.tensor([[9.0], [9.5]])])
    assert share_merged(apart, InstanceNorm(1, eps=1e-12)(apart)) == 0  # the sets come to lie on each other, their elements not


def test_numbers_of_one_feature_collapse_in_layer_norm_and_not_in_set_norm():
    sets = ol.SetBatch.from_list([torch.randn(60, 1) * 3 for _ in range(4)])
    merged = {
        norm: read_collapse(ol.create_model("deep_sets", 1, 1, depth=4, norm=norm), sets) for norm in ("layer", "set", "none")
    }
    assert list(merged["layer"]) == [f"encoder.{n}.norm" for n in range(5)]
    assert merged["layer"]["encoder.0.norm"] > 0.4  # of an element only its sign is left
    assert set(merged["set"].values()) == {0.0}
    assert merged["none"] == {}


def test_reading_collapse_leaves_no_trace():
    model = ol.create_model("deep_sets", 2, 1, depth=2, norm="feature").eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    read_collapse(model, make_batch([5, 4], 2, dtype=torch.float32))
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)
    assert not model.training
    assert not any(module._forward_hooks for module in model.modules())


def test_a_norm_called_twice_counts_with_the_worse_call():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = LayerNorm(2)

        def forward(self, sets):
            self.norm(sets)
            return self.norm(sets.with_x(torch.tensor([[1.0, 0.0], [0.0, 1.0]])))

    assert read_collapse(Twice(), ol.SetBatch.from_list([torch.tensor([[1.0, 2.0], [2.0, 4.0]])])) == {"norm": 1.0}


def test_a_norm_may_be_called_by_name():
    class ByName(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = LayerNorm(2)

        def forward(self, sets):
            return self.norm(batch=sets)

    assert read_collapse(ByName(), ol.SetBatch.from_list([torch.tensor([[1.0, 2.0], [2.0, 4.0]])])) == {"norm": 1.0}
