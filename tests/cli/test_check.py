"""`orderless check` as its users meet it: verdicts, exit codes, one-line errors. Covers `app.py` and `errors.py` too."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orderless.cli import main
from orderless.cli.app import app

BROKEN = Path(__file__).parents[1] / "broken.py"


def check(*arguments):
    wide = {"COLUMNS": "400"}  # so that no line is wrapped, however long the path of this checkout is
    return CliRunner(env=wide).invoke(app, ["check", *map(str, arguments)])


def test_a_right_network_passes_with_exit_code_0():
    result = check(f"{BROKEN}:MaskedMean")
    assert result.exit_code == 0, result.output
    assert re.findall(r"^(\w+) +pass", result.output, re.M) == ["permutation", "independence", "padding", "empty"]
    assert "every property holds." in result.output
    assert "(training mode, elements of shape (3,))" in " ".join(result.output.split())  # a long path breaks the line


@pytest.mark.parametrize(
    ("factory", "rows"),
    [
        ("MeanCountsPadding", ["padding"]),
        ("ZeroesKeys", ["padding"]),
        ("BatchNormNet", ["independence"]),
    ],
)
def test_known_faults_fail_with_the_size_of_the_violation_and_exit_code_1(factory, rows):
    result = check(f"{BROKEN}:{factory}")
    assert result.exit_code == 1
    for row in rows:
        (size,) = re.findall(rf"^{row} +FAIL +([0-9.e+-]+|inf) ", result.output, re.M)
        assert float(size) > 1e-2
    assert re.search(r"\d of 4 properties do not hold", result.output)


def test_a_batch_norm_left_in_training_mode_is_told_from_one_in_eval_mode():
    assert "call .eval()" in re.sub(r"\s+", " ", check(f"{BROKEN}:BatchNormNet").output)
    result = check(f"{BROKEN}:batch_norm_in_eval_mode")
    assert result.exit_code == 0
    assert "(eval mode, " in result.output


def test_a_network_that_cannot_be_called_is_told_from_one_that_fails():
    result = check(f"{BROKEN}:MaskedMean", "--element", "4")
    assert result.exit_code == 1
    assert "nothing could be tried: --element and --takes say how" in result.output


def test_what_a_network_prints_stays_out_of_the_answer(tmp_path):
    file = tmp_path / "talks.py"
    file.write_text(
        "import orderless as ol\n"
        "def make():\n    print('loading weights ...')\n    return ol.create_model('deep_sets', 2, 1, width=8)\n"
    )
    done = subprocess.run(
        [Path(sys.executable).with_name("orderless"), "check", f"{file}:make", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert json.loads(done.stdout)["verdicts"]
    assert "loading weights" in done.stderr


def test_verdicts_can_be_read_by_a_machine():
    result = check(f"{BROKEN}:MultipliesByMask", "--json")
    answer = json.loads(result.output)
    assert result.exit_code == 1
    assert [v["property"] for v in answer["verdicts"]] == ["permutation", "independence", "padding", "empty"]
    assert answer["verdicts"][2]["violation"] == "inf"
    assert isinstance(answer["verdicts"][0]["violation"], float)


def test_instances_and_dotted_names_are_taken():
    assert check(f"{BROKEN}:instance").exit_code == 0
    dense = check("torch.nn:ReLU", "--element", "3")
    assert dense.exit_code == 0
    assert "every property that could be tried holds; 2 could not." in dense.output
    assert check("orderless.nn:SumPool", "--element", "3,2").exit_code == 0


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--skip", "empty"], 0),
        (["--skip", "padding"], 1),
        (["--dtype", "float32", "--skip", "empty"], 0),
        (["--tolerance", "1e-30", "--skip", "empty,padding"], 1),
        (["--seed", "3", "--skip", "empty"], 0),
        (["--takes", "mask", "--skip", "empty"], 0),
        (["--takes", "set_batch"], 1),
        (["--element", "4"], 1),
    ],
)
def test_every_option_does_something(options, code):
    assert check(f"{BROKEN}:NoEmptySets", *options).exit_code == code


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["broken.py"], "expected PATH:FACTORY"),
        (["nothing.py:make"], "no file nothing.py"),
        (["no.such.module:make"], "no module 'no.such.module'"),
        ([f"{BROKEN}:nothing"], "has no 'nothing'. It has"),
        ([f"{BROKEN}:MaskedMean", "--skip", "paddin"], "got 'paddin'. Did you mean 'padding'?"),
        ([f"{BROKEN}:not_callable"], "is a int; expected a function"),
        ([f"{BROKEN}:needs_arguments"], "must be callable without arguments"),
        ([f"{BROKEN}:returns_a_number"], "returned a int; expected an nn.Module"),
        ([f"{BROKEN}:MaskedMean", "--element", "a"], "--element must be whole numbers"),
        ([f"{BROKEN}:MaskedMean", "--element", "-3"], "--element must be whole numbers of at least 1"),
        ([f"{BROKEN}:MaskedMean", "--skip", "gravity"], "--skip takes permutation, independence, padding, empty"),
        ([f"{BROKEN}:MaskedMean", "--skip", "permutation,independence,padding,empty"], "leaves nothing to check"),
        ([f"{BROKEN}:MaskedMean", "--skip", ","], "--skip takes permutation, independence, padding, empty; got nothing."),
        ([f"{BROKEN}:MaskedMean", "--tolerance", "-1"], "--tolerance must be at least 0, got -1."),
        ([f"{BROKEN}:MaskedMean", "--tolerance", "nan"], "--tolerance must be at least 0, got nan."),
        (["torch.nn:ReLU"], "pass it, such as --element 3"),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_line_and_exit_code_2(arguments, message):
    result = check(*arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert result.output.startswith("orderless: ")
    assert result.output.count("\n") == 1


def test_a_featurizer_needs_the_shape_of_an_element(tmp_path):
    file = tmp_path / "with_featurizer.py"
    file.write_text(
        "import orderless as ol, torch\n"
        "def make(): return ol.create_model('deep_sets', 2, 1, width=8, featurizer=torch.nn.Linear(5, 2))\n"
    )
    assert "this network has a featurizer" in check(f"{file}:make").output
    assert check(f"{file}:make", "--element", "5").exit_code == 0


def test_a_standardizer_tells_the_shape_itself(tmp_path):
    file = tmp_path / "standardised.py"
    file.write_text(
        "import orderless as ol\n"
        "def make(): return ol.create_model('deep_sets', 2, 1, width=8, featurizer=ol.nn.Standardizer([1, 2], [3, 4]))\n"
    )
    result = check(f"{file}:make")
    assert result.exit_code == 0
    assert "elements of shape (2,)" in result.output


def test_what_goes_wrong_inside_a_factory_is_not_called_wrong_usage(tmp_path):
    file = tmp_path / "wrong.py"
    file.write_text("import torch\ndef make(): return torch.nn.Linear(3, 4, biass=True)\n")
    result = check(f"{file}:make")
    assert result.exit_code == 1
    assert "biass" in result.output
    (tmp_path / "needs.py").write_text("import a_package_that_is_not_there\n")
    result = check(f"{tmp_path / 'needs.py'}:make")
    assert result.exit_code == 1
    assert "a_package_that_is_not_there" in result.output


def test_an_unexpected_error_is_one_line_and_a_traceback_only_with_debug(tmp_path):
    file = tmp_path / "explodes.py"
    file.write_text("raise RuntimeError('boom')\n")
    result = check(f"{file}:make")
    assert (result.exit_code, result.output) == (1, "orderless: RuntimeError: boom (--debug shows the traceback)\n")
    assert isinstance(check(f"{file}:make", "--debug").exception, RuntimeError)


@pytest.mark.parametrize(
    ("words", "says", "command"),
    [
        (["check", f"{BROKEN}:MaskedMean", "--takes", "list"], "'list' is not one of 'auto', 'set_batch'", "orderless check"),
        (["check", f"{BROKEN}:MaskedMean", "--nonsense"], "No such option: --nonsense", "orderless check"),
        (["check", f"{BROKEN}:MaskedMean", "--takes"], "Option '--takes' requires an argument", "orderless"),
        (["check"], "Missing argument", "orderless check"),
        (["chekc"], "No such command 'chekc'", "orderless"),
        (["data", "lst"], "No such command 'lst'", "orderless data"),
    ],
)
def test_what_the_library_of_the_command_line_refuses_is_one_line_as_well(words, says, command):
    result = CliRunner().invoke(app, words, prog_name="orderless")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("orderless: ")
    assert says in result.stderr
    assert result.stderr.endswith(f" `{command} --help` shows what it takes.\n")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [[], ["data"]])
def test_a_command_alone_shows_its_help(words):
    result = CliRunner().invoke(app, words, prog_name="orderless")
    assert result.exit_code == 2
    assert "Usage: orderless" in result.output
    assert "shows what it takes" not in result.output


def test_the_version_is_told_with_those_it_depends_on():
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert re.fullmatch(r"orderless \S+ \(torch \S+, Python \S+\)\n", result.output)


def test_the_command_is_installed_and_explains_itself():
    done = subprocess.run([Path(sys.executable).with_name("orderless"), "check", "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "Example: orderless check" in done.stdout
    assert callable(main)


def test_what_a_network_raises_is_shown_as_it_is(tmp_path):
    (tmp_path / "net.py").write_text(
        "class Net:\n    in_features = 3\n    def __call__(self, batch):\n        raise RuntimeError('a [/x] tag')\n"
    )
    result = check(f"{tmp_path / 'net.py'}:Net")
    assert result.exit_code == 1
    assert "a [/x] tag" in result.output


def test_a_file_that_ends_the_program_is_no_check_that_passed(tmp_path):
    (tmp_path / "net.py").write_text("from torch import nn\nimport sys\nclass Net(nn.Module):\n    pass\nsys.exit(0)\n")
    result = check(f"{tmp_path / 'net.py'}:Net", "--element", "3")
    assert result.exit_code == 1
    assert "ends the program when it is imported, so nothing was checked" in " ".join(result.output.split())
