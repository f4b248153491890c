"""Normal Var and its variants: the distribution that was promised, and the target of the numbers that are there."""

import numpy as np
import pytest
import torch

from orderless import tasks


def load(name, tmp_path, **options):
    return tasks.load_task(name, cache_dir=tmp_path, **{"num_train": 400, "num_test": 400, "set_size": 100} | options)


@pytest.mark.parametrize("name", ["normal_var", "normal_var_100", "normal_var_ood"])
def test_the_target_is_the_variance_of_the_sets_own_numbers(name, tmp_path):
    data = load(name, tmp_path, num_train=20, num_test=20)
    for x, target in [*data.train, *data.test]:
        exact = x.double().var(0, correction=0).mean()
        assert target.item() == pytest.approx(exact.item(), rel=1e-6)  # float32 holds it


def test_the_released_target_is_the_squared_mean_of_standard_deviations(tmp_path):
    data = load("normal_var_ood_released", tmp_path, num_train=5, num_test=5)
    for x, target in data.test:
        exact = x.double().std(0, correction=0).mean() ** 2
        assert target.item() == pytest.approx(exact.item(), rel=1e-6)


def parameters(dataset):
    x = torch.stack([x for x, _ in dataset]).double()
    return x.mean(1), x.var(1)


def test_means_and_variances_fill_the_papers_ranges(tmp_path):
    means, variances = parameters(load("normal_var", tmp_path, num_train=2000, set_size=1000).train)
    # with 2,000 uniform draws the extremes lie within 0.4 % of the ends but once in 3,000; the mean of 1,000 numbers adds 0.35
    assert -11 < means.min() < -9.5
    assert 9.5 < means.max() < 11
    assert 0 <= variances.min() < 0.1
    assert 9.5 < variances.max() < 12
    assert abs(means.mean()) < 4 * (20 / 12**0.5) / 2000**0.5  # four standard errors of a uniform mean
    assert abs(variances.mean() - 5) < 4 * (10 / 12**0.5) / 2000**0.5


def test_elements_are_normal(tmp_path):
    x = torch.stack([x[:, 0] for x, _ in load("normal_var", tmp_path, num_train=200, set_size=1000).train]).double()
    z = (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)
    kurtosis = z.pow(4).mean(1)
    assert abs(z.pow(3).mean()) < 4 * (6 / 200_000) ** 0.5
    assert abs(kurtosis.mean() - 3) < 4 * (24 / 200_000) ** 0.5 + 6 / 1000  # the sample kurtosis is biased by about 6/n


def test_only_test_sets_are_out_of_distribution(tmp_path):
    data = load("normal_var_ood", tmp_path, num_train=50, num_test=50)
    assert parameters(data.train)[0].abs().max() < 12
    assert 28 < parameters(data.test)[0].abs().max() < 32
    in_distribution = load("normal_var_100", tmp_path, num_train=50, num_test=50)
    assert parameters(in_distribution.test)[0].abs().max() < 12


def test_test_sets_are_not_training_sets_as_in_the_released_analysis(tmp_path):
    for name in ("normal_var", "normal_var_100", "weighted_average_normal"):
        data = load(name, tmp_path, num_train=30, num_test=30, set_size=50)
        assert not set(data.train.target.flatten().tolist()) & set(data.test.target.flatten().tolist())


def test_a_set_is_the_same_however_many_there_are(tmp_path):
    few, many = load("normal_var", tmp_path, num_train=5), load("normal_var", tmp_path, num_train=100)
    np.testing.assert_array_equal(few.train[4][0], many.train[4][0])
