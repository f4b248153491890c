"""Exports: raw elements in, the estimator's predictions out, at any sizes.

Covers `deployed.py`, `onnx_graph.py` and `onnx_operators.py`.
"""

import json

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
import torch

from orderless.estimators import SetClassifier, SetRegressor, export, onnx_graph, onnx_operators
from orderless.estimators.bundle import save_bundle
from orderless.estimators.deployed import Deployed
from orderless.estimators.export import export_onnx, export_program

pytestmark = [
    pytest.mark.traced,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # torch's own, while it traces
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

RNG = np.random.default_rng(0)
SIZES = {
    "ragged": [4, 1, 9, 0, 70],
    "one set": [6],
    "one element": [1],
    "no element": [0],
    "two empty sets": [0, 0],
    "many": [2] * 40,
}
SMALL = {"depth": 2, "width": 8, "epochs": 1, "ensemble_size": 2, "random_state": 0}
ROUNDING = 2e-6  # float32 in another order; probabilities, and predictions in standard deviations, are of about 1


def draw(sizes):
    """The last feature has heavy tails."""
    plain = (RNG.normal(100, [1, 5, 30], (size, 3)) for size in sizes)
    return [np.column_stack([x[:, :2], np.exp(0.1 * (x[:, 2] - 100)) - 5]).astype(np.float32) for x in plain]


def packed(sets):
    return {
        "elements": np.concatenate(sets),
        "offsets": np.concatenate([[0], np.cumsum([len(s) for s in sets])]).astype(np.int64),
    }


def beside(count):
    return pd.DataFrame(
        {"age": RNG.normal(50, 9, count).astype(np.float32), "site": RNG.choice(["Basel", "Kyoto", "new"], count)}
    )


@pytest.fixture(scope="module")
def classifier():
    return SetClassifier(**SMALL).fit(draw([5] * 8), np.array(["no", "yes"] * 4))


@pytest.fixture(scope="module")
def regressor():
    model = SetRegressor("set_transformer++", **SMALL | {"depth": 1, "num_inducing": 2})
    sites = pd.DataFrame({"age": RNG.normal(50, 9, 8), "site": ["Basel", "Kyoto"] * 4})
    return model.fit(draw([5] * 8), RNG.normal(1e6, [1, 1e3], (8, 2)), covariates=sites)


@pytest.fixture(scope="module")
def classifier_file(classifier, tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifier")
    save_bundle(classifier, folder / "bundle", features=["CD3", "CD16", "area"], target_name="CMV")
    export_onnx(folder / "bundle", folder / "model.onnx")
    return folder / "model.onnx"


@pytest.fixture(scope="module")
def regressor_file(regressor, tmp_path_factory):
    path = tmp_path_factory.mktemp("regressor") / "model.onnx"
    export_onnx(regressor, path)
    return path


def session_of(path):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def test_onnx_gives_the_probabilities_of_the_classifier_at_any_sizes(classifier, classifier_file):
    session = session_of(classifier_file)
    for sizes in SIZES.values():
        sets = draw(sizes)
        (found,) = session.run(["probabilities"], packed(sets))
        np.testing.assert_allclose(found, classifier.predict_proba(sets), rtol=0, atol=ROUNDING)


def test_onnx_gives_the_predictions_of_the_regressor_with_covariates_at_any_sizes(regressor, regressor_file):
    session = session_of(regressor_file)
    said = json.loads(session.get_modelmeta().custom_metadata_map["orderless"])
    (site,) = [c["categories"] for c in said["covariates"] if c["name"] == "site"]
    for sizes in SIZES.values():
        sets, covariates = draw(sizes), beside(len(sizes))
        places = [site.index(word) if word in site else -1 for word in covariates["site"]]
        numbers = np.stack([covariates["age"], places], axis=1).astype(np.float32)
        (found,) = session.run(["prediction"], {**packed(sets), "covariates": numbers})
        off = (found - regressor.predict(sets, covariates=covariates)) / regressor.target_scale_
        np.testing.assert_allclose(off, 0, atol=ROUNDING)


def test_an_onnx_file_says_what_its_numbers_mean_and_nothing_of_the_machine(classifier_file):
    session = session_of(classifier_file)
    assert [(i.name, i.shape, i.type) for i in session.get_inputs()] == [
        ("elements", ["num_elements", 3], "tensor(float)"),
        ("offsets", ["num_sets_plus_one"], "tensor(int64)"),
    ]
    assert [(o.name, o.shape, o.type) for o in session.get_outputs()] == [("probabilities", ["num_sets", 2], "tensor(double)")]
    said = json.loads(session.get_modelmeta().custom_metadata_map["orderless"])
    assert (said["features"], said["classes"], said["targets"]) == (["CD3", "CD16", "area"], ["no", "yes"], ["CMV"])
    content = classifier_file.read_bytes()
    assert b".py" not in content
    assert b"/home" not in content
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)


def test_threads_do_not_get_in_each_others_way(classifier, classifier_file):
    """Sums over sets are where they could: onnxruntime's ScatterND loses what two threads add to one row at once."""
    assert not any(node.op_type == "ScatterND" for node in onnx.load(classifier_file).graph.node)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 4
    session = onnxruntime.InferenceSession(classifier_file, options, providers=["CPUExecutionProvider"])
    sets = draw([3000] * 8)
    first, *others = (session.run(None, packed(sets))[0] for _ in range(4))
    assert all((other == first).all() for other in others)
    np.testing.assert_allclose(first, classifier.predict_proba(sets), rtol=0, atol=ROUNDING)


def test_nodes_that_compute_the_same_or_nothing_are_left_out():
    def node(op, inputs, output, **attributes):
        return onnx.helper.make_node(op, inputs, [output], **attributes)

    nodes = [
        node("Add", ["x", "c"], "a"),
        node("Add", ["x", "c"], "b"),
        node("Softmax", ["a"], "s", axis=0),
        node("Softmax", ["b"], "t", axis=0),
        node("Softmax", ["b"], "u", axis=1),
        node("Sub", ["x", "d"], "unused"),
        node("Sum", ["s", "t", "u"], "y"),
        node("Sum", ["s", "t", "u"], "z"),
    ]
    constants = [onnx.numpy_helper.from_array(np.ones(1, np.float32), name) for name in "cd"]
    ends = [onnx.helper.make_tensor_value_info(name, 1, None) for name in "xyz"]
    graph = onnx.helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    onnx_graph.simplify(graph)
    assert [(n.op_type, list(n.input), list(n.output)) for n in graph.node] == [
        ("Add", ["x", "c"], ["a"]),
        ("Softmax", ["a"], ["s"]),
        ("Softmax", ["a"], ["u"]),
        ("Sum", ["s", "s", "u"], ["y"]),
        ("Sum", ["s", "s", "u"], ["z"]),
    ]
    assert [constant.name for constant in graph.initializer] == ["c"]


def test_what_does_not_depend_on_weights_is_there_once(classifier_file):
    nodes = onnx.load(classifier_file).graph.node
    assert sum(node.op_type == "CumSum" and not node.name.startswith("member") for node in nodes) > 0
    assert not any(node.op_type == "CumSum" and node.name.startswith("member") for node in nodes)


def test_a_program_predicts_as_the_classifier_at_any_sizes(classifier, tmp_path):
    export_program(classifier, tmp_path / "model.pt2")
    program = torch.export.load(tmp_path / "model.pt2").module()
    for sizes in SIZES.values():
        sets = draw(sizes)
        found = program(*(torch.from_numpy(value) for value in packed(sets).values()))
        np.testing.assert_allclose(found.numpy(), classifier.predict_proba(sets), rtol=0, atol=ROUNDING)
    assert str(tmp_path).encode() not in (tmp_path / "model.pt2").read_bytes()
    assert all(weight.requires_grad for weight in classifier.models_[0].parameters())


def test_the_module_that_is_exported_predicts_as_the_estimator(regressor):
    sets, covariates = draw([3, 0, 5]), beside(3)
    places = pd.Index(["Basel", "Kyoto"]).get_indexer(covariates["site"])  # -1 where it is neither
    inputs = [*packed(sets).values(), np.stack([covariates["age"], places], 1).astype(np.float32)]
    with torch.no_grad():
        found = Deployed(regressor)(*map(torch.from_numpy, inputs))
    away = (found.numpy() - regressor.predict(sets, covariates=covariates)) / regressor.target_scale_
    assert np.abs(away).max() < ROUNDING  # NumPy's asinh and PyTorch's may differ in the last bit


@pytest.mark.parametrize("constant", ["mean", "scale", "highest", "members", "member 1: encoder.0.weight"])
def test_a_graph_that_computes_something_else_is_not_kept(classifier, classifier_file, tmp_path, monkeypatch, constant):
    wrong = onnx.load(classifier_file)
    (place,) = [i for i in wrong.graph.initializer if i.name == constant]
    place.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(place) * np.float32(0.5), constant))
    if constant == "members":
        place.CopyFrom(onnx.numpy_helper.from_array(np.array(4.0), constant))
    monkeypatch.setattr(export, "_onnx", lambda estimator, output: wrong)
    (tmp_path / "model.onnx").write_text("what was there")
    with pytest.raises(RuntimeError, match=r"does not agree with PyTorch in onnxruntime.*nothing was written"):
        export_onnx(classifier, tmp_path / "model.onnx")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["what was there"]


