"""Where activations are kept (`keep.py`): what is put comes back, room is looked for first, and nothing stays behind."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from orderless.models.chunked import keep
from orderless.models.chunked.keep import Keeping, OnDevice, OnDisk, OnHost, decide
from orderless.models.chunked.source import cut

CPU = torch.device("cpu")
CHUNKS = cut([3, 0, 7], 4, CPU)
GIB = 2**30


@pytest.fixture(params=["device", "host", "disk"])
def room(request, tmp_path):
    return {"device": OnDevice, "host": lambda: OnHost(CPU), "disk": lambda: OnDisk(tmp_path, CPU)}[request.param]()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shape", [(5,), (2, 3)], ids=str)
def test_what_is_put_comes_back_and_may_be_replaced(room, dtype, shape):
    first = torch.randn(10, *shape).to(dtype)
    for rows in (first, -first):
        for chunk in CHUNKS:
            room.put(chunk, rows[chunk.start : chunk.stop])
        for chunk in reversed(CHUNKS):
            found = room.get(chunk)
            assert torch.equal(found, rows[chunk.start : chunk.stop])
            assert found.dtype == dtype


def test_what_was_read_is_not_changed_by_what_is_put_later(room):
    (chunk,) = cut([4], 4, CPU)
    room.put(chunk, torch.zeros(4, 2))
    found = room.get(chunk)
    room.put(chunk, torch.ones(4, 2))
    assert torch.equal(found, torch.zeros(4, 2))


def test_rows_of_no_element_are_kept_too(room):
    (nothing,) = cut([0], 4, CPU)
    room.put(nothing, torch.empty(0, 3))
    assert room.get(nothing).shape == (0, 3)


def test_a_file_has_no_name_so_that_nothing_is_left_of_it(tmp_path):
    room = OnDisk(tmp_path, CPU)
    room.put(CHUNKS[0], torch.ones(4, 1000))
    assert list(tmp_path.iterdir()) == []
    assert os.fstat(room._file.fileno()).st_size == 16_000


def test_nothing_is_left_of_a_killed_process(tmp_path):
    code = (
        "import os, signal, torch; from pathlib import Path; from orderless.models.chunked.keep import OnDisk; "
        "from orderless.models.chunked.source import cut; cpu = torch.device('cpu'); (chunk,) = cut([4], 4, cpu); "
        f"room = OnDisk(Path({str(tmp_path)!r}), cpu); room.put(chunk, torch.ones(4, 1000)); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_runs_full_is_an_error_that_says_what_to_do(tmp_path):
    class Full:
        def seek(self, place):
            pass

        def write(self, content):
            raise OSError(errno.ENOSPC, "No space left on device")

    room = OnDisk(tmp_path, CPU)
    room._file = Full()
    with pytest.raises(OSError, match=rf"the disk of {tmp_path} is full. Free some room, or give another folder="):
        room.put(CHUNKS[0], torch.ones(4, 2))


def test_other_errors_of_a_disk_pass_as_they_are(tmp_path):
    room = OnDisk(tmp_path, CPU)
    room.put(CHUNKS[0], torch.ones(4, 2))
    room._file.close()
    with pytest.raises(ValueError, match="closed file"):
        room.put(CHUNKS[0], torch.ones(4, 2))


# ------------------------------------------------------------------------------------------------------------ decision


@pytest.fixture
def free(monkeypatch):
    """Room that the test decides on."""
    room = {"device": 100 * GIB, "host": 100 * GIB, "disk": 100 * GIB}
    monkeypatch.setattr(keep, "free_bytes", lambda place, device, folder: room[place])
    return room


def decided(wish="auto", *, device="cuda", gib=10, count=1, always=0, folder=None):
    found = decide(wish, num_bytes=gib * GIB, count=count, always=always, device=torch.device(device), folder=folder)
    return found.place, found.every


@pytest.mark.parametrize(
    ("device", "room", "expected"),
    [
        ("cuda", {}, ("device", 1)),
        ("cuda", {"device": 13 * GIB}, ("host", 1)),  # three quarters of the device may be taken: 9.75 GiB
        ("cuda", {"device": GIB, "host": 19 * GIB}, ("disk", 1)),  # half of the memory
        ("cpu", {}, ("host", 1)),
        ("cpu", {"host": 19 * GIB}, ("disk", 1)),
    ],
    ids=["device", "host", "disk", "cpu", "cpu and disk"],
)
def test_the_first_place_with_room_for_all_is_taken(free, device, room, expected):
    free.update(room)
    assert decided(device=device) == expected


def test_a_wish_is_granted_where_there_is_room(free):
    free.update(host=12 * GIB)
    assert decided("host") == ("host", 1)  # one who asks for it may have all of it
    assert decided("disk") == ("disk", 1)
    assert decided("device", device="cpu") == ("device", 1)
    assert decided("nothing") == ("device", 0)


def test_training_keeps_as_much_as_fits_the_roomiest_place(free):
    free.update(device=GIB, host=GIB, disk=100 * GIB)
    assert decided(count=25, always=2, gib=3) == ("disk", 1)  # 27 of 30
    assert decided(count=25, always=2, gib=10) == ("disk", 4)  # 9 fit, 2 of them for gradients: every 4th of 25
    assert decided("nothing", count=25, always=2, gib=40) == ("disk", 0)


def test_without_room_everything_is_computed_again_with_a_warning(free):
    free.update(device=GIB, host=GIB, disk=GIB)
    with pytest.warns(
        UserWarning, match=r"time grows with the square of the depth.*10\.0 GiB.*0\.9 GiB may be used on the disk of .*folder="
    ):
        assert decided() == ("disk", 0)


@pytest.mark.parametrize(
    ("wish", "error", "words"),
    [
        (
            "disk",
            OSError,
            r"keep='disk' needs room for 10\.0 GiB of activations; 1\.0 GiB may be used on the disk of .*keep='nothing'",
        ),
        ("host", MemoryError, r"keep='host' needs room for 10\.0 GiB.* in host memory.*keep='disk'"),
        ("device", MemoryError, r"keep='device' needs room for 10\.0 GiB.* on the device"),
    ],
)
def test_a_wish_that_does_not_fit_is_an_error_before_anything_is_done(free, wish, error, words):
    free.update(device=GIB, host=GIB, disk=GIB)
    with pytest.raises(error, match=words):
        decided(wish)


def test_training_needs_room_for_gradients_at_least(free):
    free.update(device=GIB, host=GIB, disk=GIB)
    with pytest.raises(MemoryError, match=r"keep='auto' needs room for 30\.0 GiB"):
        decided(count=25, always=2)


def test_an_unknown_wish_and_a_missing_folder_are_errors(tmp_path):
    with pytest.raises(ValueError, match="keep must be one of auto, device, host, disk, nothing; got 'tape'"):
        decided("tape", device="cpu")
    with pytest.raises(ValueError, match="folder must be an existing folder"):
        decided(device="cpu", folder=tmp_path / "none")


def test_every_place_gives_room_of_its_kind(tmp_path):
    kinds = [type(Keeping(place, 1, torch.device(device), tmp_path).make()) for place, device in
             [("device", "cuda"), ("host", "cuda"), ("host", "cpu"), ("disk", "cpu")]]  # fmt: skip
    assert kinds == [OnDevice, OnHost, OnDevice, OnDisk]


# ---------------------------------------------------------------------------------------------------------- what is free


def test_free_room_is_what_the_system_says(tmp_path):
    assert keep.free_bytes("disk", CPU, tmp_path) > 0
    memory = int(Path("/proc/meminfo").read_text().split("MemTotal:")[1].split()[0]) * 1024
    assert 0 < keep.free_bytes("host", CPU, tmp_path) <= memory
    assert keep.free_bytes("device", CPU, tmp_path) <= memory


def test_the_limit_of_a_container_counts(tmp_path):
    for limit, used, left in (("1000", "400", 600), ("1000", "2000", 0), ("max", "400", 2**62)):
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        (tmp_path / "memory.current").write_text(f"{used}\n")
        assert keep._left_of_limit(tmp_path) == left
    assert keep._left_of_limit(tmp_path / "none") == 2**62


def test_a_system_without_that_file_counts_its_pages(monkeypatch):
    def missing(self):
        raise FileNotFoundError(self)

    monkeypatch.setattr(Path, "read_text", missing)
    assert keep._free_memory() == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
