"""Labels beside curves: apart, in order, inside."""

from itertools import pairwise

import pytest

from orderless.experiments.spacing import move_apart


@pytest.mark.parametrize("places", [[0.5, 0.5, 0.5], [0.99, 1.0, 0.98], [0.0, 0.01], [0.1, 0.9], [], [0.4] * 40])
def test_labels_keep_their_order_stay_inside_and_do_not_overlap(places):
    moved = move_apart(places, 0.1)
    gap = min(0.1, 1 / max(len(places) - 1, 1))
    assert all(-1e-9 <= place <= 1 + 1e-9 for place in moved)
    assert all(after - before >= gap - 1e-9 for before, after in pairwise(sorted(moved)))
    for (a, b), (c, d) in pairwise(sorted(zip(places, moved, strict=True))):
        assert a > c or b <= d
    if places == [0.1, 0.9]:
        assert moved == places


def test_labels_that_are_too_close_move_to_both_sides():
    assert move_apart([0.5, 0.5], 0.1) == pytest.approx([0.45, 0.55])
    assert move_apart([0.02, 0.02, 0.9], 0.1) == pytest.approx([0.0, 0.1, 0.9])
