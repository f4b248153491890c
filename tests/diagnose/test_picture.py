"""Pictures of gradients: what is drawn is what was read, whatever it is, and files are whole."""

import sys
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from orderless.diagnose import picture
from orderless.diagnose.picture import Course, draw_collapse, draw_course, draw_depth, draw_time, render, write_figure

NAMES = [f"encoder.{n}" for n in range(9)] + ["decoder.0"]


def moment(epoch, scale=1.0):
    gradient = [scale * 10.0 ** (n - 9) for n in range(10)]
    return {"epoch": epoch, "step": 50 * epoch, "gradient": gradient, "activation": [scale] * 10}


def steps(count):
    return [{"step": n + 1, "loss": 100 / (n + 1), "gradient_norm": 1.0} for n in range(count)]


COURSE = Course(NAMES, [moment(epoch, 2.0**epoch) for epoch in range(4)], steps(200))


def drawn_lines(ax):
    return {line.get_label(): line.get_ydata() for line in ax.get_lines() if not line.get_label().startswith("_")}


def texts(figure):
    found = [text.get_text() for text in figure.texts]
    for ax in figure.axes:
        found += [ax.get_title(loc=where) for where in ("left", "center")] + [ax.get_xlabel(), ax.get_ylabel()]
        found += [text.get_text() for text in ax.texts]
    return found


def test_depth_shows_gradients_and_activations_of_every_layer():
    figure = draw_depth(
        {"before training": moment(0), "after epoch 3": moment(3, 8.0)}, names=NAMES, title="A network", note="A verdict"
    )
    left, right = figure.axes
    assert drawn_lines(left)["after epoch 3"].tolist() == moment(3, 8.0)["gradient"]
    assert drawn_lines(right)["before training"].tolist() == [1.0] * 10
    assert [label.get_text() for label in left.get_xticklabels()] == NAMES
    assert left.get_yscale() == "log"
    assert {"A network", "A verdict"} <= set(texts(figure))


def test_networks_of_different_depth_share_a_picture():
    short = {"gradient": [1.0, 2.0], "activation": [1.0, 1.0]}
    left, _ = draw_depth({"deep": moment(0), "shallow": short}).axes
    assert [len(line) for line in drawn_lines(left).values()] == [10, 2]
    assert left.get_xlabel() == "layer, from input to output"


def test_time_has_a_row_for_each_run():
    figure = draw_time({"Deep Sets": COURSE, "Set Transformer": COURSE})
    assert [ax.get_title(loc="left") for ax in figure.axes[::2]] == ["Deep Sets: training loss", "Set Transformer: training loss"]
    right = figure.axes[1]
    lines = drawn_lines(right)
    assert list(lines) == ["encoder.0", "encoder.2", "encoder.4", "encoder.5", "encoder.7", "decoder.0"]
    assert lines["decoder.0"].tolist() == [1.0, 2.0, 4.0, 8.0]
    assert right.get_xlabel() == "epoch"


def test_a_course_is_drawn_over_time_and_over_depth():
    figure = draw_course(COURSE, title="deep_sets 50")
    loss, over_time, gradients, activations = figure.axes
    assert drawn_lines(gradients).keys() == {"before training", "after epoch 3"}
    assert loss.get_yscale() == "log"
    assert len(loss.get_lines()) == 2  # as it was, and smoothed
    assert over_time.get_legend() is not None
    assert activations.get_title(loc="left") == "Root mean square of the activations"


def test_a_course_has_the_readings_of_every_moment_in_its_own_order():
    moment = {"step": 0, "epoch": 0, "names": ["b", "a"], "gradient": [2.0, 1.0], "activation": [4.0, 3.0]}
    (read,) = Course(["a", "b", "c"], [moment]).moments
    assert read["gradient"] == [1.0, 2.0, None]
    assert read["activation"] == [3.0, 4.0, None]
    assert moment["gradient"] == [2.0, 1.0]


def test_a_run_of_no_steps_and_one_moment_can_be_drawn():
    figure = draw_course(Course(NAMES, [moment(0)]))
    assert "no step was recorded" in texts(figure)
    assert list(drawn_lines(figure.axes[2])) == ["before training"]


