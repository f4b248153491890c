"""Recipes: what they say is read, and what is wrong in them is told with the file, the key, and what is allowed."""

import re
from pathlib import Path

import pytest

from orderless.experiments import recipe as recipe_module
from orderless.experiments.grid import RecipeError, expand
from orderless.experiments.recipe import list_recipes, load_recipe
from orderless.models import list_models
from orderless.tasks.registry import TASKS

GOOD = """
name = "mine"
kind = "table"
title = "Mine"
seeds = [0, 1]
rows = ["model", "depth"]
columns = ["task"]
notes = ["A note."]

[fixed]
epochs = 2

[[grid]]
model = ["deep_sets", "deep_sets++"]
depth = [4, 8]
task = ["normal_var", "point_cloud"]

[metrics]
point_cloud = ["accuracy", "cross_entropy"]

[quick]
epochs = 1

[published]
columns = ["task", "model", "depth", "metric", "mean", "std"]
rows = [
    ["normal_var", "deep_sets", 4, "mse", 1.50, 0.10],
    ["point_cloud", "deep_sets++", "", "accuracy", 0.9, ""],
]
"""

CONCLUSION = """
[[conclusions]]
says = "Deeper is better."
ahead = { depth = 8 }
behind = { depth = 4 }
where = { task = ["normal_var"] }

[quick]
"""


def load(folder, text):
    path = folder / "mine.toml"
    path.write_text(text)
    return load_recipe(path)


@pytest.mark.parametrize("name", list_recipes())
def test_every_recipe_is_good_and_bears_the_name_of_its_file(name):
    recipe = load_recipe(name)
    assert recipe.name == name == recipe.path.stem
    assert recipe.title
    assert bool(recipe.label) == (recipe.path.parent.name == "paper")
    assert (recipe.drawing is not None) == (recipe.kind == "figure")
    if recipe.blocks:
        assert {"epochs", "num_train"} & set(recipe.quick)


def test_the_papers_recipes_are_all_there():
    kinds = {name: load_recipe(name).kind for name in list_recipes()}
    tables = {"layer_norm", "norms", "clean_path", "residual_type", "main_results", "flow_rbc_baselines", "point_cloud_peers"}
    tables |= {"freq_add", "cost", "orders"}
    figures = {"gradients", "residual_arrangements", "rbc_distribution", "layer_norm_2d", "freq_add_curves", "accuracy_curves"}
    assert tables <= {name for name, kind in kinds.items() if kind == "table"}
    assert figures <= {name for name, kind in kinds.items() if kind == "figure"}


def test_tables_of_the_paper_are_evaluated_as_its_code_does_as_well():
    """Those of SimpleView's protocol apart, and the cost of a step, which no evaluation changes."""
    for name in list_recipes():
        recipe = load_recipe(name)
        if recipe.path.parent.name == "paper" and recipe.blocks:
            others = ("point_cloud_peers", "accuracy_curves", "cost")
            assert (recipe.fixed.get("protocol") == "released") == (name not in others)


def test_a_recipe_says_what_it_says(tmp_path):
    recipe = load(tmp_path, GOOD)
    assert (recipe.rows, recipe.columns, recipe.notes) == (("model", "depth"), ("task",), ("A note.",))
    assert recipe.axes == {"model": ["deep_sets", "deep_sets++"], "depth": [4, 8], "task": ["normal_var", "point_cloud"]}
    assert recipe.metrics_of("point_cloud@shapes") == ("accuracy", "cross_entropy")
    assert recipe.metrics_of("normal_var") == ("mse",)
    first, second = recipe.published
    assert (first["mean"].text, first["std"].text) == ("1.50", "0.10")
    assert set(second) == {"task", "model", "metric", "mean"}  # what is empty is not said


def test_without_a_layout_tasks_make_columns_and_the_rest_rows(tmp_path):
    text = GOOD.replace('rows = ["model", "depth"]\ncolumns = ["task"]\n', "")
    recipe = load(tmp_path, text)
    assert (recipe.rows, recipe.columns) == (("model", "depth"), ("task",))


def test_networks_of_a_recipe_may_standardise(tmp_path):
    """Which only the network of a task can, and not the one that is built to see whether its options fit."""
    text = GOOD.replace('rows = ["model", "depth"]', 'rows = ["model", "depth", "standardize"]')
    recipe = load(tmp_path, text.replace("depth = [4, 8]", "depth = [4, 8]\nstandardize = [true, false]"))
    runs = expand(recipe).runs
    assert sum("standardize" in run.model_options for run in runs) == len(runs) / 2
    default = expand(load(tmp_path, GOOD.replace("epochs = 2", 'epochs = 2\ntraining = "default"'))).runs
    assert all(run.model_options["standardize"] for run in default)


