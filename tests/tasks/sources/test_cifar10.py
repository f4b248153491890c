"""CIFAR-10 from the binary batches and from an npz file of JPEGs."""

import io
import tarfile
import zipfile

import numpy as np
import pytest
from PIL import Image
from publishers import cifar10_npz_arrays, jpeg_bytes, photographs, real_data, write_cifar10_binary, write_cifar10_npz

from orderless.io.errors import DataError, MissingDataError
from orderless.tasks.sources import cifar10
from orderless.tasks.sources.cifar10 import read_cifar10


def test_batches_read_back_in_their_order(tmp_path):
    written = write_cifar10_binary(tmp_path)
    read = read_cifar10(tmp_path)
    batches = [written[f"data_batch_{i}.bin"] for i in range(1, 6)]
    np.testing.assert_array_equal(read.train_images, np.concatenate([images for images, _ in batches]), strict=True)
    np.testing.assert_array_equal(read.train_labels, np.concatenate([labels for _, labels in batches]), strict=True)
    np.testing.assert_array_equal(read.test_images, written["test_batch.bin"][0], strict=True)
    np.testing.assert_array_equal(read.test_labels, written["test_batch.bin"][1], strict=True)
    assert read.class_names == cifar10.CLASS_NAMES
    assert len(cifar10.files(tmp_path)) == 6


def test_class_names_beside_the_batches_are_read(tmp_path):
    write_cifar10_binary(tmp_path)
    (tmp_path / "batches.meta.txt").write_text("".join(f"kind{i}\n" for i in range(10)) + "\n")
    assert read_cifar10(tmp_path).class_names[9] == "kind9"
    assert len(cifar10.files(tmp_path)) == 7
    (tmp_path / "batches.meta.txt").write_text("kind\n" * 10)
    with pytest.raises(DataError, match="ten different class names, found 10, 1 of them different"):
        read_cifar10(tmp_path)


def test_jpegs_read_back_nearly_unchanged(tmp_path):
    arrays = write_cifar10_npz(tmp_path / "cifar10_jpeg.npz")
    for path in (tmp_path / "cifar10_jpeg.npz", tmp_path):
        read = read_cifar10(path)
        wanted = np.stack(photographs(4, 32, 32)).transpose(0, 3, 1, 2)
        assert np.abs(read.train_images.astype(int) - wanted).mean() < 4  # what JPEG loses of a smooth image
        assert read.test_images.shape == (2, 3, 32, 32)
        np.testing.assert_array_equal(read.train_labels, arrays["train_labels"], strict=True)
        assert read.class_names == tuple(arrays["class_names"])
        assert cifar10.files(path) == [tmp_path / "cifar10_jpeg.npz"]


def test_class_names_are_known_without_being_in_the_npz_file(tmp_path):
    write_cifar10_npz(tmp_path / "a.npz", class_names=None)
    assert read_cifar10(tmp_path / "a.npz").class_names == cifar10.CLASS_NAMES


@pytest.mark.parametrize("name", [".", "cifar10", "cifar-10-batches-bin", "cifar10/cifar-10-batches-bin"])
def test_batches_are_found_under_their_usual_names(tmp_path, name):
    assert cifar10.find(tmp_path) is None
    write_cifar10_binary(tmp_path / name)
    assert cifar10.find(tmp_path).samefile(tmp_path / name)
    assert cifar10.fetch_all(tmp_path).samefile(tmp_path / name)


def test_the_npz_file_is_found_in_its_folder(tmp_path):
    write_cifar10_npz(tmp_path / "cifar10" / "cifar10_jpeg.npz")
    assert cifar10.find(tmp_path) == tmp_path / "cifar10" / "cifar10_jpeg.npz"


def test_an_archive_that_is_there_is_unpacked(tmp_path):
    write_cifar10_binary(tmp_path / "made")
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "made", "cifar-10-batches-bin")
    assert cifar10.fetch_all(tmp_path) == tmp_path / "cifar-10-batches-bin"
    assert len(read_cifar10(tmp_path / "cifar-10-batches-bin").train_labels) == 15


def test_a_missing_path_and_another_file_are_errors(tmp_path):
    with pytest.raises(MissingDataError, match="no such file or folder"):
        read_cifar10(tmp_path / "nothing")
    with pytest.raises(MissingDataError, match=r"data_batch_1\.bin"):
        read_cifar10(tmp_path)
    (tmp_path / "a.bin").write_bytes(bytes(3073))
    with pytest.raises(DataError, match="found another file"):
        read_cifar10(tmp_path / "a.bin")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "whole records of 3073 bytes, found 0 bytes"),
        (bytes(3072), "found 3072 bytes"),
        (bytes(3073) + b"\x0a" + bytes(3072), "labels from 0 to 9, found 10 in row 1"),
    ],
    ids=["empty", "short", "label"],
)
def test_a_wrong_batch_is_an_error(tmp_path, raw, message):
    write_cifar10_binary(tmp_path)
    (tmp_path / "data_batch_3.bin").write_bytes(raw)
    with pytest.raises(DataError, match=message):
        read_cifar10(tmp_path)


