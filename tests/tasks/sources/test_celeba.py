"""CelebA: attributes, identities and photographs, joined by name."""

import zipfile

import numpy as np
import pytest
from publishers import ATTRIBUTE_NAMES, attributes_text, jpeg_bytes, photographs, write_celeba

from orderless.io.errors import DataError, MissingDataError
from orderless.tasks.sources import celeba
from orderless.tasks.sources.celeba import read_celeba, read_celeba_images


@pytest.mark.parametrize("nested", [False, True], ids=["images", "images in images"])
@pytest.mark.parametrize("csv", [False, True], ids=["txt", "csv"])
def test_files_are_joined_by_name_and_not_by_position(tmp_path, csv, nested):
    names, attributes, identities = write_celeba(tmp_path, csv=csv, nested=nested)
    read = read_celeba(tmp_path)
    assert read.filenames == tuple(names)
    assert read.attribute_names == ATTRIBUTE_NAMES
    assert read.identities.dtype == np.int64
    np.testing.assert_array_equal(read.attributes, attributes, strict=True)
    np.testing.assert_array_equal(read.identities, identities)
    assert (read.folder / names[0]).is_file()
    assert [path.name for path in celeba.files(tmp_path)] == [
        f"list_attr_celeba.{'csv' if csv else 'txt'}",
        "identity_CelebA.txt",
    ]


def test_the_publishers_own_folders_are_known(tmp_path):
    write_celeba(tmp_path)
    (tmp_path / "Anno").mkdir()
    (tmp_path / "Img").mkdir()
    for name in ("list_attr_celeba.txt", "identity_CelebA.txt"):
        (tmp_path / name).rename(tmp_path / "Anno" / name)
    (tmp_path / "img_align_celeba").rename(tmp_path / "Img" / "img_align_celeba")
    assert celeba.find(tmp_path) == tmp_path
    assert len(read_celeba(tmp_path).filenames) == 6


@pytest.mark.parametrize("name", [".", "celeba", "celebA"])
def test_the_folder_is_found_under_its_usual_names(tmp_path, name):
    assert celeba.find(tmp_path) is None
    write_celeba(tmp_path / name)
    assert celeba.find(tmp_path).samefile(tmp_path / name)
    assert celeba.fetch_all(tmp_path).samefile(tmp_path / name)


def test_what_can_only_be_fetched_by_hand_is_named_one_by_one(tmp_path):
    folder = tmp_path / "celeba"
    with pytest.raises(MissingDataError, match=r"list_attr_celeba\.txt.*mmlab.*ORDERLESS_DATA"):
        celeba.fetch_all(tmp_path)
    write_celeba(tmp_path / "made")
    folder.mkdir()
    (tmp_path / "made" / "list_attr_celeba.txt").rename(folder / "list_attr_celeba.txt")
    with pytest.raises(MissingDataError, match=r"identity_CelebA\.txt"):
        celeba.fetch_all(tmp_path)
    (tmp_path / "made" / "identity_CelebA.txt").rename(folder / "identity_CelebA.txt")
    with pytest.raises(MissingDataError, match=r"img_align_celeba\.zip"):
        celeba.fetch_all(tmp_path)
    with zipfile.ZipFile(folder / "img_align_celeba.zip", "w") as archive:
        for path in sorted((tmp_path / "made" / "img_align_celeba").iterdir()):
            archive.write(path, f"img_align_celeba/{path.name}")
    assert celeba.fetch_all(tmp_path) == folder
    assert len(read_celeba(folder).filenames) == 6


def test_a_file_that_is_missing_is_named(tmp_path):
    write_celeba(tmp_path)
    (tmp_path / "img_align_celeba").rename(tmp_path / "elsewhere")
    with pytest.raises(MissingDataError, match="img_align_celeba: expected the folder of images"):
        read_celeba(tmp_path)
    (tmp_path / "identity_CelebA.txt").unlink()
    with pytest.raises(MissingDataError, match=r"identity_CelebA\.txt"):
        read_celeba(tmp_path)


def test_rows_without_a_counterpart_are_counted_and_the_first_named(tmp_path):
    write_celeba(tmp_path)
    (tmp_path / "img_align_celeba" / "000002.jpg").unlink()
    with pytest.raises(DataError, match=r"a file for each photograph .* found none for 1 of 6, the first '000002\.jpg'"):
        read_celeba(tmp_path)
    path = tmp_path / "identity_CelebA.txt"
    rows = path.read_text().splitlines(keepends=True)
    path.write_text("".join(rows[:3]))
    with pytest.raises(DataError, match=r"identity_CelebA\.txt: expected a row .* none for 3 of 6, the first '000001\.jpg'"):
        read_celeba(tmp_path)
    path.write_text("".join(rows) + "999999.jpg 5\n")
    with pytest.raises(DataError, match=r"list_attr_celeba\.txt: expected a row .* none for 1 of 7, the first '999999\.jpg'"):
        read_celeba(tmp_path)


