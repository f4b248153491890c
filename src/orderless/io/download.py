"""Files from their publishers: downloads that resume, are checked, and never look finished before they are."""

from __future__ import annotations

import errno
import gzip
import hashlib
import http.client
import json
import math
import os
import re
import shutil
import stat
import sys
import tarfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from orderless.io.errors import DataError, MissingDataError
from orderless.io.reading import describe

TIMEOUT = 30.0  # seconds without a byte
_BLOCK = 1 << 18
_AGENT = "orderless (https://pypi.org/project/orderless)"  # some publishers turn Python's own name away


@dataclass(frozen=True)
class RemoteFile:
    """A file of a published dataset.

    Attributes:
        path: Where it belongs, relative to the data folder, with `/`.
        url: Its address; None if it can only be fetched by hand.
        page: The publisher's page, for people.
        md5: Checksum of the download, where the publisher's is known.
        sha256: The same.
        size: Its bytes, where known.
    """

    path: str
    url: str | None
    page: str
    md5: str | None = None
    sha256: str | None = None
    size: int | None = None


def fetch(remote: RemoteFile, data_dir: str | Path, *, progress: bool = True) -> Path:
    """The file, downloaded if it is not there yet.

    A file that is there is taken as it is. A download goes to `<name>.part` beside it, so an interrupted one resumes where it
    ended if the server can do that and its file has not changed; it is checked, written through to the disk, and then renamed.

    Args:
        remote: The file.
        data_dir: The data folder.
        progress: Whether to show a progress bar, if standard error is a terminal.

    Returns:
        Its path.

    Raises:
        MissingDataError: If it cannot be fetched. It says from where and to where to copy the file by hand.
        DataError: If the download is not the published file, or cannot be written.
    """
    target = Path(data_dir) / remote.path
    if target.is_file():
        return target
    if remote.url is None:
        raise _missing(remote, target, "no such file; it can only be fetched by hand")
    if not remote.url.startswith(("http://", "https://")):
        raise ValueError(f"url must start with http:// or https://; got {remote.url!r}.")
    with _writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    with _alone(target):
        if not target.is_file():  # another process may have fetched it while we waited
            _download(remote, remote.url, target, progress)
    return target


def _download(remote: RemoteFile, url: str, target: Path, progress: bool) -> None:
    part = _Part(target, url)
    try:
        _receive(remote, url, part, progress)
    except urllib.error.HTTPError as error:
        error.close()
        raise _missing(remote, target, f"an answer of {error.code} {error.reason}") from None
    except _UnreachableError as error:
        kept = part.offset(remote)
        resume = f"; {kept} bytes are kept in {part.path.name} and running again resumes" if kept else ""
        raise _missing(remote, target, f"{error}{resume}") from None
    _verify(remote, part, target)
    part.finish(target)


class _UnreachableError(Exception):
    """The network failed: what was received so far is good."""


class _Part:
    """A download under way: `<name>.part`, and beside it what the server said of the file, to notice when it changes."""

    def __init__(self, target: Path, url: str) -> None:
        self.url = url
        self.path = target.with_name(target.name + ".part")
        self.note = target.with_name(target.name + ".part.json")

    def size(self) -> int:
        return self.path.stat().st_size if self.path.is_file() else 0

    def offset(self, remote: RemoteFile) -> int:
        """Where to resume. Without a mark or a checksum nobody could tell that the server's file changed."""
        is_same = self._noted("url") == self.url
        can_tell = self.mark() is not None or remote.md5 is not None or remote.sha256 is not None
        return self.size() if is_same and can_tell else 0

    def mark(self) -> str | None:
        """The ETag or date under which the part was begun."""
        mark = self._noted("mark")
        return mark if mark and mark.isascii() and mark.isprintable() else None

    def begin(self, mark: str | None) -> None:
        self.discard()
        self.note.write_text(json.dumps({"url": self.url, "mark": mark}), encoding="utf-8")

    def discard(self) -> None:
        self.note.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)

    def _noted(self, key: str) -> str | None:
        try:
            value = json.loads(self.note.read_text(encoding="utf-8"))[key]
        except (OSError, ValueError, KeyError, TypeError):  # none, or damaged: then the part is begun again
            return None
        return value if isinstance(value, str) else None

    def finish(self, target: Path) -> None:
        with self.path.open("rb+") as file:
            os.fsync(file.fileno())  # a name must not outlive a power cut that its content did not
        self.path.replace(target)
        self.note.unlink(missing_ok=True)


