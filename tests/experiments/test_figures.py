"""Figures of recipes: `curves.py`, `material.py`, `page.py`, `gradients.py`, `training.py`, `cells.py` and `registry.py`."""

import csv
import math
from dataclasses import replace

import numpy as np
import pytest
from experiments.lines import make_line
from matplotlib.figure import Figure

from orderless.experiments.figures import (
    DRAWINGS,
    Material,
    check_options,
    draw_figure,
    find_drawing,
    parse_drawing_options,
    rehearse,
)
from orderless.experiments.figures.curves import (
    COLORS,
    MARKS,
    Look,
    Series,
    draw_curve,
    join,
    label_ends,
    read_curves,
    scale_axis,
    scale_share_axis,
    stopped_at,
)
from orderless.experiments.figures.diagrams import arrangements
from orderless.experiments.figures.material import label_cells
from orderless.experiments.figures.page import Drawn, write_drawn
from orderless.experiments.grid import expand
from orderless.experiments.recipe import list_recipes, load_recipe

GRADIENTS = """
name = "depth"
kind = "figure"
title = "Shallow and deep"
drawing = "gradients"
seeds = [0, 1]
notes = ["A note of the recipe."]
[fixed]
task = "normal_var"
epochs = 2
[[grid]]
model = "deep_sets"
depth = [3, 50]
[[grid]]
model = "set_transformer"
depth = [2]
[quick]
epochs = 1
num_train = 64
seeds = [0]
"""
CURVES = """
name = "residuals"
kind = "figure"
title = "Residuals"
drawing = "curves"
seeds = [0, 1, 2]
[fixed]
task = "point_cloud@shapes"
model = "deep_sets++"
epochs = 4
[[grid]]
residual = ["clean", "non_clean", "freq_add"]
[metrics]
point_cloud = "cross_entropy"
"""
PEERS = """
name = "peers"
kind = "figure"
title = "Peers"
drawing = "curves"
seeds = [0, 1]
[fixed]
task = "point_cloud@shapes"
epochs = 3
[[grid]]
model = ["deep_sets++", "deep_sets_pointcloud", "simpleview"]
[missing]
simpleview = "not built yet"
[published]
columns = ["task", "model", "metric", "mean"]
rows = [["point_cloud", "deep_sets++", "accuracy", 0.87], ["point_cloud", "simpleview", "accuracy", 0.92]]
"""


@pytest.fixture(autouse=True)
def own_folders(monkeypatch, tmp_path):
    monkeypatch.delenv("ORDERLESS_DATA", raising=False)
    monkeypatch.setenv("ORDERLESS_CACHE", str(tmp_path / "cache"))


