"""Labels join sets by name; whatever does not fit is told by name."""

import numpy as np
import pandas as pd
import pytest

from orderless.io import DataError, MemorySets, MissingDataError, Samples, join_labels


def make_samples(ids=("s1", "s2", "s3"), **columns):
    sets = MemorySets([np.zeros((1, 1))] * len(ids))
    return Samples(sets, tuple(ids), ("x",), columns={name: np.array(values) for name, values in columns.items()})


@pytest.fixture
def join(tmp_path):
    def join(samples, text, name="labels.csv", **options):
        (tmp_path / name).write_text(text)
        return join_labels(samples, tmp_path / name, **options)

    return join


def test_columns_come_in_the_order_of_sets_and_keep_their_kind(join):
    samples = join(make_samples(), "sample,age,site,score\ns3,30,n,0.5\ns1,10,s,\ns2,20,,1\n")
    assert samples.columns["age"].tolist() == [10, 20, 30]
    assert samples.columns["age"].dtype == np.int64
    assert samples.columns["site"].tolist() == ["s", None, "n"]
    np.testing.assert_array_equal(samples.columns["score"], [np.nan, 1, 0.5])
    assert samples.notes == ()
    assert set(samples.columns) == {"age", "site", "score"}


def test_parquet_and_tsv_are_read_too(tmp_path, join):
    frame = pd.DataFrame({"name": ["s1", "s2", "s3"], "y": [1, 0, 1]})
    frame.to_parquet(tmp_path / "labels.parquet")
    assert join_labels(make_samples(), tmp_path / "labels.parquet").columns["y"].tolist() == [1, 0, 1]
    assert join(make_samples(), frame.to_csv(sep="\t", index=False), "labels.tsv").columns["y"].tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("ids", "given"),
    [
        (("a", "b"), ("a.fcs", "b.FCS")),
        (("a", "b"), ("run/a.fcs", "run\\b.fcs")),
        (("1", "2"), ("1.0", "2.0")),
        (("007", "08"), ("007", "08")),
    ],
    ids=["suffix", "folder", "decimals", "zeros"],
)
def test_spellings_of_one_name_match(join, ids, given):
    samples = join(make_samples(ids), "file,y\n" + "".join(f"{name},{i}\n" for i, name in enumerate(given)))
    assert samples.columns["y"].tolist() == [0, 1]


def test_the_column_that_matches_best_has_the_ids(join):
    samples = join(make_samples(), "id,who,y\n1,s1,5\n2,s2,6\n3,s3,7\n")
    assert samples.columns["y"].tolist() == [5, 6, 7]
    assert samples.columns["id"].tolist() == [1, 2, 3]
    with pytest.raises(DataError, match="expected names of sets in column 'id', found 1, 2, 3, where the sets are called s1"):
        join(make_samples(), "id,who,y\n1,s1,5\n2,s2,6\n3,s3,7\n", id_column="id")


def test_sets_without_a_row_and_rows_without_a_set_are_named(join):
    samples = join(make_samples(), "sample,y\ns1,1\ns9,2\n,3\n")
    np.testing.assert_array_equal(samples.columns["y"], [1, np.nan, np.nan])
    assert samples.notes == (
        "2 of 3 sets have no row in labels.csv: s2, s3.",
        "1 rows of labels.csv are of sets that have no data: s9.",
        "1 rows of labels.csv name no set.",
    )


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("sample,y\ns1,1\ns2,2\ns1,1\n", {}, "expected each set once in column 'sample', found more than one row for s1"),
        ("sample,y\nt1,1\nt2,2\n", {}, "found none; the sets are called s1, s2, s3, the columns have sample: t1, t2; y: 1, 2"),
        ("sample,y\ns1,1\n", {"id_column": "smple"}, r"expected a column 'smple' \(id_column=\).*Did you mean 'sample'"),
        ("sample,old\ns1,9\n", {}, "expected the same 'old' as in the data, found 9.* for set 's1', where the data say 1"),
    ],
    ids=["twice", "unmatched", "no column", "contradiction"],
)
def test_tables_that_do_not_fit_are_refused(join, text, options, message):
    with pytest.raises(DataError, match=message):
        join(make_samples(old=[1, 2, 3]), text, **options)


def test_a_column_that_agrees_is_kept(join):
    samples = join(make_samples(old=[1, 2, 3]), "sample,old\ns1,1\ns2,2\ns3,3\n")
    assert samples.columns["old"].tolist() == [1, 2, 3]


def test_no_file_and_no_table_are_told(tmp_path, join):
    with pytest.raises(MissingDataError, match="expected a table of labels, found no such file"):
        join_labels(make_samples(), tmp_path / "none.csv")
    with pytest.raises(DataError, match=r"found the suffix '.xlsx'"):
        join(make_samples(), "x", name="labels.xlsx")
