"""Labels join sets by name; whatever does not fit is told by name."""

import numpy as np
import pandas as pd
import pytest

from orderless.io import DataError, MemorySets, MissingDataError, Samples, join_labels, open_samples


def make_samples(ids=("s1", "s2", "s3"), *, set_id=None, **columns):
    sets = MemorySets([np.zeros((1, 1))] * len(ids))
    known = {name: np.array(values) for name, values in columns.items()}
    return Samples(sets, tuple(ids), ("x",), columns=known, origin={"options": {"set_id": set_id}})


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
    assert samples.notes == ("labels.csv: joined by column 'sample', 3 of 3 sets found.",)
    assert set(samples.columns) == {"age", "site", "score"}


@pytest.mark.parametrize(
    "blank", [" ", "   ", '" "', "\u00a0"], ids=["a space", "spaces", "in quotes", "one that does not break"]
)
def test_a_blank_cell_makes_no_words_of_numbers(join, blank):
    samples = join(make_samples(), f"sample,titer,grade\ns1,0.5,{blank}\ns2,{blank},2\ns3,1.5,1\n")
    np.testing.assert_array_equal(samples.columns["titer"], [0.5, np.nan, 1.5])
    np.testing.assert_array_equal(samples.columns["grade"], [np.nan, 2, 1])


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
        (("001", "b c"), ("001.csv", "all/b c.Parquet")),
        (("1", "2"), ("1.0", "2.0")),
        (("007", "08"), ("007", "08")),
        (("Jose\u0301", "Mu\u0308ller 2"), ("Jos\u00e9", "M\u00fcller\u00a02.fcs\u200b")),
        (("x\uff0f1", "y\uff0f1"), ("all/x\uff0f1.fcs", "y\uff0f1 .csv")),
    ],
    ids=["suffix", "folder", "tables", "decimals", "zeros", "as macOS writes them", "a wide slash is no folder"],
)
def test_spellings_of_one_name_match(join, ids, given):
    samples = join(make_samples(ids), "file,y\n" + "".join(f"{name},{i}\n" for i, name in enumerate(given)))
    assert samples.columns["y"].tolist() == [0, 1]


def test_one_name_in_two_encodings_is_never_joined_by_chance(join):
    composed, decomposed = "Jos\u00e9", "Jose\u0301"
    shown = r"'Jos\\xe9', 'Jose\\u0301'"
    with pytest.raises(DataError, match=f"each set once in column 'sample', found more than one row for {shown}"):
        join(make_samples((composed, "b")), f"sample,y\n{composed},1\n{decomposed},2\nb,3\n")
    with pytest.raises(DataError, match=f"differ in more than characters that look alike or are not seen, found {shown}"):
        join(make_samples((composed, decomposed)), f"sample,y\n{composed},1\n")


def test_the_column_that_matches_best_has_the_ids(join):
    samples = join(make_samples(), "id,who,y\n1,s1,5\n2,s2,6\n3,s3,7\n")
    assert samples.columns["y"].tolist() == [5, 6, 7]
    assert samples.columns["id"].tolist() == [1, 2, 3]
    with pytest.raises(DataError, match="expected names of sets in column 'id', found 1, 2, 3, where the sets are called s1"):
        join(make_samples(), "id,who,y\n1,s1,5\n2,s2,6\n3,s3,7\n", id_column="id")


NUMBERED = tuple(str(i) for i in range(1, 31))


def make_labels(**columns):
    """A table of thirty rows; `bed` has the same numbers as the sets, in another order."""
    return pd.DataFrame({**columns, "bed": [1 + 7 * i % 30 for i in range(30)], "y": range(30)}).to_csv(index=False)


@pytest.mark.parametrize("set_id", ["sample", None])
@pytest.mark.parametrize(
    ("ids", "given", "example"),
    [
        (NUMBERED, [f"{i:03}" for i in range(1, 31)], "'001', where the set is called '1'"),
        (NUMBERED, [f"{i:02}" for i in range(1, 31)], "'01', where the set is called '1'"),
        ([f"{i:03}" for i in range(1, 31)], NUMBERED, "'1', where the set is called '001'"),
        ([f"s{i:02}" for i in range(1, 31)], [f"s{i}" for i in range(1, 31)], "'s1', where the set is called 's01'"),
    ],
    ids=["in the labels", "in some", "in the data", "after letters"],
)
def test_leading_zeros_that_differ_are_an_error_and_no_other_column_is_taken(join, ids, given, example, set_id):
    with pytest.raises(DataError, match=f"in column 'sample' as the data have them, found leading zeros that differ: {example}"):
        join(make_samples(ids, set_id=set_id), make_labels(sample=given))


