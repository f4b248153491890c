"""`predict` and `forward` (`calls.py`): the answer and the gradients of one shot, for every network and every cut."""

import numpy as np
import pytest
import torch
from batches import make_batch
from legal import NOT_IN_CHUNKS, all_legal, build, pairwise, title

import orderless as ol
from orderless import SetBatch
from orderless.models import chunked
from orderless.nn import ConvFeaturizer, Standardizer

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")

RAGGED = [5, 0, 1, 17, 1, 0]
LEGAL = [row for row in all_legal() if row["name"] not in NOT_IN_CHUNKS]
COVER = pairwise(LEGAL)
ROWS = [pytest.param(row, id=title(row)) for row in COVER]
ROWS += [pytest.param(row, id=title(row), marks=pytest.mark.full) for row in LEGAL if row not in COVER]
every_network = pytest.mark.parametrize("row", ROWS)

MAIN = {
    f"{name} {order} {pool}": (name, {"order": order, "pool": pool, "depth": depth, "width": 8})
    for name, depth in (("deep_sets++", 4), ("set_transformer++", 2))
    for order in ("released", "paper")
    for pool in ("sum", "mean", "max", "attention")
}
DEFAULT = ["deep_sets++ released sum", "set_transformer++ released attention"]
the_two = pytest.mark.parametrize("which", DEFAULT)


def make_model(which, dtype=torch.float64, **more):
    """A network whose parameters are no longer those of a fresh one."""
    name, options = MAIN[which]
    torch.manual_seed(0)
    return stir(ol.create_model(name, 2, 3, **{**options, **more}).to(dtype))


def stir(model):
    torch.manual_seed(1)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.1)
    return model


def values(answer):
    return answer.x if isinstance(answer, SetBatch) else answer


def one_shot(model, batch):
    return answer_and_gradients(model, batch, model)


def in_chunks(model, batch, **options):
    return answer_and_gradients(model, batch, lambda sets: chunked.forward(model, sets, **options))


def answer_and_gradients(model, batch, call):
    """The answer, and gradients of the elements and of every parameter."""
    model.zero_grad()
    x = batch.x.detach().clone().requires_grad_()
    answer = values(call(SetBatch(x, batch.offsets)))
    weights = torch.linspace(-1, 1, answer.numel(), dtype=answer.dtype, device=answer.device).reshape(answer.shape)
    (answer * weights).sum().backward()
    return answer.detach(), [torch.zeros_like(p) if p.grad is None else p.grad for p in (x, *model.parameters())]


def assert_same(found, expected, *, rtol):
    """Equal relative to the largest number, of the answer and of all gradients: some are zero but for the rounding of others."""
    (answer, gradients), (exact, exact_gradients) = found, expected
    assert_near(answer, exact, rtol * size([exact]))
    for gradient, exact_gradient in zip(gradients, exact_gradients, strict=True):
        assert_near(gradient, exact_gradient, rtol * size(exact_gradients))


def assert_near(found, expected, atol):
    torch.testing.assert_close(found, expected, rtol=0, atol=atol)


def size(tensors):
    return max([t.abs().max().item() for t in tensors if t.numel()], default=0.0)


# ---------------------------------------------------------------------------------------------------- equal to one shot


@pytest.mark.parametrize("chunk_elements", [1, 7, 1000])
@pytest.mark.parametrize("which", MAIN)
def test_the_networks_of_the_paper_answer_and_learn_as_in_one_shot(which, chunk_elements):
    model, batch = make_model(which), make_batch(RAGGED, 2)
    expected = one_shot(model, batch)
    assert_same(in_chunks(model, batch, chunk_elements=chunk_elements), expected, rtol=1e-10)
    assert_near(chunked.predict(model, batch, chunk_elements=chunk_elements), expected[0], 1e-10 * size([expected[0]]))


@every_network
def test_so_does_every_other_network(row):
    torch.manual_seed(0)
    model = build(row).double()
    model(make_batch([9, 4, 20], 2, seed=7))  # running statistics of a batch
    stir(model)
    if row["norm"] in ("feature", "batch") or "pointcloud" in row["name"]:
        model.eval()
    batch = make_batch(RAGGED, 2)
    expected = one_shot(model, batch)
    # instance norm divides by the spread of a feature, which in a set of one element is nothing: rounding grows with every layer
    rtol = 1e-5 if row["norm"] == "instance" else 1e-10
    assert_same(in_chunks(model, batch, chunk_elements=4), expected, rtol=rtol)
    assert_near(values(chunked.predict(model, batch, chunk_elements=4)), expected[0], rtol * size([expected[0]]))


