"""What an evaluation says: tables, JSON without NaN, gains with their signs, and words of caution."""

import json

import numpy as np
import pytest
from evaluate.grouped_sets import evaluate_numbers, evaluate_patients

from orderless.evaluate import cross_validate, folds_by_hand
from orderless.evaluate.evaluation import make_caution, number_folds, number_format
from orderless.evaluate.splits import Fold


@pytest.fixture(scope="module")
def classes():
    return evaluate_patients(num_repeats=2)


@pytest.fixture(scope="module")
def numbers():
    return evaluate_numbers()


def test_the_table_has_a_row_for_each_model_and_says_what_its_brackets_are(classes):
    lines = classes.table().splitlines()
    assert lines[0].split("  ")[0] == "model"
    assert lines[1].startswith("mean ")
    assert [line for line in lines if line.startswith("Constant: looks at no set")]
    score = classes.models["mean"].metrics["accuracy"].interval
    assert f"{score.value:.3f} [{score.low:.3f}, {score.high:.3f}]" in lines[1]
    assert "95 % bootstrap intervals over groups" in classes.table()
    assert classes.caution in classes.table()
    assert len({len(line) for line in lines[1:3]}) == 1  # columns are in line
    assert "over sets" in evaluate_patients(groups=None).table()


@pytest.mark.parametrize(
    ("numbers", "style"),
    [
        ([0.5, 0.25, 0.75, 0.0], ",.3f"),
        ([4.2, 3.1, 5.9], ",.3f"),
        ([42.0, 31.0, 59.0], ",.2f"),
        ([4200.0, 3100.0, 5900.0], ",.0f"),
        ([0.0, 0.0], ",.3f"),
        ([float("nan"), float("inf")], ",.3f"),
        ([], ",.3f"),
    ],
)
def test_numbers_of_a_column_have_as_many_decimals_as_most_of_them_need(numbers, style):
    assert number_format(numbers) == style


def test_one_model_that_is_far_off_does_not_round_the_others_away():
    style = number_format([-0.03, -81.3, -0.02, -0.05, -257.4, 0.12, -13.1, -120_770.3, -3.4])
    assert f"{-0.03:{style}}" == "-0.030"


@pytest.mark.parametrize(("number", "text"), [(0.00123, "0.00123"), (-0.000123, "-0.000123"), (1.234e-6, "1.23e-06")])
def test_numbers_in_a_small_unit_are_not_all_zero(number, text):
    assert f"{number:{number_format([number, number / 2, 0.0])}}" == text


def test_a_constant_that_is_wrong_by_construction_is_told_of(classes):
    """Without one of ten sets, five of a kind, the other kind is the more frequent."""
    ill = np.arange(10) % 2
    sets = [np.random.default_rng(i).normal(size=(5, 2)) for i in range(10)]
    alone = cross_validate({}, sets, ill, objective="classification", folds=folds_by_hand(range(10)))
    assert alone.models["constant"].metrics["accuracy"].value == 0
    assert "The constant has an accuracy of 0.00 only because training and test parts differ in their classes" in alone.table()
    assert "to say 0 of all sets would be right in 0.50 of them" in alone.table()
    assert "only because" not in classes.table()
    assert "no fold here has sets of two classes" in alone.table(), "single sets cannot be ranked, so ROC AUC is n/a"
    assert "no fold here" not in classes.table()


def test_markdown_is_the_same_table(classes):
    lines = classes.to_markdown(["log_loss"]).splitlines()
    assert lines[0] == "| model | log loss | log loss: gain over constant | over best baseline | seconds |"
    assert len(lines[2].split("|")) == len(lines[0].split("|"))


def test_gains_are_above_zero_for_the_better_model_whatever_the_metric(classes, numbers):
    for found, higher, lower in ((classes, "accuracy", "log_loss"), (numbers, "r2", "rmse")):
        mean, constant = found.models["mean"].metrics, found.models["constant"].metrics
        assert mean[higher].over_constant.value == pytest.approx(mean[higher].value - constant[higher].value)
        assert mean[lower].over_constant.value == pytest.approx(constant[lower].value - mean[lower].value)
        assert constant[higher].over_constant is None
        best = found.best_baseline[higher]
        assert found.models[best].metrics[higher].over_best is None
        assert found.models[best].metrics[higher].value == max(
            model.metrics[higher].value for model in found.models.values() if model.is_baseline
        )


def test_the_interval_to_report_is_over_groups_where_there_are_groups(classes):
    score = classes.models["mean"].metrics["accuracy"]
    assert score.interval is score.over_groups
    assert score.over_groups != score.over_sets
    alone = evaluate_patients(groups=None).models["mean"].metrics["accuracy"]
    assert alone.over_groups is None
    assert alone.interval is alone.over_sets


def test_json_holds_everything_and_no_nan(classes, numbers):
    for found in (classes, numbers):
        content = json.loads(json.dumps(found.as_json(predictions=True), allow_nan=False))
        assert [model["name"] for model in content["models"]] == list(found.models)
        assert content["num_sets"] == 24
        assert content["num_groups"] == 12
        assert content["num_folds"] == 3
        assert np.shape(content["models"][0]["output"])[1] == 24
        assert "output" not in found.as_json()["models"][0]
    assert numbers.as_json()["models"][1]["metrics"]["pearson"]["value"] is None  # a constant has no correlation


def test_unknown_metrics_are_refused(classes):
    with pytest.raises(ValueError, match=r"metrics of classification are accuracy.*got 'r2'"):
        classes.table(["r2"])
    with pytest.raises(ValueError, match="name at least one metric"):
        classes.table([])


def test_few_groups_are_said_and_many_are_not():
    target, members = np.arange(400) % 2, np.arange(400) // 20
    names = np.array(["no", "yes"])
    said = make_caution("classification", target[::20] * 0 + (np.arange(20) < 9), names, None)
    assert said.startswith("Only 20 sets, 9 of them of class yes")
    assert "±0.18" in said  # twice the standard error of a share of 0.8 among 20
    assert "14 % among new ones" in said  # 0.86 to the 20th is 0.05
    assert make_caution("classification", target, names, members).startswith("Only 20 groups: an accuracy")
    assert make_caution("classification", target, names, None) == ""
    assert "Only 20 groups" in make_caution("regression", target[:, None], None, members)
    assert make_caution("regression", target[:, None], None, None) == ""


def test_folds_are_numbered_within_their_repeat():
    folds = [Fold(np.array([1]), np.array([0]), 0), Fold(np.array([0]), np.array([1]), 0), Fold(np.array([0]), np.array([1]), 1)]
    assert number_folds(folds, 3).tolist() == [[0, 1, -1], [-1, 0, -1]]
