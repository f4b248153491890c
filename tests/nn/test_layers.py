"""What each layer means: `elementwise.py`, `residual.py`, `attention.py`, `pool.py`, `featurize.py` against their equations."""

import math

import pytest
import torch
from batches import make_batch

from orderless import SetBatch, create_model, nn, ops

DIM = 4


@pytest.fixture
def batch():
    return make_batch([5, 2, 0, 3], DIM)


def test_plain_layer_is_relu_of_norm_of_linear(batch):
    layer = nn.PlainLayer(DIM, 6, norm="set").double()
    expected = layer.norm(batch.with_x(batch.x @ layer.fc.weight.T)).x.relu()
    assert layer.fc.bias is None
    torch.testing.assert_close(layer(batch).x, expected)


def test_linear_layers_have_a_bias_only_without_a_norm():
    assert nn.PlainLayer(DIM, DIM, norm="none").fc.bias is not None
    assert nn.CleanBlock(DIM, norm="none").branch.fc2.bias is not None
    assert nn.CleanBlock(DIM, norm="layer").branch.fc2.bias is None


@pytest.mark.parametrize(
    "build",
    [
        lambda order: nn.CleanBlock(DIM, order=order),
        lambda order: nn.AggregatedBlock(DIM, "mean", order=order),
        lambda order: nn.MABPlusPlus(DIM, num_heads=2, order=order),
        lambda order: nn.SABPlusPlus(DIM, num_heads=2, order=order),
        lambda order: nn.PMAPlusPlus(DIM, num_heads=2, order=order),
        lambda order: nn.ISABPlusPlus(DIM, num_heads=2, num_inducing=2, order=order),
    ],
    ids=["clean", "aggregated", "MAB", "SAB", "PMA", "ISAB"],
)
def test_an_order_that_there_is_not_is_refused(build):
    with pytest.raises(ValueError, match="order must be one of released, paper; got 'Released'"):
        build("Released")


@pytest.mark.parametrize("kind", [nn.MAB, nn.MABPlusPlus], ids=["MAB", "MABPlusPlus"])
@pytest.mark.parametrize("is_dense", [(True, True), (True, False), (False, True), (False, False)], ids=str)
def test_sets_that_look_at_others_are_as_many(kind, is_dense):
    def some(num_sets, dense):
        sets = torch.randn(num_sets, 2, DIM)
        return SetBatch.from_padded(sets) if dense else SetBatch.from_list(list(sets))

    mab = kind(DIM, num_heads=2) if kind is nn.MABPlusPlus else kind(DIM, DIM, DIM, num_heads=2)
    for numbers in ((3, 1), (2, 3)):
        says = rf"as many sets of queries as of keys: got {numbers[0]} and {numbers[1]}"
        with pytest.raises(ValueError, match=says):
            mab(*(some(number, dense) for number, dense in zip(numbers, is_dense, strict=True)))


def test_every_key_has_a_value(batch):
    attend = nn.MultiheadAttention(DIM, DIM, DIM, num_heads=2).double()
    with pytest.raises(ValueError, match="there are 10 keys in 4 sets, and 9 values in 4"):
        attend(batch, batch, make_batch([5, 2, 0, 2], DIM))
    keys, values = (SetBatch(batch.x, offsets) for offsets in ([0, 4, 7, 7, 10], [0, 4, 6, 7, 10]))
    with pytest.raises(ValueError, match="keys and values must lie in the same sets, but set 1 has 3 keys and 2 values"):
        attend(batch, keys, values)
    assert attend(batch, keys, SetBatch(batch.x, keys.offsets)).num_elements == 10


def test_attention_refuses_numbers_that_cannot_be():
    with pytest.raises(TypeError, match="float"):
        nn.SAB(DIM, num_heads=2.0)
    with pytest.raises(ValueError, match="at least one learned point is needed, since sets are seen only through them; got 0"):
        nn.ISAB(DIM, DIM, num_heads=2, num_inducing=0)


