"""A run as data, and the key that names it."""

import dataclasses
import json

import pytest

from orderless.experiments.spec import RunSpec, make_spec, parse_options, parse_value
from orderless.models import list_models
from orderless.tasks.registry import get_task
from orderless.train import TrainConfig
from orderless.train.config import DEFAULT_TRAINING

KEYS = {
    "normal_var-exact-deep_setspp-50-s0-c18930fbae": ("normal_var@exact", "deep_sets++", {}),
    "hematocrit-simulated-set_transformer-16-s2-84c69a0145": (
        "hematocrit@simulated",
        "set_transformer",
        {"depth": 16, "norm": "layer", "seed": 2, "epochs": 3, "num_train": 64, "clip_norm": 1},
    ),
    "normal_var-exact-baseline-moments-s0-8e79c6ec79": ("normal_var@exact", "baseline:moments", {"num_train": 64}),
}


@pytest.mark.parametrize(("key", "run"), KEYS.items(), ids=["paper", "changed", "baseline"])
def test_keys_are_the_same_in_every_version(key, run):
    """Results are found again by their keys: if this fails, every result that anybody has is lost to `orderless table`."""
    assert make_spec(*run).key == key


def test_a_key_is_a_name_for_a_folder():
    spec = make_spec("normal_var@exact", "deep_sets++", {"depth": 8, "seed": 3})
    assert spec.key.startswith("normal_var-exact-deep_setspp-8-s3-")
    for model in (*list_models(), "baseline:moments"):
        assert not set(make_spec("normal_var@exact", model).key) & set("@:+/\\ ")


# what may be changed, and to what; each on a network that takes it
CHANGES = {
    "depth": 6, "width": 64, "norm": "layer", "residual": "mean", "pool": "mean", "order": "paper", "num_heads": 2,
    "num_inducing": 8, "eps": 1e-3, "epochs": 1, "batch_size": 8, "batch_elements": 5000, "optimizer": "adamw",
    "learning_rate": 1e-3, "weight_decay": 0.1, "schedule": "cosine", "warmup_steps": 5, "clip_norm": 1.0, "accumulate": 2,
    "ema_decay": 0.9, "precision": "tf32", "protocol": "released", "evaluate_every": 2, "seed": 1, "data_seed": 1,
    "num_train": 64, "num_test": 32, "set_size": 8, "drop_last": True, "warmup_share": 0.1, "ema_share": 0.05, "subsample": 0.5,
    "noise": 0.3,
    "training": "default", "standardize": True,
}  # fmt: skip


@pytest.mark.parametrize("option", CHANGES)
def test_every_option_changes_the_key(option):
    plain = make_spec("normal_var@exact", "set_transformer++")
    changed = make_spec("normal_var@exact", "set_transformer++", {option: CHANGES[option]})
    assert changed.key != plain.key
    assert changed != plain


def test_the_list_of_changes_above_is_whole():
    with pytest.raises(ValueError, match="there is no option") as caught:
        make_spec("normal_var@exact", "deep_sets", {"xyzzy": 1})
    named = str(caught.value).partition("Of the network: ")[2].replace("Of training:", ",").replace("Of the data:", ",")
    assert {name.strip(" .") for name in named.replace(".", ",").split(",")} - {""} == set(CHANGES)


def test_tasks_and_models_have_keys_of_their_own():
    runs = [make_spec(task, model) for task in ("normal_var@exact", "hematocrit@simulated") for model in list_models()]
    assert len({run.key for run in runs}) == len(runs)


@pytest.mark.parametrize(
    "options",
    [
        {"depth": 50, "norm": "set", "residual": "clean"},
        {"width": 128, "pool": "sum", "order": "released", "eps": 1e-5},
        {"epochs": get_task("normal_var").epochs, "batch_size": 64, "learning_rate": 1e-4, "precision": "32-true", "seed": 0},
        {"data_seed": 0, "num_train": 10_000, "num_test": 1_000, "set_size": 1_000},
        {"standardize": False},
    ],
    ids=["said", "network", "training", "data", "standardize"],
)
def test_a_default_that_is_said_is_the_same_run_as_one_that_is_not(options):
    said, unsaid = make_spec("normal_var@exact", "deep_sets++", options), make_spec("normal_var@exact", "deep_sets++")
    assert said == unsaid
    assert said.key == unsaid.key


def test_the_default_of_a_task_is_not_that_of_its_network():
    """Deep Sets takes the maximum on point clouds in the paper, and the sum elsewhere."""
    plain = make_spec("point_cloud@shapes", "deep_sets")
    assert make_spec("point_cloud@shapes", "deep_sets", {"pool": "max"}) == plain
    assert make_spec("point_cloud@shapes", "deep_sets", {"pool": "sum"}).model_options["pool"] == "sum"


