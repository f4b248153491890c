"""Passes over chunks (`passes.py`): every norm, softmax and pooling sees all elements of its set, and memory does not grow.

These tests fail if any of them saw fewer. Directly: one element far away has to change what it changes in one shot. And by
breaking the code: whichever question, or gradient of an answer, misses one chunk, the comparison with one shot has to notice.
"""

import weakref

import pytest
import torch
from batches import make_batch
from torch.utils._python_dispatch import TorchDispatchMode

import orderless as ol
from orderless import SetBatch
from orderless.models import chunked
from orderless.models.chunked import calls
from orderless.models.chunked.keep import Keeping
from orderless.models.chunked.passes import Gradients, Passes, Total

NETWORKS = {
    f"{name} {order} {pool}": {"name": name, "depth": depth, "order": order, "pool": pool}
    for name, depth, pools in (("deep_sets++", 4, ("sum", "attention")), ("set_transformer++", 2, ("attention", "mean")))
    for order in ("released", "paper")
    for pool in pools
}
every_network = pytest.mark.parametrize("options", NETWORKS.values(), ids=NETWORKS)
CHUNK = 10
SAME, DIFFERENT = 1e-10, 1e-5  # relative: what rounding may do, and the least that a missing chunk does


def make_model(options, **more):
    torch.manual_seed(0)
    options = {"width": 8, **options, **more}
    if options["name"] == "set_transformer++":
        options.update(num_heads=2, num_inducing=3)
    model = ol.create_model(in_features=2, out_features=3, **options).double()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.1)
    return model


def make_sets():
    """One set of three chunks, whose last one is unlike the others."""
    x = make_batch([3 * CHUNK], 2).x
    x[2 * CHUNK :] = 3 * x[2 * CHUNK :] + 1
    return SetBatch(x, [0, 3 * CHUNK])


def answer_and_gradients(model, batch, call):
    model.zero_grad()
    x = batch.x.detach().clone().requires_grad_()
    answer = call(SetBatch(x, batch.offsets))
    answer = answer.x if isinstance(answer, SetBatch) else answer
    (answer * torch.linspace(-1, 1, answer.numel(), dtype=answer.dtype).reshape(answer.shape)).sum().backward()
    return answer.detach(), torch.cat([p.grad.flatten() for p in (x, *model.parameters())])


def distance(found, expected):
    return ((found - expected).abs().max() / expected.abs().max()).item()


class Forgetful:
    """Makes the `which`-th sum over chunks forget one chunk."""

    def __init__(self, monkeypatch, which, chunk):
        self.count = 0
        init, add = Total.__init__, Total.add

        def counted(total, *args):
            total.is_broken = self.count == which
            self.count += 1
            init(total, *args)

        def forgetting(total, chunk_at_hand, *args):
            if not (total.is_broken and chunk_at_hand.number == chunk):
                add(total, chunk_at_hand, *args)

        monkeypatch.setattr(Total, "__init__", counted)
        monkeypatch.setattr(Total, "add", forgetting)


def steps_of(model):
    return calls._plan(model, calls._source(model, [], CHUNK))


def num_questions(model):
    return sum(step.num_questions for step in steps_of(model))


@every_network
def test_whichever_question_misses_a_chunk_the_answer_is_another(options):
    model, batch = make_model(options), make_sets()
    expected = model(batch).detach()
    assert distance(chunked.predict(model, batch, chunk_elements=CHUNK), expected) < SAME
    for which in range(num_questions(model)):
        for chunk in (0, 2):
            with pytest.MonkeyPatch.context() as patch:
                broken = Forgetful(patch, which, chunk)
                found = chunked.predict(model, batch, chunk_elements=CHUNK)
            assert distance(found, expected) > DIFFERENT, f"question {which} needs no chunk {chunk}"
            assert broken.count == num_questions(model)