@the_two
@pytest.mark.parametrize("sizes", [[0], [1], [0, 0], [], [40], [3, 1, 0]], ids=str)
def test_sets_of_awkward_sizes_do_as_well(which, sizes):
    model, batch = make_model(which), make_batch(sizes, 2)
    expected = one_shot(model, batch)
    for chunk_elements in (1, 7):
        assert_same(in_chunks(model, batch, chunk_elements=chunk_elements), expected, rtol=1e-10)
        found = chunked.predict(model, batch, chunk_elements=chunk_elements)
        assert found.shape == expected[0].shape
        assert_near(found, expected[0], 1e-10 * size([expected[0]]))


@the_two
@pytest.mark.parametrize("keep", ["auto", "device", "host", "disk", "nothing"])
def test_it_does_not_matter_where_activations_are_kept(which, keep, tmp_path):
    model, batch = make_model(which), make_batch([60, 3], 2)
    expected = one_shot(model, batch)
    assert_same(in_chunks(model, batch, chunk_elements=11, keep=keep, folder=tmp_path), expected, rtol=1e-10)
    found = chunked.predict(model, batch, chunk_elements=11, keep=keep, folder=tmp_path)
    assert_near(found, expected[0], 1e-10 * size([expected[0]]))
    assert list(tmp_path.iterdir()) == []


@the_two
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_lower_precision_is_as_accurate_as_in_one_shot(which, dtype):
    """At most twice as far from the float64 answer as one shot is, plus one rounding: the same roundings in another order.

    For gradients that holds of all of them together, and of each beside the worst of one shot's: a single one of those may be
    near by luck.
    """
    low, batch = make_model(which, dtype), make_batch([3000, 40, 0, 1], 2, dtype=dtype)
    exact_model = make_model(which)
    exact_model.load_state_dict(low.state_dict())
    exact = one_shot(exact_model, SetBatch(batch.x.double(), batch.offsets))
    plain, found = one_shot(low, batch), in_chunks(low, batch, chunk_elements=512)
    assert [g.dtype for g in found[1]] == [g.dtype for g in plain[1]]
    step = torch.finfo(dtype).eps

    def errors(pair):
        return [(mine.double() - truth).flatten() for mine, truth in zip((pair[0], *pair[1]), (exact[0], *exact[1]), strict=True)]

    mine, its = errors(found), errors(plain)
    assert mine[0].abs().max() <= 2 * its[0].abs().max() + step * size([exact[0]])
    truth = torch.cat([g.flatten() for g in exact[1]])
    assert torch.cat(mine[1:]).norm() <= 2 * torch.cat(its[1:]).norm() + step * truth.norm()
    for one in mine[1:]:
        assert size([one]) <= 2 * size(its[1:]) + step * size(exact[1])


@the_two
def test_statistics_are_not_those_of_low_precision(which):
    """bfloat16 elements around 100: a mean summed in bfloat16 would be off by percents."""
    model, batch = make_model(which, torch.bfloat16), make_batch([2000], 2, dtype=torch.bfloat16)
    batch = batch.with_x(batch.x + 100)
    plain = model(batch).float()
    assert_near(chunked.predict(model, batch, chunk_elements=64).float(), plain, 2**-5 * size([plain]))


@the_two
def test_autocast_holds_on_the_way_back_too(which):
    """And weights that were cast without gradients are not used where gradients are wanted, such as in the pooling."""
    model, batch = make_model(which, torch.float32), make_batch([300, 1, 20], 2, dtype=torch.float32)
    expected = one_shot(model, batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        plain, found = one_shot(model, batch), in_chunks(model, batch, chunk_elements=64)
    assert found[0].dtype == plain[0].dtype == torch.float32  # of the head
    for lower in (found[0], plain[0]):  # of what is below it
        assert 2**-14 * size([expected[0]]) < (lower - expected[0]).abs().max() < 2**-4 * size([expected[0]])
    names = ["elements", *(name for name, _ in model.named_parameters())]
    for name, mine, its, truth in zip(names, found[1], plain[1], expected[1], strict=True):
        bound = 2 * (its - truth).abs().max() + 2**-8 * size(expected[1])
        assert (mine - truth).abs().max() <= bound, name


# --------------------------------------------------------------------------------------------------------- what is taken


@the_two
def test_a_set_is_predicted_from_wherever_it_comes(which, tmp_path):
    model, x = make_model(which, torch.float32), make_batch([100], 2, dtype=torch.float32).x
    expected = model(x[None]).detach()
    np.save(tmp_path / "x.npy", x.double().numpy())
    given = {
        "tensor": x,
        "mapped": np.load(tmp_path / "x.npy", mmap_mode="r"),  # and in another precision
        "function": lambda: iter(x.split(9)),
        "counted": chunked.Blocks(lambda: iter(x.split(9)), 100),
        "batch": SetBatch(x, [0, 100]),
        "list": [x],
    }
    for form, sets in given.items():
        found = chunked.predict(model, sets, chunk_elements=30)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5, msg=form)


