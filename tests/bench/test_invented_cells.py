"""`bench/invented_cells.py`: the curves are those of the lines, and the limits those of the patients."""

from __future__ import annotations

import sys
from pathlib import Path

import invented_cells
import pytest

from orderless.experiments.results import read_results

DOCS = Path(__file__).parents[2] / "docs"
LINES = DOCS / "results" / "more_elements_simulated.jsonl"


def test_curves_have_every_seed_of_every_number_of_cells():
    curves = invented_cells.curves_of(read_results(LINES))
    network = curves["deep_sets++", "sum"]
    assert {cells: len(values) for cells, values in network.items()} == {100: 3, 1000: 3, 10000: 3, 55000: 1}
    assert list(curves["baseline:moments", ""]) == [100, 1000, 10000, 55000]
    assert all(network[cells][0] < values[0] for cells, values in curves["baseline:moments", ""].items())


def test_the_limits_are_those_that_the_page_names():
    page = (DOCS / "more-elements.md").read_text()
    constant, best = invented_cells.limits()
    assert f"an MSE of {best:.1f} on these test patients; a constant has {constant:.1f}" in page.replace("\n", " ")
    assert "pictures/invented_cells.png" in page


def test_a_picture_is_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["invented_cells.py", str(LINES), "--picture", str(tmp_path / "curve.png")])
    invented_cells.main()
    assert (tmp_path / "curve.png").stat().st_size > 10_000


@pytest.mark.parametrize(("content", "words"), [(None, "no such file"), ("", "found none")])
def test_a_file_without_such_lines_is_told(content, words, tmp_path, monkeypatch, capsys):
    if content is not None:
        (tmp_path / "lines.jsonl").write_text(content)
    monkeypatch.setattr(sys, "argv", ["invented_cells.py", str(tmp_path / "lines.jsonl"), "--picture", "curve.png"])
    with pytest.raises(SystemExit) as stopped:
        invented_cells.main()
    assert stopped.value.code == 2
    assert words in capsys.readouterr().err
