"""How much data and training runs have, beside the paper's."""

import pytest

from orderless.experiments.sizes import SIZES, Size, say_size, sizes_of
from orderless.experiments.spec import make_spec


def said(task, model="deep_sets++", **options):
    sizes = sizes_of(make_spec(task, model, options))
    return [say_size(name, [size]) for name, size in sizes.items() if size.differs]


def test_the_papers_settings_have_the_papers_sizes():
    for task in ("normal_var@exact", "hematocrit@simulated", "mnist_var@digits", "set_anomaly@digits"):
        spec = make_spec(task, "deep_sets++")
        assert list(sizes_of(spec)) == list(SIZES)
        assert said(task) == []


def test_every_size_that_is_less_or_more_is_said():
    assert said("normal_var@exact", num_train=60, num_test=30, set_size=20, epochs=5) == [
        "60 of 10,000 training sets",
        "30 of 1,000 test sets",
        "20 of 1,000 elements",
        "5 of 50 epochs",
    ]
    assert said("point_cloud@shapes", set_size=1024, epochs=160) == [
        "1,024 instead of 1,000 elements",
        "160 instead of 50 epochs",
    ]


def test_a_training_of_ones_own_has_the_epochs_that_its_recipe_asks_for():
    def epochs(number, *, own_training=True):
        spec = make_spec("mnist_var@digits", "deep_sets++", {"epochs": number})
        return sizes_of(spec, {"epochs": 10}, own_training=own_training)["epochs"]

    assert epochs(10) == Size((10, 10), (10, 10))
    assert epochs(3) == Size((3, 3), (10, 10))  # shrunk by --quick
    assert epochs(10, own_training=False) == Size((10, 10), (50, 50))


def test_a_baseline_has_no_epochs():
    assert said("normal_var@exact", "baseline:constant", num_train=60) == ["60 of 10,000 training sets"]
    assert "epochs" not in sizes_of(make_spec("normal_var@exact", "baseline:constant"))


@pytest.mark.parametrize("task", ["normal_var_100", "normal_var_ood", "normal_var_ood_released"])
def test_epochs_of_the_released_sweep_go_with_its_batches(task):
    for batch_size in (2, 8, 64):
        assert said(f"{task}@exact", batch_size=batch_size, epochs=15 * batch_size) == []
    assert said(f"{task}@exact", batch_size=8, epochs=30) == ["30 of 120 epochs"]


def test_sizes_of_several_runs_are_said_as_a_range():
    sizes = [Size((5, 5), (50, 50)), Size((30, 30), (30, 30))]
    assert [size.is_smaller for size in sizes] == [True, False]
    assert Size((6, 6), (6, 10)).is_smaller  # sets of 6 elements, where the paper has 6 to 10
    assert say_size("epochs", sizes) == "5 to 30 of 30 to 50 epochs"


def test_more_than_the_paper_has_is_full_size_where_it_was_asked_for():
    spec = make_spec("point_cloud@shapes", "deep_sets++", {"epochs": 3, "set_size": 50})
    sizes = sizes_of(spec, {"epochs": 160, "set_size": 20})
    assert sizes["epochs"] == Size((3, 3), (160, 160))
    assert sizes["set_size"] == Size((50, 50), (1000, 1000))
