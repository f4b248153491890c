"""Which channels of cytometry are not of cells (`not_of_cells.py`)."""

import pytest

from orderless.io.not_of_cells import is_not_of_cells, tell_not_of_cells


@pytest.mark.parametrize("name", ["Time", "TIME", "Event_length", "Event #", "Cell length", "event no", "Bead1", "beads", "BC12"])
def test_time_events_beads_and_barcodes_are_not_of_cells_however_they_are_written(name):
    assert is_not_of_cells(name)


@pytest.mark.parametrize("name", ["CD3", "FSC-A", "timepoint", "time_to_peak", "Bcl2", "length", "events per second"])
def test_other_names_say_nothing_of_the_measurement(name):
    assert not is_not_of_cells(name)


def test_one_feature_is_told_as_one():
    assert tell_not_of_cells(["CD3", "CD4"]) == []
    (note,) = tell_not_of_cells(["time", "CD3"])
    assert note.endswith("if this is cytometry: ignore=['time'] leaves it out, as is done with FCS files.")