def _receive(remote: RemoteFile, url: str, part: _Part, progress: bool) -> None:
    """Fills the part with what is missing of it."""
    offset, mark = part.offset(remote), part.mark()
    if offset and offset == remote.size:
        return
    headers = {"User-Agent": _AGENT, "Accept-Encoding": "identity"}
    if offset:
        headers |= {"Range": f"bytes={offset}-"} | ({"If-Range": mark} if mark else {})
    try:
        with _connection(urllib.request.Request(url, headers=headers)) as response:
            answer = _Answer(response)
            if answer.is_partial and not answer.continues(offset, mark):  # it resumes, but in another file or elsewhere
                part.discard()
                if not offset:
                    raise _UnreachableError("a part of the file instead of the whole")
                _receive(remote, url, part, progress)
                return
            if not answer.is_partial:
                offset = 0
            if answer.is_page and not url.endswith((".html", ".htm")):
                raise _UnreachableError("a web page instead of the file")
            if not offset:
                part.begin(answer.mark)
            _copy(answer, part, offset, remote.size, progress)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not offset:
            raise
        with error:
            total = re.fullmatch(r"bytes \*/(\d+)", error.headers.get("Content-Range", ""))
        if total and int(total[1]) == offset:
            return  # everything was there already
        part.discard()
        _receive(remote, url, part, progress)


