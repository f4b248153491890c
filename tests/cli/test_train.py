"""`orderless train`, as typed in a shell (`train.py`)."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
import torch
from small_runs import weights
from typer.testing import CliRunner

import orderless as ol
from orderless.cli.app import app
from orderless.train import progress as bars
from orderless.train import tracking

SMALL = [
    "--device", "cpu", "--set", "num_train=64", "--set", "num_test=32", "--set", "set_size=8", "--set", "width=8",
    "--set", "depth=4", "--set", "epochs=2", "--set", "batch_size=16", "--set", "learning_rate=1e-3",
]  # fmt: skip


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_folders(monkeypatch, tmp_path, cache):
    monkeypatch.delenv("ORDERLESS_DATA", raising=False)
    monkeypatch.setenv("ORDERLESS_CACHE", str(cache))
    monkeypatch.chdir(tmp_path)


def run(*arguments):
    done = CliRunner().invoke(app, ["train", *map(str, arguments)])
    return done.exit_code, done.stdout, done.stderr


def stop_at(monkeypatch, number, error):
    """Lets the run come to a step, and then raises this."""

    def told(self, *, step, **_):
        if step == number:
            raise error

    monkeypatch.setattr(bars.ProgressBar, "__call__", told)


def without(*names):
    """The small settings, but for these."""
    pairs = zip(SMALL[::2], SMALL[1::2], strict=True)
    return [word for pair in pairs if pair[1].partition("=")[0] not in names for word in pair]


def test_a_run_tells_its_data_its_figure_with_an_interval_and_its_folder(tmp_path):
    code, out, err = run("normal_var", *SMALL, "--out", "here")
    assert (code, err) == (0, "")
    first, figure, *_, last = out.splitlines()
    assert re.fullmatch(r"Normal Var \(.*\): 64 training and 32 test sets of 8 elements \(\d\)", first)
    value, low, high = map(
        float, re.match(r"mse ([\d.e-]+) \[([\d.e-]+), ([\d.e-]+)\] on 32 test sets, after \d+ s", figure).groups()
    )
    assert low < value < high
    assert last == "here holds everything; `orderless report here` makes a page of it."
    line = json.loads((tmp_path / "here" / "result.json").read_text())
    assert line["metrics"]["mse"] == pytest.approx(value, rel=5e-4)  # four digits are printed
    assert (tmp_path / "here" / "model.safetensors").exists()
    assert [path.name for path in (tmp_path / "here").glob(".*")] == [".lock"]  # nothing of the test whether it can be written to


def test_without_a_folder_the_run_has_one_of_its_own(tmp_path):
    code, out, _ = run("normal_var", *SMALL, "--seed", 3)
    assert code == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("normal_var-exact-deep_setspp-4-s3-")
    assert f"runs/{folder.name} holds everything" in out
    assert run("normal_var", *SMALL, "--seed", 4)[0] == 0
    assert len(list((tmp_path / "runs").iterdir())) == 2


def test_json_is_the_result_line_and_nothing_else(tmp_path):
    code, out, err = run("normal_var", *SMALL, "--out", "here", "--json")
    assert (code, err) == (0, "")
    line = json.loads(out, parse_constant=pytest.fail)
    assert line == json.loads((tmp_path / "here" / "result.json").read_text())
    assert line["status"] == "finished"
    assert line["hardware"]["device"].endswith("CPU")


def test_settings_reach_the_run(tmp_path):
    code, _, err = run(
        "normal_var", "--model", "set_transformer++", *without("depth"), "--set", "depth=2", "--set", "clip_norm=1",
        "--set", "precision=bf16-mixed", "--seed", 2, "--workers", 1, "--checkpoint-seconds", 0, "--out", "here",
    )  # fmt: skip
    assert code == 0, err
    config = json.loads((tmp_path / "here" / "config.json").read_text())
    assert config["spec"]["model"] == "set_transformer++"
    assert config["spec"]["model_options"]["depth"] == 2
    assert (
        config["spec"]["train"] | {"clip_norm": 1.0, "precision": "bf16-mixed", "seed": 2, "epochs": 2} == config["spec"]["train"]
    )
    assert (config["execution"]["num_workers"], config["execution"]["checkpoint_seconds"]) == (1, 0)


def test_a_stand_in_is_called_one():
    code, out, err = run("hematocrit", *SMALL)
    assert code == 0
    assert out.startswith("Hematocrit (simulated: invented patients instead of Flow-RBC): 64 training")
    assert "hematocrit@flow_rbc" in err


def test_the_published_figure_stands_beside_ours_where_there_is_one():
    published = run("normal_var", "--model", "deep_sets", *without("depth"), "--set", "depth=50", "--set", "norm=layer")[1]
    assert re.search(r"published \(\w+\): [\d.]+ ± [\d.]+, over three seeds with the paper's settings", published)
    assert "which these data are not" not in published
    assert re.search(r"this run has others: .*epochs", published)
    assert "published" not in run("normal_var", *SMALL)[1]


def test_a_figure_that_was_published_on_other_data_is_said_to_be():
    out = run("hematocrit", "--model", "deep_sets", *without("depth"), "--set", "depth=50")[1]
    assert re.search(r"^published \(.*the paper's settings, on Flow-RBC, which these data are not$", out, re.MULTILINE)


def test_a_folder_may_begin_with_a_tilde(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    code, out, _ = run("normal_var", *SMALL, "--out=~/here")
    assert code == 0
    assert (tmp_path / "home" / "here" / "result.json").exists()
    assert f"`orderless report {tmp_path / 'home' / 'here'}`" in out


def test_the_released_protocol_is_told_apart():
    out = run("normal_var", *SMALL, "--set", "protocol=released", "--set", "norm=batch")[1]
    assert re.search(r"^by the released protocol: [\d.e-]+$", out, re.MULTILINE)


@pytest.mark.parametrize("seed", [[], ["--seed", 3], ["--set", "seed=3"]], ids=["no seed", "flag", "option"])
def test_a_baseline_can_be_run_too_and_may_have_a_seed(seed):
    settings = ["--set", "num_train=64", "--set", "set_size=8", "--device", "cpu", *seed]
    code, out, err = run("normal_var", "--model", "baseline:moments", *settings, "--out", "here")
    assert code == 0, err
    assert re.search(r"^mse [\d.e-]+ \[", out, re.MULTILINE)


def test_tensorboard_beside_the_csv_files(tmp_path):
    code, _, err = run("normal_var", *SMALL, "--out", "here", "--logger", "tensorboard")
    assert code == 0, err
    assert list((tmp_path / "here" / "tensorboard").glob("events.out.tfevents*"))
    assert (tmp_path / "here" / "epochs.csv").exists()


# ------------------------------------------------------------------------------------------------------- wrong usage


FLAGS = [
    "--compile", "--cuda-graphs", "--devices", "2", "--workers", "1", "--checkpoint-seconds", "0", "--logger", "wandb",
]  # fmt: skip
WRONG = {
    "unknown task": (["normal_vra"], "there is no task 'normal_vra'. Did you mean 'normal_var'?"),
    "unknown source": (["normal_var@celeba"], "normal_var comes from exact"),
    "no source": (["normal_var@"], "normal_var comes from exact"),
    "unknown model": (["normal_var", "--model", "deepsets"], "there is no model 'deepsets'. Did you mean 'deep_sets'?"),
    "unknown option": (["normal_var", "--set", "dept=3"], "there is no option 'dept'. Did you mean 'depth'?"),
    "half an option": (["normal_var", "--set", "depth"], "expected key=value, such as depth=50; got 'depth'"),
    "no value": (["normal_var", "--set", "depth="], "expected key=value, such as depth=50; got 'depth='"),
    "no number": (["normal_var", "--set", "epochs=many"], "epochs must be a whole number of at least 1, got 'many'"),
    "too few epochs": (["normal_var", "--set", "epochs=0"], "epochs must be a whole number of at least 1, got 0"),
    "unknown norm": (["normal_var", "--set", "norm=sett"], "norm must be one of none, layer, feature, set, batch, instance"),
    "norm that does not fit": (
        ["point_cloud", "--model", "deep_sets_pointcloud", "--set", "norm=set"],
        "norm='set' does not fit",
    ),
    "idle option": (["normal_var", "--model", "deep_sets", "--set", "num_inducing=3"], "num_inducing=3 has no effect with"),
    "no sets": (["normal_var", "--set", "num_train=0"], "num_train must be 1 or more, got 0"),
    "word for sets": (["normal_var", "--set", "num_train=few"], "num_train must be a whole number, got 'few'"),
    "too small a set": (["set_anomaly", "--set", "set_size=2"], "orderless: set_size must be 3 or more"),
    "unknown device": (["normal_var", "--device", "tpu"], "device must be auto, cpu, cuda or cuda:N; got 'tpu'"),
    "unknown logger": (["normal_var", "--logger", "paper"], "loggers must be of tensorboard, wandb, mlflow; got 'paper'"),
    "no time": (["normal_var", "--checkpoint-seconds", "-1"], "checkpoint_seconds must be 0 or more, got -1"),
    "no workers": (["normal_var", "--workers", "-1"], "num_workers must be a whole number of at least 0, got -1"),
    "two seeds": (["normal_var", "--seed", "1", "--set", "seed=2"], "the seed is given twice: --seed 1 and --set seed=2"),
    "negative seed": (["normal_var", "--seed", "-1"], "seed must be a whole number of at least 0, got -1"),
    "baseline with depth": (
        ["normal_var", "--model", "baseline:moments", "--set", "depth=3"],
        "is not a network, so it takes no option",
    ),
    "baseline with epochs": (
        ["normal_var", "--model", "baseline:moments", "--set", "epochs=3"],
        "baseline:moments is not trained, so epochs would have no effect: leave out what is about training.",
    ),
    "baseline with the paper's own rate": (
        ["normal_var", "--model", "baseline:moments", "--set", "num_train=64", "--set", "learning_rate=1e-4"],
        "baseline:moments is not trained, so learning_rate would have no effect",
    ),
    "baseline with much of training": (
        ["normal_var", "--model", "baseline:constant", "--set", "precision=bf16-mixed", *FLAGS],
        "so precision, --devices, --compile, --cuda-graphs, --workers, --checkpoint-seconds, --logger would have no effect",
    ),
    "baseline that does not apply": (
        ["normal_var", "--model", "baseline:rdw", "--set", "num_train=64"],
        "rdw does not apply to normal_var@exact",
    ),
    "too few elements for a set": (
        ["normal_var", *without("batch_size"), "--set", "batch_elements=3"],
        "batch_elements must be at least the size of the largest set",
    ),
    "nothing to resume": (["normal_var", *SMALL, "--resume", "--out", "nowhere"], "there is no run in nowhere to resume"),
}


@pytest.mark.parametrize(("arguments", "says"), WRONG.values(), ids=WRONG.keys())
def test_wrong_usage_is_one_line_that_helps(arguments, says):
    code, out, err = run(*arguments)
    assert code == 2
    assert says in err
    assert err.startswith("orderless: ")
    assert err.count("\n") == 1
    assert out == "" or "test sets of" in out  # what the data are may have been told already


def test_graphs_without_a_gpu_are_a_line_in_the_log(caplog, tmp_path):
    code, _, _ = run("normal_var", *SMALL, "--device", "cpu", "--cuda-graphs", "--out", str(tmp_path / "run"))
    assert code == 0
    assert [record.message for record in caplog.records] == [
        "CUDA graphs: training steps and tests are computed in the usual way: they need a GPU, and the device is cpu."
    ]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_a_gpu_that_is_not_there_is_wrong_usage_and_costs_nothing(device, tmp_path, monkeypatch):
    monkeypatch.setenv("ORDERLESS_CACHE", str(tmp_path / "fresh"))
    code, out, err = run("normal_var", "--device", device)
    assert (code, out) == (2, "")
    assert f"device {device} was asked for, but PyTorch sees no GPU here: ask for cpu" in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_slip_costs_no_preparation_of_data(tmp_path, monkeypatch):
    monkeypatch.setenv("ORDERLESS_CACHE", str(tmp_path / "fresh"))
    assert run("normal_var", "--set", "norm=sett")[0] == 2
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way_of_the_folder_is_wrong_usage(tmp_path):
    (tmp_path / "taken").write_text("mine")
    for out in ("taken", "taken/inside"):
        code, said, err = run("normal_var", *SMALL, "--out", out)
        assert (code, said) == (2, "")
        assert f"nothing can be written to {out}: " in err
        assert "Choose another folder (--out)" in err
        assert err.count("\n") == 1
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_library_that_is_missing_is_one_line_and_leaves_the_folder_free(monkeypatch):
    monkeypatch.setitem(tracking._NEEDS, "wandb", ("no_such_library",))
    code, _, err = run("normal_var", *SMALL, "--out", "here", "--logger", "wandb")
    assert code == 1
    assert "the logger wandb needs no_such_library; no_such_library is not installed: pip install" in err
    assert err.count("\n") == 1
    assert run("normal_var", *SMALL, "--out", "here")[0] == 0  # not in its own way


# ------------------------------------------------------------------------------------------------------- stopping and going on


def test_a_run_that_is_there_needs_resume_and_is_then_only_read(tmp_path):
    first = run("normal_var", *SMALL, "--out", "here", "--json")
    before = (tmp_path / "here" / "result.json").stat().st_mtime_ns
    code, out, err = run("normal_var", *SMALL, "--out", "here")
    assert (code, out) == (2, "")
    assert "here already holds a run. Resume it (--resume), or choose another folder (--out)." in err
    assert err.count("\n") == 1
    again = run("normal_var", *SMALL, "--out", "here", "--json", "--resume")
    assert again == first
    assert (tmp_path / "here" / "result.json").stat().st_mtime_ns == before


BROKEN = [(name, "truncated") for name in ("result.json", "history.json", "model.safetensors")]
BROKEN += [(name, "missing") for name in ("history.json", "model.safetensors")]  # without result.json a run is not finished


@pytest.mark.parametrize(("name", "how"), BROKEN, ids=map(" ".join, BROKEN))
def test_a_finished_run_with_a_broken_file_says_which_and_what_to_do(tmp_path, name, how):
    resume = ["normal_var", *SMALL, "--out", "here", "--resume"]
    run(*resume[:-1])
    path = tmp_path / "here" / name
    whole = path.read_bytes()
    path.unlink()
    if how == "truncated":
        path.write_bytes(whole[: len(whole) // 2])
    code, out, err = run(*resume)
    assert (code, err.count("\n")) == (1, 1)
    assert err.startswith(f"orderless: here/{name}: expected ")
    assert err.endswith(" Remove here/result.json and run the same command again: it writes every file again.\n")
    assert "holds everything" not in out
    (tmp_path / "here" / "result.json").unlink()
    code, out, err = run(*resume)
    assert (code, err) == (0, "")
    assert "here holds everything" in out
    assert len(path.read_bytes()) == pytest.approx(len(whole), rel=0.1)  # times differ


def test_resuming_with_other_settings_is_wrong_usage_that_says_which():
    run("normal_var", *SMALL, "--out", "here")
    code, out, err = run("normal_var", *without("learning_rate"), "--set", "norm=layer", "--out", "here", "--resume")
    assert (code, out) == (2, "")
    assert "here holds another run: learning_rate was 0.001 and is 0.0001; norm was 'set' and is 'layer'." in err
    assert err.count("\n") == 1


def test_control_c_says_what_is_kept_and_resume_goes_on_from_there(tmp_path, monkeypatch):
    code, _, _ = run("normal_var", *SMALL, "--out", "whole")
    assert code == 0
    with monkeypatch.context() as patch:
        stop_at(patch, 5, KeyboardInterrupt())
        code, _, err = run("normal_var", *SMALL, "--out", "here", "--checkpoint-seconds", 0)
    assert code == 130
    assert err == "orderless: stopped. here keeps the run up to its last checkpoint; --resume continues from there.\n"
    assert not (tmp_path / "here" / "result.json").exists()
    assert run("normal_var", *SMALL, "--out", "here")[0] == 2
    assert run("normal_var", *SMALL, "--out", "here", "--resume")[0] == 0
    ours, theirs = (ol.load_model(tmp_path / name / "model.safetensors") for name in ("here", "whole"))
    assert torch.equal(weights(ours), weights(theirs))


def test_control_c_before_the_first_checkpoint_leaves_nothing_to_resume(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("orderless.experiments.run.build_model", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        code, _, err = run("normal_var", *SMALL, "--out", "here")
    assert code == 130
    assert err == "orderless: stopped. Nothing half-finished was kept; the same command begins or resumes it.\n"
    assert run("normal_var", *SMALL, "--out", "here")[0] == 0


def test_a_full_disk_is_one_line_that_says_how_to_go_on(monkeypatch):
    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("orderless.train.checkpoint.write_bytes", full)
    code, _, err = run("normal_var", *SMALL, "--out", "here")
    assert code == 1
    assert "could not be written to here/checkpoints: No space left on device" in err
    assert "run the same command again (`orderless train` with --resume)" in err, "which is right for fit and table, too"
    assert err.count("\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL on Windows")
def test_a_run_that_was_killed_is_finished_by_resume(tmp_path):
    settings = [*without("epochs"), "--set", "epochs=8", "--checkpoint-seconds", "0"]
    command = [sys.executable, "-c", "from orderless.cli import main; main()", "train", "normal_var", *settings, "--out", "here"]
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (tmp_path / "here" / "checkpoints" / "step-0000000003.ckpt").exists():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline, "it never came to its third step"
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "here" / "result.json").exists()
    code, _, err = run("normal_var", *settings, "--out", "here", "--resume")
    assert (code, err) == (0, "")
    assert run("normal_var", *settings, "--out", "whole")[0] == 0
    ours, theirs = (ol.load_model(tmp_path / name / "model.safetensors") for name in ("here", "whole"))
    assert torch.equal(weights(ours), weights(theirs))


# ------------------------------------------------------------------------------------------------------- diverging


EXPLODING = [
    *without("depth", "learning_rate", "epochs"),
    "--model",
    "set_transformer",
    "--set",
    "learning_rate=1e18",
    "--set",
    "epochs=20",
]


def test_a_run_that_diverges_ends_in_one_line_that_points_to_diagnose():
    code, out, err = run("normal_var", *EXPLODING, "--out", "here")
    assert code == 1
    assert re.match(r"orderless: training stopped at step \d+: (the output|the loss|the gradient)", err)
    assert "`orderless diagnose here` shows the gradients of every layer" in err
    assert err.count("\n") == 1
    assert "mse" not in out


def test_a_run_that_diverges_has_a_line_as_json():
    code, out, err = run("normal_var", *EXPLODING, "--out", "here", "--json")
    line = json.loads(out, parse_constant=pytest.fail)
    assert (code, line["status"], line["metrics"]) == (1, "diverged", {})
    assert err == ""
    assert run("normal_var", *EXPLODING, "--out", "here", "--json", "--resume") == (code, out, err)


def test_the_verb_has_an_example():
    code, out, _ = run("--help")
    assert code == 0
    assert "Example: orderless train normal_var" in out
