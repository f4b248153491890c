"""Downloads from a server of our own: whole, interrupted, resumed, changed, wrong; and archives that mean harm."""

import errno
import hashlib
import http.server
import io
import os
import re
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from pathlib import Path

import pytest

from orderless.io import download
from orderless.io.download import RemoteFile, fetch, unpack
from orderless.io.errors import DataError, MissingDataError

CONTENT = bytes(range(256)) * 2000  # 512,000 bytes
PAGE = "https://example.org/data"


class Server:
    """A server of one file that can be told to misbehave."""

    def __init__(self):
        self.content = CONTENT
        self.status = 200
        self.knows_range = True
        self.ignores_if_range = False
        self.always_resumes_at = 0  # whatever it is asked for
        self.sends_mark = True
        self.sends_length = True
        self.kind = "application/octet-stream"
        self.stop_after = None  # bytes of the body after which the connection is closed
        self.delay = 0.0
        self.etag = '"one"'
        self.asked = []  # the Range of each request
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.answer(self)

            def log_message(self, *args):
                pass

        self.httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.httpd.server_address[1]}/file.bin"
        self.thread = threading.Thread(target=self.httpd.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self):
        self.httpd.shutdown()
        self.httpd.server_close()
        self.thread.join()

    def answer(self, request):
        wanted = request.headers.get("Range")
        self.asked.append(wanted)
        if self.status != 200:
            request.send_error(self.status)
            return
        body, start = self.content, 0
        fits = self.ignores_if_range or request.headers.get("If-Range") in (None, self.etag)
        if (wanted and self.knows_range and fits) or self.always_resumes_at:
            start = self.always_resumes_at or int(re.fullmatch(r"bytes=(\d+)-", wanted)[1])
            if start >= len(body):
                request.send_response(416)
                request.send_header("Content-Range", f"bytes */{len(body)}")
                request.send_header("Content-Length", "0")
                request.end_headers()
                return
            request.send_response(206)
            request.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            request.send_response(200)
        body = body[start:]
        request.send_header("Content-Type", self.kind)
        if self.sends_length:
            request.send_header("Content-Length", str(len(body)))
        if self.sends_mark:
            request.send_header("ETag", self.etag)
        request.end_headers()
        body = body[: self.stop_after]
        try:
            for i in range(0, len(body), 10_000):
                request.wfile.write(body[i : i + 10_000])
                time.sleep(self.delay)
        except OSError:
            pass  # the client went away


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


def remote(server, **facts):
    return RemoteFile("folder/file.bin", server.url, PAGE, **facts)


def md5(content=CONTENT):
    return hashlib.md5(content).hexdigest()


def parts(folder):
    """What lies beside the file, other than the lock."""
    return sorted(path.name for path in (folder / "folder").iterdir() if not path.name.endswith(".lock"))


def test_a_file_is_downloaded_checked_and_renamed(server, tmp_path):
    path = fetch(remote(server, md5=md5(), sha256=hashlib.sha256(CONTENT).hexdigest(), size=len(CONTENT)), tmp_path)
    assert path == tmp_path / "folder" / "file.bin"
    assert path.read_bytes() == CONTENT
    assert parts(tmp_path) == ["file.bin"]
    assert server.asked == [None]


