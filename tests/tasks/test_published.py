"""The paper's figures: copied by hand here, and compared with what the recipes say."""

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from orderless.evaluate import BASELINES
from orderless.models import list_models
from orderless.tasks.published import published_figures, recipes_folder
from orderless.tasks.registry import TASKS

ROOT = Path(__file__).parents[2]

# task, table, what else says which, mean, std: from the paper's own tables
COPIED = [
    ("hematocrit", "main_results", {"model": "set_transformer++", "depth": 16}, 18.7008, 0.0183),
    ("hematocrit", "main_results", {"model": "deep_sets", "depth": 50}, 25.8791, 0.0014),
    ("mnist_var", "main_results", {"model": "set_transformer", "depth": 16}, 6.2663, 0.0036),
    ("point_cloud", "main_results", {"model": "deep_sets", "depth": 50}, 0.0409, 0.0),
    ("set_anomaly", "main_results", {"model": "set_transformer++", "depth": 8}, 0.6621, 0.0021),
    ("anemia", "main_results", {"model": "set_transformer", "depth": 8}, 0.5943, 0.0036),
    ("hematocrit", "layer_norm", {"norm": "layer"}, 19.0904, 0.1003),
    ("normal_var", "layer_norm", {"norm": "none"}, 0.0023, 0.0006),
    ("mnist_var", "norms", {"norm": "set"}, 0.259, 0.003),
    ("point_cloud", "norms", {"norm": "layer"}, 3.619, 0.0),
    ("normal_var", "norms", {"norm": "none"}, 8.4501, 0.0031),
    ("point_cloud", "clean_path", {"model": "deep_sets++", "residual": "clean", "norm": "layer"}, 0.63682, 0.0067),
    ("hematocrit", "clean_path", {"model": "set_transformer", "norm": "layer"}, 19.1975, 0.1395),
    ("normal_var", "clean_path", {"model": "set_transformer++", "norm": "set"}, 0.0030, 0.0),
    ("normal_var", "residual_type", {"model": "deep_sets++", "residual": "max"}, 0.8964, 0.1376),
    ("hematocrit", "residual_type", {"model": "set_transformer++", "residual": "clean"}, 18.6883, 0.0238),
    ("mnist_var", "residual_type", {"model": "set_transformer++", "residual": "mean"}, 1.6273, 0.0335),
    ("hematocrit", "flow_rbc_baselines", {"model": "rdw"}, 25.85, None),
    ("hematocrit", "flow_rbc_baselines", {"model": "moments"}, 22.31, None),
    ("point_cloud_smooth", "point_cloud_peers", {"model": "pointnet++"}, 0.92, None),
    ("point_cloud_smooth", "point_cloud_peers", {"model": "deep_sets_pointcloud"}, 0.86, None),
]


@pytest.mark.parametrize(("task", "table", "where", "mean", "std"), COPIED)
def test_published_figures_are_the_papers(task, table, where, mean, std):
    (row,) = [r for r in TASKS[task].published if r.table == table and all(getattr(r, k) == v for k, v in where.items())]
    assert (row.mean, row.std) == (mean, std)


def test_no_figure_is_lost_or_new():
    by_table = Counter(row.table for _, row in published_figures())
    assert by_table == {
        "main_results": 60,
        "norms": 12,
        "clean_path": 48,
        "residual_type": 20,
        "layer_norm": 6,
        "flow_rbc_baselines": 3,
        "point_cloud_peers": 6,
    }
    counts = {name: len(task.published) for name, task in TASKS.items() if task.published}
    assert counts == {
        "hematocrit": 37, "mnist_var": 32, "point_cloud": 34, "point_cloud_smooth": 6, "set_anomaly": 12, "anemia": 12,
        "normal_var": 22,
    }  # fmt: skip


def test_tables_that_print_one_run_differently_keep_their_own_figures():
    rows = [r for r in TASKS["hematocrit"].published if (r.model, r.depth, r.norm) == ("set_transformer++", 16, "set")]
    printed = {r.table: r.mean for r in rows if r.residual == "clean"}
    assert printed == {"main_results": 18.7008, "clean_path": 18.7008, "residual_type": 18.6883, "flow_rbc_baselines": 18.69}


def test_published_models_and_options_are_names_of_ours():
    known = {*list_models(), *BASELINES}
    for task in TASKS.values():
        for row in task.published:
            assert row.model in known
            assert row.norm in ("none", "layer", "feature", "set", "")
            assert row.residual in ("none", "clean", "non_clean", "mean", "max", "")
            assert row.metric in ("mse", "accuracy", "cross_entropy")


def test_the_best_published_figure_is_the_lowest_loss_or_the_highest_accuracy_of_a_network_on_sets():
    best = {name: task.best_published.mean for name, task in TASKS.items() if task.best_published}
    assert best == {
        "hematocrit": 18.5747,
        "mnist_var": 0.259,
        "point_cloud": 0.8258,
        "point_cloud_smooth": 0.92,
        "set_anomaly": 0.6621,
        "anemia": 0.5943,
        "normal_var": 0.0023,
    }


def test_a_figure_remembers_its_digits_and_is_a_number_all_the_same():
    (row,) = [r for r in TASKS["mnist_var"].published if (r.table, r.model, r.depth) == ("main_results", "deep_sets", 3)]
    assert row.mean.text == "0.4520"
    assert row.mean == 0.452
    assert json.dumps(row.mean) == "0.452"


def test_recipes_are_found_in_a_clone_and_before_that_in_an_installed_package(tmp_path):
    assert recipes_folder() == ROOT / "recipes"
    site = tmp_path / "site"
    shutil.copytree(ROOT / "src" / "orderless", site / "orderless", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "recipes", site / "orderless" / "recipes")
    code = (
        "from orderless.tasks.published import recipes_folder, published_figures; "
        "print(recipes_folder()); print(len(published_figures()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={"PYTHONPATH": str(site)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(site / "orderless" / "recipes"), "155"]


def test_recipes_are_shipped():
    import tomllib

    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    assert build["wheel"]["force-include"] == {"recipes": "orderless/recipes"}
    assert "recipes" in build["sdist"]["include"]
