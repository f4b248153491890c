"""What all pictures have in common."""

from itertools import pairwise

import pytest

from orderless.look import STYLE, check_picture_path, evenly, move_apart


def test_a_picture_is_written_where_its_name_and_its_folder_allow(tmp_path):
    assert check_picture_path(tmp_path / "a.PNG", ["png", "svg"]) == tmp_path / "a.PNG"
    assert check_picture_path(str(tmp_path / "a.svg"), ["png", "svg"]) == tmp_path / "a.svg"
    (tmp_path / "folder.png").mkdir()
    for name, message in {
        "a.svg": r"a picture's name ends in \.png; got '.*a\.svg'",
        "png": "a picture's name ends in",
        "folder.png": "is a folder",
        "nowhere/a.png": "there is no folder .*nowhere. Make it first",
    }.items():
        with pytest.raises(ValueError, match=message):
            check_picture_path(tmp_path / name, ["png"])


def test_matplotlib_knows_every_part_of_the_style():
    matplotlib = pytest.importorskip("matplotlib")
    with matplotlib.rc_context(STYLE):  # raises at a name or a value that it does not know
        assert matplotlib.rcParams["svg.hashsalt"] == "orderless"


def test_some_of_many_are_evenly_spread_with_both_ends():
    assert evenly(56, 4) == [0, 18, 37, 55]
    assert evenly(3, 10) == [0, 1, 2]
    assert evenly(1, 10) == [0]


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