def test_a_number_of_sets_from_a_publishers_file_is_always_part_of_the_run():
    """Without one all are taken, and files differ in how many they have."""
    spec = make_spec("point_cloud@modelnet40", "deep_sets", {"num_train": get_task("point_cloud").num_train})
    assert spec.data_options == {"num_train": get_task("point_cloud").num_train}


def test_paper_settings_are_those_of_the_task():
    spec = make_spec("set_anomaly@digits", "deep_sets")
    task = get_task("set_anomaly")
    assert (spec.train.epochs, spec.train.batch_size, spec.train.learning_rate) == (50, 32, task.learning_rate)


@pytest.mark.parametrize("option", ["learning_rate", "weight_decay", "clip_norm", "eps"])
def test_1_and_1_point_0_are_one_run(option):
    whole, broken = (make_spec("normal_var@exact", "deep_sets++", {option: value}) for value in (1, 1.0))
    assert whole.key == broken.key
    assert json.dumps(whole.to_json()) == json.dumps(broken.to_json())


@pytest.mark.parametrize("run", KEYS.values(), ids=["paper", "changed", "baseline"])
def test_a_run_comes_back_from_json(run):
    spec = make_spec(*run)
    back = RunSpec.from_json(json.loads(json.dumps(spec.to_json())))
    assert back == spec
    assert back.key == spec.key
    assert set(spec.to_json()["train"]) == {f.name for f in dataclasses.fields(TrainConfig)}


def test_a_baseline_is_named_apart_and_knows_no_training():
    spec = make_spec("normal_var@exact", "baseline:moments", {"epochs": 3})
    assert spec.is_baseline
    assert spec.key == make_spec("normal_var@exact", "baseline:moments").key
    assert spec.key != make_spec("normal_var@exact", "baseline:moments", {"seed": 1}).key
    assert not make_spec("normal_var@exact", "deep_sets").is_baseline


WRONG = {
    "task": (("normal_vra", "deep_sets", {}), "there is no task 'normal_vra'. Did you mean 'normal_var'?"),
    "source": (("normal_var@celeba", "deep_sets", {"num_train": 5}), "normal_var comes from exact"),
    "model": (("normal_var", "deep_set++", {}), r"there is no model 'deep_set++'. Did you mean 'deep_sets++'?"),
    "baseline": (("normal_var", "baseline:moment", {}), "Did you mean 'baseline:moments'?"),
    "option": (("normal_var", "deep_sets", {"learning_rat": 1}), "no option 'learning_rat'. Did you mean 'learning_rate'?"),
    "option of a baseline": (
        ("normal_var", "baseline:moments", {"depth": 3}),
        "baseline:moments is not a network, so it takes no",
    ),
    "norm": (
        ("normal_var", "deep_sets", {"norm": "sett"}),
        "norm must be one of none, layer, feature, set, batch, instance; got",
    ),
    "what does not fit": (("normal_var", "deep_sets", {"residual": "clean"}), "residual='clean' does not fit deep_sets, which"),
    "what does nothing": (("normal_var", "deep_sets++", {"num_inducing": 8}), "num_inducing=8 has no effect with deep_sets++"),
    "depth": (("normal_var", "deep_sets", {"depth": 3.0}), "depth must be a whole number of at least 1; got 3.0"),
    "heads": (("normal_var", "set_transformer", {"width": 30}), "num_heads must divide width"),
    "epochs": (("normal_var", "deep_sets", {"epochs": "many"}), "epochs must be a whole number of at least 1, got 'many'"),
    "rate": (("normal_var", "deep_sets", {"learning_rate": float("inf")}), "learning_rate must be a number, got inf"),
    "standardize": (("normal_var", "deep_sets", {"standardize": 3}), "standardize must be true or false, got 3."),
    "standardize images": (
        ("set_anomaly", "deep_sets", {"standardize": True}),
        "elements of set_anomaly go through a featurizer",
    ),
    "standardize points": (("point_cloud", "pointnet++", {"standardize": True}), "pointnet++ takes coordinates as they are"),
    "standardize a baseline": (("normal_var", "baseline:moments", {"standardize": True}), "takes no option 'standardize'"),
    "no sets": (("normal_var", "deep_sets", {"num_train": 0}), "num_train must be 1 or more, got 0"),
    "part of a set": (("normal_var", "deep_sets", {"set_size": 2.5}), "set_size must be a whole number, got 2.5"),
    "too many sets": (
        ("normal_var", "deep_sets", {"num_train": 10**22}),
        "num_train must be at most 1,000,000,000, got 10000000000000000000000",
    ),
    "data seed": (("normal_var", "deep_sets", {"data_seed": -1}), "data_seed must be 0 or more, got -1"),
}


