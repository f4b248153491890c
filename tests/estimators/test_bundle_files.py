import json
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap

import pytest
import torch

import orderless as ol
from orderless import files
from orderless.estimators import bundle_files
from orderless.estimators.bundle_files import (
    DESCRIPTION,
    ENTRIES,
    README,
    member_name,
    read_description,
    recover,
    whole_folder,
    write_description,
)
from orderless.io import DataError


def write(folder, *, seed=0, members=2, **entries):
    torch.manual_seed(seed)
    with whole_folder(folder) as aside:
        for number in range(members):
            ol.save_model(ol.create_model("deep_sets", 2, 1, depth=2, width=8), aside / member_name(number))
        (aside / README).write_text("a bundle\n")
        said = dict.fromkeys(ENTRIES[:-1], None) | {"members": members, "versions": {"orderless": "0.1.0"}} | entries
        write_description(aside, said)
    return folder


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return write(tmp_path_factory.mktemp("whole") / "bundle")


@pytest.fixture
def bundle(original, tmp_path):
    return shutil.copytree(original, tmp_path / "bundle")


def refused(folder, match=None):
    """Every refusal is one line about a file of the bundle, which says what to do."""
    with pytest.raises(DataError, match=match) as caught:
        read_description(folder)
    message = str(caught.value)
    assert str(folder) in message
    assert "\n" not in message
    assert len(message) < 500
    assert caught.value.fix
    return message


def restate(folder, change):
    """Changes what the description says, and sets its checksum right: somebody who knows the format."""
    path = folder / DESCRIPTION
    said = json.loads(path.read_text())
    change(said)
    said["checksum"] = "0" * 64
    content = (json.dumps(said, indent=1) + "\n").encode()
    path.write_bytes(content)
    digest = bundle_files.hashlib.sha256(content).hexdigest()
    path.write_bytes(bundle_files._with_checksum(content, digest))


def test_what_was_written_is_read(bundle):
    described = read_description(bundle)
    assert described["members"] == 2
    assert set(described["files"]) == {README, member_name(0), member_name(1)}
    restate(bundle, lambda said: None)
    assert read_description(bundle) == described


def test_every_byte_of_the_description_counts(bundle):
    path = bundle / DESCRIPTION
    content = path.read_bytes()
    draw = random.Random(0)
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << draw.randrange(8)
        path.write_bytes(changed)
        refused(bundle)