@pytest.mark.parametrize("id_column", ["sample", None])
@pytest.mark.parametrize(
    ("ids", "given", "what"),
    [
        (["s1", "s2", "s3"], ["S1", "S2", "S3"], "capitals that differ: 'S1', where the set is called 's1'"),
        (["s1", "s2", "s3"], ["s1", "S2", "s3"], "capitals that differ: 'S2', where the set is called 's2'"),
        (
            ["s1", "s2", "s3"],
            ["S01", "S02", "S03"],
            "capitals and leading zeros that differ: 'S01', where the set is",
        ),
    ],
    ids=["in all", "in one", "beside zeros"],
)
def test_capitals_that_differ_are_an_error_that_says_so(join, ids, given, what, id_column):
    text = "sample,y\n" + "".join(f"{name},1\n" for name in given)
    with pytest.raises(DataError, match=f"in column 'sample' as the data have them, found {what}"):
        join(make_samples(ids), text, id_column=id_column)


@pytest.mark.parametrize("name", ["sample", "Sample ID", "sampleid", "PatientID", "file_name", "ids", "no."])
def test_a_column_whose_name_says_who_is_preferred_to_numbers_that_match_as_well(join, name):
    samples = join(make_samples(NUMBERED), make_labels(**{name: [*NUMBERED[:20], *range(100, 110)]}))
    assert samples.columns["y"][:20].tolist() == list(range(20))
    assert f"labels.csv: joined by column {name!r}, 20 of 30 sets found." in samples.notes


def test_the_column_called_as_in_the_data_is_preferred_to_all_others(join):
    text = make_labels(Ward_Nr=NUMBERED, patient=NUMBERED[::-1])
    samples = join(make_samples(NUMBERED, set_id="ward nr"), text)
    assert samples.columns["y"].tolist() == list(range(30))
    assert join(make_samples(NUMBERED, set_id="patient"), text).columns["y"].tolist() == list(range(29, -1, -1))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"patient_age": range(31, 61), "sample": [f"x{i}" for i in range(30)]}, "expected a column with the names of sets"),
        ({"sample": NUMBERED, "donor": NUMBERED[::-1]}, "found several that would do, and differ: sample, donor. Name it"),
        ({"height": NUMBERED}, "found several that would do, and differ: height, bed. Name it with id_column"),
    ],
    ids=["a better name", "two names", "two columns of numbers"],
)
def test_numbers_that_may_match_by_accident_are_not_guessed(join, columns, message):
    with pytest.raises(DataError, match=message):
        join(make_samples(NUMBERED), make_labels(**columns))


def test_numbers_with_decimals_are_nobodys_name_unless_asked_for(join):
    text = "score,y\n1.0,5\n2.0,6\n3.0,7\n"
    with pytest.raises(DataError, match="expected a column with the names of sets, found none"):
        join(make_samples(("1", "2", "3")), text)
    assert join(make_samples(("1", "2", "3")), text, id_column="score").columns["y"].tolist() == [5, 6, 7]
    assert join(make_samples(("1", "2", "3")), "nr2,y\n1,5\n2,6\n3,7\n").columns["y"].tolist() == [5, 6, 7]


