"""Result lines on disk: none is lost, none is torn, none is there twice, whatever happens to whoever writes them."""

import json
import math
import multiprocessing
import os
import time
import warnings

import pytest
from experiments.lines import make_line

from orderless.experiments.results import ResultStore, read_results
from orderless.io.errors import DataError


def line(seed=0, **options):
    return make_line(options={"seed": seed}, epochs=1, **options)


def test_what_was_added_is_there_in_order(tmp_path):
    store = ResultStore(tmp_path / "new" / "results")
    assert store.lines() == []
    assert store.add(line(0))
    assert store.add(line(1))
    assert store.lines() == ResultStore(store.folder).lines() == [line(0), line(1)]
    assert list(store.by_key()) == [line(0)["key"], line(1)["key"]]


def test_tables_are_columns_on_disk_and_rows_in_python(tmp_path):
    store = ResultStore(tmp_path)
    rows = [{"epoch": 0, "train_loss": None}, {"epoch": 1, "train_loss": 0.5, "test_mse": 2.0}]
    store.add({**line(0), "epochs": rows, "steps": []})
    (written,) = map(json.loads, store.path.read_text().splitlines())
    assert written["epochs"] == {"epoch": [0, 1], "train_loss": [None, 0.5], "test_mse": [None, 2.0]}
    assert written["steps"] == []
    (read,) = read_results(store.path)
    assert read["epochs"] == [{"epoch": 0, "train_loss": None, "test_mse": None}, rows[1]]
    assert store.lines() == [read]


def test_the_first_line_of_a_run_counts(tmp_path):
    store = ResultStore(tmp_path)
    assert store.add(line(0, value=1.0))
    assert not ResultStore(tmp_path).add(line(0, value=2.0))
    assert [found["metrics"] for found in store.lines()] == [{"mse": 1.0}]
    with store.path.open("a") as file:  # as somebody joins two files by hand
        file.write(json.dumps(line(0, value=3.0)) + "\n")
    assert [found["metrics"] for found in ResultStore(tmp_path).lines()] == [{"mse": 1.0}]


def test_a_store_sees_what_others_add_and_take_out(tmp_path):
    mine, other = ResultStore(tmp_path), ResultStore(tmp_path)
    other.add(line(0))
    assert len(mine.lines()) == 1
    other.add(line(1))
    assert len(mine.lines()) == 2
    mine.path.write_text(json.dumps(line(1)) + "\n")
    assert mine.lines() == [line(1)]
    mine.path.unlink()
    assert mine.lines() == []


@pytest.mark.parametrize("kept", [1, 100, -1])
def test_a_torn_last_line_is_passed_over_and_repaired(tmp_path, kept):
    store = ResultStore(tmp_path)
    store.add(line(0))
    torn = json.dumps(line(1)).encode()[:kept]  # all but the end of it
    with store.path.open("ab") as file:
        file.write(torn)
    with pytest.warns(UserWarning, match=f"the last line is cut off after {len(torn)} bytes"):
        assert ResultStore(tmp_path).lines() == [line(0)]
    assert ResultStore(tmp_path).add(line(1))
    assert ResultStore(tmp_path).add(line(2))
    assert ResultStore(tmp_path).lines() == [line(0), line(1), line(2)]


def test_a_damaged_line_in_the_middle_is_told_with_its_number(tmp_path):
    store = ResultStore(tmp_path)
    for seed in range(3):
        store.add(line(seed))
    lines = store.path.read_text().splitlines(keepends=True)
    for damaged, found in (
        (lines[1][:50] + "\n", "50 bytes that are no JSON"),
        ("[1]\n", "list instead of an object"),
        ("{}\n", "no key, status, spec, metrics"),
        (json.dumps({**line(1), "status": "half"}) + "\n", "the status 'half'"),
    ):
        store.path.write_text(lines[0] + damaged + lines[2])
        with pytest.raises(DataError, match=rf"results.jsonl, line 2: expected one JSON object.*found {found}"):
            ResultStore(tmp_path).lines()


