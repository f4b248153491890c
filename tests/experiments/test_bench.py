"""Tables and plots of what the bench measured: `rows.py`, `goals.py`, `table.py`, `plots.py` in `experiments/bench`."""

import csv
import json
from pathlib import Path

import pytest
from experiments.measured import make_row, write_rows

from orderless.experiments.bench import draw_plots, goal_lines, read_measurements, to_markdown
from orderless.experiments.bench.rows import newest
from orderless.io.errors import DataError

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TIMES = "\N{MULTIPLICATION SIGN}"


@pytest.fixture
def measured(tmp_path):
    return lambda *rows: read_measurements(write_rows(tmp_path / "rows.jsonl", rows))


def line_of(rows, title):
    (found,) = [line for line in goal_lines(rows) if line.title == title]
    return found


# ------------------------------------------------------------------------------------------------------- reading


def test_rows_of_other_benches_are_passed_over(measured):
    (row,) = measured({"op": "loading", "task": "normal_var"}, make_row(p50_ms=2.0))
    assert (row.case, row.p50_ms, row.error) == ("deep_sets++-50-training", 2.0, None)


def test_a_last_line_that_is_torn_is_passed_over(tmp_path):
    path = write_rows(tmp_path / "rows.jsonl", [make_row()])
    path.write_text(path.read_text() + json.dumps(make_row())[:40])
    assert len(read_measurements(path)) == 1


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("{", "something that is no JSON"),
        ("3", "a int"),
        ('{"case": "x"}', "a row without run, group"),
        (json.dumps({**make_row(), "p50_ms": None}), "a row with neither a time nor an error"),
    ],
)
def test_a_line_that_is_none_is_named(tmp_path, line, found):
    path = tmp_path / "rows.jsonl"
    path.write_text(f"{json.dumps(make_row())}\n{line}\n{json.dumps(make_row())}\n")
    with pytest.raises(DataError, match=r"line 2: expected rows") as error:
        read_measurements(path)
    assert found in str(error.value)


def test_contenders_are_compared_within_the_last_run_that_measured_ours(measured):
    rows = measured(
        make_row(run="monday", p50_ms=2.0),
        make_row(run="monday", contender="released", p50_ms=40.0),
        make_row(run="tuesday", p50_ms=3.0),
        make_row(run="wednesday", contender="released", p50_ms=90.0),
    )
    (contenders,) = newest(rows).values()
    assert {name: row.p50_ms for name, row in contenders.items()} == {"orderless": 3.0}


def test_a_row_that_failed_gives_way_to_one_that_did_not(measured):
    rows = measured(
        make_row(p50_ms=2.0), make_row(error="RuntimeError: no"), make_row(contender="released", error="RuntimeError: no")
    )
    (contenders,) = newest(rows).values()
    assert contenders["orderless"].p50_ms == 2.0
    assert contenders["released"].error == "RuntimeError: no"


# ------------------------------------------------------------------------------------------------------- goals


def test_a_time_is_held_against_its_goal_and_its_peers(measured):
    rows = measured(
        make_row(p50_ms=2.5),
        make_row(contender="released", p50_ms=50.0),
        make_row(contender="compiled", p50_ms=7.0),
    )
    line = line_of(rows, "Deep Sets++ 50, training step")
    assert (line.released, line.compiled, line.ours, line.goal, line.floor) == (
        "50.0 ms",
        "7.00 ms",
        "2.50 ms",
        "≤ 3 ms",
        "1.5 ms",
    )
    assert (line.times_released, line.times_compiled, line.reached) == (f"20.0 {TIMES}", f"2.80 {TIMES}", True)
    assert not line_of(measured(make_row(p50_ms=3.1)), "Deep Sets++ 50, training step").reached