def test_figures_of_other_recipes_may_be_used(tmp_path):
    text = (
        GOOD.partition("[published]")[0].replace("depth = [4, 8]", "depth = [3, 50]") + '[published]\nfrom = ["main_results"]\n'
    )
    assert {(row["task"], row["model"], row["depth"]) for row in load(tmp_path, text).published} == {
        ("point_cloud", model, depth) for model in ("deep_sets", "deep_sets++") for depth in (3, 50)
    }


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('title = "Mine"\n', "", "it has no 'title'"),
        ('title = "Mine"', 'titel = "Mine"', "there is no key 'titel'. Did you mean 'title'.* Keys: name, kind"),
        ('name = "mine"', 'name = "../mine"', "name must consist of letters, digits, _, . and -, .* got '../mine'"),
        ('name = "mine"', f'name = "{61 * "n"}"', "name must consist of letters, digits, _, . and -, at most 60 of them"),
        ('["accuracy", "cross_entropy"]', "[]", r"point_cloud of \[metrics\] has no values: name one of cross_entropy, accuracy"),
        ('columns = ["task", "model", "depth", "metric"', "#", r"\[published\] has rows but no columns"),
        ("seeds = [0, 1]", f"seeds = [{5000 * '9'}]", "cannot be read: Exceeds the limit"),
        ("seeds = [0, 1]", f"seeds = {3000 * '['}{3000 * ']'}", "cannot be read|not TOML"),
        ('"mse", 1.50, 0.10]', '"mse", "x", 0.10]', r"mean in row 1 of \[published\] must be a number; got 'x'"),
        (
            'columns = ["task", "model", "depth", "metric"',
            'columns = "x"\n#',
            r"columns of \[published\] must be a list; got 'x'",
        ),
        ('kind = "table"', 'kind = "tabel"', "kind must be one of table, figure; got 'tabel'"),
        ("seeds = [0, 1]", 'seeds = "0,1"', "seeds must be a list of whole numbers; got '0,1'"),
        ("seeds = [0, 1]", "seeds = [0, 0]", r"seeds must be a list of whole numbers.* each once; got \[0, 0\]"),
        ("seeds = [0, 1]", "seeds = [-1]", "seeds must be a list of whole numbers of at least 0"),
        ("seeds = [0, 1]", "seeds = [true]", "seeds must be a list of whole numbers"),
        ('notes = ["A note."]', "notes = [1]", "notes must be a list of texts; got 1"),
        ('notes = ["A note."]', 'drawing = "curves"', "drawing belongs to figures, and this is a table"),
        (
            'rows = ["model", "depth"]',
            'rows = ["model", "deep"]',
            "rows names 'deep', which the grid does not have. Axes: epochs, model",
        ),
        (
            'rows = ["model", "depth"]',
            'rows = ["model"]',
            "two cells share one place of the table.* add depth to rows or columns",
        ),
        ('rows = ["model", "depth"]', 'rows = ["model", "depth", "task"]', "task cannot make both rows and columns"),
        (
            'rows = ["model", "depth"]\ncolumns = ["task"]',
            'rows = ["model", "depth", "task"]\nrow_changes = true',
            "row_changes is for rows of settings: make columns of the tasks",
        ),
        (
            'rows = ["model", "depth"]\ncolumns = ["task"]',
            'row_changes = true\ncolumns = ["depth"]',
            "row_changes is for rows of settings: make columns of the tasks",
        ),
        ('rows = ["model", "depth"]', 'rows = ["model", "depth"]\nrow_changes = 1', "row_changes must be true or false"),
        ("[[grid]]", "[grid]", r"grid must be \[\[grid\]\], once or more"),
        ("depth = [4, 8]", "depth = []", r"depth of \[\[grid\]\] 1 has no values"),
        ("depth = [4, 8]", "depth = [[4], [8]]", r"depth of \[\[grid\]\] 1 must have texts, numbers, true or false.* got \[4\]"),
        ("depth = [4, 8]", "depth = [4, 4]", "two cells share one place of the table.* the grid has them twice"),
        ("depth = [4, 8]", '"depth, width" = [[4, 8], [8]]', "takes lists of 2 values, one for each of its settings; got"),
        ("depth = [4, 8]", '"depth, model" = [[4, "deep_sets"]]', r"\[\[grid\]\] 1 has model twice"),
        ("depth = [4, 8]", "dept = [4, 8]", "rows names 'depth'"),
        ("depth = [4, 8]", "depth = [4, 8]\ndeph = 3", "there is no option 'deph'. Did you mean 'depth'.* Of the network: depth"),
        ("depth = [4, 8]", 'depth = [4, 8]\nnorm = "sett"', "norm must be one of none, layer.* got 'sett'"),
        (
            "depth = [4, 8]",
            f"depth = [4, {10**22}]",
            "model=deep_sets depth=10000000000000000000000.*: depth must be at most 10,000",
        ),
        ("depth = [4, 8]", "depth = [4, 8]\nwidth = 1e23", r"width must be a whole number of at least 1; got 1e\+23"),
        ("depth = [4, 8]", f"depth = [4, 8]\nwidth = {10**23}", f"width must be at most 16,777,216; got {10**23}"),
        ("depth = [4, 8]", 'depth = ["deep", 8]', "depth must be a whole number of at least 1; got 'deep'"),
        ("depth = [4, 8]", "depth = [4, 8]\nseed = 1", "seed of .*a recipe names its seeds under the key seeds"),
        ("depth = [4, 8]", "depth = [4, 8]\nset_size = 0", "set_size of .* must be a whole number of at least 1; got 0"),
        ("depth = [4, 8]", 'depth = [4, 8]\noptimizer = "sgd"', "optimizer must be one of adam, adamw; got 'sgd'"),
        ('"deep_sets++"]', '"deep_setspp"]', r"there is no model 'deep_setspp'. Did you mean 'deep_sets"),
        ('"point_cloud"]\n', '"point_clod"]\n', r"there is no task 'point_clod'. Did you mean 'point_cloud'"),
        ('"point_cloud"]\n', '"point_cloud@cifar10"]\n', "point_cloud comes from modelnet40, shapes"),
        ('task = ["normal_var", "point_cloud"]', "", "columns names 'task'"),
        ("epochs = 2", "epochs = 0", "epochs must be a whole number of at least 1, got 0"),
        ("epochs = 2", "epochs = [2]", r"epochs of \[fixed\] must have texts, numbers"),
        ('point_cloud = ["acc', 'normal_vra = ["acc', r"\[metrics\] names 'normal_vra', which is not a task of this recipe"),
        (
            '["accuracy", "cross_entropy"]',
            '"mse"',
            r"point_cloud of \[metrics\] must be of cross_entropy, accuracy, num_par.* got 'mse'",
        ),
        ("[quick]\nepochs = 1", "[quick]\nepoch = 1", r"\[quick\] has no key 'epoch'. Did you mean 'epochs'"),
        ("[quick]\nepochs = 1", "[quick]\nepochs = 0.5", r"epochs of \[quick\] must be a whole number of at least 1; got 0.5"),
        ("[quick]\nepochs = 1", "[quick]\npoint_cloud = { epoch = 1 }", r"point_cloud of \[quick\] has no key 'epoch'"),
        ("[quick]\nepochs = 1", "[quick]\npoint_cloud = 1", r"\[quick\] has no key 'point_cloud'.* or a task with limits"),
        ("[quick]", "[stand_in]\nnum_train = 5\n[quick]", r"\[stand_in\] takes tasks with limits, such as .*; got 'num_train'"),
        (
            "[quick]",
            "[stand_in]\npoint_cloud = { epochs = 5 }\n[quick]",
            r"point_cloud of \[stand_in\] has no key 'epochs'.* Keys: num_train, num_test, set_size\.$",
        ),
        ('"metric", "mean", "std"]', '"metric", "mean", "sdt"]', r"\[published\] has no column 'sdt'. Did you mean 'std'"),
        ('"mse", 1.50, 0.10]', '"mse", 1.50]', r"row 1 of \[published\] must have 6 values"),
        ('"deep_sets", 4, "mse"', '"deep_sets", 5, "mse"', r"row 1 of \[published\], task=normal_var .*fits no cell of the grid"),
        ('"deep_sets", 4, "mse"', '"deep_sets", 4, "accuracy"', r"row 1 of \[published\].*fits no cell of the grid"),
        ('"deep_sets", 4, "mse"', '"deep_sets", 4, ""', r"row 1 of \[published\] needs a metric, and a mean or a ratio"),
        ("[published]", '[published]\nfrom = ["norms"]', r"from of \[published\] is a list of recipes, and stands alone"),
        ("[published]", '[published]\nform = ["norms"]', r"\[published\] has no key 'form'"),
        (
            "[quick]",
            '[missing]\nsimpleview = "why"\n[quick]',
            r"\[missing\] names 'simpleview', which is not a model",
        ),
        ("[quick]", "[missing]\ndeep_sets = 1\n[quick]", r"deep_sets of \[missing\] must be a text that says why; got 1"),
        ("[quick]", '[relative_to]\nmodel = "x"\n[quick]', "relative_to has model='x', which the grid does not have"),
        ("[quick]", '[relative_to]\nmodel = "deep_sets"\n[quick]', "relative_to fits several rows: add depth to it"),
        (
            "[quick]",
            '[relative_to]\ntask = "normal_var"\n[quick]',
            "relative_to names 'task', which makes columns, but it must name a row",
        ),
        (
            "[quick]",
            '[[conclusions]]\nsays = "Deeper is better."\n[quick]',
            r"\[\[conclusions\]\] 1 takes says, ahead, behind and",
        ),
        ("[quick]", CONCLUSION.replace("4", '"x"'), r"\[\[conclusions\]\] 1 compares no two cells of the grid"),
        (
            "[quick]",
            CONCLUSION.replace("{ depth = 4 }", "4"),
            r"behind of \[\[conclusions\]\] 1 must be a table of s",
        ),
        ("[quick]", CONCLUSION.replace('"Deeper is better."', "1"), r"says of \[\[conclusions\]\] 1 must be a text; got 1"),
        ('kind = "table"', 'kind = "table', "this is not TOML"),
    ],
)
def test_what_is_wrong_is_told_with_the_file_and_what_is_allowed(tmp_path, old, new, message):
    assert old in GOOD
    with pytest.raises(RecipeError, match=message) as caught:
        load(tmp_path, GOOD.replace(old, new, 1))
    assert str(caught.value).startswith(f"{tmp_path / 'mine.toml'}: ")
    assert "\n" not in str(caught.value)


