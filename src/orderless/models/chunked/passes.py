r"""Passes over the chunks: forward until every question is answered, backward until every gradient is known.

**Forward.** One pass per question: every chunk goes through the network up to the question, contributes, and is let go; after the
pass the question has its answer for all sets. A pass begins where activations were last kept, and puts its own aside on the way.

**Backward.** With answers $a_1, \ldots, a_K$ of a step, each chunk's output depends on its own elements and on the answers, and
each answer on all chunks. So the loss's gradient with respect to $a_K$ is summed over all chunks first, then that with respect to
$a_{K-1}$, which $a_K$ depends on, and so on. Only then does a last pass give the gradients of elements and weights. Within a
chunk autograd does the work; a question's `share` stands for its answer.

Letters: N sets, T elements in all sets, n elements in a chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from orderless.models.chunked.keep import Keeping, Kept, OnDevice
from orderless.models.chunked.questions import Answer, Parts
from orderless.models.chunked.source import Chunk, Source
from orderless.models.chunked.steps import Step
from orderless.ops import statistics_dtype

Merge = Callable[[Parts, Parts], Parts]
Progress = Callable[[int, int], None]


class Passes:
    """All passes of one network over one source.

    Args:
        steps: Of the network. The last one pools where `pooled` says so.
        source: The elements.
        keeping: Where activations are kept.
        pooled: Whether the network answers for sets, and not for elements.
        for_backward: Keep what the backward pass needs: activations before every step, not just before the next one.
        progress: Called after each chunk with how many elements were processed, and how many there will be in all.

    Attributes:
        answers: For each step the answers to its questions, once they are known.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        source: Source,
        keeping: Keeping,
        *,
        pooled: bool,
        for_backward: bool = False,
        progress: Progress | None = None,
    ) -> None:
        self.steps, self.source, self.keeping, self.pooled = steps, source, keeping, pooled
        self.for_backward, self.progress = for_backward, progress
        self.answers: list[list[Answer]] = [[] for _ in steps]
        self._kept: dict[int, Kept] = {}  # before which step
        self._passed = 0
        self._precision = autocast_of_now(source.device)

    # --------------------------------------------------------------------------------------------------- forward

    @torch.no_grad()
    def forward(self) -> list[Tensor]:
        """Answers all questions.

        Returns:
            What the last step needs to give its answer for sets: one (N, ...) tensor for each of its questions. Where the network
            answers for elements: that answer, (T, out_features).
        """
        with self._precision():
            for number, step in enumerate(self.steps):
                for _ in range(step.num_questions):
                    self.answers[number].append(self._answer_next(number))
            if not self.pooled:
                return [torch.cat([rows for _, rows in self._rows_before(len(self.steps))])]
        return [answer.value for answer in self.answers[-1]]

    def head(self, values: Sequence[Tensor]) -> Tensor:
        """The network's answer for sets, from what `forward` gives: the last step, walked once for all sets and no element."""
        sets = Chunk.make(0, 0, 0, [0] * self.source.num_sets, self.source.device)
        nothing = self.steps[-2].example if len(self.steps) > 1 else self.source.no_elements()
        known = zip(values, self.answers[-1], strict=True)
        return self.steps[-1].finish(nothing, sets, [Answer(value, answer.fixed) for value, answer in known])

    def _answer_next(self, number: int) -> Answer:
        """The answer to the next question of a step: one pass."""
        keep = self._room_before(number) if not self.answers[number] else None
        total: Total | None = None
        for chunk, rows in self._rows_before(number):
            if keep is not None:
                keep.put(chunk, rows)
            question = self.steps[number].ask(rows, chunk, [answer.of(chunk) for answer in self.answers[number]])
            kind, wide, part = type(question), question.wide, question.partial()
            del rows, question  # before the next chunk is made
            total = total or Total(part, kind.neutral, self.source.num_sets)
            total.add(chunk, part, kind.merge)
        assert total is not None, "a source has at least one chunk"
        if keep is not None:
            self._kept = {**self._kept, number: keep} if self.for_backward else {number: keep}
        return kind.answer(total.parts, wide)

    def _rows_before(self, number: int) -> Iterator[tuple[Chunk, Tensor]]:
        """Each chunk and its rows as they enter a step: kept there, or computed from the nearest place before."""
        nearest = max((n for n in self._kept if n <= number), default=0)
        if nearest in self._kept:
            given = ((chunk, self._kept[nearest].get(chunk)) for chunk in self.source.chunks)
        else:
            given = self.source.read()
        for chunk, rows in given:
            for n in range(nearest, number):
                rows = self.steps[n].finish(rows, chunk, [answer.of(chunk) for answer in self.answers[n]])
            yield chunk, rows
            del rows
            self._tell(chunk)

    def _room_before(self, number: int) -> Kept | None:
        """Where the rows that enter a step are put, or None where they are not kept."""
        every = self.keeping.every
        if not every or number not in places_to_keep(self.steps, pooled=self.pooled, for_backward=self.for_backward):
            return None
        if (number - 1) % every:
            return None
        if self._kept and not self.for_backward:
            ((before, room),) = self._kept.items()
            old, new = self.steps[before - 1].example, self.steps[number - 1].example
            if (old.shape, old.dtype) == (new.shape, new.dtype):
                return room  # chunk by chunk new rows take the place of those that they were made of
        return self.keeping.make()

    def _tell(self, chunk: Chunk) -> None:
        self._passed += chunk.num_elements
        if self.progress is not None:
            passes = num_passes(self.steps, pooled=self.pooled, for_backward=self.for_backward)
            self.progress(self._passed, passes * self.source.num_elements)

    # -------------------------------------------------------------------------------------------------- backward

    @torch.no_grad()
    def backward(self, upstream: Sequence[Tensor], parameters: Sequence[nn.Parameter], *, of_elements: bool) -> Gradients:
        """The backward pass through all steps.

        Args:
            upstream: The loss's gradients with respect to what `forward` gave.
            parameters: Whose gradients are wanted.
            of_elements: Whether those of the elements are wanted, too.
        """
        found = Gradients(parameters)
        behind: Kept | None = None if self.pooled else _Whole(upstream[0])
        with self._precision():
            for number in reversed(range(len(self.steps))):
                last_pooled = behind is None
                towards = self._towards_answers(number, list(upstream) if last_pooled else None, behind)
                before = self.keeping.make() if number else _Parts() if of_elements else None
                self._last_pass(number, towards, behind, before, found)
                self._kept.pop(number, None)
                behind = before
        found.of_elements = behind.join() if isinstance(behind, _Parts) else None
        return found

    def _towards_answers(self, number: int, known: list[Tensor] | None, behind: Kept | None) -> list[Tensor]:
        """The loss's gradient with respect to each answer of a step, the last answer first: one pass for each.

        Args:
            number: Which step.
            known: The part of them that comes from the head, where the step is the one that pools.
            behind: The gradients of what the step gives, where it gives rows.
        """
        answers = self.answers[number]
        towards = known or [torch.zeros_like(answer.value) for answer in answers]
        for k in reversed(range(len(answers))):
            if behind is None and k == len(answers) - 1:
                continue  # the head alone makes use of it
            total = Total([answers[k].value.double()], [0.0], self.source.num_sets)
            for chunk, rows in self._rows_before(number):
                leaves = self._leaves(number, chunk)
                outputs = self._outputs(number, chunk, rows, leaves, towards, behind, first=k + 1)
                (gradient,) = _differentiate(outputs, [leaves[k].value])
                del rows, outputs  # before the next chunk is made
                total.add(chunk, (gradient.double(),), _add)
            towards[k] = towards[k] + total.parts[0].to(towards[k].dtype)
        return towards

    def _last_pass(
        self, number: int, towards: Sequence[Tensor], behind: Kept | None, before: Kept | None, found: Gradients
    ) -> None:
        """With all gradients of answers known: those of weights, added to `found`, and of the step's rows, put into `before`."""
        weights = [p for p in self.steps[number].parameters() if p in found.wanted]
        if before is None and not weights:
            return
        for chunk, rows in self._rows_before(number):
            rows = rows.detach()
            if before is not None:
                rows.requires_grad_()
            outputs = self._outputs(number, chunk, rows, self._leaves(number, chunk), towards, behind, first=0)
            gradients = _differentiate(outputs, [*weights, *([rows] if before is not None else [])])
            del rows, outputs  # before the next chunk is made
            if before is not None:
                before.put(chunk, gradients.pop())
            found.add(weights, gradients)

    def _leaves(self, number: int, chunk: Chunk) -> list[Answer]:
        """The answers of a step for a chunk's sets, as leaves of a graph."""
        return [Answer(chunk.of(value).detach().requires_grad_(), chunk.of(fixed)) for value, fixed in self.answers[number]]

    def _outputs(
        self,
        number: int,
        chunk: Chunk,
        rows: Tensor,
        answers: Sequence[Answer],
        towards: Sequence[Tensor],
        behind: Kept | None,
        *,
        first: int,
    ) -> list[tuple[Tensor, Tensor]]:
        """What the loss sees of a chunk: its rows behind the step and its shares in answers from `first` on, each with the
        gradient that comes back to it."""
        with torch.enable_grad():
            known = answers if behind is not None else answers[:-1]  # nothing behind it but the head
            questions, out = self.steps[number].follow(rows, chunk, known)
            outputs = []
            if behind is not None:
                assert out is not None
                outputs.append((out, behind.get(chunk)))
            for k in range(first, len(answers)):
                share = questions[k].share(Answer(*(part.detach() for part in answers[k])))
                outputs.append((share, chunk.of(towards[k])))
        return outputs