class _Answer:
    """What a server sends, and what it says about it."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.response, head = response, response.headers
        self.is_partial = response.status == 206
        self.is_page = head.get_content_type() == "text/html"
        etag = head.get("ETag", "")
        self.mark: str | None = (etag if etag and not etag.startswith("W/") else head.get("Last-Modified")) or None
        span = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", head.get("Content-Range", ""))
        self.start = int(span[1]) if span and self.is_partial else 0
        length = head.get("Content-Length", "")
        self.length = int(length) if length.isascii() and length.isdigit() else None

    def continues(self, offset: int, mark: str | None) -> bool:
        """Whether this is the rest of the file that was begun."""
        return self.is_partial and self.start == offset and (self.mark is None or mark is None or self.mark == mark)

    def read(self) -> bytes:
        with _network():
            return self.response.read1(_BLOCK)


def _copy(answer: _Answer, part: _Part, offset: int, size: int | None, progress: bool) -> None:
    end = offset + answer.length if answer.length is not None else size
    received = offset
    with part.path.open("ab") as file, _bar(part.path.stem, end, offset, progress) as advance:
        while block := answer.read():
            file.write(block)
            received += len(block)
            advance(len(block))
            if size is not None and received > size:
                return  # longer than published: the check says so, and the disk is spared
    if end is not None and received < end:
        raise _UnreachableError(f"a connection that ended after {received} of {end} bytes")


@contextmanager
def _connection(request: urllib.request.Request) -> Iterator[http.client.HTTPResponse]:
    with _network():
        response = urllib.request.urlopen(request, timeout=TIMEOUT)
    with response:
        yield response


@contextmanager
def _network() -> Iterator[None]:
    """Tells the network's failures apart from the disk's, which are OSErrors as well."""
    try:
        yield
    except urllib.error.HTTPError:
        raise
    except urllib.error.URLError as error:
        reason = describe(error.reason) if isinstance(error.reason, Exception) else str(error.reason)
        raise _UnreachableError(f"no connection ({reason})") from None
    except (OSError, http.client.HTTPException) as error:
        raise _UnreachableError(f"no connection ({describe(error)})") from None


@contextmanager
def _bar(name: str, total: int | None, done: int, progress: bool) -> Iterator[Callable[[int], None]]:
    if not (progress and sys.stderr.isatty()):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=total, completed=done)
        yield lambda n: bar.advance(task, n)


def _verify(remote: RemoteFile, part: _Part, target: Path) -> None:
    """Removes a download that is not the published file: resuming it could never make it right."""
    for what, published in (("size", remote.size), ("md5", remote.md5), ("sha256", remote.sha256)):
        if published is None:
            continue
        found = str(part.size()) if what == "size" else _digest(part.path, what)
        if str(published).lower() != found:
            part.discard()
            fix = f"The download from {remote.url} was removed. Run again, or see {remote.page}."
            raise DataError(target, expected=f"{what} {published}", found=f"{what} {found}", fix=fix)


def _digest(path: Path, algorithm: str) -> str:
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _missing(remote: RemoteFile, target: Path, found: str) -> MissingDataError:
    source = f"the file from {remote.url} (publisher's page {remote.page})" if remote.url else f"the file from {remote.page}"
    fix = f"Put {target.name} into {target.parent} by hand, or name the folder that has it with ORDERLESS_DATA or --data-dir."
    return MissingDataError(target, expected=source, found=" ".join(found.split()), fix=fix)


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    """Turns the disk's failures into a `DataError` about this file."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DataError(target, expected="room on the disk", found="a full one", fix="Make room and run again.") from error
        where = f" for {error.filename}" if error.filename else ""
        fix = "Choose a folder that you may write to with ORDERLESS_DATA or --data-dir."
        raise DataError(target, expected="a place that can be written to", found=describe(error) + where, fix=fix) from error


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    """One process at a time: two that write the same part, or clear away each other's half, would spoil it."""
    from filelock import FileLock  # torch brings it along

    with _writing(target), FileLock(target.with_name(f".{target.name}.lock")):
        yield


def unpack(archive: str | Path, into: str | Path, *, expected: Sequence[str], md5: Mapping[str, str] | None = None) -> Path:
    """Unpacks a zip or tar.gz file. What is expected appears in the folder only when all of it was unpacked and checked.

    Only plain files and folders are taken. A name that is absolute or leads out of the folder, and a link, refuse the whole
    archive: a published dataset has none.

    Args:
        archive: The archive; its content tells which kind it is.
        into: The folder to unpack into.
        expected: Files that must be in the archive, as their paths in it.
        md5: Checksums of files in it.

    Returns:
        The folder inside `into` that has all the expected files, or `into` itself if they lie side by side in it.

    Raises:
        DataError: If the archive is damaged, unsafe or lacks an expected file, or there is no room.
    """
    archive, into = Path(archive), Path(into)
    with _writing(into):
        into.mkdir(parents=True, exist_ok=True)
    aside = into / f".{archive.name}.unpacking"
    with _alone(aside):
        shutil.rmtree(aside, ignore_errors=True)  # what a killed process left
        aside.mkdir()
        try:
            _extract(archive, aside)
            _check_unpacked(archive, aside, expected, md5 or {})
            for first in dict.fromkeys(PurePosixPath(name).parts[0] for name in expected):
                _move(aside / first, into / first)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    folders = {PurePosixPath(name).parts[0] for name in expected if "/" in name}
    return into / folders.pop() if len(folders) == 1 and all("/" in name for name in expected) else into


def _check_unpacked(archive: Path, aside: Path, expected: Sequence[str], md5: Mapping[str, str]) -> None:
    for name in expected:
        if not (aside / name).is_file():
            raise _damaged(archive, f"an archive with {name}", "none in it")
    for name, published in md5.items():
        if (aside / name).is_file() and (found := _digest(aside / name, "md5")) != published.lower():
            raise _damaged(archive, f"{name} with md5 {published}", f"md5 {found}")


