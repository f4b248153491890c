"""Tiny files in the publishers' layouts, for the tests of their readers."""

import gzip
import io
import os
import struct
from pathlib import Path

import numpy as np
import pytest

IDX_CODES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}
ATTRIBUTE_NAMES = tuple(f"Attribute_{i}" for i in range(40))
MNIST_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def real_data(name):
    """A folder of real published data, or a skip that says why not."""
    root = os.environ.get("ORDERLESS_DATA")
    if not root:
        pytest.skip("ORDERLESS_DATA is not set: real published files are not tested")
    if not (Path(root) / name).exists():
        pytest.skip(f"ORDERLESS_DATA has no {name}")
    return Path(root)


def idx_bytes(array):
    code = IDX_CODES[array.dtype.str[1:]]
    return (
        struct.pack(f">HBB{array.ndim}I", 0, code, array.ndim, *array.shape)
        + array.astype(array.dtype.newbyteorder(">")).tobytes()
    )


def mnist_arrays(num_train=12, num_test=5):
    rng = np.random.default_rng(0)
    arrays = []
    for count in (num_train, num_test):
        arrays += [rng.integers(0, 256, (count, 28, 28)).astype(np.uint8), rng.integers(0, 10, count).astype(np.uint8)]
    return dict(zip(MNIST_FILES, arrays, strict=True))


def write_mnist(folder, *, packed=True):
    folder.mkdir(parents=True, exist_ok=True)
    arrays = mnist_arrays()
    for name, array in arrays.items():
        raw = idx_bytes(array)
        (folder / (f"{name}.gz" if packed else name)).write_bytes(gzip.compress(raw, mtime=0) if packed else raw)
    return list(arrays.values())


def write_hdf5(path, arrays, *, chunk_rows=4):
    """Three-dimensional arrays in gzip pieces as in the published files, others as they are."""
    import h5py

    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            packed = {"chunks": (min(chunk_rows, len(array)), *array.shape[1:]), "compression": "gzip"} if array.ndim == 3 else {}
            file.create_dataset(name, data=array, **packed)


def clouds(count, num_points=8, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, num_points, 3)).round(3).astype(np.float32), rng.integers(0, 3, (count, 1)).astype(np.uint8)


CLASS_NAMES = ("airplane", "flower_pot", "night_stand")


def write_modelnet40_hdf5(folder, *, lists=True, flat_labels=False):
    """Two files for training, one for testing. Returns points and labels of both."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = {
        "ply_data_train0.h5": clouds(6, seed=1),
        "ply_data_train1.h5": clouds(5, seed=2),
        "ply_data_test0.h5": clouds(4, seed=3),
    }
    for name, (points, labels) in parts.items():
        write_hdf5(folder / name, {"data": points, "label": labels.reshape(-1) if flat_labels else labels})
    (folder / "shape_names.txt").write_text("".join(f"{name}\n" for name in CLASS_NAMES))
    if lists:
        for split in ("train", "test"):
            entries = [f"data/modelnet40_ply_hdf5_2048/{name}\n" for name in parts if split in name]
            (folder / f"{split}_files.txt").write_text("".join(entries))
    train = [parts["ply_data_train0.h5"], parts["ply_data_train1.h5"]]
    return (
        np.concatenate([points for points, _ in train]),
        np.concatenate([labels for _, labels in train]).reshape(-1).astype(np.int64),
        parts["ply_data_test0.h5"][0],
        parts["ply_data_test0.h5"][1].reshape(-1).astype(np.int64),
    )


def write_modelnet40_text(folder, *, num_points=8):
    """Six objects for training, three for testing. Returns the numbers (n, points, 6) by object."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "modelnet40_shape_names.txt").write_text("".join(f"{name}\n" for name in CLASS_NAMES))
    written = {}
    for split, numbers in (("train", (1, 2)), ("test", (3,))):
        names = [f"{kind}_{number:04d}" for kind in CLASS_NAMES for number in numbers]
        (folder / f"modelnet40_{split}.txt").write_text("".join(f"{name}\n" for name in names))
        for name in names:
            table = rng.normal(size=(num_points, 6)).round(4)
            path = folder / name.rpartition("_")[0] / f"{name}.txt"
            path.parent.mkdir(exist_ok=True)
            path.write_text("".join(",".join(f"{number:.6f}" for number in row) + "\n" for row in table))
            written[name] = table.astype(np.float32)
    return written