class Total:
    """Contributions of chunks, merged set by set.

    Args:
        like: Parts (any, ...) of one contribution, for their shapes.
        neutral: The contribution of no elements.
        num_sets: N.

    Attributes:
        parts: Each (N, ...).
    """

    def __init__(self, like: Sequence[Tensor], neutral: Sequence[float], num_sets: int) -> None:
        self.parts: Parts = tuple(
            part.new_full((num_sets, *part.shape[1:]), value) for part, value in zip(like, neutral, strict=True)
        )

    def add(self, chunk: Chunk, contribution: Parts, merge: Merge) -> None:
        """Merges a contribution for the sets of a chunk."""
        merged = merge(tuple(chunk.of(part) for part in self.parts), contribution)
        for part, new in zip(self.parts, merged, strict=True):
            chunk.of(part).copy_(new)


class Gradients:
    """Gradients of parameters, added up in float32 at least, and of the elements.

    Attributes:
        wanted: The parameters.
        of_elements: (T, *element), if asked for.
    """

    def __init__(self, wanted: Sequence[nn.Parameter]) -> None:
        self.wanted = set(wanted)
        self.of_elements: Tensor | None = None
        self._sums: dict[nn.Parameter, Tensor] = {}

    def add(self, parameters: Sequence[nn.Parameter], gradients: Sequence[Tensor]) -> None:
        """One chunk's part."""
        for parameter, gradient in zip(parameters, gradients, strict=True):
            wide = gradient.to(statistics_dtype(gradient.dtype))
            self._sums[parameter] = self._sums[parameter] + wide if parameter in self._sums else wide

    def of(self, parameter: nn.Parameter) -> Tensor | None:
        """The sum over all chunks, in the parameter's dtype; None for a parameter that elements do not meet."""
        return self._sums[parameter].to(parameter.dtype) if parameter in self._sums else None