def test_large_and_small_sets_are_predicted_together():
    model = make_model(DEFAULT[0])
    batch = make_batch([1, 2, 0, 30, 3, 4, 9, 0, 2], 2)
    found = chunked.predict(model, [lambda x=x: iter(x.split(4)) for x in batch.to_list()], chunk_elements=8)
    assert_near(found, model(batch).detach(), 1e-10 * size([found]))


@pytest.mark.parametrize("keep", ["auto", "disk", "nothing"])
def test_an_answer_for_every_element_comes_as_sets(keep):
    model, batch = make_model(DEFAULT[0], pool=None, output="element"), make_batch(RAGGED, 2)
    found = chunked.predict(model, batch, chunk_elements=4, keep=keep)
    assert found.sizes.tolist() == RAGGED
    assert_near(found.x, model(batch).x.detach(), 1e-10)
    assert_same(in_chunks(model, batch, chunk_elements=4, keep=keep), one_shot(model, batch), rtol=1e-10)


def test_images_go_through_their_featurizer_chunk_by_chunk():
    torch.manual_seed(0)
    options = {"depth": 2, "width": 8, "featurizer": ConvFeaturizer(1)}
    model = ol.create_model("deep_sets++", 256, 3, **options).double()
    images = SetBatch(torch.rand(5, 1, 64, 64, dtype=torch.float64), [0, 3, 5])
    expected = one_shot(model, images)
    assert_same(in_chunks(model, images, chunk_elements=2), expected, rtol=1e-10)
    assert_near(chunked.predict(model, images, chunk_elements=2), expected[0], 1e-10)
    assert_near(chunked.predict(model, images), expected[0], 1e-10)


@the_two
def test_elements_are_standardised_chunk_by_chunk(which):
    model = make_model(which, featurizer=Standardizer([100.0, -3.0], [30.0, 0.1], clip=2))
    batch = make_batch(RAGGED, 2)
    batch = batch.with_x(batch.x * model.featurizer.spread + model.featurizer.mean)
    expected = one_shot(model, batch)
    assert_same(in_chunks(model, batch, chunk_elements=4), expected, rtol=1e-10)
    assert_near(chunked.predict(model, batch, chunk_elements=4), expected[0], 1e-10 * size([expected[0]]))


def test_a_standardizer_makes_chunks_no_smaller_and_elements_are_cast():
    plain = ol.create_model("deep_sets++", 2, 1, depth=2, width=8)
    model = ol.create_model("deep_sets++", 2, 1, depth=2, width=8, featurizer=Standardizer([1.0, 2.0], [3.0, 4.0]))
    model.load_state_dict(plain.state_dict(), strict=False)
    assert chunked.calls._chunk_elements(model, None) == chunked.calls._chunk_elements(plain, None)
    elements = torch.randn(50, 2, dtype=torch.float64)
    with torch.no_grad():
        expected = model(elements.float()[None])
    torch.testing.assert_close(chunked.predict(model, elements, chunk_elements=16), expected)


def test_sets_on_disk_are_predicted_from_their_store(tmp_path):
    from small_runs import small_task

    data = small_task(tmp_path, num_train=4, set_size=50)
    model = stir(data.create_model("deep_sets++", depth=4, width=8))
    found = chunked.predict(model, [lambda i=i: data.train.blocks(i, 7) for i in range(4)], chunk_elements=16)
    torch.testing.assert_close(found, model(data.train[:4].sets).detach(), rtol=1e-5, atol=1e-5)


def test_without_a_wish_a_chunk_has_so_many_numbers_a_layer():
    size_of = chunked.calls._chunk_elements
    assert size_of(ol.create_model("deep_sets++", 2, 1), None) == 2**22 // 128
    assert size_of(ol.create_model("deep_sets++", 784, 1), None) == 2**22 // 784
    assert size_of(ol.create_model("set_transformer++", 2, 1, num_inducing=128), None) == 2**22 // 512
    assert size_of(ol.create_model("deep_sets++", 256, 1, featurizer=ConvFeaturizer(1)), None) == 256


