"""What is to be learned from what (`study.py`)."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from studies.small import write_csv

from orderless.io import MemorySets, Samples, join_labels, open_samples
from orderless.studies import make_study
from orderless.studies.invented import write_invented
from orderless.studies.study import describe_sizes, describe_study


def make_samples(sizes=(3, 1, 4, 2), **columns):
    rng = np.random.default_rng(0)
    sets = MemorySets([rng.normal(size=(n, 2)).astype(np.float32) for n in sizes])
    ids = tuple(f"s{n}" for n in range(len(sizes)))
    return Samples(sets, ids, ("a", "b"), columns={name: np.array(values, dtype=object) for name, values in columns.items()})


def test_sets_without_label_or_elements_are_left_out_by_name():
    study = make_study(make_samples((3, 0, 4, 2, 2), ill=["yes", "no", None, "no", "yes"]), "ill")
    assert study.samples.ids == ("s0", "s3", "s4")
    assert (study.unlabelled, study.empty) == (("s2",), ("s1",))
    lines = describe_study(study, "cells.csv")
    assert "Left out: 1 set without a value in ill: s2" in lines
    assert "Left out: 1 set without elements: s1" in lines


def test_every_note_on_the_samples_is_told_whatever_its_words():
    noted = replace(make_samples(ill=["yes", "no"] * 2), notes=("left out: the column 'sets that have no element'.",))
    assert f"Note: {noted.notes[0]}" in describe_study(make_study(noted, "ill"), "cells.csv")


def rename(samples, *ids):
    return replace(samples, ids=ids)


@pytest.mark.parametrize("other", ["Jose\u0301", "Jos\u00e9\u200b", "\uff2aos\u00e9", "Jos\u00e9 "])
def test_a_sample_whose_names_look_the_same_is_refused(other):
    samples = rename(make_samples(ill=["yes", "no"] * 2), "Jos\u00e9", "b", other, "d")
    with pytest.raises(ValueError, match=r"the data: expected names of sets that differ in more than .* write all alike"):
        make_study(samples, "ill", group="none")


@pytest.mark.parametrize(
    ("ids", "how"),
    [
        (("pat1", "Pat1", "c", "d"), "'pat1' and 'Pat1' differ in capitals alone."),
        (("1", "001", "c", "d"), "'1' and '001' differ in leading zeros alone."),
        (("p-1", "p_1", "p 2", "p_2"), "'p-1' and 'p_1' differ in dashes, underscores or spaces alone, and others likewise."),
    ],
)
def test_a_sample_that_may_be_there_under_two_names_is_noted(ids, how):
    samples = rename(make_samples(ill=["yes", "no"] * 2, patient=[*"aabb"]), *ids)
    note = next(line for line in describe_study(make_study(samples, "ill", group="none"), "") if "under two names" in line)
    assert note.startswith("Note: ")
    assert how in note
    kept_together = describe_study(make_study(samples, "ill", group="patient"), "")
    assert not any("under two names" in line for line in kept_together)


def test_a_study_is_described_before_anything_is_trained():
    samples = make_samples((3, 1, 4, 2, 2, 2), ill=["yes", "no"] * 3, patient=[*"ppqqrr"])
    lines = "\n".join(describe_study(make_study(samples, "ill"), "cells.csv"))
    assert "6 sets of 1 to 4 elements (median 2), 14 in all" in lines
    assert "Features: 2: a, b" in lines
    assert "Target: ill, classification (2 different words): no: 3 sets, yes: 3 sets" in lines
    assert "Groups: patient, 3 of them (found by its name" in lines
    assert make_study(samples, "ill", group="none").groups is None
    assert "as asked for" in "\n".join(describe_study(make_study(samples, "ill", group="none"), ""))


def test_people_as_covariates_do_not_turn_off_that_sets_are_kept_together():
    samples = make_samples((3, 1, 4, 2, 2, 2), ill=["yes", "no"] * 3, patient=[*"ppqqrr"], age=[*range(6)])
    assert make_study(samples, "ill", covariates=["age"]).group == "patient"
    with pytest.raises(ValueError, match=r"--covariates patient: by its name it identifies people \(3 values over 6 sets\)"):
        make_study(samples, "ill", covariates=["age", "patient"])
    told = make_study(samples, "ill", covariates=["patient"], group="patient")
    assert (told.group, told.covariates.names) == ("patient", ("patient",))
    assert make_study(samples, "ill", covariates=["patient"], group="none").groups is None


def test_why_there_are_no_groups_is_said():
    def groups(**columns):
        study = make_study(make_samples((3, 1, 4, 2), ill=["yes", "no"] * 2, **columns), "ill")
        return next(line for line in describe_study(study, "") if line.startswith("Groups"))

    different = groups(patient=[*"pqrs"])
    assert different == "Groups: none: patient is another one in each of 4 sets, so every set stands for itself"
    assert "Groups: none: donor has two values only" in groups(donor=[*"ppqq"])
    assert "If several sets are of one patient, name that column with --group" in groups(site=[*"ppqq"])


def test_one_wrong_row_does_not_turn_off_that_sets_are_kept_together(tmp_path):
    rows = [[f"s{n}", row / 7, n % 2, f"p{n // 2}"] for n in range(12) for row in range(5)]
    rows[8][3] = "p0 "
    write_csv(tmp_path / "cells.csv", ["sample", "a", "y", "patient"], rows)
    samples = open_samples(tmp_path / "cells.csv", set_id="sample", cache_dir=tmp_path)
    with pytest.raises(ValueError, match=r"patient looks like groups.* but not in set s1 \('p0', and 'p0 ' in row 9\)\. Correct"):
        make_study(samples, "y")
    assert make_study(samples, "y", group="none").groups is None


def describe_split(study, **asked):
    return [line for line in describe_study(study, "", **asked) if line.startswith("Split")]


def test_it_is_said_before_training_how_sets_are_split():
    study = make_study(make_samples((2,) * 12, ill=["yes", "no"] * 6, age=[*range(12)]), "ill")
    assert describe_split(study, num_folds=5) == ["Split: 5 folds, classes spread evenly"]
    assert describe_split(study, num_folds=5, num_repeats=3) == ["Split: 5 folds, drawn 3 times, classes spread evenly"]
    assert describe_split(study) == []
    numbers = make_study(make_samples((2,) * 12, age=[n + 0.5 for n in range(12)]), "age")
    assert describe_split(numbers, num_folds=4) == ["Split: 4 folds"]


def test_fewer_folds_than_asked_for_are_said_before_training():
    study = make_study(make_samples((2,) * 8, ill=["yes"] * 3 + ["no"] * 5), "ill")
    (line,) = describe_split(study, num_folds=5)
    assert line == "Split: 3 folds instead of 5: class yes is found in only 3 sets, classes spread evenly"
    alone = make_study(make_samples((2,) * 8, ill=["yes"] + ["no"] * 7), "ill")
    with pytest.raises(ValueError, match="class yes is found in only one set"):
        describe_study(alone, "", num_folds=5)


def test_the_split_of_a_column_is_used_and_a_group_may_not_straddle():
    ill, part = ["yes", "no", "yes", "no"], ["train", "train", "train", "test"]
    study = make_study(make_samples(ill=ill, part=part), "ill", split="part")
    assert [fold.test.tolist() for fold in study.folds] == [[3]]
    straddling = make_samples(ill=ill, part=part, patient=["p", "q", "r", "r"])
    with pytest.raises(ValueError, match="--split part: group r is in both train and test"):
        make_study(straddling, "ill", split="part")


def test_the_patients_of_invented_samples_are_found_beside_a_flag(tmp_path):
    cells, labels = write_invented(tmp_path)
    with labels.open(newline="") as file:
        head, *rows = csv.reader(file)
    flagged = [[*row, flag] for row, flag in zip(rows, ["yes", "no"] * 20, strict=True)]
    write_csv(labels, [*head, "new_patient"], flagged)
    study = make_study(join_labels(open_samples(cells, set_id="sample", cache_dir=tmp_path / "cache"), labels), "ill")
    assert study.group == "patient"
    assert len(set(study.groups.tolist())) == 20


@pytest.mark.parametrize("option", ["target", "group", "covariates", "split"])
def test_a_column_of_words_with_one_wrong_row_is_told_with_its_set_and_row(tmp_path, option):
    rows = [[f"s{n}", row / 7, n % 2, "yes" if n % 2 else "no"] for n in range(12) for row in range(5)]
    rows[8][3] = "no"
    write_csv(tmp_path / "cells.csv", ["sample", "a", "y", "ill"], rows)
    samples = open_samples(tmp_path / "cells.csv", set_id="sample", cache_dir=tmp_path)
    asked = {"target": "y"} | {option: ["ill"] if option == "covariates" else "ill"}
    with pytest.raises(ValueError, match=rf"--{option} ill: it is not known .* first in set s1 \('yes', and 'no' in row 9\)"):
        make_study(samples, **asked)


WRONG = {
    "no such column": ({"ill": ["a", "b", "a", "b"]}, "sick", {}, "--target sick: there is no such column of sets"),
    "all missing": ({"ill": [None] * 4}, "ill", {}, "ill is missing for all 4 sets"),
    "a feature": ({"ill": ["a", "b", "a", "b"]}, "a", {}, "a differs within sets, so it is a feature"),
    "target as group": ({"ill": ["a", "b", "a", "b"]}, "ill", {"group": "ill"}, "--group ill: that is the target"),
    "target as covariate": ({"ill": ["a", "b", "a", "b"]}, "ill", {"covariates": ["ill"]}, "ill: that is the target"),
    "no such group": ({"ill": ["a", "b", "a", "b"]}, "ill", {"group": "who"}, "--group who: there is no such column"),
    "split with gaps": ({"ill": ["a", "b"] * 2, "p": ["train", None, "test", "test"]}, "ill", {"split": "p"}, "for 1 set: s1"),
    "split without test": (
        {"ill": ["a", "b"] * 2, "p": ["Train", "train", "valid", "valid"]}, "ill", {"split": "p"},
        "--split p: a split column says train and test, or numbers of folds, got train, valid. Call valid test",
    ),
    "split in other words": (
        {"ill": ["a", "b"] * 2, "p": ["training", "training", "testing", "testing"]}, "ill", {"split": "p"},
        "--split p: a split column says train and test, or numbers of folds, got testing, training",
    ),
    "one class to learn": (
        {"ill": ["a", "a", "b", "b"], "p": ["train", "train", "test", "test"]}, "ill", {"split": "p"}, "one class only",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("columns", "target", "options", "says"), WRONG.values(), ids=WRONG.keys())
def test_what_will_not_do_is_refused_in_one_line(columns, target, options, says):
    with pytest.raises(ValueError, match=says) as error:
        make_study(make_samples(**columns), target, **options)
    assert "\n" not in str(error.value)


def test_a_fingerprint_knows_every_element():
    samples = make_samples(ill=["a", "b", "a", "b"])
    study = make_study(samples, "ill")
    assert study.fingerprint() == make_study(make_samples(ill=["a", "b", "a", "b"]), "ill").fingerprint()
    samples.sets._sets[1][0, 1] += 1
    assert study.fingerprint() != make_study(make_samples(ill=["a", "b", "a", "b"]), "ill").fingerprint()
    assert study.fingerprint() != make_study(make_samples(ill=["a", "b", "b", "a"]), "ill").fingerprint()


def test_sizes_are_told_in_words():
    assert describe_sizes(np.array([5, 5])) == "2 sets of 5 elements each, 10 in all"


def test_names_that_differ_in_spaces_alone_are_refused():
    samples = replace(make_samples(ill=["yes", "no"] * 2), ids=("s0", "s1", "s0 ", "s3"))
    with pytest.raises(ValueError, match="differ in more than spaces, a suffix or decimals, found 's0', 's0 '"):
        make_study(samples, "ill")
    folders = replace(samples, ids=("a/s.csv", "b/s.csv", "c", "d"))
    assert len(make_study(folders, "ill").samples) == 4


def test_another_split_is_another_study():
    def study(*part):
        return make_study(make_samples(ill=["yes", "no"] * 2, part=part), "ill", split="part")

    first = study("train", "train", "test", "test")
    assert first.fingerprint() != study("test", "test", "train", "train").fingerprint()
    assert first.fingerprint() == study("train", "train", "test", "test").fingerprint()
