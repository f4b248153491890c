"""Charts: lines where their numbers are, marks that can be read, rows of numbers with their intervals."""

import json
import math
import re
from itertools import pairwise

import pytest

from orderless.pages.charts import Level, Series, heat_map, interval_row, line_chart, scale_row
from orderless.pages.scale import Scale


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


def test_a_number_stands_in_its_row_with_its_interval_and_what_it_is_compared_with():
    scale = Scale(0.0, 10.0)
    row = interval_row("a < b", 5.0, (4.0, 6.0), ("5.0", "[4.0, 6.0]"), scale, published=[(2.0, 3.0)], constant=8.0, color=9)
    assert row.startswith('<div class="row c1"><span>a &lt; b</span>')
    assert 'aria-label="5.0 [4.0, 6.0]"' in row
    assert paths_of(row, "dot") == ["M500.0 500h0"]
    assert paths_of(row, "whisker") == ["M400.0 500H600.0"]
    assert paths_of(row, "published") == ["M198.0 500H302.0"]
    assert paths_of(row, "level") == ["M800.0 0v1000"]
    bare = interval_row("a", 5.0, None, ("5.0", ""), scale)
    assert bare.startswith('<div class="row"><span>')
    assert 'aria-label="5.0"' in bare
    assert [paths_of(bare, kind) for kind in ("whisker", "published", "level")] == [[], [], []]
    assert ">0</span>" in scale_row(scale)