@pytest.mark.parametrize("wrong", [0, -1, 2.5, True, "all"])
def test_a_chunk_has_at_least_one_element(wrong):
    with pytest.raises(ValueError, match="chunk_elements must be a whole number of at least 1"):
        chunked.predict(make_model(DEFAULT[0]), torch.zeros(3, 2), chunk_elements=wrong)


def test_elements_of_another_shape_are_refused():
    with pytest.raises(
        ValueError, match=r"every element must have the shape \(2,\), but those of set 0 from element 0 on have \(3,\)"
    ):
        chunked.predict(make_model(DEFAULT[0]), torch.zeros(5, 3), chunk_elements=2)


# ------------------------------------------------------------------------------------------------------------- gradients


@the_two
def test_gradients_are_added_to_those_that_are_there(which):
    model, batch = make_model(which), make_batch([20], 2)
    once = one_shot(model, batch)[1][1:]
    model.zero_grad()
    for _ in range(2):
        chunked.forward(model, batch, chunk_elements=6).mul(torch.linspace(-1, 1, 3)).sum().backward()
    for p, gradient in zip(model.parameters(), once, strict=True):
        assert_near(p.grad, 2 * gradient, 1e-10 * size(once))


def test_a_step_of_training_ends_where_one_shot_ends():
    batch, target = make_batch([50, 3, 0], 2), torch.randn(3, 3, dtype=torch.float64)
    ends = []
    for call in (lambda m: m(batch), lambda m: chunked.forward(m, batch, chunk_elements=7)):
        model = make_model(DEFAULT[0])
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)  # Adam would blow up the rounding of gradients that are zero
        for _ in range(3):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(call(model), target).backward()
            optimizer.step()
        ends.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert_near(ends[1], ends[0], 1e-10)
    assert not torch.equal(ends[0], torch.cat([p.detach().flatten() for p in make_model(DEFAULT[0]).parameters()]))


def test_frozen_weights_get_no_gradient_and_the_others_the_same():
    model, batch = make_model(DEFAULT[0]), make_batch([20], 2)
    expected = one_shot(model, batch)[1][1:]
    for name, p in model.named_parameters():
        p.requires_grad_("encoder.0" not in name and "norm1" not in name)
    model.zero_grad()
    chunked.forward(model, batch, chunk_elements=6).mul(torch.linspace(-1, 1, 3)).sum().backward()
    for p, gradient in zip(model.parameters(), expected, strict=True):
        assert (p.grad is not None) == p.requires_grad
        if p.requires_grad:
            assert_near(p.grad, gradient, 1e-10 * size(expected))


def test_gradients_of_elements_alone():
    model, batch = make_model(DEFAULT[0]).requires_grad_(False), make_batch([20], 2)
    x = batch.x.requires_grad_()
    wanted, found = (
        torch.autograd.grad(call(x).sum(), x)[0]
        for call in (lambda x: model(x[None]), lambda x: chunked.forward(model, x, chunk_elements=6))
    )
    assert_near(found, wanted, 1e-10)


def test_elements_may_come_out_of_another_network():
    """Which then learns as well."""
    model, before = make_model(DEFAULT[0]), torch.nn.Linear(4, 2).double()
    raw = make_batch([20], 4).x
    gradients = []
    for call in (lambda x: model(x[None]), lambda x: chunked.forward(model, x, chunk_elements=6)):
        before.zero_grad()
        call(before(raw)).sum().backward()
        gradients.append(before.weight.grad.clone())
    assert_near(gradients[1], gradients[0], 1e-10)


def test_a_list_of_sets_that_want_gradients_is_refused():
    with pytest.raises(ValueError, match=r"use SetBatch\.from_list"):
        chunked.forward(make_model(DEFAULT[0]), [torch.zeros(3, 2).requires_grad_()])


def test_without_gradients_nothing_is_remembered():
    model, batch = make_model(DEFAULT[0]), make_batch([20], 2)
    with torch.no_grad():
        assert not chunked.forward(model, batch, chunk_elements=6).requires_grad
    assert not chunked.predict(model, batch, chunk_elements=6).requires_grad
    assert not chunked.forward(model.requires_grad_(False), batch, chunk_elements=6).requires_grad


def test_weights_that_change_before_the_way_back_are_noticed():
    model, batch = make_model(DEFAULT[0]), make_batch([20], 2)
    answer = chunked.forward(model, batch, chunk_elements=6)
    with torch.no_grad():
        model.encoder[0].weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        answer.sum().backward()


def test_elements_that_change_before_the_way_back_are_noticed():
    model, batch = make_model(DEFAULT[0]), make_batch([20], 2)
    answer = chunked.forward(model, batch, chunk_elements=6)
    batch.x[7] = 0
    with pytest.raises(chunked.SourceChangedError, match="elements 6 to 11 were not the same"):
        answer.sum().backward()


