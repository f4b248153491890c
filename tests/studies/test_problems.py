"""What is wrong with data (`problems.py`)."""

import numpy as np
import pytest

from orderless.io import MemorySets, Samples
from orderless.studies import make_study
from orderless.studies.problems import find_problems


def study_of(sets, labels, covariates=(), **columns):
    ids = tuple(f"s{n}" for n in range(len(sets)))
    named = {"ill": np.array(labels, dtype=object), **{name: _column(v) for name, v in columns.items()}}
    return make_study(Samples(MemorySets(sets), ids, ("a", "b"), columns=named), "ill", covariates=covariates)


def _column(values):
    return np.array(values, dtype=object if isinstance(values[0], str) else None)


def draw(sizes, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, 2)).astype(np.float32) for n in sizes]


def found(study):
    return {problem.title: problem for problem in find_problems(study)}


def test_clean_data_have_no_problem():
    assert find_problems(study_of(draw([30, 40] * 6), ["x", "x", "y", "y"] * 3)) == []


def test_the_same_sample_under_two_names_is_found_whatever_its_order():
    sets = draw([30, 40] * 6)
    sets[7] = sets[2][::-1].copy()
    problem = found(study_of(sets, ["x", "y"] * 6))["The same sample twice"]
    assert problem.kind == "bad"
    assert "s2 and s7" in problem.text
    patients = [f"p{n}" for n in range(12)]
    patients[7] = "p2"
    assert "The same sample twice" not in found(study_of(sets, ["x", "y"] * 6, patient=patients)), "of one patient it is no leak"


def test_names_that_are_nearly_the_same_are_told_of_sets_and_groups():
    patients = [f"p{'-_'[n % 2]}{n // 2}" for n in range(12)]
    problem = found(study_of(draw([30, 40] * 6), ["x", "y"] * 6, patient=patients))["Names that are nearly the same"]
    assert problem.kind == "warn"
    assert problem.text.startswith("6 groups may be there under two names: 'p-0' and 'p_0'")


def test_empty_tiny_and_unlabelled_sets_are_named():
    sets = draw([300, 0, 2, 280, 310, 290, 305, 295, 300, 300, 300, 300])
    problems = found(study_of(sets, ["x", "y", "x", "y", None, *["x", "y"] * 3, "x"]))
    assert "s1" in problems["Sets without elements"].text
    assert "s2 (2) elements, where the median is 300" in problems["Very small sets"].text
    assert "s4" in problems["Sets without a label"].text


def test_constant_and_wild_features_are_named():
    sets = draw([2000] * 12)
    for elements in sets:
        elements[:, 1] = 7
    sets[3][0, 0] = 1e6
    problems = found(study_of(sets, ["x", "x", "y", "y"] * 3))
    assert problems["Features that never change"].text.startswith("b have the same value")
    assert problems["Features with extreme values"].text.startswith("a (1,000,")  # of a spread of 1, by quartiles


def test_a_size_that_tells_the_target_is_told():
    sizes = [20 + n + 30 * (n % 2) for n in range(12)]
    problems = found(study_of(draw(sizes), ["x", "y"] * 6))
    assert "area under the ROC curve 1.00" in problems["Set size goes with the target"].text
    falling = found(study_of(draw(sizes), ["y", "x"] * 6))
    assert "area under the ROC curve 1.00" in falling["Set size goes with the target"].text  # the second class is the smaller
    numbers = found(study_of(draw(range(20, 32)), [0.5 + n for n in range(12)]))
    assert "rank correlation 1.00" in numbers["Set size goes with the target"].text


@pytest.mark.parametrize(
    ("labels", "known", "settles"),
    [
        (["x", "y"] * 6, [0, 1] * 6, True),
        (["x", "y"] * 6, ["well", "lupus"] * 6, True),
        (["x", "y", "z"] * 4, [3, 1, 2] * 4, True),
        (["x", "y"] * 6, [n + 50 * (n % 2) for n in range(12)], True),  # a score that the class was told by
        ([n + 0.5 for n in range(12)], [-10 * n for n in range(12)], True),  # in another unit
        (["x", "y"] * 6, [0, 1] * 5 + [1, 1], False),
        (["x", "y"] * 6, [f"word{n}" for n in range(12)], False),
        (["x", "y"] * 6, ["same"] * 12, False),
        (["x", "y"] * 6, [7] * 12, False),
        ([n + 0.5 for n in range(12)], [1, *range(11)], False),
        (["x", "y"] * 4, [0, 1] * 4, False),  # of so few it may be chance
    ],
)
def test_a_covariate_that_settles_the_target_is_told(labels, known, settles):
    problems = found(study_of(draw([30, 40] * (len(labels) // 2)), labels, ["known"], known=known))
    assert ("A covariate settles the target" in problems) == settles
    if settles:
        assert problems["A covariate settles the target"].text.startswith("known alone says what ill is, in all of these sets.")


def test_rare_classes_and_classes_per_group_are_told():
    labels = ["x"] * 10 + ["y"] * 2
    problems = found(study_of(draw([30, 40] * 6), labels, patient=[f"p{n // 2}" for n in range(12)]))
    assert "y (2)" in problems["Classes with few sets"].text
    assert "6 is the number that counts" in problems["One class per group"].text


def test_a_wild_element_does_not_hide_behind_the_spread_that_it_makes():
    sets = draw([30, 40] * 6)
    sets[3][5, 1] = 1e12
    problem = found(study_of(sets, ["x", "x", "y", "y"] * 3))["Features with extreme values"]
    assert problem.text.startswith("b (")


def test_where_quartiles_have_no_spread_that_of_all_elements_counts():
    sets = draw([300] * 12)
    for number, elements in enumerate(sets):
        elements[:, 1] = 40.0 * (number == 11)  # more than half are 0; within every set nothing varies
    assert "Features with extreme values" not in found(study_of(sets, ["x", "x", "y", "y"] * 3))  # 3 deviations away
    sets[0][0, 1] = 4000
    problem = found(study_of(sets, ["x", "x", "y", "y"] * 3))["Features with extreme values"]
    assert problem.text.startswith("b (59)")  # deviations: 4000 over 67.5
