"""What is evaluated on: everything has one row for each set, and parts keep rows together."""

import numpy as np
import pytest
from evaluate.grouped_sets import draw_patients

from orderless import SetBatch
from orderless.evaluate.material import check_material
from orderless.evaluate.reading import iterate_sets, take_sets
from orderless.io import MemorySets, Samples

SETS, CLASSES, PATIENT = draw_patients()


def test_a_part_keeps_what_belongs_to_a_set_together():
    whole = check_material(SETS, CLASSES, "classification", PATIENT, np.arange(24), np.arange(24.0))
    part = whole.part(np.array([5, 2]))
    assert [len(x) for x in part.X] == [len(SETS[5]), len(SETS[2])]
    assert part.y.tolist() == [CLASSES[5], CLASSES[2]]
    assert part.groups.tolist() == [2, 1]
    assert part.covariates.tolist() == [[5.0], [2.0]]
    assert part.sample_weight.tolist() == [5.0, 2.0]
    assert part.classes.tolist() == ["ill", "well"]
    assert part.encoded_target.tolist() == [1 - 2 % 2, 1 - 1]


def test_one_number_a_set_is_what_estimators_are_used_to():
    assert check_material(SETS, np.arange(24), "regression", None, None, None).plain_target.shape == (24,)
    assert check_material(SETS, np.zeros((24, 2)), "regression", None, None, None).plain_target.shape == (24, 2)


@pytest.mark.parametrize("form", ["list", "tuple", "objects", "batch", "samples"])
def test_every_form_gives_the_sets_asked_for(form):
    objects = np.empty(24, dtype=object)
    objects[:] = SETS
    forms = {
        "list": SETS,
        "tuple": tuple(SETS),
        "objects": objects,
        "batch": SetBatch.from_list(SETS),
        "samples": Samples(MemorySets(SETS), tuple(str(n) for n in range(24)), ("a", "b")),
    }
    taken = take_sets(forms[form], [7, 3, 9])
    assert isinstance(taken, type(forms[form]) if form != "tuple" else list)
    found = [x.numpy() for batch in iterate_sets(taken, 2) for x in batch]
    for x, n in zip(found, [7, 3, 9], strict=True):
        np.testing.assert_allclose(x, SETS[n], rtol=1e-6)  # samples are float32


def test_a_dense_array_is_taken_from_as_it_is():
    dense = np.arange(24.0).reshape(4, 3, 2)
    np.testing.assert_array_equal(take_sets(dense, [2, 0]), dense[[2, 0]])
    with pytest.raises(TypeError, match="got dict"):
        take_sets({}, [0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": CLASSES[:5]}, "each of the 24 sets, got 5"),
        ({"groups": [1, 2]}, "each of the 24 sets"),
        ({"covariates": np.array(["a"] * 24)}, "covariates must be numbers"),
        ({"covariates": np.full(24, np.nan)}, "covariates must be finite"),
        ({"covariates": np.zeros((5, 2))}, r"of shape \(24, K\), got shape \(5, 2\)"),
        ({"sample_weight": -np.ones(24)}, "sample_weight must be 0 or more"),
    ],
)
def test_what_does_not_fit_is_said(change, message):
    given = {"X": SETS, "y": CLASSES, "objective": "classification", "groups": None, "covariates": None, "sample_weight": None}
    with pytest.raises(ValueError, match=message):
        check_material(**{**given, **change})


def test_beside_samples_what_has_names_of_sets_goes_by_name():
    import pandas as pd

    samples = Samples(MemorySets(SETS), tuple(f"p{n}" for n in range(24)), ("a", "b"))
    beside = pd.DataFrame({"y": np.arange(24.0), "who": np.arange(24) // 2, "weight": np.arange(24.0) + 1}, index=samples.ids)[
        ::-1
    ]
    found = check_material(samples, beside["y"], "regression", beside["who"], beside[["y"]], beside["weight"])
    np.testing.assert_array_equal(found.y[:, 0], np.arange(24))
    np.testing.assert_array_equal(found.groups, np.arange(24) // 2)
    np.testing.assert_array_equal(found.covariates[:, 0], np.arange(24))
    np.testing.assert_array_equal(found.sample_weight, np.arange(24) + 1)
