"""Outputs and gradients of the authors' released code, met through `load_released`."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import orderless as ol
from orderless.models import released_names

GOLDEN = Path(__file__).parents[1] / "golden"
ROWS = json.loads((GOLDEN / "index.json").read_text())
NORMS = {"none": "none", "layer_norm": "layer", "feature_norm": "feature", "set_norm": "set"}
RESIDUALS = {"he": "clean", "resnet": "non_clean", "agg": "mean", "-": None}
POOLS = {"sum": "sum", "max": "max", "pma": "attention"}
FORMS = {
    "dense": lambda x: x,
    "packed": lambda x: ol.SetBatch.from_list(list(x)),
    "padded": lambda x: ol.SetBatch.from_padded(
        torch.cat([x, torch.full_like(x, torch.nan)], 1), torch.arange(2 * x.shape[1]).expand(len(x), -1) < x.shape[1]
    ),
}


def read(row):
    tensors = load_file(GOLDEN / row["file"])
    state = {key.removeprefix("state."): t for key, t in tensors.items() if key.startswith("state.")}
    gradients = {key.removeprefix("grad."): t for key, t in tensors.items() if key.startswith("grad.")}
    return tensors["input"], tensors["output"], state, gradients


def load(row, state, **changes):
    options = {
        "norm": NORMS[row["norm"]],
        "residual": RESIDUALS[row["residual"]],
        "pool": POOLS[row["pool"]],
        "order": "released",
    }
    return ol.load_released(state, row["model"], **{**options, **changes})


every_row = pytest.mark.parametrize("row", ROWS, ids=[r["file"].removesuffix(".safetensors") for r in ROWS])


@every_row
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_outputs_and_gradients_are_the_authors(row, form):
    x, output, state, gradients = read(row)
    model = load(row, state)
    found = model(form(x))
    assert relative(found, output) <= 1e-12
    (found**2).mean().backward()
    ours = {name: p.grad for name, p in model.named_parameters()}
    names = released_names(state, row["model"])
    assert set(ours) == {names[key] for key in gradients}
    for key, expected in gradients.items():
        assert relative(ours[names[key]], expected.reshape(ours[names[key]].shape)) <= 1e-10, key


@every_row
def test_shape_and_options_come_from_the_weights(row):
    _, _, state, gradients = read(row)
    model = load(row, state)
    assert model.in_features == row["in_features"]
    assert model.out_features == row["out_features"]
    assert model.config.width == row["width"]
    per_size = {"deep_sets": lambda s: 2 * s + 1, "deep_sets++": lambda s: 2 * s}
    assert model.config.depth == per_size.get(row["model"], lambda s: s)(row["size"])
    assert sum(p.numel() for p in model.parameters()) == sum(g.numel() for g in gradients.values())
    assert model.training


def test_running_statistics_of_the_feature_norm_are_the_authors():
    (row,) = (r for r in ROWS if r["norm"] == "feature_norm")
    x, _, state, _ = read(row)
    fresh = {
        key: torch.zeros_like(t) if key.endswith(("mean", "tracked")) else torch.ones_like(t) if key.endswith("var") else t
        for key, t in state.items()
    }
    model = load(row, fresh)
    model(x)
    names = released_names(state, row["model"])
    for key in (k for k in state if k.endswith(("running_mean", "running_var", "num_batches_tracked"))):
        torch.testing.assert_close(model.state_dict()[names[key]], state[key])


def as_released(model):
    """The `state_dict` that the released code would have saved, under the names of a golden file of that model and norm."""
    norm = {ours: theirs for theirs, ours in NORMS.items()}[model.config.norm]
    row = next(r for r in ROWS if r["model"] == model.config.name and r["norm"] == norm)
    names = released_names(read(row)[2], row["model"])
    tensors = model.state_dict()
    assert set(tensors) == set(names.values()) - {None}, "the model must have the depth of the golden one"
    state = {theirs: tensors[ours] for theirs, ours in names.items() if ours is not None}
    return {key: t[None] if key.endswith((".I", ".S")) else t for key, t in state.items()}


@pytest.mark.parametrize(("width", "heads"), [(96, 3), (24, 3), (80, 5), (128, 4)])
def test_set_transformer_plus_plus_gets_the_heads_that_ran(width, heads):
    made = ol.create_model("set_transformer++", 2, 1, depth=2, width=width, num_heads=heads)
    loaded = ol.load_released(as_released(made), "set_transformer++")
    assert loaded.config.num_heads == heads
    x = torch.randn(2, 5, 2)
    torch.testing.assert_close(loaded(x), made(x))


def test_original_set_transformer_keeps_its_four_heads_at_any_width():
    made = ol.create_model("set_transformer", 2, 1, depth=2, width=24)
    loaded = ol.load_released(as_released(made), "set_transformer")
    assert loaded.config.num_heads == 4
    x = torch.randn(2, 5, 2)
    torch.testing.assert_close(loaded(x), made(x))


@pytest.mark.parametrize(
    ("name", "depth"), [("deep_sets", 5), ("deep_sets++", 6), ("set_transformer", 2), ("set_transformer++", 2)]
)
def test_convolutional_networks_for_set_anomaly_load_without_what_they_never_use(name, depth):
    plain = ol.create_model(name, 256, 1, depth=depth, width=8)
    featurizer = ol.nn.ConvFeaturizer()
    state = as_released(plain)
    state |= {f"featurizer.{key.removeprefix('layers.')}": t for key, t in featurizer.state_dict().items()}
    state |= {"final_layer.weight": torch.randn(1, 8), "final_layer.bias": torch.randn(1)}
    loaded = ol.load_released(state, name)
    assert loaded.config.output == "element"
    images = torch.randn(1, 3, 3, 64, 64)
    encoder = plain.encoder[:-3] if name == "deep_sets++" else plain.encoder  # without its norm, ReLU and weight
    encoded = encoder(ol.SetBatch.from_list([featurizer(images[0])])).x
    expected = encoded @ state["final_layer.weight"].T + state["final_layer.bias"]
    torch.testing.assert_close(loaded(images).x, expected)


@every_row
def test_the_norm_is_told_from_the_weights(row):
    _, _, state, _ = read(row)
    assert load(row, state, norm=None).config.norm == NORMS[row["norm"]]


def test_a_wrong_norm_is_refused_with_the_right_one():
    row = next(r for r in ROWS if r["norm"] == "layer_norm")
    _, _, state, _ = read(row)
    with pytest.raises(ValueError, match="norm='set' does not fit these weights, which were saved with norm='layer'"):
        load(row, state, norm="set")
    with pytest.raises(ValueError, match="saved with norm='layer'"):
        load(row, state, norm="none")


def test_a_wrong_residual_order_or_name_is_refused():
    row = next(r for r in ROWS if r["residual"] == "resnet")
    _, _, state, _ = read(row)
    with pytest.raises(ValueError, match=r"do not fit.*Check name, norm, residual and order"):
        load(row, state, residual="clean")
    with pytest.raises(ValueError, match="Is the model's name right"):
        ol.load_released(state, "set_transformer++", norm="set")
    with pytest.raises(ValueError, match="the released code has deep_sets"):
        ol.load_released(state, "pointnet++")


def test_weights_of_something_else_are_refused():
    with pytest.raises(ValueError, match="not weights of the released code"):
        ol.load_released(torch.nn.Linear(2, 2).state_dict(), "deep_sets")


def test_files_and_checkpoints_are_to_be_opened_first():
    with pytest.raises(TypeError, match=r"takes a state_dict, got str.*torch.load"):
        ol.load_released("weights.pt", "deep_sets")
    with pytest.raises(ValueError, match=r"found \['model_state_dict'\].*pass what that key holds"):
        ol.load_released({"model_state_dict": {}}, "deep_sets")


def test_weights_may_be_arrays_and_those_of_a_wrapped_network():
    row = ROWS[3]
    x, output, state, _ = read(row)
    for other in (
        {key: tensor.numpy() for key, tensor in state.items()},
        {f"module.{key}": tensor for key, tensor in state.items()},
        {f"module.{key}": tensor.numpy() for key, tensor in state.items()},
    ):
        assert relative(load(row, other)(x), output) <= 1e-12


def test_weights_do_not_share_memory_with_the_arrays_they_came_from():
    row = ROWS[3]
    x, output, state, _ = read(row)
    arrays = {key: tensor.numpy().copy() for key, tensor in state.items()}
    model = load(row, arrays)
    for array in arrays.values():
        array[...] = 0
    assert relative(model(x), output) <= 1e-12


def test_values_that_are_no_weights_are_called_so():
    state = {key: tensor.tolist() for key, tensor in read(ROWS[0])[2].items()}
    with pytest.raises(TypeError, match=r"values of a state_dict must be tensors or numpy arrays of numbers, got list\."):
        ol.load_released(state, "deep_sets")


def test_weights_without_numbers_are_refused():
    state = {key: value.to("meta") for key, value in deep_sets_state().items()}
    with pytest.raises(ValueError, match="is on the meta device, which has shapes and no numbers"):
        ol.load_released(state, "deep_sets")


def test_truncated_weights_are_refused():
    row = ROWS[3]
    _, _, state, _ = read(row)
    state.pop("enc.2.fc2.weight")
    with pytest.raises(ValueError, match=r"Missing: \['encoder.2.branch.fc2.weight'\]"):
        load(row, state)


@every_row
def test_every_order_is_accepted_but_for_aggregated_residuals(row):
    x, output, state, _ = read(row)
    if row["residual"] == "agg":
        with pytest.raises(ValueError, match="order='paper'"):
            load(row, state, order="paper")
        return
    found = load(row, state, order="paper")(x)
    same = row["model"] in ("deep_sets", "set_transformer") or row["residual"] == "resnet"
    assert (relative(found, output) < 1e-12) == same


def relative(found, expected):
    scale = expected.abs().max()
    difference = (found.detach() - expected).abs().max()
    return (difference if scale < 1e-10 else difference / scale).item()  # gradients that are 0 but for rounding


def deep_sets_state():
    return read(next(row for row in ROWS if row["model"] == "deep_sets" and row["norm"] == "none"))[2]


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (lambda state: state | {3: torch.zeros(1)}, TypeError, "the names in a state_dict must be strings, got 3"),
        (
            lambda state: state | {"enc.30000.fc.weight": torch.zeros(2, 2)},
            ValueError,
            "name layer enc.30000, but have .* layers",
        ),
        (
            lambda state: state | {"dec.6.weight": torch.zeros(4)},
            ValueError,
            r"'dec.6.weight' .* and shape \(4,\): expected a matrix",
        ),
        (
            lambda state: {key: value.long() for key, value in state.items()},
            ValueError,
            "has dtype torch.int64 .* floating-point numbers",
        ),
    ],
    ids=["names", "layers", "shape", "numbers"],
)
def test_weights_that_cannot_be_are_named(change, error, said):
    with pytest.raises(error, match=said):
        ol.load_released(change(deep_sets_state()), "deep_sets")


def test_arrays_of_another_order_of_bytes_are_taken():
    state = deep_sets_state()
    swapped = {key: value.numpy().astype(value.numpy().dtype.newbyteorder(">")) for key, value in state.items()}
    x = torch.randn(2, 5, state["enc.0.fc.weight"].shape[1], dtype=state["enc.0.fc.weight"].dtype)
    assert torch.equal(ol.load_released(swapped, "deep_sets")(x), ol.load_released(state, "deep_sets")(x))
