"""Folders that a user names to write to."""

import pytest

from orderless.cli.errors import FailedError, UsageError
from orderless.cli.folders import check_writable


def test_a_folder_is_made_and_nothing_is_left_in_it(tmp_path):
    check_writable(tmp_path / "new" / "folder")
    assert list((tmp_path / "new" / "folder").iterdir()) == []


def test_what_is_no_folder_is_told_in_one_line(tmp_path):
    (tmp_path / "file").touch()
    for wrong in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UsageError, match=rf"nothing can be written to {wrong}: .*Choose another folder \(--out\)\."):
            check_writable(wrong)


def test_a_folder_that_may_only_be_read_is_told(tmp_path, monkeypatch):
    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)  # root may write everywhere
    with pytest.raises(UsageError, match="Permission denied"):
        check_writable(tmp_path)


def test_a_full_disk_is_no_wrong_usage(tmp_path, monkeypatch):
    def fail(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", fail)
    with pytest.raises(
        FailedError, match=rf"nothing can be written to {tmp_path}: the disk is full\. Free some space, or choose"
    ):
        check_writable(tmp_path)