def test_clean_block_adds_to_the_untouched_input_in_both_orders(batch):
    released, paper = (nn.CleanBlock(DIM, order=order).double() for order in ("released", "paper"))
    f = released.branch
    h = f.fc1(f.norm1(batch).x.relu())
    torch.testing.assert_close(released(batch).x, batch.x + f.fc2(f.norm2(batch.with_x(h)).x.relu()))
    f = paper.branch
    h = f.norm1(batch.with_x(f.fc1(batch.x))).x.relu()
    torch.testing.assert_close(paper(batch).x, batch.x + f.norm2(batch.with_x(f.fc2(h))).x)


def test_non_clean_block_has_a_relu_after_the_addition(batch):
    block = nn.NonCleanBlock(DIM).double()
    f = block.branch
    h = f.norm1(batch.with_x(f.fc1(batch.x))).x.relu()
    torch.testing.assert_close(block(batch).x, (batch.x + f.norm2(batch.with_x(f.fc2(h))).x).relu())


def test_freq_add_block_adds_once_a_layer_before_the_relu(batch):
    block = nn.FreqAddBlock(DIM).double()
    expected = (batch.x + block.norm(batch.with_x(block.fc(batch.x))).x).relu()
    torch.testing.assert_close(block(batch).x, expected)


@pytest.mark.parametrize("aggregate", ["mean", "max", "sum"])
def test_aggregated_block_adds_a_summary_of_the_set(batch, aggregate):
    block = nn.AggregatedBlock(DIM, aggregate).double()
    summary = {"mean": lambda s: s.mean(0), "max": lambda s: s.amax(0), "sum": lambda s: s.sum(0)}[aggregate]
    skip = torch.cat([summary(s).expand(len(s), DIM) for s in batch if len(s)])
    torch.testing.assert_close(block(batch).x, skip + block.branch(batch).x)


def test_an_unknown_aggregate_is_refused():
    with pytest.raises(ValueError, match="aggregate must be one of mean, max, sum; got 'median'"):
        nn.AggregatedBlock(DIM, "median")


def attend(layer, x, keys, values):
    """Attention of one set as in the paper: softmax of scores over the square root of the full width."""
    q, k, v = layer.fc_q(x), layer.fc_k(keys), layer.fc_v(values)
    parts = zip(q.chunk(layer.num_heads, 1), k.chunk(layer.num_heads, 1), v.chunk(layer.num_heads, 1), strict=True)
    return torch.cat([torch.softmax(a @ b.T / math.sqrt(layer.dim), 1) @ c for a, b, c in parts], 1)


def test_mab_is_its_equation():
    x, y = make_batch([3, 5], 2), make_batch([4, 6], 3, seed=1)
    mab = nn.MAB(2, 3, DIM, num_heads=2, norm="layer").double()
    f = torch.cat([mab.attend.fc_q(a) + attend(mab.attend, a, b, b) for a, b in zip(x, y, strict=True)])
    f = mab.attention_norm(x.with_x(f)).x
    torch.testing.assert_close(mab(x, y).x, mab.out_norm(x.with_x(f + mab.fc(f).relu())).x)


@pytest.mark.parametrize("order", ["released", "paper"])
@pytest.mark.parametrize("aggregate", [None, "mean", "max"])
def test_mab_plus_plus_is_its_equation(order, aggregate):
    x, y = make_batch([3, 5], DIM), make_batch([4, 6], DIM, seed=1)
    mab = nn.MABPlusPlus(DIM, num_heads=2, order=order, aggregate=aggregate).double()

    def skip(t):
        pool = {None: lambda s: s, "mean": lambda s: s.mean(0, keepdim=True), "max": lambda s: s.amax(0, keepdim=True)}
        return torch.cat([pool[aggregate](s).expand_as(s) for s in x.with_x(t)])

    queries, keys = mab.query_norm(x), mab.key_norm(y)
    values = keys if order == "released" else y
    attended = [attend(mab.attend, *one) for one in zip(queries, keys, values, strict=True)]
    h = skip(x.x) + torch.cat(attended)
    normed = mab.out_norm(x.with_x(h)).x
    branch = mab.fc(normed).relu() if order == "released" else mab.fc(normed.relu())
    torch.testing.assert_close(mab(x, y).x, skip(h) + branch)