def recipe_of(text, tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    return load_recipe(path)


def line_of(run, **known):
    """A made-up result of this run."""
    train = run.train
    options = {**run.model_options, **run.data_options, "epochs": train.epochs, "seed": train.seed, "protocol": train.protocol}
    line = make_line(run.task, run.model, options, **known)
    assert line["key"] == run.key
    return line


def stop(line, step):
    """The same run, had it met a NaN at this step."""
    kept = {table: [row for row in line[table] if row["step"] < step] for table in ("steps", "epochs")}
    kept["steps"].append(dict.fromkeys(line["steps"][0]) | {"step": step})  # its loss is not finite
    return {
        **line,
        **kept,
        "status": "diverged",
        "message": "the loss became NaN",
        "metrics": {},
    }


def drawn(text, tmp_path, result=line_of, *, options=None, quick=False, seeds=None):
    """The figure of a recipe with these results, and its rows; `result` gives a run's line, or None if it is not done."""
    recipe = recipe_of(text, tmp_path)
    plan = expand(recipe, quick=quick, seeds=seeds)
    lines = {run.key: line for run in plan.runs if (line := result(run)) is not None}
    material = Material(plan, lines, check_options(recipe, options))
    return find_drawing(recipe).draw(material)


def words(figure):
    """Every word on a sheet."""
    texts = [text.get_text() for text in figure.texts]
    for axes in figure.axes:
        texts += [text.get_text() for text in axes.texts] + [axes.get_title(loc="left"), axes.get_xlabel(), axes.get_ylabel()]
    texts += [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    return [text for text in texts if text]


def panel(figure, title):
    (found,) = [axes for axes in figure.axes if axes.get_title(loc="left") == title]
    return found


def line_with(values, *, seed=0, status="finished", message=None):
    """The least of a result line that curves need: losses at steps 1, 2, ..."""
    steps = [{"step": n, "loss": value} for n, value in values.items()]
    return {"steps": steps, "status": status, "message": message, "spec": {"train": {"seed": seed}}}


# ------------------------------------------------------------------------------------------------------- curves


def read(*lines):
    return read_curves("it", lines, "steps", "step", "loss")


def test_a_curve_is_the_mean_and_its_band_reaches_from_lowest_to_highest():
    (curve,) = read(line_with({1: 1.0, 2: 10.0}), line_with({1: 3.0, 2: 20.0}, seed=1), line_with({1: 8.0, 2: 0.0}, seed=2))
    np.testing.assert_allclose(curve.mean, [4.0, 10.0])
    np.testing.assert_allclose(curve.low, [1.0, 0.0])
    np.testing.assert_allclose(curve.high, [8.0, 20.0])
    assert curve.count.tolist() == [3, 3]


def test_runs_recorded_at_other_steps_are_interpolated():
    (curve,) = read(line_with({0: 0.0, 4: 4.0}), line_with({0: 0.0, 2: 10.0, 4: 4.0}, seed=1))
    assert curve.x.tolist() == [0, 2, 4]
    np.testing.assert_allclose(curve.mean, [0.0, 6.0, 4.0])


def test_what_is_no_number_is_left_out():
    (curve,) = read(line_with({1: None, 2: 2.0, 3: math.nan, 4: math.inf, 5: 5.0}))
    assert curve.x.tolist() == [2, 5]


def test_where_a_run_diverged_each_run_is_a_curve_that_ends_where_it_ended():
    whole, broken = line_with({1: 1.0, 2: 1.0, 3: 1.0}), line_with({1: 1.0, 2: 99.0}, seed=5, status="diverged")
    first, second = read(whole, broken)
    assert (first.label, first.x[-1], first.diverged) == ("it, seed 0", 3, False)
    assert (second.label, second.x[-1], second.diverged) == ("it, seed 5", 2, True)
    np.testing.assert_allclose(first.mean, 1.0)  # the other's 99 is not in it


def test_a_run_without_a_point_is_no_curve():
    assert read(line_with({}, status="diverged")) == []
    assert read() == []


def test_a_run_stopped_at_the_last_step_that_it_has():
    assert stopped_at(line_with({1: 2.0, 1234: None})) == "diverged at step 1,234"
    assert stopped_at(line_with({})) == "diverged"


def axes_of():
    return Figure(figsize=(4, 3)).add_subplot()


def test_a_cross_stands_at_the_last_point_of_a_run_that_diverged():
    axes = axes_of()
    (curve,) = read(line_with({1: 1.0, 2: 7.0}, status="diverged"))
    draw_curve(axes, curve, Look(0))
    (cross,) = [line for line in axes.lines if line.get_marker() == "X"]
    assert cross.get_xydata().tolist() == [[2.0, 7.0]]
    axes = axes_of()
    draw_curve(axes, replace(curve, diverged=False), Look(0))
    assert not [line for line in axes.lines if line.get_marker() == "X"]


def test_one_run_has_no_band():
    alone, several = axes_of(), axes_of()
    draw_curve(alone, read(line_with({1: 1.0, 2: 2.0}))[0], Look(0))
    draw_curve(several, read(line_with({1: 1.0, 2: 2.0}), line_with({1: 2.0, 2: 2.0}, seed=1))[0], Look(0))
    assert not alone.collections
    assert len(several.collections) == 1


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        pytest.param([1e-4, 1.0], "log", id="wide"),
        pytest.param([1.0, 4.0], "linear", id="narrow"),
        pytest.param([0.0, 1e6], "linear", id="zero"),
        pytest.param([-1.0, 900.0], "linear", id="negative"),
    ],
)
def test_an_axis_is_logarithmic_where_the_numbers_need_it_and_allow_it(values, scale):
    axes = axes_of()
    curves = join("it", [Series(np.arange(2.0), np.array(values))])
    draw_curve(axes, curves[0], Look(0))
    scale_axis(axes, curves)
    assert axes.get_yscale() == scale


