"""From a recipe to its runs: how many, which, with which keys, and from which data."""

from dataclasses import replace

import pytest
from experiments.plans import _nobodys_files  # noqa: F401
from publishers import write_mnist

from orderless.experiments.grid import choose_sources, expand, parse_only, published_for
from orderless.experiments.recipe import list_recipes, load_recipe

pytestmark = pytest.mark.usefixtures("_nobodys_files")

NUM_RUNS = {
    "layer_norm": 18,
    "norms": 36,
    "clean_path": 144,
    "residual_type": 60,
    "main_results": 180,
    "flow_rbc_baselines": 5,
    "point_cloud_peers": 18,
    "freq_add": 9,
    "cost": 9,
    "orders": 36,
    "gradients": 6,
    "freq_add_curves": 9,
    "accuracy_curves": 18,
    "residual_arrangements": 0,
    "rbc_distribution": 0,
    "layer_norm_2d": 0,
}
# Results that people have are found by these keys: a change here throws them away.
FROZEN = [
    (
        "clean_path",
        False,
        "task=normal_var model=deep_sets++ residual=clean norm=set",
        "normal_var-exact-deep_setspp-50-s0-6e16db5bed",
    ),
    (
        "clean_path",
        True,
        "task=normal_var model=deep_sets++ residual=clean norm=set",
        "normal_var-exact-deep_setspp-50-s0-f946d20bc3",
    ),
    ("main_results", False, "task=mnist_var model=set_transformer depth=16", "mnist_var-digits-set_transformer-16-s0-a59f1c7fd3"),
    ("flow_rbc_baselines", False, "model=baseline:moments", "hematocrit-simulated-baseline-moments-s0-a355383488"),
    ("feature_norm", False, "batch_size=64 norm=feature task=normal_var_100", "normal_var_100-exact-deep_sets-25-s0-8693a09213"),
]


def write(folder, text):
    path = folder / "mine.toml"
    path.write_text(text)
    return load_recipe(path)


MINE = """
name = "mine"
kind = "table"
title = "Mine"
seeds = [0, 1]
[[grid]]
model = "deep_sets"
depth = [3, 25]
task = ["normal_var", "mnist_var@digits"]
[[grid]]
model = "baseline:constant"
task = "normal_var"
seeds = [0]
[quick]
epochs = 2
num_train = 128
set_size = 50
seeds = [0]
"""


@pytest.mark.parametrize("name", NUM_RUNS)
def test_every_recipe_gives_its_number_of_runs_each_with_a_key_of_its_own(name):
    runs = expand(load_recipe(name)).runs
    assert len(runs) == len({spec.key for spec in runs}) == NUM_RUNS[name]


def test_every_recipe_is_counted_above():
    assert set(NUM_RUNS) <= set(list_recipes())
    assert {load_recipe(name).path.parent.name for name in NUM_RUNS} == {"paper"}


@pytest.mark.parametrize("name", [name for name, count in NUM_RUNS.items() if count])
def test_quick_runs_are_others_than_full_ones(name):
    recipe = load_recipe(name)
    full, quick = (expand(recipe, quick=q).runs for q in (False, True))
    assert not {spec.key for spec in full} & {spec.key for spec in quick}
    assert len({spec.key for spec in quick}) == len(quick) > 0


@pytest.mark.parametrize(("name", "quick", "only", "key"), FROZEN)
def test_keys_do_not_change(name, quick, only, key):
    plan = expand(load_recipe(name), only=parse_only(only.split()), quick=quick)
    assert plan.runs[0].key == key


def test_tables_share_the_runs_that_they_have_in_common():
    def keys(name):
        return {spec.key for spec in expand(load_recipe(name)).runs}

    # Deep Sets++ 50 and Set Transformer++ 16 with set norm and clean paths on three tasks, three seeds each
    assert len(keys("main_results") & keys("clean_path")) == 2 * 3 * 3
    assert keys("freq_add") == keys("freq_add_curves")
    assert keys("accuracy_curves") == keys("point_cloud_peers")
    assert keys("gradients") <= keys("main_results")


