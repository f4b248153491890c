"""CUDA graphs: the kernels that a batch needs are recorded once, and from then on started by a single launch.

A deep network on a small batch launches thousands of small kernels, and between them the GPU waits for Python. A recording holds
for one shape: dense batches are recorded as they are, ragged ones are padded to one of a few sizes. What cannot be recorded is
computed in the usual way, and a line in the log says why.
"""

from __future__ import annotations

import logging
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from orderless.nn.hooks import has_global_hooks, has_own_hooks
from orderless.sets import SetBatch
from orderless.tasks.dataset import LabelledSets
from orderless.train.buckets import Bucket
from orderless.train.checkpoint import random_states, restore_random_states
from orderless.train.evaluating import Answer, in_full, over_rows
from orderless.train.learner import Held, Learner
from orderless.train.update import Update, unchanged

_REHEARSALS = 3  # libraries choose their algorithms, kernels are tuned, a compiled network is compiled
_MOST_RECORDINGS = 32
_ABANDONED: list[torch.cuda.CUDAGraph] = []  # recordings that failed; PyTorch's memory allocator may still look at them
_log = logging.getLogger(__name__)
R = TypeVar("R")


class GraphedModel:
    """A network whose answers are replayed from recordings: for prediction on a GPU, without gradients.

    `GraphedModel(model)(sets)` is `model(sets)` to rounding. A shape is recorded when it comes for the second time. Ragged
    batches are padded to one of a few sizes, which changes no answer, so that one recording serves many of them. Beyond 32
    recordings the least recently used one is dropped.

    Weights may change in place, by training or `load_state_dict`. Another mode, precision or device makes new recordings; after
    a layer was replaced, make a new `GraphedModel`. On a CPU, with hooks, where a network reads numbers back from the GPU, and
    for ragged batches in a norm over the batch that is in training mode, answers are computed in the usual way, and a line in the
    log says so.

    Args:
        model: SetBatch -> a tensor with one row per set, or a SetBatch with one row per element.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._recorder: Recorder | None = None
        self._recordings: Recordings[_Prediction] = Recordings("predictions", after=2)
        self._modules, self._tensors = list(model.modules()), [*model.parameters(), *model.buffers()]

    @torch.no_grad()
    def __call__(self, sets: SetBatch) -> Answer:
        """The network's answer for these sets."""
        prediction = self._recordings.find(self._key(sets), lambda: self._record(sets))
        if prediction is not None:
            return prediction(sets)
        answer: Answer = self.model(sets)
        return answer

    def _key(self, sets: SetBatch) -> Hashable:
        """All that a recording depends on; the content of the weights is not among it."""
        size: Hashable = Bucket.around(sets) if sets.set_size is None else (sets.num_sets, sets.set_size)
        modes, places = tuple(m.training for m in self._modules), tuple(t.data_ptr() for t in self._tensors)
        ways = (*_precision(sets.device), torch.is_inference_mode_enabled())
        return size, sets.element_shape, sets.dtype, sets.device, ways, modes, places

    def _record(self, sets: SetBatch) -> _Prediction:
        _check_hooks(self.model)
        if self._recorder is None or self._recorder.device != sets.device:
            self._recorder = make_recorder(sets.device)
        with unchanged(list(self.model.buffers())):
            return _Prediction(self.model, sets, self._recorder)


class _Prediction:
    """A recorded answer for dense batches of one shape, or ragged ones of one bucket."""

    def __init__(self, model: nn.Module, sets: SetBatch, recorder: Recorder) -> None:
        self.bucket = Bucket.around(sets) if sets.set_size is None else None
        if self.bucket is None:
            self.sets = sets.with_x(sets.x.clone())
        else:
            _check_padding(model)
            self.sets = self.bucket.buffer(sets)

        def answer() -> Answer:
            enabled, dtype = _precision(sets.device)
            # weights are cast inside the recording, or a replay would not see them change
            with torch.autocast(sets.device.type, dtype, enabled=enabled, cache_enabled=False):
                found = _checked(model(self.sets))
            self._cut(found, sets)  # so that what cannot be cut is noticed before it is recorded
            return found

        recorder.rehearse(answer)
        self.tape, self.answer = recorder.record(answer)

    def __call__(self, sets: SetBatch) -> Answer:
        if self.bucket is None:
            self.sets.x.copy_(sets.x, non_blocking=True)
        else:
            self.bucket.fill(self.sets, sets)
        self.tape.replay()
        return over_rows(self._cut(self.answer, sets), torch.clone)  # the next replay writes to the same place

    def _cut(self, answer: Answer, sets: SetBatch) -> Answer:
        return answer if self.bucket is None else self.bucket.cut(answer, sets)


