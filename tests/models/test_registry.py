"""What `create_model` builds and refuses: `registry.py`, `base.py`, `deep_sets.py`, `set_transformer.py`, `pointcloud.py`."""

import itertools

import numpy as np
import pytest
import torch
from batches import make_batch
from legal import DEPTHS, all_legal, build, dim_of, pairwise

import orderless as ol
from orderless import nn
from orderless.models import legal_table
from orderless.models.registry import CHOICES, MODELS, released_num_heads

COUNTS = {  # parameters of the released code with 2 inputs and 1 output, less those it never uses
    ("deep_sets", 3): 99_585,
    ("deep_sets", 25): 462_849,
    ("deep_sets", 50): 892_161,
    ("deep_sets++", 3): 99_969,
    ("deep_sets++", 25): 466_049,
    ("deep_sets++", 50): 898_689,
    ("set_transformer", 2): 488_449,
    ("set_transformer", 8): 1_305_601,
    ("set_transformer", 16): 2_395_137,
    ("set_transformer++", 2): 540_033,
    ("set_transformer++", 8): 1_364_865,
    ("set_transformer++", 16): 2_464_641,
}


@pytest.mark.parametrize(("name", "depth"), COUNTS)
def test_parameter_counts_are_those_of_the_released_code(name, depth):
    model = ol.create_model(name, in_features=2, out_features=1, depth=depth)
    assert sum(p.numel() for p in model.parameters()) == COUNTS[name, depth]


@pytest.mark.parametrize(("depth", "layers"), [(1, 1), (2, 3), (3, 3), (25, 25), (50, 51)])
def test_deep_sets_has_the_papers_number_of_layers(depth, layers):
    model = ol.create_model("deep_sets", 2, 1, depth=depth, width=8)
    assert sum(isinstance(m, nn.PlainLayer) for m in model.modules()) == layers
    assert isinstance(model.encoder[-1], nn.ElementLinear)


@pytest.mark.parametrize(("depth", "blocks"), [(2, 1), (3, 1), (25, 12), (50, 25)])
def test_deep_sets_plus_plus_has_half_as_many_blocks_of_two_layers(depth, blocks):
    model = ol.create_model("deep_sets++", 2, 1, depth=depth, width=8)
    assert sum(isinstance(m, nn.CleanBlock) for m in model.modules()) == blocks


@pytest.mark.parametrize(("depth", "blocks"), [(3, 3), (25, 25), (50, 51)])
def test_freq_add_has_one_layer_blocks_of_which_the_first_adds_nothing(depth, blocks):
    model = ol.create_model("deep_sets++", 2, 1, depth=depth, width=8, residual="freq_add")
    kinds = [type(m) for m in model.encoder]
    assert kinds == [nn.PlainLayer, *[nn.FreqAddBlock] * (blocks - 1), nn.ElementLinear]


def test_depth_of_set_transformers_counts_induced_blocks():
    for name, kind in (("set_transformer", nn.ISAB), ("set_transformer++", nn.ISABPlusPlus)):
        model = ol.create_model(name, 2, 1, depth=5, width=8, num_heads=2)
        assert sum(isinstance(m, kind) for m in model.modules()) == 5


@pytest.mark.parametrize("name", ol.list_models())
@pytest.mark.parametrize("output", ["set", "element"])
def test_shapes_are_inferred_on_the_meta_device(name, output):
    if output not in MODELS[name].output:
        return
    with torch.device("meta"):
        model = ol.create_model(name, 3, 2, output=output)
    out = model(torch.zeros(4, 70, 3, device="meta"))
    out = out if output == "set" else out.x
    assert out.is_meta
    assert out.shape == (4 if output == "set" else 4 * 70, 2)
    out.sum().backward()
    assert all(p.grad.shape == p.shape for p in model.parameters())


@pytest.mark.parametrize("name", ol.list_models())
def test_shapes_of_ragged_sets_are_inferred_on_the_meta_device(name):
    with torch.device("meta"):
        model = ol.create_model(name, 3, 2)
    assert model(make_batch([5, 0, 70], 3).to("meta", torch.float32)).shape == (3, 2)


def test_models_are_listed_and_filtered():
    assert ol.list_models()[:4] == ["deep_sets", "deep_sets++", "set_transformer", "set_transformer++"]
    assert ol.list_models("*pointcloud") == ["deep_sets_pointcloud", "set_transformer_pointcloud"]
    assert ol.list_models()[-2:] == ["pointnet++", "simpleview"]