def test_blocks_are_joined_and_their_axes_multiplied(tmp_path):
    plan = expand(write(tmp_path, MINE))
    assert [(c.settings["model"], c.settings.get("depth"), c.task, len(c.runs)) for c in plan.cells] == [
        ("deep_sets", 3, "normal_var", 2),
        ("deep_sets", 3, "mnist_var", 2),
        ("deep_sets", 25, "normal_var", 2),
        ("deep_sets", 25, "mnist_var", 2),
        ("baseline:constant", None, "normal_var", 1),
    ]


def test_the_first_seed_of_every_cell_is_run_first(tmp_path):
    assert [spec.train.seed for spec in expand(write(tmp_path, MINE)).runs] == [0] * 5 + [1] * 4


def test_settings_that_go_together_are_not_multiplied():
    runs = expand(load_recipe("feature_norm")).runs
    assert {(spec.train.batch_size, spec.train.epochs) for spec in runs} == {(b, 15 * b) for b in (2, 4, 8, 16, 32, 64)}


def test_runs_have_the_papers_settings_where_a_recipe_says_nothing():
    plan = expand(load_recipe("main_results"))
    by_task = {spec.task.partition("@")[0]: spec.train for spec in plan.runs}
    assert {task: train.epochs for task, train in by_task.items()} == {
        "hematocrit": 30,
        "mnist_var": 50,
        "point_cloud": 50,
        "set_anomaly": 50,
        "anemia": 50,
    }
    assert {train.learning_rate for train in by_task.values()} == {1e-4}
    assert {train.protocol for train in by_task.values()} == {"released"}


def test_quick_lowers_what_is_larger_and_leaves_the_rest(tmp_path):
    plan = expand(write(tmp_path, MINE), quick=True)
    normal, digits = plan.runs[0], plan.runs[1]
    assert normal.data_options == {"num_train": 128, "set_size": 50}
    assert digits.data_options == {"num_train": 128}  # its sets have 10 images, and keep them
    assert normal.train.epochs == digits.train.epochs == 2
    assert {spec.train.seed for spec in plan.runs} == {0}


def test_what_is_less_than_the_papers_is_said_task_by_task_where_tasks_differ(tmp_path):
    recipe = write(tmp_path, MINE)
    normal = "128 of 10,000 training sets, 50 of 1,000 elements, 2 of 50 epochs"
    digits = "128 of 50,000 training sets, 2 of 50 epochs"
    assert expand(recipe, quick=True).describe_reduction() == f"reduced: Normal Var {normal}; MNIST Var {digits}; 1 of 2 seeds"
    one = expand(recipe, quick=True, only={"task": ["normal_var"]})
    assert one.describe_reduction() == f"reduced: {normal}, 1 of 2 seeds"
    assert expand(recipe).describe_reduction() == ""


def test_what_a_recipe_itself_has_less_of_is_said_without_quick(tmp_path):
    """The grid may ask for little on its own, for all cells or for some."""
    recipe = write(tmp_path, MINE.replace('task = ["normal_var", "mnist_var@digits"]', 'task = "normal_var"\nepochs = [5, 50]'))
    assert expand(recipe).describe_reduction() == "reduced: 5 to 50 of 50 epochs"
    recipe = write(tmp_path, MINE.replace("[[grid]]\nmodel", "[fixed]\nnum_test = 10\n[[grid]]\nmodel", 1))
    assert expand(recipe).describe_reduction() == "reduced: 10 of 1,000 test sets"  # the same for both tasks


def test_what_a_recipe_asks_for_beyond_the_paper_is_full_size(tmp_path):
    recipe = write(tmp_path, MINE.replace("depth = [3, 25]", "depth = [3, 25]\nepochs = 80"))
    assert expand(recipe).describe_reduction() == ""
    assert "2 of 80 epochs" in expand(recipe, quick=True).describe_reduction()


def test_a_baseline_standardises_nothing_that_is_fixed_for_networks(tmp_path):
    text = MINE.replace("[[grid]]\nmodel", "[fixed]\nstandardize = true\n[[grid]]\nmodel", 1)
    runs = expand(write(tmp_path, text)).runs
    assert {spec.is_baseline for spec in runs} == {True, False}
    assert all(("standardize" in spec.model_options) != spec.is_baseline for spec in runs)


