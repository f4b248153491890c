"""One run from its description to its result."""

import itertools
import json
import re
import subprocess

import pytest
import torch
from small_runs import CPU, weights

import orderless as ol
from orderless.evaluate import bootstrap_mean
from orderless.experiments import run as running
from orderless.experiments.run import build_model, execute, open_data, read_result, read_spec
from orderless.experiments.spec import make_spec
from orderless.files import is_leftover
from orderless.io.errors import DataError
from orderless.train import Execution, History

SMALL = {"num_train": 64, "num_test": 32, "set_size": 8}
NETWORK = {"depth": 4, "width": 8, "epochs": 2, "batch_size": 16, "learning_rate": 1e-3}


def small_spec(task="normal_var@exact", model="deep_sets++", **options):
    return make_spec(task, model, {**SMALL, **({} if model.startswith("baseline:") else NETWORK), **options})


def by_elements(number):
    options = {name: value for name, value in {**SMALL, **NETWORK}.items() if name != "batch_size"}
    return make_spec("normal_var@exact", "deep_sets++", {**options, "batch_elements": number, "epochs": 1})


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def do(cache):
    def do(spec, folder, **options):
        return execute(spec, folder, **({"execution": CPU, "cache_dir": cache} | options))

    return do


@pytest.fixture(scope="module")
def finished(cache, tmp_path_factory):
    """A run that is done: its folder and its line."""
    folder = tmp_path_factory.mktemp("runs") / "one"
    return folder, execute(small_spec(), folder, execution=CPU, cache_dir=cache)


def strict(path):
    """JSON without NaN and Infinity, which other languages do not read."""
    return json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(f"{path.name} has {name}"))


class StoppedError(Exception):
    pass


def stop_at(number):
    def progress(*, step, **_):
        if step == number:
            raise StoppedError

    return progress


# ------------------------------------------------------------------------------------------------------- what a run leaves


def test_a_run_leaves_its_configuration_its_result_and_the_network(finished):
    folder, line = finished
    assert strict(folder / "result.json") == line == read_result(folder)
    config = strict(folder / "config.json")
    assert config["spec"] == small_spec().to_json()
    assert config["execution"]["device"] == "cpu"
    assert config["title"] == line["title"]
    assert read_spec(folder) == small_spec()
    assert {path.name for path in folder.iterdir()} == {
        "config.json", "result.json", "model.safetensors", "history.json", "epochs.csv", "steps.csv", "checkpoints",
    }  # fmt: skip


def test_the_network_that_is_kept_gives_the_figure_that_is_recorded(finished, cache):
    folder, line = finished
    data = open_data(small_spec(), cache_dir=cache)
    model = ol.load_model(folder / "model.safetensors").eval()
    batch = data.test[:]
    errors = (model(batch.sets).detach().double() - batch.target).square()[:, 0]
    assert line["metrics"] == {"mse": pytest.approx(errors.mean().item(), rel=1e-5)}
    interval = bootstrap_mean(errors)
    assert line["intervals"]["mse"] == pytest.approx([interval.low, interval.high], rel=1e-5)
    assert line["intervals"]["mse"][0] < line["metrics"]["mse"] < line["intervals"]["mse"][1]


def test_the_line_has_every_field(finished):
    _, line = finished
    assert set(line) == {
        "key", "spec", "title", "status", "message", "metrics", "intervals", "released", "epochs", "steps", "layers",
        "num_parameters", "num_train", "num_test", "seconds", "step_seconds", "peak_memory_mib", "hardware", "versions",
        "commit", "finished",
    }  # fmt: skip


def test_the_line_says_what_was_run(finished, cache):
    _, line = finished
    spec = small_spec()
    assert (line["key"], line["spec"], line["status"], line["message"]) == (spec.key, spec.to_json(), "finished", None)
    assert line["title"] == open_data(spec, cache_dir=cache).title
    assert (line["num_train"], line["num_test"], line["released"], line["peak_memory_mib"]) == (64, 32, None, None)
    model = build_model(spec, open_data(spec, cache_dir=cache))
    assert line["num_parameters"] == sum(p.numel() for p in model.parameters())