class GraphedSteps:
    """Whole steps of training, replayed from recordings: forward, backward, clipping, guard, optimizer and moving average.

    A dense batch is one recording, loss included. A ragged one is padded to its bucket and takes two, with the loss between them,
    computed in the usual way: it has no padding in it, so the number of its rows varies.

    Args:
        learner: The network and its loss, on their device.
        update: What follows the gradients. It has a guard, which is what makes rehearsals harmless.
        autocast: The precision in which the network computes, as a context to call it in.
        recorder: Of that device.
        ragged: Whether sets differ in size. If so, a batch whose sets happen not to is treated as the others are.
        answer: The network as it is to be called on ragged sets, such as a compiled one.
    """

    def __init__(
        self,
        learner: Learner,
        update: Update,
        autocast: Callable[[], AbstractContextManager[Any]],
        recorder: Recorder,
        *,
        ragged: bool,
        answer: Callable[[SetBatch], Answer] | None = None,
    ) -> None:
        self.learner, self.update, self.autocast, self.recorder, self.ragged = learner, update, autocast, recorder, ragged
        self.answer = learner.model if answer is None else answer
        self._recordings: Recordings[_DenseStep | _RaggedStep] = Recordings("training steps")

    def __call__(self, batch: LabelledSets, rate: float) -> Tensor | None:
        """Takes a step on this batch, at this learning rate.

        Returns:
            (2,) the loss and the norm of the gradient, to be read before the next step. None if the step was not taken: it has to
            be taken in the usual way.
        """
        step = self._recordings.find(self._key(batch), lambda: self._record(batch))
        if step is None:
            return None
        self.update.rate.fill_(rate)
        numbers = step(batch)
        self.update.applied()
        return numbers

    def _key(self, batch: LabelledSets) -> Hashable:
        sets, target = batch
        return Bucket.around(sets) if self.ragged else (sets.num_sets, sets.set_size, target.shape)

    def _record(self, batch: LabelledSets) -> _DenseStep | _RaggedStep:
        _check_hooks(self.learner.model)
        with self.update.untouched():
            return _RaggedStep(self, batch) if self.ragged else _DenseStep(self, batch)

    def finish(self, loss: Tensor, root: Tensor, gradient: Tensor | None = None) -> Tensor:
        """Inside a recording, from the loss to new weights, by way of `root`, which is the loss or has this gradient."""
        self.update.optimizer.zero_grad(set_to_none=True)  # gradients live in the recording's memory, not in that of a rehearsal
        torch.autograd.backward(root, gradient)
        numbers = self.update.measure(loss)
        self.update.apply_on_device()
        return numbers


class _DenseStep:
    """A recorded step on batches of one shape."""

    def __init__(self, steps: GraphedSteps, batch: LabelledSets) -> None:
        self.batch = LabelledSets(batch.sets.with_x(batch.sets.x.clone()), batch.target.clone())

        def step() -> Tensor:
            with steps.autocast():
                loss: Tensor = steps.learner(Held(self.batch))
            return steps.finish(loss, loss)

        steps.recorder.rehearse(step)
        self.tape, self.numbers = steps.recorder.record(step)

    def __call__(self, batch: LabelledSets) -> Tensor:
        self.batch.sets.x.copy_(batch.sets.x, non_blocking=True)
        self.batch.target.copy_(batch.target, non_blocking=True)
        self.tape.replay()
        return self.numbers


