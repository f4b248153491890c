"""`orderless table`, as typed in a shell (`table.py`, `paper.py`)."""

import json
from pathlib import Path

import pytest
from experiments.plans import result
from typer.testing import CliRunner

from orderless.cli import paper
from orderless.cli.app import app
from orderless.experiments.grid import expand
from orderless.experiments.recipe import list_recipes, load_recipe
from orderless.experiments.runner import Event, Summary

SMALL = """
name = "small"
kind = "table"
title = "Two small networks and a constant"
seeds = [0, 1]
[fixed]
task = "normal_var"
num_train = 48
num_test = 16
set_size = 8
[[grid]]
model = "deep_sets"
depth = [3, 5]
width = 8
batch_size = 16
epochs = 2
[[grid]]
model = "baseline:constant"
seeds = [0]
[quick]
epochs = 1
seeds = [0]
[published]
from = ["norms", "main_results"]
"""


@pytest.fixture(autouse=True)
def own_folders(monkeypatch, tmp_path):
    monkeypatch.delenv("ORDERLESS_DATA", raising=False)
    monkeypatch.setenv("ORDERLESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def run(*arguments):
    done = CliRunner().invoke(app, ["table", *map(str, arguments)])
    return done.exit_code, done.stdout, done.stderr


def test_without_a_name_every_recipe_is_listed():
    code, out, _ = run()
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1 : 1 + len(list_recipes())]] == list_recipes()
    code, out, _ = run("--json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert rows["clean_path"]["runs"] == 144
    assert rows["gradients"]["kind"] == "figure"


def test_a_table_is_run_shown_and_never_run_again(small, tmp_path):
    code, out, err = run(small, "--device", "cpu")
    assert code == 0, err
    assert out.startswith("# Two small networks and a constant\n")
    assert "5 of 5 runs finished." in out
    assert "5 runs to do" in err
    assert "5 of 5: deep_sets on normal_var@exact, depth 5, seed 1: mse" in err
    assert len((tmp_path / "results" / "results.jsonl").read_text().splitlines()) == 5
    for ending in ("md", "csv", "tex", "png"):
        assert (tmp_path / "results" / "tables" / f"small.{ending}").stat().st_size > 100
    assert (tmp_path / "results" / "tables" / "small.md").read_text() == out

    code, again, err = run(small, "--device", "cpu")
    assert (code, again) == (0, out)
    assert "to do" not in err

    code, out, err = run(small, "--device", "cpu", "--seeds", "0,1,2", "--only", "depth=3")
    assert code == 0
    assert "1 run to do (2 were done before)" in err

    code, out, _ = run(small, "--dry-run", "--json")
    assert {row["state"] for row in json.loads(out)} == {"finished"}

    code, out, _ = run(small, "--no-run", "--json")
    told = json.loads(out)
    assert told["runs"] == {"finished": 5, "diverged": 0, "missing": 0}
    assert told["files"]["png"].endswith("small.png")
    assert told["failed"] == {}
    assert [figure["model"] for figure in told["figures"]] == ["deep_sets", "deep_sets", "baseline:constant"]


def test_quick_is_another_table_and_says_so(small):
    code, out, err = run(small, "--quick", "--device", "cpu", "--only", "depth=3", "--json")
    assert code == 0, err
    (reduced,) = json.loads(out)["conditions"]
    assert "8 of 1,000 elements, 1 of 50 epochs, 1 of 2 seeds. Such figures say nothing" in reduced


def test_a_dry_run_runs_and_writes_nothing(small, tmp_path):
    code, out, _ = run(small, "--dry-run")
    assert code == 0
    assert "deep_sets on normal_var@exact, depth 5, seed 1" in out
    assert "0 of 5 runs are done. To do: 5 of normal_var@exact." in out
    assert not (tmp_path / "results").exists()


def test_a_run_that_was_begun_is_listed_as_begun(small, tmp_path):
    key = expand(load_recipe(small)).runs[0].key
    (tmp_path / "results" / "runs" / key).mkdir(parents=True)
    (tmp_path / "results" / "runs" / key / "config.json").write_text("{}")
    states = [row["state"] for row in json.loads(run(small, "--dry-run", "--json")[1])]
    assert states == ["begun"] + ["missing"] * 4


def test_results_of_others_are_shown_and_not_done_again(tmp_path):
    plan = expand(load_recipe("norms"), only={"task": ["normal_var"]})
    (tmp_path / "committed.jsonl").write_text("".join(json.dumps(result(spec, 8.4)) + "\n" for spec in plan.runs))
    code, out, err = run("norms", "--only", "task=normal_var", "--results", "committed.jsonl", "--device", "cpu")
    assert code == 0
    assert "9 of 9 runs finished." in out
    assert "8.4000 ± 0.0000" in out
    assert "to do" not in err
    assert not (tmp_path / "results" / "results.jsonl").exists()


def test_what_is_missing_is_shown_as_missing():
    code, out, _ = run("layer_norm", "--no-run")
    assert code == 0
    assert out.count("- (3 missing)") == 6
    assert "18.7436 ± 0.0148" in out


def test_without_matplotlib_the_texts_are_made(monkeypatch, tmp_path):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, _, err = run("layer_norm", "--no-run")
    assert code == 0
    assert "No picture was drawn: pip install 'orderless[plot]'" in err
    assert sorted(path.name for path in (tmp_path / "results" / "tables").iterdir()) == [
        "layer_norm.csv",
        "layer_norm.md",
        "layer_norm.tex",
    ]


def test_a_run_that_fails_is_told_and_the_table_is_shown(small, monkeypatch):
    def fail(self, spec, tell):
        return Event("failed", spec, message="RuntimeError: no luck")

    monkeypatch.setattr("orderless.experiments.runner._Attempt.__call__", fail)
    code, out, err = run(small, "--device", "cpu")
    assert code == 1
    assert "0 of 5 runs finished, 5 missing." in out
    assert err.count("failed: RuntimeError: no luck (all of it: results/runs/") == 5


def test_a_damaged_result_file_is_told_in_one_line(small, tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "results.jsonl").write_text("damaged\n")
    code, _, err = run(small, "--no-run")
    assert code == 1
    assert "results.jsonl, line 1: expected one JSON object" in err
    assert err.count("\n") == 1


WRONG = {
    "unknown recipe": (["clean_pth"], "there is no recipe 'clean_pth'. Did you mean 'clean_path'?"),
    "unknown paper": (["papr"], "there is no recipe 'papr'. Did you mean 'paper'?"),
    "no such file": (["nowhere/my.toml"], "there is no recipe file nowhere/my.toml"),
    "a figure": (["gradients"], "gradients is a figure: `orderless figure gradients` draws it"),
    "unknown axis": (["norms", "--only", "tsak=normal_var"], "norms has no axis 'tsak'. Did you mean 'task'?"),
    "unknown value": (["norms", "--only", "task=normal"], "norms has no task 'normal'"),
    "no value": (["norms", "--only", "task"], "--only takes axis=value"),
    "seeds": (["norms", "--seeds", "one"], "--seeds takes whole numbers, such as 0,1,2; got 'one'"),
    "seeds twice": (["norms", "--seeds", "1,1"], "each once"),
    "jobs": (["norms", "--jobs", "0"], "--jobs must be 1 or more, got 0"),
    "precision": (["norms", "--precision", "16"], "precision must be one of 32-true, tf32, bf16-mixed; got '16'"),
    "device": (["norms", "--device", "gpu"], "device must be auto, cpu, cuda or cuda:N; got 'gpu'"),
    "options of a list": (
        ["--only", "task=normal_var", "--jobs", "2"],
        "without a NAME recipes are listed: leave out --only, --jobs.",
    ),
    "two ways to run nothing": (["norms", "--dry-run", "--no-run"], "--dry-run lists runs and --no-run renders what is there"),
    "out is a file": (["norms", "--no-run", "--out", "a_file"], "nothing can be written to a_file: File exists"),
    "out cannot be read": (["norms", "--dry-run", "--out", "a_file"], "nothing can be read from a_file: Not a directory"),
}


@pytest.mark.parametrize(("arguments", "message"), WRONG.values(), ids=WRONG)
def test_wrong_usage_is_one_clear_line_and_exit_code_2(arguments, message, tmp_path):
    (tmp_path / "a_file").touch()
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("orderless: ")
    assert message in err
    assert err.count("\n") == 1


def test_a_gpu_that_is_not_there_is_one_clear_line(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    code, _, err = run("norms", "--device", "cuda")
    assert code == 2
    assert "PyTorch sees no GPU here" in err
    assert err.count("\n") == 1


def test_control_c_says_what_is_kept_and_how_to_go_on(small, tmp_path, monkeypatch):
    def interrupt(screen, event):
        if event.state == "step" and event.spec.train.seed == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr("orderless.cli.runs.RunScreen.tell", interrupt)
    code, out, err = run(small, "--device", "cpu")
    assert (code, out) == (130, "")
    assert "orderless: stopped. 3 of 5 runs are done and kept in results/results.jsonl; 1 that were begun will continue" in err
    assert "Run the same command to go on" in err
    assert "Traceback" not in err
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    code, out, err = run(small, "--device", "cpu", "--cache-dir", tmp_path / "cache")
    assert code == 0
    assert "2 runs to do (3 were done before)" in err
    assert "5 of 5 runs finished." in out


# ------------------------------------------------------------------------------------------------------- the whole paper


def test_the_whole_paper_is_rendered_without_running_anything():
    code, _, err = run("paper", "--no-run", "--precision", "bf16-mixed")
    assert (code, err) == (0, "Written to results/README.md.\n")
    page = Path("results/README.md").read_text()
    assert "orderless table main_results --precision bf16-mixed" in page
    assert "](figures/layer_norm_2d.png)" in page
    assert Path("results/figures/layer_norm_2d.png").stat().st_size > 0
    assert Path("results/tables/main_results.csv").stat().st_size > 0
    assert "](figures/gradients.png)" not in page  # nothing to draw yet


def test_runs_of_the_whole_paper_are_chosen_across_its_tables():
    code, out, _ = run("paper", "--dry-run", "--only", "task=normal_var", "--only", "model=deep_sets", "--seeds", "1", "--json")
    runs = json.loads(out)
    norms = expand(load_recipe("norms"), seeds=[1], only={"task": ["normal_var"]})  # of the other tables none has such a run
    assert code == 0
    assert [row["key"] for row in runs] == [spec.key for spec in norms.runs]
    assert len({row["key"] for row in json.loads(run("paper", "--dry-run", "--json")[1])}) > 400


def test_each_table_of_the_paper_gives_the_wanted_cells_that_it_has():
    code, out, _ = run(
        "paper", "--dry-run", "--only", "task=normal_var,point_cloud", "--only", "depth=3,50", "--seeds", "0", "--json"
    )
    keys = {row["key"] for row in json.loads(out)}
    assert code == 0
    for name, only in {
        "main_results": {"task": ["point_cloud"], "depth": ["3", "50"]},  # which has no Normal Var
        "norms": {"task": ["normal_var", "point_cloud"]},
    }.items():
        cells = expand(load_recipe(name), seeds=[0], only=only)
        assert cells.runs
        assert {spec.key for spec in cells.runs} <= keys


def test_runs_that_are_timed_come_last_and_one_at_a_time(monkeypatch):
    asked = []

    def note(runs, store, *, jobs, **_):
        asked.append(({spec.key for spec in runs}, jobs))
        return Summary(failed={"one": "it was tried"} if jobs > 1 else {})

    monkeypatch.setattr(paper, "do_runs", note)
    code, _, err = run("paper", "--jobs", "4")
    (together, several), (alone, one) = asked
    assert (several, one) == (4, 1)
    assert alone == {spec.key for spec in expand(load_recipe("cost")).runs}
    assert together.isdisjoint(alone)
    assert (code, "one failed: it was tried" in err) == (1, True)


def test_a_table_of_times_is_done_one_run_at_a_time(small, monkeypatch):
    small.write_text(SMALL + '[metrics]\nnormal_var = ["mse", "step_seconds"]\n')
    asked = []
    monkeypatch.setattr("orderless.cli.table.do_runs", lambda runs, store, *, jobs, **_: asked.append(jobs) or Summary())
    assert "shows how long runs take, so they are done one at a time" in run(small, "--jobs", "2")[2]
    assert asked == [1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--quick"], "--quick shrinks one table at a time"),
        (["--only", "task=nothing"], "no table or figure of the paper has the task 'nothing'."),
        (["--only", "task=normal_var,point_clod"], "has the task 'point_clod'. Did you mean 'point_cloud'?"),
        (["--only", "model=pointnet++", "--only", "task=normal_var"], "has all of model=pointnet++ task=normal_var."),
        (["--only", "model=deep_sets", "--only", "depth=16"], "main_results has no cell with model=deep_sets depth=16"),
        (["--only", "layers=3"], "the paper's tables have no axis 'layers'. Axes: model, depth, task,"),
        (["--seeds", "0,7"], "the page shows the seeds 0, 1, 2, and no others; got --seeds 0,7."),
        (["--jobs", "0"], "--jobs must be 1 or more"),
    ],
)
def test_what_the_whole_paper_cannot_do_is_wrong_usage(options, said):
    code, _, err = run("paper", *options)
    assert code == 2
    assert said in err
    assert not Path("results").exists()