def test_what_cannot_be_exported_is_refused_at_once(classifier, tmp_path, monkeypatch):
    for write in (export_onnx, export_program):
        with pytest.raises(TypeError, match="got dict"):
            write({}, tmp_path / "model")
        with pytest.raises(FileNotFoundError, match="Create it first"):
            write(classifier, tmp_path / "no" / "model")
        with pytest.raises(IsADirectoryError, match="is a folder"):
            write(classifier, tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(ImportError, match=r"onnxruntime is needed here.*orderless\[export\]"):
        export_onnx(classifier, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_operators_are_translated_only_as_far_as_is_known():
    table = onnx_operators.translations(None)
    aten = torch.ops.aten
    with pytest.raises(NotImplementedError, match="one index"):
        table[aten.index.Tensor](None, [None, None])
    with pytest.raises(NotImplementedError, match="dim=1"):
        table[aten.index_add.default](None, 1, None, None)
    with pytest.raises(NotImplementedError, match="output_size"):
        table[aten.repeat_interleave.Tensor](None)
    with pytest.raises(NotImplementedError, match="right=False"):
        table[aten.bucketize.Tensor](None, None)

    class Anything(torch.nn.Module):
        def forward(self, x, boundaries):
            return torch.bucketize(x, boundaries, right=True)

    program = torch.export.export(Anything(), (torch.tensor([3, 1]), torch.tensor([0, 2])))
    with pytest.raises(NotImplementedError, match="only bucketize"):
        onnx_operators.check_program(program)


def test_heavy_tails_are_bent_in_exports_too(classifier, classifier_file):
    assert classifier.scaler_.bent_.tolist() == [False, False, True]
    wild = [np.array([[100, 100, value]], np.float32) for value in (-1e9, -1e4, -30, 0, 30, 1e4, 1e9)]
    (found,) = onnxruntime.InferenceSession(classifier_file).run(None, packed(wild))
    np.testing.assert_allclose(found, classifier.predict_proba(wild), rtol=0, atol=ROUNDING)


def test_networks_of_different_kinds_are_exported_together(classifier):
    assert [model.config.pool for model in classifier.models_] == ["mean", "max"]  # and their files agree, see above
    kinds = [onnx_graph._kind(model) for model in classifier.models_]
    assert kinds[0] != kinds[1]
    again = SetClassifier(**SMALL).fit(draw([5] * 8), np.array(["no", "yes"] * 4))
    assert [onnx_graph._kind(model) for model in again.models_] == kinds
