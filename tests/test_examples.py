"""Examples run as they stand, on small simulated data."""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SAYS = {
    "nk_cmv": ["Samples(20 sets", "Kernel mean embedding", "Only 20 sets"],
    "bcr_xl": ["Samples(12 sets", "intervals over groups", "patient0_BCR-XL"],
    "point_clouds": ["3 classes, 90 clouds to learn from, 30 to test on", "accuracy 0."],
    "grid_search": ["'depth': 6", "best: {"],
}


@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs_on_simulated_data(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ORDERLESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "argv", [f"{name}.py"])
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert all(text in out for text in SAYS[name]), out
    assert [path.name for path in tmp_path.iterdir()] in ([], ["cache"]), "nothing is left behind"


@pytest.mark.parametrize("name", SAYS)
def test_an_example_is_short_and_says_how_to_run_it(name):
    text = (EXAMPLES / f"{name}.py").read_text()
    assert len(text.splitlines()) < 60
    assert text.count(f"python examples/{name}.py") == 2, "with data of one's own, and without"