ROW = " ".join(["a.jpg"] + ["1"] * 40) + "\n"
HEAD = " ".join(ATTRIBUTE_NAMES) + "\n"
CSV_HEAD = ",".join(["image_id", *ATTRIBUTE_NAMES]) + "\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "number of photographs on the first line, found nothing"),
        ("1\n", "number of photographs"),
        ("many\n" + HEAD + ROW, "number of photographs on the first line, found 'many'"),
        ("2\n" + HEAD + ROW, "2 photographs, as the first line says, found 1"),
        ("0\n" + HEAD, "at least one photograph"),
        ("1\nSmiling Young\n" + ROW, "names of 40 attributes, found 2 names, 2 different"),
        ("1\n" + "Smiling " * 40 + "\n" + ROW, "found 40 names, 1 different"),
        ("1\n" + HEAD + ROW[:-3] + "\n", "40 times 1 or -1, found .* on line 3"),
        ("1\n" + HEAD + ROW.replace(" 1\n", " 2\n"), "40 times 1 or -1"),
        ("2\n" + HEAD + ROW + ROW, r"one row for each photograph, found 'a\.jpg' again on line 4"),
        ("1\n" + HEAD + ROW.replace("a.jpg", "../a.jpg"), "a file name, found '../a.jpg' on line 3"),
        ("2\n" + HEAD + "\n" + ROW, "40 times 1 or -1, found '' on line 3"),
        (CSV_HEAD, "at least one photograph, found 0"),
        (CSV_HEAD + ROW.replace(" ", ",") + ",,\n", "on line 3"),
        ("image_id,Smiling\n" + "a.jpg,1\n", "names of 40 attributes, found 1 names"),
    ],
)
def test_wrong_attributes_are_errors(tmp_path, text, message):
    write_celeba(tmp_path)
    (tmp_path / "list_attr_celeba.txt").write_text(text)
    with pytest.raises(DataError, match=message):
        read_celeba(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found an empty file"),
        ("a.jpg\n", r"a file name and a number, found 'a\.jpg' on line 1"),
        ("a.jpg 1\nb.jpg one\n", "'b.jpg one' on line 2"),
        ("a.jpg 1\nb.jpg -1\n", "'b.jpg -1' on line 2"),
        ("a.jpg " + "9" * 19, "on line 1"),
        ("a.jpg 1\na.jpg 2\n", "'a.jpg' again on line 2"),
        (".. 1\n", "a file name, found '..' on line 1"),
    ],
)
def test_wrong_identities_are_errors(tmp_path, text, message):
    write_celeba(tmp_path)
    (tmp_path / "identity_CelebA.txt").write_text(text)
    with pytest.raises(DataError, match=message):
        read_celeba(tmp_path)


def test_windows_line_ends_change_nothing(tmp_path):
    names, attributes, _ = write_celeba(tmp_path)
    (tmp_path / "list_attr_celeba.txt").write_bytes(attributes_text(names, attributes).replace("\n", "\r\n").encode())
    np.testing.assert_array_equal(read_celeba(tmp_path).attributes, attributes)


def test_photographs_are_squashed_to_a_square(tmp_path):
    write_celeba(tmp_path)
    read = read_celeba(tmp_path)
    images = read_celeba_images([read.folder / name for name in read.filenames], size=16)
    assert images.shape == (6, 3, 16, 16)
    assert images.dtype == np.uint8
    blue = images[:, 2].mean((1, 2))
    np.testing.assert_allclose(blue, 20 * np.arange(6), atol=4)  # each in its place; what JPEG and resizing lose
    assert read_celeba_images([str(read.folder / read.filenames[0])]).shape == (1, 3, 64, 64)


def test_a_truncated_photograph_is_named(tmp_path):
    good = jpeg_bytes(photographs(1)[0])
    (tmp_path / "good.jpg").write_bytes(good)
    (tmp_path / "short.jpg").write_bytes(good[: len(good) - 60])
    with pytest.raises(DataError, match=r"short\.jpg: expected a JPEG or PNG image, found a damaged one or none"):
        read_celeba_images([tmp_path / "good.jpg", tmp_path / "short.jpg"])