def test_an_axis_of_accuracies_is_linear_and_shows_what_follows_their_first_rise():
    axes = axes_of()
    rising = join("a", [Series(np.arange(101.0), np.concatenate([np.linspace(0.01, 0.8, 10), np.full(91, 0.85)]))])
    stopped = join("b", [Series(np.arange(3.0), np.array([0.01, 0.5, 0.7]))])
    scale_share_axis(axes, [*rising, *stopped])
    low, high = axes.get_ylim()
    assert axes.get_yscale() == "linear"
    assert 0.65 < low < 0.7, "a curve that ends early ends within the picture"
    assert 0.85 < high < 0.9


def test_curves_are_told_apart_by_colour_and_by_mark():
    assert len({Look(n).color for n in range(len(COLORS))}) == len(COLORS)
    assert len({Look(n).mark for n in range(len(MARKS))}) == len(MARKS)
    assert Look(len(COLORS)).color == Look(0).color  # more curves than colours begin again


def test_a_label_stands_beside_the_end_of_its_curve_in_its_colour():
    axes = axes_of()
    curves = [join(name, [Series(np.arange(3.0), np.array([0.0, 1.0, end]))])[0] for name, end in (("low", 1.0), ("high", 9.0))]
    for n, curve in enumerate(curves):
        draw_curve(axes, curve, Look(n))
    label_ends(axes, [(curve, Look(n), curve.label) for n, curve in enumerate(curves)], 3.0)
    low, high = axes.texts
    assert low.get_position()[1] < high.get_position()[1]
    assert (low.get_color(), high.get_color()) == COLORS[:2]
    ends = (axes.transData + axes.transAxes.inverted()).transform([(2.0, 1.0), (2.0, 9.0)])
    np.testing.assert_allclose([low.get_position()[1], high.get_position()[1]], ends[:, 1])


# ------------------------------------------------------------------------------------------------------- words


def labels(text, tmp_path):
    return label_cells(expand(recipe_of(text, tmp_path)).cells)


def test_labels_name_what_differs_and_nothing_else(tmp_path):
    assert labels(GRADIENTS, tmp_path) == ["Deep Sets 3", "Deep Sets 50", "Set Transformer 2"]
    assert labels(CURVES, tmp_path) == ["clean path", "non-clean path", "FreqAdd"]
    both = CURVES.replace("residual = [", 'norm = ["set", "none"]\nresidual = [')
    assert labels(both, tmp_path)[::3] == ["set norm, clean path", "no norm, clean path"]
    alone = CURVES.replace('"clean", "non_clean", "freq_add"', '"clean"')
    assert labels(alone, tmp_path) == ["Deep Sets++ 50"]


def test_a_figure_says_what_is_less_than_the_papers(tmp_path):
    assert "Reduced: 64 of 10,000 training sets, 1 of 50 epochs, 1 of 2 seeds" in words(
        drawn(GRADIENTS, tmp_path, quick=True).figure
    )
    assert "Reduced: 2 of 50 epochs" in words(drawn(GRADIENTS, tmp_path).figure)
    whole = GRADIENTS.replace("epochs = 2\n", "")
    assert not [word for word in words(drawn(whole, tmp_path, lambda run: None).figure) if "educed" in word]


def test_a_figure_says_that_its_data_are_made_up(tmp_path):
    assert "Not the published data: Point Cloud (simulated: parametric shapes instead of ModelNet40)" in words(
        drawn(CURVES, tmp_path).figure
    )
    exact = words(drawn(GRADIENTS, tmp_path).figure)
    assert not [word for word in exact if "Not the published" in word]
    assert any(word.startswith("Normal Var (") for word in exact)


