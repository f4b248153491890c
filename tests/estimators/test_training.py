import numpy as np
import pytest
import torch
from estimators.ragged import draw

from orderless.estimators.scaling import ElementScaler
from orderless.estimators.sets_input import PackedSets, read_sets
from orderless.estimators.training import DrawnSets, ScaledSets, TrainingSets, WeighingJudge, make_target, scaled
from orderless.io import MemorySets
from orderless.io.memory_sets import ChosenSets

X, _, _ = draw(8, smallest=3)


def rows(x):
    return {tuple(row) for row in np.asarray(x).tolist()}


def drawn(most=4, epoch=0, seed=0, numbers=(5, 2, 7)):
    sets = DrawnSets(read_sets(X).stored, np.array(numbers), most, seed)
    sets.epoch = epoch
    return sets


def test_a_set_gives_some_of_its_elements_each_once():
    sets = drawn()
    for i, number in enumerate([5, 2, 7]):
        one = sets.gather([i])
        assert len(one) == sets.sizes[i] == min(len(X[number]), 4)
        assert rows(one) <= rows(X[number])
        assert len(rows(one)) == len(one)


def test_what_is_drawn_depends_on_seed_epoch_and_set_alone():
    first = drawn().gather([0, 2])
    np.testing.assert_array_equal(drawn(numbers=(7, 5)).gather([1, 0]), first)  # whoever is asked about beside it
    assert not np.array_equal(drawn(epoch=1).gather([0, 2]), first)
    assert not np.array_equal(drawn(seed=1).gather([0, 2]), first)
    np.testing.assert_array_equal(np.concatenate(list(drawn().blocks(0, 3))), first[:4])
    np.testing.assert_array_equal(drawn().take(0, [2, 1]), first[[2, 1]])


def test_all_elements_are_drawn_in_time():
    assert set().union(*(rows(drawn(epoch=epoch).gather([0])) for epoch in range(40))) == rows(X[5])


def test_without_a_limit_sets_are_whole():
    np.testing.assert_array_equal(drawn(most=None).gather([0, 1]), np.concatenate([X[5], X[2]]))


def test_training_draws_anew_each_epoch_and_validation_does_not():
    for anew in (True, False):
        sets = TrainingSets(drawn(), torch.zeros(3, 2), None, anew=anew)
        before = sets[[0, 1, 2]].sets.x
        sets.begin_epoch(1)
        assert torch.equal(sets[[0, 1, 2]].sets.x, before) != anew


def test_covariates_travel_with_their_sets():
    sets = TrainingSets(drawn(), torch.zeros(3, 2), torch.arange(3.0)[:, None], anew=True)
    batch = sets[[2, 0]]
    assert batch.sets.covariates.tolist() == [[2], [0]]
    assert len(batch.sets.x) == sets.sizes[[2, 0]].sum()
    assert batch.sets.to(torch.float64).covariates.dtype == torch.float64


@pytest.mark.parametrize("stored", [read_sets(X).stored, MemorySets(X), ChosenSets(read_sets(X).stored, range(8))])
def test_sets_are_scaled_alike_in_memory_and_as_they_are_read(stored):
    scaler = ElementScaler().fit(read_sets(X))
    sets = scaled(stored, scaler)
    assert isinstance(sets, ScaledSets if isinstance(stored, MemorySets) else PackedSets)
    expected = scaler.transform(X[3])
    # 1e-6: MemorySets rounds to float32 before the mean is subtracted
    np.testing.assert_allclose(sets.gather([3]), expected, atol=1e-6)
    np.testing.assert_allclose(np.concatenate(list(sets.blocks(3, 2))), expected, atol=1e-6)
    np.testing.assert_allclose(sets.take(3, [1]), expected[[1]], atol=1e-6)


def test_the_judge_weighs_sets():
    output = torch.tensor([[2.0, 0.0], [0.0, 0.0]])
    target = make_target(np.array([[0.0], [1.0]]), np.array([3.0, 1.0]))
    assert target[:, -1].tolist() == [1.5, 0.5]
    plain = torch.nn.functional.cross_entropy(output, torch.tensor([0, 1]), reduction="none")
    judge = WeighingJudge("classification")
    torch.testing.assert_close(judge.loss(output, target), (1.5 * plain[0] + 0.5 * plain[1]) / 2)
    assert judge.per_set(output, target)["accuracy"].tolist() == [1.5, 0.0]
    squares = WeighingJudge("regression").per_set(output, torch.tensor([[0.0, 0.0, 1.5], [1.0, 1.0, 0.5]]))["mse"]
    assert squares.tolist() == [3.0, 0.5]
