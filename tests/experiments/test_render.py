"""Renderings: the same figures in Markdown, CSV, LaTeX and a picture, and the same warnings."""

import csv
import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from experiments.plans import _nobodys_files, plan_of, result  # noqa: F401

from orderless.experiments.render import say_counts, to_csv, to_latex, to_markdown, to_rows, write_table
from orderless.experiments.table import build_table

pytestmark = pytest.mark.usefixtures("_nobodys_files")


@pytest.fixture
def table(_nobodys_files):  # noqa: F811
    """Two tasks, three norms, one cell missing, one diverged; Hematocrit is simulated."""
    plan = plan_of("norms", only={"task": ["hematocrit", "normal_var"]})
    lines = []
    for number, spec in enumerate(plan.runs):
        if (spec.model_options["norm"], spec.task) == ("layer", "normal_var@exact"):
            continue
        bad = {"status": "diverged", "metrics": {}} if number == 0 else {}
        lines.append(result(spec, 5.0 + number, released=5.5 + number, **bad))
    return build_table(plan, lines)


@pytest.fixture
def quick(_nobodys_files):  # noqa: F811
    plan = plan_of("norms", only={"task": ["normal_var"]}, quick=True)
    return build_table(plan, [result(spec) for spec in plan.runs])


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def test_markdown_has_ours_beside_published(table):
    text = to_markdown(table)
    assert text.startswith("# Deep Sets with 50 layers: no norm, layer norm, set norm (tab:ds_norm)\n")
    head, rule, *rows = [cells(line) for line in text.splitlines() if line.startswith("|")]
    assert head == ["task", "no norm", "published", "layer norm", "published", "set norm", "published"]
    assert rule[0].strip("-") == ""
    assert all(re.fullmatch("-+:", cell) for cell in rule[1:])  # numbers stand at the right
    assert rows[0][0] == "Hematocrit (simulated), MSE ↓"
    assert rows[0][2] == "25.879 ± 0.001"
    assert rows[0][1] == "14.0000 ± 4.2426 [14.5000 ± 4.2426] (n=2, 1 diverged)"
    assert rows[1][3:5] == ["- (3 missing)", "8.4498 ± 0.0054"]
    assert "14 of 18 runs finished, 1 diverged, 3 missing." in text
    assert "**Not the paper's data, so not the paper's figures: Hematocrit (simulated" in text
    assert "sample standard deviation" in text
    assert len({len(line) for line in text.splitlines() if line.startswith("|")}) == 1  # it reads well as plain text, too


def test_csv_has_a_line_for_each_figure_with_unrounded_numbers(table):
    rows = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert len(rows) == 6
    first = rows[0]
    assert (first["task"], first["source"], first["norm"], first["metric"]) == ("hematocrit", "simulated", "none", "mse")
    assert (first["n"], first["num_diverged"], first["num_missing"]) == ("2", "1", "0")
    assert float(first["ours_std"]) == pytest.approx(np.std([11, 17], ddof=1))
    assert float(first["released_protocol_mean"]) == 14.5
    assert (first["published_mean"], first["published_std"]) == ("25.879", "0.001")
    assert first["data"].startswith("Hematocrit (simulated")
    assert first["conditions"].startswith("reduced: Hematocrit 20,000 of 98,240 training sets")
    (missing,) = [row for row in rows if row["num_missing"] == "3"]
    assert missing["ours_mean"] == missing["ours_std"] == missing["data"] == ""


def test_rows_are_plain_values(table):
    assert len(json.loads(json.dumps(to_rows(table)))) == 6


