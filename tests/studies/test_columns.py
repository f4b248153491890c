"""Columns of sets: the target, groups, covariates (`columns.py`)."""

import numpy as np
import pytest

from orderless.estimators import guess_objective
from orderless.io.samples import Varies
from orderless.studies.columns import (
    check_column,
    count_classes,
    find_group,
    known,
    looks_like_a_group,
    read_covariates,
    read_groups,
    read_target,
    refuse_amounts_as_words,
    refuse_groups_as_covariates,
)

PEOPLE = [
    "patient",
    "Patient ID",
    "donor",
    "subject_id",
    "SubjectID",
    "individual",
    "participant.no",
    "case_id",
    "pid",
    "study_donor",
    "Patienten-Nr",
    "PatientenID",
    "Patientennummer",
    "PatID",
    "Fallnummer",
    "record_id",
    "Spender",
    "Numéro patient",
    "num_patient",
    "N° patient",
    "id_sujet",
    "Pseudonym",
    "pseudonym_id",
]
OTHERS = [
    "patient_age",
    "case",
    "record",
    "cd3",
    "site",
    "donor_sex",
    "batch",
    "condition",
    "subjective",
    "personality",
    "new_patient",
    "isPatient",
    "healthy donor",
    "num_patients",
    "n_donors",
    "no. of subjects",
    "pat",
    "patch_id",
    "pathname",
]


@pytest.mark.parametrize("name", PEOPLE)
def test_a_column_of_people_is_known_by_its_name(name):
    assert looks_like_a_group(name)


@pytest.mark.parametrize("name", OTHERS)
def test_other_columns_are_no_groups(name):
    assert not looks_like_a_group(name)


def read(column, name, task):
    return read_target(column, name, task, guess_objective, [f"s{n}" for n in range(len(column))])


def words(*values):
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def test_a_group_is_a_column_of_people_whose_values_repeat():
    columns = {"patient": words(*"aabbcc"), "donor": words(*"abcdef"), "site": words(*"xxyyzz")}
    name, why = find_group(columns, but=())
    assert name == "patient"
    assert "3 values over 6 sets" in why
    name, why = find_group(columns, but=["patient"])
    assert (name, why) == (None, "none: donor is another one in each of 6 sets, so every set stands for itself")
    assert find_group({"patient": words(*"aaaa")}, but=()) == (None, ""), "one group is none"


def test_two_values_are_a_yes_and_a_no_and_no_group_and_that_is_said():
    columns = {"patient": words("yes", "no", "yes", "no"), "donor": np.array([True, False, True, True])}
    name, why = find_group(columns, but=())
    assert name is None
    assert "patient has two values only" in why
    assert "--group patient" in why
    assert find_group({**columns, "subject": words(*"abca")}, but=())[0] == "subject"


def test_of_several_groups_the_coarsest_is_taken():
    columns = {"patient": words(*"aabcd"), "family": words(*"fffgh")}
    name, why = find_group(columns, but=())
    assert name == "family"
    assert "patient looks like one, too" in why
    same = {"patient_id": words(*"aabc"), "patient_name": words(*"xxyz")}
    assert find_group(same, but=())[0] == "patient_id"


def test_a_plain_name_goes_before_a_longer_one_though_that_has_fewer_values():
    columns = {"referring_person": words(*"xyzxyz"), "Patient ID": words(*"aabbcd")}
    name, why = find_group(columns, but=())
    assert name == "Patient ID"
    assert "referring_person looks like one, too" in why


def test_groups_that_do_not_lie_within_each_other_are_asked_about():
    columns = {"patient": words(*"aabbcd"), "donor": words(*"xyzxyz")}
    with pytest.raises(ValueError, match=r"donor \(3 values\) and patient \(4 values\) both look like groups.*--group patient"):
        find_group(columns, but=())


def test_a_group_that_is_not_known_for_a_set_is_an_error_that_names_it():
    with pytest.raises(ValueError, match="patient is not known for 1 of 2 sets: s1"):
        read_groups(words("a", None), "patient", ["s0", "s1"])