def test_a_run_that_stopped_says_so():
    stopped = [*steps(10), {"step": 11, "loss": None, "gradient_norm": None}]
    assert "not finite" in texts(draw_time({"": Course(NAMES, [moment(0)], stopped)}))
    assert "not finite" not in texts(draw_time({"": COURSE}))


def test_zero_and_infinity_are_marked_at_the_edges():
    reading = {"gradient": [0.0, 1.0, "inf", None, "nan", 2.0], "activation": [1.0] * 6}
    left, _ = draw_depth({"a": reading}).axes
    line, at_zero, at_infinity = left.get_lines()
    assert np.flatnonzero(np.isfinite(line.get_ydata())).tolist() == [1, 5]
    assert at_zero.get_xdata().tolist() == [1]
    assert at_infinity.get_xdata().tolist() == [3]


def test_a_network_of_which_nothing_is_finite_can_be_drawn():
    figure = draw_depth({"a": {"gradient": ["nan", 0.0], "activation": [None, None]}})
    assert texts(figure).count("every number is 0 or not finite") == 2
    assert render(figure).startswith(b"\x89PNG")


def test_a_narrow_scale_has_plain_numbers_and_a_wide_one_powers():
    def labels(gradient):
        figure = draw_depth({"a": {"gradient": gradient, "activation": gradient}})
        figure.canvas.draw()
        return [label.get_text() for label in figure.axes[0].get_yticklabels()]

    assert {"1", "2", "5"} <= set(labels([1.0, 3.0]))
    assert {"10⁻⁶", "10⁰"} <= set(labels([1e-9, 1e-6, 1e-3, 1.0]))


def test_long_names_are_cut_at_the_front():
    names = ["a." * 30 + "first", *NAMES[1:]]
    labels = drawn_lines(draw_time({"": Course(names, COURSE.moments)}).axes[1])
    (long,) = (label for label in labels if label.endswith("first"))
    assert long.startswith("…")
    assert len(long) == picture.LONGEST_NAME


def test_collapse_shows_shapes_before_and_after():
    figure = draw_collapse()
    assert len(figure.axes) == 12
    said = texts(figure)
    assert {"circle", "square", "triangle", "star", "the set", "after layer norm", "after set norm", "0: all the same"} <= set(
        said
    )
    layer_norm = [ax for n, ax in enumerate(figure.axes) if n % 3 == 1]
    for ax in layer_norm:
        points = sorted(collection.get_offsets().data.round(6).tolist()[0] for collection in ax.collections)
        assert points == [[-1, 1], [0, 0], [1, -1]]
        assert [text.get_text() for text in ax.texts] == ["40 points", "40 points", "2 points"]


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_the_same_figure_is_the_same_file(kind, start, tmp_path):
    path = write_figure(draw_depth({"a": moment(0)}, names=NAMES), tmp_path / f"picture.{kind}")
    assert path.read_bytes().startswith(start)
    assert path.read_bytes() == render(draw_depth({"a": moment(0)}, names=NAMES), kind)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_nothing_is_cut_off():
    """No ink touches the edge, with long labels too."""
    wide = {f"set_transformer++ of {n} layers": moment(0) for n in range(6)}
    for figure in (
        draw_depth(wide, title="A title that is rather long " * 6),
        draw_course(COURSE, title="b", note="c " * 150),
        draw_collapse(),
    ):
        pixels = np.asarray(Image.open(BytesIO(render(figure))).convert("L"))
        edges = np.concatenate([pixels[:4].ravel(), pixels[-4:].ravel(), pixels[:, :4].ravel(), pixels[:, -4:].ravel()])
        assert edges.min() == 255


@pytest.mark.parametrize(("name", "message"), [("a.gif", "ends in .png, .svg, .pdf"), ("nowhere/a.png", "there is no folder")])
def test_a_picture_that_cannot_be_written_is_refused(name, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        write_figure(draw_depth({"a": moment(0)}), tmp_path / name)


def test_no_run_is_refused():
    with pytest.raises(ValueError, match="at least one run"):
        draw_time({})


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"orderless\[plot\]"):
        draw_collapse()
