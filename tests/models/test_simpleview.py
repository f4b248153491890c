"""SimpleView: its images and its network (`simpleview.py`)."""

import math

import pytest
import torch

import orderless as ol
from orderless import SetBatch
from orderless.models.simpleview import DISTANCE, VIEWS, DepthImages, ImageBlock


def images_of(points, resolution=8):
    return DepthImages(resolution)(SetBatch.from_list([points])).x[:, 0]  # (6, P, P)


def test_the_network_is_the_published_one():
    model = ol.create_model("simpleview", 3, 40)
    convolutions = [m for m in model.modules() if isinstance(m, torch.nn.Conv2d)]
    assert len(convolutions) == 17 + 3  # eighteen layers with the last linear one, and three on skips
    assert [m.out_channels for m in convolutions if m.kernel_size == (3, 3)] == [16] * 5 + [32] * 4 + [64] * 4 + [128] * 4
    assert sum(m.stride == (2, 2) for m in convolutions) == 2 * 3
    assert model.encoder[0].resolution == 128
    assert model.decoder[0].weight.shape == (128, 6 * 128)
    assert sum(p.numel() for p in model.parameters()) == 803_864  # published as half of PointNet++'s


def test_views_are_six_rotations_that_look_along_every_axis_from_both_sides():
    turned = []
    for axes, signs in VIEWS:
        matrix = torch.zeros(3, 3)
        for row, (axis, sign) in enumerate(zip(axes, signs, strict=True)):
            matrix[row, axis] = sign
        assert torch.linalg.det(matrix) == 1
        turned.append(tuple(matrix[2].tolist()))
    assert len(set(turned)) == 6


def test_a_point_in_the_middle_is_at_the_camera_distance_in_every_view():
    images = images_of(torch.zeros(1, 3))
    assert (images > 0).sum((1, 2)).tolist() == [1] * 6
    torch.testing.assert_close(images[:, 4, 4], torch.full((6,), DISTANCE))


def test_near_things_are_larger():
    """A view in perspective: half a unit aside is farther from the middle of the image if it is nearer to the camera."""
    columns = []
    for height in (-0.5, 0.5):  # towards the camera of the first view, and away from it
        ((row, column),) = images_of(torch.tensor([[0.5, 0.0, height]]), 64)[0].nonzero().tolist()
        assert row == 32
        columns.append(column - 32)
    assert columns == [math.ceil(0.5 / (DISTANCE + h) * 32) for h in (-0.5, 0.5)]


def test_points_at_one_pixel_give_their_harmonic_mean():
    points = torch.tensor([[0.0, 0.0, -0.4], [0.0, 0.0, 0.6]])
    assert images_of(points)[0, 4, 4].item() == pytest.approx(2 / (1 / 1.0 + 1 / 2.0))


@pytest.mark.parametrize("point", [[0.0, 0.0, -1.5], [2.0, 0.0, 0.0], [0.0, 0.0, -DISTANCE]])
def test_points_behind_the_camera_and_beside_the_image_are_not_seen(point):
    assert not images_of(torch.tensor([point]))[0].any()


def test_gradients_of_points_that_are_not_seen_are_finite():
    points = torch.tensor([[0.0, 0.0, -DISTANCE], [0.1, 0.2, 0.3], [0.0, 5.0, -1.4]], requires_grad=True)
    images_of(points).sum().backward()
    assert points.grad.isfinite().all()
    assert points.grad[1].any()


def test_an_empty_set_is_six_empty_images():
    batch = DepthImages(8)(SetBatch.from_list([torch.empty(0, 3), torch.zeros(1, 3)]))
    assert batch.x.shape == (12, 1, 8, 8)
    assert (batch.set_size, batch[0].any().item(), batch[1].any().item()) == (6, False, True)


def test_a_block_begins_as_its_skip():
    block = ImageBlock(2, 2, 1, eps=1e-5)
    x = torch.randn(3, 2, 8, 8)
    assert torch.equal(block(x), torch.relu(x))


def test_views_keep_their_order():
    model = ol.create_model("simpleview", 3, 2, width=8).eval()
    batch = SetBatch.from_list([torch.rand(9, 3), torch.rand(5, 3)])
    encoded = model.encode(batch)
    assert encoded.x.shape == (12, 8)
    torch.testing.assert_close(model.pool[2](encoded)[1], encoded[1].flatten())


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_cloud_with_a_point_that_is_not_finite_gets_no_answer_and_the_others_keep_theirs(wrong):
    model = ol.create_model("simpleview", 3, 4).eval()
    clouds = [torch.rand(20, 3), torch.rand(30, 3)]
    expected = model(ol.SetBatch.from_list(clouds))
    clouds[0][7, 1] = wrong
    found = model(ol.SetBatch.from_list(clouds))
    assert found[0].isnan().all()
    torch.testing.assert_close(found[1], expected[1])