def test_memory_is_held_against_its_goal(measured):
    rows = measured(make_row(peak_mib=512.0), make_row(contender="released", peak_mib=5120.0))
    line = line_of(rows, "Deep Sets++ 50, peak memory in training")
    assert (line.released, line.ours, line.goal, line.times_released) == ("5.00 GiB", "0.500 GiB", "≤ 0.8 GiB", f"10.0 {TIMES}")
    assert line.reached
    assert not line_of(measured(make_row(peak_mib=900.0)), "Deep Sets++ 50, peak memory in training").reached


def test_a_case_is_held_against_another(measured):
    huge = {"case": "deep_sets++-50-55000", "num_elements": 3_520_000, "largest_set": 55_000}
    rows = measured(
        make_row(p50_ms=2.0),
        make_row(**huge, p50_ms=116.0),
        make_row(**huge, contender="released", error="OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"),
    )
    line = line_of(rows, "Deep Sets++ 50, 64 sets of 55,000 against 64 of 1,000, training step")
    assert (line.ours, line.goal, line.floor) == (f"58.0 {TIMES} (116 ms)", f"≤ 60 {TIMES}", f"55 {TIMES}")
    assert (line.released, line.times_released, line.reached) == ("out of memory", "", True)


def test_a_case_without_the_other_is_not_reached(measured):
    line = line_of(
        measured(make_row(case="deep_sets++-50-zipf", p50_ms=2.0)), "Deep Sets++ 50, Zipf sizes against equal ones, training step"
    )
    assert (line.ours, line.reached) == ("2.00 ms", False)


def test_on_a_cpu_the_ratio_is_that_of_turns(measured):
    here = {"case": "deep_sets++-50-cpu", "group": "cpu", "device": "x86_64 CPU", "expects_fused": False, "peak_mib": None}
    rows = measured(
        make_row(**here, p50_ms=1000.0, times_faster_than={"released": 1.62}),
        make_row(**here, contender="released", p50_ms=1500.0),
    )
    line = line_of(rows, "Deep Sets++ 50, 16 sets of 1,000 on two CPU cores, training step")
    assert (line.goal, line.times_released, line.reached) == (f"1.5 {TIMES} faster", f"1.62 {TIMES}", True)
    slower = measured(
        make_row(**here, p50_ms=1000.0, times_faster_than={"released": 1.4}), make_row(**here, contender="released")
    )
    assert not line_of(slower, "Deep Sets++ 50, 16 sets of 1,000 on two CPU cores, training step").reached


def test_ours_that_failed_is_told_of(measured):
    line = line_of(measured(make_row(error="RuntimeError: illegal memory access")), "Deep Sets++ 50, training step")
    assert (line.ours, line.reached) == ("failed", False)


def test_set_norm_stands_beside_pytorch_geometric(measured):
    norm = {"case": "set_norm", "network": "set_norm", "depth": None}
    rows = measured(
        *(make_row(**norm, contender=name, p50_ms=ms) for name, ms in [("orderless", 0.1), ("released", 0.8), ("pyg", 1.4)])
    )
    assert line_of(rows, "Set norm alone, forward and backward, float32").released == "0.800 ms (PyG 1.40 ms)"


# ------------------------------------------------------------------------------------------------------- tables


def test_the_page_has_every_contender_and_says_where_it_was_measured(measured):
    text = to_markdown(
        measured(
            make_row(),
            make_row(contender="orderless-eager", p50_ms=9.0, fused=False),
            make_row(contender="released", error="RuntimeError: no"),
        )
    )
    everyone = text.partition("## Every contender")[2]
    assert "orderless, without CUDA graphs" in everyone
    assert "| the authors' computation       | float32  | failed |" in everyone
    assert "Measured on NVIDIA H200, torch 2.11.0, Triton 3.6.0, orderless 0.1.0 at abc1234, run monday." in text
    assert "A copy moved 4,300 GB/s. 1 of 2 of our measurements ran by kernels." in text