def test_elements_that_change_between_passes_are_noticed():
    model, x = make_model(DEFAULT[0]), make_batch([20], 2).x

    def drifting():
        x[19] += 1
        return [x]

    with pytest.raises(chunked.SourceChangedError):
        chunked.predict(model, drifting, chunk_elements=6, keep="nothing")


def test_a_decoder_drops_the_same_on_both_ways():
    torch.manual_seed(0)
    model = ol.create_model("deep_sets_pointcloud", 2, 3, width=8).double()  # dropout in its decoder alone
    batch = make_batch([20, 3], 2)
    found = []
    for call in (one_shot, lambda m, b: in_chunks(m, b, chunk_elements=6)):
        torch.manual_seed(3)
        found.append(call(model, batch))
    assert_same(found[1], found[0], rtol=1e-10)


# -------------------------------------------------------------------------------------------------------------- progress


def test_progress_ends_at_all_elements_and_never_goes_back():
    model, told = make_model(DEFAULT[0]), []
    chunked.predict(model, make_batch([30, 2, 3, 25], 2), chunk_elements=8, progress=lambda *now: told.append(now))
    done = [passed for passed, _ in told]
    assert done == sorted(done)
    assert {total for _, total in told} == {60 * 6}  # two blocks, norm and pooling: six questions
    assert done[-1] == 360

    told.clear()
    chunked.forward(model, make_batch([30], 2), chunk_elements=8, progress=lambda *now: told.append(now)).sum().backward()
    assert told[-1] == (30 * (6 + 9), 30 * (6 + 9))


def test_a_bar_is_drawn_on_a_terminal_only(capsys, monkeypatch):
    model = make_model(DEFAULT[0])
    chunked.predict(model, torch.zeros(30, 2), chunk_elements=8, progress=True)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal
    chunked.predict(model, torch.zeros(30, 2), chunk_elements=8, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "passing over the elements" in err


# ------------------------------------------------------------------------------------------------------------------ GPU


@needs_gpu
@the_two
@pytest.mark.parametrize("keep", ["auto", "device", "host", "disk", "nothing"])
def test_a_gpu_gives_the_same(which, keep, tmp_path):
    model, batch = make_model(which).cuda(), make_batch([3000, 5, 0, 1], 2).to("cuda")
    expected = one_shot(model, batch)
    assert_same(in_chunks(model, batch, chunk_elements=512, keep=keep, folder=tmp_path), expected, rtol=1e-10)
    on_host = SetBatch(batch.x.cpu(), batch.offsets.cpu())  # chunks are brought to the device one by one
    found = chunked.predict(model, on_host, chunk_elements=512, keep=keep, folder=tmp_path)
    assert_near(found, expected[0], 1e-10 * size([expected[0]]))


@needs_gpu
def test_a_gpu_works_in_memory_that_does_not_grow_with_the_set():
    model = make_model(DEFAULT[0], torch.float32).cuda()
    peaks = []
    for num_elements in (2**14, 2**16):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        x = torch.randn(num_elements, 2)
        chunked.predict(model, x, chunk_elements=2**11, keep="host")
        peaks.append(torch.cuda.max_memory_allocated() - before)
    assert peaks[1] <= 1.1 * peaks[0]  # a fingerprint per chunk, and the allocator's rounding


def test_second_derivatives_are_refused():
    model = ol.create_model("deep_sets++", 2, 1, depth=2, width=8).double()
    loss = chunked.forward(model, torch.randn(20, 2, dtype=torch.float64), chunk_elements=5).square().sum()
    with pytest.raises(RuntimeError, match="in chunks has no second derivatives"):
        torch.autograd.grad(loss, list(model.parameters()), create_graph=True)


def test_signs_that_change_from_pass_to_pass_are_noticed():
    model = ol.create_model("deep_sets++", 2, 1, depth=4, width=8).double()
    x, calls = torch.randn(100, 2, dtype=torch.float64), []

    def read():
        calls.append(0)
        return iter([x if len(calls) == 1 else -x])

    with pytest.raises(chunked.SourceChangedError):
        chunked.predict(model, chunked.Blocks(read, 100), chunk_elements=10, keep="nothing")


def test_a_place_that_there_is_not_is_refused_also_where_nothing_is_kept():
    with pytest.raises(ValueError, match="keep must be one of auto"):
        chunked.predict(ol.create_model("deep_sets++", 2, 1, depth=2, width=8), torch.randn(5, 2), keep="bogus")
