"""The memory-mapped store: what goes in comes out, a damaged or stale folder is noticed, nothing half-finished looks finished."""

import json
import mmap
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time

import filelock
import numpy as np
import pytest

from orderless import files
from orderless.io.errors import DataError
from orderless.io.store import SetStore, StoredSets, iterate_blocks, open_if_good, open_or_build
from orderless.io.store_files import MANIFEST, VERIFIED, sha256_of
from orderless.io.store_writer import StoreWriter

KEY = {"task": "example", "seed": 0}
SIZES = np.array([3, 0, 5, 1])


def elements(count=9, *, dim=2, start=0):
    return np.arange(start, start + count * dim, dtype=np.float32).reshape(count, dim)


def build_ragged(writer):
    writer.add_sets("train", elements(), SIZES, target=np.arange(4.0), id=np.arange(4))
    writer.add_sets("train", elements(4, start=100), np.array([1, 3]), target=np.array([4.0, 5.0]), id=np.array([4, 5]))
    writer.add_sets("test", elements(2), np.array([2]), target=np.array([7.0]), id=np.array([6]))
    return {"note": "hello"}


def build_pooled(writer):
    writer.add_pool(np.arange(12, dtype=np.uint8).reshape(3, 2, 2), source=np.array([10, 11, 12]))
    writer.add_pool(np.arange(12, 20, dtype=np.uint8).reshape(2, 2, 2), source=np.array([13, 14]))
    writer.add_sets("train", np.array([4, 0, 2]), np.array([2, 1]), target=np.array([0, 1]))
    return {}


def make(folder, build=build_ragged, *, key=KEY, element_shape=(2,), **options):
    return open_or_build(folder, build, key=key, element_shape=element_shape, **options)


def must_not_build(writer):
    raise AssertionError("a good store was built again")


@pytest.fixture(params=[1, 100, 2**28], ids=["a block a piece", "small blocks", "one block"])
def block_bytes(request, monkeypatch):
    monkeypatch.setattr("orderless.io.store_writer._BLOCK_BYTES", request.param)
    return request.param


def test_sets_come_back_as_they_went_in(tmp_path, block_bytes):
    store = make(tmp_path / "s")
    train = store["train"]
    assert store.splits == ("train", "test")
    assert train.sizes.tolist() == [3, 0, 5, 1, 1, 3]
    whole = np.concatenate([elements(), elements(4, start=100)])
    np.testing.assert_array_equal(train.gather(range(6)), whole)
    np.testing.assert_array_equal(train.gather([5, 2, 1]), np.concatenate([whole[10:13], whole[3:8]]))
    assert train.gather([]).shape == (0, 2)
    assert train.columns["target"].tolist() == [0, 1, 2, 3, 4, 5]
    assert store.manifest["note"] == "hello"
    assert store.manifest["splits"]["train"] == {"sets": 6, "elements": 13}


@pytest.mark.parametrize("equal", [True, False], ids=["equal", "ragged"])
def test_many_blocks_are_read_as_one(tmp_path, block_bytes, equal):
    rng = np.random.default_rng(0)
    pieces = []
    for _ in range(12):
        sizes = np.full(3, 4) if equal else rng.integers(0, 6, 3)
        pieces.append((rng.normal(size=(sizes.sum(), 2)).astype(np.float32), sizes))

    def build(writer):
        for number, (x, sizes) in enumerate(pieces):
            writer.add_sets("train", x, sizes, id=np.arange(3) + 3 * number)
        return {}

    train = make(tmp_path / "s", build)["train"]
    sets = [part for x, sizes in pieces for part in np.split(x, np.cumsum(sizes)[:-1])]
    assert train.sizes.tolist() == [len(part) for part in sets]
    assert train.columns["id"].tolist() == list(range(36))
    for indices in (range(36), rng.permutation(36), [35, 0, 35], [17], []):
        expected = np.concatenate([sets[i] for i in indices]) if len(indices) else np.zeros((0, 2), np.float32)
        np.testing.assert_array_equal(train.gather(indices), expected)


def test_a_pool_of_many_blocks_is_read_as_one(tmp_path, block_bytes):
    pool = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)

    def build(writer):
        for start in range(0, 40, 4):
            writer.add_pool(pool[start : start + 4], row=np.arange(start, start + 4))
        writer.add_sets("train", np.arange(39, -1, -1), np.array([10, 30]))
        return {}

    store = make(tmp_path / "s", build, element_shape=(3,))
    np.testing.assert_array_equal(store["train"].gather([1, 0]), np.concatenate([pool[29::-1], pool[:29:-1]]))
    for rows in ([40], [-1]):
        with pytest.raises(IndexError, match="there are 40 rows"):
            store.pool.take(np.array(rows))