@every_network
def test_whichever_gradient_of_an_answer_misses_a_chunk_the_gradients_are_others(options):
    """The sums of the backward pass: of a norm over all elements over dx and x * dx, of a softmax over its weights."""
    model, batch = make_model(options), make_sets()

    def call(sets):
        return chunked.forward(model, sets, chunk_elements=CHUNK)

    expected = answer_and_gradients(model, batch, model)[1]
    assert distance(answer_and_gradients(model, batch, call)[1], expected) < SAME
    questions = num_questions(model)
    with pytest.MonkeyPatch.context() as patch:
        counted = Forgetful(patch, None, None)
        answer_and_gradients(model, batch, call)
    assert counted.count == 2 * questions - 1  # each answer but the last, which the head alone uses
    for which in range(questions, counted.count):
        for chunk in (0, 2):
            with pytest.MonkeyPatch.context() as patch:
                Forgetful(patch, which, chunk)
                found = answer_and_gradients(model, batch, call)[1]
            assert distance(found, expected) > DIFFERENT, f"the {which - questions}. gradient needs no chunk {chunk}"


@every_network
def test_whichever_step_misses_a_chunk_the_gradients_of_weights_are_others(options):
    model, batch = make_model(options), make_sets()
    expected = answer_and_gradients(model, batch, model)[1]
    add = Gradients.add
    num_steps = len(steps_of(model))
    for which in range(num_steps):
        calls_so_far = []

        def forgetting(gradients, weights, found, which=which, calls_so_far=calls_so_far):
            calls_so_far.append(None)
            if len(calls_so_far) != 3 * which + 2:  # the second of three chunks
                add(gradients, weights, found)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Gradients, "add", forgetting)
            found = answer_and_gradients(model, batch, lambda sets: chunked.forward(model, sets, chunk_elements=CHUNK))[1]
        assert distance(found, expected) > DIFFERENT
        assert len(calls_so_far) == 3 * num_steps


@every_network
def test_every_pass_goes_over_every_element_of_every_set(options):
    """Counted, for sets of several sizes, at every sum that is made."""
    model, sizes = make_model(options), [23, 0, 1, 40]
    batch = make_batch(sizes, 2)
    seen = []
    init, add = Total.__init__, Total.add

    def counted(total, *args):
        total.seen = torch.zeros(len(sizes), dtype=torch.long)
        seen.append(total.seen)
        init(total, *args)

    def counting(total, chunk, *args):
        total.seen[chunk.first : chunk.first + chunk.num_sets] += torch.tensor(chunk.sizes)
        add(total, chunk, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Total, "__init__", counted)
        patch.setattr(Total, "add", counting)
        chunked.forward(model, batch, chunk_elements=CHUNK).sum().backward()
    assert len(seen) == 2 * num_questions(model) - 1
    assert all(total.tolist() == sizes for total in seen)


@every_network
def test_an_element_of_the_last_chunk_reaches_those_of_the_first(options):
    """In the answer for each element and in the gradients of elements, as far as it does in one shot."""
    options = {key: value for key, value in options.items() if key != "pool"}
    model, batch = make_model(options, output="element"), make_sets()
    moved = batch.with_x(batch.x.index_add(0, torch.tensor([3 * CHUNK - 1]), torch.tensor([[0.5, -0.5]], dtype=torch.float64)))
    changes = []
    for call in (model, lambda sets: chunked.forward(model, sets, chunk_elements=CHUNK)):
        (answer, gradients), (moved_answer, moved_gradients) = (answer_and_gradients(model, b, call) for b in (batch, moved))
        first = slice(0, CHUNK)
        changes.append((moved_answer - answer)[first])
        changes.append((moved_gradients - gradients)[: 2 * CHUNK])  # of the elements of the first chunk
        assert all((change.abs().amax() > DIFFERENT).all() for change in changes[-2:])
    answer, gradient, found_answer, found_gradient = changes
    torch.testing.assert_close(found_answer, answer, rtol=1e-8, atol=1e-10)  # differences of numbers that are right to 1e-10
    torch.testing.assert_close(found_gradient, gradient, rtol=1e-8, atol=1e-10)
    assert (answer != 0).all()


# --------------------------------------------------------------------------------------------------- fewer activations