def test_the_number_of_a_damaged_line_counts_those_that_were_read_before(tmp_path):
    store = ResultStore(tmp_path)
    store.add(line(0))
    assert len(store.lines()) == 1
    with store.path.open("a") as file:
        file.write("damaged\n")
    with pytest.raises(DataError, match="line 2"):
        store.lines()


def test_what_json_cannot_say_is_null(tmp_path):
    store = ResultStore(tmp_path)
    store.add({**line(0), "steps": [{"loss": math.nan}, {"loss": math.inf}, {"loss": 1.5}]})
    assert [step["loss"] for step in store.lines()[0]["steps"]] == [None, None, 1.5]
    assert "NaN" not in store.path.read_text()


def test_only_result_lines_are_taken(tmp_path):
    with pytest.raises(DataError, match="no status"):
        ResultStore(tmp_path).add({"key": "x", "spec": {}, "metrics": {}})
    assert not (tmp_path / "results.jsonl").exists()


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    store = ResultStore(tmp_path)
    store.add(line(0))
    before = store.path.read_bytes()

    def no_space(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space left"):
        store.add(line(1))
    monkeypatch.undo()
    assert store.path.read_bytes() == before
    assert store.add(line(1))


def test_lines_of_other_files_are_read_and_never_written(tmp_path):
    elsewhere = tmp_path / "committed.jsonl"
    elsewhere.write_text(
        json.dumps(line(0, value=1.0)) + "\n" + json.dumps(line(1))
    )  # without a last newline, as editors leave it
    before = elsewhere.read_bytes()
    store = ResultStore(tmp_path / "out", also=[elsewhere])
    store.add(line(0, value=2.0))
    assert [found["metrics"]["mse"] for found in store.lines()] == [2.0, 0.0198]  # the folder's own goes first
    assert elsewhere.read_bytes() == before


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.jsonl: expected a file of result lines, found No such file"):
        read_results(tmp_path / "nowhere.jsonl")


def test_an_empty_file_has_no_lines(tmp_path):
    (tmp_path / "empty.jsonl").touch()
    assert read_results(tmp_path / "empty.jsonl") == []


def write_all(folder, lines, begin, added):
    begin.wait()
    store = ResultStore(folder)
    added.put(sum(store.add(one) for one in lines))


def test_writers_at_once_lose_nothing_and_write_nothing_twice(tmp_path):
    processes = multiprocessing.get_context("fork")  # they only write: no need to load everything again
    begin, added = processes.Event(), processes.SimpleQueue()
    lines = [line(seed) for seed in range(40)]
    writers = [processes.Process(target=write_all, args=(tmp_path, lines, begin, added)) for _ in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of newer Pythons, that this process may have threads
        for writer in writers:
            writer.start()
    begin.set()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a line that is just being written is not a torn one
        while any(writer.is_alive() for writer in writers):
            ResultStore(tmp_path).lines()
            time.sleep(0.001)
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert added.get() + added.get() == 40
    assert sorted(found["spec"]["train"]["seed"] for found in read_results(tmp_path / "results.jsonl")) == list(range(40))


def test_a_whole_last_line_without_its_end_is_kept(tmp_path):
    """As an editor leaves it, or a copy: nothing was torn, so nothing may be lost."""
    store = ResultStore(tmp_path)
    store.add(line(0))
    store.add(line(1))
    store.path.write_bytes(store.path.read_bytes().rstrip(b"\n"))
    reader = ResultStore(tmp_path)
    assert [found["key"] for found in reader.lines()] == [line(0)["key"], line(1)["key"]]
    assert ResultStore(tmp_path).add(line(2))
    for found in (reader, ResultStore(tmp_path)):
        assert [known["key"] for known in found.lines()] == [line(seed)["key"] for seed in range(3)]
