"""Set anomaly: nine of a kind and one other, wherever the images come from (`set_anomaly.py`)."""

import numpy as np
import pytest

from orderless import tasks
from orderless.io.errors import DataError
from orderless.tasks.set_anomaly import draw_by_attributes, draw_by_class, resize, split_identities

RNG = np.random.default_rng(0)
ATTRIBUTES = RNG.random((500, 40)) < RNG.uniform(0.02, 0.8, 40)


def test_one_image_of_a_set_is_of_another_class(tmp_path):
    data = tasks.load_task("set_anomaly", source="digits", cache_dir=tmp_path, num_train=200, num_test=100)
    labels = data.store.pool.columns["label"]
    for dataset in (data.train, data.test):
        for i in range(len(dataset)):
            rows = dataset.stored.pool_rows([i])
            assert len(set(rows.tolist())) == 10
            shown = labels[rows]
            odd = int(dataset.target[i])
            common = np.delete(shown, odd)
            assert len(set(common.tolist())) == 1
            assert shown[odd] != common[0]
            assert (common[0], shown[odd]) == (dataset.columns["common"][i], dataset.columns["odd"][i])


def test_the_odd_one_is_anywhere(tmp_path):
    data = tasks.load_task("set_anomaly", source="digits", cache_dir=tmp_path, num_train=2000, num_test=1)
    counts = np.bincount(data.train.target.numpy(), minlength=10)
    assert np.abs(counts - 200).max() < 5 * np.sqrt(200)


def test_nine_share_both_attributes_and_the_tenth_has_neither():
    sets = draw_by_attributes(ATTRIBUTES, 300, 10, np.random.default_rng(1))
    for rows, odd, (a, b) in zip(sets.rows, sets.odd_at, sets.kinds, strict=True):
        assert len(set(rows.tolist())) == 10
        common = np.delete(rows, odd)
        assert ATTRIBUTES[common][:, [a, b]].all()
        assert not ATTRIBUTES[rows[odd], [a, b]].any()


def test_every_usable_attribute_is_used():
    """The released script never used the last attribute and took file names for one."""
    rich = np.random.default_rng(2).random((400, 40)) < 0.5
    sets = draw_by_attributes(rich, 2000, 10, np.random.default_rng(1))
    assert set(sets.kinds.ravel().tolist()) == set(range(40))


def test_images_that_cannot_make_a_set_are_an_error():
    with pytest.raises(DataError, match=r"9 images of one class.*at most 1 .*--set-size"):
        draw_by_class(np.arange(10), 1, 10, np.random.default_rng(0))
    with pytest.raises(DataError, match="two attributes that 9 images share"):
        draw_by_attributes(np.ones((20, 40), bool), 1, 10, np.random.default_rng(0))


def test_of_two_images_none_is_the_odd_one():
    with pytest.raises(ValueError, match="set_size must be 3 or more"):
        draw_by_class(np.repeat(np.arange(10), 20), 1, 2, np.random.default_rng(0))


def test_people_are_split_in_halves():
    identities = np.random.default_rng(0).integers(0, 101, 1000)
    train, test = split_identities(identities, np.random.default_rng(1))
    assert len(train) + len(test) == 1000
    assert not set(identities[train]) & set(identities[test])
    assert len(set(identities[train])) == 50


def test_images_are_resized_without_shifting():
    image = np.zeros((1, 1, 8, 8), np.uint8)
    image[0, 0, 2, 5] = 255
    large = resize(image)
    assert large.shape == (1, 1, 64, 64)
    rows, columns = np.nonzero(large[0, 0])
    weights = large[0, 0][rows, columns].astype(float)
    assert np.average(rows, weights=weights) == pytest.approx(2 * 8 + 3.5, abs=0.1)
    assert np.average(columns, weights=weights) == pytest.approx(5 * 8 + 3.5, abs=0.1)