@pytest.mark.parametrize(("run", "says"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_run_is_said_in_one_line(run, says):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - what it says is looked at below
        make_spec(*run)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("source", ["", "@auto"])
def test_a_source_may_be_left_open(source):
    assert make_spec(f"normal_var{source}", "deep_sets", {"num_train": 5}).data_options == {"num_train": 5}


# ------------------------------------------------------------------------------------------------------- texts


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("50", 50), ("-3", -3), ("1_000", 1000), ("0.5", 0.5), ("1e-4", 1e-4), ("3E2", 300.0), ("0", 0), ("true", True),
        ("false", False), ("set", "set"), ("32-true", "32-true"), ("007", "007"), ("1_", "1_"), ("1.", "1."), ("none", "none"),
    ],
)  # fmt: skip
def test_a_text_is_a_number_a_truth_value_or_a_word(text, value):
    found = parse_value(text)
    assert found == value
    assert type(found) is type(value)


def test_options_are_read_from_texts():
    texts = ["depth=50", " learning_rate = 1e-3 ", "norm=set", "precision=bf16-mixed"]
    assert parse_options(texts) == {"depth": 50, "learning_rate": 1e-3, "norm": "set", "precision": "bf16-mixed"}
    assert parse_options([]) == {}


@pytest.mark.parametrize("text", ["depth", "=3", "depth=", "depth= ", " =", ""])
def test_half_an_option_is_an_error(text):
    with pytest.raises(ValueError, match="expected key=value, such as depth=50; got"):
        parse_options([text])


def test_a_slip_in_a_name_is_an_error_with_the_nearest_name():
    with pytest.raises(ValueError, match=r"there is no option 'dept'\. Did you mean 'depth'"):
        parse_options(["dept=3"])


def test_a_name_that_is_near_nothing_is_listed_against_all():
    with pytest.raises(ValueError, match=r"there is no option 'xyzzy'\. Of the network: depth, width") as caught:
        parse_options(["xyzzy=3"])
    assert "Did you mean" not in str(caught.value)


def test_a_run_may_be_trained_as_estimators_are():
    paper, default = (make_spec("normal_var@exact", "deep_sets++", {"training": name}) for name in ("paper", "default"))
    assert paper.key == make_spec("normal_var@exact", "deep_sets++").key
    assert dataclasses.asdict(default.train).items() >= DEFAULT_TRAINING.items()
    assert (default.train.epochs, default.train.batch_size) == (paper.train.epochs, paper.train.batch_size)
    said = make_spec("normal_var@exact", "deep_sets++", {**DEFAULT_TRAINING, "standardize": True})
    assert said.key == default.key


@pytest.mark.parametrize(
    ("task", "model", "standardised"),
    [
        ("normal_var@exact", "deep_sets", True),
        ("hematocrit@simulated", "set_transformer++", True),
        ("point_cloud@shapes", "deep_sets_pointcloud", True),
        ("point_cloud@shapes", "pointnet++", False),
        ("point_cloud@shapes", "simpleview", False),
        ("set_anomaly@digits", "deep_sets++", False),
        ("normal_var@exact", "baseline:moments", False),
    ],
)
def test_the_default_training_standardises_where_that_can_be(task, model, standardised):
    assert ("standardize" in make_spec(task, model, {"training": "default"}).model_options) is standardised
    assert "standardize" not in make_spec(task, model, {"training": "paper"}).model_options


def test_standardising_is_part_of_the_run_and_can_be_left_out():
    default = make_spec("normal_var@exact", "deep_sets++", {"training": "default"})
    without = make_spec("normal_var@exact", "deep_sets++", {"training": "default", "standardize": False})
    alone = make_spec("normal_var@exact", "deep_sets++", {"standardize": True})
    plain = make_spec("normal_var@exact", "deep_sets++")
    assert default.model_options == alone.model_options == {**plain.model_options, "standardize": True}
    assert without.model_options == plain.model_options
    assert default.train == without.train
    assert len({spec.key for spec in (default, without, alone, plain)}) == 4
    back = RunSpec.from_json(json.loads(json.dumps(default.to_json())))
    assert back == default
    assert back.key == default.key


def test_an_ingredient_of_training_can_be_left_out():
    without = make_spec("normal_var@exact", "deep_sets++", {"training": "default", "ema_share": "none", "warmup_share": 0})
    assert without.train == dataclasses.replace(TrainConfig(**DEFAULT_TRAINING), ema_share=None, warmup_share=0.0)
    with pytest.raises(ValueError, match="learning_rate must be a number, got 'none'"):
        make_spec("normal_var@exact", "deep_sets++", {"learning_rate": "none"})


def test_another_training_is_an_error():
    with pytest.raises(ValueError, match="training must be one of paper, default; got 'best'"):
        make_spec("normal_var@exact", "deep_sets++", {"training": "best"})