def jpeg_bytes(image, *, quality=90, kind="JPEG"):
    """(height, width, 3) numbers as the bytes of an image file."""
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(image).save(out, kind, quality=quality)
    return out.getvalue()


def photographs(count, height=24, width=20):
    """Smooth images that survive JPEG nearly unchanged."""
    y, x = np.mgrid[0:height, 0:width]
    return [np.stack([x * 8, y * 8, np.full_like(x, 20 * i)], -1).clip(0, 255).astype(np.uint8) for i in range(count)]


def attributes_text(filenames, attributes, *, csv=False):
    cells = [[name, *("1" if has else "-1" for has in row)] for name, row in zip(filenames, attributes, strict=True)]
    if csv:
        return "".join(",".join(row) + "\n" for row in [["image_id", *ATTRIBUTE_NAMES], *cells])
    return f"{len(filenames)}\n{' '.join(ATTRIBUTE_NAMES)}\n" + "".join("  ".join(row) + "\n" for row in cells)


def write_celeba(folder, *, count=6, csv=False, nested=False, num_people=10177):
    """Returns file names, attributes and identities. Identities are listed in another order than attributes."""
    rng = np.random.default_rng(0)
    images = folder / "img_align_celeba" / ("img_align_celeba" if nested else ".")
    images.mkdir(parents=True, exist_ok=True)
    names = [f"{i + 1:06d}.jpg" for i in range(count)]
    for name, image in zip(names, photographs(count), strict=True):
        (images / name).write_bytes(jpeg_bytes(image))
    attributes = rng.random((count, 40)) < 0.5
    identities = rng.integers(1, num_people + 1, count)
    (folder / f"list_attr_celeba.{'csv' if csv else 'txt'}").write_text(attributes_text(names, attributes, csv=csv))
    rows = [f"{name} {identity}\n" for name, identity in zip(names, identities, strict=True)]
    (folder / "identity_CelebA.txt").write_text("".join(reversed(rows)))
    return names, attributes, identities


def write_cifar10_binary(folder, *, per_batch=3):
    """Returns images (n, 3, 32, 32) and labels by file name."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for name in (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"):
        labels = rng.integers(0, 10, per_batch).astype(np.uint8)
        images = rng.integers(0, 256, (per_batch, 3, 32, 32)).astype(np.uint8)
        (folder / name).write_bytes(np.concatenate([labels[:, None], images.reshape(per_batch, -1)], 1).tobytes())
        written[name] = (images, labels)
    return written


def cifar10_npz_arrays(num_train=4, num_test=2):
    rng = np.random.default_rng(0)
    arrays = {"class_names": np.array([f"kind{i}" for i in range(10)])}
    for split, count in (("train", num_train), ("test", num_test)):
        blobs = [jpeg_bytes(image) for image in photographs(count, 32, 32)]
        arrays[f"{split}_jpeg_blob"] = np.frombuffer(b"".join(blobs), np.uint8)
        arrays[f"{split}_offsets"] = np.cumsum([0, *map(len, blobs)]).astype(np.int64)
        arrays[f"{split}_labels"] = rng.integers(0, 10, count).astype(np.uint8)
    return arrays


def write_cifar10_npz(path, **changes):
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = cifar10_npz_arrays() | changes
    np.savez(path, **{key: array for key, array in arrays.items() if array is not None})
    return arrays


def flow_rbc_arrays(num_train=6, num_test=4, num_cells=5):
    rng = np.random.default_rng(0)
    arrays = {}
    for split, count in (("train", num_train), ("test", num_test)):
        arrays[f"{split}_data"] = rng.normal(size=(count, num_cells, 2)).astype(np.float32)
        arrays[f"{split}_labels"] = rng.normal(40, 5, count).astype(np.float32)
    return arrays


def write_flow_rbc(path, **changes):
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = flow_rbc_arrays() | changes
    write_hdf5(path, {key: array for key, array in arrays.items() if array is not None}, chunk_rows=2)
    return arrays