class _RaggedStep:
    """A recorded step on batches of one bucket."""

    answer: Answer  # padding included
    loss: Tensor
    gradient: Tensor  # of the loss by the answer, zero in the padding

    def __init__(self, steps: GraphedSteps, batch: LabelledSets) -> None:
        _check_padding(steps.learner.model)
        self.judge, self.autocast, self.bucket = steps.learner.judge, steps.autocast, Bucket.around(batch.sets)
        self.sets = self.bucket.buffer(batch.sets)

        def forward() -> None:
            with steps.autocast():
                self.answer = _checked(steps.answer(self.sets))

        def backward() -> Tensor:
            return steps.finish(self.loss, _rows(self.answer), self.gradient)

        def whole() -> None:
            forward()
            self.loss, self.gradient = (found.clone() for found in self._ask(batch))
            backward()

        steps.recorder.rehearse(whole)
        self.forward, _ = steps.recorder.record(forward)
        self.backward, self.numbers = steps.recorder.record(backward)
        self.answer = over_rows(self.answer, torch.detach)

    def __call__(self, batch: LabelledSets) -> Tensor:
        self.bucket.fill(self.sets, batch.sets)
        self.forward.replay()
        loss, gradient = self._ask(batch)
        self.loss.copy_(loss)
        self.gradient.copy_(gradient)
        self.backward.replay()
        return self.numbers

    def _ask(self, batch: LabelledSets) -> tuple[Tensor, Tensor]:
        """The loss of what the network answered, and its gradient by that."""
        rows = _rows(self.answer).detach().requires_grad_()
        with self.autocast():
            answer = self.bucket.cut(over_rows(self.answer, lambda _: rows), batch.sets)
            loss = self.judge.loss(in_full(answer), batch.target)
        (gradient,) = torch.autograd.grad(loss, rows)
        return loss.detach(), gradient


# ------------------------------------------------------------------------------------------------------- recordings


class CannotRecord(Exception):  # noqa: N818 - it is an answer
    """Why something must not be recorded."""


