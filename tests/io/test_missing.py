"""NaN and infinity in elements: refused, left out or marked, and always told."""

import numpy as np
import pytest

from orderless.io import DataError, open_samples

TABLE = "sample,a,b\ns1,1,2\ns1,,3\ns2,inf,NaN\ns3,5,6\ns3,6,7\n"


@pytest.fixture
def read(tmp_path):
    def read(text=TABLE, **options):
        (tmp_path / "table.csv").write_text(text)
        return open_samples(tmp_path / "table.csv", set_id="sample", cache_dir=tmp_path / "cache", **options)

    return read


def test_missing_numbers_are_an_error_by_default(read, tmp_path):
    message = r"found NaN or infinity: 2 in feature 'a' \(first in set 's1'\), and more in b. Say what to do: missing='drop'"
    with pytest.raises(DataError, match=message):
        read()
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.suffix != ".lock"]


def test_dropped_elements_are_counted_and_sets_without_any_left_are_named(read):
    samples = read(missing="drop")
    assert samples.ids == ("s1", "s2", "s3")
    assert samples.sizes.tolist() == [1, 0, 2]
    assert samples[0].tolist() == [[1, 2]]
    assert samples[1].shape == (0, 2)
    assert "2 elements left out because of missing numbers: a (2), b (1)." in samples.notes
    assert samples.empty == ("s2",)


def test_indicators_mark_what_was_missing(read):
    samples = read(missing="indicator")
    assert samples.features == ("a", "b", "a missing", "b missing")
    assert samples[0].tolist() == [[1, 2, 0, 0], [1, 3, 1, 0]]
    assert samples[1].tolist() == [[4, 4.5, 1, 1]]  # a set without any: the means of a and b
    assert "missing numbers are the median of their set, and 1 in a feature '<name> missing': a (2), b (1)." in samples.notes
    told = "sets that have no number of a feature at all get the mean of all elements of training: a (1 set), b (1 set)."
    assert told in samples.notes


def test_missing_numbers_are_the_median_of_their_own_set_whatever_else_is_in_the_file(read):
    mine = "".join(f"s1,{value}\n" for value in (1000, 1004, "", 1001, "", 1003))
    others = "".join(f"s{n},{n * 7}\ns{n},\n" for n in range(2, 40))
    alone = read("sample,a\n" + mine, missing="indicator")
    among = read("sample,a\n" + others + mine, missing="indicator")
    assert alone[0][:, 0].tolist() == [1000, 1004, 1002, 1001, 1002, 1003]
    assert among[among.ids.index("s1")].tolist() == alone[0].tolist()
    assert among[among.ids.index("s5")].tolist() == [[35, 0], [35, 1]]


def test_a_large_set_is_filled_as_a_small_one_is(read, monkeypatch):
    text = "sample,a\n" + "".join(f"{name},{value}\n" for name in ("s1", "s2") for value in (1, "", 5, 9))
    small = read(text, missing="indicator")
    monkeypatch.setattr("orderless.io.regroup.BUCKET_BYTES", 1)  # every set in a bucket of its own
    large = read(text + "s3,1\n", missing="indicator")
    assert [large[i].tolist() for i in (0, 1)] == [small[i].tolist() for i in (0, 1)] == [[[1, 0], [5, 1], [5, 0], [9, 0]]] * 2


def test_what_stands_for_a_feature_that_a_set_lacks_is_that_of_training(read):
    options = read("sample,a,b\ns1,100,1\ns1,,3\ns2,104,2\n", missing="indicator").origin["options"]
    assert options["fill"] == {"a": 102}
    options.pop("set_id")
    other = read("sample,a,b\ns9,,2\ns9,,3\ns8,1,1\n", **options)
    assert other[other.ids.index("s9")].tolist() == [[102, 2, 1], [102, 3, 1]]


def test_gaps_in_a_feature_that_had_none_in_training_are_an_error(read):
    options = read("sample,a,b\ns1,1,2\ns1,,3\n", missing="indicator").origin["options"]
    options.pop("set_id")
    message = r"expected gaps in no other features than in training \('a'\), found missing numbers in 'b'.*missing='drop'"
    with pytest.raises(DataError, match=message):
        read("sample,b,a\ns9,,2\ns9,4,\n", **options)


def test_a_model_with_indicators_can_be_asked_about_elements_without_gaps(read):
    options = read("sample,a,b\ns1,1,2\ns1,,3\n", missing="indicator").origin["options"]
    other = read("sample,b,a\ns9,,2\ns9,4,3\n", features=options["features"], missing="drop")
    assert other.features == ("a", "b", "a missing")
    assert other[0].tolist() == [[3, 4, 0]]


def test_fill_is_refused_where_it_is_of_no_use(read):
    with pytest.raises(ValueError, match="fill is for missing='indicator', got missing='drop': leave"):
        read(missing="drop", fill={"a": 1.0})


def test_features_without_missing_numbers_have_no_indicator(read):
    assert read("sample,a,b\ns1,1,2\ns1,,3\n", missing="indicator").features == ("a", "b", "a missing")


def test_the_same_indicators_are_made_of_other_files(read):
    options = read("sample,a,b\ns1,1,2\ns1,,3\n", missing="indicator").origin["options"]
    options.pop("set_id")
    other = read("sample,b,a\ns9,1,2\ns9,4,3\n", **options)
    assert other.features == ("a", "b", "a missing")
    assert other[0].tolist() == [[2, 1, 0], [3, 4, 0]]


def test_numbers_too_large_for_the_store_are_called_that(read):
    message = (
        r"found numbers too large for float32 \(largest about 3.4e38\): 1 in feature 'a' \(first in set 's1'\). "
        "Correct them, give them in another unit, or say what to do: missing='drop'"
    )
    with pytest.raises(DataError, match=message):
        read("sample,a\ns1,1e300\ns1,2\n")


def test_numbers_too_large_beside_missing_ones_are_both_told(read):
    with pytest.raises(DataError, match=r"found NaN, infinity or numbers too large for float32 \(.*\): 2 in feature 'a'"):
        read("sample,a\ns1,1e300\ns1,\ns1,2\n")


def test_numbers_too_large_are_dropped_as_missing_ones_are(read):
    assert read("sample,a\ns1,1e300\ns1,2\n", missing="drop").sizes.tolist() == [1]


def test_what_is_stored_is_finite_float32(read):
    for policy in ("drop", "indicator"):
        stored = read(missing=policy).sets.gather([0, 1, 2])
        assert stored.dtype == np.float32
        assert np.isfinite(stored).all()