def _move(source: Path, target: Path) -> None:
    """In one step where nothing is there yet; otherwise file by file, so that what else is in the folder stays."""
    if source.is_dir() and target.is_dir():
        for item in source.iterdir():
            _move(item, target / item.name)
    else:
        source.replace(target)


def _extract(archive: Path, aside: Path) -> None:
    if not archive.is_file():
        raise MissingDataError(archive, expected="a zip or tar.gz archive", found="no such file")
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as packed:
                _extract_zip(archive, packed, aside)
        else:
            with gzip.open(archive) as stream:
                with tarfile.open(fileobj=stream, mode="r:") as packed_tar:
                    _extract_tar(archive, packed_tar, aside)
                while stream.read(_BLOCK):
                    pass  # to the end, where gzip has its checksum: tarfile stops before it
    except DataError:
        raise
    except Exception as error:  # zipfile and tarfile let most of what a damaged file can cause through as it is
        raise _damaged(archive, "a zip or tar.gz archive", f"a damaged one or none ({describe(error)})") from error


def _extract_zip(archive: Path, packed: zipfile.ZipFile, aside: Path) -> None:
    members = packed.infolist()
    _check_room(archive, aside, sum(member.file_size for member in members))
    for member in members:
        mode = member.external_attr >> 16
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise _damaged(archive, "plain files and folders", f"a link or device {member.filename!r}")
        target = _inside(archive, aside, member.filename)
        if member.is_dir():
            _make_folder(target)
        else:
            with packed.open(member) as source:
                _write(source, target, member.file_size, archive)


def _extract_tar(archive: Path, packed: tarfile.TarFile, aside: Path) -> None:
    for member in packed:
        target = _inside(archive, aside, member.name)
        if member.isdir():
            _make_folder(target)
        elif member.isreg():
            _check_room(archive, aside, member.size)
            source = packed.extractfile(member)
            assert source is not None, "a regular file has content"
            with source:
                _write(source, target, member.size, archive)
        else:
            raise _damaged(archive, "plain files and folders", f"a link or device {member.name!r}")


def _inside(archive: Path, aside: Path, name: str) -> Path:
    """Where a member goes. Refuses every name that could lead elsewhere, on any system."""
    parts = name.replace("\\", "/").rstrip("/").split("/")
    if parts[0] == ".":
        parts = parts[1:]  # tar's habit of writing ./name
    if any(part in ("", ".", "..") or ":" in part or "\0" in part for part in parts):
        raise _damaged(archive, "names inside the archive's own folder", f"{name[:80]!r}")
    return aside.joinpath(*parts)


def _write(source: IO[bytes], target: Path, size: int, archive: Path) -> None:
    with _writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        file = target.open("wb")
    with file:
        written = 0
        while block := source.read(_BLOCK):
            written += len(block)
            if written > size:
                break
            with _writing(target):
                file.write(block)
        if written != size:
            raise _damaged(archive, f"{target.name} of {size} bytes", "more" if written > size else f"{written}")


def _make_folder(target: Path) -> None:
    with _writing(target):
        target.mkdir(parents=True, exist_ok=True)


def _check_room(archive: Path, aside: Path, size: int) -> None:
    free = shutil.disk_usage(aside).free
    if size > free:
        fix = "Make room, or choose another folder with ORDERLESS_DATA or --data-dir."
        raise DataError(archive, expected=f"room for {math.ceil(size / 1e6)} MB", found=f"{free // 10**6} MB free", fix=fix)


def _damaged(archive: Path, expected: str, found: str) -> DataError:
    fix = f"Delete it and run again, or unpack it by hand into {archive.parent}."
    return DataError(archive, expected=expected, found=found, fix=fix)