def test_defaults_are_the_papers_networks():
    config = ol.create_model("deep_sets++", 2, 1).config
    assert (config.depth, config.width, config.norm, config.residual, config.pool, config.order) == (
        50, 128, "set", "clean", "sum", "released",
    )  # fmt: skip
    config = ol.create_model("set_transformer", 2, 1).config
    assert (config.depth, config.norm, config.residual, config.pool, config.num_heads, config.num_inducing) == (
        2, "none", "non_clean", "attention", 4, 32,
    )  # fmt: skip


def test_an_unknown_name_is_refused_with_the_list():
    with pytest.raises(ValueError, match=r"model must be one of deep_sets, deep_sets\+\+.*got 'deepsets'"):
        ol.create_model("deepsets", 2, 1)


@pytest.mark.parametrize("option", CHOICES)
def test_an_unknown_value_is_refused_with_the_list(option):
    with pytest.raises(ValueError, match=f"{option} must be one of {', '.join(CHOICES[option])}; got 'wrong'"):
        ol.create_model("deep_sets++", 2, 1, **{option: "wrong"})


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("deep_sets", {"residual": "clean"}),
        ("deep_sets++", {"residual": "none"}),
        ("set_transformer", {"residual": "clean"}),
        ("set_transformer++", {"residual": "freq_add"}),
        ("deep_sets_pointcloud", {"norm": "set"}),
        ("set_transformer_pointcloud", {"output": "element"}),
        ("pointnet++", {"order": "paper"}),
        ("simpleview", {"norm": "set"}),
    ],
)
def test_an_illegal_combination_is_refused_with_the_table(name, options):
    with pytest.raises(ValueError, match="does not fit") as caught:
        ol.create_model(name, dim_of(name), 1, **options)
    assert legal_table() in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"in_features": 0}, "in_features must be a whole number of at least 1; got 0"),
        ({"depth": 2.0}, "depth must be a whole number"),
        ({"width": True}, "width must be a whole number"),
        ({"depth": 1}, "depth must be at least 2"),
        ({"depth": 12345678901234567890123}, "depth must be at most 10,000; got 12345678901234567890123"),
        ({"width": 10**11}, "width must be at most 16,777,216; got 100000000000"),
        ({"out_features": 10**22}, "out_features must be at most 16,777,216; got 10000000000000000000000"),
        ({"eps": 0}, "eps must be a number above 0"),
        ({"eps": "a"}, "eps must be a number above 0"),
        ({"eps": float("inf")}, "eps must be a number above 0"),
    ],
)
def test_numbers_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        ol.create_model("deep_sets++", **{"in_features": 2, "out_features": 1, **options})


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("deep_sets", {"num_heads": 2}),
        ("deep_sets", {"num_inducing": 8}),
        ("deep_sets", {"eps": 1e-3}),
        ("deep_sets", {"output": "element", "pool": "max"}),
        ("set_transformer", {"output": "element", "pool": "sum"}),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(name, options):
    with pytest.raises(ValueError, match="has no effect") as caught:
        ol.create_model(name, 2, 1, **options)
    assert legal_table() in str(caught.value)


def test_whole_numbers_of_numpy_are_taken():
    config = ol.create_model("deep_sets", np.int64(2), np.int32(1), width=np.int64(8)).config
    assert (type(config.in_features), config.width) == (int, 8)


def test_numbers_of_numpy_are_taken_for_eps():
    for eps in (np.float32(1e-4), np.float64(1e-4), np.int64(1)):
        found = ol.create_model("deep_sets++", 2, 1, depth=2, width=8, eps=eps).config.eps
        assert type(found) in (int, float)
        assert found == eps
    with pytest.raises(ValueError, match=r"depth must be a whole number of at least 1; got 2\.0"):
        ol.create_model("deep_sets++", 2, 1, depth=np.float64(2))
    with pytest.raises(ValueError, match="eps must be a number above 0; got True"):
        ol.create_model("deep_sets++", 2, 1, eps=True)


def test_depth_of_published_point_cloud_networks_is_fixed():
    with pytest.raises(ValueError, match="depth is 3 in deep_sets_pointcloud"):
        ol.create_model("deep_sets_pointcloud", 3, 40, depth=5)


@pytest.mark.parametrize("name", ["pointnet++", "simpleview"])
def test_networks_that_look_at_space_want_points_in_space(name):
    with pytest.raises(ValueError, match=r"is for points in space: in_features must be 3, the coordinates of a point; got 2\.$"):
        ol.create_model(name, 2, 40)
    unit = MODELS[name].width_unit
    with pytest.raises(ValueError, match=f"width must be a multiple of {unit} for .*; got {unit + 4}"):
        ol.create_model(name, 3, 40, width=unit + 4)
    model = ol.create_model(name, 3, 40, width=unit, featurizer=torch.nn.Linear(2, 3)).eval()
    assert model(torch.randn(1, 4, 2)).shape == (1, 40)


