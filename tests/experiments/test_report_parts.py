"""Parts of reports: axes, names, words, settings, HTML and charts (`scale.py`, `naming.py`, `verdict.py`, `settings.py`,
`html.py`, `charts.py`, `health.py`)."""

import html
import json
import math
import re
import shlex
from itertools import pairwise

import pytest
from experiments.lines import make_line, write_run

from orderless.experiments.report.charts import Level, Series, heat_map, line_chart
from orderless.experiments.report.curves import curves_part
from orderless.experiments.report.health import judge_run
from orderless.experiments.report.html import Html, element, join, prose
from orderless.experiments.report.naming import listed, name_runs
from orderless.experiments.report.runs import read_run
from orderless.experiments.report.scale import Scale, fit_scale
from orderless.experiments.report.settings import command_for, settings_part
from orderless.experiments.report.verdict import Figure, best, compare, differences
from orderless.experiments.sources import task_of
from orderless.experiments.spec import make_spec, parse_options


def test_an_axis_is_logarithmic_where_the_range_needs_it():
    assert fit_scale([0.02, 8.0]).log
    assert not fit_scale([18.7, 25.9]).log
    assert not fit_scale([0.0, 8.0]).log, "zero has no logarithm"


@pytest.mark.parametrize("values", [[5.0], [0.0], [], [math.nan, math.inf], [-3.0, 4.0], [1e-30, 1e3], [7, 7, 7]], ids=str)
@pytest.mark.parametrize("log", [None, True, False])
def test_every_axis_has_room_and_ticks_in_order(values, log):
    scale = fit_scale(values, log=log)
    assert scale.low < scale.high
    finite = [value for value in values if math.isfinite(value)]
    assert all(0 <= scale.place(value) <= 1 for value in finite)
    places = [place for place, _ in scale.ticks()]
    assert places == sorted(places)
    assert all(0 <= place <= 1 for place in places)
    assert 2 <= len(places) <= 12
    assert len({text for _, text in scale.ticks()}) == len(places)


def test_whole_numbers_get_whole_ticks():
    assert [text for _, text in Scale(1, 3).ticks(5, whole=True)] == ["1", "2", "3"]
    assert [text for _, text in Scale(0, 20).ticks(5, whole=True)] == ["0", "5", "10", "15", "20"]


def test_a_logarithmic_axis_is_even_in_powers_of_ten():
    scale = Scale(1e-3, 1e3, log=True)
    assert scale.place(1.0) == pytest.approx(0.5)
    assert scale.place(0.0) == 0.0, "what cannot be drawn is at the end"
    assert scale.place(math.inf) == 1.0
    assert [text for _, text in scale.ticks()][:3] == ["0.001", "0.1", "10"]


def test_text_is_escaped_and_html_is_not():
    assert element("p", "<b>&", element("i", "x"), None, class_="a", data_x='"', hidden=True, id=None) == (
        '<p class="a" data-x="&quot;" hidden>&lt;b&gt;&amp;<i>x</i></p>'
    )
    assert join("<", Html("<br>")) == "&lt;<br>"
    assert element("meta", charset="utf-8") == '<meta charset="utf-8">'
    assert element("rect", x=0, y=0.0, rx=None, hidden=False) == '<rect x="0" y="0"></rect>'


def test_backticks_become_code():
    assert prose("type `a < b` now") == "type <code>a &lt; b</code> now"


def runs_of(tmp_path, *lines):
    return [read_run(write_run(tmp_path / str(n), line)) for n, line in enumerate(lines)]


def test_names_tell_runs_apart_and_no_more(tmp_path):
    runs = runs_of(
        tmp_path,
        make_line(model="deep_sets", options={"depth": 3}),
        make_line(options={"norm": "layer"}),
        make_line(options={"learning_rate": 0.01}),
        make_line(options={"learning_rate": 0.001}),
    )
    names = name_runs(runs)
    assert [name.text for name in names] == [
        "Deep Sets 3",
        "Deep Sets++ 50, layer norm, learning rate 0.0001",
        "Deep Sets++ 50, set norm, learning rate 0.01",
        "Deep Sets++ 50, set norm, learning rate 0.001",
    ]
    assert [name.mark for name in names] == ["1", "2", "3", "4"]


def test_seeds_share_a_number_and_a_colour(tmp_path):
    lines = [make_line(options={"seed": seed, "depth": depth}) for depth in (3, 50) for seed in (0, 1)]
    names = name_runs(runs_of(tmp_path, *lines))
    assert [name.mark for name in names] == ["1a", "1b", "2a", "2b"]
    assert [name.place for name in names] == [0, 0, 1, 1]
    assert {name.text for name in names} == {"Deep Sets++ 3", "Deep Sets++ 50"}


def test_more_seeds_than_letters_still_have_marks_of_their_own(tmp_path):
    names = name_runs(runs_of(tmp_path, *(make_line(options={"seed": seed}) for seed in range(28))))
    assert [name.mark for name in names][25:] == ["1z", "1aa", "1ab"]


