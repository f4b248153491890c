"""Requests: rows and random numbers; what tells prepared tasks apart (`source.py`)."""

import pytest

from orderless.io.errors import DataError
from orderless.tasks.registry import TASKS
from orderless.tasks.source import Request, check_request, compare_counts, prepared_folder, prepared_key


def test_large_seeds_do_not_meet(tmp_path):
    """With a list as key, numpy takes (2**32, 0) and (0, 1, 0) for the same stream: one seed's training for another's test."""
    draws = [
        Request(1, 1, (1, 1), seed).rng(*key).random() for seed, key in ((2**32, (0, 0)), (0, (1, 0)), (0, (0, 1)), (1, (0, 0)))
    ]
    assert len(set(draws)) == 4


def test_rows_of_a_publishers_split_are_all_or_as_many_as_asked(tmp_path):
    everything = Request(5, 5, (1, 1), 0, found=tmp_path)
    assert everything.rows(0, 7).tolist() == list(range(7))
    some = Request(5, 5, (1, 1), 0, asked=(5, None), found=tmp_path)
    assert len(set(some.rows(0, 7).tolist())) == 5
    with pytest.raises(DataError, match="expected 5 train sets, found 4"):
        some.rows(0, 4)


def test_a_request_has_whole_numbers_that_make_sense():
    assert check_request(seed=0, num_train=None, set_size=3) == {"seed": 0, "set_size": 3}
    for wrong, says in {"seed": -1, "num_train": 0}.items():
        with pytest.raises(ValueError, match=f"{wrong} must be [01] or more"):
            check_request(**{wrong: says})


def test_prepared_tasks_are_told_apart_by_all_that_was_asked_for():
    task = TASKS["hematocrit"]
    finite, drawn = task.sources
    key = prepared_key("hematocrit", drawn, task.request(3, num_train=5, set_size=7))
    assert prepared_folder(key) == "hematocrit@simulated-5+23104x7-seed3"
    everything = prepared_key("hematocrit", finite, task.request(3, num_train=5))
    assert (everything["num_train"], everything["num_test"]) == (5, "all"), "a file has as many as it has"


def test_a_file_with_other_numbers_than_its_publishers_says_so():
    assert compare_counts((2, 1), ((3, 1), (2, 1)), "sets") == {}
    assert compare_counts((2, 2), ((3000, 1),), "sets") == {"differs": "2 + 2 sets instead of 3,000 + 1"}