def test_the_released_codes_silent_change_of_heads_is_an_error_that_says_so():
    with pytest.raises(ValueError, match="silently uses 3 heads"):
        ol.create_model("set_transformer++", 2, 1, width=96)
    with pytest.raises(ValueError, match="and fails"):
        ol.create_model("set_transformer++", 2, 1, width=36)
    with pytest.raises(ValueError, match="100 features cannot be split into 3 heads"):
        ol.create_model("set_transformer", 2, 1, width=100, num_heads=3)


def test_heads_asked_for_are_heads_used():
    for name, options in (
        ("set_transformer++", {"width": 96, "num_heads": 3}),
        ("set_transformer++", {"width": 96, "num_heads": 4, "order": "paper"}),
        ("set_transformer", {"width": 96, "num_heads": 4}),
    ):
        model = ol.create_model(name, 2, 1, depth=1, **options)
        layers = [m for m in model.modules() if isinstance(m, nn.MultiheadAttention)]
        assert layers
        assert {m.num_heads for m in layers} == {options["num_heads"]}


@pytest.mark.parametrize(("width", "heads"), [(128, 4), (96, 3), (80, 5), (160, 5), (16, 4), (24, 3), (20, 5)])
def test_heads_of_the_released_code(width, heads):
    assert released_num_heads(width, 4) == heads


def test_repr_is_one_short_line():
    text = repr(ol.create_model("deep_sets++", 2, 1))
    assert text == (
        "deep_sets++(2 -> 1, depth=50, width=128, norm=set, residual=clean, pool=sum, order=released, output=set; "
        "898,689 parameters)"
    )
    assert "featurizer=Linear" in repr(ol.create_model("deep_sets", 2, 1, featurizer=torch.nn.Linear(5, 2)))
    assert "pool" not in repr(ol.create_model("deep_sets", 2, 1, output="element"))


def test_encode_gives_one_vector_of_the_width_per_element():
    model = ol.create_model("set_transformer++", 2, 1, depth=1, width=8, num_heads=2)
    batch = make_batch([3, 0, 2], 2, dtype=torch.float32)
    encoded = model.encode(batch)
    assert encoded.x.shape == (5, 8)
    torch.testing.assert_close(model.decoder(model.pool(encoded).x), model(batch))


def test_output_per_element_is_a_set_batch_of_the_same_sets():
    model = ol.create_model("deep_sets++", 2, 3, depth=2, width=8, output="element")
    batch = make_batch([3, 0, 2], 2, dtype=torch.float32)
    out = model(batch)
    assert isinstance(out, ol.SetBatch)
    assert out.sizes.tolist() == [3, 0, 2]
    assert out.x.shape == (5, 3)
    assert isinstance(model(torch.randn(2, 4, 2)), ol.SetBatch)


def test_per_element_networks_end_as_the_released_ones_do():
    released = ol.create_model("deep_sets++", 2, 1, depth=2, width=8, output="element")
    paper = ol.create_model("deep_sets++", 2, 1, depth=2, width=8, output="element", order="paper")
    assert [type(m).__name__ for m in released.encoder] == ["ElementLinear", "CleanBlock"]
    assert [type(m).__name__ for m in paper.encoder][2:] == ["SetNorm", "ElementReLU", "ElementLinear"]


def test_set_transformer_plus_plus_in_the_papers_order_keeps_the_original_decoder_and_has_no_last_norm():
    released, paper = (
        ol.create_model("set_transformer++", 2, 1, depth=1, width=8, num_heads=2, order=order) for order in ("released", "paper")
    )
    assert isinstance(released.encoder[-1], nn.SetNorm)
    assert isinstance(paper.encoder[-1], nn.ISABPlusPlus)
    assert isinstance(released.pool, nn.PMAPlusPlus)
    assert isinstance(paper.pool, nn.PMA)


def test_a_featurizer_sees_elements_of_any_shape():
    model = ol.create_model("deep_sets++", 256, 1, depth=2, width=8, featurizer=nn.ConvFeaturizer(), output="element")
    images = ol.SetBatch.from_list([torch.randn(2, 3, 64, 64), torch.randn(1, 3, 64, 64)])
    assert model(images).x.shape == (3, 1)
    assert model(torch.randn(2, 2, 3, 64, 64)).x.shape == (4, 1)


