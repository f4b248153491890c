"""Photographs to arrays."""

import numpy as np
import pytest
from PIL import Image
from publishers import jpeg_bytes, photographs

from orderless.io import images
from orderless.io.errors import DataError, MissingDataError
from orderless.io.images import decode_images


def test_images_come_in_order_as_channels_rows_columns():
    wanted = photographs(200, 32, 32)
    read = decode_images([jpeg_bytes(image, kind="PNG") for image in wanted], size=32, resize=False)
    np.testing.assert_array_equal(read, np.stack(wanted).transpose(0, 3, 1, 2), strict=True)


def test_the_whole_image_is_squashed_with_bicubic_interpolation(tmp_path):
    (tmp_path / "a.jpg").write_bytes(jpeg_bytes(photographs(1, 40, 20)[0]))
    with Image.open(tmp_path / "a.jpg") as image:
        wanted = np.asarray(image.resize((16, 16), Image.Resampling.BICUBIC)).transpose(2, 0, 1)
    np.testing.assert_array_equal(decode_images([tmp_path / "a.jpg"], size=16, resize=True)[0], wanted, strict=True)


def test_grey_images_get_three_equal_channels():
    grey = jpeg_bytes(photographs(1, 32, 32)[0][..., 0])
    read = decode_images([grey], size=32, resize=False)[0]
    assert (read == read[0]).all()


def test_another_size_is_an_error_unless_squashed():
    with pytest.raises(DataError, match="image 0: expected an image of 32 x 32 pixels, found 20 x 24"):
        decode_images([jpeg_bytes(photographs(1)[0])], size=32, resize=False)


def test_a_damaged_image_is_named():
    good = jpeg_bytes(photographs(1, 32, 32)[0])
    for bad in (b"", b"no image", good[: len(good) // 2], b"GIF89a" + bytes(50)):
        with pytest.raises(DataError, match=r"^the second: expected a JPEG or PNG image, found a damaged one or none"):
            decode_images([good, bad], size=32, resize=False, name=["the first", "the second"].__getitem__)


def test_a_missing_image_is_told_apart(tmp_path):
    with pytest.raises(MissingDataError, match="no such file"):
        decode_images([tmp_path / "a.jpg"], size=32, resize=True)


def test_a_bomb_is_refused_by_its_size(monkeypatch):
    monkeypatch.setattr(images, "MAX_PIXELS", 1000)
    with pytest.raises(DataError, match="at most 1000 pixels, found 32 x 32"):
        decode_images([jpeg_bytes(photographs(1, 32, 32)[0])], size=8, resize=True)


def test_no_images_make_an_empty_array():
    assert decode_images([], size=8, resize=True).shape == (0, 3, 8, 8)
