"""Networks as steps and walks (`steps.py`, `layers.py`): where activations are kept, what is asked, and what cannot be asked."""

import pytest
import torch
from legal import NOT_IN_CHUNKS, all_legal, build
from torch import nn

import orderless as ol
from orderless.models.chunked.layers import WALKS
from orderless.models.chunked.passes import num_passes, places_to_keep
from orderless.models.chunked.questions import Gathering, Max, Mean, Moments, Sum
from orderless.models.chunked.source import Chunk
from orderless.models.chunked.steps import check_supported, plan
from orderless.nn import SAB, ConvFeaturizer

CHUNK = Chunk.make(0, 0, 0, [0], torch.device("cpu"))


def planned(name="deep_sets++", **options):
    model = ol.create_model(name, 2, 1, **options)
    with torch.no_grad():
        return plan(model, torch.empty(0, 2))


def kinds_of_questions(step, x):
    """What a step asks, with answers for sets of no element."""
    asked, answers = [], []
    while True:
        questions, out = step.follow(x, CHUNK, answers)
        if out is not None:
            return asked, out
        question = questions[-1]
        asked.append(type(question))
        answers.append(question.answer(question.partial(), question.wide))


def test_a_deep_sets_block_asks_twice_and_the_network_is_cut_between_blocks():
    steps = planned(depth=6, width=8)
    assert [step.num_questions for step in steps] == [0, 2, 2, 2, 2]  # linear; three blocks; norm, ReLU, linear, pooling
    assert [type(layer).__name__ for layer in steps[-1].layers] == ["SetNorm", "ElementReLU", "ElementLinear", "SumPool"]
    assert [tuple(step.example.shape) for step in steps] == [(0, 8)] * 5


def test_an_induced_attention_block_asks_three_times():
    """Its elements are keys and queries, normalised by the same mean and variance, which are asked for once."""
    steps = planned("set_transformer++", depth=2, width=8, num_heads=2, num_inducing=3)
    assert [step.num_questions for step in steps] == [0, 3, 3, 2]
    asked, _ = kinds_of_questions(steps[1], steps[0].example)
    assert asked == [Moments, Gathering, Moments]
    asked, _ = kinds_of_questions(steps[-1], steps[-2].example)
    assert asked == [Moments, Gathering]


@pytest.mark.parametrize(("pool", "kind"), [("sum", Sum), ("mean", Mean), ("max", Max), ("attention", Gathering)])
def test_pooling_asks_once(pool, kind):
    steps = planned(depth=2, width=8, pool=pool)
    asked, answer = kinds_of_questions(steps[-1], steps[-2].example)
    assert asked == [Moments, kind]
    assert answer.shape == (1, 1)


@pytest.mark.parametrize(
    ("name", "depth", "there", "there_and_back", "places"),
    [("deep_sets++", 50, 52, 130, 26), ("set_transformer++", 16, 50, 117, 17)],
)
def test_the_passes_of_the_papers_networks(name, depth, there, there_and_back, places):
    """The figures of the documentation."""
    steps = planned(name, depth=depth, width=8)
    assert num_passes(steps, pooled=True, for_backward=False) == there
    assert num_passes(steps, pooled=True, for_backward=True) == there_and_back
    assert len(places_to_keep(steps, pooled=True, for_backward=True)) == places


def test_a_featurizer_is_a_step_of_its_own():
    """Where the first layer asks, images would otherwise go through the convolutions once for each of its questions."""
    model = ol.create_model(
        "set_transformer", 256, 1, depth=1, width=8, num_heads=2, num_inducing=3, featurizer=ConvFeaturizer(1)
    )
    with torch.no_grad():
        steps = plan(model, torch.empty(0, 1, 64, 64))
    assert [(step.before is not None, step.num_questions) for step in steps] == [(True, 0), (False, 2)]
    assert steps[0].example.shape == (0, 256)


def test_a_network_without_numbers_is_refused():
    with torch.device("meta"):
        model = ol.create_model("deep_sets++", 2, 1, depth=2, width=8)
    with pytest.raises(ValueError, match=r"meta device, which has shapes and no numbers.*call the model itself for its shapes"):
        check_supported(model)


def test_every_legal_network_has_a_plan():
    for row in all_legal():
        model = build(row).eval()
        if row["name"] in NOT_IN_CHUNKS:
            with pytest.raises(ValueError, match=f"{row['name'].replace('+', '.')} cannot be computed in chunks"):
                check_supported(model)
            continue
        check_supported(model)
        with torch.no_grad():
            steps = plan(model, torch.empty(0, 2))
        walked = [layer for step in steps for layer in step.layers]
        encoder = list(model.encoder)
        assert walked == encoder + ([model.pool] if model.pool is not None else []), row
        assert all(step.num_questions for step in steps[1:]), row


# ------------------------------------------------------------------------------------------------------------- refusals


def test_what_is_no_network_of_ours_is_refused():
    with pytest.raises(TypeError, match="only networks of create_model can be computed in chunks, got Linear"):
        check_supported(nn.Linear(2, 2))


def test_a_layer_without_a_walk_is_refused_with_those_that_have_one():
    model = ol.create_model("deep_sets++", 2, 1, depth=2, width=8)
    model.encoder.append(SAB(8, num_heads=2))
    with pytest.raises(ValueError, match=r"SAB cannot be computed in chunks.*CleanBlock.*ISABPlusPlus.*SetNorm"):
        check_supported(model)


def test_a_layer_derived_from_ours_is_not_taken_for_ours():
    class Doubled(ol.nn.ElementReLU):
        def forward(self, batch):
            return batch.with_x(2 * super().forward(batch).x)

    model = ol.create_model("deep_sets++", 2, 1, depth=2, width=8)
    model.encoder.append(Doubled())
    with pytest.raises(ValueError, match="Doubled cannot be computed in chunks"):
        check_supported(model)


@pytest.mark.parametrize(
    ("name", "options", "kind"),
    [
        ("deep_sets++", {"norm": "feature"}, "FeatureNorm"),
        ("deep_sets++", {"norm": "batch"}, "BatchNorm"),
        ("set_transformer_pointcloud", {}, "ElementDropout"),
        ("deep_sets", {"featurizer": nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))}, "BatchNorm1d"),
        ("deep_sets", {"featurizer": nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.1))}, "Dropout"),
    ],
)
def test_what_changes_from_pass_to_pass_is_refused_in_training_mode_only(name, options, kind):
    model = ol.create_model(name, 2, 1, **options)
    with pytest.raises(ValueError, match=rf"{kind} in training mode.*model\.eval\(\).*norm='set'"):
        check_supported(model)
    check_supported(model.eval())


def test_dropout_that_drops_nothing_is_no_obstacle():
    check_supported(ol.create_model("deep_sets", 2, 1, featurizer=nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.0))))


def test_a_decoder_may_drop_as_it_likes():
    """It is computed once, for all sets."""
    check_supported(ol.create_model("deep_sets_pointcloud", 2, 1))


def test_every_layer_with_a_walk_is_one_that_networks_are_made_of():
    used = {type(module) for row in all_legal() for module in build(row).modules()}
    assert set(WALKS) <= used | {nn.Identity, nn.Sequential}


def test_a_layer_that_somebody_listens_to_is_not_computed_in_chunks():
    model = ol.create_model("deep_sets", 2, 1, depth=3, width=8)
    handle = model.encoder[0].register_forward_hook(lambda *_: None)
    with pytest.raises(ValueError, match="a layer has a hook, which chunks would not call"):
        check_supported(model)
    handle.remove()
    check_supported(model)
