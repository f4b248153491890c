"""`orderless diagnose`, as typed in a shell (`diagnose.py`)."""

import json

import pytest
from typer.testing import CliRunner

import orderless as ol
from orderless.cli.app import app
from orderless.train import History

SMALL = ["--set", "num_train=4", "--set", "set_size=10"]


@pytest.fixture(autouse=True)
def own_folders(monkeypatch, tmp_path):
    monkeypatch.delenv("ORDERLESS_DATA", raising=False)
    monkeypatch.setenv("ORDERLESS_CACHE", str(tmp_path / "cache"))


def run(*arguments):
    result = CliRunner().invoke(app, ["diagnose", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def as_json(*arguments):
    code, out, err = run(*arguments, "--json")
    assert code == 0, err
    return json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


# --------------------------------------------------------------------------------------------------- networks


def test_deep_sets_of_fifty_layers_vanishes():
    code, out, _ = run("deep_sets", "--set", "depth=50", *SMALL)
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == "deep_sets 50, with fresh weights, on 4 sets of Normal Var (drawn from a normal distribution)"
    assert lines[1].startswith("deep_sets(1 -> 1, depth=50, width=128, norm=none")
    assert lines[2].split() == ["layer", "gradient", "activation"]
    assert [line.split()[0] for line in lines[3:15]] == [*(f"encoder.{n}" for n in range(0, 51, 5)), "decoder.6"]
    assert lines[15] == "(12 of 56 layers; --all lists every one.)"
    assert lines[16].startswith("VANISHING: the gradient of the first layer, encoder.0, is ")


def test_all_lists_every_layer():
    _, out, _ = run("deep_sets++", "--set", "depth=50", "--all", *SMALL)
    lines = out.splitlines()
    assert len(lines) == 2 + 1 + 32 + 1
    assert "layers;" not in out
    assert lines[-1].startswith("HEALTHY: ")


def test_layer_norm_collapse_is_said():
    _, out, _ = run("deep_sets", "--set", "norm=layer", *SMALL)
    assert "COLLAPSE: encoder.0.norm makes " in out
    _, out, _ = run("deep_sets", "--set", "norm=set", *SMALL)
    assert "COLLAPSE" not in out


def test_everything_comes_as_json():
    found = as_json("deep_sets", "--set", "depth=25", "--set", "norm=layer", *SMALL)
    assert found["what"] == "deep_sets"
    assert found["verdict"] == "healthy"
    assert found["status"] is None
    assert "norm=layer" in found["network"]
    assert found["collapse"].startswith("encoder.0.norm makes")
    assert set(found["merged"]) == {f"encoder.{n}.norm" for n in range(25)}
    (moment,) = found["moments"]
    assert len(moment["gradient"]) == len(moment["activation"]) == len(found["names"]) == 30
    assert (moment["step"], moment["verdict"]) == (0, "healthy")


def test_what_is_not_finite_is_strict_json():
    found = as_json("deep_sets++", "--set", "depth=50", "--set", "residual=sum", "--set", "num_train=2")
    assert found["verdict"] == "exploding"
    assert "nan" in found["moments"][0]["gradient"]


def test_the_seed_decides_the_weights():
    first, same, other = (as_json("deep_sets", "--set", f"seed={seed}", *SMALL)["moments"] for seed in (1, 1, 2))
    assert first == same
    assert first != other


def test_another_task_and_its_options():
    code, out, err = run("set_transformer", "--task", "point_cloud@shapes", "--set", "depth=1", "--set", "num_train=2",
                         "--set", "set_size=30")  # fmt: skip
    assert code == 0
    assert "on 2 sets of Point Cloud (simulated" in out
    assert "These are simulated data" in err


def test_a_saved_network_is_read_with_its_weights(tmp_path):
    model = ol.create_model("deep_sets", 1, 1, depth=2, width=8)
    model.encoder[0].fc.weight.data.mul_(1000)
    ol.save_model(model.eval(), tmp_path / "m.safetensors")
    found = as_json(tmp_path / "m.safetensors", "--task", "normal_var", *SMALL)
    assert found["moments"][0]["activation"][0] > 100
    assert "as saved" in found["title"]


# --------------------------------------------------------------------------------------------------- runs

NAMES = ["encoder.0", "encoder.1", "decoder.0"]


def moment(epoch, gradient):
    return {"step": 10 * epoch, "epoch": epoch, "names": NAMES, "gradient": gradient, "activation": [1.0, 0.5, 2.0]}


def write_run(folder, moments, *, steps=(), result=None):
    folder.mkdir()
    spec = {"task": "normal_var@exact", "model": "deep_sets", "model_options": {"depth": 2}}
    (folder / "config.json").write_text(json.dumps({"spec": spec, "title": "Normal Var"}))
    History([], list(steps), {"layers": moments} if moments else {}).write(folder)
    if result is not None:
        (folder / "result.json").write_text(json.dumps(result))
    return folder


def test_a_finished_run_is_judged_at_its_end(tmp_path):
    folder = write_run(tmp_path / "run", [moment(0, [1.0] * 3), moment(3, [1e-9, 1.0, 1.0])], result={"status": "finished"})
    code, out, _ = run(folder)
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == "deep_sets 2 on Normal Var: finished, read up to 3 epochs"
    assert lines[2].split() == ["encoder.0", "1.0e+00", "1.0e-09", "1.0e+00", "1.0e+00"]
    assert lines[-1].startswith("VANISHING: after epoch 3, the gradient of the first layer")
    assert lines[-1].endswith("(before training it was healthy).")


def test_a_run_that_is_not_finished_is_read_as_far_as_it_is(tmp_path):
    folder = write_run(tmp_path / "run", [moment(0, [1.0] * 3), moment(1, [1.0] * 3)])
    code, out, _ = run(folder)
    assert code == 0
    assert out.startswith("deep_sets 2 on Normal Var: not finished, read up to 1 epoch\n")
    assert "HEALTHY: " in out


def test_nothing_is_claimed_of_how_a_run_of_train_model_ended(tmp_path):
    """It leaves its history alone: neither a configuration nor a result, whether it came to its end or not."""
    folder = write_run(tmp_path / "run", [moment(0, [1.0] * 3), moment(3, [1.0] * 3)])
    (folder / "config.json").unlink()
    code, out, _ = run(folder, "--out", tmp_path / "a.png")
    assert code == 0
    assert out.startswith("run: read up to 3 epochs\n")
    assert as_json(folder)["status"] is None


def test_a_run_that_diverged_exploded(tmp_path):
    steps = [{"step": 1, "loss": 3.0, "gradient_norm": 1.0}, {"step": 2, "loss": None, "gradient_norm": None}]
    result = {"status": "diverged", "message": "training stopped at step 2: the loss became NaN."}
    folder = write_run(tmp_path / "run", [moment(0, [1.0] * 3)], steps=steps, result=result)
    code, out, _ = run(folder)
    assert code == 0
    assert "The run stopped: training stopped at step 2: the loss became NaN." in out
    assert out.splitlines()[-1] == "EXPLODING: at step 2, the loss or its gradient was not finite."


def test_a_run_as_json_has_every_moment_with_its_verdict(tmp_path):
    folder = write_run(tmp_path / "run", [moment(0, [1.0] * 3), moment(1, ["nan", 1.0, None])], result={"status": "finished"})
    found = as_json(folder)
    assert [m["verdict"] for m in found["moments"]] == ["healthy", "exploding"]
    assert found["moments"][1]["gradient"] == ["nan", 1.0, None]
    assert (found["status"], found["verdict"], found["names"]) == ("finished", "exploding", NAMES)


def test_readings_stay_with_their_layers_where_a_moment_has_another_order(tmp_path):
    """A network that leaves out layers at random runs others each time; those that did not run come last."""
    without = {**moment(0, [3.0, 7.0, None]), "names": ["encoder.0", "decoder.0", "encoder.1"], "activation": [1.0, 4.0, None]}
    folder = write_run(tmp_path / "run", [without, moment(1, [3.0, 5.0, 7.0])])
    lines = run(folder)[1].splitlines()
    assert [line.split() for line in lines[2:5]] == [
        ["encoder.0", "3.0e+00", "3.0e+00", "1.0e+00", "1.0e+00"],
        ["encoder.1", "5.0e+00", "5.0e-01"],
        ["decoder.0", "7.0e+00", "7.0e+00", "4.0e+00", "2.0e+00"],
    ]
    found = as_json(folder)
    assert found["names"] == NAMES
    assert [m["gradient"] for m in found["moments"]] == [[3.0, None, 7.0], [3.0, 5.0, 7.0]]
    assert "of decoder.0, the largest (3 against 7)" in found["moments"][0]["evidence"]


def test_a_real_run_is_diagnosed(tmp_path):
    options = ["--model", "deep_sets", "--set", "depth=3", "--set", "epochs=2", *SMALL, "--set", "num_test=2"]
    trained = CliRunner().invoke(app, ["train", "normal_var", *options, "--out", str(tmp_path / "run"), "--device", "cpu"])
    assert trained.exit_code == 0, trained.stderr
    found = as_json(tmp_path / "run")
    assert [m["epoch"] for m in found["moments"]] == [0, 1, 2]
    assert found["verdict"] == "healthy"
    assert found["title"].startswith("deep_sets 3 on Normal Var")
    assert run(tmp_path / "run" / "model.safetensors", "--task", "normal_var", *SMALL)[0] == 0


# --------------------------------------------------------------------------------------------------- pictures


def test_a_picture_is_drawn_only_when_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, out, _ = run("deep_sets", *SMALL)
    assert "Drawn" not in out
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]
    _, out, _ = run("deep_sets", "--out", "a.svg", *SMALL)
    assert out.endswith("Drawn to a.svg.\n")
    assert b"<svg" in (tmp_path / "a.svg").read_bytes()


def test_a_run_is_drawn_and_json_says_where(tmp_path):
    folder = write_run(tmp_path / "run", [moment(0, [1.0] * 3), moment(1, [1.0] * 3)])
    found = as_json(folder, "--out", tmp_path / "a.png")
    assert found["picture"] == str(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


# --------------------------------------------------------------------------------------------------- wrong usage


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["deep_set"], "neither the folder of a run, nor a .safetensors file, nor a network of deep_sets, "),
        (["deep_set"], "Did you mean 'deep_sets'?"),
        (["nowhere/run"], "neither the folder of a run"),
        (["m.safetensors"], "name a task to try m.safetensors on"),
        (["m.safetensors", "--task", "normal_var"], "no model file at m.safetensors"),
        (["deep_sets", "--task", "normal_vra"], "Did you mean 'normal_var'?"),
        (["deep_sets", "--set", "depht=50"], "Did you mean 'depth'?"),
        (["deep_sets", "--set", "depth"], "expected key=value"),
        (["deep_sets", "--set", "epochs=3"], "epochs would change nothing"),
        (["deep_sets", "--set", "training=default"], "training would change nothing"),
        (["deep_sets", "--set", "num_test=3"], "num_test would change nothing"),
        (["deep_sets", "--set", "num_train=0"], "num_train must be 1 or more"),
        (["deep_sets", "--out", "a.gif"], "ends in .png, .svg, .pdf"),
        (["deep_sets", "--out", "nowhere/a.png"], "there is no folder nowhere"),
    ],
)
def test_wrong_usage_is_said_in_a_sentence(arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("orderless: ")
    assert said in err
    assert not (tmp_path / "cache").exists()


def test_options_that_do_not_fit_a_network_are_told():
    code, _, err = run("deep_sets", "--set", "residual=clean", *SMALL)
    assert code == 2
    assert "residual='clean' does not fit deep_sets" in err


def test_a_saved_network_has_its_options_already(tmp_path):
    ol.save_model(ol.create_model("deep_sets", 1, 1, depth=2, width=8), tmp_path / "m.safetensors")
    code, _, err = run(tmp_path / "m.safetensors", "--task", "normal_var", "--set", "depth=3")
    assert code == 2
    assert "has its depth already" in err


def test_a_saved_network_that_does_not_fit_the_task_is_told(tmp_path):
    ol.save_model(ol.create_model("deep_sets", 7, 1, depth=2, width=8), tmp_path / "m.safetensors")
    code, _, err = run(tmp_path / "m.safetensors", "--task", "normal_var", *SMALL)
    assert code == 2
    assert "in_features=7" in err


def test_a_run_needs_no_task(tmp_path):
    folder = write_run(tmp_path / "run", [moment(0, [1.0] * 3)])
    for extra in (["--task", "normal_var"], ["--set", "depth=3"], ["--data-dir", tmp_path], ["--cache-dir", tmp_path]):
        code, _, err = run(folder, *extra)
        assert (code, err) == (2, f"orderless: {folder} is a run, which says all of this itself: leave out {extra[0]}.\n")


def test_a_run_of_which_nothing_was_read_says_so(tmp_path):
    code, _, err = run(write_run(tmp_path / "run", []))
    assert code == 2
    assert "has recorded nothing of its layers" in err


def test_a_folder_that_is_no_run_says_so(tmp_path):
    code, _, err = run(tmp_path)
    assert code == 2
    assert "has no history.json" in err


@pytest.mark.parametrize("content", ["{", '{"unknown": 1}', "[]"])
def test_a_damaged_history_is_told(tmp_path, content):
    folder = write_run(tmp_path / "run", [moment(0, [1.0] * 3)])
    (folder / "history.json").write_text(content)
    code, _, err = run(folder)
    assert code == 1
    assert "history.json is damaged" in err


@pytest.mark.parametrize("name", ["config.json", "result.json"])
@pytest.mark.parametrize("content", ["[]", "null"])
def test_a_file_of_a_run_that_holds_something_else_is_told(tmp_path, name, content):
    folder = write_run(tmp_path / "run", [moment(0, [1.0] * 3)])
    (folder / name).write_text(content)
    code, _, err = run(folder)
    assert code == 1
    assert f"{name} is damaged: expected a JSON object, found" in err


def test_help_has_an_example():
    code, out, _ = run("--help")
    assert code == 0
    assert "Example: orderless diagnose" in out


def test_no_progress_is_shown_where_there_is_no_terminal():
    code, out, err = run("deep_sets", *SMALL)
    assert (code, err) == (0, "")
    assert "\x1b" not in out
