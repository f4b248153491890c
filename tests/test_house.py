"""The house: who may import whom, which names are public, what an import costs, and that tests know every file."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import orderless as ol

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "orderless"

# Imports point down: each room may use the rooms listed, and itself.
MAY_IMPORT = {
    "ops": set(),
    "sets": set(),
    "files": set(),
    "words": set(),
    "look": set(),
    "numbers": set(),
    "pages": {"look", "numbers", "version"},
    "nn": {"ops", "sets"},
    "models": {"files", "nn", "ops", "sets", "words"},
    "testing": {"sets"},
    "version": set(),
    "io": {"files", "words"},
    "tasks": {"files", "io", "look", "models", "nn", "numbers", "ops", "sets", "version", "words"},
    "evaluate": {"files", "io", "look", "ops", "sets", "tasks", "words"},
    "train": {"files", "io", "nn", "sets", "tasks", "version", "words"},
    "diagnose": {"files", "io", "look", "models", "nn", "sets", "tasks"},
    "estimators": {"files", "io", "models", "nn", "ops", "sets", "tasks", "train", "version", "words"},
    "claims": {"io"},
    "experiments": {
        "claims",
        "diagnose",
        "evaluate",
        "files",
        "io",
        "look",
        "models",
        "nn",
        "numbers",
        "pages",
        "sets",
        "tasks",
        "train",
        "version",
        "words",
    },
    "studies": {"claims", "estimators", "evaluate", "files", "io", "numbers", "pages", "tasks", "train", "version", "words"},
    "cli": {
        "claims",
        "diagnose",
        "estimators",
        "experiments",
        "train",
        "evaluate",
        "files",
        "io",
        "look",
        "models",
        "nn",
        "numbers",
        "ops",
        "sets",
        "studies",
        "tasks",
        "testing",
        "words",
    },
}
VERBS = ("bench", "check", "data", "diagnose", "evaluate", "figure", "fit", "predict", "report", "table", "train")
PUBLIC = {
    "orderless": {
        "SetBatch", "SetClassifier", "SetRegressor", "create_model", "estimators", "list_models", "load_model", "load_released",
        "models", "nn", "ops", "save_model", "testing",
    },
    "orderless.models": {
        "ModelConfig", "SetModel", "create_model", "export_model", "legal_table", "list_models", "load_model",
        "load_released", "released_names", "save_model",
    },
    "orderless.models.chunked": {"Blocks", "SourceChangedError", "forward", "predict"},
    "orderless.nn": {
        "ISAB", "MAB", "PMA", "SAB", "AggregatedBlock", "AggregatedSkip", "BatchNorm", "CleanBlock", "ConvFeaturizer",
        "ElementDropout", "ElementLinear", "ElementReLU", "ElementTanh", "Encoder", "FeatureNorm", "FreqAddBlock", "ISABPlusPlus",
        "InstanceNorm", "LayerNorm", "MABPlusPlus", "MaxPool", "MeanPool", "MultiheadAttention", "NonCleanBlock", "NormName",
        "Order", "PMAPlusPlus", "PlainLayer", "PoolName", "ResidualName", "SABPlusPlus", "SetNorm", "Standardizer", "SumPool",
        "build_norm",
    },
    "orderless.diagnose": {
        "Health", "LayerObserver", "Layers", "judge", "judge_collapse", "judge_over_time", "read_collapse", "read_layers",
    },
    "orderless.estimators": {
        "ElementScaler", "SetClassifier", "SetRegressor", "export_onnx", "export_program", "guess_objective", "load_bundle",
        "save_bundle",
    },
    "orderless.evaluate": {
        "BASELINES", "Baseline", "BaselineResult", "CoefficientOfVariation", "ElementChooser", "ElementContrast",
        "EmbeddingContrast", "Evaluation", "Fold", "Interval", "MeanEmbedding", "ModelScores", "MomentSummary", "bootstrap_mean",
        "check_no_straddling", "cross_validate", "draw_evaluation", "evaluate_baselines", "find_duplicates", "folds_by_hand",
        "iterate_sets", "make_baseline", "make_folds", "num_sets", "paired_difference", "score_predictions", "take_sets",
    },
    "orderless.experiments": {
        "Plan", "Recipe", "ResultStore", "RunSpec", "Table", "build_table", "execute", "expand", "list_recipes", "load_recipe",
        "make_spec", "read_results", "run_missing", "to_markdown", "write_table",
    },
    "orderless.experiments.report": {"ReportedRun", "find_runs", "read_run", "write_report"},
    "orderless.io": {
        "DataError", "MemorySets", "MissingDataError", "Samples", "SetStore", "StoreWriter", "join_labels", "open_or_build",
        "open_samples",
    },
    "orderless.ops": {
        "InducedParameters", "backend", "broadcast_sets", "clean_blocks", "clean_blocks_obstacle", "dense_key_attention",
        "dense_query_attention", "farthest_points", "fold_queries", "induced_blocks", "induced_blocks_obstacle",
        "nearest_points", "norm_attention_pool", "norm_relu_pool", "packed_attention", "set_max", "set_mean", "set_norm",
        "set_sum", "statistics_dtype", "widest_dtype",
    },
    "orderless.studies": {
        "ExternalScore", "FitSettings", "Predictions", "Study", "fit_study", "make_study", "predict_files", "score_files",
    },
    "orderless.tasks": {
        "LabelledSets", "Published", "SetDataset", "Source", "Task", "TaskData", "collate_sets", "get_task", "list_tasks",
        "load_task",
    },
    "orderless.testing": {
        "Verdict", "assert_equivariant", "assert_invariant", "assert_padding_ignored", "assert_sets_independent", "check_module",
    },
    "orderless.train": {
        "CheckpointError", "Execution", "GraphedModel", "History", "Moment", "Observer", "TrainConfig", "Trained",
        "TrainingDiverged", "resolve_device", "train_model",
    },
}  # fmt: skip


def room_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path):
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "orderless":
            names = [f"orderless.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            names = [node.module]
        for name in names:
            if name.split(".")[0] == "orderless":
                assert name.count("."), f"{path} imports the whole package"
                yield name.split(".")[1]


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=[str(p.relative_to(SOURCE)) for p in FILES])
def test_imports_point_down(path):
    room = room_of(path)
    if room == "__init__":
        return
    assert room in MAY_IMPORT, f"{room} has no place in the house: add it to MAY_IMPORT"
    upwards = set(imported_rooms(path)) - MAY_IMPORT[room] - {room}
    assert not upwards, f"{path.relative_to(ROOT)} may not import {', '.join(sorted(upwards))}"


def test_contributing_has_the_same_map():
    rows = re.findall(r"^\| `(\w+)(?:/|\.py)` \|.*\| (.*) \|$", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.MULTILINE)
    for room, said in rows:
        named = set(re.findall(r"`(\w+)`", said.partition(" outside ")[0]))
        allowed = set(MAY_IMPORT) - {room} - named if said.startswith("everything but") else named
        assert allowed == MAY_IMPORT[room], f"CONTRIBUTING.md says of {room}: {said}"
    assert set(MAY_IMPORT) - {room for room, _ in rows} == {"version"}  # which is a number


def test_the_map_has_no_cycles():
    seen = []
    while len(seen) < len(MAY_IMPORT):
        ready = [room for room, below in MAY_IMPORT.items() if room not in seen and below <= set(seen)]
        assert ready, f"rooms import each other: {set(MAY_IMPORT) - set(seen)}"
        seen += ready


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_are_frozen(module):
    imported = importlib.import_module(module)
    assert set(imported.__all__) == PUBLIC[module]
    assert all(hasattr(imported, name) for name in imported.__all__)


def test_every_public_name_is_documented():
    for module, names in PUBLIC.items():
        for name in names:
            thing = getattr(importlib.import_module(module), name)
            if callable(thing) and not re.search(r"Literal|Callable\[", str(thing)):
                assert thing.__doc__, f"{module}.{name} has no docstring"


def test_every_source_file_is_named_by_a_test():
    """By the name of the tests' file, or of the folder's; or by an import; or in the text of a test of the same room."""
    tests = {path: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    text = "\n".join(tests.values())
    for path in FILES:
        if path.name == "__init__.py":
            continue
        dotted = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
        folder = ROOT / "tests" / path.relative_to(SOURCE).parent
        mirrored = folder / f"test_{path.stem.lstrip('_')}.py", folder.parent / f"test_{folder.name}.py"
        room = ROOT / "tests" / path.relative_to(SOURCE).parts[0]
        named = any(f"`{path.name}`" in of_test for test, of_test in tests.items() if room in test.parents)
        assert any(map(Path.exists, mirrored)) or dotted in text or named, f"no test names {path.relative_to(ROOT)}"


def test_versions_agree():
    from orderless.version import __version__

    assert __version__ == ol.__version__
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"version: {ol.__version__}\n" in citation


def test_pins_cover_every_requirement():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + [r for extra in project["optional-dependencies"].values() for r in extra]
    pins = {
        re.split("==", line)[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
    }
    names = {re.split(r"[\[<>=!~ ]", requirement)[0].lower().replace("_", "-") for requirement in wanted} - {"orderless"}
    assert names <= pins


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_a_command_starts_without_what_few_of_them_need():
    slow = "['sklearn', 'scipy', 'pandas', 'pyarrow', 'matplotlib', 'lightning_fabric', 'triton', 'onnx']"
    assert run(f"import sys, orderless.cli.app; print(*({{*sys.modules}} & {{*{slow}}}))") == ""


def test_import_needs_only_torch_and_numpy():
    code = (
        "import sys, torch, numpy; before = set(sys.modules); import orderless; "
        "print(*sorted({m.split('.')[0] for m in set(sys.modules) - before}))"
    )
    third_party = {name for name in run(code).split() if name not in sys.stdlib_module_names and not name.startswith("_")} - {
        "orderless",
        "torch",
        "numpy",
        "jaxtyping",
        "wadler_lindig",
        "typing_extensions",
    }
    assert third_party == set()
    blocked = "import sys; sys.modules.update(dict.fromkeys(['sklearn', 'safetensors', 'typer', 'rich', 'jaxtyping', 'scipy'])); "
    assert run(blocked + "import orderless; print(orderless.create_model('deep_sets', 2, 1).in_features)") == "2"


def test_import_loads_none_of_torchs_heavy_parts():
    """Names instead of seconds: these take most of a second each to load, and a plain `import torch` leaves them out."""
    code = "import sys, torch, numpy; before = set(sys.modules); import orderless; print(*(set(sys.modules) - before))"
    heavy = ("torch._dynamo", "torch._inductor", "torch.onnx", "torch.distributed.nn", "sympy")
    assert not [name for name in run(code).split() if name.startswith(heavy)]


def test_py_typed_is_shipped():
    assert (SOURCE / "py.typed").exists()


def test_verbs_do_not_import_each_other():
    """What two verbs need has a file of its own; only the command as a whole knows them all."""
    verbs = {f"orderless.cli.{verb}" for verb in VERBS}
    for path in (SOURCE / "cli").glob("*.py"):
        imported = {node.module for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)}
        assert not imported & verbs or path.name == "app.py", path.name
