"""HDF5 files whose numbers lie in other files, in each of the ways that the format knows."""

from pathlib import Path

import h5py


def _link(file, name, array):
    with h5py.File(_beside(file, "other.h5"), "w") as other:
        other["numbers"] = array
    file[name] = h5py.ExternalLink("other.h5", "numbers")


def _virtual(file, name, array):
    with h5py.File(_beside(file, "other.h5"), "w") as other:
        other["numbers"] = array
    layout = h5py.VirtualLayout(array.shape, array.dtype)
    layout[:] = h5py.VirtualSource("other.h5", "numbers", array.shape)
    file.create_virtual_dataset(name, layout)


def _external(file, name, array):
    _beside(file, "raw").write_bytes(array.tobytes())
    file.create_dataset(name, array.shape, array.dtype, external=[("raw", 0, array.nbytes)])


def _beside(file, name):
    return Path(file.filename).with_name(name)


ELSEWHERE = {"a link": _link, "a virtual array": _virtual, "external bytes": _external}
