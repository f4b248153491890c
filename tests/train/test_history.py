"""Rows of a run, on disk and back (`history.py`)."""

import numpy as np
import pytest
import torch
from torch import nn

from orderless.train.history import History, Moment


def test_rows_survive_the_disk(tmp_path):
    history = History(
        epochs=[{"epoch": 0, "test_mse": 1.5}, {"epoch": 1, "train_loss": 0.25, "test_mse": None}],
        steps=[{"step": 1, "loss": 0.1}],
    )
    history.observe({"a": lambda moment: {"value": [1.0, None]}}, Moment(nn.Identity(), 7, 2))
    history.write(tmp_path)
    assert History.read(tmp_path) == history
    assert history.observed == {"a": [{"step": 7, "epoch": 2, "value": [1.0, None]}]}


def test_csv_has_every_column_that_any_row_has(tmp_path):
    History(epochs=[{"epoch": 0, "test_mse": 1.5}, {"epoch": 1, "train_loss": 0.25}]).write(tmp_path)
    assert (tmp_path / "epochs.csv").read_text() == "epoch,test_mse,train_loss\n0,1.5,\n1,,0.25\n"


def test_an_observer_may_have_nothing_to_say():
    history = History()
    for epoch in range(3):
        history.observe({"a": lambda moment: {"value": 1} if moment.epoch == 1 else None}, Moment(nn.Identity(), 7, epoch))
    assert history.observed == {"a": [{"step": 7, "epoch": 1, "value": 1}]}


def test_numbers_of_numpy_and_torch_are_kept_as_plain_ones(tmp_path):
    """As they are, a checkpoint could not be loaded again."""
    said = {
        "mean": np.float64(1.5),
        "count": np.int64(2),
        "norm": torch.tensor(0.5),
        "rows": [np.arange(2), {"a": (np.bool_(True),)}],
    }
    history = History()
    history.observe({"a": lambda moment: said}, Moment(nn.Identity(), 7, 2))
    (row,) = history.observed["a"]
    assert row == {"step": 7, "epoch": 2, "mean": 1.5, "count": 2, "norm": 0.5, "rows": [[0, 1], {"a": [True]}]}
    assert [type(row[name]) for name in ("mean", "count", "norm")] == [float, int, float]
    history.write(tmp_path)
    assert History.read(tmp_path) == history


def test_what_no_file_holds_is_refused_by_the_observers_name():
    with pytest.raises(TypeError, match="the observer 'a' returned Identity for 'net': expected numbers"):
        History().observe({"a": lambda moment: {"net": moment.model}}, Moment(nn.Identity(), 7, 2))
