"""Files and folders that appear whole or not at all."""

import errno
import json
import os
import pickle
import shutil
import threading

import pytest

from orderless import files
from orderless.files import (
    WriteError,
    read_as_one,
    remove_folder,
    remove_leftovers,
    replace_folder,
    sync_folder,
    write_bytes,
    write_json,
    write_text,
    written_aside,
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_was_written_aside_takes_the_place_of_the_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("before")
    with written_aside(path) as beside:
        beside.write_text("after")
        assert beside.parent == tmp_path  # the same disk, or it could not be renamed
        assert path.read_text() == "before"
    assert path.read_text() == "after"
    assert names(tmp_path) == ["a.txt"]


def test_an_error_while_writing_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("before")

    def write_half():
        with written_aside(path) as beside:
            beside.write_text("af")
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_half()
    assert path.read_text() == "before"
    assert names(tmp_path) == ["a.txt"]


def test_a_disk_that_fails_is_told_with_the_file_and_what_to_do(tmp_path):
    path = tmp_path / "a.txt"

    def write(error):
        with written_aside(path):
            raise error

    with pytest.raises(WriteError) as full:
        write(OSError(errno.ENOSPC, "Error writing bytes. Detail: errno 28"))  # as a library may put it
    copied = pickle.loads(pickle.dumps(full.value))  # processes of a pool hand errors over like that
    for error in (full.value, copied):
        assert (error.errno, error.strerror, error.filename) == (errno.ENOSPC, "No space left on device", str(path))
        assert str(error) == (
            f"{path} could not be written: No space left on device. Free some space, or write it elsewhere. "
            "What was there before is kept."
        )
    with pytest.raises(WriteError, match=r"a\.txt could not be written: no words\. Write it elsewhere\."):
        write(OSError("no words"))


def test_an_error_before_anything_is_written_is_told_as_it_is(tmp_path):
    def fail():
        with written_aside(tmp_path / "a.txt"):
            raise RuntimeError("no words")

    with pytest.raises(RuntimeError, match="no words"):
        fail()
    assert names(tmp_path) == []


def test_a_renaming_that_fails_leaves_nothing_behind(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(OSError, match="a"):
        write_text(tmp_path / "a", "a file cannot take the place of a folder")
    assert names(tmp_path) == ["a"]
    assert names(tmp_path / "a") == []


def test_content_reaches_the_disk_before_the_name_does(tmp_path, monkeypatch):
    """After a power cut a renamed file without its content would be worse than the old one."""
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    seen = []

    def note(handle):
        seen.append((os.fstat(handle).st_size, path.read_bytes()))

    monkeypatch.setattr(files.os, "fsync", note)
    write_bytes(path, b"newer")
    (size, content), *later = seen
    assert size == 5
    assert content == b"old"
    assert [content for _, content in later] == [b"newer"]  # the folder, once the name is there


def test_bytes_text_and_json_come_back_as_they_were(tmp_path):
    write_bytes(tmp_path / "b", bytes(range(256)))
    write_text(tmp_path / "t", "ä\r\n±")
    write_json(tmp_path / "j", {"a": [1, None, "±"]})
    assert (tmp_path / "b").read_bytes() == bytes(range(256))
    assert (tmp_path / "t").read_bytes() == "ä\r\n±".encode()
    assert json.loads((tmp_path / "j").read_text()) == {"a": [1, None, "±"]}


def test_what_json_cannot_say_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError, match="not JSON serializable"):
        write_json(path, {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1}


def test_writers_of_one_file_do_not_mix(tmp_path):
    """Each writes its half while the other has written its own."""
    path, barrier, errors = tmp_path / "a.txt", threading.Barrier(2), []

    def write(letter):
        try:
            with written_aside(path) as beside, beside.open("w") as file:
                for _ in range(2):
                    file.write(letter * 1000)
                    file.flush()
                    barrier.wait(timeout=10)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in "xy"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert path.read_text() in ("x" * 2000, "y" * 2000)
    assert names(tmp_path) == ["a.txt"]


def test_a_folder_that_cannot_be_synced_is_no_error(tmp_path):
    sync_folder(tmp_path / "nowhere")


def test_leftovers_of_killed_writers_are_removed_and_nothing_else(tmp_path):
    for name in (".history.json.0a1b2c3d", "history.json", ".lock", ".hidden", "a.0a1b2c3d"):
        (tmp_path / name).touch()
    (tmp_path / ".bundle.0a1b2c3d").mkdir()
    (tmp_path / ".bundle.0a1b2c3d" / "member").touch()
    remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hidden", ".lock", "a.0a1b2c3d", "history.json"]


# --------------------------------------------------------------------------------------------------------- folders


@pytest.fixture
def folders(tmp_path):
    """A new folder, the one whose place it takes, and where that one may wait."""
    for name in ("new", "folder"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "content").write_text(name)
    return tmp_path / "new", tmp_path / "folder", tmp_path / "former"


@pytest.fixture(params=[True, False], ids=["in one step", "in two steps"])
def way(request, monkeypatch):
    if not request.param:
        monkeypatch.setattr(files, "_exchange", lambda first, second: False)


@pytest.mark.usefixtures("way")
def test_a_folder_takes_the_place_of_another(folders):
    replace_folder(*folders)
    assert names(folders[0].parent) == ["folder"]
    assert (folders[1] / "content").read_text() == "new"


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("there", ["nothing", "an empty folder", "a file", "a link"])
def test_a_folder_takes_the_place_of_whatever_is_there(folders, there):
    new, folder, former = folders
    folder.rename(folder.with_name("elsewhere"))
    if there == "an empty folder":
        folder.mkdir()
    elif there == "a file":
        folder.write_text("a file")
    elif there == "a link":
        folder.symlink_to(folder.with_name("elsewhere"))
    replace_folder(new, folder, former)
    assert names(folder.parent) == ["elsewhere", "folder"]
    assert (folder / "content").read_text() == "new"
    assert (folder.with_name("elsewhere") / "content").read_text() == "folder"


@pytest.mark.parametrize("step", ["former", "folder"])
def test_a_folder_that_cannot_be_replaced_is_there_again(folders, monkeypatch, step):
    rename = files.Path.rename

    def refuse(path, to):
        if to.name == step and path.name != "former":
            raise OSError(13, "Permission denied")
        return rename(path, to)

    monkeypatch.setattr(files, "_exchange", lambda first, second: False)
    monkeypatch.setattr(files.Path, "rename", refuse)
    with pytest.raises(OSError, match="Permission denied"):
        replace_folder(*folders)
    assert names(folders[0].parent) == ["folder", "new"]
    assert (folders[1] / "content").read_text() == "folder"


def test_what_is_no_folder_is_removed_as_well(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "file").touch()
    for name in ("link", "file", "nothing"):
        remove_folder(tmp_path / name)
    assert names(tmp_path) == ["kept"]


def test_a_folder_that_another_replaces_while_it_is_read_is_read_once_more(tmp_path):
    folder, new = tmp_path / "folder", tmp_path / "new"
    for where, text in ((folder, "old"), (new, "new")):
        where.mkdir()
        for name in ("a", "b"):
            (where / name).write_text(text)

    def read(*, fails):
        first = (folder / "a").read_text()
        if new.exists():
            replace_folder(new, folder, tmp_path / "former")
            if fails:
                raise ValueError("a and b do not agree")
        return first, (folder / "b").read_text()

    assert read_as_one(folder / "a", lambda: read(fails=False)) == ("new", "new")
    shutil.copytree(folder, new)
    assert read_as_one(folder / "a", lambda: read(fails=True)) == ("new", "new")


def test_a_folder_that_stays_and_cannot_be_read_is_read_once(tmp_path):
    for mark in (tmp_path / "none", tmp_path):
        tries = []
        with pytest.raises(ValueError, match="damaged"):
            read_as_one(mark, lambda tries=tries: tries.append(1) or int("damaged"))
        assert len(tries) == 1