def test_several_numbers_per_set_are_a_column_of_vectors(tmp_path, block_bytes):
    def build(writer):
        for start in (0, 4):
            target = np.arange(8, dtype=np.float32).reshape(4, 2) + 10 * start
            writer.add_sets("train", elements(), SIZES, target=target)
        return {}

    target = make(tmp_path / "s", build)["train"].columns["target"]
    assert target.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7], [40, 41], [42, 43], [44, 45], [46, 47]]


def test_sets_refer_to_rows_of_a_pool(tmp_path, block_bytes):
    store = make(tmp_path / "s", build_pooled, element_shape=(2, 2))
    pool = np.arange(20, dtype=np.uint8).reshape(5, 2, 2)
    np.testing.assert_array_equal(store["train"].gather([1, 0]), pool[[2, 4, 0]])
    assert store["train"].pool_rows([0, 1]).tolist() == [4, 0, 2]
    assert store.pool.columns["source"].tolist() == [10, 11, 12, 13, 14]
    assert len(store.pool) == 5


def test_a_set_is_read_block_by_block_also_from_a_pool(tmp_path, block_bytes):
    plain, pooled = make(tmp_path / "s")["train"], make(tmp_path / "p", build_pooled, element_shape=(2, 2))["train"]
    for sets in (plain, pooled):
        for n in range(len(sets)):
            blocks = list(sets.blocks(n, 2))
            assert [len(block) for block in blocks] == [len(numbers) for numbers in iterate_blocks(int(sets.sizes[n]), 2)]
            np.testing.assert_array_equal(np.concatenate([sets.gather([n])[:0], *blocks]), sets.gather([n]))


def test_what_is_gathered_may_be_changed_without_changing_the_store(tmp_path):
    train = make(tmp_path / "s")["train"]
    train.gather([0])[:] = -1
    np.testing.assert_array_equal(train.gather([0]), elements(3))


def test_elements_are_not_copied_into_memory_on_opening(tmp_path):
    def build(writer):
        for _ in range(16):
            writer.add_sets("train", np.zeros((1_000_000, 1), np.float32), np.array([1_000_000]), target=np.zeros(1))
        return {}

    make(tmp_path / "s", build, element_shape=(1,))
    code = (
        "import sys, resource; from orderless.io.store import SetStore; "
        "import pyarrow.ipc; "
        "loaded = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; SetStore(sys.argv[1]); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - loaded)"
    )
    grown_kib = int(subprocess.run([sys.executable, "-c", code, tmp_path / "s"], capture_output=True, check=True).stdout)
    assert grown_kib < 16 * 1024  # the files have 64 MB


def test_a_good_store_is_opened_and_not_built_again(tmp_path):
    make(tmp_path / "s")
    assert len(make(tmp_path / "s", must_not_build)["train"]) == 6


def test_rebuild_builds_again(tmp_path):
    make(tmp_path / "s")
    assert make(tmp_path / "s", build_pooled, element_shape=(2, 2), rebuild=True).pool is not None


def test_another_key_builds_again_and_says_so(tmp_path):
    make(tmp_path / "s")
    with pytest.warns(UserWarning, match="other settings. It is prepared again"):
        store = make(tmp_path / "s", key=KEY | {"seed": 1})
    assert store.manifest["key"]["seed"] == 1


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.999])
def test_one_flipped_bit_is_noticed_and_repaired(tmp_path, share):
    make(tmp_path / "s")
    path = tmp_path / "s" / "train.arrow"
    good = sha256_of(path)
    flip(path, int(share * path.stat().st_size))
    with pytest.raises(DataError, match=r"train\.arrow: expected SHA-256"):
        SetStore(tmp_path / "s")
    with pytest.warns(UserWarning, match="prepared again"):
        make(tmp_path / "s")
    assert sha256_of(path) == good


def damage_truncate(folder):
    path = folder / "train.arrow"
    path.write_bytes(path.read_bytes()[:-8])


def damage_remove(folder):
    (folder / "test.arrow").unlink()


def damage_no_manifest(folder):
    (folder / MANIFEST).unlink()