@pytest.mark.parametrize("name", [README, member_name(0), member_name(1)])
def test_every_byte_of_the_other_files_counts(bundle, name):
    path = bundle / name
    content = path.read_bytes()
    for place in {*range(0, len(content), 97), 0, 7, 8, 9, len(content) // 2, len(content) - 1} - {len(content)}:
        if place >= len(content):
            continue
        changed = bytearray(content)
        changed[place] ^= 1
        path.write_bytes(changed)
        refused(bundle, rf"{name}: expected what save_bundle wrote, found a file that was changed since\. Save the bundle again")


@pytest.mark.parametrize("name", [DESCRIPTION, README, member_name(1)])
@pytest.mark.parametrize("keep", [0.0, 0.3, 0.99])
def test_truncated_files_are_refused(bundle, name, keep):
    content = (bundle / name).read_bytes()
    (bundle / name).write_bytes(content[: int(len(content) * keep)])
    refused(bundle)


@pytest.mark.parametrize("name", [DESCRIPTION, README, member_name(1)])
def test_missing_files_and_other_things_in_their_place_are_refused(bundle, name):
    (bundle / name).unlink()
    refused(bundle, rf"{name}: expected a file of the bundle, found no such file")
    (bundle / name).mkdir()
    refused(bundle, "something that is no file")
    (bundle / name).rmdir()
    os.mkfifo(bundle / name)
    refused(bundle, "something that is no file")


def test_files_that_are_longer_are_refused(bundle):
    with (bundle / DESCRIPTION).open("ab") as file:
        file.write(b" ")
    refused(bundle, "changed since")


def test_swapped_members_are_refused(bundle):
    first, second = bundle / member_name(0), bundle / member_name(1)
    first.rename(bundle / "x")
    second.rename(first)
    (bundle / "x").rename(second)
    refused(bundle, "changed since")


def test_a_member_of_another_bundle_is_refused(bundle, tmp_path):
    other = write(tmp_path / "other", seed=1)
    shutil.copy(other / member_name(0), bundle / member_name(0))
    refused(bundle, "changed since")


def test_a_newer_version_is_refused_with_the_version_that_wrote_it(bundle):
    restate(bundle, lambda said: said.update(version=2, versions={"orderless": "9.1"}, news=1))
    refused(bundle, r"expected version 1 .*found version '2', written by orderless '9\.1'\. Install that version of orderless")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda said: said.update(format="zip"), "expected format 'orderless.bundle', found 'zip'"),
        (lambda said: said.update(version="1"), "version '1'"),
        (lambda said: said.update(version=True), "version 'True'"),
        (lambda said: said.update(version=0), "version '0'"),
        (lambda said: said.update(extra=1), "the unknown 'extra'"),
        (lambda said: said.pop("schema"), "no 'schema'"),
        (lambda said: said.update(members=0), "expected 1 to 1000 members"),
        (lambda said: said.update(members=10**9), "expected 1 to 1000 members"),
        (lambda said: said.update(members=10**4000), "expected 1 to 1000 members"),
        (lambda said: said.update(members=True), "expected 1 to 1000 members"),
        (lambda said: said.update(members=3), "too few"),
        (lambda said: said.update(members=1), "found 'member-1"),
        (lambda said: said.update(files=None), "checksums of"),
        (lambda said: said["files"].update({"../secret": said["files"][README]}), r"found '\.\./secret'"),
        (lambda said: said["files"].update({"/etc/passwd": said["files"][README]}), "found '/etc/passwd'"),
        (lambda said: said["files"].update({README: 1}), "size and checksum"),
        (lambda said: said["files"][README].update(bytes=10**4000), "bytes, found 9"),
        (lambda said: said["files"][README].update(bytes=-1), "bytes, found 9"),
        (lambda said: said["files"][README].update(bytes="9"), "size and checksum"),
        (lambda said: said["files"][README].update(mode=1), "size and checksum"),
        (lambda said: said["files"][README].update(sha256=None), "changed since"),
        (lambda said: said.update(summary=float("nan")), "NaN is no number"),
    ],
)
def test_a_description_that_no_bundle_has_is_refused_whatever_its_checksum(bundle, change, message):
    restate(bundle, change)
    refused(bundle, message)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"format": "orderless.bundle", "format": "orderless.bundle"}',
        b"9" * 5000,
    ],
    ids=["empty", "list", "null", "no text", "nested", "twice", "a long number"],
)
def test_what_is_no_description_is_refused(bundle, content):
    (bundle / DESCRIPTION).write_bytes(content)
    refused(bundle)


def test_a_description_too_large_to_be_one_is_not_read(bundle):
    with (bundle / DESCRIPTION).open("r+b") as file:
        file.truncate(2**40)  # takes no room
    refused(bundle, "expected at most 67108864 bytes")


@pytest.mark.parametrize("checksum", ["", "\ud800", "g" * 64, None, 1])
def test_what_is_no_checksum_is_refused(bundle, checksum):
    path = bundle / DESCRIPTION
    path.write_text(json.dumps(json.loads(path.read_text()) | {"checksum": checksum}))
    refused(bundle, "changed since")


def test_a_path_that_leads_to_no_folder_is_named(tmp_path):
    refused(tmp_path / "none", r"expected a bundle, .* found nothing\. Check the path")
    (tmp_path / "file").touch()
    refused(tmp_path / "file", "found a file")


def content_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_bundle_takes_the_place_of_another(bundle, monkeypatch, can_exchange):
    if not can_exchange:
        monkeypatch.setattr(files, "_exchange", lambda first, second: False)
    write(bundle, seed=1, members=1)
    assert read_description(bundle)["members"] == 1
    assert set(content_of(bundle)) == {DESCRIPTION, README, member_name(0)}
    assert list(bundle.parent.iterdir()) == [bundle]


def test_a_link_to_a_bundle_still_leads_to_it(bundle, tmp_path):
    (tmp_path / "latest").symlink_to(bundle)
    write(tmp_path / "latest", members=1)
    assert (tmp_path / "latest").is_symlink()
    assert read_description(bundle)["members"] == 1


@pytest.mark.parametrize("can_exchange", [True, False])
@pytest.mark.parametrize("fails", ["fsync", "replace_folder", "rename"])
def test_a_failed_save_leaves_the_former_bundle_and_nothing_else(bundle, monkeypatch, fails, can_exchange):
    before = content_of(bundle)

    def full_disk(*_):
        raise OSError(28, "No space left on device")

    if not can_exchange:
        monkeypatch.setattr(files, "_exchange", lambda first, second: False)
    if fails == "fsync":
        monkeypatch.setattr(os, "fsync", full_disk)
    elif fails == "rename":
        rename = bundle_files.Path.rename
        monkeypatch.setattr(
            bundle_files.Path,
            "rename",
            lambda path, to: full_disk() if to == bundle and "former" not in path.name else rename(path, to),
        )
        monkeypatch.setattr(files, "_exchange", lambda first, second: False)
    else:
        monkeypatch.setattr(bundle_files, fails, full_disk)
    with pytest.raises(OSError, match="No space left"):
        write(bundle, seed=1)
    assert content_of(bundle) == before
    assert list(bundle.parent.iterdir()) == [bundle]