@pytest.mark.parametrize("kind", [nn.SAB, nn.SABPlusPlus])
def test_an_element_that_sees_one_value_needs_no_scores(kind, monkeypatch):
    """The decoders of Set Transformers are such: a weight of 1, whatever its score, and nothing to learn for the scores."""
    block, x = kind(DIM, num_heads=2, norm="none").double(), SetBatch.from_padded(make_batch([1, 1, 1], DIM).x[:, None])
    attention = block.mab.attend
    unused = [*attention.fc_k.parameters(), *(attention.fc_q.parameters() if kind is nn.SABPlusPlus else [])]

    def answer_and_gradients():
        block.zero_grad()
        out = block(x).x
        out.square().sum().backward()
        return [out, *(p.grad for p in block.parameters())]

    monkeypatch.setattr(ops, "dense_query_attention", None)  # would be an error
    short = answer_and_gradients()
    assert all(torch.count_nonzero(p.grad) == 0 for p in unused)  # zeros, not none
    with torch.no_grad():
        torch.testing.assert_close(block(x).x, short[0])
    monkeypatch.undo()
    heard = []
    attention.fc_k.register_forward_hook(lambda _, __, keys: heard.append(len(keys)))
    torch.testing.assert_close(short, answer_and_gradients())
    assert heard == [3]  # who listens gets what there is to hear


def test_learned_points_enter_the_first_attention_without_a_norm():
    block = nn.ISABPlusPlus(DIM, num_heads=2, num_inducing=3)
    assert isinstance(block.gather.query_norm, torch.nn.Identity)
    assert isinstance(block.scatter.query_norm, nn.SetNorm)


@pytest.mark.parametrize("clean", [False, True])
def test_isab_gathers_into_points_and_scatters_back(batch, clean):
    points = {"num_heads": 2, "num_inducing": 3}
    block = (nn.ISABPlusPlus(DIM, **points) if clean else nn.ISAB(DIM, DIM, **points)).double()
    h = block.gather(SetBatch.repeat(block.points, len(batch)), batch)
    assert h.sizes.tolist() == [3] * len(batch)
    torch.testing.assert_close(block(batch).x, block.scatter(batch, h).x)


@pytest.mark.parametrize("norm", ["set", "layer", "instance"])
def test_norms_of_inducing_points_do_not_depend_on_the_size_of_the_set(norm):
    """The released code used only the first `size` of the points where a set was smaller than they are many."""
    block = nn.ISAB(DIM, DIM, num_heads=2, num_inducing=8, norm=norm).double()
    small = make_batch([2], DIM)
    doubled = SetBatch.from_list([small.x.repeat(6, 1)])  # the same distribution, so the same attention
    points = [block.gather(SetBatch.repeat(block.points, 1), b).x for b in (small, doubled)]
    torch.testing.assert_close(*points)


def test_pma_of_an_empty_set_is_what_the_seeds_give_alone():
    pma = nn.PMA(DIM, num_heads=2).double()
    q = pma.mab.attend.fc_q(pma.seeds)
    torch.testing.assert_close(pma(make_batch([0], DIM)).x, q + pma.mab.fc(q).relu())


def test_points_are_initialised_as_in_the_original():
    bound = math.sqrt(6 / ((32 + 1) * 128))
    points = nn.ISAB(2, 128, num_heads=4, num_inducing=32).points
    assert 0.95 * bound < points.abs().max() <= bound


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(ValueError, match="10 features cannot be split into 4 heads"):
        nn.SAB(10, num_heads=4)