def test_a_figure_names_the_runs_that_are_missing(tmp_path):
    figure = drawn(
        GRADIENTS, tmp_path, lambda run: line_of(run) if run.train.seed == 0 and run.model == "deep_sets" else None
    ).figure
    said = " ".join(words(figure))
    assert "Missing, not run yet: Deep Sets 3 (seed 1); Deep Sets 50 (seed 1); Set Transformer 2 (seeds 0, 1)." in said
    assert "A note of the recipe." in said
    assert "Missing" not in " ".join(words(drawn(GRADIENTS, tmp_path).figure))


def test_a_figure_names_models_that_there_are_not(tmp_path):
    assert "Missing, SimpleView (published: accuracy 0.92): not built yet." in words(drawn(PEERS, tmp_path).figure)
    unknown = PEERS.replace(', ["point_cloud", "simpleview", "accuracy", 0.92]', "")
    assert "Missing, SimpleView: not built yet." in words(drawn(unknown, tmp_path).figure)


def test_a_figure_says_what_line_and_band_are(tmp_path):
    assert "Line: mean of up to 2 seeds. Band: from the lowest to the highest of them." in words(
        drawn(GRADIENTS, tmp_path).figure
    )
    assert "One run each." in words(drawn(GRADIENTS, tmp_path, seeds=[7]).figure)
    assert "No run is finished yet." in words(drawn(GRADIENTS, tmp_path, lambda run: None).figure)


def test_a_figure_says_where_a_run_diverged(tmp_path):
    def result(run):
        return stop(line_of(run), 12) if run.model_options["depth"] == 50 and run.train.seed == 1 else line_of(run)

    said = words(drawn(GRADIENTS, tmp_path, result).figure)
    assert "Deep Sets 50, seed 1: diverged at step 12." in said
    assert any("Cross: a run diverged. Where a run diverged, each run has a line of its own." in word for word in said)


# ------------------------------------------------------------------------------------------------------- drawings


def test_gradients_have_a_row_for_each_family(tmp_path):
    figure = drawn(GRADIENTS, tmp_path).figure
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "training loss", "gradient norm of a step", "gradient norm of each layer",
    ] * 2  # fmt: skip
    assert [text.get_text() for legend in figure.legends for text in legend.get_texts()] == [
        "Deep Sets 3", "Deep Sets 50", "Set Transformer 2",
    ]  # fmt: skip


def test_gradients_take_the_plus_plus_networks_beside_the_others(tmp_path):
    text = GRADIENTS.replace('model = "deep_sets"\ndepth = [3, 50]', 'model = ["deep_sets", "deep_sets++"]\ndepth = 50')
    figure = drawn(text, tmp_path).figure
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["Deep Sets 50", "Deep Sets++ 50"]


def test_gradients_draw_the_numbers_of_the_runs(tmp_path):
    result = drawn(
        GRADIENTS, tmp_path, lambda run: line_of(run, slope=-6.0 if run.model_options["depth"] == 50 else 0.0), seeds=[0]
    )
    plan = expand(recipe_of(GRADIENTS, tmp_path), seeds=[0])
    line = line_of(plan.runs[0])
    shown = [row for row in result.rows if (row["panel"], row["curve"]) == ("Deep Sets: training loss", "Deep Sets 3")]
    np.testing.assert_allclose([float(row["mean"]) for row in shown], [row["loss"] for row in line["steps"]], rtol=1e-5)
    assert [float(row["x"]) for row in shown] == [row["step"] for row in line["steps"]]
    layers = [row for row in result.rows if row["curve"] == "Deep Sets 50, at the end"]
    assert float(layers[0]["mean"]) < 1e-5 * float(layers[-1]["mean"])  # the gradient vanished on its way to the input
    assert len(layers) == 50


def test_a_gradient_of_zero_is_left_out_of_a_logarithmic_panel(tmp_path):
    def result(run):
        line = line_of(run, slope=-6.0)
        line["layers"]["moments"][-1]["gradient"][0] = 0.0
        return line

    at_end = [row for row in drawn(GRADIENTS, tmp_path, result).rows if row["curve"] == "Deep Sets 50, at the end"]
    assert len(at_end) == 49


