"""Optional libraries: imported, or named with the extra that brings them."""

import sys

import publishers
import pytest

from orderless.io.extras import require
from orderless.io.hdf5 import Array, read_hdf5
from orderless.tasks.sources.celeba import read_celeba_images


def test_an_installed_library_is_imported():
    assert require("json.decoder", "io").__name__ == "json.decoder"


def test_a_missing_library_is_named_with_its_extra_in_one_line():
    with pytest.raises(ImportError) as caught:
        require("no_such_library.part", "io")
    assert str(caught.value) == "no_such_library is needed here but not installed: pip install 'orderless[io]'"


def test_a_library_that_lacks_something_itself_says_so(tmp_path, monkeypatch):
    (tmp_path / "half_a_library.py").write_text("import what_it_needs")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="what_it_needs"):
        require("half_a_library", "io")


def test_reading_hdf5_without_h5py_names_the_extra(tmp_path, monkeypatch):
    publishers.write_flow_rbc(tmp_path / "file.h5")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match=r"^h5py is needed here but not installed: pip install 'orderless\[io\]'$"):
        read_hdf5(tmp_path / "file.h5", {"train_data": Array(((None, None, 2),), "f", "float32")})


def test_reading_photographs_without_pillow_names_the_extra(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "PIL"] or ["PIL"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"^PIL is needed here but not installed: pip install 'orderless\[io\]'$"):
        read_celeba_images([tmp_path / "image.jpg"])