def test_a_byte_order_mark_before_a_recipe_does_not_matter(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    marked = load_recipe(path)
    assert marked == load(tmp_path, GOOD)


def test_a_run_that_is_there_twice_is_told(tmp_path):
    """The default norm of Deep Sets is none, so these two cells are one run."""
    text = GOOD.replace('"deep_sets++"]', '"deep_sets++"]\nnorm = ["none", "set"]').replace(
        '"model", "depth"]', '"model", "depth", "norm"]'
    )
    load(tmp_path, text)
    again = '\n[[grid]]\nmodel = "deep_sets"\ndepth = 4\ntask = "normal_var"\n[metrics]'
    with pytest.raises(
        RecipeError, match=r"one run occurs twice: model=deep_sets norm=none depth=4.*, and model=deep_sets depth=4"
    ):
        load(tmp_path, text.replace("\n[metrics]", again))


def test_figures_of_a_recipe_that_is_not_there_are_told(tmp_path):
    text = GOOD.partition("[published]")[0] + '[published]\nfrom = ["nroms"]\n'
    with pytest.raises(RecipeError, match=r"from of \[published\]: there is no recipe 'nroms'. Did you mean 'norms'"):
        load(tmp_path, text)


@pytest.mark.parametrize(
    ("figures", "message"),
    [
        ("published = 1", "published must be columns and rows, or from; got 1"),
        ('[published]\nrows = [["mse", 1.0]]', r"\[published\] has rows but no columns"),
        ('[published]\ncolumns = [["metric"], "mean"]\nrows = [["mse", 1.0]]', r"\[published\] has no column \['metric'\]"),
        ('[published]\ncolumns = ["metric", "mean"]\nrows = [["mse"]]', r"row 1 of \[published\] must have 2 values"),
        ('[published]\ncolumns = ["metric", "mean"]\nrows = [["mse", "x"]]', r"mean in row 1 of \[published\] must be a number"),
        ('[published]\ncolumns = ["task", "mean"]\nrows = [["normal_var", 1.0]]', r"row 1 of \[published\] needs a metric"),
        ("published = ", "this is not TOML"),
    ],
)
def test_figures_of_another_recipe_are_checked_as_ones_own(tmp_path, figures, message):
    """They are shown when all runs are done, which is too late to find a slip."""
    other = tmp_path / "other.toml"
    other.write_text(figures)
    with pytest.raises(RecipeError, match=message) as caught:
        load(tmp_path, GOOD.partition("[published]")[0] + f'[published]\nfrom = ["{other.as_posix()}"]\n')
    assert str(caught.value).startswith(f"{other}: ")


def test_a_recipe_that_has_its_figures_from_others_has_none_to_give(tmp_path):
    (tmp_path / "other.toml").write_text('[published]\nfrom = ["norms"]')
    with pytest.raises(RecipeError, match=r"from of \[published\]: .*other\.toml has no figures of its own"):
        load(tmp_path, GOOD.partition("[published]")[0] + f'[published]\nfrom = ["{(tmp_path / "other.toml").as_posix()}"]\n')


def test_a_table_without_runs_is_told(tmp_path):
    with pytest.raises(RecipeError, match=r"a table needs runs: add \[\[grid\]\]"):
        load(tmp_path, 'name = "mine"\nkind = "table"\ntitle = "Mine"\n')


def test_a_grid_without_a_model_is_told(tmp_path):
    text = 'name = "mine"\nkind = "table"\ntitle = "Mine"\n[[grid]]\ntask = "normal_var"\n'
    with pytest.raises(RecipeError, match=r"\[\[grid\]\] 1 has no model: it belongs in the grid or in \[fixed\]"):
        load(tmp_path, text)


def test_a_figure_needs_no_runs(tmp_path):
    recipe = load(tmp_path, 'name = "mine"\nkind = "figure"\ntitle = "Mine"\n[options]\ntask = "hematocrit"\n')
    assert (recipe.drawing, recipe.options, recipe.blocks) == ("mine", {"task": "hematocrit"}, ())


def test_unknown_recipes_are_told_with_the_closest(tmp_path):
    with pytest.raises(ValueError, match=r"there is no recipe 'clean_pth'. Did you mean 'clean_path'\? Recipes: .*main_results"):
        load_recipe("clean_pth")
    with pytest.raises(ValueError, match=r"there is no recipe file .*nowhere\.toml"):
        load_recipe(tmp_path / "nowhere.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecipeError, match="cannot be read"):
        load_recipe(tmp_path / "binary.toml")


def test_recipes_name_tasks_and_models_that_there_are():
    for name in list_recipes():
        recipe = load_recipe(name)
        axes = {**{key: [value] for key, value in recipe.fixed.items()}, **recipe.axes}
        assert {str(task).partition("@")[0] for task in axes.get("task", [])} <= set(TASKS)
        assert {m for m in axes.get("model", []) if not m.startswith("baseline:")} <= {*list_models(), *recipe.missing}


def test_the_docs_list_every_recipe():
    text = (Path(__file__).parents[2] / "docs" / "experiments.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\| `.*$", text, re.M)]
    listed = [(row[0].strip("`"), row[1], row[2], row[3]) for row in rows if len(row) == 5]
    recipes = [load_recipe(name) for name in list_recipes()]
    assert listed == [(r.name, r.kind, str(len(expand(r).runs) or ""), r.title) for r in recipes]


def test_the_docs_explain_every_key():
    text = (
        (Path(__file__).parents[2] / "docs" / "experiments.md").read_text().partition("| key | means |")[2].partition("\n\n")[0]
    )
    explained = re.findall(
        r"`\[*(\w+)\]*`", "\n".join(line.split("|")[1] for line in text.splitlines() if line.startswith("| `"))
    )
    assert set(explained) == set(recipe_module._TYPES)


def test_the_example_of_the_docs_is_a_good_recipe(tmp_path):
    text = (Path(__file__).parents[2] / "docs" / "experiments.md").read_text()
    (example,) = [block for block in re.findall(r"^```text\n(.*?)^```$", text, re.M | re.S) if block.startswith("name = ")]
    recipe = load(tmp_path, example)
    assert len(expand(recipe).runs) == (2 * 2 * 2 * 2 + 2 * 2) * 3 + 2
    normal_var = "Normal Var 100 of 10,000 training sets, 100 of 1,000 test sets, 1 of 50 epochs"
    hematocrit = "Hematocrit 100 of 98,240 training sets, 100 of 23,104 test sets, 1 of 30 epochs"
    assert expand(recipe, quick=True).describe_reduction() == f"reduced: {normal_var}; {hematocrit}; 1 of 3 seeds"


def test_conclusions_compare_cells_that_are_alike_in_all_else(tmp_path):
    (conclusion,) = load(tmp_path, GOOD.replace("[quick]", CONCLUSION)).conclusions
    deep = {"model": "deep_sets", "depth": 8, "task": "normal_var", "epochs": 2}
    assert conclusion.compares(deep, {**deep, "depth": 4})
    assert not conclusion.compares({**deep, "depth": 4}, deep)
    assert not conclusion.compares(deep, {**deep, "depth": 4, "model": "deep_sets++"})
    assert not conclusion.compares({**deep, "task": "point_cloud"}, {**deep, "depth": 4, "task": "point_cloud"})
    assert conclusion.compares(deep, {"model": "deep_sets", "depth": 4, "task": "normal_var"}), "what one lacks is no difference"