def damage_half_manifest(folder):
    text = (folder / MANIFEST).read_text()
    (folder / MANIFEST).write_text(text[: len(text) // 2])


def damage_other_format(folder):
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(manifest | {"format": 99}))


def damage_manifest_is_a_list(folder):
    (folder / MANIFEST).write_text("[]")


def damage_manifest_says_another_shape(folder):
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(manifest | {"element_shape": [1]}))


DAMAGES = [
    damage_truncate,
    damage_remove,
    damage_no_manifest,
    damage_half_manifest,
    damage_other_format,
    damage_manifest_is_a_list,
    damage_manifest_says_another_shape,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=[d.__name__ for d in DAMAGES])
def test_damage_is_an_error_and_is_repaired(tmp_path, damage):
    make(tmp_path / "s")
    damage(tmp_path / "s")
    with pytest.raises(DataError):
        SetStore(tmp_path / "s")
    with pytest.warns(UserWarning, match="prepared again"):
        store = make(tmp_path / "s")
    assert len(store["train"]) == 6


def test_any_flipped_bit_of_the_manifest_is_noticed(tmp_path):
    make(tmp_path / "s")
    path = tmp_path / "s" / MANIFEST
    good = path.read_bytes()
    for at in range(0, len(good), 3):
        bad = bytearray(good)
        bad[at] ^= 1 << (at % 8)
        path.write_bytes(bad)
        if _loads(bad) == json.loads(good):
            continue  # a blank that became another blank says the same
        with pytest.raises(DataError):
            SetStore(tmp_path / "s")


def _loads(content):
    try:
        return json.loads(content)
    except ValueError:
        return None


def test_a_file_that_is_no_arrow_is_an_error_that_names_it(tmp_path):
    (tmp_path / "train.arrow").write_bytes(b"x" * 1000)
    with pytest.raises(DataError, match=r"train\.arrow: expected an Arrow file"):
        StoredSets(tmp_path / "train.arrow", (2,), None)


def test_a_change_is_noticed_even_if_its_time_was_set_back(tmp_path):
    make(tmp_path / "s")
    path = tmp_path / "s" / "train.arrow"
    before = path.stat()
    flip(path, before.st_size // 2)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(DataError, match="SHA-256"):
        SetStore(tmp_path / "s")


def test_what_lies_in_the_way_is_removed(tmp_path):
    make(tmp_path / "s")
    (tmp_path / ".s.aside").write_text("a file where a folder should be")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".s.old").symlink_to(tmp_path / "elsewhere")
    make(tmp_path / "s", rebuild=True)
    assert not (tmp_path / ".s.old").is_symlink()
    make(tmp_path / "s", rebuild=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".s.lock", "elsewhere", "s"]
    assert (tmp_path / "elsewhere").exists()


def test_a_source_that_cannot_be_read_is_named(tmp_path):
    source = tmp_path / "source.bin"
    with pytest.raises(DataError, match=r"source\.bin: expected a file that the task is made from"):
        make(tmp_path / "s", build_from(source), sources=[source])
    source.write_bytes(b"first")
    make(tmp_path / "s", build_from(source), sources=[source])
    source.unlink()
    assert open_if_good(tmp_path / "s", KEY, [source]) is None
    with pytest.raises(DataError, match=r"source\.bin"), pytest.warns(UserWarning, match=r"source\.bin"):
        make(tmp_path / "s", build_from(source), sources=[source])
    assert len(make(tmp_path / "s", must_not_build)["train"]) == 6  # what was there is still there


def test_sources_are_not_hashed_again_after_building(tmp_path, monkeypatch):
    source = tmp_path / "source.bin"
    source.write_bytes(b"first")
    make(tmp_path / "s", build_from(source), sources=[source])
    monkeypatch.setattr("orderless.io.store_files.sha256_of", lambda path: pytest.fail(f"hashed {path}"))
    make(tmp_path / "s", must_not_build, sources=[source])


def test_copied_files_are_checked_once_and_then_trusted(tmp_path):
    make(tmp_path / "s")
    os.utime(tmp_path / "s" / "train.arrow", ns=(1, 1))
    before = (tmp_path / "s" / VERIFIED).read_text()
    SetStore(tmp_path / "s")
    assert json.loads((tmp_path / "s" / VERIFIED).read_text())["train.arrow"][1] == 1
    assert (tmp_path / "s" / VERIFIED).read_text() != before


def test_lost_or_broken_stamps_only_cost_time(tmp_path):
    make(tmp_path / "s")
    for content in ("", "[1, 2]"):
        (tmp_path / "s" / VERIFIED).write_text(content)
        assert len(make(tmp_path / "s", must_not_build)["train"]) == 6


