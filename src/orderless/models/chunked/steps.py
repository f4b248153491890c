"""A network as steps: between two of them the elements are all there is, so they may be put aside there.

A step begins with a layer that asks about whole sets and takes along the layers behind it that do not. What precedes the first
question is a step of its own. Pooling and decoder belong to the last step, so nothing is put aside in front of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from orderless.models.base import SetModel, decode
from orderless.models.chunked.layers import WALKS, Walk, walk
from orderless.models.chunked.questions import Answer, Question
from orderless.models.chunked.source import Chunk
from orderless.models.registry import MODELS
from orderless.nn import MAB, BatchNorm, ElementDropout, FeatureNorm, MABPlusPlus, MultiheadAttention
from orderless.nn.hooks import has_hooks

INNER = (nn.Linear, MAB, MABPlusPlus, MultiheadAttention)  # parts of layers that have a walk
MODE_DEPENDENT = (FeatureNorm, BatchNorm, ElementDropout, nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)
_OF_WHOLE_SETS = tuple(name for name, spec in MODELS.items() if spec.measures_distances)


@dataclass
class Step:
    """Layers that are walked through from one putting aside to the next.

    Attributes:
        layers: SetBatch -> SetBatch, and at the end of the last step the pooling.
        before: A featurizer, on the elements as they come.
        after: A decoder, on what the layers give; on pooled vectors it computes in full precision.
        pools: Whether the last of the layers is a pooling.
        num_questions: How often the step asks about whole sets.
        example: (0, ...) the rows that it gives for no element, for their shape and dtype.
    """

    layers: list[nn.Module] = field(default_factory=list)
    before: nn.Module | None = None
    after: nn.Module | None = None
    pools: bool = False
    num_questions: int = 0
    example: Tensor = field(default_factory=lambda: torch.empty(0))

    def walk(self, x: Tensor, chunk: Chunk) -> Walk:
        """What the step makes of the elements (n, ...) of a chunk."""
        if self.before is not None:
            x = self.before(x)
        for layer in self.layers:
            x = yield from walk(layer, x, chunk)
        if self.after is None:
            return x
        return decode(self.after, x) if self.pools else self.after(x)

    def parameters(self) -> Iterator[nn.Parameter]:
        """Of all its layers."""
        for module in (self.before, *self.layers, self.after):
            if module is not None:
                yield from module.parameters()

    def follow(self, x: Tensor, chunk: Chunk, answers: Sequence[Answer]) -> tuple[list[Question], Tensor | None]:
        """Walks as far as answers go: all questions up to there, and what the step gives if that is the end.

        Args:
            x: (n, ...) elements of the chunk.
            chunk: The chunk.
            answers: For the sets of the chunk.
        """
        going = self.walk(x, chunk)
        questions = []
        try:
            questions.append(next(going))
            for answer in answers:
                questions.append(going.send(answer))  # noqa: PERF401 (a comprehension would swallow the end of the walk)
        except StopIteration as end:
            return questions, end.value
        return questions, None

    def ask(self, x: Tensor, chunk: Chunk, answers: Sequence[Answer]) -> Question:
        """The first question that `answers` leave open."""
        return self.follow(x, chunk, answers)[0][-1]

    def finish(self, x: Tensor, chunk: Chunk, answers: Sequence[Answer]) -> Tensor:
        """What the step gives, with all its questions answered."""
        out = self.follow(x, chunk, answers)[1]
        assert out is not None, "a question has no answer"
        return out


def plan(model: SetModel, nothing: Tensor) -> list[Step]:
    """The steps of a network, found by walking through it with no element.

    Args:
        model: The network.
        nothing: (0, *element) on its device, in the dtype of the elements.
    """
    check_supported(model)
    chunk = Chunk.make(0, 0, 0, [0], nothing.device)
    steps, x = [Step(before=model.featurizer)], nothing
    if model.featurizer is not None:
        x = model.featurizer(x)
    model._check_elements(chunk.batch(x))
    steps[0].example = x
    for layer in model.encoder if isinstance(model.encoder, nn.Sequential) else [model.encoder]:
        num_questions, x = _rehearse(walk(layer, x, chunk))
        begun = steps[-1].layers or steps[-1].before is not None
        if num_questions and begun:
            steps.append(Step())
        steps[-1].layers.append(layer)
        steps[-1].num_questions += num_questions
        steps[-1].example = x
    if model.pool is not None:
        num_questions, x = _rehearse(walk(model.pool, x, chunk))
        steps[-1].layers.append(model.pool)
        steps[-1].pools = True
        steps[-1].num_questions += num_questions
    steps[-1].after = model.decoder
    return steps


def check_supported(model: object) -> None:
    """Raises where a network cannot be computed in chunks, and says which can."""
    if not isinstance(model, SetModel):
        raise TypeError(f"only networks of create_model can be computed in chunks, got {type(model).__name__}.")
    if next(model.parameters()).is_meta:
        raise ValueError(
            "the network is on the meta device, which has shapes and no numbers, so there is nothing to be computed in chunks. "
            "Build or load it on another device, or call the model itself for its shapes."
        )
    inside = [*model.encoder.modules(), *(model.pool.modules() if model.pool is not None else ())]
    strange = next((m for m in inside if type(m) not in WALKS and not isinstance(m, (nn.Sequential, *INNER))), None)
    if any(has_hooks(part) for part in (model.encoder, model.pool) if part is not None):
        raise ValueError("a layer has a hook, which chunks would not call. Remove it, or call the model itself.")
    if strange is not None and model.config.name in _OF_WHOLE_SETS:
        raise ValueError(
            f"{model.config.name} cannot be computed in chunks: it looks at centroids or images of whole sets. "
            "Give it all points at once, or fewer of them."
        )
    if strange is not None:
        raise ValueError(
            f"{type(strange).__name__} cannot be computed in chunks. Encoders and poolings may be made of "
            f"{', '.join(sorted(kind.__name__ for kind in WALKS))}: all that create_model builds, except "
            f"{' and '.join(_OF_WHOLE_SETS)}."
        )
    inside += model.featurizer.modules() if model.featurizer is not None else ()
    unsteady = next((m for m in inside if isinstance(m, MODE_DEPENDENT) and m.training and getattr(m, "p", True)), None)
    if unsteady is not None:
        raise ValueError(
            f"{type(unsteady).__name__} in training mode does not treat an element the same in every pass and batch, so it "
            "cannot be computed in chunks. In eval mode it can (`model.eval()`). To train in chunks choose norm='set', "
            "'instance', 'layer' or 'none', and no dropout before the pooling."
        )


def _rehearse(going: Walk) -> tuple[int, Tensor]:
    """How many questions a walk asks, and where it ends, with answers for sets of no element."""
    num_questions = 0
    try:
        question = next(going)
        while True:
            num_questions += 1
            question = going.send(question.answer(question.partial(), question.wide))
    except StopIteration as end:
        return num_questions, end.value
