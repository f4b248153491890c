"""The idx format: all its types, packed or not, and everything that can be wrong with a file."""

import gzip
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from publishers import IDX_CODES, idx_bytes

from orderless.io.errors import DataError, MissingDataError
from orderless.io.idx import read_idx


def write(tmp_path, raw):
    path = tmp_path / "array"
    path.write_bytes(raw)
    return path


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("dtype", IDX_CODES)
def test_every_type_reads_back_whatever_the_name(tmp_path, dtype, packed):
    array = (np.arange(24).reshape(2, 3, 4) - (0 if dtype == "u1" else 7)).astype(dtype)
    raw = idx_bytes(array)
    read = read_idx(write(tmp_path, gzip.compress(raw) if packed else raw))
    assert read.dtype == np.dtype(dtype)
    assert read.dtype.isnative
    assert read.flags.writeable
    np.testing.assert_array_equal(read, array)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4))
def test_every_shape_reads_back(tmp_path_factory, shape):
    array = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    read = read_idx(write(tmp_path_factory.mktemp("idx"), idx_bytes(array)))
    np.testing.assert_array_equal(read, array, strict=True)


GOOD = idx_bytes(np.arange(12, dtype=np.uint8).reshape(3, 4))
BAD = {
    "empty": (b"", "0 bytes"),
    "three bytes": (GOOD[:3], "3 bytes"),
    "first bytes are not zero": (b"\x01" + GOOD[1:], "found 01000802"),
    "unknown type": (GOOD[:2] + b"\x0a" + GOOD[3:], "found 00000a02"),
    "no dimensions": (GOOD[:3] + b"\0" + GOOD[4:], "found 00000800"),
    "too many dimensions": (GOOD[:3] + b"\x09" + GOOD[4:] + bytes(100), "found 00000809"),
    "ends in the header": (GOOD[:9], "2 sizes, found its end"),
    "one byte short": (GOOD[:-1], r"12 bytes of shape \(3, 4\), found 11"),
    "one byte too many": (GOOD + b"\0", r"12 bytes of shape \(3, 4\), found more"),
    "a web page": (b"<!DOCTYPE html>", "found 3c21444f"),
    "absurd size": (struct.pack(">HBB3I", 0, 0x0E, 3, *[2**32 - 1] * 3) + bytes(10), "cannot hold as many"),
}


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_an_error_that_says_what_is_wrong(tmp_path, name, packed):
    raw, message = BAD[name]
    if name == "one byte short" and not packed:
        message = r"12 bytes of shape \(3, 4\), found a file that|" + message
    with pytest.raises(DataError, match=message):
        read_idx(write(tmp_path, gzip.compress(raw) if packed else raw))


def test_damaged_gzip_is_an_error(tmp_path):
    packed = gzip.compress(idx_bytes(np.arange(200, dtype=np.uint8)), mtime=0)
    wrong_sum = packed[:-8] + bytes([packed[-8] ^ 1]) + packed[-7:]
    for raw in (packed[:-20], packed[:2], packed[:60] + b"\xff" * 20 + packed[80:], wrong_sum):
        with pytest.raises(DataError, match="damaged gzip"):
            read_idx(write(tmp_path, raw))


def test_no_more_is_unpacked_than_the_header_promises(tmp_path, monkeypatch):
    unpacked = 0
    original = gzip.GzipFile.read

    def counting(self, size=-1):
        nonlocal unpacked
        block = original(self, size)
        unpacked += len(block)
        return block

    monkeypatch.setattr(gzip.GzipFile, "read", counting)
    with pytest.raises(DataError, match="found more"):
        read_idx(write(tmp_path, gzip.compress(GOOD + bytes(50_000_000))))
    assert unpacked <= len(GOOD) + 1


def test_missing_and_unreadable_files_are_told_apart(tmp_path):
    with pytest.raises(MissingDataError, match="no such file"):
        read_idx(tmp_path / "nothing")
    with pytest.raises(DataError, match="cannot be read"):
        read_idx(tmp_path)
