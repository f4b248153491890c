"""Damaged files: every reader gives data that are well-shaped and valid, or a `DataError`: no crash, no hang, no other error."""

import faulthandler
import gzip
import random
import sys
import tempfile
import time
from pathlib import Path

import flowio
import h5py
import numpy as np
import pandas as pd
import publishers
import pytest

from orderless import io
from orderless.io.errors import DataError
from orderless.io.idx import read_idx
from orderless.tasks.sources import celeba, cifar10, flow_rbc, mnist, modelnet40

try:
    import resource
except ImportError:  # Windows: everything but memory is watched there
    resource = None

NUM_FILES = 200
SECONDS_PER_FILE = 10.0  # a thousand times what a good file takes: for a slow machine, not for a slow reader
MEGABYTES = 512  # a reader may grow by far less; a header that says terabytes must not be believed


def _mutate(raw: bytes, rng: random.Random) -> bytes:
    """One kind of damage, a few times over."""
    kind = rng.choice(("cut", "flip", "byte", "zeros", "ones", "delete", "insert", "move", "head", "swap", "empty", "digit"))
    if kind == "empty":
        return b"" if rng.random() < 0.2 else rng.randbytes(rng.randrange(1, 64))
    out = bytearray(raw)
    for _ in range(rng.choice((1, 1, 2, 5))):
        if len(out) < 4:
            break
        # half of the damage goes to the first bytes, where sizes and types are
        start = rng.randrange(len(out)) if rng.random() < 0.5 else rng.randrange(min(len(out), 128))
        stop = start + rng.choice((1, 2, 4, 8, rng.randrange(1, 64)))
        length = len(out[start:stop])
        if kind == "cut":
            del out[start:]
        elif kind == "flip":
            out[start] ^= 1 << rng.randrange(8)
        elif kind == "byte":
            out[start] = rng.randrange(256)
        elif kind == "zeros":
            out[start:stop] = bytes(length)
        elif kind == "ones":
            out[start:stop] = b"\xff" * length
        elif kind == "delete":
            del out[start:stop]
        elif kind == "insert":
            out[start:start] = rng.randbytes(rng.randrange(1, 64))
        elif kind == "move":
            other = rng.randrange(len(out))
            out[start:stop] = out[other : other + length]
        elif kind == "head":
            out[: rng.randrange(1, 5)] = rng.randbytes(4)
        elif kind == "swap":
            out[start : start + 8] = out[start : start + 8][::-1]
        elif kind == "digit":  # another number where text has one: counts, labels, coordinates
            out[start : start + 1] = rng.choice((b"9", b"0", b"-", b"nan", b"inf", b"1e99", b" ", b",", b"\n", b"\t", b"../"))
    return bytes(out)


def _check_labels(labels, count, most):
    assert labels.shape == (count,)
    assert count > 0
    assert labels.min() >= 0
    assert labels.max() <= most


def _check_idx(path):
    array = read_idx(path)
    assert array.dtype.isnative
    assert array.nbytes <= 4096


def _check_mnist(path):
    read = mnist.read_mnist(path.parent)
    for images, labels in ((read.train_images, read.train_labels), (read.test_images, read.test_labels)):
        assert images.shape == (len(images), 28, 28)
        assert images.dtype == labels.dtype == np.uint8
        _check_labels(labels, len(images), 9)


def _check_modelnet40(path):
    read = modelnet40.read_modelnet40(path if path.is_dir() else path.parent)
    for points, labels in ((read.train_points, read.train_labels), (read.test_points, read.test_labels)):
        assert points.dtype == np.float32
        assert points.ndim == 3
        assert points.shape[2] == 3
        assert np.isfinite(points).all()
        _check_labels(labels, len(points), len(read.class_names) - 1)


def _check_celeba(path):
    read = celeba.read_celeba(path.parent)
    assert read.attributes.shape == (len(read.filenames), 40)
    assert read.attributes.dtype == np.bool_
    assert len(read.attribute_names) == len(set(read.attribute_names)) == 40
    assert read.identities.shape == (len(read.filenames),)
    assert all((read.folder / name).is_file() for name in read.filenames)