KILLS = {
    "as they are exchanged": """
        exchange = files._exchange
        files._exchange = lambda new, folder: exchange(new, folder) and die()
    """,
    "between two renames": """
        rename = Path.rename
        files._exchange = lambda new, folder: False
        Path.rename = lambda path, to: die() if to == folder else rename(path, to)
    """,
    "after two renames": """
        files._exchange = lambda new, folder: False
        files.remove_folder = lambda path: die()
    """,
}


@pytest.fixture(params=KILLS.values(), ids=KILLS)
def killed(bundle, request):
    """A bundle whose place another one, of one member, was taking when the process was killed."""
    other = write(bundle.parent / "other", seed=1, members=1)
    code = """
        import os, shutil, signal
        from pathlib import Path
        from orderless import files
        from orderless.estimators.bundle_files import whole_folder
        die = lambda: os.kill(os.getpid(), signal.SIGKILL)
        folder, other = Path({!r}), Path({!r})
        {}
        with whole_folder(folder) as aside:
            shutil.copytree(other, aside, dirs_exist_ok=True)
    """
    code = textwrap.dedent(code).format(str(bundle), str(other), textwrap.dedent(request.param))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    shutil.rmtree(other)
    return bundle


def put_back(folder):
    """`recover`, which warns where it did something."""
    if folder.exists():
        return recover(folder)
    with pytest.warns(UserWarning, match="was killed: the bundle that was there before it is there again"):
        return recover(folder)


def test_a_kill_leaves_one_of_the_two_bundles(killed):
    assert len(list(killed.parent.iterdir())) > 1
    between = not killed.exists()
    put_back(killed)
    assert read_description(killed)["members"] == (2 if between else 1)


def test_whoever_saves_next_removes_what_a_kill_left(killed):
    (killed.parent / ".bundle.backup").mkdir()  # of the user's own
    put_back(killed)
    write(killed, members=3)
    assert read_description(killed)["members"] == 3
    assert sorted(killed.parent.iterdir()) == [killed.parent / ".bundle.backup", killed]


def test_a_save_that_fails_after_a_kill_still_leaves_the_former_bundle(bundle, monkeypatch):
    bundle.rename(bundle.with_name(".bundle.01234567.former"))
    monkeypatch.setattr(bundle_files, "replace_folder", lambda new, folder, former: 1 / 0)
    with pytest.warns(UserWarning, match="is there again"), pytest.raises(ZeroDivisionError):
        write(bundle, members=1)
    assert read_description(bundle)["members"] == 2


def test_a_former_bundle_that_is_not_whole_is_not_put_back_but_named(bundle):
    (bundle / README).unlink()
    bundle.rename(bundle.with_name(".bundle.01234567.former"))
    recover(bundle)
    assert not bundle.exists()
    refused(bundle, r"found one that was moved to \.bundle\.01234567\.former when a save was killed\. Rename it, if it is whole")


def test_an_empty_folder_is_filled(tmp_path):
    (tmp_path / "bundle").mkdir()
    assert read_description(write(tmp_path / "bundle"))["members"] == 2


def test_what_is_no_bundle_is_never_replaced(bundle, tmp_path):
    (bundle / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"not a bundle that could be replaced: it holds 'notes\.txt'"):
        write(bundle)
    assert (bundle / "notes.txt").read_text() == "mine"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / README).write_text("mine")
    with pytest.raises(FileExistsError, match=r"it has no bundle\.json"):
        write(tmp_path / "other")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileExistsError, match="is a file"):
        write(tmp_path / "file")
    with pytest.raises(FileNotFoundError, match="Create it first"):
        write(tmp_path / "no" / "bundle")


def test_a_bundle_can_be_read_by_whom_the_umask_lets(tmp_path):
    previous = os.umask(0o027)
    try:
        write(tmp_path / "bundle")
    finally:
        os.umask(previous)
    assert (tmp_path / "bundle").stat().st_mode & 0o777 == 0o750
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "bundle").iterdir()} == {0o640}
