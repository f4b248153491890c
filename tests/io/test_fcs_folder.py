"""Folders of FCS files: markers matched by name, scales, and what is told of it."""

import os
from pathlib import Path

import flowio
import numpy as np
import pytest

from orderless.io import DataError, join_labels, open_samples
from orderless.io.logicle import logicle

EVENTS = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32) * 100


def write(path, markers=("FSC-A", "CD3", "CD4", "Time"), events=EVENTS, **keywords):
    with path.open("wb") as file:
        channels = [f"D{i}" for i in range(len(markers))]
        flowio.create_fcs(file, np.ravel(events[:, : len(markers)]).tolist(), channels, list(markers), keywords)


@pytest.fixture
def read(tmp_path):
    def read(**options):
        return open_samples(tmp_path, cache_dir=tmp_path / "cache", **options)

    return read


def test_markers_are_matched_by_name_whatever_their_place_and_spelling(tmp_path, read):
    write(tmp_path / "p2.fcs", ("FSC-A", "CD3", "HLA-DR"))
    write(tmp_path / "p10.fcs", ("hla dr", "FSC-A", "cd3", "CD19"))
    samples = read()
    assert samples.ids == ("p2", "p10")
    assert samples.features == ("FSC-A", "CD3", "HLA-DR")
    np.testing.assert_array_equal(samples[0], EVENTS[:, :3])
    np.testing.assert_array_equal(samples[1], EVENTS[:, [1, 2, 0]])
    assert "marker CD19 was left out: missing in 1 of 2 files, p2.fcs." in samples.notes
    assert "spelt in more than one way, and taken for one marker: CD3 (cd3), HLA-DR (hla dr)." in samples.notes


def test_what_is_not_of_cells_is_left_out_unless_asked_for(tmp_path, read):
    write(tmp_path / "a.fcs", ("Time", "CD3", "Event_length", "BC1"))
    samples = read()
    assert samples.features == ("CD3",)
    assert "left out, because they are not of cells: Time, Event_length, BC1; features= takes them." in samples.notes
    assert "if this is cytometry" not in " ".join(samples.notes)
    asked = read(features=["Time", "CD3"])
    assert asked.features == ("Time", "CD3")
    np.testing.assert_array_equal(asked[0], EVENTS[:, :2])


def test_scales_change_markers_and_leave_scatter_linear(tmp_path, read):
    write(tmp_path / "a.fcs")
    for options, expected in (
        ({"transform": "arcsinh", "cofactor": 150}, np.arcsinh(EVENTS[:, 1:3].astype(float) / 150)),
        ({"transform": "logicle"}, logicle(EVENTS[:, 1:3])),
    ):
        samples = read(**options)
        np.testing.assert_array_equal(samples[0], np.column_stack([EVENTS[:, 0], expected]).astype(np.float32))
        assert f"left on a linear scale by {options['transform']}: FSC-A." in samples.notes


@pytest.mark.parametrize("transform", [None, "logicle"])
def test_a_cofactor_without_arcsinh_is_refused(tmp_path, read, transform):
    write(tmp_path / "a.fcs")
    with pytest.raises(ValueError, match=f"cofactor is of arcsinh: leave it out with transform={transform!r}"):
        read(transform=transform, cofactor=150)
    assert read(transform=transform).origin["options"]["cofactor"] is None


@pytest.mark.parametrize("transform", [None, "arcsinh", "logicle"])
def test_options_that_were_not_given_are_kept_as_what_they_came_to(tmp_path, read, transform):
    write(tmp_path / "a.fcs", spillover="2,D1,D2,1,0.5,0,1")
    samples = read(transform=transform)
    again = read(**samples.origin["options"])
    assert again.origin == samples.origin
    assert again.origin["options"]["compensate"] is True
    assert again.origin["compensated"] == "all files"
    assert "compensated" not in read(transform=transform, compensate=False).origin  # which its option tells
    np.testing.assert_array_equal(again[0], samples[0])