def test_the_line_says_what_happened(finished):
    folder, line = finished
    history = History.read(folder)
    for written, happened in zip(line["epochs"] + line["steps"], history.epochs + history.steps, strict=True):
        assert {name: value and pytest.approx(value, rel=1e-5) for name, value in happened.items()} == written
    assert [row["epoch"] for row in line["epochs"]] == [0, 1, 2]
    assert line["epochs"][-1]["test_mse"] == pytest.approx(line["metrics"]["mse"], rel=1e-5)
    assert {"step", "train_loss", "learning_rate", "gradient_norm", "seconds", "sets_per_second"} <= set(line["epochs"][1])
    assert [row["step"] for row in line["steps"]] == list(range(1, 9))
    assert line["seconds"] >= sum(row["seconds"] for row in line["epochs"][1:])
    step_seconds = [row["step_seconds"] for row in line["epochs"][1:]]
    assert min(step_seconds) <= line["step_seconds"] <= max(step_seconds)


def test_the_line_says_how_large_gradients_and_activations_were(finished):
    _, line = finished
    layers = line["layers"]
    assert [(moment["epoch"], moment["step"]) for moment in layers["moments"]] == [(0, 0), (1, 4), (2, 8)]
    for moment in layers["moments"]:
        assert len(moment["gradient"]) == len(moment["activation"]) == len(layers["names"])
        assert all(value > 0 for value in moment["activation"])
    assert layers["moments"][0]["gradient"] != layers["moments"][-1]["gradient"]