def test_tokens_go_through_an_embedding():
    model = ol.create_model("deep_sets", 4, 1, width=8, featurizer=torch.nn.Embedding(10, 4))
    assert model(ol.SetBatch.from_list([torch.tensor([1, 2, 9]), torch.tensor([0])])).shape == (2, 1)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: m(torch.randn(4, 2)), ValueError, r"must be \(N, M, D\).*For one set pass `x\[None\]`"),
        (lambda m: m(torch.randn(4, 2, 3)), ValueError, r"in_features=2 numbers, got elements of shape \(3,\)"),
        (lambda m: m([torch.randn(4, 2)]), TypeError, "SetBatch.from_list"),
        (lambda m: m(make_batch([2], 2)), ValueError, "weights are torch.float32 but the elements are torch.float64"),
        (
            lambda m: m(make_batch([2], 2, dtype=torch.float32), torch.ones(1, 2, dtype=torch.bool)),
            ValueError,
            "a SetBatch has no padding",
        ),
        (lambda m: m(torch.randn(1, 4, 2), torch.ones(1, 4)), ValueError, "mask must be bool"),
    ],
)  # fmt: skip
def test_wrong_input_is_refused_with_the_way_out(call, error, message):
    with pytest.raises(error, match=message):
        call(ol.create_model("deep_sets", 2, 1, width=8))


def test_a_featurizer_that_does_not_fit_is_refused_as_soon_as_it_can_be_known():
    with pytest.raises(ValueError, match="the featurizer gives 3 features, but in_features=2"):
        ol.create_model("deep_sets", 2, 1, featurizer=torch.nn.Linear(5, 3))
    with pytest.raises(TypeError, match=r"featurizer must be an nn\.Module, got 'conv'"):
        ol.create_model("deep_sets", 2, 1, featurizer="conv")
    model = ol.create_model("deep_sets", 2, 1, width=8, featurizer=torch.nn.Sequential(torch.nn.Linear(5, 3)))
    with pytest.raises(ValueError, match="after the featurizer, elements must be vectors of in_features=2"):
        model(torch.randn(1, 4, 5))
    model = ol.create_model("deep_sets", 2, 1, width=8, featurizer=torch.nn.Flatten(0, 1))
    with pytest.raises(ValueError, match="one new element for each of the 4 old ones, got 12"):
        model(torch.randn(1, 4, 3, 2))


def test_a_near_miss_is_told_what_it_missed():
    with pytest.raises(ValueError, match=r"Did you mean 'deep_sets'\?"):
        ol.create_model("DeepSets", 2, 1)
    with pytest.raises(ValueError, match=r"Did you mean 'instance'\?"):
        ol.create_model("deep_sets", 2, 1, norm="instances")


def test_integer_elements_are_to_be_cast_not_the_model():
    with pytest.raises(ValueError, match=r"Cast: `batch.to\(torch.float32\)`\.$"):
        ol.create_model("deep_sets", 2, 1, width=8)(torch.zeros(1, 3, 2, dtype=torch.int64))


def test_point_cloud_networks_are_those_of_the_appendix():
    model = ol.create_model("deep_sets_pointcloud", 3, 40).eval()
    x = torch.randn(5, 3)
    h = x
    for i in range(3):
        h = torch.tanh(model.encoder[3 * i + 1].bias + (h - h.amax(0)) @ model.encoder[3 * i + 1].weight.T)
    torch.testing.assert_close(model.encode(x[None]).x, h)
    assert [type(m).__name__ for m in model.decoder] == ["Dropout", "Linear", "Tanh", "Dropout", "Linear"]
    assert model(x[None]).shape == (1, 40)
    model = ol.create_model("set_transformer_pointcloud", 3, 40)
    assert [type(m).__name__ for m in model.encoder] == ["ElementLinear", "ISAB", "ISAB"]
    assert [type(m).__name__ for m in model.pool] == ["ElementDropout", "PMA", "ElementDropout"]


def test_the_table_names_every_model_and_value():
    lines = legal_table().splitlines()[: 1 + len(MODELS)]
    assert lines[0].split() == ["model", *CHOICES]
    for line, (name, spec) in zip(lines[1:], MODELS.items(), strict=True):
        assert line.split() == [name, *itertools.chain.from_iterable(getattr(spec, option) for option in CHOICES)]


def test_the_pairwise_cover_meets_every_pair_and_is_much_smaller_than_the_product():
    rows = all_legal()
    cover = pairwise(rows)

    def pairs(some):
        return {(a, row[a], b, row[b]) for row in some for a, b in itertools.combinations(row, 2)}

    assert pairs(cover) == pairs(rows)
    assert len(cover) < len(rows) / 5
    assert {row["name"] for row in rows} == set(MODELS) >= set(DEPTHS)
    assert len({repr(build(row)) for row in cover}) == len(cover)


def test_autocast_casts_no_float64_weights():
    model = ol.create_model("deep_sets", 2, 1, width=8).double()
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(ValueError, match=r"weights are torch\.float64 but the"):
        model(torch.randn(1, 3, 2))