def sweep(group, **by):
    """Rows of two contenders over what differs, the largest of the peer's out of memory."""
    (name, values), rows = next(iter(by.items())), []
    for value in values:
        case = {
            "case": f"{group}-{value}",
            "group": group,
            name: value,
            "num_elements": max(64_000, by.get("largest_set", [0])[0]),
        }
        rows.append(make_row(**case, p50_ms=value / 10))
        failed = {"error": "OutOfMemoryError: much"} if value == values[-1] else {"p50_ms": value * 2.0}
        rows.append(make_row(**case, contender="released", **failed))
    return rows


def test_growth_is_a_table_by_network(measured):
    text = to_markdown(measured(*sweep("depth", depth=[10, 25, 50])))
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    assert rows[0] == ["Deep Sets++, training step, ms", "10", "25", "50"]
    assert rows[2] == ["orderless", "1.00", "2.50", "5.00"]
    assert rows[3] == ["the authors' computation", "20.0", "50.0", "out of memory"]
    assert "## Goals" not in text


def test_growth_with_size_says_how_many_elements_there_are(measured):
    text = to_markdown(measured(*sweep("size", largest_set=[10, 1000])))
    assert "| elements in all sets" in text
    assert "Deep Sets++ 50, training step, ms" in text


def test_columns_stand_under_each_other(measured):
    for table in to_markdown(measured(make_row(), *sweep("depth", depth=[10, 50]))).split("\n\n"):
        if table.startswith("|"):
            assert len({len(line) for line in table.splitlines()}) == 1


# ------------------------------------------------------------------------------------------------------- plots


def test_every_group_has_a_plot_and_its_numbers(measured, tmp_path):
    rows = measured(
        make_row(),
        make_row(contender="released", peak_mib=5000.0),
        make_row(contender="compiled", error="OutOfMemoryError: much"),
        *sweep("depth", depth=[10, 25, 50]),
        *sweep("width", width=[32, 64]),
        *sweep("size", largest_set=[10, 100, 1000]),
    )
    paths = draw_plots(rows, tmp_path / "plots")
    assert {path.name for path in paths if path.suffix == ".png"} == {
        *("bench_size.png", "bench_depth.png", "bench_width.png", "bench_memory.png")
    }
    with (tmp_path / "plots" / "bench_depth.csv").open() as file:
        drawn = list(csv.DictReader(file))
    assert [(row["contender"], row["layers"], row["ms"]) for row in drawn if row["contender"] == "released"] == [
        ("released", "10", "20"),
        ("released", "25", "50"),
    ]
    with (tmp_path / "plots" / "bench_size.csv").open() as file:
        (first, *_) = csv.DictReader(file)
    assert float(first["ns per element"]) == pytest.approx(1e6 / 64_000)


def test_a_group_in_which_all_failed_is_drawn_without_lines(measured, tmp_path):
    rows = measured(make_row(case="a", group="depth", error="RuntimeError: no"))
    assert {path.name for path in draw_plots(rows, tmp_path)} == {"bench_depth.png", "bench_depth.pdf"}


def test_what_was_not_measured_is_not_drawn(measured, tmp_path):
    assert draw_plots(measured(make_row(direction="inference")), tmp_path) == []


# ------------------------------------------------------------------------------------------------------- what is committed


@pytest.mark.parametrize("name", ["bench", "bench_cpu"])
def test_the_page_shows_what_the_committed_rows_say(name):
    path = DOCS / "results" / f"{name}.jsonl"
    if not path.exists():
        pytest.skip(f"{path.name} is not committed yet")
    page = (DOCS / "performance.md").read_text()
    rendered = to_markdown(read_measurements(path))
    tables = [part for part in rendered.split("\n\n") if part.startswith("|")]
    assert tables
    for table in [*tables, rendered.split("\n\n")[-1].strip()]:
        assert table in page, f"docs/performance.md lacks what `orderless bench show {path.relative_to(ROOT)}` prints:\n{table}"