class _Whole(Kept):
    """Rows of all elements in one tensor, to be read."""

    def __init__(self, rows: Tensor) -> None:
        self._all = rows

    def put(self, chunk: Chunk, rows: Tensor) -> None:
        raise NotImplementedError

    def get(self, chunk: Chunk) -> Tensor:
        return self._all[chunk.start : chunk.stop]


class _Parts(OnDevice):
    """Rows that end up in one tensor."""

    def join(self) -> Tensor:
        """(T, ...)."""
        return torch.cat(list(self._rows.values()))


def places_to_keep(steps: Sequence[Step], *, pooled: bool, for_backward: bool) -> list[int]:
    """The steps that more than one pass begins at."""
    last = len(steps) - 1
    again = for_backward or not pooled or steps[last].num_questions > 1
    return [n for n in range(1, len(steps)) if n < last or again]


def num_passes(steps: Sequence[Step], *, pooled: bool, for_backward: bool) -> int:
    """How often all elements are processed: once per question, and backward once per question and once per step."""
    questions = sum(step.num_questions for step in steps)
    forward = questions + (not pooled)
    return forward + (questions + len(steps) - pooled if for_backward else 0)


def _differentiate(outputs: Sequence[tuple[Tensor, Tensor]], wanted: Sequence[Tensor]) -> list[Tensor]:
    """The gradients of `wanted`, from outputs and the gradients that come back to them; zeros for what has no part in them."""
    seen = [(out, gradient) for out, gradient in outputs if out.requires_grad]
    if not seen:
        return [torch.zeros_like(leaf) for leaf in wanted]
    outs, upstream = zip(*seen, strict=True)
    found = torch.autograd.grad(outs, wanted, upstream, allow_unused=True)
    return [torch.zeros_like(leaf) if g is None else g for leaf, g in zip(wanted, found, strict=True)]


def _add(a: Parts, b: Parts) -> Parts:
    return (a[0] + b[0],)


def autocast_of_now(device: torch.device) -> Callable[[], AbstractContextManager[None]]:
    """Gives contexts with the autocast settings that hold here, for later and for other threads.

    Without its cache of cast weights: those made in a forward pass without gradients would be used where gradients are wanted.
    """
    enabled, dtype = torch.is_autocast_enabled(device.type), torch.get_autocast_dtype(device.type)
    return lambda: torch.autocast(device.type, dtype=dtype, enabled=enabled, cache_enabled=False)