def test_latex_is_a_booktabs_table_with_nothing_left_to_escape(table):
    text = to_latex(table)
    for part in (r"\begin{table}", r"\toprule", r"\midrule", r"\bottomrule", r"\end{tabular}}", r"\end{table}"):
        assert text.count(part) >= 1
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
    (columns,) = re.findall(r"\\begin\{tabular\}\{([lr]+)\}", text)
    body = text.partition(r"\toprule")[2].partition(r"\bottomrule")[0]
    lines = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert len(lines) == 3
    assert all(len(re.findall(r"(?<!\\)&", line)) == len(columns) - 1 for line in lines)
    assert text.isascii()
    assert r"25.879 $\pm$ 0.001" in text
    assert r"tab:ds\_norm" in text
    assert not re.findall(r"(?<!\\)[#%](?! needs|$)", text, re.M)


def test_latex_escapes_what_means_something_to_it(table):
    odd = replace(table, notes=(r"100 % of a_b & {c} #1 $2 ~^ \x",))
    assert r"100 \% of a\_b \& \{c\} \#1 \$2 \textasciitilde{}\textasciicircum{} \textbackslash{}x" in to_latex(odd)


def test_rows_that_begin_alike_are_grouped_in_latex():
    body = to_latex(build_table(plan_of("clean_path"), [])).partition(r"\toprule")[2]
    assert body.count(r"\midrule") == 3  # below the head, and between the three networks
    assert body.count("Deep Sets++ &") == 1
    assert len(re.findall(r"^ &  &  & set &", body, re.M)) == 4


def test_what_is_less_than_the_papers_is_told_in_every_rendering(quick):
    shrunk = "reduced: 256 of 10,000 training sets"
    assert f"**{shrunk}" in to_markdown(quick)
    assert shrunk in to_latex(quick)
    assert all(row["conditions"].startswith(shrunk) for row in to_rows(quick))
    assert shrunk in to_csv(quick)


def test_counts_say_only_what_there_is(quick, table):
    assert say_counts(quick) == "3 of 3 runs finished."
    assert say_counts(table) == "14 of 18 runs finished, 1 diverged, 3 missing."


def texts_of(table, monkeypatch, path):
    """What the picture says: (text, colour) of all that is drawn."""
    from matplotlib.figure import Figure

    drawn = []
    savefig = Figure.savefig

    def spy(figure, *args, **options):
        drawn.extend((text.get_text(), text.get_color()) for text in figure.texts)
        width, height = figure.canvas.get_width_height()
        boxes = [text.get_window_extent() for text in figure.texts if text.get_text()]
        assert all(box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height for box in boxes), "text leaves the page"
        savefig(figure, *args, **options)

    monkeypatch.setattr(Figure, "savefig", spy)
    paths = write_table(table, path)
    return paths, drawn


def test_the_picture_says_the_same(table, quick, tmp_path, monkeypatch):
    from orderless.look import MARK

    paths, drawn = texts_of(table, monkeypatch, tmp_path)
    assert {ending: path.name for ending, path in paths.items()} == {e: f"norms.{e}" for e in ("md", "csv", "tex", "png")}
    said = [text for text, _ in drawn]
    assert "14.0000 ± 4.2426 [14.5000 ± 4.2426] (n=2, 1 diverged)" in said
    assert "25.879 ± 0.001" in said
    assert "- (3 missing)" in said
    assert any(color == MARK and text.startswith("Not the paper's data") for text, color in drawn)
    _, drawn = texts_of(quick, monkeypatch, tmp_path)
    assert any(color == MARK and text.startswith("reduced: 256 of 10,000 training sets") for text, color in drawn)


def test_the_widest_table_fits_its_picture(tmp_path, monkeypatch):
    from matplotlib.image import imread

    plan = plan_of("main_results")
    lines = [result(spec, 123.456, released=234.567) for spec in plan.runs[:150]]
    paths, _ = texts_of(build_table(plan, lines), monkeypatch, tmp_path)
    height, width, _ = imread(paths["png"]).shape
    assert width > 2 * height


def test_without_a_picture_the_texts_are_written(table, tmp_path):
    paths = write_table(table, tmp_path / "new", picture=False)
    assert set(paths) == {"md", "csv", "tex"}
    assert paths["md"].read_text() == to_markdown(table)
