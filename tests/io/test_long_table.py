"""Long tables: which columns are features, what is known per set, and what is wrong with a table, in one line."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orderless.io import DataError, open_samples
from orderless.io.samples import Varies

TABLE = """sample,a,b,site,age,batch
s1,1.5,2,north,30,x
s2,0.5,1,south,41,x
s1,2.5,3,north,30,y
s2,1.0,1,south,41,x
"""


@pytest.fixture
def read(tmp_path):
    def read(text, *, name="table.csv", set_id="sample", **options):
        (tmp_path / name).write_text(text)
        return open_samples(tmp_path / name, set_id=set_id, cache_dir=tmp_path / "cache", **options)

    return read


def test_numbers_that_vary_are_features_and_constants_are_known_per_set(read):
    samples = read(TABLE)
    assert samples.features == ("a", "b")
    assert samples.columns["site"].tolist() == ["north", "south"]
    assert samples.columns["age"].tolist() == [30, 41]
    assert set(samples.columns) == {"site", "age"}
    assert samples[0].tolist() == [[1.5, 2.0], [2.5, 3.0]]
    assert "constant within every set, so known per set and no feature: site, age." in samples.notes
    assert "left out, because they hold text that differs within sets: batch." in samples.notes


def test_chosen_features_come_in_the_order_asked_for(read):
    samples = read(TABLE, features=["age", "a"])
    assert samples.features == ("age", "a")
    assert samples[1].tolist() == [[41.0, 0.5], [41.0, 1.0]]
    assert set(samples.columns) == {"site"}
    assert samples.origin == {"kind": "CSV", "options": {"set_id": "sample", "features": ["age", "a"], "missing": "error"}}


def test_ignored_columns_are_nowhere(read):
    samples = read(TABLE, ignore=["b", "age"])
    assert samples.features == ("a",)
    assert set(samples.columns) == {"site"}


def test_sets_of_one_element_take_all_numbers_as_features_and_say_so(read):
    samples = read("sample,a,b,site\ns1,1,5,n\ns2,2,6,s\n")
    assert samples.features == ("a", "b")
    assert samples.columns["site"].tolist() == ["n", "s"]
    assert "every set has one element, so every column of numbers is taken as a feature: a, b." in samples.notes
    assert read("sample,a,b,site\ns1,1,5,n\ns2,2,6,s\n", ignore=["b"]).features == ("a",)


def test_the_order_of_rows_does_not_change_the_order_of_sets(read):
    text = "sample,a\n10,1\n2,2\n10,3\n2,4\n"
    assert read(text).ids == ("2", "10")
    lines = text.splitlines()
    assert read("\n".join([lines[0], *lines[:0:-1]])).ids == ("2", "10")


def test_names_of_sets_stay_as_they_are_written(read):
    assert read("sample,a\n007,1\n007,2\n08,2\n08,3\n").ids == ("007", "08")


def test_whole_numbers_as_floats_are_names_without_decimals(tmp_path):
    pq.write_table(pa.table({"sample": [1.0, 2.0, 1.0], "a": [1, 2, 3]}), tmp_path / "t.parquet")
    assert open_samples(tmp_path / "t.parquet", set_id="sample", cache_dir=tmp_path).ids == ("1", "2")


def test_large_whole_numbers_known_per_set_are_exact(read):
    patients = [2**60 + 1, 2**60 + 3]
    samples = read(f"sample,a,patient\ns1,1,{patients[0]}\ns1,2,{patients[0]}\ns2,3,{patients[1]}\n")
    assert samples.columns["patient"].tolist() == patients


def test_missing_values_known_per_set_stay_missing(read):
    samples = read("sample,a,age,site\ns1,1,,\ns1,2,,\ns2,3,50,west\ns2,4,50,west\n")
    np.testing.assert_array_equal(samples.columns["age"], [np.nan, 50])
    assert samples.columns["site"].tolist() == [None, "west"]


def test_a_column_that_turns_out_wider_is_read_again(read, monkeypatch):
    monkeypatch.setattr("orderless.io.tables._BLOCK", 32)  # types are told from the first rows only
    rows = [f"s{i % 2},{i},{i}\n" for i in range(20)] + ["s1,0.5,x\n"]
    samples = read("sample,a,b\n" + "".join(rows), ignore=["b"])
    assert samples[1][-1].tolist() == [0.5]
    with pytest.raises(DataError, match=r"expected numbers in column 'b', found the text 'x' in row 21.*ignore=\['b'\]"):
        read("sample,a,b\n" + "".join(rows))


def test_a_feature_that_was_asked_for_may_turn_out_wider(read, monkeypatch):
    monkeypatch.setattr("orderless.io.tables._BLOCK", 32)
    rows = [f"s{i % 2},{i},{i}\n" for i in range(20)] + ["s1,0.5,x\n"]
    assert read("sample,a,b\n" + "".join(rows), features=["a"])[1][-1].tolist() == [0.5]
    with pytest.raises(DataError, match=r"expected numbers in column 'b', found the text 'x' in row 21\. A feature must be"):
        read("sample,a,b\n" + "".join(rows), features=["b"])


def test_text_in_a_feature_is_named_with_its_row(read):
    with pytest.raises(DataError, match=r"expected numbers in column 'site', found the text 'north' in row 1\. A feature must"):
        read(TABLE, features=["a", "site"])
    spoilt = TABLE.replace("1.0,1,south", "oops,1,south")
    with pytest.raises(DataError, match=r"expected numbers in column 'a', found the text 'oops' in row 4. Correct the table"):
        read(spoilt)
    assert read(spoilt, ignore=["a"]).features == ("b",)


@pytest.mark.parametrize(
    ("lines", "text", "row"),
    [
        (["sample,a,b", 's1,1,"950"', 's1,2,"1,007"', 's2,3,"2,400"'], "1,007", 2),
        (["sample;a;b", "s1;1,5;950,25", "s1;2;1.410,80", "s2;3;1.007,5"], "1.410,80", 2),
        (["sample;a;b", *["s1;0.5;3"] * 30, "s2;1;0,5", "s2;2;1"], "0,5", 31),
        (["sample;a;b", "s1;1,5;1,5", "s1;2;oops", "s2;3;2,5", "s2;3;3,5"], "oops", 2),
    ],
    ids=["thousands", "thousands with points", "a late decimal comma", "a slip among decimal commas"],
)
def test_numbers_with_separators_are_named_and_not_left_out(read, lines, text, row):
    with pytest.raises(DataError, match=f"expected numbers in column 'b', found the text '{text}' in row {row}\\.") as raised:
        read("\n".join(lines))
    assert ("Write numbers without separators" in raised.value.fix) == (text != "oops")
    assert read("\n".join(lines), ignore=["b"]).features == ("a",)


def test_numbers_with_separators_that_are_known_per_set_are_told(read):
    samples = read('sample,a,titer\ns1,1,"1,410"\ns1,2,"1,410"\ns2,1,20\n')
    assert samples.columns["titer"].tolist() == ["1,410", "20"]
    assert "column 'titer' is taken for words: numbers in it have separators, such as '1,410'." in samples.notes


def test_numbers_that_parquet_says_are_text_are_left_out(tmp_path):
    table = {"sample": ["s", "s", "s"], "a": [1.0, 2.0, 3.0], "cell": ["01", "02", "03"]}
    pq.write_table(pa.table(table), tmp_path / "t.parquet")
    samples = open_samples(tmp_path / "t.parquet", set_id="sample", cache_dir=tmp_path)
    assert samples.features == ("a",)
    assert "left out, because they hold text that differs within sets: cell." in samples.notes
    pq.write_table(pa.table({**table, "cell": ["1", "2", "x"]}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match="expected numbers in column 'cell', found the text 'x' in row 3"):
        open_samples(tmp_path / "t.parquet", set_id="sample", cache_dir=tmp_path)


def test_measurements_that_parquet_says_are_text_are_not_left_out(tmp_path):
    pq.write_table(pa.table({"sample": ["s"] * 3, "a": [1.0, 2.0, 3.0], "CD4": ["0.5", "-1", "2"]}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match="expected numbers in column 'CD4', found numbers written as text"):
        open_samples(tmp_path / "t.parquet", set_id="sample", cache_dir=tmp_path)


@pytest.mark.parametrize("text", ["5%", "7.5 %", "\u22120.25"], ids=["percent", "percent with a space", "minus sign"])
def test_numbers_with_another_sign_are_named_and_not_left_out(read, text):
    with pytest.raises(DataError, match=f"expected numbers in column 'b', found the text '{text}' in row 1"):
        read(f"sample,a,b\ns1,1,{text}\ns1,2,1{text.lstrip(chr(0x2212))}\ns2,3,{text}\n")


def test_no_set_id_lists_the_columns_and_suggests_one(read):
    with pytest.raises(DataError, match=r"found none given, and columns sample, a, b, site, age, batch. Perhaps set_id='sample'"):
        read(TABLE, set_id=None)


@pytest.mark.parametrize(
    ("header", "fix"),
    [
        ("CD3,CD4,who", "Perhaps set_id='who'."),
        ("CD3,subset,PatientID", "Perhaps set_id='PatientID'."),
        ("CD3,cell_id,sample id", "Perhaps set_id='sample id'."),
        ("CD3,Well", "Perhaps set_id='Well'."),
        ("CD3,CD4", "Add such a column, or put a file for each set into a folder."),
        ("sample,cell_id", "Add such a column, or put a file for each set into a folder."),
    ],
)
def test_measurements_are_not_suggested_as_names_of_sets(read, header, fix):
    names = header.split(",")
    row = ",".join(
        {"who": "x", "Well": "3", "PatientID": "7", "sample id": "8", "cell_id": "1", "subset": "2"}.get(n, "0.5") for n in names
    )
    with pytest.raises(DataError) as raised:
        read(f"{header}\n{row}\n", set_id=None)
    assert raised.value.fix == fix


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"set_id": "smaple"}, r"expected a column 'smaple' \(set_id=\), found columns sample.*Did you mean 'sample'"),
        ({"features": ["qq", "a", "zz"]}, r"expected columns 'qq', 'zz' \(features=\), found columns sample.*Choose of these"),
        ({"features": ["Age"]}, r"expected a column 'Age' \(features=\).*Did you mean 'age'"),
        ({"ignore": ["zzz"]}, r"expected a column 'zzz' \(ignore=\).*Choose one of these"),
        ({"features": ["a", "sample"]}, "expected features other than the set id, found 'sample' as both"),
        ({"features": ["a", "a"]}, "'a' more than once"),
        ({"features": []}, "features must be names that differ, at least one; got none"),
    ],
    ids=["set id", "features", "feature", "ignored", "both", "twice", "none"],
)
def test_names_that_will_not_do_are_told(read, options, message):
    with pytest.raises(ValueError, match=message):
        read(TABLE, **options)


def test_rows_without_a_set_are_counted(read):
    with pytest.raises(DataError, match=r"expected a set in column 'sample' of every row, found none in 2 rows, .* row 2"):
        read("sample,a\ns1,1\n,2\n,3\n")


def test_a_table_without_rows_or_features_is_refused(read):
    with pytest.raises(DataError, match="expected a table with rows, found none"):
        read("sample,a\n")
    with pytest.raises(DataError, match="expected a column of numbers that varies within some set, found columns sample, a"):
        read("sample,a\ns1,x\ns1,y\n")


def test_a_column_that_only_counts_rows_is_left_out(tmp_path):
    frame = pd.DataFrame({"sample": ["s", "s"], "a": [1.0, 2.0]})
    frame.to_csv(tmp_path / "t.csv")
    samples = open_samples(tmp_path / "t.csv", set_id="sample", cache_dir=tmp_path)
    assert samples.features == ("a",)
    assert "a column without a name was left out: it counts the rows." in samples.notes


@pytest.mark.parametrize("block", [64, 2**24], ids=["in small blocks", "at once"])
@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([""] * 40, "it is empty, as after a delimiter at the end of every line."),
        ([*[""] * 39, "7"], "give it a name if it is to be read."),
        (["x", "y"] * 20, "give it a name if it is to be read."),
        ([0.5, 2] * 20, "give it a name if it is to be read."),
        (range(1, 41), "it counts the rows."),
    ],
    ids=["empty", "nearly empty", "words", "numbers", "an index"],
)
def test_a_column_without_a_name_is_said_to_be_what_it_is(read, monkeypatch, block, values, why):
    monkeypatch.setattr("orderless.io.tables._BLOCK", block)
    samples = read("sample,a,\n" + "".join(f"s{i % 2},{i * i / 4},{value}\n" for i, value in enumerate(values)))
    assert samples.features == ("a",)
    assert samples.notes == (f"a column without a name was left out: {why}",)


def test_a_name_of_a_set_with_a_nul_byte_is_refused(read):
    with pytest.raises(DataError, match=r"expected names of sets in column 'sample' without NUL bytes, found 's1\\x00'\. Remove"):
        read("sample,a\ns1,1\ns1\0,2\ns2,3\n")


@pytest.mark.parametrize("block", [64, 2**24], ids=["in small blocks", "at once"])
def test_a_named_column_that_counts_rows_is_left_out_unless_asked_for(read, monkeypatch, block):
    monkeypatch.setattr("orderless.io.tables._BLOCK", block)
    rows = [(name, i, k) for i, (name, k) in enumerate([("s1", k) for k in range(15)] + [("s2", k) for k in range(9)])]
    text = "sample,a,cell_id,place,b\n" + "".join(f"{name},{i * i / 4},{i + 100},{k},{i // 2}\n" for name, i, k in rows)
    samples = read(text)
    assert samples.features == ("a", "b")
    assert "left out, because they count the rows one by one: cell_id, place; features= takes them." in samples.notes
    assert read(text, features=["a", "cell_id"]).features == ("a", "cell_id")
    assert not [note for note in read(text, ignore=["cell_id", "place"]).notes if "count" in note]
    alone = read(text, ignore=["a", "b", "place"])
    assert alone.features == ("cell_id",)
    assert "a feature although it numbers the rows, as there is no other: cell_id." in alone.notes


@pytest.mark.parametrize("block", [64, 2**24], ids=["in small blocks", "at once"])
def test_an_index_of_which_rows_were_left_out_is_no_feature_unless_asked_for(read, monkeypatch, block):
    monkeypatch.setattr("orderless.io.tables._BLOCK", block)
    rng = np.random.default_rng(0)
    kept = np.flatnonzero(rng.random(90) < 0.5)
    frame = pd.DataFrame(
        {"Unnamed: 0": rng.permutation(kept), "sample": kept // 30, "cell_id": kept, "a": rng.normal(size=len(kept))}
    )
    text = frame.to_csv(index=False)
    samples = read(text)
    assert samples.features == ("a",)
    assert "left out, because they go up with every row: cell_id; features= takes them." in samples.notes
    assert "left out, because they are called as an index is: Unnamed: 0; features= takes them." in samples.notes
    assert read(text, features=["Unnamed: 0", "cell_id"]).features == ("Unnamed: 0", "cell_id")


def with_outcome(slips=(), *, sets=12, shuffled=False):
    """A long table with an outcome in every row, and other ones in some rows, from 1."""
    rng = np.random.default_rng(0)
    rows = [[f"s{n}", x, n % 2] for n in range(sets) for x in rng.normal(size=5).round(3)]
    for row, value in slips:
        rows[row - 1][2] = value
    if shuffled:
        rng.shuffle(rows)
    return "sample,a,ill\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)


@pytest.mark.parametrize("block", [64, 2**24], ids=["in small blocks", "at once"])
def test_an_outcome_with_a_slip_is_no_feature_unless_it_is_named(read, monkeypatch, block):
    monkeypatch.setattr("orderless.io.tables._BLOCK", block)
    assert read(with_outcome()).columns["ill"].tolist() == [0, 1] * 6
    spoilt = with_outcome([(7, 0)])
    with pytest.raises(DataError, match=r"column 'ill'.*1 of 12 sets in which it varies: set s1 \(1, and 0 in row 7\)") as raised:
        read(spoilt)
    assert raised.value.fix == (
        "Correct these rows, leave the column out with ignore=['ill'], or name the features with features=."
    )
    with pytest.raises(DataError, match="1 of 12 sets in which it varies: set s1 "):
        read(with_outcome([(7, 0)], shuffled=True))
    assert read(spoilt, ignore=["ill"]).features == ("a",)
    assert read(spoilt, features=["a", "ill"]).features == ("a", "ill")
    chosen = read(spoilt, features=["a"])
    assert "ill" not in chosen.columns
    assert chosen.varying == {"ill": Varies("set s1 (1, and 0 in row 7)", is_slip=True)}


def test_an_outcome_that_varies_within_more_sets_is_a_feature(read):
    assert read(with_outcome([(7, 0), (17, 0)])).features == ("a", "ill")


def test_where_columns_differ_within_sets_is_kept_when_the_store_is_opened_again(read):
    for _ in range(2):
        assert read(TABLE).varying["batch"] == Varies("set s1 ('x', and 'y' in row 3)")


def test_rows_of_several_files_are_told_with_their_file(tmp_path):
    lines = with_outcome([(7, 0)]).splitlines(keepends=True)
    for name, part in (("a.csv", lines[1:7]), ("b.csv", lines[7:])):
        (tmp_path / name).write_text(lines[0] + "".join(part))
    with pytest.raises(DataError, match=r"set s1 \(1, and 0 in row 1 of b\.csv\)"):
        open_samples(tmp_path, set_id="sample", cache_dir=tmp_path / "cache")


def test_two_columns_of_one_name_are_refused(read):
    with pytest.raises(DataError, match="expected columns with different names, found a more than once"):
        read("sample,a,a\ns1,1,2\n")


def test_every_type_of_number_is_a_feature_and_lists_are_not(tmp_path):
    table = pa.table(
        {
            "sample": pa.array(["s", "s"]).dictionary_encode(),
            "flag": [True, False],
            "small": pa.array([1, 2], pa.int8()),
            "half": pa.array(np.array([1, 2], np.float16)),
            "exact": pa.array([1, 2], pa.decimal128(5, 1)),
            "coded": pa.array([1.0, 2.0]).dictionary_encode(),
            "list": [[1], [2]],
            "day": pa.array([0, 0], pa.date32()),
        }
    )
    field = table.schema.field("small").with_metadata({"unit": "mm"})
    pq.write_table(table.cast(table.schema.set(2, field)), tmp_path / "t.parquet")
    samples = open_samples(tmp_path / "t.parquet", set_id="sample", cache_dir=tmp_path)
    assert samples.features == ("flag", "small", "half", "exact", "coded")
    assert samples.units == ("", "mm", "", "", "")
    assert samples[0].tolist() == [[1, 1, 1, 1, 1], [0, 2, 2, 2, 2]]
    assert samples.columns["day"].tolist() == ["1970-01-01"]
    assert "left out, because they hold neither numbers nor text: list." in samples.notes


@pytest.mark.parametrize(
    ("values", "kind"),
    [([b"a", b"a", b"b"], "binary"), ([["a"], ["a"], ["b"]], "list<element: string>")],
    ids=["bytes", "lists"],
)
def test_names_of_sets_that_are_neither_text_nor_numbers_are_refused(tmp_path, values, kind):
    pq.write_table(pa.table({"sample": values, "x": [1.0, 2.0, 3.0]}), tmp_path / "t.parquet")
    message = rf"expected text or numbers in column 'sample' \(set_id=\), found a column of type '{kind}'\. Write it as text"
    with pytest.raises(DataError, match=message):
        open_samples(tmp_path / "t.parquet", set_id="sample", cache_dir=tmp_path)


def test_text_of_every_type_is_known_per_set(tmp_path):
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        site = pa.array(["north", "north", "south"], kind)
        pq.write_table(pa.table({"sample": ["a", "a", "b"], "x": [1.0, 2.0, 3.0], "site": site}), tmp_path / "t.parquet")
        samples = open_samples(tmp_path / "t.parquet", set_id="sample", cache_dir=tmp_path)
        assert samples.columns["site"].tolist() == ["north", "south"]


def test_a_column_of_every_name_can_be_known_per_set(read):
    samples = read("sample,a,elements,sizes,id,split\ns1,1,p,2,3,q\ns1,2,p,2,3,q\n")
    assert {name: values.tolist() for name, values in samples.columns.items()} == {
        "elements": ["p"], "sizes": [2], "id": [3], "split": ["q"],
    }  # fmt: skip


def write_lines(folder, *lines, name="cells.csv"):
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


def test_a_comma_that_may_be_of_thousands_is_no_decimal_point(tmp_path):
    path = write_lines(tmp_path, "sample;CD3", "s1;1,702", "s1;546", "s2;2,003", "s2;12")
    with pytest.raises(DataError, match="1,702"):
        open_samples(path, set_id="sample", cache_dir=tmp_path)
    told = write_lines(tmp_path, "sample;CD3", "s1;1,702", "s1;0,546", "s2;2,003", "s2;12", name="told.csv")
    np.testing.assert_allclose(open_samples(told, set_id="sample", cache_dir=tmp_path).sets.gather([0])[:, 0], [1.702, 0.546])


def test_numbers_with_points_beside_decimal_commas_are_an_error_and_not_text(tmp_path):
    path = write_lines(tmp_path, "sample;CD3;CD16", "s1;-0,13;0.64", "s1;0,2;0.1", "s2;0,3;0.7", "s2;0,5;0.2")
    with pytest.raises(DataError, match=r"numbers with a point in column 'CD16', such as '0\.64', beside decimal commas"):
        open_samples(path, set_id="sample", cache_dir=tmp_path)


def test_decimal_commas_are_known_between_tabs(tmp_path):
    path = write_lines(tmp_path, "sample\tCD3", "s1\t0,5", "s1\t1,25", "s2\t2,5", "s2\t3", name="cells.tsv")
    np.testing.assert_allclose(open_samples(path, set_id="sample", cache_dir=tmp_path).sets.gather([0])[:, 0], [0.5, 1.25])


def test_a_set_with_rows_in_several_files_is_told_since_it_may_be_two_samples_of_one_name(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    write_lines(folder, "sample,CD3", "1,0.5", "1,1.5", "2,2.5", name="bern.csv")
    write_lines(folder, "sample,CD3", "3,0.5", "3,1.5", name="basel.csv")
    apart = open_samples(folder, set_id="sample", cache_dir=tmp_path / "cache")
    assert not [note for note in apart.notes if "more than one file" in note]
    write_lines(folder, "sample,CD3", "2,0.5", "1,1.5", "4,1.5", name="chur.csv")
    samples = open_samples(folder, set_id="sample", cache_dir=tmp_path / "cache")
    assert samples.sizes.tolist() == [3, 2, 2, 1]
    assert (
        "rows in more than one file: 2 of 4 sets, first 2 (bern.csv and chur.csv). Each is one set all the same. If two samples "
        "have one name, rename one of them." in samples.notes
    )


CODES = "sample,a,channel,site,age,visit\ns1,1.5,01,01,30,1\ns2,0.5,02,02,41,01\ns1,2.5,02,01,30,01\ns2,1.0,03,02,41,01\n"


def test_whole_numbers_with_leading_zeros_are_words_where_they_are_of_sets(read):
    samples = read(CODES)
    assert samples.features == ("a", "channel"), "what varies is a number, however it is written"
    assert samples[0].tolist() == [[1.5, 1.0], [2.5, 2.0]]
    assert samples.columns["site"].tolist() == ["01", "02"]
    assert samples.columns["age"].tolist() == [30, 41]
    assert samples.columns["visit"].tolist() == [1, 1], "it is the same within s1 as a number alone"
    assert "taken for words, because whole numbers in them have leading zeros: site." in samples.notes
    assert read(CODES, features=["site"])[1].tolist() == [[2.0], [2.0]]


def test_leading_zeros_are_seen_however_far_down_and_in_whichever_part(tmp_path, monkeypatch):
    monkeypatch.setattr("orderless.io.tables._BLOCK", 64)  # bytes
    rows = [f"s{i},{i}.5,{site}\ns{i},{i}.25,{site}\n" for i, site in enumerate([*range(10, 30), "007"])]
    (tmp_path / "table.csv").write_text("sample,a,site\n" + "".join(rows))
    samples = open_samples(tmp_path / "table.csv", set_id="sample", cache_dir=tmp_path / "cache")
    assert samples.columns["site"].tolist() == [*map(str, range(10, 30)), "007"]
    (tmp_path / "parts").mkdir()
    for name, part in (("1.csv", rows[:20]), ("2.csv", rows[20:])):
        (tmp_path / "parts" / name).write_text("sample,a,site\n" + "".join(part))
    samples = open_samples(tmp_path / "parts", set_id="sample", cache_dir=tmp_path / "cache")
    assert samples.columns["site"].tolist() == [*map(str, range(10, 30)), "007"]


def test_codes_are_no_features_where_every_set_has_one_row(read):
    samples = read("sample,a,site,n\ns1,1.5,01,1\ns2,0.5,02,2\ns3,1.0,01,4\n")
    assert samples.features == ("a", "n")
    assert samples.columns["site"].tolist() == ["01", "02", "01"]