def test_lists_read_like_sentences():
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"


COMPARED = {
    "clearly lower": ((1.0, (0.9, 1.1)), (2.0, (1.8, 2.2)), "better than"),
    "clearly higher": ((3.0, (2.9, 3.1)), (2.0, (1.8, 2.2)), "worse than"),
    "overlapping": ((1.9, (1.7, 2.1)), (2.0, (1.8, 2.2)), "not clearly different from"),
    "no interval": ((1.0, None), (2.0, (1.8, 2.2)), "better than"),
}


@pytest.mark.parametrize(("mine", "other", "expected"), COMPARED.values(), ids=COMPARED.keys())
def test_a_figure_is_better_only_where_intervals_are_apart(mine, other, expected):
    assert compare(Figure("mine", *mine), Figure("other", *other), "mse") == expected
    opposite = {"better than": "worse than", "worse than": "better than"}.get(expected, expected)
    assert compare(Figure("mine", *mine), Figure("other", *other), "accuracy") == opposite


def test_the_best_figure_depends_on_the_metric():
    low, high = Figure("low", 0.1), Figure("high", 0.9)
    assert best([low, high], "mse") is low
    assert best([low, high], "accuracy") is high
    assert best([], "mse") is None


def test_the_papers_settings_differ_in_nothing():
    assert differences(make_spec("normal_var@exact", "deep_sets++")) == []
    assert differences(make_spec("mnist_var@mnist", "set_transformer", {"depth": 16, "norm": "layer", "seed": 2})) == []