def test_a_run_that_diverged_at_once_leaves_a_note_and_no_curve(tmp_path):
    result = drawn(GRADIENTS, tmp_path, lambda run: stop(line_of(run), 1), seeds=[0])
    assert "no finished run yet" in words(result.figure)
    assert any("Deep Sets 3, seed 0: diverged at step 1; " in word for word in words(result.figure))


@pytest.mark.parametrize(("text", "panels"), [(GRADIENTS, 6), (CURVES, 2), (PEERS, 1)], ids=["gradients", "curves", "peers"])
def test_with_no_run_every_panel_says_so(text, panels, tmp_path):
    result = drawn(text, tmp_path, lambda run: None)
    assert words(result.figure).count("no finished run yet") == panels
    assert all(not axes.lines for axes in result.figure.axes)
    assert result.rows == []


def test_losses_are_shown_in_training_and_on_test_sets(tmp_path):
    figure = drawn(CURVES, tmp_path).figure
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Training loss", "Test cross entropy"]
    for axes in figure.axes:
        assert [text.get_text() for text in axes.texts] == ["clean path", "non-clean path", "FreqAdd"]


def test_accuracy_is_shown_alone_and_beside_the_published(tmp_path):
    figure = drawn(PEERS, tmp_path).figure
    (axes,) = figure.axes
    assert axes.get_title(loc="left") == "Test accuracy"
    assert [text.get_text() for text in axes.texts] == ["Deep Sets++ 50\n(published 0.87)", "Deep Sets for point clouds"]


def test_accuracies_that_rise_from_chance_have_a_linear_axis_and_losses_a_logarithmic_one(tmp_path):
    def from_chance(run):
        line = line_of(run)
        for n, row in enumerate(line["epochs"]):
            row |= {"test_accuracy": 0.9 if n else 0.01, "train_loss": 0.01 if n else 9.0}
        return line

    figure = drawn(CURVES, tmp_path, from_chance, options={"panels": ["accuracy", "train_loss"]}).figure
    assert [axes.get_yscale() for axes in figure.axes] == ["linear", "log"]


def test_panels_can_be_chosen(tmp_path):
    figure = drawn(CURVES, tmp_path, options={"panels": ["accuracy", "train_loss"]}).figure
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Test accuracy", "Training loss"]
    for wrong in (["mse"], [], "accuracy"):
        with pytest.raises(ValueError, match="panels must be a list of train_loss, "):
            drawn(CURVES, tmp_path, options={"panels": wrong})


def test_curves_over_epochs_are_those_of_the_runs(tmp_path):
    result = drawn(CURVES, tmp_path, seeds=[0])
    line = line_of(expand(recipe_of(CURVES, tmp_path), seeds=[0]).runs[0])
    test = [row for row in result.rows if (row["panel"], row["curve"]) == ("test cross entropy", "clean path")]
    assert [float(row["x"]) for row in test] == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(
        [float(row["mean"]) for row in test], [row["test_cross_entropy"] for row in line["epochs"]], rtol=1e-5
    )
    train = [row for row in result.rows if (row["panel"], row["curve"]) == ("training loss", "clean path")]
    assert [float(row["x"]) for row in train] == [1, 2, 3, 4]  # before training there is none


def test_one_epoch_is_drawn_with_dots_over_whole_epochs(tmp_path):
    figure = drawn(CURVES.replace("epochs = 4", "epochs = 1"), tmp_path, seeds=[0]).figure
    train = panel(figure, "Training loss")
    assert train.lines[0].get_marker() != "None"
    assert all(float(tick).is_integer() for tick in train.get_xticks())


def test_tasks_have_rows_of_their_own(tmp_path):
    text = CURVES.replace('task = "point_cloud@shapes"\n', "").replace(
        "[[grid]]", '[[grid]]\ntask = ["point_cloud@shapes", "normal_var"]'
    )
    figure = drawn(text, tmp_path, seeds=[0]).figure
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "Point Cloud: training loss", "Point Cloud: test cross entropy", "Normal Var: training loss",
        "Normal Var: test MSE",
    ]  # fmt: skip


CELLS = """
name = "blood"
kind = "figure"
title = "Cells"
drawing = "rbc_distribution"
"""


