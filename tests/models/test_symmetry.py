"""Batching never changes the answer: every legal network, on sets of every awkward size, in three dtypes.

`make test` tries a pairwise cover of the options, `make test-all` every combination.
"""

import pytest
import torch
from batches import make_batch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from legal import all_legal, build, dim_of, pairwise, title

import orderless as ol
from orderless import SetBatch
from orderless.testing import (
    assert_equivariant,
    assert_invariant,
    assert_padding_ignored,
    assert_sets_independent,
)

LEGAL = all_legal()
COVER = pairwise(LEGAL)
REST = [row for row in LEGAL if row not in COVER]
ROWS = [pytest.param(row, id=title(row)) for row in COVER]
ROWS += [pytest.param(row, id=title(row), marks=pytest.mark.full) for row in REST]

every_network = pytest.mark.parametrize("row", ROWS)
some_sizes = st.lists(st.sampled_from([0, 1, 2, 3, 5, 31, 32, 33, 64]), min_size=1, max_size=5)


def trained(row, dtype=torch.float64):
    """A network with parameters and running statistics that are no longer those of a fresh one, in eval mode."""
    torch.manual_seed(1)
    model = build(row).to(dtype)
    model(make_batch([9, 4, 20], dim_of(row["name"]), seed=7, dtype=dtype))
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.1)
    return model.eval()


@every_network
def test_order_mates_and_padding_never_change_the_answer(row):
    model = trained(row)

    @settings(max_examples=4, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(sizes=some_sizes, seed=st.integers(0, 99))
    @example(sizes=[0, 1, 2, 1000], seed=0)
    @example(sizes=[0], seed=0)
    @example(sizes=[1], seed=0)
    def holds(sizes, seed):
        batch = make_batch(sizes, model.in_features, seed=seed)
        assert_symmetric(model, row, batch)

    holds()


@every_network
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_it_holds_in_lower_precision_too(row, dtype):
    assert_symmetric(trained(row, dtype), row, make_batch([0, 1, 2, 70], dim_of(row["name"]), dtype=dtype))


@every_network
def test_dense_packed_and_masked_input_give_the_same_answer(row):
    model = trained(row)
    dense = torch.randn(3, 40, model.in_features, dtype=torch.float64)
    packed = model(SetBatch.from_list(list(dense)))
    torch.testing.assert_close(values(model(dense)), values(packed), rtol=1e-9, atol=1e-9)
    mask = torch.rand(3, 40) > 0.5
    garbage = dense.masked_fill(~mask[..., None], torch.nan)
    expected = model(SetBatch.from_padded(dense, mask))
    torch.testing.assert_close(values(model(garbage, mask=mask)), values(expected), rtol=0, atol=0)


@every_network
def test_every_parameter_gets_a_finite_gradient(row):
    model = build(row).double()
    batch = make_batch([0, 1, 2, 40], model.in_features)
    batch.x.requires_grad_()
    values(model(batch)).square().sum().backward()
    assert batch.x.grad.isfinite().all()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, f"{name} is never used"
        assert parameter.grad.isfinite().all(), name


@every_network
def test_a_batch_of_no_sets_gives_no_answers(row):
    assert values(trained(row)(make_batch([], dim_of(row["name"])))).shape == (0, 3)


@every_network
def test_autocast_gives_nearly_the_same_answer(row):
    model = trained(row, torch.float32)
    batch = make_batch([3, 0, 40], model.in_features, dtype=torch.float32)
    plain = values(model(batch))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        lower = values(model(batch))
    assert lower.isfinite().all()
    if row["norm"] != "instance":  # it divides by the spread of each feature, which may be rounding and nothing else
        assert (lower.float() - plain).abs().max() <= 0.1 * plain.abs().max()


@every_network
def test_autocast_leaves_the_head_of_a_set_in_full_precision(row):
    model = trained(row, torch.float32)
    seen = []
    model.decoder.register_forward_hook(lambda module, inputs, output: seen.append((inputs[0].dtype, values(output).dtype)))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(make_batch([3, 0, 40], model.in_features, dtype=torch.float32))
    assert seen == [(torch.float32, torch.float32)] if row["output"] == "set" else seen[0][1] == torch.bfloat16


def assert_symmetric(model, row, batch):
    assert_order = assert_invariant if row["output"] == "set" else assert_equivariant
    assert_order(model, batch)
    assert_sets_independent(model, batch)
    assert_padding_ignored(model, batch)  # through SetBatch.from_padded
    assert_padding_ignored(model, batch, takes="mask")  # through model(x, mask)


def values(answer):
    return answer.x if isinstance(answer, SetBatch) else answer


def test_a_batch_of_no_sets_gives_gradients_of_zeros_to_all():
    """Or a process whose share of a batch is empty would leave weights without a gradient."""
    model = ol.create_model("set_transformer++", 2, 1, depth=2, width=8, num_heads=2, num_inducing=3)
    model(SetBatch(torch.zeros(0, 2), [0])).sum().backward()
    assert all(p.grad is not None and not p.grad.any() for p in model.parameters())


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_autocast_does_not_excuse_elements_that_it_does_not_cast(dtype):
    model = ol.create_model("deep_sets", 2, 1, depth=2, width=8)
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(ValueError, match=f"the elements are {dtype}"):
        model(SetBatch(torch.zeros(3, 2, dtype=dtype), [0, 3]))
