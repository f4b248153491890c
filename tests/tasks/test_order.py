"""Which sets make which batch."""

from itertools import chain

import numpy as np
import pytest

from orderless.tasks.order import ByElements, BySets, Share

SIZES = np.array([5, 0, 3, 7, 1, 1, 2, 6])


def everything(batches):
    return sorted(chain.from_iterable(batch.tolist() for batch in batches))


def orders():
    yield "by sets", BySets(8, 3, shuffle=True, seed=1)
    yield "by elements", ByElements(SIZES, 8, shuffle=True, seed=1)


@pytest.mark.parametrize("order", [o for _, o in orders()], ids=[n for n, _ in orders()])
def test_every_epoch_goes_through_all_sets_in_another_order(order):
    first, second = order.plan(0), order.plan(1)
    assert everything(first) == everything(second) == list(range(8))
    assert np.concatenate(first).tolist() != np.concatenate(second).tolist()


@pytest.mark.parametrize("order", [o for _, o in orders()], ids=[n for n, _ in orders()])
def test_work_goes_on_within_an_epoch(order):
    whole = [batch.tolist() for batch in order.plan(4)]
    order.epoch, order.skip = 4, 2
    assert len(order) == len(whole) - 2
    assert [batch.tolist() for batch in order] == whole[2:]
    assert (order.epoch, order.skip) == (5, 0)


def test_no_batch_exceeds_the_budget_and_none_could_take_the_next_set():
    order = ByElements(SIZES, 8, shuffle=True, seed=0)
    for epoch in range(20):
        plan = order.plan(epoch)
        elements = [SIZES[batch].sum() for batch in plan]
        assert max(elements) <= 8
        assert all(used + SIZES[after[0]] > 8 for used, after in zip(elements, plan[1:], strict=False))


def test_a_set_larger_than_the_budget_is_named():
    with pytest.raises(ValueError, match=r"set 3 has 7 elements, got 6"):
        ByElements(SIZES, 6)


def test_empty_sets_fit_anywhere_and_no_sets_make_no_batch():
    assert [b.tolist() for b in ByElements(np.zeros(3, np.int64), 1).plan(0)] == [[0, 1, 2]]
    assert list(ByElements(np.zeros(0, np.int64), 1)) == []
    assert list(BySets(0, 4)) == []


def test_shares_of_all_processes_make_the_batches_of_one():
    plan = BySets(8, 3, shuffle=True, seed=2).plan(0)
    shares = [list(Share(BySets(8, 3, shuffle=True, seed=2), rank, 2)) for rank in range(2)]
    for whole, *parts in zip(plan, *shares, strict=True):
        assert sorted(whole.tolist()) == everything(parts)
    assert len(Share(BySets(8, 3), 0, 2)) == 3