class Recordings(Generic[R]):
    """Recordings by key. When there are too many, the least recently used one is dropped.

    Args:
        what: What is recorded, for the log.
        after: How often a key has to come before it is worth a recording.
    """

    def __init__(self, what: str, *, after: int = 1) -> None:
        self.what, self.after = what, after
        self._kept: OrderedDict[Hashable, R | None] = OrderedDict()  # None: cannot be recorded
        self._met: OrderedDict[Hashable, int] = OrderedDict()
        self._said: set[str] = set()
        self._failed = False

    def find(self, key: Hashable, record: Callable[[], R]) -> R | None:
        """The recording, made now if it is time to; None where there is none."""
        if self._failed:
            return None
        if key not in self._kept:
            self._met[key] = self._met.get(key, 0) + 1
            _keep_latest(self._met, key)
            if self._met[key] < self.after:
                return None
            self._kept[key] = self._try(record)
        _keep_latest(self._kept, key)
        return self._kept.get(key)

    def _try(self, record: Callable[[], R]) -> R | None:
        try:
            return record()
        except CannotRecord as reason:
            self._say(str(reason))
        except Exception as error:  # what is wrong with the network itself shows again in the usual way
            self._say(f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")
            self._failed = True  # it would fail again, and a failure costs time
            self._kept.clear()
        return None

    def _say(self, reason: str) -> None:
        if reason not in self._said:
            self._said.add(reason)
            say_usual_way(self.what, reason)


def say_usual_way(what: str, reason: str) -> None:
    """Logs that something is computed without recordings, though they were asked for."""
    _log.warning("CUDA graphs: %s are computed in the usual way: %s", what, reason)


class Tape(Protocol):
    """Something recorded."""

    def replay(self) -> None:
        """Launches it again, on the same tensors."""


def make_recorder(device: torch.device) -> Recorder:
    """A recorder of what is launched on this device.

    Raises:
        CannotRecord: If it is no GPU.
    """
    if device.type != "cuda":
        raise CannotRecord(f"they need a GPU, and the device is {device.type}.")
    return Recorder(device)


class Recorder:
    """Records what functions launch on a GPU.

    All recordings share one pool of memory. That is safe because they are replayed one after another, and the output of one is
    read before the next is replayed.

    Args:
        device: The GPU.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._stream = torch.cuda.Stream(device)
        self._pool = torch.cuda.graph_pool_handle()

    def rehearse(self, function: Callable[[], object]) -> None:
        """Calls the function a few times, as it will be recorded. The random state is restored afterwards.

        Raises:
            RuntimeError: If the function waits for the GPU, as reading a number from it does. That cannot be recorded.
        """
        with self._restoring_random_state(), self._aside():
            for _ in range(_REHEARSALS - 1):
                function()
            with self._without_waiting():
                function()

    def record(self, function: Callable[[], R]) -> tuple[Tape, R]:
        """The recording, and what the function gave: tensors that every replay fills again."""
        with self._restoring_random_state():
            return self._capture(function)

    def _capture(self, function: Callable[[], R]) -> tuple[Tape, R]:
        graph, state = torch.cuda.CUDAGraph(), torch.cuda.get_rng_state(self.device)
        # other threads may keep working, such as the one that locks the pages of coming batches
        recording = torch.cuda.graph(graph, self._pool, self._stream, capture_error_mode="thread_local")
        try:
            # `recording` leaves its stream in place when it fails; the context around it does not
            with torch.cuda.stream(torch.cuda.current_stream(self.device)), recording:
                found = function()
        except BaseException:
            with suppress(RuntimeError):
                graph.reset()
            _ABANDONED.append(graph)
            _renew_random_state(self.device, state)
            raise
        return graph, found

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """On the stream of the recordings, after all that was launched so far, and before all that will be."""
        here = torch.cuda.current_stream(self.device)
        self._stream.wait_stream(here)
        try:
            with torch.cuda.stream(self._stream):
                yield
        finally:
            here.wait_stream(self._stream)

    @contextmanager
    def _without_waiting(self) -> Iterator[None]:
        """Waiting for the GPU is an error: found here it does no harm, in a recording it would."""
        before = torch.cuda.get_sync_debug_mode()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that this is a prototype, which does not find everything
            torch.cuda.set_sync_debug_mode("error")
            try:
                yield
            finally:
                torch.cuda.set_sync_debug_mode(before)

    @contextmanager
    def _restoring_random_state(self) -> Iterator[None]:
        states = random_states(self.device)
        try:
            yield
        finally:
            restore_random_states(states, self.device)


def _renew_random_state(device: torch.device, state: Tensor) -> None:
    """After a failed recording PyTorch's generator would still believe that it is being recorded, and refuse to give numbers."""
    fresh = torch.Generator(device)
    fresh.set_state(state)
    generator = torch.cuda.default_generators[torch.cuda.current_device() if device.index is None else device.index]
    generator.graphsafe_set_state(fresh.graphsafe_get_state())


def _check_hooks(model: nn.Module) -> None:
    if has_global_hooks():
        raise CannotRecord("there is a hook for all modules, which a replay would not call.")
    for name, module in model.named_modules():
        if has_own_hooks(module):
            raise CannotRecord(f"{_title(name, module)} has a hook, which a replay would not call.")
    for name, parameter in model.named_parameters():
        if parameter._backward_hooks or parameter._post_accumulate_grad_hooks:
            raise CannotRecord(f"{name} has a hook, which a replay would not call.")


def _check_padding(model: nn.Module) -> None:
    for name, module in model.named_modules():
        if module.training and hasattr(module, "running_mean"):
            raise CannotRecord(f"{_title(name, module)} takes statistics over the batch, and ragged sets would need padding.")


def _title(name: str, module: nn.Module) -> str:
    return f"{name or 'the network'} ({type(module).__name__})"


def _precision(device: torch.device) -> tuple[bool, torch.dtype]:
    return torch.is_autocast_enabled(device.type), torch.get_autocast_dtype(device.type)


def _checked(answer: object) -> Answer:
    if not isinstance(answer, Tensor | SetBatch):
        raise CannotRecord(f"the network returns neither a tensor nor a SetBatch, but {type(answer).__name__}.")
    return answer


def _rows(answer: Answer) -> Tensor:
    return answer.x if isinstance(answer, SetBatch) else answer


def _keep_latest(kept: OrderedDict[Hashable, Any], key: Hashable) -> None:
    kept.move_to_end(key)
    while len(kept) > _MOST_RECORDINGS:
        kept.popitem(last=False)
