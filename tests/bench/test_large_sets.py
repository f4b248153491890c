"""The bench of large sets (`bench/large_sets.py`): elements that are the same in every pass, rows that say what was measured."""

import json
import sys

import large_sets
import pytest
import torch

CPU = torch.device("cpu")


def all_elements(num_elements, block):
    return torch.cat(list(large_sets.elements(num_elements, block, CPU, torch.float64).read()))


def test_elements_depend_on_their_number_alone():
    assert torch.equal(all_elements(1000, 7), all_elements(1000, 1000))
    assert all_elements(1000, 7).shape == (1000, 2)


def test_they_are_normal_and_distinct():
    x = large_sets.normal(torch.arange(200_000))
    assert x.unique().numel() == 200_000
    assert x.isfinite().all()
    # five standard errors of mean, variance, and of the correlation of neighbours
    error = 5 / 200_000**0.5
    assert abs(x.mean()) < error
    assert abs(x.var() - 1) < error * 2**0.5
    assert abs((x[1:] * x[:-1]).mean()) < error


@pytest.mark.parametrize("largest", [2**52 - 1, 0])
def test_no_number_is_infinite(largest, monkeypatch):
    monkeypatch.setattr(large_sets, "_shifted", lambda z, by: torch.full_like(z, largest))
    assert large_sets.normal(torch.arange(3)).isfinite().all()


@pytest.mark.parametrize("more", [[], ["--learn"]], ids=["predict", "learn"])
def test_a_row_says_what_was_measured_and_how_far_it_is_from_one_shot(tmp_path, monkeypatch, capsys, more):
    out = tmp_path / "rows.jsonl"
    options = ["--elements", "300", "--depth", "2", "--width", "8", "--device", "cpu", "--chunk", "64", "--dtype", "float64"]
    monkeypatch.setattr(sys, "argv", ["large_sets.py", *options, *more, "--out", str(out)])
    large_sets.main()
    (row,) = (json.loads(line) for line in out.read_text().splitlines())
    assert row["elements"] == 300
    assert row["direction"] == ("forward+backward" if more else "forward")
    assert 0 <= row["difference"] <= large_sets.TOLERANCE["float64"]
    assert "elements_per_second" in capsys.readouterr().out


def test_a_difference_beyond_rounding_is_an_error(monkeypatch):
    options = ["--elements", "300", "--depth", "2", "--width", "8", "--device", "cpu", "--chunk", "64"]
    monkeypatch.setattr(sys, "argv", ["large_sets.py", *options])
    monkeypatch.setattr(large_sets, "_distance", lambda found, expected: float("nan"))
    with pytest.raises(SystemExit, match="chunks and one shot differ by nan"):
        large_sets.main()