def test_a_group_in_two_spellings_is_found_and_refused():
    slips = words("p1", "p1 ", "p2", "P2", "p3", "p3")
    assert find_group({"patient": slips}, but=())[0] == "patient"
    assert find_group({"patient": words(*(f"p{n // 2}{' ' * (n % 2)}" for n in range(8)))}, but=())[0] == "patient"
    says = r"the group patient has values that differ only by case or spaces: 'p2' in 1 set, but 'P2' \(s3\)\. Write them alike"
    with pytest.raises(ValueError, match=says):
        read_groups(slips, "patient", [f"s{n}" for n in range(6)])
    assert read_groups(words("p1", "p10", "p-1", "p 1"), "patient", "abcd").tolist() == ["p1", "p10", "p-1", "p 1"]


@pytest.mark.parametrize(
    ("one", "other", "says"),
    [
        (
            "Jos\u00e9{}",
            "Jose\u0301{}",
            r"only by characters that look alike or are not seen: 'Jos\\xe90' in 1 set, but 'Jose\\u03010'",
        ),
        ("p{}", "p{}\u200b", r"only by characters that look alike or are not seen: 'p0\\u200b' in 1 set, but 'p0' \(s0\)"),
        ("P{}", "P00{}", r"only by leading zeros: 'P000' in 1 set, but 'P0' \(s0\)"),
        ("p{}", "P00{}", r"only by capitals and leading zeros: 'p0' in 1 set, but 'P000' \(s1\)"),
        ("{}", "{}.0", r"only by decimals: '0.0' in 1 set, but '0' \(s0\)"),
    ],
    ids=["encodings", "what is not seen", "zeros", "capitals and zeros", "decimals"],
)
def test_a_group_that_looks_the_same_is_found_and_refused(one, other, says):
    column = words(*((other if n % 2 else one).format(n // 2) for n in range(8)))
    assert find_group({"patient": column}, but=())[0] == "patient"
    with pytest.raises(ValueError, match=says):
        read_groups(column, "patient", [f"s{n}" for n in range(8)])


def test_a_group_with_other_dashes_is_kept_apart_but_is_a_group():
    column = words(*(f"p{'-_'[n % 2]}{n // 2}" for n in range(8)))
    assert find_group({"patient": column}, but=())[0] == "patient"
    assert len(set(read_groups(column, "patient", "abcdefgh").tolist())) == 8


def test_slips_of_one_group_do_not_hide_that_another_lies_within_it():
    columns = {"patient": words("a", "A ", "b", "b", "c", "d"), "family": words("f", "f", "F", "f", "g", "h")}
    assert find_group(columns, but=())[0] == "family"


def test_a_covariate_that_says_who_a_set_is_of_is_refused():
    columns = {"patient": words(*"aabbcc"), "donor": words(*"ynynyn"), "age": np.arange(6)}
    with pytest.raises(ValueError, match=r"--covariates patient: .* \(3 values over 6 sets\).* Leave it out.*--group patient"):
        refuse_groups_as_covariates(columns, ["age", "patient"])
    refuse_groups_as_covariates(columns, ["age", "donor"])  # a yes and a no


def test_missing_values_are_none_nan_and_blank_text():
    assert known(words("a", None, " ", "b")).tolist() == [True, False, False, True]
    assert known(np.array([0.0, np.nan])).tolist() == [True, False]


def test_an_unknown_column_is_an_error_with_the_one_that_may_be_meant():
    columns = {"CMV": np.zeros(2), "age": np.zeros(2)}
    with pytest.raises(ValueError, match=r"--target cmv: there is no such column of sets\. Is it 'CMV'\? Known per set: CMV"):
        check_column(columns, "cmv", "--target")
    with pytest.raises(ValueError, match=r"Is it 'Ill '\? Known per set: 'Ill ', age"):
        check_column({"Ill ": np.zeros(2), "age": np.zeros(2)}, "Ill", "--target")
    with pytest.raises(ValueError, match="Nothing is known per set: give --labels FILE"):
        check_column({}, "cmv", "--target")


def test_a_name_that_was_cut_at_its_comma_is_told_how_to_write():
    with pytest.raises(ValueError, match=r"""no such column.* --covariates '"age, years"'\."""):
        check_column({"age, years": np.arange(3)}, "age", "--covariates")


def test_a_column_that_is_there_but_differs_within_sets_is_told_with_the_first_of_them():
    varying = {"ill": Varies("set s1 ('no', and 'yes' in row 6)")}
    says = r"--target ill: it is not known per set.* first in set s1 \('no', and 'yes' in row 6\)\. Correct.*--labels FILE"
    with pytest.raises(ValueError, match=says):
        check_column({"age": np.zeros(2)}, "ill", "--target", varying)
    with pytest.raises(ValueError, match="--covariates ill: it is not known per set"):
        read_covariates({"age": np.zeros(2)}, ["age", "ill"], ["a", "b"], varying)


def test_whole_numbers_of_a_table_with_gaps_are_classes_without_decimals():
    y, objective, reason = read(np.array([0.0, 1.0, 1.0, 0.0]), "cmv", "auto")
    assert (y.tolist(), objective, reason) == ([0, 1, 1, 0], "classification", "2 different values")
    assert y.dtype == np.int64
    assert count_classes(y) == {"0": 2, "1": 2}


def test_words_are_classes_and_fractions_are_numbers():
    assert read(words("yes", "no", "yes"), "ill", "auto")[1] == "classification"
    assert read(np.array([0.5, 1.5, 2.25]), "score", "auto")[1] == "regression"
    assert read(np.array([0.5, 1.5, 0.5]), "score", "classification")[2] == "as asked for"


def test_grades_of_which_the_last_is_open_are_classes():
    column = words("0", "1", "2", ">2", "0", "1", ">2", ">2")
    assert read(column, "nodes", "auto")[0].tolist() == column.tolist()


DATES = [f"2020-03-{day:02d}" for day in range(1, 13)]
PERCENTS = [f"{share} %" for share in range(12)]
COMMAS = [f"{number},25" for number in range(12)]
CODES = [f"{number:03d}" for number in range(12)]
STORED_AS_TEXT = [f"{number}.5" for number in range(-6, 6)]
AGES = [f"{age}" for age in range(30, 42)]

WRONG = {
    "one class": (words("yes", "yes"), "auto", "one class only, yes, in all 2 sets"),
    "words as numbers": (words("yes", "no"), "regression", "--task regression needs numbers, but t holds words, such as 'yes'"),
    "words among numbers": (
        words(*map(str, range(30)), "n/a?", "missing"),
        "auto",
        r"t is a number in 30 of 32 sets, and a word in 2: 'n/a\?' \(s30\), 'missing' \(s31\)\. Correct these cells or leave",
    ),
    "a limit of detection": (
        words("0.5", "1.5", "0.7", "<0.3", "<0.3", "<0.3"),
        "auto",
        r"a number in 3 of 6 sets, and a word in 3: '<0\.3' \(s3\)",
    ),
    "a word in exactly one of ten": (words(*"012345678012345678", "nd", "nd"), "auto", r"a word in 2: 'nd' \(s18\)"),
    "a word in one set among two numbers": (words(*"0110100110", "unknown"), "auto", r"a word in 1: 'unknown' \(s10\)"),
    "a word among numbers": (words(*map(str, range(30)), "n/a?"), "regression", r"a word in 1: 'n/a\?' \(s30\)"),
    "a number before words": (words("1.5", "low", "high"), "regression", "t holds words, such as 'low'"),
    "a class in three spellings": (
        words("ill", "ill", "ILL", "Ill ", "well"),
        "auto",
        r"differ only by case or spaces: 'ill' in 2 sets, but 'ILL' \(s2\), 'Ill ' \(s3\)\. Write them alike",
    ),
    "a class in two encodings": (
        words("Jos\u00e9", "Jose\u0301", "b"),
        "auto",
        "differ only by characters that look alike or are",
    ),
    "dates": (
        words(*DATES),
        "auto",
        "t holds dates, such as '2020-03-01', which would be 12 words without an order. Give a number",
    ),
    "percents": (
        words(*PERCENTS),
        "auto",
        r"t holds numbers with '%' behind them, such as '0 %'.*--task classification takes each",
    ),
    "decimal commas": (words(*COMMAS), "auto", "t holds numbers with a decimal comma or another sign, such as '0,25'"),
    "numbers as text": (words(*STORED_AS_TEXT), "auto", "t holds numbers that the file has as text, such as '-1.5', which would"),
    "one number": (np.array([2.0, 2.0]), "regression", "t is 2 for all 2 sets"),
    "infinite": (np.array([2.5, np.inf, 1.0]), "regression", r"infinite in 1 of 3 sets \(first in set '"),
    "infinite, by itself": (np.array([2.5, np.inf, 1.25]), "auto", "infinite in 1 of 3 sets"),
    "too large": (np.array([2.5, -2e300, 1.0]), "regression", r"beyond 1e\+150 in 1 of 3 sets \(first -2e\+300 in set"),
}


@pytest.mark.parametrize(("column", "task", "says"), WRONG.values(), ids=WRONG.keys())
def test_a_target_that_will_not_do_is_refused(column, task, says):
    with pytest.raises(ValueError, match=says):
        read(column, "t", task)


def test_classes_may_differ_in_leading_zeros():
    assert sorted(set(read(words("T1", "T01", "T1", "T01"), "stage", "auto")[0].tolist())) == ["T01", "T1"]


def test_few_codes_are_classes_as_they_are_written_and_many_are_numbers():
    few = words("010", "030", "040", "010", "030", "040")
    labels, task, why = read(few, "site", "auto")
    assert (labels.tolist(), task) == (few.tolist(), "classification"), "gaps between codes mean nothing"
    assert why == "3 different codes, written as 010"
    numbers, task, why = read(words("055", "170", "003", "101"), "score", "auto")
    assert (numbers.tolist(), task) == ([55.0, 170.0, 3.0, 101.0], "regression")
    assert why == "4 different codes, written as 055, are too many for classes"
    assert read(few, "site", "regression")[0].tolist() == [10.0, 30.0, 40.0, 10.0, 30.0, 40.0]


def test_one_number_with_and_without_zeros_is_a_slip():
    with pytest.raises(ValueError, match=r"classes that differ only by leading zeros: '01' in 4 sets, but '1' \(s8\)"):
        read(words(*["01", "02"] * 4, "1"), "grp", "auto")


@pytest.mark.parametrize(
    "values",
    [DATES, PERCENTS, COMMAS, STORED_AS_TEXT, AGES],
    ids=["dates", "percents", "decimal commas", "numbers as text", "ages as text"],
)
def test_amounts_among_covariates_are_refused_where_they_are_many(values):
    with pytest.raises(ValueError, match=r"the covariate c holds .* which would be 12 words without an order"):
        refuse_amounts_as_words(read_covariates({"c": words(*values)}, ["c"], values))
    refuse_amounts_as_words(read_covariates({"c": words(*values[:3])}, ["c"], values[:3]))  # days of batches, or grades
    assert read(words(*values), "t", "classification")[1] == "classification"


def test_codes_of_digits_are_no_amounts():
    refuse_amounts_as_words(read_covariates({"c": words(*CODES)}, ["c"], CODES))


def test_words_among_numbers_are_classes_where_the_user_says_so():
    y, objective, _ = read(words(*"0123456789", "other"), "digit", "classification")
    assert objective == "classification"
    assert len(set(y.tolist())) == 11


def test_a_slip_in_a_covariate_is_named():
    """One word among numbers would make a word of every number, and nothing of those that training did not have."""
    ids = [f"s{i}" for i in range(30)]
    ages = np.array([str(30 + i) for i in range(29)] + ["unknown"], dtype=object)
    with pytest.raises(ValueError, match=r"the covariate age is a number in 29 of 30 sets, and a word in 1: 'unknown' \(s29\)"):
        read_covariates({"age": ages}, ["age"], ids)
    sites = np.array(["A", "a", "A"] * 10, dtype=object)
    with pytest.raises(ValueError, match="the covariate site has values that differ only by case"):
        read_covariates({"site": sites}, ["site"], ids)
    dose = np.arange(30.0)
    dose[7] = np.inf
    with pytest.raises(ValueError, match="the covariate dose is infinite in 1 of 30 sets: s7"):
        read_covariates({"dose": dose}, ["dose"], ids)


def test_covariates_are_encoded_and_decoded_without_loss():
    columns = {"age": np.array([30, 40, 50]), "site": words("north", "south", "north")}
    table = read_covariates(columns, ["site", "age"], ["a", "b", "c"])
    assert table.encoded.tolist() == [[1, 0, 30], [0, 1, 40], [1, 0, 50]]
    assert table.decode(table.encoded).tolist() == table.values.tolist() == [["north", 30.0], ["south", 40.0], ["north", 50.0]]


def test_a_covariate_that_is_named_twice_is_refused():
    with pytest.raises(ValueError, match=r"--covariates must be names that differ, got age more than once\."):
        read_covariates({"age": np.zeros(2)}, ["age", "age"], ["a", "b"])


def test_a_missing_covariate_is_an_error_that_names_the_set():
    with pytest.raises(ValueError, match="covariate age is not known for 1 of 2 sets: b"):
        read_covariates({"age": np.array([1.0, np.nan])}, ["age"], ["a", "b"])
