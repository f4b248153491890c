"""Pictures of tasks: every kind is drawn, whatever the sizes, the same each time, and never half written (`sheet.py`,
`reading.py`, `drawers.py`, `images.py`, `distributions.py`, `binning.py`)."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image
from sklearn.datasets import load_digits

from orderless.look import MARK
from orderless.tasks.base import Task
from orderless.tasks.picture import draw_task, reading, sheet
from orderless.tasks.picture.binning import edges_of
from orderless.tasks.source import Source
from orderless.tasks.sources.shapes import SHAPE_NAMES, make_shapes

TASK = Task(
    name="made_up",
    title="Made up",
    about="A task for a test.",
    objective="regression",
    metric="mse",
    sources=(),
    num_train=30,
    num_test=12,
    set_size=(20, 20),
    drawing="histogram",
)


def prepare(folder, x_of, *, shape, sizes=None, target=None, said=None, kind="simulated", **changes):
    """A task whose sets are `x_of(rng, total)`; sizes and targets are functions of (rng, count)."""

    def build(writer, request):
        for split, number, count in request.counts():
            rng = request.rng(number)
            per_set = np.full(count, request.set_size[0]) if sizes is None else sizes(rng, count)
            wanted = rng.normal(size=count).astype(np.float32) if target is None else target(rng, count)
            writer.add_sets(split, x_of(rng, int(per_set.sum())), per_set, target=wanted)
        return said or {}

    task = replace(TASK, sources=(Source("test", kind, "invented numbers", shape, build),), **changes)
    return task.load(cache_dir=folder)


def normal(*shape):
    return lambda rng, total: rng.normal(size=(total, *shape)).astype(np.float32)


def digits(*shape):
    images = load_digits().data.astype(np.uint8)
    return lambda rng, total: images[rng.integers(len(images), size=total)].reshape(total, *shape)


def shapes(rng, total):
    points, _ = next(make_shapes(total // 100, num_points=100, seed=int(rng.integers(9))))
    return points.reshape(-1, 3)


def classes(count):
    return {"target": lambda rng, n: rng.integers(count, size=n), "objective": "classification"}


KINDS = {
    "histogram": lambda f: prepare(f, normal(1), shape=(1,)),
    "heat map": lambda f: prepare(f, normal(100), shape=(100,)),
    "scatter": lambda f: prepare(f, normal(2), shape=(2,), drawing="scatter", units=("volume [fL]", "content [pg]")),
    "points": lambda f: prepare(
        f, shapes, shape=(3,), set_size=(100, 100), drawing="points", said={"class_names": SHAPE_NAMES}, **classes(16)
    ),
    "40 classes": lambda f: prepare(
        f, normal(2), shape=(2,), drawing="scatter", said={"class_names": [f"number {n} of forty" for n in range(40)]},
        **classes(40),
    ),
    "images, odd one": lambda f: prepare(
        f, digits(1, 8, 8), shape=(1, 8, 8), drawing="images", objective="element_choice",
        target=lambda rng, n: rng.integers(20, size=n),
    ),
    "flat images": lambda f: prepare(f, digits(64), shape=(64,), drawing="images"),
    "colour images": lambda f: prepare(
        f, lambda rng, n: rng.integers(256, size=(n, 3, 6, 6), dtype=np.uint8), shape=(3, 6, 6), drawing="images"
    ),
}  # fmt: skip


@pytest.fixture(params=KINDS.values(), ids=KINDS.keys())
def data(request, tmp_path):
    return request.param(tmp_path / "cache")


@pytest.fixture
def plain(tmp_path):
    return KINDS["histogram"](tmp_path / "cache")


@pytest.fixture
def coarse(monkeypatch):
    """A picture of few pixels, for tests that ask for nothing finer: most of the time goes into the pixels."""
    monkeypatch.setattr(sheet, "DPI", 40)


def pixels(path):
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"), dtype=np.float64)


def test_every_kind_of_task_gives_a_picture(data, tmp_path):
    path = draw_task(data, tmp_path / "task.png")
    assert path == tmp_path / "task.png"
    assert path.stat().st_size > 20_000
    seen = pixels(path)
    assert seen.shape == (1040, 1560, 3)
    examples, distributions = seen[230:600], seen[680:960]
    assert examples.std() > 5
    assert distributions.std() > 5


@pytest.mark.usefixtures("coarse")
def test_the_same_seed_gives_the_same_picture(plain, tmp_path):
    first, second, other = (draw_task(plain, tmp_path / f"{n}.png", seed=seed).read_bytes() for n, seed in enumerate((0, 0, 1)))
    assert first == second
    assert first != other


@pytest.mark.usefixtures("coarse")
def test_ragged_sizes_are_drawn_as_a_histogram(tmp_path, monkeypatch):
    panels = count_panels(monkeypatch)
    ragged = prepare(tmp_path / "a", normal(1), shape=(1,), sizes=lambda rng, n: rng.integers(3, 60, size=n))
    draw_task(ragged, tmp_path / "ragged.png")
    equal = prepare(tmp_path / "b", normal(1), shape=(1,))
    draw_task(equal, tmp_path / "equal.png")
    assert panels == [3, 2]  # elements, targets, sizes; equal sizes are said in words
    assert "20 elements in every set" in sheet._sizes_in_words(equal)
    assert " to " in sheet._sizes_in_words(ragged)


def count_panels(monkeypatch):
    """How many distributions each picture shows."""
    counted = []
    original = sheet.draw_distributions

    def counting(figure, *others):
        before = len(figure.axes)
        original(figure, *others)
        counted.append(len(figure.axes) - before)

    monkeypatch.setattr(sheet, "draw_distributions", counting)
    return counted


AWKWARD = {
    "one element": lambda rng, n: np.ones(n, dtype=np.int64),
    "some empty": lambda rng, n: np.arange(n) % 3,
    "all empty": lambda rng, n: np.zeros(n, dtype=np.int64),
}


@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize("sizes", AWKWARD.values(), ids=AWKWARD.keys())
@pytest.mark.parametrize(
    ("drawing", "shape"), [("histogram", (1,)), ("histogram", (4,)), ("scatter", (2,)), ("points", (3,)), ("images", (16,))]
)
def test_empty_sets_and_sets_of_one_are_drawn(drawing, shape, sizes, tmp_path):
    data = prepare(tmp_path / "cache", normal(*shape), shape=shape, sizes=sizes, drawing=drawing, num_train=7, num_test=3)
    assert pixels(draw_task(data, tmp_path / "task.png", num_sets=3)).std() > 5


@pytest.mark.usefixtures("coarse")
def test_numbers_that_are_not_finite_are_left_out(tmp_path):
    def x_of(rng, total):
        x = normal(1)(rng, total)
        x[::5] = np.nan
        x[1::7] = np.inf
        return x

    data = prepare(tmp_path / "cache", x_of, shape=(1,))
    assert pixels(draw_task(data, tmp_path / "task.png")).std() > 5


def test_whole_numbers_and_constants_have_sensible_bins():
    assert edges_of([np.array([0, 1, 2, 3])], 50).tolist() == [-0.5, 0.5, 1.5, 2.5, 3.5]
    steps = np.diff(edges_of([np.arange(3, 60)], 8))
    assert (steps == steps[0]).all()
    assert steps[0] % 1 == 0
    assert edges_of([np.full(9, 0.25)], 4).tolist() == [-0.25, 0.0, 0.25, 0.5, 0.75]
    with_outlier = edges_of([np.append(np.linspace(0, 1, 5000), 1e6)], 10)
    assert with_outlier[-1] <= 1.0


@pytest.mark.usefixtures("coarse")
def test_a_large_task_is_sampled(tmp_path, monkeypatch):
    data = prepare(tmp_path / "cache", normal(1), shape=(1,), num_train=5000, num_test=1000, set_size=(2, 2))
    read = []
    gather = type(data.train.stored).gather
    monkeypatch.setattr(type(data.train.stored), "gather", lambda self, i: read.append(len(list(i))) or gather(self, i))
    draw_task(data, tmp_path / "task.png")
    assert sum(read) <= 2 * reading.SAMPLED_SETS + 6


def test_large_sets_are_sampled_fewer(plain, monkeypatch):
    monkeypatch.setattr(reading, "SAMPLED_NUMBERS", 60)  # three sets of 20 numbers
    assert len(reading.read_sample(plain.train, np.random.default_rng(0))) == 3
    monkeypatch.setattr(reading, "SAMPLED_NUMBERS", 1)
    assert len(reading.read_sample(plain.train, np.random.default_rng(0))) == 1


def test_examples_show_every_class_before_any_twice():
    target = np.array([0] * 50 + [1] * 3 + [2])
    picked = reading._spread_over(target, 6, np.random.default_rng(0), classes=True)
    assert target[picked].tolist() == [0, 0, 0, 1, 1, 2]
    assert len(set(picked.tolist())) == 6


def test_examples_of_a_regression_spread_over_the_target():
    target = np.random.default_rng(0).permutation(100)
    picked = target[reading._spread_over(target, 5, np.random.default_rng(1), classes=False)]
    assert (picked // 20).tolist() == [0, 1, 2, 3, 4]


def test_the_odd_image_is_shown_in_a_large_set(tmp_path):
    data = prepare(
        tmp_path / "cache",
        digits(64),
        shape=(64,),
        set_size=(50, 50),
        drawing="images",
        objective="element_choice",
        target=lambda rng, n: np.full(n, 49),
    )
    seen = pixels(draw_task(data, tmp_path / "task.png"))[230:600]
    mark = np.array([0xD5, 0x5E, 0x00])
    assert (np.abs(seen - mark).max(2) < 4).sum() > 500  # the frames


def test_data_that_stand_in_for_others_are_said_to(tmp_path):
    for kind, warned in (("simulated", True), ("substituted", True), ("published", False), ("exact", False)):
        figure = Figure()
        sheet._draw_header(figure, prepare(tmp_path / kind, normal(1), shape=(1,), kind=kind))
        said = {text.get_text(): text.get_color() for text in figure.texts}
        assert any("NOT the published data" in text and color == MARK for text, color in said.items()) == warned
        assert any(f"{kind}: invented numbers" in text for text in said) == warned


@pytest.mark.usefixtures("coarse")
def test_an_existing_file_is_replaced_and_nothing_is_left_aside(plain, tmp_path):
    path = tmp_path / "task.png"
    path.write_text("old")
    draw_task(plain, str(path))
    assert path.read_bytes().startswith(b"\x89PNG")
    assert {p.name for p in tmp_path.iterdir()} == {"task.png", "cache"}


def test_a_failed_picture_leaves_the_old_one(plain, tmp_path, monkeypatch):
    def fail(self, path, **options):
        path.write_text("half")
        raise OSError("disk full")

    path = tmp_path / "task.png"
    path.write_text("old")
    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(OSError, match="disk full"):
        draw_task(plain, path)
    assert path.read_text() == "old"
    assert {p.name for p in tmp_path.iterdir()} == {"task.png", "cache"}


@pytest.mark.usefixtures("coarse")
def test_global_settings_are_left_alone(plain, tmp_path):
    import matplotlib

    before = dict(matplotlib.rcParams)
    draw_task(plain, tmp_path / "task.png")
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("", {}, "a picture's name ends in .png; got ''"),
        ("task.jpg", {}, "ends in .png"),
        ("folder.png", {}, "is a folder"),
        ("nowhere/task.png", {}, "there is no folder nowhere. Make it first"),
        ("task.png", {"num_sets": 0}, "num_sets must be 1 to 12, got 0"),
        ("task.png", {"num_sets": 13}, "num_sets must be 1 to 12, got 13"),
        ("task.png", {"seed": -1}, "seed must be 0 or more, got -1"),
    ],
)
def test_wrong_arguments_are_refused(path, options, message, plain, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(ValueError, match=message):
        draw_task(plain, path, **options)


@pytest.mark.parametrize(
    ("drawing", "shape", "message"),
    [("points", (2,), r"shape \(3,\), got \(2,\)"), ("scatter", (2, 2), r"shape \(D,\)"), ("images", (7,), "an image has shape")],
)
def test_elements_that_do_not_fit_the_drawing_are_refused(drawing, shape, message, tmp_path):
    data = prepare(tmp_path / "cache", normal(*shape), shape=shape, drawing=drawing)
    with pytest.raises(ValueError, match=message):
        draw_task(data, tmp_path / "task.png")


def test_without_matplotlib_the_error_names_the_extra(plain, tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [NoMatplotlib(), *sys.meta_path])
    with pytest.raises(ImportError, match=r"orderless\[plot\]"):
        draw_task(plain, tmp_path / "task.png")


class NoMatplotlib:
    """A finder that knows no matplotlib, as on a machine where it is not installed."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "matplotlib":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