def build_from(source):
    def build(writer):
        writer.made_from([source])
        return build_ragged(writer)

    return build


def test_a_changed_source_makes_the_store_stale(tmp_path):
    source = tmp_path / "source.bin"
    source.write_bytes(b"first")
    make(tmp_path / "s", build_from(source), sources=[source])
    make(tmp_path / "s", must_not_build, sources=[source])
    os.utime(source, ns=(1, 1))
    make(tmp_path / "s", must_not_build, sources=[source])  # touched, but the same
    source.write_bytes(b"other")
    with pytest.warns(UserWarning, match="made from the present"):
        make(tmp_path / "s", build_from(source), sources=[source])
    source.unlink()
    make(tmp_path / "s", must_not_build)  # sources that are gone need not come back


def test_other_sources_make_the_store_stale(tmp_path):
    one, two = tmp_path / "one.bin", tmp_path / "two.bin"
    one.write_bytes(b"1")
    two.write_bytes(b"2")
    make(tmp_path / "s", build_from(one), sources=[one])
    with pytest.warns(UserWarning, match=r"made from two\.bin"):
        make(tmp_path / "s", build_from(two), sources=[two])


def test_a_build_that_fails_leaves_nothing_and_keeps_what_was_there(tmp_path):
    def fail(writer):
        build_ragged(writer)
        raise RuntimeError("out of luck")

    with pytest.raises(RuntimeError, match="out of luck"):
        make(tmp_path / "s", fail)
    assert [p.name for p in tmp_path.iterdir()] in ([], [".s.lock"])
    make(tmp_path / "s")
    with pytest.raises(RuntimeError):
        make(tmp_path / "s", fail, rebuild=True)
    assert len(make(tmp_path / "s", must_not_build)["train"]) == 6


def test_a_full_disk_is_an_error_that_says_what_to_do(tmp_path, monkeypatch):
    def fill(self, columns):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("orderless.io.store_writer._ArrowFile.write", fill)
    with pytest.raises(DataError, match=r"No space left on device\. Free some space"):
        make(tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_what_a_build_cannot_read_is_not_taken_for_a_full_disk(tmp_path):
    def build(writer):
        (tmp_path / "nothing.csv").read_text()

    with pytest.raises(FileNotFoundError, match=r"nothing\.csv"):
        make(tmp_path / "s", build)


def test_a_cache_that_cannot_be_made_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="--cache-dir"):
        make(tmp_path / "file" / "s")


def test_a_build_cannot_change_its_key(tmp_path):
    assert make(tmp_path / "s", lambda writer: build_ragged(writer) | {"key": {}}).manifest["key"] == KEY


def test_a_source_that_changes_while_the_store_is_made_is_an_error(tmp_path):
    source = tmp_path / "source.bin"
    source.write_bytes(b"first")

    def build(writer):
        writer.made_from([source])
        source.write_bytes(b"second")
        return build_ragged(writer)

    with pytest.raises(
        DataError, match=r"source\.bin: expected a file that stays as it is while it is read, found one that changed"
    ):
        make(tmp_path / "s", build)
    assert not (tmp_path / "s").exists()


def test_files_of_one_name_in_two_folders_are_two_sources(tmp_path):
    paths = [tmp_path / folder / "data.csv" for folder in ("a", "b")]
    for path in paths:
        path.parent.mkdir()
        path.write_text(path.parent.name)

    def build(writer):
        writer.made_from(paths)
        return build_ragged(writer)

    assert set(make(tmp_path / "s", build).manifest["sources"]) == {"a/data.csv", "b/data.csv"}
    (tmp_path / "s" / VERIFIED).unlink()
    make(tmp_path / "s", must_not_build, sources=paths)
    moved = tmp_path / "moved"
    moved.mkdir()
    for path in paths:
        path.parent.rename(moved / path.parent.name)
    make(tmp_path / "s", must_not_build, sources=[moved / path.parent.name / path.name for path in paths])


def slow_build(writer):
    for i in range(1000):
        build_ragged(writer) if i == 0 else time.sleep(0.02)
    return {}


@pytest.mark.parametrize("after_seconds", [0.3, 0.6, 1.2])
def test_a_killed_build_never_looks_finished(tmp_path, after_seconds):
    process = multiprocessing.get_context("spawn").Process(target=make, args=(tmp_path / "s", slow_build))
    process.start()
    deadline = time.monotonic() + 60
    while not (tmp_path / ".s.aside").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(after_seconds / 3)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert not (tmp_path / "s").exists()
    assert len(make(tmp_path / "s")["train"]) == 6
    assert not (tmp_path / ".s.aside").exists()