def test_sets_without_a_row_and_rows_without_a_set_are_named(join):
    samples = join(make_samples(), "sample,y\ns1,1\ns9,2\n,3\n")
    np.testing.assert_array_equal(samples.columns["y"], [1, np.nan, np.nan])
    assert samples.notes == (
        "labels.csv: joined by column 'sample', 1 of 3 sets found.",
        "no row in labels.csv for 2 of 3 sets: s2, s3.",
        "labels.csv has 1 row for sets that have no data: s9.",
        "labels.csv has 1 row without the name of a set.",
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


def test_what_only_one_of_data_and_labels_knows_is_no_contradiction(join):
    given = make_samples(old=["p", None, "r"], age=[30.0, np.nan, 50.0])
    samples = join(given, "sample,old,age\ns1,p,30\ns2,q,\n")
    assert samples.columns["old"].tolist() == ["p", "q", "r"]
    np.testing.assert_array_equal(samples.columns["age"], [30, np.nan, 50])
    assert join(make_samples(old=["1", "2", "3"]), "sample,old\ns2,2\n").columns["old"].tolist() == ["1", "2", "3"]


def test_no_file_and_no_table_are_told(tmp_path, join):
    with pytest.raises(MissingDataError, match="expected a table of labels, found no such file"):
        join_labels(make_samples(), tmp_path / "none.csv")
    with pytest.raises(DataError, match=r"found the suffix '.xlsx'"):
        join(make_samples(), "x", name="labels.xlsx")
    with pytest.raises(DataError, match=r"found the suffix '.txt'. If it is a table, rename it to .csv"):
        join(make_samples(), "x", name="labels.txt")


def test_numbers_with_separators_are_told(join):
    samples = join(make_samples(), 'sample,titer\ns1,"1,410"\ns2,900\n')
    assert samples.columns["titer"].tolist() == ["1,410", "900", None]
    assert "labels.csv: column 'titer' is taken for words: numbers have separators, such as '1,410'." in samples.notes


def test_a_column_of_labels_is_no_feature_of_a_long_table_unless_it_is_named(tmp_path):
    rng = np.random.default_rng(0)
    cells = pd.DataFrame({"sample": np.repeat(["s1", "s2", "s3"], 4), "a": rng.normal(size=12), "titer": rng.normal(size=12)})
    cells.to_csv(tmp_path / "cells.csv", index=False)
    pd.DataFrame({"sample": ["s1", "s2", "s3"], "titer": [1.0, 2.0, 3.0]}).to_csv(tmp_path / "labels.csv", index=False)

    def join(**options):
        samples = open_samples(tmp_path / "cells.csv", set_id="sample", cache_dir=tmp_path / "cache", **options)
        return join_labels(samples, tmp_path / "labels.csv")

    with pytest.raises(DataError, match=r"no features of the data, found titer among them.*features=.*ignore=\['titer'\]"):
        join()
    assert join(ignore=["titer"]).columns["titer"].tolist() == [1, 2, 3]
    assert join(features=["a", "titer"]).features == ("a", "titer")


@pytest.mark.parametrize(
    "ids", [("d1", "d1 "), ("1", "1.0"), ("s1.fcs", "s1.FCS"), ("s1", "s1.csv"), ("a/s1.fcs", "b/s1.fcs")], ids=str
)
def test_one_row_of_labels_is_never_for_two_sets(join, ids):
    with pytest.raises(DataError, match="names of sets that differ in more than") as error:
        join(make_samples((*ids, "x")), f"sample,y\n{ids[0]},1\nx,0\n")
    assert all(repr(name) in str(error.value) for name in ids)


def test_a_column_that_counts_rows_does_not_win_over_one_that_lacks_a_set(join):
    """The owner numbered the rows; of one sample the label is not there yet."""
    text = "id,specimen,ill\n1,3,yes\n2,1,no\n3,4,yes\n4,99,no\n"
    with pytest.raises(DataError, match=r"several that would do, and differ: id, specimen\. Name it with id_column"):
        join(make_samples(("1", "2", "3", "4")), text)
    joined = join(make_samples(("1", "2", "3", "4")), text, id_column="specimen")
    assert joined.columns["ill"].tolist() == ["no", None, "yes", "yes"]


@pytest.mark.parametrize(
    ("name", "other"), [("well", "age"), ("sample", "batch"), ("mouse", "littermate"), ("run", "age_months"), ("id", "score")]
)
def test_a_column_that_names_all_sets_is_not_refused_for_numbers_that_happen_to_match(join, name, other):
    numbers = [2, 1, 4, 7]  # three of them are called as a set is
    text = f"{name},{other}\n" + "".join(f"{row},{number}\n" for row, number in enumerate(numbers, 1))
    assert join(make_samples(("1", "2", "3", "4")), text).columns[other].tolist() == numbers


def test_names_of_twenty_digits_keep_all_of_them(join):
    names = [f"2760000000000000010{n // 2}" for n in range(4)]
    samples = join(
        make_samples(("s1", "s2", "s3", "s4")),
        "sample,patient,titer\n" + "".join(f"s{n + 1},{name},{10.0**20 * n:e}\n" for n, name in enumerate(names)),
    )
    assert samples.columns["patient"].tolist() == names
    assert samples.columns["titer"].tolist() == [0.0, 1e20, 2e20, 3e20]  # an amount


def test_whole_numbers_with_leading_zeros_are_words_as_they_are_written(join):
    text = "sample,grp,patient,temp,share,n\ns1,01,005,-05,00.5,1\ns2,02,,03,01.0,2\ns3,01,012,04,02.0,3\n"
    samples = join(make_samples(), text)
    assert samples.columns["grp"].tolist() == ["01", "02", "01"]
    assert samples.columns["patient"].tolist() == ["005", None, "012"]
    assert samples.columns["temp"].tolist() == [-5, 3, 4], "with a sign it is an amount"
    assert samples.columns["share"].tolist() == [0.5, 1.0, 2.0], "with a point it is an amount"
    assert samples.columns["n"].tolist() == [1, 2, 3]
    told = "labels.csv: taken for words, because whole numbers in them have leading zeros: grp, patient."
    assert samples.notes[1:] == (told,)


def test_numbers_of_parquet_stay_numbers_and_agree_with_codes_of_labels(tmp_path, join):
    pd.DataFrame({"sample": ["s1", "s2"], "n": [1, 2], "code": ["01", "02"]}).to_parquet(tmp_path / "labels.parquet")
    samples = join_labels(make_samples(["s1", "s2"]), tmp_path / "labels.parquet")
    assert samples.columns["n"].tolist() == [1, 2]
    assert samples.columns["code"].tolist() == ["01", "02"]
    again = join(samples, "sample,n,code\ns1,01,1\ns2,02,2\n")
    assert again.columns["n"].tolist() == [1, 2]
    assert again.columns["code"].tolist() == ["01", "02"]
    with pytest.raises(DataError, match=r"found '03' for set 's2', where the data say 2"):
        join(samples, "sample,n\ns1,01\ns2,03\n")


def test_codes_of_labels_fill_gaps_of_numbers_in_one_spelling(join):
    samples = join(make_samples(["s1", "s2"], site=[1.0, np.nan]), "sample,site\ns1,01\ns2,02\n")
    assert samples.columns["site"].tolist() == ["01", "02"]