def test_patients_are_spread_over_the_target_and_all_their_cells_are_there(tmp_path):
    result = drawn(CELLS, tmp_path, options={"num_patients": 2})
    targets = {row["patient"]: float(row["target"]) for row in result.rows}
    assert len(targets) == 2
    low, high = targets.values()
    assert low + 3 < high
    assert len(result.rows) == 2000
    assert set(result.rows[0]) == {"patient", "target", "volume (fL)", "hemoglobin (pg)"}
    said = words(result.figure)
    assert "Not the published data: Hematocrit (simulated: invented patients instead of Flow-RBC)" in said
    titles = [float(word.removeprefix("hematocrit ")) for word in said if word.startswith("hematocrit ")]
    np.testing.assert_allclose(titles, [low, high], atol=0.06)  # both are rounded, to other digits


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"num_patients": 0}, "num_patients must be 1 to 4, got 0"),
        ({"num_patients": "two"}, "num_patients must be 1 to 4, got 'two'"),
        ({"task": "normal_var"}, "two features"),
        ({"patients": 3}, "has no option 'patients'. Did you mean 'num_patients'? It takes task, num_patients"),
    ],
)
def test_wrong_options_of_a_drawing_are_told(options, says, tmp_path):
    with pytest.raises(ValueError, match=says.replace("?", r"\?")):
        drawn(CELLS, tmp_path, options=options)


def test_layer_norm_leaves_three_points_of_every_shape_and_set_norm_leaves_the_shape(tmp_path):
    result = drawn(CELLS.replace("rbc_distribution", "layer_norm_2d"), tmp_path)
    points = {}
    for row in result.rows:
        points.setdefault((row["norm"], row["shape"]), set()).add(
            (round(float(row["x"]), 3) + 0.0, round(float(row["y"]), 3) + 0.0)
        )
    shapes = {shape for _, shape in points}
    assert len(shapes) > 1
    assert {frozenset(points["layer", shape]) for shape in shapes} == {frozenset({(-1.0, 1.0), (0.0, 0.0), (1.0, -1.0)})}
    assert len({frozenset(points["set", shape]) for shape in shapes}) == len(shapes)


def test_nothing_leaves_the_sheet(tmp_path):
    notes = 'notes = ["' + "A long note. " * 40 + '"]'
    crowded = [
        drawn(GRADIENTS.replace('notes = ["A note of the recipe."]', notes), tmp_path, quick=True),
        drawn(PEERS, tmp_path),
        drawn(CELLS, tmp_path, options={"num_patients": 4}),
    ]
    for result in crowded:
        result.figure.draw_without_rendering()  # which puts labels into their places
        frame = result.figure.bbox
        everything = [
            *result.figure.texts,
            *(text for axes in result.figure.axes for text in [*axes.texts, axes.title, axes.xaxis.label]),
        ]
        for text in everything:
            box = text.get_window_extent()
            assert frame.x0 <= box.x0, text.get_text()
            assert box.x1 <= frame.x1, text.get_text()
            assert frame.y0 <= box.y0, text.get_text()
            assert box.y1 <= frame.y1, text.get_text()


# ------------------------------------------------------------------------------------------------------- files and registry


def test_a_figure_is_written_as_png_pdf_and_csv(tmp_path):
    recipe = recipe_of(CURVES, tmp_path)
    plan = expand(recipe)
    paths = draw_figure(Material(plan, {run.key: line_of(run) for run in plan.runs}), tmp_path / "new" / "figures")
    assert [path.name for path in paths] == ["residuals.png", "residuals.pdf", "residuals.csv"]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert paths[1].read_bytes().startswith(b"%PDF")
    with paths[2].open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["curve"] for row in rows} == {"clean path", "non-clean path", "FreqAdd"}
    assert {row["runs"] for row in rows} == {"3"}
    again = draw_figure(Material(plan), tmp_path / "new" / "figures")
    assert [path.suffix for path in again] == [".png", ".pdf"]
    assert not paths[2].exists()  # the numbers of a drawing that is no more