def _check_attributes(path):
    names, filenames, attributes = celeba.read_attributes(path)
    assert len(names) == 40
    assert attributes.shape == (len(filenames), 40)


def _check_identities(path):
    identities = celeba.read_identities(path)
    assert identities
    assert all(name and "/" not in name and number >= 0 for name, number in identities.items())


def _check_photograph(path):
    images = celeba.read_celeba_images([path], size=16)
    assert images.shape == (1, 3, 16, 16)
    assert images.dtype == np.uint8


def _check_cifar10(path):
    read = cifar10.read_cifar10(path if path.suffix == ".npz" else path.parent)
    assert len(read.class_names) == 10
    for images, labels in ((read.train_images, read.train_labels), (read.test_images, read.test_labels)):
        assert images.shape == (len(images), 3, 32, 32)
        assert images.dtype == labels.dtype == np.uint8
        _check_labels(labels, len(images), 9)


def _check_flow_rbc(path):
    read = flow_rbc.read_flow_rbc(path)
    for cells, target in ((read.train_cells, read.train_target), (read.test_cells, read.test_target)):
        assert cells.ndim == 3
        assert cells.shape[2] == 2
        assert target.shape == (len(cells),)
        assert cells.dtype == target.dtype == np.float32
        assert np.isfinite(cells).all()
        assert np.isfinite(target).all()


def _idx(folder):
    path = folder / "array"
    path.write_bytes(publishers.idx_bytes(np.arange(60, dtype=np.int16).reshape(3, 4, 5)))
    return [path]


def _idx_gz(folder):
    path = folder / "array.gz"
    path.write_bytes(gzip.compress(publishers.idx_bytes(np.arange(60, dtype=np.int32).reshape(3, 20)), mtime=0))
    return [path]


def _mnist(folder):
    publishers.write_mnist(folder)
    return mnist.files(folder)


def _modelnet40_hdf5(folder):
    publishers.write_modelnet40_hdf5(folder)
    return [folder / "ply_data_train0.h5", folder / "ply_data_train0.h5", folder / "train_files.txt", folder / "shape_names.txt"]


def _modelnet40_text(folder):
    publishers.write_modelnet40_text(folder)
    return [folder / "airplane" / "airplane_0001.txt", folder / "modelnet40_test.txt", folder / "modelnet40_shape_names.txt"]


def _celeba(name, *, csv=False):
    def write(folder):
        publishers.write_celeba(folder, count=3, csv=csv)
        return [folder / name]

    return write


def _cifar10_binary(folder):
    publishers.write_cifar10_binary(folder, per_batch=1)
    (folder / "batches.meta.txt").write_text("".join(f"{name}\n" for name in cifar10.CLASS_NAMES))
    return [folder / "data_batch_2.bin", folder / "test_batch.bin", folder / "batches.meta.txt"]


def _cifar10_npz(folder):
    publishers.write_cifar10_npz(folder / "cifar10_jpeg.npz")
    return [folder / "cifar10_jpeg.npz"]


def _flow_rbc(folder):
    publishers.write_flow_rbc(folder / "hematocrit.h5")
    return [folder / "hematocrit.h5"]


def _samples(name, write_table):
    def write(folder):
        path = folder / name
        frame = pd.DataFrame({"donor": ["a", "b", "a", "b"], "x": [0.5, 1.0, 1.5, 2.0], "y": [1.0, 2.0, 3.0, 5.0]})
        write_table(frame, path)
        return [path]

    return write


def _write_h5(frame, path):
    with h5py.File(path, "w") as file:
        file["x"], file["sizes"] = frame[["x", "y"]].to_numpy(), [1, 3]


def _write_fcs(frame, path):
    with path.open("wb") as file:
        flowio.create_fcs(file, frame[["x", "y"]].to_numpy().ravel().tolist(), ["x", "y"], ["CD3", "CD4"], {})


