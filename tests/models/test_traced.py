"""`torch.compile` and `torch.export` on SetBatch input: the same answers, one graph for all sizes. Covers `export.py`."""

import pytest
import torch
from batches import make_batch
from legal import dim_of, few_centroids_and_pixels
from torch.export import Dim, export

import orderless as ol
from orderless import SetBatch
from orderless.models import export_model

pytestmark = [
    pytest.mark.traced,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # torch's own, while it traces
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:torch.*"),
]

MODELS = {
    "deep_sets": {"depth": 3, "norm": "batch", "pool": "attention", "num_heads": 2},
    "deep_sets++": {"depth": 4},
    "deep_sets++ aggregated": {"depth": 4, "norm": "feature", "residual": "max", "pool": "max", "order": "paper"},
    "deep_sets++ per element": {"depth": 2, "norm": "instance", "output": "element"},
    "set_transformer": {"depth": 1, "norm": "layer", "num_heads": 2, "num_inducing": 3},
    "set_transformer++": {"depth": 1, "num_heads": 2, "num_inducing": 3},
    "set_transformer++ paper": {"depth": 1, "num_heads": 2, "num_inducing": 3, "order": "paper", "residual": "mean"},
    "deep_sets_pointcloud": {},
    "set_transformer_pointcloud": {"num_heads": 2, "num_inducing": 3},
    "pointnet++": {"width": 32},
    "simpleview": {},
}
# the last two are slow to compile, being made of many layers; that they can be traced is seen when they are exported
COMPILED = [pytest.param(key, marks=pytest.mark.full) if key in ("pointnet++", "simpleview") else key for key in MODELS]
SIZES = [[3, 1, 17], [4, 40, 2], [4, 0, 2], [100, 3, 5], [1000, 1, 1]]
ANY_NUMBER_OF_SETS = [[4], [1], [0], [5, 6], [1, 0, 0, 300], [70] * 5]


def make(key, options=None):
    name = key.split()[0]
    with few_centroids_and_pixels():
        return ol.create_model(name, dim_of(name), 3, **{"width": 8, **(options or MODELS[key])}).double().eval()


def values(answer):
    return answer.x if isinstance(answer, ol.SetBatch) else answer


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch._dynamo.reset()


@pytest.mark.parametrize("key", COMPILED)
def test_one_graph_serves_every_number_of_elements(key):
    model = make(key)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    compiled(make_batch(SIZES[0], model.in_features).mark_dynamic())
    with torch._dynamo.config.patch(error_on_recompile=True):
        for sizes in SIZES:
            batch = make_batch(sizes, model.in_features).mark_dynamic()
            torch.testing.assert_close(values(compiled(batch)), values(model(batch)))


def test_marking_the_elements_dynamic_by_hand_is_enough():
    model = make("deep_sets++")
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for i, sizes in enumerate(SIZES):
        batch = make_batch(sizes, 2)
        torch._dynamo.mark_dynamic(batch.x, 0)
        with torch._dynamo.config.patch(error_on_recompile=i > 0):
            torch.testing.assert_close(compiled(batch), model(batch))


@pytest.mark.parametrize("key", ["deep_sets++", "set_transformer++"])
def test_the_default_compiler_gives_the_same_numbers_and_gradients(key):
    model = make(key).train()
    compiled = torch.compile(model, fullgraph=True)
    for sizes in SIZES[:3]:
        batch = make_batch(sizes, 2).mark_dynamic()
        expected, found = model(batch), compiled(batch)
        torch.testing.assert_close(found, expected)
        wanted = torch.autograd.grad(expected.square().sum(), model.parameters())
        gradients = torch.autograd.grad(found.square().sum(), model.parameters())
        for a, b in zip(gradients, wanted, strict=True):
            torch.testing.assert_close(a, b)


def test_padded_tensors_with_a_mask_compile_too():
    model = make("set_transformer++")
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=True)
    for num_sets, size in ((2, 5), (3, 40)):
        x, mask = torch.randn(num_sets, size, 2, dtype=torch.float64), torch.rand(num_sets, size) > 0.5
        torch.testing.assert_close(compiled(x, mask), model(x, mask))


@pytest.mark.parametrize("size", [5, 200])  # one block, and several, of which the last is not full
def test_torchs_own_compiler_gets_sums_behind_a_mask_right_on_the_way_back_as_well(size):
    """It divides the numbers of rows wrongly where it does not know how many there are."""
    generator = torch.Generator().manual_seed(0)
    x, mask = torch.randn(2, size, 2, generator=generator, dtype=torch.float64), torch.rand(2, size, generator=generator) > 0.3
    pool = ol.nn.SumPool()

    def add_up(x, mask):
        return pool(SetBatch.from_padded(x, mask=mask))

    x.requires_grad_()
    found, expected = torch.compile(add_up, fullgraph=True)(x, mask), add_up(x, mask)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.autograd.grad(found.sum(), x), torch.autograd.grad(expected.sum(), x))