def test_the_same_figure_is_the_same_file(tmp_path):
    plan = expand(recipe_of(CURVES, tmp_path), seeds=[0])
    material = Material(plan, {run.key: line_of(run) for run in plan.runs})
    first, second = (draw_figure(material, tmp_path / name) for name in ("first", "second"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_a_figure_that_cannot_be_written_leaves_the_one_before(tmp_path):
    class Broken:
        def savefig(self, path, **options):
            path.write_bytes(b"half")
            raise OSError("the disk is full")

    (tmp_path / "it.png").write_bytes(b"before")
    with pytest.raises(OSError, match="full"):
        write_drawn(Drawn(Broken()), tmp_path, "it")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"it.png": b"before"}


def test_a_rehearsal_finds_what_is_wrong_before_any_run_is_done(tmp_path):
    plan = expand(recipe_of(CURVES, tmp_path))
    rehearse(Material(plan))
    with pytest.raises(ValueError, match="panels must be a list of"):
        rehearse(Material(plan, options={"panels": ["mse"]}))


def test_options_are_read_from_texts():
    texts = ["order=paper", "num_patients = 2", "panels=a, b"]
    assert parse_drawing_options(texts) == {"order": "paper", "num_patients": 2, "panels": ["a", "b"]}
    for wrong in ("order", "=paper", "order="):
        with pytest.raises(ValueError, match="expected key=value"):
            parse_drawing_options([wrong])


def test_all_arrangements_can_be_asked_for(tmp_path):
    text = CELLS.replace("rbc_distribution", "residual_arrangements")
    four, seven = drawn(text, tmp_path).figure, drawn(text, tmp_path, options={"panels": ["all"]}).figure
    titles = {diagram.title for diagram in arrangements().values()}
    assert len(titles & set(words(four))) == 4
    assert titles <= set(words(seven))


def test_every_figure_of_the_package_is_drawn_before_any_run_is_done(tmp_path):
    recipes = [recipe for recipe in map(load_recipe, list_recipes()) if recipe.kind == "figure"]
    assert {recipe.drawing for recipe in recipes} == set(DRAWINGS)
    for recipe in recipes:
        figure = find_drawing(recipe).draw(Material(expand(recipe), options=check_options(recipe))).figure
        figure.draw_without_rendering()  # in which matplotlib finds what it cannot draw
        said = words(figure)
        assert len(said) > 5
        assert ("no finished run yet" in said) == ("No run is finished yet." in said) == bool(recipe.blocks)


def test_an_unknown_drawing_is_an_error_that_lists_them(tmp_path):
    with pytest.raises(ValueError, match=r"there is no drawing 'graph'\. Drawings: curves, gradients, "):
        find_drawing(recipe_of(CELLS.replace("rbc_distribution", "graph"), tmp_path))


def test_a_table_is_no_figure():
    with pytest.raises(ValueError, match="layer_norm is a table: `orderless table layer_norm`"):
        find_drawing(load_recipe("layer_norm"))


def test_a_drawing_of_results_needs_a_grid_and_others_have_no_use_for_one(tmp_path):
    with pytest.raises(ValueError, match="'gradients' shows results, and needs"):
        find_drawing(recipe_of(CELLS.replace("rbc_distribution", "gradients"), tmp_path))
    with pytest.raises(ValueError, match="'rbc_distribution' shows no results"):
        find_drawing(recipe_of(GRADIENTS.replace('"gradients"', '"rbc_distribution"'), tmp_path))


def test_gradients_are_drawn_of_networks_that_have_depth(tmp_path):
    text = GRADIENTS.replace('model = "set_transformer"\ndepth = [2]', 'model = "baseline:constant"').replace(
        'model = "deep_sets"\ndepth = [3, 50]', 'model = "baseline:moments"'
    )
    with pytest.raises(ValueError, match="only gradients of networks can be drawn, and it has no network"):
        drawn(text.replace("epochs = 2\n", ""), tmp_path, lambda run: None)


def test_options_of_a_recipe_go_before_defaults_and_those_of_a_user_before_both(tmp_path):
    recipe = recipe_of(CELLS + "[options]\nnum_patients = 2\n", tmp_path)
    assert check_options(recipe) == {"task": "hematocrit", "num_patients": 2}
    assert check_options(recipe, {"num_patients": 1}) == {"task": "hematocrit", "num_patients": 1}