OPTIONS = {
    "nothing": {},
    "network": {"depth": 10, "width": 8, "norm": "layer", "residual": "mean", "pool": "max", "eps": 1e-7},
    "training": {"epochs": 2, "learning_rate": 3e-5, "clip_norm": 1, "schedule": "cosine", "precision": "bf16-mixed", "seed": 7},
    "data": {"num_train": 64, "num_test": 32, "set_size": 20, "data_seed": 3},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_the_command_makes_the_same_run(options):
    spec = make_spec("normal_var@exact", "deep_sets++", options)
    words = shlex.split(" ".join(command_for(spec)))
    assert words[:3] == ["orderless", "train", "normal_var@exact"]
    settings = [words[n + 1] for n, word in enumerate(words) if word == "--set"]
    seed = int(words[words.index("--seed") + 1]) if "--seed" in words else 0
    again = make_spec(words[2], words[words.index("--model") + 1], {**parse_options(settings), "seed": seed})
    assert again.key == spec.key
    assert len(settings) == len(options) - ("seed" in options), "what is as in the paper needs no saying"


def test_settings_say_which_runs_standardise(tmp_path):
    runs = runs_of(tmp_path, make_line(options={"standardize": True}), make_line())
    page = settings_part(list(zip(runs, name_runs(runs), strict=True)))
    lists, _, table = page.partition("<table>")
    assert "<dt>standardize</dt>" not in lists
    assert re.findall(r'<th scope="col">(.*?)</th>', table) == ["run", "standardize"]


def test_settings_say_once_what_runs_share(tmp_path):
    runs = runs_of(tmp_path, make_line(options={"depth": 3}), make_line(options={"depth": 50, "clip_norm": 1.0}))
    page = settings_part(list(zip(runs, name_runs(runs), strict=True)))
    lists, _, table = page.partition("<table>")
    assert "<dt>width</dt><dd>128</dd>" in lists
    assert "<dt>commit</dt><dd>abc1234</dd>" in lists
    assert "<dt>depth</dt>" not in lists
    assert re.findall(r'<th scope="col">(.*?)</th>', table) == ["run", "depth"]
    assert re.findall(r"<td>(.*?)</td>", table) == ["3", "50"]


def paths_of(chart, kind):
    return re.findall(rf'<path d="([^"]*)" class="{kind}[^"]*">', chart)


def test_a_line_goes_where_its_numbers_are():
    scale = Scale(0.0, 10.0)
    chart = line_chart("t", [Series([(0, 0.0), (1, 5.0), (2, 10.0)], "a")], x_name="x", y_name="y", y_scale=scale)
    assert paths_of(chart, "line") == ["M0.0 1000.0L500.0 500.0L1000.0 0.0"]


def test_a_line_has_a_gap_where_a_number_is_missing():
    points = [(0, 1.0), (1, math.nan), (2, 3.0), (3, math.inf), (4, 2.0)]
    chart = line_chart("t", [Series(points, "a")], x_name="x", y_name="y")
    (path,) = paths_of(chart, "line")
    assert path.count("M") == 3
    assert "nan" not in chart
    assert "inf" not in chart


def test_a_chart_without_numbers_is_left_out():
    assert line_chart("t", [Series([(0, math.nan)], "a"), Series([], "b")], x_name="x", y_name="y") is None


def test_a_chart_describes_itself_and_can_be_read_by_a_script():
    chart = line_chart(
        "Loss",
        [Series([(1, 8.0), (2, 0.02)], "Deep Sets <3>", "1", 9)],
        x_name="epoch",
        y_name="loss",
        levels=[Level(8.25, "constant")],
    )
    assert "Deep Sets &lt;3&gt;: from 8.000 to 0.02000." in chart
    assert "Logarithmic scale." in chart
    read = json.loads(re.search(r'data-read="([^"]*)"', chart)[1].replace("&quot;", '"'))
    assert read["lines"] == [{"name": "1", "color": 1, "points": [[1, "8.00"], [2, "0.0200"]]}]


@pytest.mark.parametrize("at", [0.0, 5.0, 10.0])
@pytest.mark.parametrize("count", [2, 6, 17])
def test_marks_at_the_ends_of_lines_do_not_cover_each_other(count, at):
    lines = [Series([(0, 1.0), (1, at + n / 1000)], f"run {n}", str(n)) for n in range(count)]
    chart = line_chart("t", lines, x_name="x", y_name="y", y_scale=Scale(0.0, 10.1))
    ends = chart[chart.index('class="ends"') :].partition('class="x"')[0]
    places = [float(text) for text in re.findall(r"bottom:(-?[\d.]+)%", ends)]
    assert len(places) == count
    assert places == sorted(places), "in the order of the lines"
    assert min(above - below for below, above in pairwise(places)) > 5.4
    assert min(places) >= 0
    assert max(places) <= 100


def test_lines_of_many_seeds_share_a_mark():
    seeds = enumerate("abc")
    lines = [Series([(0, 1.0), (1, n + step / 10)], "run", f"{n}{seed}", n) for step, seed in seeds for n in range(8)]
    chart = line_chart("t", lines, x_name="x", y_name="y")
    ends = chart[chart.index('class="ends"') :].partition('class="x"')[0]
    assert re.findall(r">(\w+)</span>", ends) == [str(n) for n in range(8)]


def test_a_line_that_ends_early_has_its_mark_there():
    lines = [Series([(0, 1.0), (10, 5.0)], "whole", "1"), Series([(0, 1.0), (5, 2.0)], "half", "2", 1, ended=True)]
    chart = line_chart("t", lines, x_name="x", y_name="y")
    assert re.search(r'class="endmark c1" style="left:50.00%;', chart)
    assert len(paths_of(chart, "cross")) == 1
    assert "diverged there" in chart


def test_a_heat_map_has_a_cell_for_every_number():
    rows = [[1e-8, 1.0, None], [1e-4, math.nan, math.inf]]
    chart = heat_map(rows, Scale(1e-8, 1.0, log=True), description="d", x_names=["start", "end"], y_names=("input", "output"))
    cells = dict(re.findall(r'<path d="([^"]*)" class="([^"]*)">', chart))
    by_shade = {shade: path.count("M") for path, shade in cells.items()}
    assert by_shade == {"h0": 1, "h11": 2, "h6": 1, "none": 2}
    assert "M0 2h1" in next(path for path, shade in cells.items() if shade == "h0"), "the first layer is at the bottom"


def test_a_line_has_no_more_points_than_can_be_seen(tmp_path):
    (run,) = runs_of(tmp_path, make_line(epochs=100))
    assert len(run.steps) == 1000
    page = curves_part([(run, name_runs([run])[0])], task_of(run.spec), [])
    charts = [json.loads(html.unescape(found)) for found in re.findall(r'data-read="([^"]*)"', page)]
    points = [line["points"] for chart in charts if chart["x"] == "step" for line in chart["lines"]]
    assert [len(line) for line in points] == [200, 200]
    assert {(line[0][0], line[-1][0]) for line in points} == {(1, 1000)}, "the first and the last are among them"


def test_accuracies_that_rise_from_chance_have_a_linear_axis_and_losses_a_logarithmic_one(tmp_path):
    line = make_line("point_cloud@shapes", value=0.9)
    for n, row in enumerate(line["epochs"]):
        row |= {"test_accuracy": 0.9 if n else 0.01, "test_cross_entropy": 0.01 if n else 9.0}
    (run,) = runs_of(tmp_path, line)
    page = str(curves_part([(run, name_runs([run])[0])], task_of(run.spec), []))
    captions = {title: "Logarithmic scale." in rest for title, rest in re.findall(r"<b>(.*?)\.</b>(.*?)</figcaption>", page)}
    assert (captions["Test accuracy"], captions["Test cross entropy"]) == (False, True)


def test_gradients_that_nobody_looked_at_have_no_verdict(tmp_path):
    line = make_line()
    line["layers"] = None
    assert judge_run(runs_of(tmp_path, line)[0]) is None


def test_gradients_are_judged_before_training_and_over_time(tmp_path):
    (run,) = runs_of(tmp_path, make_line(slope=-6))
    first, whole = judge_run(run)
    assert first.verdict == "healthy"
    assert whole.verdict == "vanishing"