GOOD = cifar10_npz_arrays()
SMALL = np.frombuffer(jpeg_bytes(photographs(1, 16, 16)[0]), np.uint8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_labels": None}, "an array 'train_labels', found none of that name"),
        ({"train_labels": np.array([0, 1, 2, 10])}, "labels from 0 to 9, found 10 in row 3"),
        ({"train_labels": np.array([0, 1, 2, -1])}, "found -1 in row 3"),
        ({"train_labels": np.array([0, 1, 2])}, "4 numbers in train_labels, found 3"),
        ({"train_labels": np.zeros(4)}, "kind i or u, found float64"),
        ({"train_labels": np.zeros((4, 1), int)}, r"shape \(4, 1\)"),
        ({"train_labels": np.array([{}, 1, 2, 3], dtype=object)}, "found object"),
        ({"train_jpeg_blob": GOOD["train_jpeg_blob"].astype(np.uint16)}, "bytes in train_jpeg_blob, found uint16"),
        ({"train_offsets": GOOD["train_offsets"] + 1}, "train_offsets that rise from 0"),
        ({"train_offsets": GOOD["train_offsets"][::-1].copy()}, "train_offsets that rise from 0"),
        ({"train_offsets": GOOD["train_offsets"][:-1]}, "train_offsets that rise from 0"),
        ({"train_offsets": GOOD["train_offsets"][:1]}, "train_offsets that rise from 0"),
        ({"train_offsets": np.array([0, 5, 10, 15, GOOD["train_offsets"][-1]])}, r"\(train image 0\): expected a JPEG"),
        (
            {"test_jpeg_blob": SMALL, "test_offsets": np.array([0, len(SMALL)]), "test_labels": np.array([1])},
            r"\(test image 0\): expected an image of 32 x 32 pixels, found 16 x 16",
        ),
        ({"class_names": np.array(["a"] * 10)}, "ten different class names"),
    ],
    ids=[
        "missing", "label", "negative label", "count", "float", "rank", "object", "blob type", "start", "falling", "end",
        "one offset", "not a JPEG", "size", "class names",
    ],
)  # fmt: skip
def test_a_wrong_npz_file_is_an_error(tmp_path, changes, message):
    write_cifar10_npz(tmp_path / "a.npz", **changes)
    with pytest.raises(DataError, match=message):
        read_cifar10(tmp_path / "a.npz")


@pytest.mark.parametrize("count", [5, 3, 10**13])
def test_a_header_that_promises_another_number_than_there_is_is_an_error(tmp_path, count):
    write_cifar10_npz(tmp_path / "good.npz")
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (count,)})
    with zipfile.ZipFile(tmp_path / "good.npz") as good, zipfile.ZipFile(tmp_path / "a.npz", "w") as bad:
        for name in good.namelist():
            bad.writestr(name, header.getvalue() + bytes(4) if name == "train_labels.npy" else good.read(name))
    with pytest.raises(DataError, match=f"{count} numbers in 'train_labels', found 4 bytes"):
        read_cifar10(tmp_path / "a.npz")


def test_an_npz_file_that_unpacks_to_more_than_it_could_is_refused_unread(tmp_path):
    write_cifar10_npz(tmp_path / "a.npz")
    raw = bytearray((tmp_path / "a.npz").read_bytes())
    entry = raw.index(b"PK\x01\x02", raw.index(b"PK\x01\x02") + 4)  # train_jpeg_blob in the table of contents
    raw[entry + 24 : entry + 28] = b"\xff\xff\xff\x7f"
    (tmp_path / "a.npz").write_bytes(raw)
    with pytest.raises(DataError, match="2147483647 bytes said to be packed in"):
        read_cifar10(tmp_path / "a.npz")


def test_the_real_file_reads_to_the_known_classes():
    path = cifar10.find(real_data("cifar10"))
    read = read_cifar10(path)
    assert read.train_images.shape == (50_000, 3, 32, 32)
    assert read.test_images.shape == (10_000, 3, 32, 32)
    assert read.class_names == cifar10.CLASS_NAMES
    assert np.bincount(read.train_labels).tolist() == [5000] * 10
    assert np.bincount(read.test_labels).tolist() == [1000] * 10
    mean = read.train_images.mean((0, 2, 3)) / 255
    np.testing.assert_allclose(mean, [0.4914, 0.4822, 0.4465], atol=0.002)  # well known; JPEG moves it a little
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            last = arrays["test_jpeg_blob"][arrays["test_offsets"][-2] :].tobytes()
        with Image.open(io.BytesIO(last)) as image:
            np.testing.assert_array_equal(read.test_images[-1], np.asarray(image).transpose(2, 0, 1))