def test_the_line_says_where_it_was_computed(finished):
    _, line = finished
    assert line["hardware"]["device"].endswith("CPU")
    assert {"cpus", "num_devices", "threads", "compile", "cuda_graphs"} <= set(line["hardware"])
    assert line["versions"]["orderless"] == ol.__version__
    assert line["versions"]["torch"] == torch.__version__
    assert {"python", "numpy"} <= set(line["versions"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", line["finished"])


def test_classes_have_two_metrics(do, tmp_path):
    line = do(small_spec("point_cloud@shapes", "deep_sets", depth=2, epochs=1), tmp_path / "run")
    assert set(line["metrics"]) == set(line["intervals"]) == {"cross_entropy", "accuracy"}
    assert 0 <= line["metrics"]["accuracy"] <= 1


def test_the_released_protocol_has_figures_of_its_own(do, tmp_path):
    line = do(small_spec(protocol="released", norm="batch"), tmp_path / "run")
    assert set(line["released"]) == {"mse"}
    assert line["released"]["mse"] != pytest.approx(line["metrics"]["mse"], rel=1e-3)


def test_the_moving_average_is_what_is_kept(do, tmp_path, cache):
    spec = small_spec(ema_decay=0.9)
    line = do(spec, tmp_path / "run")
    batch = open_data(spec, cache_dir=cache).test[:]
    model = ol.load_model(tmp_path / "run" / "model.safetensors").eval()
    error = (model(batch.sets).detach() - batch.target).square().mean().item()
    assert line["metrics"]["mse"] == pytest.approx(error, rel=1e-5)


def test_the_default_training_keeps_a_network_that_standardises(do, tmp_path, cache):
    spec = small_spec(training="default", epochs=1)
    line = do(spec, tmp_path / "run")
    assert line["status"] == "finished"
    assert read_spec(tmp_path / "run") == spec
    data = open_data(spec, cache_dir=cache)
    model = ol.load_model(tmp_path / "run" / "model.safetensors").eval()
    assert type(model.featurizer) is ol.nn.Standardizer
    fresh = build_model(spec, data).featurizer
    assert torch.equal(model.featurizer.mean, fresh.mean)  # as they were: nothing learns or averages them
    assert torch.equal(model.featurizer.spread, fresh.spread)
    batch = data.test[:]
    error = (model(batch.sets).detach().double() - batch.target).square().mean().item()
    assert line["metrics"]["mse"] == pytest.approx(error, rel=1e-5)


# ------------------------------------------------------------------------------------------------------- data and weights


def test_the_seed_of_the_data_is_not_the_seed_of_the_weights(cache):
    plain, other_data, other_weights = (small_spec(**change) for change in ({}, {"data_seed": 1}, {"seed": 1}))
    first, second, third = (open_data(spec, cache_dir=cache).train[0][0] for spec in (plain, other_data, other_weights))
    assert not torch.equal(first, second)
    assert torch.equal(first, third)
    data = open_data(plain, cache_dir=cache)
    assert torch.equal(weights(build_model(plain, data)), weights(build_model(other_data, data)))
    assert not torch.equal(weights(build_model(plain, data)), weights(build_model(other_weights, data)))


def test_data_that_are_open_already_are_used(do, tmp_path, cache, monkeypatch):
    data = open_data(small_spec(), cache_dir=cache)
    monkeypatch.setattr(running, "load_task", lambda *_, **__: pytest.fail("the task was opened again"))
    assert do(small_spec(epochs=1), tmp_path / "run", data=data)["status"] == "finished"


# ------------------------------------------------------------------------------------------------------- stopping and going on


def test_a_finished_run_is_only_read(finished, do):
    folder, line = finished
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert do(small_spec(), folder, progress=lambda **_: pytest.fail("it trains again")) == line
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


@pytest.mark.parametrize("content", ["[]", "null", "{}", '{"key": 1, "status": "finished"}'])
def test_a_result_of_something_else_is_not_taken_for_that_of_the_run(do, tmp_path, content):
    folder = tmp_path / "run"
    do(small_spec(epochs=1), folder)
    (folder / "result.json").write_text(content)
    with pytest.raises(DataError, match=r"expected the result of a run, found something without '.*'\. Remove .*result\.json"):
        do(small_spec(epochs=1), folder)


def test_a_run_that_was_stopped_goes_on_to_the_same_weights(finished, do, tmp_path):
    whole, line = finished
    folder = tmp_path / "run"
    with pytest.raises(StoppedError):
        do(small_spec(), folder, progress=stop_at(5))
    assert not (folder / "result.json").exists()
    assert not (folder / "model.safetensors").exists()
    torch.manual_seed(1234)
    steps = []
    resumed = do(small_spec(), folder, progress=lambda *, step, **_: steps.append(step))
    assert steps[0] in (5, 6)  # the fifth step may or may not have been kept
    ours, theirs = (ol.load_model(path / "model.safetensors") for path in (folder, whole))
    assert torch.equal(weights(ours), weights(theirs))
    for name in ("key", "metrics", "intervals", "steps", "layers", "num_parameters"):
        assert resumed[name] == line[name], name


def test_another_run_in_the_folder_is_an_error_that_says_what_differs(finished, do):
    folder, _ = finished
    with pytest.raises(ValueError, match="holds another run") as caught:
        do(small_spec(learning_rate=0.5, norm="layer", num_train=65), folder)
    for said in (
        "learning_rate was 0.001 and is 0.5",
        "norm was 'set' and is 'layer'",
        "num_train was 64 and is 65",
        "Choose another folder (--out)",
    ):
        assert said in str(caught.value)
    assert "epochs" not in str(caught.value)


def test_a_run_is_not_gone_on_with_where_that_was_not_asked_for(finished, do):
    folder, _ = finished
    with pytest.raises(ValueError, match=r"already holds a run. Resume it \(--resume\), or choose another folder \(--out\)"):
        do(small_spec(), folder, resume=False)


def test_a_run_that_failed_before_its_first_step_is_in_nobodys_way(do, tmp_path, cache):
    """A slip in the settings, say: the corrected command shall not have to be told to resume."""
    folder = tmp_path / "run"
    with pytest.raises(ValueError, match="batch_elements must be at least the size of the largest set"):
        do(by_elements(3), folder, resume=False)
    assert do(by_elements(80), folder, resume=False)["status"] == "finished"
    assert read_spec(folder).train.batch_elements == 80


def test_what_a_kill_before_the_first_checkpoint_left_is_removed(do, tmp_path):
    folder = tmp_path / "run"
    for name in (".config.json.0a1b2c3d", "checkpoints/.step-0000000000.ckpt.0a1b2c3d"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"half")
    do(small_spec(epochs=1), folder)
    assert [path for path in folder.rglob(".*") if is_leftover(path)] == []


@pytest.mark.parametrize("content", ['{"a": 1}', "{", '{"spec": {"task": "x", "train": {"epochs": 0}}}'])
def test_a_configuration_of_something_else_is_not_overwritten(do, tmp_path, content):
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(DataError, match="expected a run as this version writes it"):
        do(small_spec(), tmp_path)
    assert path.read_text() == content


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_an_error_before_anything_is_written(do, tmp_path):
    with pytest.raises(ValueError, match="device cuda was asked for"):
        do(small_spec(), tmp_path / "run", execution=Execution(device="cuda"))
    assert not (tmp_path / "run").exists()


# ------------------------------------------------------------------------------------------------------- diverging


def test_a_run_that_diverges_has_a_line_that_says_so(do, tmp_path):
    folder = tmp_path / "run"
    spec = small_spec(model="set_transformer", depth=2, learning_rate=1e18, epochs=20)
    line = do(spec, folder)
    assert line["status"] == "diverged"
    assert re.match(r"training stopped at step \d+: (the output|the loss|the gradient)", line["message"])
    assert f"`orderless diagnose {folder}`" in line["message"]
    assert (line["metrics"], line["intervals"], line["released"]) == ({}, {}, None)
    assert strict(folder / "result.json") == line
    strict(folder / "history.json")
    step = int(re.search(r"step (\d+)", line["message"])[1])
    assert line["steps"][-1]["step"] == step
    assert line["steps"][-1]["loss"] is None or line["steps"][-1]["gradient_norm"] is None
    assert line["layers"]["moments"][0]["epoch"] == 0
    assert not (folder / "model.safetensors").exists()
    assert do(spec, folder, progress=lambda **_: pytest.fail("it trains again")) == line


def test_weights_that_break_in_the_last_step_are_a_divergence_too(do, tmp_path):
    """The loss of the only step is finite, and what it leads to is not."""
    folder = tmp_path / "run"
    line = do(small_spec(model="set_transformer", depth=2, learning_rate=1e38, epochs=1, batch_size=64), folder)
    assert line["status"] == "diverged"
    assert "training ended, but the mse on the test sets is not finite" in line["message"]
    assert f"`orderless diagnose {folder}`" in line["message"]
    assert (line["metrics"], line["intervals"]) == ({}, {})
    assert line["seconds"] > 0
    assert strict(folder / "result.json") == line
    strict(folder / "history.json")


# ------------------------------------------------------------------------------------------------------- baselines


def test_a_baseline_has_a_figure_and_no_training(do, tmp_path):
    folder = tmp_path / "run"
    line = do(small_spec(model="baseline:moments"), folder)
    assert (line["status"], line["epochs"], line["steps"], line["layers"]) == ("finished", [], [], None)
    assert (line["num_parameters"], line["step_seconds"], line["peak_memory_mib"]) == (None, None, None)
    low, high = line["intervals"]["mse"]
    assert low <= line["metrics"]["mse"] <= high
    assert line["seconds"] > 0
    assert strict(folder / "result.json") == line
    assert {path.name for path in folder.iterdir()} == {"config.json", "result.json"}
    constant = do(small_spec(model="baseline:constant"), tmp_path / "constant")
    assert line["metrics"]["mse"] < constant["metrics"]["mse"]


def test_a_baselines_settings_of_training_make_no_other_run(do, tmp_path):
    line = do(small_spec(model="baseline:constant", epochs=1), tmp_path)
    assert do(small_spec(model="baseline:constant", epochs=7), tmp_path) == line


def test_a_baseline_that_does_not_apply_is_an_error(do, tmp_path):
    with pytest.raises(ValueError, match="rdw does not apply to normal_var@exact: the data have no volume of red cells"):
        do(small_spec(model="baseline:rdw"), tmp_path / "run")
    assert not (tmp_path / "run" / "result.json").exists()


# ------------------------------------------------------------------------------------------------------- the rest of a line


@pytest.mark.parametrize("count", [0, 1, 199, 200, 201, 500, 12345])
def test_thinned_rows_begin_and_end_as_all_do(count):
    rows = list(range(count))
    kept = running._thinned(rows, 200)
    assert len(kept) == min(count, 200)
    assert kept == sorted(set(kept))
    if count:
        assert (kept[0], kept[-1]) == (0, count - 1)
        assert max((b - a for a, b in itertools.pairwise(kept)), default=0) <= -(-count // 199)


def test_a_long_run_has_a_line_of_bounded_size(do, tmp_path, monkeypatch):
    monkeypatch.setattr(running, "_MOST_STEPS", 5)
    monkeypatch.setattr(running, "_MOST_MOMENTS", 3)
    line = do(small_spec(epochs=6), tmp_path / "run")
    assert [row["step"] for row in line["steps"]] == [1, 7, 13, 18, 24]
    assert [moment["epoch"] for moment in line["layers"]["moments"]] == [0, 3, 6]
    assert len(line["epochs"]) == 7


def no_git(*_, **__):
    raise FileNotFoundError("git")


def slow_git(command, **_):
    raise subprocess.TimeoutExpired(command, 10)


def git_outside_a_repository(command, **_):
    return subprocess.CompletedProcess(command, 128, stdout="", stderr="fatal: not a git repository")


@pytest.mark.parametrize("git", [no_git, slow_git, git_outside_a_repository])
def test_without_a_repository_there_is_no_commit(do, tmp_path, monkeypatch, git):
    monkeypatch.setattr(running.subprocess, "run", git)
    line = do(small_spec(model="baseline:constant"), tmp_path)
    assert line["commit"] is None
    assert line["status"] == "finished"


def test_the_commit_is_that_of_the_source(monkeypatch):
    def git(command, *, cwd, **_):
        assert command[0] == "git"
        assert cwd == running.Path(running.__file__).parent
        return subprocess.CompletedProcess(command, 0, stdout="abc1234+\n", stderr="")

    monkeypatch.setattr(running.subprocess, "run", git)
    assert running._commit() == "abc1234+"


def test_layers_are_looked_at_in_some_epochs_of_a_long_run(do, tmp_path):
    line = do(small_spec(epochs=33), tmp_path / "run")
    seen = [row["epoch"] for row in History.read(tmp_path / "run").observed["layers"]]
    assert seen == [0, 1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 33]
    assert [moment["epoch"] for moment in line["layers"]["moments"]][:: len(line["layers"]["moments"]) - 1] == [0, 33]


def test_rows_of_a_line_are_rounded_and_figures_are_not(finished):
    folder, line = finished
    history = History.read(folder)
    assert line["epochs"][-1]["train_loss"] == float(f"{history.epochs[-1]['train_loss']:.6g}")
    assert line["steps"][-1]["loss"] == float(f"{history.steps[-1]['loss']:.6g}")
    assert line["metrics"]["mse"] == history.epochs[-1]["test_mse"]
