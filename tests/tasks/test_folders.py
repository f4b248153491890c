"""Where publishers' files are (`folders.py`)."""

from orderless.io.cache import default_cache_dir
from orderless.tasks.folders import default_data_dir


def test_folders_come_from_arguments_then_variables_then_the_user(monkeypatch, tmp_path):
    for name in ("ORDERLESS_CACHE", "ORDERLESS_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_cache_dir() == tmp_path / "xdg" / "orderless"
    assert default_data_dir(tmp_path) == tmp_path / "raw"
    monkeypatch.setenv("ORDERLESS_CACHE", str(tmp_path / "cache"))
    assert default_cache_dir() == tmp_path / "cache"
    monkeypatch.setenv("ORDERLESS_DATA", str(tmp_path))
    assert default_data_dir(tmp_path / "cache") == tmp_path
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ORDERLESS_CACHE", "~/cache")
    monkeypatch.setenv("ORDERLESS_DATA", "~")
    assert default_cache_dir() == tmp_path / "cache"
    assert default_data_dir(tmp_path) == tmp_path
