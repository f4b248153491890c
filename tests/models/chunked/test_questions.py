"""What layers ask of whole sets (`questions.py`): answers do not depend on the cut, and neither do their gradients."""

import pytest
import torch
from batches import make_batch

from orderless import SetBatch, ops
from orderless.models.chunked.passes import Total
from orderless.models.chunked.questions import Gathering, Max, Mean, Moments, Sum, centred
from orderless.models.chunked.source import cut

CPU = torch.device("cpu")
DIM, HEADS, POINTS = 4, 2, 3
SIZES = [5, 0, 1, 17, 1, 0]
CHUNKS = [1, 3, 7, 100]
SCALE = 0.5


def queries(num_sets):
    """Numbers that every dtype can hold."""
    return torch.randn(num_sets, POINTS, DIM, generator=torch.Generator().manual_seed(3)).bfloat16().double()


def gathering(x, chunk):
    q = chunk.of(queries(len(SIZES))).to(x.dtype)
    return Gathering(q, lambda: (x, x.flip(1)), chunk, num_heads=HEADS, scale=SCALE)


def attention_in_one_piece(batch):
    q = queries(batch.num_sets).to(batch.dtype)
    return ops.dense_query_attention(q, batch.x, batch.x.flip(1), batch.offsets, num_heads=HEADS, scale=SCALE)


def moments_in_one_piece(batch, *, per_feature=False):
    """(N, 1 or D, 2), zeros for an empty set."""
    found = []
    for x in batch:
        x = x if per_feature else x.reshape(-1, 1)
        mean = x.sum(0) / max(len(x), 1)
        found.append(torch.stack([mean, (x - mean).square().sum(0) / max(len(x), 1)], -1))
    return torch.stack(found)


def value_with_mean(answer):
    """The two numbers that the mean is kept as, as one."""
    return torch.stack([answer.value[..., 0] + answer.fixed[..., 0], answer.value[..., 1]], -1)


def plain_value(answer):
    return answer.value


QUESTIONS = {
    "moments": (Moments, moments_in_one_piece, value_with_mean),
    "moments per feature": (
        lambda x, chunk: Moments(x, chunk, per_feature=True),
        lambda batch: moments_in_one_piece(batch, per_feature=True),
        value_with_mean,
    ),
    "attention": (gathering, attention_in_one_piece, plain_value),
    "sum": (Sum, lambda batch: ops.set_sum(batch.x, batch.offsets), plain_value),
    "mean": (Mean, lambda batch: ops.set_mean(batch.x, batch.offsets), plain_value),
    "max": (Max, lambda batch: ops.set_max(batch.x, batch.offsets), plain_value),
}
every_question = pytest.mark.parametrize(("ask", "direct", "value"), QUESTIONS.values(), ids=QUESTIONS)


def answered(ask, batch, chunk_elements, *, order=1):
    """The answer of all sets, from chunks in their order or from the last to the first."""
    total = None
    for chunk in cut(batch.sizes.tolist(), chunk_elements, CPU)[::order]:
        question = ask(batch.x[chunk.start : chunk.stop].detach(), chunk)
        part = question.partial()
        assert all(p.dtype == torch.float64 for p in part)
        total = total or Total(part, question.neutral, batch.num_sets)
        total.add(chunk, part, question.merge)
    return question.answer(total.parts, question.wide)


@every_question
@pytest.mark.parametrize("order", [1, -1], ids=["forwards", "backwards"])
@pytest.mark.parametrize("chunk_elements", CHUNKS)
def test_the_answer_does_not_depend_on_the_cut(ask, direct, value, chunk_elements, order):
    batch = make_batch(SIZES, DIM)
    torch.testing.assert_close(value(answered(ask, batch, chunk_elements, order=order)), direct(batch), rtol=1e-12, atol=1e-12)


@every_question
@pytest.mark.parametrize("chunk_elements", CHUNKS)
def test_shares_have_the_gradient_of_the_answer(ask, direct, value, chunk_elements):
    batch = make_batch(SIZES, DIM)
    batch.x[3:5] = batch.x[2:3]  # a tie over several chunks
    batch.x.requires_grad_()
    expected = direct(batch)
    upstream = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    (wanted,) = torch.autograd.grad(expected, batch.x, upstream)
    answer = answered(ask, batch, chunk_elements)
    found = []
    for chunk in cut(SIZES, chunk_elements, CPU):
        x = batch.x[chunk.start : chunk.stop].detach().requires_grad_()
        share = ask(x, chunk).share(answer.of(chunk))
        found += torch.autograd.grad(share, x, chunk.of(upstream))
    torch.testing.assert_close(torch.cat(found), wanted, rtol=1e-11, atol=1e-11)


@every_question
def test_sets_without_elements_have_the_answer_of_one_piece(ask, direct, value):
    batch = make_batch([0] * len(SIZES), DIM)
    answer = value(answered(ask, batch, 3))
    assert torch.equal(answer, direct(batch))
    assert torch.equal(answer, torch.zeros_like(answer))


@pytest.mark.parametrize("chunk_elements", [1, 100, 10_000])
def test_an_offset_of_1e4_and_a_spread_of_1e_2_stay_right(chunk_elements):
    """As in `set_norm`. Around 1e4 float32 has steps of 1e-3; the mean, kept as two numbers, is right far below that."""
    x = (1e4 + 1e-2 * torch.randn(1000, 8, generator=torch.Generator().manual_seed(0))).float()
    batch = SetBatch(x, [0, 1000])
    moments = answered(Moments, batch, chunk_elements)
    exact = x.double()
    (chunk,) = cut([1000], 1000, CPU)
    h = centred(x, moments, chunk)
    # differences of neighbouring floats are exact, so what is left is the rounding of the rest of the mean
    torch.testing.assert_close(h.double(), exact - exact.mean(), rtol=0, atol=1e-9)
    torch.testing.assert_close(moments.value[0, 0, 1].double(), exact.var(correction=0), rtol=1e-6, atol=0)


def test_counts_beyond_what_float32_can_count_are_exact():
    ones = torch.ones(1, 1, dtype=torch.float64)
    many = (ones * 2**33, ones * 3.0, ones * 2**33)
    one = (ones, ones * 3.0, ones * 0)
    count, mean, squares = Moments.merge(many, one)
    assert (count.item(), mean.item(), squares.item()) == (2**33 + 1, 3.0, 2**33)


@pytest.mark.parametrize("level", [1e3, -1e3])
def test_scores_of_any_height_are_merged_without_overflow(level):
    batch = make_batch([40], DIM)
    batch.x[20:] += level  # the second half has scores far above or below those of the first

    def ask(x, chunk):
        q = torch.ones(1, POINTS, DIM, dtype=torch.float64)
        return Gathering(q, lambda: (x, x), chunk, num_heads=HEADS, scale=1.0)

    q = torch.ones(1, POINTS, DIM, dtype=torch.float64)
    expected = ops.dense_query_attention(q, batch.x, batch.x, batch.offsets, num_heads=HEADS, scale=1.0)
    torch.testing.assert_close(answered(ask, batch, 10).value, expected, rtol=1e-12, atol=1e-12)


@every_question
def test_statistics_of_lower_precision_are_in_float32(ask, direct, value):
    batch = make_batch(SIZES, DIM, dtype=torch.bfloat16)
    answer = answered(ask, batch, 3)
    assert answer.value.dtype == answer.fixed.dtype == torch.float32
    exact = direct(SetBatch(batch.x.double(), batch.offsets))
    torch.testing.assert_close(value(answer).double(), exact, rtol=1e-5, atol=1e-5)  # float32, not bfloat16 (4e-3)