@pytest.mark.parametrize("every", [0, 1, 2, 3, 100])
def test_fewer_activations_may_be_kept_and_the_others_computed_again(every, tmp_path, monkeypatch):
    model, batch = make_model({"name": "deep_sets++", "depth": 8}), make_sets()
    made = []

    class Counted(Keeping):
        def make(self):
            made.append(super().make())
            return made[-1]

    monkeypatch.setattr(calls, "decide", lambda *args, **kwargs: Counted("device", every, torch.device("cpu"), tmp_path))
    expected = answer_and_gradients(model, batch, model)
    found = answer_and_gradients(model, batch, lambda sets: chunked.forward(model, sets, chunk_elements=CHUNK))
    assert distance(found[0], expected[0]) < SAME
    assert distance(found[1], expected[1]) < SAME
    kept = len(range(0, 5, every)) if every else 0  # of five places: before each of four blocks and before the end
    assert len(made) == kept + 5  # gradients before each of these
    made.clear()
    assert distance(chunked.predict(model, batch, chunk_elements=CHUNK), expected[0]) < SAME
    assert len(made) == min(every, 1)  # and used again for the next place


def test_activations_are_let_go_on_the_way_back(monkeypatch):
    model, batch = make_model({"name": "deep_sets++", "depth": 8}), make_sets()
    left = []
    last_pass = Passes._last_pass

    def watched(passes, *args):
        left.append(len(passes._kept))
        last_pass(passes, *args)

    monkeypatch.setattr(Passes, "_last_pass", watched)
    chunked.forward(model, batch, chunk_elements=CHUNK).sum().backward()
    assert left == [5, 4, 3, 2, 1, 0]


# --------------------------------------------------------------------------------------------------------------- memory


class Memory(TorchDispatchMode):
    """The most bytes that tensors held at a time, and the largest of them, of all that is computed inside."""

    def __init__(self):
        super().__init__()
        self.holders = {}
        self.held = self.most = self.largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(tensor, torch.Tensor):
                self.note(tensor)
        return out

    def note(self, tensor):
        key, size = tensor.untyped_storage()._cdata, tensor.untyped_storage().nbytes()
        if key not in self.holders:
            self.held += size
        self.holders[key] = self.holders.get(key, 0) + 1
        weakref.finalize(tensor, self.let_go, key, size)
        self.most, self.largest = max(self.most, self.held), max(self.largest, size)

    def let_go(self, key, size):
        self.holders[key] -= 1
        if not self.holders[key]:
            del self.holders[key]
            self.held -= size


def blocks(num_elements, size=50):
    def read():
        for start in range(0, num_elements, size):
            numbers = torch.arange(start, min(start + size, num_elements), dtype=torch.float64)
            yield torch.stack([numbers.sin(), (numbers * numbers).cos()], 1)

    return chunked.Blocks(read, num_elements)


def memory_of(call, num_elements):
    with Memory() as memory:
        call(blocks(num_elements))
    return memory


@pytest.mark.parametrize("keep", ["disk", "nothing"])
@pytest.mark.parametrize("name", ["deep_sets++", "set_transformer++"])
def test_memory_does_not_grow_with_the_set(name, keep, tmp_path):
    model = make_model({"name": name, "depth": 2})

    def predict(sets):
        chunked.predict(model, sets, chunk_elements=100, keep=keep, folder=tmp_path)

    def learn(sets):
        chunked.forward(model, sets, chunk_elements=100, keep=keep, folder=tmp_path).sum().backward()

    for call in (predict, learn) if keep == "disk" else (predict,):
        small, large = memory_of(call, 400), memory_of(call, 2400)
        assert large.largest == small.largest
        assert large.most <= small.most + 20 * 64  # 20 chunks more: a fingerprint and the bounds of its sets, 8 bytes a number


def test_the_measure_of_memory_sees_what_is_kept_in_memory():
    model = make_model({"name": "deep_sets++", "depth": 2})

    def predict(sets):
        chunked.predict(model, sets, chunk_elements=100, keep="host")

    assert memory_of(predict, 2400).most - memory_of(predict, 400).most > 0.9 * 2000 * 8 * 8