def test_dropout_drops_only_in_training(batch):
    layer = nn.ElementDropout(0.5)
    assert (layer(batch).x == 0).any()
    assert torch.equal(layer.eval()(batch).x, batch.x)


@pytest.mark.parametrize("activation", ["none", "relu"])
def test_conv_featurizer_makes_256_features_of_nine_convolutions(activation):
    featurizer = nn.ConvFeaturizer(activation=activation)
    out = featurizer(torch.randn(2, 3, 64, 64))
    assert out.shape == (2, featurizer.out_features) == (2, 256)
    convolutions = [m for m in featurizer.modules() if isinstance(m, torch.nn.Conv2d)]
    assert [c.out_channels for c in convolutions] == [32, 32, 64, 64, 64, 128, 128, 128, 256]
    assert sum(isinstance(m, torch.nn.ReLU) for m in featurizer.modules()) == (9 if activation == "relu" else 0)
    assert activation in repr(featurizer).splitlines()[1]


def test_images_lie_channels_last_on_their_way_through_convolutions_and_give_the_same_features():
    featurizer, images, seen = nn.ConvFeaturizer().double(), torch.randn(2, 3, 64, 64, dtype=torch.float64), []
    plain = torch.nn.Sequential(*featurizer.layers)(images).flatten(1)
    for layer in featurizer.layers:
        layer.register_forward_hook(lambda _, args, out: seen.append(args[0].is_contiguous(memory_format=torch.channels_last)))
    torch.testing.assert_close(featurizer(images), plain, atol=1e-12, rtol=0)  # sums in another order
    assert seen == [True] * 12
    by_vmap = torch.func.vmap(torch.nn.Sequential(nn.ConvFeaturizer().double().eval()))(images[:, None])
    assert by_vmap.shape == (2, 1, 256)


def test_conv_featurizer_refuses_other_image_sizes():
    with pytest.raises(ValueError, match=r"takes images of shape \(3, 64, 64\), got \(3, 32, 32\).*resized to 64 x 64"):
        nn.ConvFeaturizer()(torch.randn(2, 3, 32, 32))
    with pytest.raises(ValueError, match=r"got \(1, 64, 64\).*ConvFeaturizer\(in_channels\)"):
        nn.ConvFeaturizer()(torch.randn(2, 1, 64, 64))
    with pytest.raises(ValueError, match=r"must be floating point, got torch.uint8.*/ 255"):
        nn.ConvFeaturizer()(torch.zeros(2, 3, 64, 64, dtype=torch.uint8))
    with pytest.raises(ValueError, match="activation must be one of none, relu; got 'gelu'"):
        nn.ConvFeaturizer(activation="gelu")


def test_the_standardizer_counts_in_spreads_from_the_mean():
    standardizer = nn.Standardizer([100.0, -2.0], [50.0, 0.5])
    x = torch.tensor([[100.0, -2.0], [200.0, -2.25], [0.0, 0.0]])
    assert torch.equal(standardizer(x), torch.tensor([[0.0, 0.0], [2.0, -0.5], [-2.0, 4.0]]))
    assert standardizer(x[:0]).shape == (0, 2)
    assert standardizer.out_features == 2
    assert repr(standardizer) == "Standardizer(2, clip=10)"


def test_the_standardizer_clips_what_is_far_away():
    x = torch.tensor([[-1e9], [-3.0], [2.0], [3.0], [torch.inf]])
    assert nn.Standardizer([0.0], [1.0], clip=2.5)(x).flatten().tolist() == [-2.5, -2.5, 2.0, 2.5, 2.5]
    assert nn.Standardizer([0.0], [1.0])(x).abs().max() == 10


def test_the_standardizer_has_nothing_to_learn_and_lets_gradients_through():
    standardizer = nn.Standardizer([1.0, 2.0], [4.0, 0.5], clip=3)
    assert not list(standardizer.parameters())
    assert set(standardizer.state_dict()) == {"mean", "spread"}
    x = torch.tensor([[0.0, 2.0], [100.0, 2.0]], requires_grad=True)
    standardizer(x).sum().backward()
    assert torch.equal(x.grad, torch.tensor([[0.25, 2.0], [0.0, 2.0]]))  # none where it clips