def other_build(writer):
    writer.add_sets("train", elements(1), np.array([1]), target=np.zeros(1), id=np.zeros(1, np.int64))
    return {}


def die_between_renames(folder):
    rename = files.Path.rename
    files._exchange = lambda new, folder: False
    files.Path.rename = lambda path, to: os.kill(os.getpid(), signal.SIGKILL) if to == folder else rename(path, to)
    make(folder, other_build, rebuild=True)


def test_a_store_whose_place_another_was_taking_when_it_was_killed_is_put_back(tmp_path):
    """Where the system cannot exchange two folders in one step, there is a moment with none under the name."""
    make(tmp_path / "s")
    process = multiprocessing.get_context("spawn").Process(target=die_between_renames, args=(tmp_path / "s",))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert not (tmp_path / "s").exists()
    assert len(make(tmp_path / "s", must_not_build)["train"]) == 6
    make(tmp_path / "s", other_build, rebuild=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".s.lock", "s"]


def test_a_store_that_cannot_take_its_place_leaves_the_one_before(tmp_path, monkeypatch):
    make(tmp_path / "s")
    rename = files.Path.rename

    def refuse(path, to):
        if path.name == ".s.aside":
            raise OSError(13, "Permission denied")
        return rename(path, to)

    with monkeypatch.context() as patch:
        patch.setattr(files, "_exchange", lambda new, folder: False)
        patch.setattr(files.Path, "rename", refuse)
        with pytest.raises(DataError, match="Permission denied"):
            make(tmp_path / "s", other_build, rebuild=True)
    assert len(make(tmp_path / "s", must_not_build)["train"]) == 6
    assert sorted(path.name for path in tmp_path.iterdir()) == [".s.lock", "s"]


def count_builds(folder, counter):
    def build(writer):
        with counter.open("a") as file:
            file.write("x")
        time.sleep(0.5)
        return build_ragged(writer)

    make(folder, build)


def test_two_processes_build_once(tmp_path):
    counter = tmp_path / "counter"
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=count_builds, args=(tmp_path / "s", counter)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    assert counter.read_text() == "x"


def test_who_waits_for_another_process_says_so(tmp_path):
    held = threading.Event()

    def hold():
        with filelock.FileLock(tmp_path / ".s.lock"):
            held.set()
            time.sleep(0.3)

    other = threading.Thread(target=hold)
    other.start()
    held.wait()
    with pytest.warns(UserWarning, match="prepared by another process: waiting"):
        make(tmp_path / "s")
    other.join()


def test_a_store_travels_to_another_process_by_its_path(tmp_path):
    store = make(tmp_path / "s")
    assert len(pickle.dumps(store)) < 500
    assert len(pickle.dumps(store["train"])) < 500
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(store["train"])).gather([5, 2]), store["train"].gather([5, 2]))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(store))["train"].gather([2]), store["train"].gather([2]))


def test_a_store_that_another_replaces_while_it_is_opened_is_one_of_the_two(tmp_path, monkeypatch):
    make(tmp_path / "s")

    def build_other(writer):
        writer.add_sets("train", elements() + 5, SIZES)
        return {"note": "other"}

    def verify(folder, manifest):
        if manifest["note"] == "hello":
            monkeypatch.undo()
            make(folder, build_other, rebuild=True)

    monkeypatch.setattr("orderless.io.store.verify_files", verify)
    store = SetStore(tmp_path / "s")
    assert store.manifest["note"] == "other"
    np.testing.assert_array_equal(store["train"].gather(range(len(SIZES))), elements() + 5)


def test_a_folder_that_cannot_be_written_opens(tmp_path, monkeypatch):
    make(tmp_path / "s")
    shutil.copytree(tmp_path / "s", tmp_path / "t", copy_function=shutil.copy)
    tried = []

    def refuse(path, content):
        tried.append(path.name)
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("orderless.io.store_files.write_json", refuse)
    assert len(SetStore(tmp_path / "t")["train"]) == 6
    assert tried == [VERIFIED]


def test_an_unknown_split_is_an_error_that_lists_them(tmp_path):
    with pytest.raises(ValueError, match="one of train, test; got 'valid'"):
        make(tmp_path / "s")["valid"]


def test_sets_without_a_pool_have_no_rows(tmp_path):
    with pytest.raises(ValueError, match="no pool"):
        make(tmp_path / "s")["train"].pool_rows([0])


