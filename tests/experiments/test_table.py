"""What a table shows: ours beside the paper's, what is missing, what diverged, and whose data it is."""

import statistics
from dataclasses import replace

import pytest
from experiments.plans import _nobodys_files, plan_of, result  # noqa: F401

from orderless.experiments.grid import expand
from orderless.experiments.recipe import load_recipe
from orderless.experiments.table import build_table

pytestmark = pytest.mark.usefixtures("_nobodys_files")


def one_cell(name="norms", **options):
    """A plan with one cell of three runs: Deep Sets 50 without a norm on Normal Var."""
    return plan_of(name, only={"task": ["normal_var"], "norm": ["none"]}, **options)


def entry_of(plan, lines):
    (entry,) = build_table(plan, lines).entries.values()
    return entry


def test_a_cell_shows_mean_and_sample_standard_deviation_over_seeds():
    plan = one_cell()
    values = [1.0, 2.0, 4.0]
    entry = entry_of(plan, [result(spec, value) for spec, value in zip(plan.runs, values, strict=True)])
    assert entry.ours.mean == pytest.approx(7 / 3)
    assert entry.ours.std == pytest.approx(statistics.stdev(values))
    assert entry.say_ours() == "2.3333 ± 1.5275"
    assert entry.say_published() == "8.4501 ± 0.0031"


def test_a_cell_of_fewer_runs_than_planned_says_so():
    plan = one_cell()
    assert entry_of(plan, [result(spec, 2.0) for spec in plan.runs[:2]]).say_ours() == "2.0000 ± 0.0000 (n=2)"
    assert entry_of(plan, [result(plan.runs[0], 2.0)]).say_ours() == "2.0000 (n=1)"
    assert entry_of(one_cell(seeds=[0]), [result(plan.runs[0], 2.0)]).say_ours() == "2.0000 (n=1)"  # however few were asked for


def test_missing_runs_are_shown_as_missing():
    plan = one_cell()
    entry = entry_of(plan, [])
    assert entry.say_ours() == "- (3 missing)"
    assert entry.say_published() == "8.4501 ± 0.0031"
    assert build_table(plan, []).counts == {"finished": 0, "diverged": 0, "missing": 3}


def test_diverged_runs_are_shown_as_diverged_and_are_not_in_the_mean():
    plan = one_cell()
    diverged = {"status": "diverged", "metrics": {}, "message": "the loss became NaN"}
    lines = [result(spec, 3.0, **(diverged if n else {})) for n, spec in enumerate(plan.runs)]
    table = build_table(plan, lines)
    assert entry_of(plan, lines).say_ours() == "3.0000 (n=1, 2 diverged)"
    assert entry_of(plan, lines[1:]).say_ours() == "- (2 diverged, 1 missing)"
    assert table.counts == {"finished": 1, "diverged": 2, "missing": 0}


def test_the_authors_evaluation_is_shown_where_it_makes_a_difference_that_can_be_seen():
    plan = one_cell()
    different = entry_of(plan, [result(spec, 1.0, released=1.25) for spec in plan.runs])
    assert different.say_ours() == "1.0000 ± 0.0000 [1.2500 ± 0.0000]"
    equal = entry_of(plan, [result(spec, 1.0, released=1.00001) for spec in plan.runs])
    assert equal.say_ours() == "1.0000 ± 0.0000"
    notes = build_table(plan, [result(spec, 1.0, released=1.25) for spec in plan.runs]).notes
    assert any("In square brackets" in note and "authors' code" in note for note in notes)
    assert not any("In square brackets" in note for note in build_table(plan, [result(plan.runs[0], 1.0)]).notes)


def test_the_papers_digits_are_kept():
    table = build_table(plan_of("clean_path"), [])
    printed = {entry.say_published() for entry in table.entries.values()}
    assert "0.63682 ± 0.0067" in printed
    assert "0.1195 ± 0.0000" in printed
    assert {e.say_published() for e in build_table(plan_of("flow_rbc_baselines"), []).entries.values()} == {
        "25.85",
        "22.31",
        "18.69",
    }


