"""Where prepared data are kept."""

from pathlib import Path

from orderless.io.cache import default_cache_dir


def test_the_user_may_name_the_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("ORDERLESS_CACHE", str(tmp_path / "mine"))
    assert default_cache_dir() == tmp_path / "mine"
    monkeypatch.delenv("ORDERLESS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache_dir() == tmp_path / "orderless"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_cache_dir() == Path.home() / ".cache" / "orderless"