def test_a_recipe_about_training_has_epochs_of_its_own(tmp_path):
    recipe = write(tmp_path, MINE.replace("depth = [3, 25]", "depth = [3, 25]\nepochs = 20\nlearning_rate = 0.001"))
    assert recipe.has_own_training
    assert expand(recipe).describe_reduction() == ""
    assert "2 of 20 epochs" in expand(recipe, quick=True).describe_reduction()


@pytest.mark.parametrize("name", ["past_the_paper", "ingredients"])
def test_all_tasks_of_a_training_have_the_same_rows(name):
    """Epochs aside: one task may have a row with more of them."""
    recipe = load_recipe(name)
    rows: dict[str, dict[tuple[object, ...], None]] = {}
    for cell in expand(recipe).cells:
        row = tuple(cell.settings[axis] for axis in recipe.rows if axis not in ("task", "epochs"))
        rows.setdefault(cell.task, {})[row] = None
    assert len(rows) >= 3
    assert len({tuple(of_task) for of_task in rows.values()}) == 1


@pytest.mark.parametrize("name", list_recipes())
def test_no_full_table_of_the_paper_is_called_reduced(name):
    recipe = load_recipe(name)
    only = {"task": tasks} if (tasks := [task for task in recipe.axes.get("task", []) if task not in recipe.stand_in]) else {}
    if recipe.fixed.get("task") not in recipe.stand_in:  # of which there are fewer, since they are not the paper's
        reduced = expand(recipe, only=only).describe_reduction()
        assert bool(reduced) == (name in ("demo", "more_elements"))  # which are not the paper's
    if recipe.blocks:
        assert expand(recipe, quick=True).describe_reduction().startswith("reduced: ")


def test_the_demo_says_what_is_small_in_it():
    demo = load_recipe("demo")
    full = "Normal Var 1,024 of 10,000 training sets, 512 of 1,000 test sets; Hematocrit 20 of 1,000 elements"
    assert expand(demo).describe_reduction() == f"reduced: {full}"
    normal = "1,024 of 10,000 training sets, 512 of 1,000 test sets, 50 of 1,000 elements, 6 of 50 epochs"
    blood = "4,096 of 98,240 training sets, 1,024 of 23,104 test sets, 20 of 1,000 elements, 6 of 30 epochs"
    assert expand(demo, quick=True).describe_reduction() == f"reduced: Normal Var {normal}; Hematocrit {blood}"


def test_epochs_do_not_matter_to_what_no_epoch_changes():
    cost = load_recipe("cost")
    assert {spec.train.epochs for spec in expand(cost).runs} == {1}
    assert "epochs" not in expand(cost, quick=True).describe_reduction()


def test_results_of_another_source_are_shown_where_those_at_hand_have_none(tmp_path):
    plan = expand(write(tmp_path, MINE.replace("mnist_var@digits", "mnist_var")))
    at_hand = [spec for spec in plan.runs if spec.task == "mnist_var@digits"]
    published = [replace(spec, task="mnist_var@mnist") for spec in at_hand]
    shown = choose_sources(plan, {published[0].key})
    assert {spec.task for spec in shown.runs} == {"normal_var@exact", "mnist_var@mnist"}
    assert choose_sources(plan, {published[0].key, at_hand[1].key}) == plan  # what is at hand goes first, and nothing is mixed
    named = expand(write(tmp_path, MINE))
    assert choose_sources(named, {published[0].key}) == named


def test_data_that_stand_in_may_be_fewer_than_the_papers(tmp_path):
    text = MINE.replace("mnist_var@digits", "mnist_var") + "[stand_in]\nmnist_var = { num_train = 3000, set_size = 100 }\n"
    plan = expand(write(tmp_path, text))
    digits = [spec for spec in plan.runs if spec.task == "mnist_var@digits"]
    assert {tuple(spec.data_options.items()) for spec in digits} == {(("num_train", 3000),)}  # sets have no more than 10 elements
    assert not any(spec.data_options for spec in plan.runs if spec.task == "normal_var@exact")
    assert "3,000 of 50,000 training sets" in plan.describe_reduction()
    quick = expand(write(tmp_path, text), quick=True)
    assert {spec.data_options["num_train"] for spec in quick.runs} == {128}

    write_mnist(tmp_path / "files" / "mnist")
    real = expand(write(tmp_path, text), data_dir=tmp_path / "files")
    assert {spec.task for spec in real.runs if spec.data_options} == set()
    # results of either are found from the other: its runs are not those of the stand-in with another name
    assert choose_sources(plan, {spec.key for spec in real.runs}).cells == real.cells
    assert choose_sources(real, {spec.key for spec in digits}).cells == plan.cells