@pytest.mark.parametrize(
    ("value", "text"), [(0.0198, "0.0198"), (0.0, "0.0000"), (3e-5, "3.0e-05"), (25.8791, "25.8791"), (2.5e7, "2.5e+07")]
)
def test_numbers_are_written_so_that_they_say_something(value, text):
    plan = one_cell()
    assert entry_of(plan, [result(plan.runs[0], value)]).say_ours() == f"{text} (n=1)"


def test_a_model_that_is_not_here_is_missing_with_its_reason():
    plan = plan_of("point_cloud_peers")
    cells = [replace(c, runs=(), reason="not built yet") if c.settings["model"] == "simpleview" else c for c in plan.cells]
    table = build_table(
        replace(plan, recipe=replace(plan.recipe, missing={"simpleview": "not built yet"}), cells=tuple(cells)), []
    )
    said = {entry.cell.settings["model"]: entry.say_ours() for entry in table.entries.values()}
    assert said["simpleview"] == "-"
    assert said["deep_sets++"] == said["pointnet++"] == "- (3 missing)"
    assert "SimpleView was not run: not built yet." in table.notes
    assert any("label smoothing" in note and "stretched" in note for note in table.notes)


def test_stand_in_data_are_told_in_the_heading_and_in_the_column():
    plan = plan_of("main_results", only={"task": ["hematocrit", "mnist_var"]})
    table = build_table(plan, [result(spec) for spec in plan.runs])
    (told,) = table.stand_ins
    assert told.startswith("Not the paper's data, so not the paper's figures: ")
    assert "Hematocrit (simulated: invented patients instead of Flow-RBC)" in told
    assert [table.column_label(column) for column in table.columns] == [
        "Hematocrit (simulated), MSE ↓",
        "MNIST Var (substituted), MSE ↓",
    ]


def test_data_of_a_publisher_that_are_not_all_there_are_told():
    plan = one_cell()
    odd = result(plan.runs[0], title="Normal Var (drawn, but 10 + 5 sets instead of 20 + 10)")
    assert "but 10 + 5 sets" in build_table(plan, [odd]).stand_ins[0]
    assert build_table(plan, [result(plan.runs[0])]).stand_ins == ()


def test_results_from_other_data_are_shown_where_there_are_none_from_the_data_at_hand():
    """Committed results of the published data are seen on a machine that does not have them."""
    plan = plan_of("norms", only={"task": ["mnist_var"], "norm": ["set"]})
    assert plan.runs[0].task == "mnist_var@digits"
    published = [result(replace(spec, task="mnist_var@mnist"), 0.25) for spec in plan.runs]
    table = build_table(plan, published)
    (entry,) = table.entries.values()
    assert (entry.ours.mean, entry.source) == (0.25, "mnist_var@mnist")
    assert table.stand_ins == ()
    (mixed,) = build_table(plan, [*published, result(plan.runs[0], 9.0)]).entries.values()
    assert (mixed.ours.mean, mixed.ours.count, mixed.num_missing) == (9.0, 1, 2)  # the sources of a task are never mixed


def test_small_and_changed_settings_are_told():
    assert build_table(one_cell(), []).conditions == ()
    (quick,) = build_table(one_cell(quick=True), []).conditions
    assert quick.startswith("reduced: 256 of 10,000 training sets, 64 of 1,000 test sets, 50 of 1,000 elements, 3 of 50 epochs")
    assert "say nothing about the published ones" in quick
    (small,) = build_table(plan_of("demo", only={"task": ["normal_var"]}), []).conditions
    assert small.startswith("reduced: 1,024 of 10,000 training sets, 512 of 1,000 test sets. ")  # which the recipe says itself
    (changed,) = build_table(one_cell(settings={"precision": "bf16-mixed"}), []).conditions
    assert changed == "Not as in the recipe: precision=bf16-mixed."


