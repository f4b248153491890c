"""What all pictures have in common."""

import pytest

from orderless.look import STYLE, check_picture_path, evenly


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
