"""Testing a network: the whole test set in eval mode, and the way of the released code."""

import numpy as np
import pytest
import torch
from small_runs import small_model, small_task
from torch import nn

from orderless.sets import SetBatch
from orderless.tasks.order import ByElements, BySets
from orderless.train.evaluating import Place, evaluate_released, evaluate_whole, last_released_step, means

HERE = Place(torch.device("cpu"))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small_task(tmp_path_factory.mktemp("cache"), num_train=64, set_size=8)


@pytest.fixture(scope="module")
def ragged(tmp_path_factory):
    return small_task(
        tmp_path_factory.mktemp("cache"), "mnist_var_6_10", source="digits", set_size=None, num_train=20, num_test=30
    )


class Recorder(nn.Module):
    """Notes in which mode it was asked about which sets; a layer of it may be kept in eval mode."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.frozen = inner, nn.Dropout(0.5)
        self.frozen.eval()
        self.modes, self.first_elements, self.grad_enabled = [], [], []

    def forward(self, sets):
        self.modes.append((self.training, self.inner.training))
        self.first_elements.append(sets.x[sets.offsets[:-1]])
        self.grad_enabled.append(torch.is_grad_enabled())
        return self.inner(sets)


def by_hand(model, data):
    batch = data.test[:]
    with torch.no_grad():
        return data.task.per_set(model.eval()(batch.sets), batch.target)


def modes_of(model):
    return [module.training for module in model.modules()]


# ------------------------------------------------------------------------------------------------------- the whole test set


ORDERS = {
    "in order": lambda n: BySets(n, 16),
    "shuffled": lambda n: BySets(n, 16, shuffle=True, seed=5),
    "one by one": lambda n: BySets(n, 1, shuffle=True),
    "all at once": lambda n: BySets(n, 1000),
}


@pytest.mark.parametrize("make_order", ORDERS.values(), ids=ORDERS.keys())
def test_scores_come_in_the_order_of_the_dataset_whatever_the_order_of_batches(data, make_order):
    model = small_model(data)
    scores = evaluate_whole(model, data.task, data.test, make_order(len(data.test)), HERE)
    assert list(scores) == ["mse"]
    assert scores["mse"].dtype == torch.float64
    torch.testing.assert_close(scores["mse"], by_hand(model, data)["mse"].double(), rtol=1e-5, atol=1e-6)


def test_a_later_epoch_of_a_shuffled_order_is_put_in_order_as_well(data):
    model, order = small_model(data), BySets(len(data.test), 16, shuffle=True)
    first, second = (evaluate_whole(model, data.task, data.test, order, HERE)["mse"] for _ in range(2))
    assert not np.array_equal(order.plan(0)[0], order.plan(1)[0])
    torch.testing.assert_close(second, first, rtol=1e-5, atol=1e-6)


def test_ragged_sets_are_scored_in_batches_by_elements(ragged):
    model = small_model(ragged, depth=2)
    scores = evaluate_whole(model, ragged.task, ragged.test, ByElements(ragged.test.sizes, 40, shuffle=True), HERE)["mse"]
    torch.testing.assert_close(scores, by_hand(model, ragged)["mse"].double(), rtol=1e-4, atol=1e-5)


def test_every_set_is_asked_about_once_in_eval_mode_without_gradients(data):
    model = Recorder(small_model(data))
    evaluate_whole(model, data.task, data.test, BySets(len(data.test), 16, shuffle=True), HERE)
    asked = torch.cat(model.first_elements)
    every = torch.stack([x[0] for x, _ in data.test])
    assert sorted(map(tuple, asked.tolist())) == sorted(map(tuple, every.tolist()))
    assert set(model.modes) == {(False, False)}
    assert set(model.grad_enabled) == {False}


@pytest.mark.parametrize("way", ["whole", "released"])
def test_every_part_of_the_network_is_in_its_own_mode_afterwards(data, way):
    model = Recorder(small_model(data)).train()
    model.frozen.eval()
    model.inner.eval()
    before = modes_of(model)
    assert set(before) == {True, False}
    if way == "whole":
        evaluate_whole(model, data.task, data.test, BySets(len(data.test), 16), HERE)
    else:
        evaluate_released(model, data.task, data.test, 16, HERE)
    assert modes_of(model) == before


def test_modes_are_put_back_after_an_error(data):
    class Broken(nn.Module):
        def forward(self, sets):
            raise RuntimeError("broken")

    model = Broken().train()
    with pytest.raises(RuntimeError, match="broken"):
        evaluate_whole(model, data.task, data.test, BySets(len(data.test), 16), HERE)
    assert model.training


def test_classes_give_cross_entropy_and_accuracy(tmp_path):
    data = small_task(tmp_path, "point_cloud", source="shapes", num_train=40, num_test=40, set_size=8)
    model = small_model(data, "deep_sets", depth=2)
    scores = evaluate_whole(model, data.task, data.test, BySets(40, 16, shuffle=True), HERE)
    logits = model(data.test[:].sets).detach()
    torch.testing.assert_close(scores["accuracy"], (logits.argmax(1) == data.test.target).double())
    expected = nn.functional.cross_entropy(logits, data.test.target, reduction="none")
    torch.testing.assert_close(scores["cross_entropy"], expected.double(), rtol=1e-5, atol=1e-6)
    assert means(scores)["accuracy"] == pytest.approx(scores["accuracy"].mean().item())


def test_the_choice_of_an_element_is_scored(tmp_path):
    data = small_task(tmp_path, "set_anomaly", source="digits", num_train=8, num_test=11, set_size=4)

    class Oracle(nn.Module):
        """Is right about every fourth set, wrong about the one after it, and undecided about the two after that."""

        def forward(self, sets):
            logits = torch.zeros(len(sets.x), 1)
            for n, x in enumerate(sets.to_list()):
                number = next(i for i, (y, _) in enumerate(data.test) if torch.equal(x, y))
                logits[sets.offsets[n] + (data.test.target[number] + number) % 4] = 50.0 if number % 4 in (0, 1) else 0.0
            return sets.with_x(logits)

    scores = evaluate_whole(Oracle(), data.task, data.test, BySets(11, 3, shuffle=True), HERE)
    right, wrong, undecided = [0, 4, 8], [1, 5, 9], [2, 3, 6, 7, 10]
    assert scores["accuracy"][right].tolist() == [1.0] * 3
    assert scores["accuracy"][wrong].tolist() == [0.0] * 3
    assert scores["accuracy"][undecided].tolist() == [0.25] * 5
    assert scores["cross_entropy"][undecided].tolist() == pytest.approx([np.log(4)] * 5, rel=1e-6)


def test_scores_that_are_nan_stay_where_they_are(data):
    class Nan(nn.Module):
        def forward(self, sets):
            out = torch.zeros(len(sets), 1)
            out[sets.x[sets.offsets[:-1], 0] > 0] = torch.nan
            return out

    scores = evaluate_whole(Nan(), data.task, data.test, BySets(len(data.test), 7, shuffle=True), HERE)["mse"]
    expected = torch.stack([x[0, 0] > 0 for x, _ in data.test])
    assert 0 < expected.sum() < len(expected)
    assert torch.equal(scores.isnan(), expected)


# ------------------------------------------------------------------------------------------------------- precision


class InLowPrecision(nn.Module):
    """An answer of bfloat16, whose square error would have two or three digits in bfloat16."""

    def __init__(self, *, per_element):
        super().__init__()
        self.per_element = per_element

    def forward(self, sets):
        x = torch.full((len(sets.x) if self.per_element else len(sets), 1), 1.0078125, dtype=torch.bfloat16)
        return sets.with_x(x) if self.per_element else x


@pytest.mark.parametrize("per_element", [False, True], ids=["sets", "elements"])
def test_an_answer_of_low_precision_is_judged_in_float32(per_element):
    sets = SetBatch.from_list([torch.zeros(3, 1), torch.zeros(2, 1)])
    answer = HERE.ask(InLowPrecision(per_element=per_element), sets)
    x = answer.x if per_element else answer
    assert x.dtype == torch.float32
    assert x.unique().tolist() == [1.0078125]


def test_an_answer_in_float64_stays_what_it_is():
    sets = SetBatch.from_list([torch.ones(2, 1)])
    precise = 1 + 2**-40
    assert HERE.ask(lambda s: torch.full((1, 1), precise, dtype=torch.float64), sets).item() == precise


def test_the_network_is_asked_in_its_precision_and_its_metrics_are_not(data):
    inside, outside = [], []

    class Asked(nn.Module):
        def forward(self, sets):
            inside.append(torch.is_autocast_enabled("cpu"))
            return nn.functional.linear(sets.x, torch.ones(1, sets.x.shape[1])).sum().expand(len(sets), 1)

    class Watching:
        metric = "mse"

        def per_set(self, output, target):
            outside.append((torch.is_autocast_enabled("cpu"), output.dtype))
            return data.task.per_set(output, target)

    mixed = Place(torch.device("cpu"), lambda: torch.autocast("cpu", torch.bfloat16))
    evaluate_whole(Asked(), Watching(), data.test, BySets(len(data.test), 25), mixed)
    assert inside == [True, True]
    assert outside == [(False, torch.float32)] * 2


# ------------------------------------------------------------------------------------------------------- several processes


def test_each_process_scores_its_share_of_every_batch_and_all_of_a_small_one(data):
    """50 sets in batches of 16: the last batch has two, and three processes must all have something to say."""
    model, order = small_model(data), BySets(len(data.test), 16)
    whole = evaluate_whole(model, data.task, data.test, order, HERE)["mse"]
    found = {n: [] for n in range(len(data.test))}
    for rank in range(3):
        order.epoch = 0
        scores = evaluate_whole(model, data.task, data.test, order, Place(torch.device("cpu"), rank=rank, world_size=3))["mse"]
        mine = [start + n for start in (0, 16, 32) for n in range(rank, 16, 3)] + [48, 49]
        for n, score in zip(mine, scores.tolist(), strict=True):
            found[n].append(score)
    assert [len(scores) for scores in found.values()] == [1] * 48 + [3] * 2
    for n, scores in found.items():
        assert scores == pytest.approx([whole[n].item()] * len(scores), rel=1e-5, abs=1e-6)


# ------------------------------------------------------------------------------------------------------- the released way


def test_the_released_way_asks_in_training_mode_and_leaves_out_the_batch_that_is_not_full(data):
    model = Recorder(small_model(data)).eval()
    scores = evaluate_released(model, data.task, data.test, 16, HERE)["mse"]
    assert len(data.test) == 50
    assert len(scores) == 48
    assert [len(x) for x in model.first_elements] == [16, 16, 16]
    assert set(model.modes) == {(True, True)}
    assert set(model.grad_enabled) == {False}


def test_the_released_way_takes_sets_at_random_and_always_the_same(data):
    model = Recorder(small_model(data))
    first, second = (evaluate_released(model, data.task, data.test, 16, HERE)["mse"] for _ in range(2))
    assert torch.equal(first, second)
    in_order = torch.stack([x[0] for x, _ in data.test])[:16]
    assert not torch.equal(model.first_elements[0], in_order)


def test_the_released_way_differs_where_a_norm_uses_the_batch(data):
    model = small_model(data, norm="batch")
    whole = evaluate_whole(model, data.task, data.test, BySets(50, 16), HERE)["mse"].mean()
    released = evaluate_released(model, data.task, data.test, 16, HERE)["mse"].mean()
    assert not torch.isclose(whole, released, rtol=1e-3)


def test_the_released_way_leaves_no_trace(data):
    class Random(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner, self.dropout = inner, nn.Dropout(0.5)

        def forward(self, sets):
            return self.dropout(self.inner(sets))

    model = Random(small_model(data, norm="batch"))
    assert list(model.buffers())
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    evaluate_released(model, data.task, data.test, 16, HERE)
    assert torch.equal(torch.get_rng_state(), state)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_the_released_way_needs_a_full_batch(data):
    with pytest.raises(ValueError, match="needs 64 test sets or more; there are 50"):
        evaluate_released(small_model(data), data.task, data.test, 64, HERE)


@pytest.mark.parametrize(("steps", "last"), [(1, 1), (19, 19), (20, 20), (21, 20), (59, 40), (7850, 7840)])
def test_the_released_code_tests_at_the_last_step_that_20_divides(steps, last):
    assert last_released_step(steps) == last


@pytest.mark.parametrize("per_set", [lambda errors: errors.repeat(2), lambda errors: errors[:, None], lambda errors: errors[:-1]])
def test_figures_that_are_not_one_for_each_set_are_an_error(data, per_set):
    class Judge:
        def per_set(self, output, target):
            return {"error": per_set((output - target).square().mean(1))}

    with pytest.raises(ValueError, match=r"one number for each set: expected 'error' of \d+ sets to have shape"):
        evaluate_whole(small_model(data), Judge(), data.test, BySets(len(data.test), 8), HERE)


class Absolute:
    def loss(self, output, target):
        return (output - target).abs().mean()

    def per_set(self, output, target):
        return {"error": (output - target).abs().reshape(len(target), -1).mean(1)}


def test_an_answer_that_would_be_compared_with_the_targets_of_all_sets_is_warned_of(data):
    model = small_model(data)
    order = BySets(len(data.test), 16)
    evaluate_whole(model, Absolute(), data.test, order, HERE)
    flat = nn.Sequential(model, nn.Flatten(0))
    with pytest.warns(UserWarning, match=r"the network answers \(N,\) and targets are \(N, 1\): .* compares every set"):
        evaluate_whole(flat, Absolute(), data.test, order, HERE)