def test_metrics_stand_where_the_tasks_are():
    rows = build_table(plan_of("norms"), [])
    assert rows.axes == ("task",)
    assert [rows.row_labels(row)[0] for row in rows.rows][1] == "Point Cloud (simulated), cross entropy ↓"
    assert [rows.column_label(column) for column in rows.columns] == ["no norm", "layer norm", "set norm"]
    columns = build_table(plan_of("freq_add"), [])
    assert [columns.column_label(column) for column in columns.columns] == [
        "Point Cloud (simulated), cross entropy ↓",
        "Point Cloud (simulated), accuracy ↑",
    ]
    assert [columns.row_labels(row) for row in columns.rows] == [["clean path"], ["non-clean path"], ["FreqAdd"]]


def test_every_published_figure_of_a_table_is_shown_once():
    for name, count in {"layer_norm": 6, "norms": 12, "clean_path": 48, "main_results": 60, "point_cloud_peers": 6}.items():
        entries = build_table(plan_of(name), []).entries.values()
        assert sum(entry.published is not None for entry in entries) == count


def test_costs_are_shown_as_multiples():
    plan = plan_of("cost")
    sizes = {"deep_sets++": (898_689, 0.010), "set_transformer": (2_395_137, 0.018), "set_transformer++": (2_468_737, 0.025)}
    lines = [
        result(spec, num_parameters=sizes[spec.model][0], step_seconds=sizes[spec.model][1], hardware={"device": "a GPU"})
        for spec in plan.runs
    ]
    table = build_table(plan, lines)
    said = {(e.cell.settings["model"], e.metric): (e.say_ours(), e.say_published()) for e in table.entries.values()}
    assert said["deep_sets++", "num_parameters"] == ("898,689 (1.00 x)", "")
    assert said["set_transformer++", "num_parameters"] == ("2,468,737 (2.75 x)", "3 x")
    assert said["set_transformer++", "step_seconds"] == ("25.00 ± 0.00 (2.50 x)", "2 x")
    assert said["set_transformer++", "peak_memory_mib"] == ("-", "")
    assert "Measured on a GPU." in table.notes
    assert "Memory is measured on a GPU alone." in table.notes


def test_a_row_may_be_told_by_what_is_fixed(tmp_path):
    text = """
    name = "mine"
    kind = "table"
    title = "Mine"
    relative_to = { depth = 4, norm = "none" }
    [fixed]
    model = "deep_sets"
    task = "normal_var"
    depth = 4
    [[grid]]
    norm = ["none", "set"]
    """
    (tmp_path / "mine.toml").write_text(text)
    plan = expand(load_recipe(tmp_path / "mine.toml"))
    lines = [result(spec, value) for spec, value in zip(plan.runs, (2.0, 3.0), strict=True)]
    assert [entry.ratio for entry in build_table(plan, lines).entries.values()] == [1.0, 1.5]


def test_baselines_have_their_own_names_and_one_run():
    plan = plan_of("flow_rbc_baselines")
    table = build_table(plan, [result(spec, 20.0) for spec in plan.runs])
    assert [table.row_labels(row) for row in table.rows] == [
        ["RDW, linear"],
        ["Moments and quantiles, linear"],
        ["Set Transformer++"],
    ]
    assert [entry.say_ours() for entry in table.entries.values()] == ["20.0000", "20.0000", "20.0000 ± 0.0000"]


def test_rows_may_be_called_by_what_they_change_of_the_first():
    table = build_table(plan_of("ingredients"), [])
    assert table.axes == ("changed",)
    labels = [table.row_labels(row) for row in table.rows]
    assert labels[:3] == [["nothing"], ["elements as they come"], ["learning rate 0.0001"]]
    assert len({label for (label,) in labels}) == len(labels) == 11
    some = build_table(plan_of("ingredients", only={"schedule": ["constant"], "optimizer": ["adamw"]}), [])
    assert [some.row_labels(row) for row in some.rows] == [["schedule constant"]]  # of the recipe's first row, shown or not