def test_the_standardizer_keeps_its_digits_under_autocast():
    """Pixels near 200 are a whole number apart in bfloat16."""
    model = create_model("deep_sets++", 2, 1, depth=2, width=8, featurizer=nn.Standardizer([200.0, 1e4], [0.1, 1.0]))
    x = torch.tensor([200.0, 1e4]) + torch.randn(7, 2) * torch.tensor([0.1, 1.0])
    seen = []
    model.featurizer.register_forward_hook(lambda module, inputs, output: seen.append(output))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        answer = model(SetBatch(x, [0, 3, 7]))
    assert seen[0].dtype == answer.dtype == torch.float32
    assert torch.equal(seen[0], nn.Standardizer([200.0, 1e4], [0.1, 1.0])(x))


@pytest.mark.parametrize(
    ("mean", "spread", "message"),
    [
        (0.0, 1.0, r"must both be \(D,\), got \(\) and \(\)"),
        ([[0.0]], [[1.0]], r"got \(1, 1\) and \(1, 1\)"),
        ([0.0], [1.0, 1.0], r"got \(1,\) and \(2,\)"),
        ([0.0, 0.0], [1.0, 0.0], "give 1 for a feature that does not vary"),
        ([0.0], [-1.0], "spreads finite and above 0"),
        ([0.0], [math.nan], "spreads finite and above 0"),
        ([math.inf], [1.0], "means must be finite"),
    ],
    ids=["numbers", "matrices", "lengths", "no spread", "below 0", "nan", "inf"],
)
def test_the_standardizer_refuses_numbers_that_are_no_mean_and_spread(mean, spread, message):
    with pytest.raises(ValueError, match=message):
        nn.Standardizer(mean, spread)


@pytest.mark.parametrize("clip", [0, -1, math.nan, "ten"])
def test_the_standardizer_clips_above_0(clip):
    with pytest.raises(ValueError, match=f"clip must be a number above 0, got {clip!r}"):
        nn.Standardizer([0.0], [1.0], clip=clip)


@pytest.mark.parametrize("shape", [(5,), (5, 1), (5, 3), (5, 2, 2)], ids=str)
def test_the_standardizer_refuses_elements_of_another_shape(shape):
    with pytest.raises(ValueError, match=r"takes elements of 2 features, got shape \("):
        nn.Standardizer([0.0, 0.0], [1.0, 1.0])(torch.zeros(shape))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_standardizer_keeps_its_own_digits_in_low_precision(dtype):
    standardizer = nn.Standardizer([100_000.0, 1.0], [10_000.0, 0.001])
    x = torch.tensor([[50_000.0, 1.0]])
    expected = standardizer(x)
    standardizer = standardizer.to(dtype)
    assert (standardizer.mean.dtype, standardizer.spread.dtype) == (torch.float32, torch.float32)
    found = standardizer(x.to(dtype))
    assert found.dtype == dtype
    torch.testing.assert_close(found.float(), expected, rtol=0.05, atol=0.05)  # one rounding of the elements, of 50,000 by 100
    assert standardizer.double().mean.dtype == torch.float64


def test_queries_of_sets_without_a_key_get_zeros_however_the_keys_are_laid_out():
    queries, mab = make_batch([3, 2], 4), nn.MAB(4, 6, 8, num_heads=2).double()
    none = torch.zeros(2, 0, 6, dtype=torch.float64, requires_grad=True)
    dense = mab(queries, SetBatch.from_padded(none))
    packed = mab(queries, SetBatch(none.reshape(0, 6), torch.zeros(3, dtype=torch.int64)))
    torch.testing.assert_close(dense.x, packed.x, rtol=0, atol=0)
    (gradient,) = torch.autograd.grad(dense.x.sum(), none)
    assert gradient.shape == none.shape
