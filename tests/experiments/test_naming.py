"""What networks and options are called, in tables, figures and reports."""

import pytest

from orderless.experiments.naming import (
    METRIC_TITLES,
    describe_network,
    describe_option,
    made_of,
    title_of_model,
    title_of_run,
)
from orderless.experiments.recipe import list_recipes, load_recipe
from orderless.experiments.spec import make_spec
from orderless.models import list_models
from orderless.tasks.objectives import OBJECTIVES


def test_every_network_and_every_metric_has_a_title():
    titles = {title_of_model(name) for name in list_models()}
    assert len(titles) == len(list_models())
    assert titles.isdisjoint(list_models())
    assert {metric for objective in OBJECTIVES.values() for metric in objective.metrics} <= set(METRIC_TITLES)
    shown = {metric for name in list_recipes() for metrics in load_recipe(name).metrics.values() for metric in metrics}
    assert shown <= set(METRIC_TITLES)


def test_a_run_is_called_by_its_network_and_depth():
    assert title_of_run(make_spec("normal_var@exact", "deep_sets++", {"depth": 50})) == "Deep Sets++ 50"
    assert title_of_run(make_spec("point_cloud@shapes", "deep_sets_pointcloud")) == "Deep Sets for point clouds"
    assert title_of_run(make_spec("hematocrit@simulated", "baseline:rdw")) == title_of_model("baseline:rdw") == "RDW, linear"


def test_a_network_is_described_by_what_it_is_made_of():
    described = describe_network(make_spec("normal_var@exact", "set_transformer", {"depth": 16}))
    assert described == "Set Transformer with 16 layers (non-clean path)"
    assert made_of("none", "") == ""
    assert made_of("layer", "clean") == " (layer norm, clean path)"
    assert describe_network(make_spec("point_cloud@shapes", "deep_sets_pointcloud")) == "Deep Sets for point clouds"


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("norm", "none", "no norm"),
        ("norm", "set", "set norm"),
        ("residual", "none", "no residual"),
        ("residual", "freq_add", "FreqAdd"),
        ("depth", 50, "50 layers"),
        ("batch_size", 64, "batch size 64"),
        ("learning_rate", 1e-5, "learning rate 10⁻⁵"),
    ],
)
def test_an_option_stands_alone(option, value, text):
    assert describe_option(option, value) == text


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("standardize", False, "elements as they come"),
        ("standardize", True, "elements standardised"),
        ("clip_norm", "none", "no clipping of gradients"),
        ("ema_share", None, "no moving average"),
        ("warmup_share", 0.0, "no warmup"),
        ("warmup_share", 0.1, "warmup share 0.1"),
        ("weight_decay", 0.0, "no weight decay"),
        ("noise", None, "no noise"),
        ("noise", 0.4, "noise 0.4"),
        ("learning_rate", 1e-4, "learning rate 0.0001"),
        ("model", "deep_sets++", "Deep Sets++"),
    ],
)
def test_ingredients_of_training_have_words_of_their_own(option, value, text):
    assert describe_option(option, value) == text