def test_compensation_comes_before_the_scale_and_can_be_left_out(tmp_path, read):
    write(tmp_path / "a.fcs", spillover="2,D1,D2,1,0.5,0,1")
    true = EVENTS.astype(float)
    true[:, 2] -= 0.5 * true[:, 1]
    samples = read(transform="arcsinh")
    np.testing.assert_allclose(samples[0][:, 1:], np.arcsinh(true[:, 1:3] / 5), rtol=1e-6)  # float32
    assert "events are compensated by the spillover matrix of each file." in samples.notes
    np.testing.assert_array_equal(read(compensate=False)[0], EVENTS[:, :3])
    write(tmp_path / "b.fcs")
    assert "no spillover matrix, so no compensation, in 1 of 2 files: b.fcs." in read().notes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": ["CD19"]}, "expected marker 'CD19' in every file, found none in b.fcs"),
        ({"features": ["CD33"]}, r"expected a marker 'CD33' \(features=\), found .*Did you mean 'CD3'"),
        ({"ignore": ["nothing"]}, r"expected a marker 'nothing' \(ignore=\)"),
        ({"transform": "log"}, "transform must be arcsinh, logicle or None; got 'log'"),
        ({"transform": "arcsinh", "cofactor": 0}, "cofactor must be above 0, got 0"),
    ],
    ids=["not in all", "unknown", "ignored", "transform", "cofactor"],
)
def test_what_the_files_do_not_have_is_told(tmp_path, read, options, message):
    write(tmp_path / "a.fcs", ("CD3", "CD19"))
    write(tmp_path / "b.fcs", ("CD3", "CD20"))
    with pytest.raises(ValueError, match=message):
        read(**options)
    assert read(ignore=["cd-3", "CD19"], features=["CD3"]).features == ("CD3",)


def test_files_without_a_common_marker_are_refused(tmp_path, read):
    write(tmp_path / "a.fcs", ("CD3", "Time"))
    write(tmp_path / "b.fcs", ("CD4", "Time"))
    with pytest.raises(DataError, match=r"a marker that all files have, found none \(a.fcs: CD3, Time; b.fcs: CD4, Time\)"):
        read()


def test_files_without_events_are_empty_sets_and_named(tmp_path, read):
    write(tmp_path / "a.fcs")
    write(tmp_path / "b.fcs", events=np.empty((0, 4)))
    samples = read()
    assert samples.sizes.tolist() == [6, 0]
    assert samples.empty == ("b",)


def test_one_file_is_one_set(tmp_path):
    write(tmp_path / "a.fcs")
    assert open_samples(tmp_path / "a.fcs", cache_dir=tmp_path / "cache").ids == ("a",)


def test_a_damaged_file_is_named_and_leaves_nothing(tmp_path, read):
    write(tmp_path / "a.fcs")
    write(tmp_path / "b.fcs")
    (tmp_path / "b.fcs").write_bytes((tmp_path / "b.fcs").read_bytes()[:-30])
    with pytest.raises(DataError, match=r"b\.fcs: expected an FCS file"):
        read()
    assert not list((tmp_path / "cache").rglob("*.arrow"))


@pytest.mark.skipif("ORDERLESS_DATA" not in os.environ, reason="needs ORDERLESS_DATA with bcr_xl")
def test_the_published_files_are_read(tmp_path):
    folder = Path(os.environ["ORDERLESS_DATA"]) / "bcr_xl"
    if not folder.is_dir():
        pytest.skip("no bcr_xl in ORDERLESS_DATA")
    samples = join_labels(open_samples(folder / "fcs", transform="arcsinh", cache_dir=tmp_path), folder / "labels.csv")
    assert len(samples) == 16
    assert samples.sizes.tolist() == samples.columns["cells"].tolist()
    assert "CD3" in samples.features
    assert not {"Time", "Cell_length", "BC1"} & set(samples.features)
    assert any("read in spite of a fault, 16 files: the data section is said to be one byte longer" in n for n in samples.notes)
    # marker of B cell receptor signalling: stimulated above reference in every patient
    means = np.array([samples[i].mean(0)[samples.features.index("pS6")] for i in range(16)])
    stimulated = samples.columns["label"] == 1
    assert (means[stimulated] > means[~stimulated]).all()