def test_quick_may_shrink_one_task_more_than_others(tmp_path):
    plan = expand(write(tmp_path, MINE + "mnist_var = { num_train = 64 }\n"), quick=True)
    assert [spec.data_options["num_train"] for spec in plan.runs] == [128, 64, 128, 64, 128]
    assert {spec.train.epochs for spec in plan.runs if not spec.is_baseline} == {2}


def test_quick_needs_a_recipe_that_says_what_to_shrink(tmp_path):
    recipe = write(tmp_path, MINE.partition("[quick]")[0])
    with pytest.raises(ValueError, match=r"mine.toml: it has no \[quick\]"):
        expand(recipe, quick=True)


def test_only_keeps_the_cells_with_these_values(tmp_path):
    recipe = write(tmp_path, MINE)
    plan = expand(recipe, only={"task": ["mnist_var"], "depth": ["25"]})
    assert [(c.settings["depth"], c.settings["task"]) for c in plan.cells] == [(25, "mnist_var@digits")]
    assert [c.settings["task"] for c in expand(recipe, only={"depth": ["3"]}).cells] == ["normal_var", "mnist_var@digits"]
    assert len(expand(load_recipe("norms"), only={"model": ["deep_sets"]}).cells) == 12  # a fixed setting may be named, too


@pytest.mark.parametrize(
    ("only", "message"),
    [
        ({"taks": ["normal_var"]}, r"mine has no axis 'taks'. Did you mean 'task'\? Axes: model, depth, task"),
        ({"depth": ["30"]}, r"mine has no depth '30'.* Values of depth: 3, 25"),
        (
            {"task": ["normal_vra"]},
            r"mine has no task 'normal_vra'. Did you mean 'normal_var'\? Values of task: normal_var, mnist",
        ),
        ({"model": ["baseline:constant"], "depth": ["3"]}, "each value occurs, but not together"),
    ],
)
def test_only_says_which_axes_and_values_there_are(tmp_path, only, message):
    with pytest.raises(ValueError, match=message):
        expand(write(tmp_path, MINE), only=only)


def test_only_is_read_from_texts():
    assert parse_only(["task=a,b", "depth=3", "task=c"]) == {"task": ["a", "b", "c"], "depth": ["3"]}
    for wrong in ("task", "=3", "task=", "task= ,"):
        with pytest.raises(ValueError, match="--only takes axis=value"):
            parse_only([wrong])


def test_other_seeds_replace_the_recipes(tmp_path):
    plan = expand(write(tmp_path, MINE), seeds=[7, 8, 9])
    assert [spec.train.seed for spec in plan.cells[0].runs] == [7, 8, 9]
    assert [spec.train.seed for spec in plan.cells[-1].runs] == [7]  # the baseline has one run, whatever the seeds
    assert plan.cells[0].num_seeds == 2
    with pytest.raises(ValueError, match="each once"):
        expand(write(tmp_path, MINE), seeds=[1, 1])


def test_settings_from_outside_go_before_the_recipes(tmp_path):
    recipe = write(tmp_path, MINE)
    plan = expand(recipe, settings={"precision": "bf16-mixed"})
    networks = [spec for spec in plan.runs if not spec.is_baseline]
    assert {spec.train.precision for spec in networks} == {"bf16-mixed"}
    assert not {spec.key for spec in networks} & {spec.key for spec in expand(recipe).runs}