def test_a_file_that_is_there_is_taken_whatever_its_checksum(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file.bin").write_bytes(b"mine")
    path = fetch(RemoteFile("folder/file.bin", "http://127.0.0.1:9/", PAGE, md5=md5()), tmp_path)
    assert path.read_bytes() == b"mine"


def test_an_answer_that_ends_early_keeps_the_part_and_the_next_run_resumes(server, tmp_path):
    server.stop_after = 300_000
    with pytest.raises(
        MissingDataError, match=r"ended after 300000 of 512000 bytes; 300000 bytes are kept .* running again resumes"
    ):
        fetch(remote(server, md5=md5()), tmp_path)
    assert parts(tmp_path) == ["file.bin.part", "file.bin.part.json"]
    server.stop_after = None
    assert fetch(remote(server, md5=md5()), tmp_path).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=300000-"]
    assert parts(tmp_path) == ["file.bin"]


def interrupt_download(server, folder, **facts):
    server.stop_after = 300_000
    with pytest.raises(MissingDataError):
        fetch(remote(server, **facts), folder)
    server.stop_after = None


def test_a_server_that_cannot_resume_starts_again(server, tmp_path):
    server.knows_range = False
    interrupt_download(server, tmp_path)
    assert fetch(remote(server, md5=md5()), tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("ignores_if_range", [False, True], ids=["server sees the change", "we see the change"])
def test_a_file_that_changed_meanwhile_starts_again(server, tmp_path, ignores_if_range):
    interrupt_download(server, tmp_path)
    server.content, server.etag, server.ignores_if_range = CONTENT[::-1], '"two"', ignores_if_range
    assert fetch(remote(server), tmp_path).read_bytes() == CONTENT[::-1]


def test_a_part_from_another_address_starts_again(server, tmp_path):
    interrupt_download(server, tmp_path)
    other = RemoteFile("folder/file.bin", server.url + "?other", PAGE)
    assert fetch(other, tmp_path).read_bytes() == CONTENT
    assert server.asked == [None, None]


def test_a_part_with_a_damaged_note_starts_again(server, tmp_path):
    for note in ("", "[]", '{"url": 3}', "\0"):
        interrupt_download(server, tmp_path)
        (tmp_path / "folder" / "file.bin.part.json").write_text(note)
        fetch(remote(server, md5=md5()), tmp_path).unlink()
    assert set(server.asked) == {None}


def test_without_a_mark_only_a_checksum_allows_to_resume(server, tmp_path):
    server.sends_mark = False
    server.stop_after = 300_000
    with pytest.raises(MissingDataError) as caught:
        fetch(remote(server), tmp_path)
    assert "resumes" not in str(caught.value)
    server.stop_after = None
    assert fetch(remote(server, md5=md5()), tmp_path).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=300000-"]


def test_a_part_that_is_complete_is_not_downloaded_again(server, tmp_path):
    interrupt_download(server, tmp_path)
    (tmp_path / "folder" / "file.bin.part").write_bytes(CONTENT)
    assert fetch(remote(server, md5=md5()), tmp_path).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=512000-"]  # answered with 416
    (tmp_path / "folder" / "file.bin").unlink()
    interrupt_download(server, tmp_path)
    (tmp_path / "folder" / "file.bin.part").write_bytes(CONTENT)
    asked = len(server.asked)
    assert fetch(remote(server, size=len(CONTENT)), tmp_path).read_bytes() == CONTENT
    assert len(server.asked) == asked  # the known size says it all


def test_a_part_that_is_longer_than_the_file_starts_again(server, tmp_path):
    interrupt_download(server, tmp_path)
    (tmp_path / "folder" / "file.bin.part").write_bytes(CONTENT + b"more")
    assert fetch(remote(server, md5=md5()), tmp_path).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=512004-", None]


def test_a_server_that_sends_another_part_than_asked_for_is_not_believed(server, tmp_path):
    interrupt_download(server, tmp_path)
    server.always_resumes_at = 1000
    with pytest.raises(MissingDataError, match="found a part of the file instead of the whole"):
        fetch(remote(server, md5=md5()), tmp_path)
    assert parts(tmp_path) == []


def test_a_body_without_a_length_ends_with_the_connection(server, tmp_path):
    server.sends_length = False
    assert fetch(remote(server), tmp_path).read_bytes() == CONTENT
    (tmp_path / "folder" / "file.bin").unlink()
    server.stop_after = 1000
    with pytest.raises(MissingDataError, match="ended after 1000 of 512000 bytes"):
        fetch(remote(server, size=len(CONTENT)), tmp_path)


@pytest.mark.parametrize("what", ["md5", "sha256", "size"])
def test_a_wrong_checksum_names_both_and_removes_the_part(server, tmp_path, what):
    published = {"md5": "0" * 32, "sha256": "0" * 64, "size": 1000}[what]
    with pytest.raises(DataError, match=f"expected {what} {published}, found {what} [0-9a-f]+.*removed") as caught:
        fetch(remote(server, **{what: published}), tmp_path)
    assert not isinstance(caught.value, MissingDataError)
    assert parts(tmp_path) == []


def assert_tells_the_way_out(error, folder, url):
    message = str(error)
    assert "\n" not in message
    for part in (str(folder / "folder" / "file.bin"), PAGE, "ORDERLESS_DATA", "--data-dir", f"into {folder / 'folder'}"):
        assert part in message
    if url:
        assert url in message


@pytest.mark.parametrize("status", [403, 404, 500])
def test_an_http_error_tells_the_way_out(server, tmp_path, status):
    server.status = status
    with pytest.raises(MissingDataError, match=f"an answer of {status}") as caught:
        fetch(remote(server), tmp_path)
    assert_tells_the_way_out(caught.value, tmp_path, server.url)
    assert parts(tmp_path) == []


def test_being_offline_tells_the_way_out(tmp_path):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/file.bin"
        with pytest.raises(MissingDataError, match="no connection") as caught:
            fetch(RemoteFile("folder/file.bin", url, PAGE), tmp_path)
    assert_tells_the_way_out(caught.value, tmp_path, url)


def test_a_server_that_says_nothing_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(download, "TIMEOUT", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/file.bin"
        with pytest.raises(MissingDataError, match="timed out"):
            fetch(RemoteFile("folder/file.bin", url, PAGE), tmp_path)


def test_a_web_page_is_not_the_file(server, tmp_path):
    server.kind = "text/html; charset=utf-8"
    with pytest.raises(MissingDataError, match="found a web page instead of the file"):
        fetch(remote(server), tmp_path)
    assert parts(tmp_path) == []


def test_a_file_that_can_only_be_fetched_by_hand_tells_the_way_out(tmp_path):
    with pytest.raises(MissingDataError, match="only be fetched by hand") as caught:
        fetch(RemoteFile("folder/file.bin", None, PAGE), tmp_path)
    assert_tells_the_way_out(caught.value, tmp_path, None)
    assert list(tmp_path.iterdir()) == []


def test_an_address_that_is_not_on_the_web_is_the_callers_mistake(tmp_path):
    with pytest.raises(ValueError, match="url must start with http"):
        fetch(RemoteFile("file.bin", "file:///etc/passwd", PAGE), tmp_path)


def test_a_folder_that_cannot_be_written_is_an_error(server, tmp_path):
    (tmp_path / "folder").write_bytes(b"a file where a folder should be")
    with pytest.raises(DataError, match="a place that can be written to") as caught:
        fetch(remote(server), tmp_path)
    assert not isinstance(caught.value, MissingDataError)


def test_a_full_disk_is_an_error_and_keeps_the_part(server, tmp_path, monkeypatch):
    original = Path.open

    class Full(io.FileIO):
        def write(self, block):
            raise OSError(errno.ENOSPC, "No space left on device")

    def opened(self, mode="r", *args, **kwargs):
        return Full(self, "ab") if mode == "ab" else original(self, mode, *args, **kwargs)

    monkeypatch.setattr(Path, "open", opened)
    with pytest.raises(DataError, match="room on the disk, found a full one"):
        fetch(remote(server), tmp_path)
    monkeypatch.undo()
    assert fetch(remote(server), tmp_path).read_bytes() == CONTENT


def test_ctrl_c_leaves_a_part_that_resumes(server, tmp_path, monkeypatch):
    original = download._Answer.read

    def interrupted(self):
        if (tmp_path / "folder" / "file.bin.part").stat().st_size > 100_000:
            raise KeyboardInterrupt
        return original(self)[:50_000]

    monkeypatch.setattr(download, "_BLOCK", 50_000)
    monkeypatch.setattr(download._Answer, "read", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetch(remote(server), tmp_path)
    monkeypatch.undo()
    assert fetch(remote(server, md5=md5()), tmp_path).read_bytes() == CONTENT
    assert re.fullmatch(r"bytes=1\d{5}-", server.asked[1])


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_killed_process_leaves_a_part_that_resumes(server, tmp_path):
    server.delay = 0.02
    code = (
        "import sys; from orderless.io.download import *; fetch(RemoteFile('folder/file.bin', sys.argv[1], 'page'), sys.argv[2])"
    )
    process = subprocess.Popen([sys.executable, "-c", code, server.url, str(tmp_path)])
    part = tmp_path / "folder" / "file.bin.part"
    deadline = time.monotonic() + 60
    while not (part.exists() and part.stat().st_size > 0):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "folder" / "file.bin").exists()
    server.delay = 0
    assert fetch(remote(server, md5=md5()), tmp_path).read_bytes() == CONTENT
    assert server.asked[1].startswith("bytes=")


def test_two_at_once_download_once(server, tmp_path):
    server.delay = 0.002
    threads = [threading.Thread(target=fetch, args=(remote(server, md5=md5()), tmp_path)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "folder" / "file.bin").read_bytes() == CONTENT
    assert server.asked == [None]


@pytest.mark.parametrize(("terminal", "progress", "shows"), [(True, True, True), (True, False, False), (False, True, False)])
def test_progress_is_shown_on_a_terminal_only(server, tmp_path, monkeypatch, terminal, progress, shows):
    class Terminal(io.StringIO):
        def isatty(self):
            return terminal

    monkeypatch.setattr(sys, "stderr", Terminal())
    fetch(remote(server), tmp_path, progress=progress)
    assert ("file.bin" in sys.stderr.getvalue()) == shows


FILES = {"data/a.txt": b"one", "data/sub/b.txt": b"two" * 1000, "data/c.txt": b""}


def write_zip(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def write_tar(path, files, *, kind=tarfile.REGTYPE, link=""):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.type, member.linkname = len(content) if kind == tarfile.REGTYPE else 0, kind, link
            archive.addfile(member, io.BytesIO(content))
    return path


WRITERS = {"zip": write_zip, "tar.gz": write_tar}


@pytest.fixture(params=WRITERS.values(), ids=WRITERS.keys())
def write_archive(request):
    return request.param


def test_an_archive_is_unpacked_whatever_its_name(tmp_path, write_archive):
    archive = write_archive(tmp_path / "archive", FILES)
    assert unpack(archive, tmp_path / "into", expected=["data/a.txt", "data/sub/b.txt"]) == tmp_path / "into" / "data"
    for name, content in FILES.items():
        assert (tmp_path / "into" / name).read_bytes() == content
    assert [path.name for path in (tmp_path / "into").iterdir() if not path.name.endswith(".lock")] == ["data"]


def test_folders_of_their_own_in_a_zip_file_are_made(tmp_path):
    write_zip(tmp_path / "archive", {"data/": b"", "data/empty/": b""} | FILES)
    assert (unpack(tmp_path / "archive", tmp_path, expected=["data/a.txt"]) / "empty").is_dir()


def test_files_side_by_side_are_unpacked_into_the_folder_itself(tmp_path, write_archive):
    archive = write_archive(tmp_path / "archive", {"./a.txt": b"one", "b.txt": b"two", "readme": b""})
    assert unpack(archive, tmp_path / "into", expected=["a.txt", "b.txt"]) == tmp_path / "into"
    assert (tmp_path / "into" / "b.txt").read_bytes() == b"two"


def test_what_else_is_in_the_folder_stays(tmp_path, write_archive):
    (tmp_path / "data" / "sub").mkdir(parents=True)
    (tmp_path / "data" / "mine.txt").write_bytes(b"mine")
    (tmp_path / "data" / "a.txt").write_bytes(b"old")
    unpack(write_archive(tmp_path / "archive", FILES), tmp_path, expected=["data/a.txt"])
    assert (tmp_path / "data" / "mine.txt").read_bytes() == b"mine"
    assert (tmp_path / "data" / "a.txt").read_bytes() == b"one"
    assert (tmp_path / "data" / "sub" / "b.txt").read_bytes() == FILES["data/sub/b.txt"]


def assert_nothing_unpacked(folder):
    assert [path for path in folder.rglob("*") if path.suffix != ".lock" and path.name != "archive"] == []


EVIL = ["../evil.txt", "data/../../evil.txt", "/tmp/evil.txt", "C:/evil.txt", "..\\evil.txt", "data//evil.txt"]


@pytest.mark.parametrize("name", EVIL)
def test_a_name_that_leads_elsewhere_refuses_the_whole_archive(tmp_path, write_archive, name):
    folder = tmp_path / "in" / "here"
    folder.mkdir(parents=True)
    archive = write_archive(folder / "archive", FILES | {name: b"evil"})
    with pytest.raises(DataError, match="names inside the archive's own folder"):
        unpack(archive, folder, expected=["data/a.txt"])
    assert_nothing_unpacked(folder)
    assert not list(tmp_path.rglob("evil.txt"))
    assert not Path("/tmp/evil.txt").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_in_a_tar_file_are_refused(tmp_path, kind):
    archive = write_tar(tmp_path / "archive", {"data/a.txt": b""}, kind=kind, link="/etc/passwd")
    with pytest.raises(DataError, match=r"a link or device 'data/a\.txt'"):
        unpack(archive, tmp_path, expected=["data/a.txt"])
    assert_nothing_unpacked(tmp_path)


def test_links_in_a_zip_file_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "archive", "w") as archive:
        member = zipfile.ZipInfo("data/a.txt")
        member.external_attr = 0o120777 << 16
        archive.writestr(member, "/etc/passwd")
    with pytest.raises(DataError, match=r"a link or device 'data/a\.txt'"):
        unpack(tmp_path / "archive", tmp_path, expected=["data/a.txt"])
    assert_nothing_unpacked(tmp_path)


def test_a_truncated_or_damaged_archive_leaves_nothing(tmp_path, write_archive):
    files = FILES | {"data/noise": os.urandom(5000)}
    raw = write_archive(tmp_path / "archive", files).read_bytes()
    for bad in (raw[: len(raw) // 2], b"", b"<html>", raw[:1000] + bytes(100) + raw[1100:]):
        (tmp_path / "archive").write_bytes(bad)
        with pytest.raises(DataError, match="archive: expected"):
            unpack(tmp_path / "archive", tmp_path, expected=["data/noise"])
        assert_nothing_unpacked(tmp_path)


def test_an_archive_that_lacks_a_file_leaves_nothing(tmp_path, write_archive):
    with pytest.raises(DataError, match=r"an archive with data/z\.txt, found none in it"):
        unpack(write_archive(tmp_path / "archive", FILES), tmp_path, expected=["data/a.txt", "data/z.txt"])
    assert_nothing_unpacked(tmp_path)


def test_an_archive_with_a_wrong_file_leaves_nothing(tmp_path, write_archive):
    archive = write_archive(tmp_path / "archive", FILES)
    with pytest.raises(DataError, match=r"data/a\.txt with md5 0+, found md5 [0-9a-f]{32}"):
        unpack(archive, tmp_path, expected=["data/a.txt"], md5={"data/a.txt": "0" * 32})
    assert_nothing_unpacked(tmp_path)
    unpack(archive, tmp_path, expected=["data/a.txt"], md5={"data/a.txt": md5(b"one")})


def test_a_missing_archive_is_told_apart(tmp_path):
    with pytest.raises(MissingDataError, match="no such file"):
        unpack(tmp_path / "archive", tmp_path, expected=["a"])


def test_an_archive_larger_than_the_disk_is_refused(tmp_path, write_archive, monkeypatch):
    archive = write_archive(tmp_path / "archive", FILES)
    usage = type(download.shutil.disk_usage(tmp_path))
    monkeypatch.setattr(download.shutil, "disk_usage", lambda path: usage(1000, 1000, 0))
    with pytest.raises(DataError, match="room for 1 MB, found 0 MB free"):
        unpack(archive, tmp_path, expected=["data/a.txt"])
    assert_nothing_unpacked(tmp_path)


def test_what_a_killed_process_left_is_cleared_away(tmp_path, write_archive):
    archive = write_archive(tmp_path / "archive", FILES)
    left = tmp_path / ".archive.unpacking" / "data"
    left.mkdir(parents=True)
    (left / "half.txt").write_bytes(b"half")
    assert not (unpack(archive, tmp_path, expected=["data/a.txt"]) / "half.txt").exists()
    assert not left.exists()