def test_dense_tensors_compile_too():
    model = make("set_transformer++")
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=True)
    for num_sets, size in ((2, 5), (3, 9), (4, 40)):
        x = torch.randn(num_sets, size, 2, dtype=torch.float64)
        torch.testing.assert_close(compiled(x), model(x))


@pytest.mark.parametrize("key", MODELS)
def test_an_exported_program_takes_any_number_of_sets_of_any_size(key):
    model = make(key)
    program = export_model(model).module()
    for sizes in [*SIZES, *ANY_NUMBER_OF_SETS]:
        batch = make_batch(sizes, model.in_features)
        torch.testing.assert_close(values(program(batch)), values(model(batch)))


def test_an_exported_program_survives_its_file(tmp_path):
    model = make("deep_sets++")
    torch.export.save(export_model(model), tmp_path / "model.pt2")
    assert SetBatch in torch.serialization.get_safe_globals()  # or loading would fall back to unsafe unpickling
    program = torch.export.load(tmp_path / "model.pt2").module()
    batch = make_batch([4, 0, 9], 2)
    torch.testing.assert_close(program(batch), model(batch))


def test_a_featurizer_needs_the_shape_of_an_element_to_be_exported():
    model = ol.create_model("deep_sets", 2, 1, width=8, featurizer=torch.nn.Linear(5, 2)).double()
    with pytest.raises(ValueError, match="needs element_shape="):
        export_model(model)
    with pytest.raises(TypeError, match="made by create_model, got Linear"):
        export_model(torch.nn.Linear(2, 1))
    batch = make_batch([3, 1], 5)
    torch.testing.assert_close(export_model(model, element_shape=(5,)).module()(batch), model(batch))


def test_a_featurizer_of_whole_numbers_is_exported_when_their_dtype_is_given():
    model = ol.create_model("deep_sets++", 4, 1, depth=2, width=8, featurizer=torch.nn.Embedding(10, 4)).double()
    program = export_model(model, element_shape=(), element_dtype=torch.int64).module()
    for sizes in ([3, 1], [0], [5, 0, 40]):
        batch = SetBatch.from_list([torch.arange(size) % 10 for size in sizes])
        torch.testing.assert_close(program(batch), model(batch))


def test_a_network_that_standardises_is_exported_with_its_numbers():
    standardizer = ol.nn.Standardizer([1.0, -0.5], [3.0, 0.1])
    model = ol.create_model("deep_sets++", 2, 1, depth=2, width=8, featurizer=standardizer).double()
    program = export_model(model).module()  # which knows the shape of its elements
    for sizes in ([3, 1], [0], [5, 0, 40]):
        batch = make_batch(sizes, 2)
        torch.testing.assert_close(program(batch), model(batch))


# What plain torch.export can and cannot do, as documented in docs/compile.md.

FREE = {0: Dim.DYNAMIC}


@pytest.mark.parametrize("key", ["deep_sets++", "set_transformer++"])
def test_plain_export_of_several_sets_takes_two_or_more(key):
    model = make(key)
    program = export(model, (make_batch([3, 4], 2),), dynamic_shapes={"batch": [FREE, FREE]}).module()
    for sizes in ([1, 0, 50], [5, 6]):
        batch = make_batch(sizes, 2)
        torch.testing.assert_close(program(batch), model(batch))
    with pytest.raises(AssertionError, match="Guard failed"):
        program(make_batch([5], 2))


@pytest.mark.parametrize("key", ["deep_sets++", "set_transformer++"])
def test_plain_export_of_one_set_takes_one_set_of_any_size(key):
    model = make(key)
    program = export(model, (make_batch([9], 2),), dynamic_shapes={"batch": [FREE, None]}).module()
    for size in (0, 1, 2, 700):
        batch = make_batch([size], 2)
        torch.testing.assert_close(program(batch), model(batch))


DENSE = {
    key: options
    for key, options in MODELS.items()
    if key not in ("pointnet++", "simpleview")  # slow to trace, and sure of a few points
} | {"deep_sets mean": {"depth": 3, "pool": "mean"}, "deep_sets max": {"depth": 3, "norm": "layer", "pool": "max"}}


@pytest.mark.parametrize("key", DENSE)
def test_plain_export_of_a_dense_tensor_takes_sets_without_elements_as_well(key):
    model = make(key, DENSE[key])
    dim = model.in_features
    example = torch.randn(3, 4, dim, dtype=torch.float64)
    program = export(model, (example,), dynamic_shapes={"batch": {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}}).module()
    for shape in ((3, 4), (2, 9), (1, 5), (5, 1), (2, 0), (1, 0)):
        x = torch.randn(*shape, dim, dtype=torch.float64)
        torch.testing.assert_close(values(program(x)), values(model(x)))


def test_attention_among_packed_elements_compiles_although_the_number_of_pairs_depends_on_the_sizes():
    block = ol.nn.SAB(4, num_heads=2).double()
    compiled = torch.compile(block, fullgraph=True, backend="aot_eager")
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        for sizes in ([3, 40], [70, 2]):
            batch = make_batch(sizes, 4).mark_dynamic()
            torch.testing.assert_close(compiled(batch).x, block(batch).x)