def test_what_is_fixed_for_networks_is_not_meant_for_baselines(tmp_path):
    recipe = write(tmp_path, MINE.replace("[[grid]]", "[fixed]\nwidth = 8\nnum_test = 50\n[[grid]]", 1))
    network, baseline = expand(recipe).cells[0].runs[0], expand(recipe).cells[-1].runs[0]
    assert (network.model_options["width"], network.data_options) == (8, {"num_test": 50})
    assert (baseline.model_options, baseline.data_options) == ({}, {"num_test": 50})
    with pytest.raises(ValueError, match="baseline:constant is not a network, so it takes no option 'width'"):
        write(tmp_path, MINE.replace('model = "baseline:constant"', 'model = "baseline:constant"\nwidth = 8'))


def test_a_task_without_a_source_takes_the_one_at_hand(tmp_path):
    recipe = load_recipe("norms")
    only = {"task": ["mnist_var"]}
    assert {spec.task for spec in expand(recipe, only=only).runs} == {"mnist_var@digits"}
    write_mnist(tmp_path / "files" / "mnist")
    assert {spec.task for spec in expand(recipe, only=only, data_dir=tmp_path / "files").runs} == {"mnist_var@mnist"}


def test_a_task_that_was_prepared_in_another_size_is_not_at_hand(tmp_path):
    """Its files may be gone: a smaller version could not be made from them."""
    from orderless.tasks import load_task

    files = tmp_path / "files"
    write_mnist(files / "mnist")
    load_task("mnist_var@mnist", data_dir=files, num_train=128)
    only = {"task": ["mnist_var"]}
    recipe = write(tmp_path, MINE.replace("mnist_var@digits", "mnist_var"))
    assert expand(recipe, only=only).runs[0].task == "mnist_var@digits"
    assert expand(recipe, only=only, quick=True).runs[0].task == "mnist_var@mnist"


def test_a_model_that_is_not_here_is_a_cell_without_runs_and_with_a_reason():
    peers = load_recipe("point_cloud_peers")
    plan = expand(replace(peers, missing={"simpleview": "not built yet"}))
    reasons = {cell.settings["model"]: cell.reason for cell in plan.cells if not cell.runs}
    assert reasons == {"simpleview": "not built yet"}


def test_networks_for_point_clouds_are_trained_by_the_protocol_of_simpleview():
    plan = expand(load_recipe("point_cloud_peers"))
    assert len(plan.runs) == 18
    assert {run.train.batch_size for run in plan.runs if run.model == "simpleview"} == {18}
    for run in plan.runs:
        train = run.train
        assert run.task.startswith("point_cloud_smooth@")
        assert (train.epochs, train.learning_rate, train.weight_decay, train.optimizer) == (160, 1e-3, 0.0, "adam")
        assert (train.schedule, train.drop_last, train.protocol) == ("plateau", True, "whole")
        assert train.batch_size == (18 if run.model == "simpleview" else 32)
        assert "set_size" not in run.data_options  # the 1,024 of the task
    assert {run.key for run in expand(load_recipe("accuracy_curves")).runs} == {run.key for run in plan.runs}


def test_published_figures_are_tied_to_their_cells():
    recipe = load_recipe("residual_type")
    plan = expand(recipe)
    figures = [published_for(recipe, cell, recipe.metrics_of(cell.task)[0]) for cell in plan.cells]
    assert len(figures) == 20
    assert all(figure is not None for figure in figures)
    (cell,) = [
        c for c in plan.cells if (c.settings["model"], c.settings["residual"], c.task) == ("deep_sets++", "max", "mnist_var")
    ]
    assert published_for(recipe, cell, "mse")["mean"] == 1.3798
    assert published_for(recipe, cell, "accuracy") is None


def test_what_a_network_has_by_default_counts_when_figures_are_looked_for(tmp_path):
    """Deep Sets++ without a word about norm and residual is the one with set norm and clean paths, not the table's first."""
    text = (
        MINE.partition("[[grid]]")[0]
        + '[[grid]]\nmodel = "deep_sets++"\ntask = "normal_var"\n[published]\nfrom = ["clean_path"]\n'
    )
    recipe = write(tmp_path, text)
    (cell,) = expand(recipe).cells
    assert published_for(recipe, cell, "mse")["mean"] == 0.0198