BAD = {
    "sizes that do not sum up": lambda w: w.add_sets("train", elements(), np.array([3])),
    "negative size": lambda w: w.add_sets("train", elements(), np.array([10, -1])),
    "element shape": lambda w: w.add_sets("train", elements(dim=3), SIZES),
    "column length": lambda w: w.add_sets("train", elements(), SIZES, target=np.zeros(3)),
    "split called pool": lambda w: w.add_sets("pool", elements(), SIZES),
    "pool element shape": lambda w: w.add_pool(elements(dim=3)),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_what_does_not_fit_is_refused(tmp_path, bad):
    with pytest.raises(ValueError, match=r"must|cannot"):
        bad(StoreWriter(tmp_path, (2,)))


def test_rows_outside_the_pool_are_refused(tmp_path):
    def build(writer):
        writer.add_pool(elements(3))
        writer.add_sets("train", np.array([3]), np.array([1]))

    with pytest.raises(ValueError, match=r"must lie in 0\.\.2, got 3\.\.3"):
        make(tmp_path / "s", build)


@pytest.mark.parametrize("rows", [np.array([-1]), np.array([0.7]), np.array([[0]])], ids=["negative", "float", "2-D"])
def test_rows_that_are_no_rows_are_refused(tmp_path, rows):
    writer = StoreWriter(tmp_path, (2,))
    writer.add_pool(elements(3))
    with pytest.raises(ValueError, match="rows of the pool must"):
        writer.add_sets("train", rows, np.array([1]))
    writer.abandon()


def test_a_pool_after_the_sets_is_refused(tmp_path):
    writer = StoreWriter(tmp_path, (2,))
    writer.add_sets("train", elements(), SIZES)
    with pytest.raises(ValueError, match="before the sets"):
        writer.add_pool(elements(3))
    writer.abandon()


def test_pieces_with_other_columns_are_refused(tmp_path):
    writer = StoreWriter(tmp_path, (2,))
    writer.add_sets("train", elements(), SIZES, target=np.zeros(4))
    for columns in ({}, {"target": np.zeros(4, np.int64)}, {"other": np.zeros(4)}):
        with pytest.raises(ValueError, match="train must have the columns that it began with"):
            writer.add_sets("train", elements(), SIZES, **columns)
    writer.abandon()


def test_progress_counts_what_is_written(tmp_path):
    seen = []
    make(tmp_path / "s", progress=seen.append)
    assert sum(seen) == 7


def test_blocks_cover_everything():
    assert [list(block) for block in iterate_blocks(5, 2)] == [[0, 1], [2, 3], [4]]
    assert list(iterate_blocks(0, 2)) == []


@pytest.mark.parametrize("build", [build_ragged, build_pooled], ids=["ragged", "pooled"])
def test_some_elements_of_a_set_are_read_without_the_others(tmp_path, block_bytes, build):
    shape = (2,) if build is build_ragged else (2, 2)
    train = make(tmp_path / "s", build, element_shape=shape)["train"]
    for index, size in enumerate(train.sizes.tolist()):
        rows = [size - 1, 0, size - 1] if size else []
        np.testing.assert_array_equal(train.take(index, rows), train.gather([index])[rows])


def test_pages_of_a_large_store_are_given_back_and_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr("orderless.io.store._KEPT_BYTES", 64)  # every store is large
    train = make(tmp_path / "s")["train"]
    for _ in range(3):
        np.testing.assert_array_equal(train.gather([0, 2]), elements()[:8])
        np.testing.assert_array_equal(np.concatenate(list(train.blocks(2, 2))), elements()[3:8])


def test_scattered_elements_count_as_the_pages_they_lie_in(tmp_path, monkeypatch):
    """A row here and there brings a page each into memory, which is more than what is copied."""
    num_rows = 40 * mmap.PAGESIZE // 8

    def build(writer):
        writer.add_sets("train", np.zeros((num_rows, 2), np.float32), np.array([num_rows]))
        return {}

    monkeypatch.setattr("orderless.io.store._KEPT_BYTES", 20 * mmap.PAGESIZE)
    train = make(tmp_path / "s", build, element_shape=(2,))["train"]
    given_back = []
    counted = train._map.copied
    monkeypatch.setattr(train._map, "copied", lambda *a, **k: (counted(*a, **k), given_back.append(train._map._since == 0))[0])
    for _ in range(4):
        train.take(0, np.arange(6) * (num_rows // 6))
    assert given_back == [False, True, False, True]