def _check_samples(path):
    set_id = None if path.suffix in (".fcs", ".h5") else "donor"
    with tempfile.TemporaryDirectory() as cache:
        samples = io.open_samples(path, set_id=set_id, cache_dir=cache)
        elements = samples.sets.gather(range(len(samples)))
        assert elements.shape == (samples.sizes.sum(), len(samples.features))
        assert np.isfinite(elements).all()
        assert len(set(samples.ids)) == len(samples)


# each: how to write good files, of which the returned ones are damaged in turn, and how to read and check
PARSERS = {
    "idx": (_idx, _check_idx),
    "idx in gzip": (_idx_gz, _check_idx),
    "MNIST": (_mnist, _check_mnist),
    "ModelNet40 in HDF5": (_modelnet40_hdf5, _check_modelnet40),
    "ModelNet40 in text": (_modelnet40_text, _check_modelnet40),
    "CelebA attributes": (_celeba("list_attr_celeba.txt"), _check_attributes),
    "CelebA attributes in csv": (_celeba("list_attr_celeba.csv", csv=True), _check_attributes),
    "CelebA identities": (_celeba("identity_CelebA.txt"), _check_identities),
    "CelebA": (_celeba("list_attr_celeba.txt"), _check_celeba),
    "CelebA photographs": (_celeba("img_align_celeba/000001.jpg"), _check_photograph),
    "CIFAR-10 batches": (_cifar10_binary, _check_cifar10),
    "CIFAR-10 in npz": (_cifar10_npz, _check_cifar10),
    "Flow-RBC": (_flow_rbc, _check_flow_rbc),
    "long table in CSV": (_samples("t.csv", lambda frame, path: frame.to_csv(path, index=False)), _check_samples),
    "long table in Parquet": (_samples("t.parquet", lambda frame, path: frame.to_parquet(path)), _check_samples),
    "sets in HDF5": (_samples("t.h5", _write_h5), _check_samples),
    "FCS": (_samples("t.fcs", _write_fcs), _check_samples),
}


@pytest.mark.parametrize("name", PARSERS)
def test_damaged_files_read_well_or_say_what_is_wrong(name, tmp_path):
    write, check = PARSERS[name]
    damaged = write(tmp_path)

    def read(path):
        # text objects lie in folders of their own, whose parent is what is read
        check(tmp_path if name == "ModelNet40 in text" else path)

    read(damaged[0])  # good as written: otherwise nothing below means anything
    good = [path.read_bytes() for path in damaged]
    rng = random.Random(f"orderless {name}")
    refused = 0
    for i in range(NUM_FILES):
        path, raw = damaged[i % len(damaged)], good[i % len(damaged)]
        mutated = _mutate(raw, rng)
        path.write_bytes(mutated)
        refused += _survives(read, path, i)
        path.write_bytes(raw)
    assert refused > NUM_FILES // 10  # the damage is real
    read(damaged[0])


def _survives(read, path: Path, number: int) -> bool:
    """Reads under a watchdog. Says whether the file was refused."""
    before = _peak_megabytes()
    start = time.monotonic()
    faulthandler.dump_traceback_later(SECONDS_PER_FILE, exit=True)  # ends the worker: a hang inside C cannot be interrupted
    try:
        read(path)
    except DataError as error:
        message = str(error)
        assert "\n" not in message, f"file {number}: {message!r} is not one line"
        assert len(message) < 1000
        return True
    finally:
        faulthandler.cancel_dump_traceback_later()
        assert time.monotonic() - start < SECONDS_PER_FILE
        grown = _peak_megabytes() - before
        assert grown < MEGABYTES, f"file {number} took {grown:.0f} MB"
    return False


def _peak_megabytes() -> float:
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit if resource else 0.0


def test_the_same_damage_is_done_every_time():
    first, second = ([_mutate(bytes(range(200)), random.Random(7)) for _ in range(5)] for _ in range(2))
    assert first == second
