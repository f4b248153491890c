"""Models as programs for deployment: `torch.export` with free numbers of sets and elements."""

import torch
from torch import nn

from orderless.models.base import SetModel
from orderless.sets import SetBatch


def export_model(
    model: SetModel, *, element_shape: tuple[int, ...] | None = None, element_dtype: torch.dtype | None = None
) -> torch.export.ExportedProgram:
    """Traces a model into a program that takes a SetBatch of one or more sets of any sizes, empty ones included.

    Plain `torch.export` treats a dimension of size 1 as a special case, so a program for two or more sets refuses one, and a
    program made from one set takes only that; this asks it not to.

    Args:
        model: In the mode, training or eval, that the program is to have.
        element_shape: Shape of one element, if a featurizer of your own does not say it (`model.element_shape`).
        element_dtype: Of the elements, if a featurizer of your own takes another dtype than that of the weights, such as whole
            numbers.
    """
    if not isinstance(model, SetModel):
        raise TypeError(f"export_model takes a model made by create_model, got {type(model).__name__}.")
    element_shape = model.element_shape if element_shape is None else element_shape
    if element_shape is None:
        raise ValueError("a model with a featurizer of your own needs element_shape=, the shape of one element that it takes.")
    from torch.fx.experimental import _config as symbolic_shapes

    parameter = next(model.parameters())
    example = SetBatch.from_list([parameter.new_zeros(size, *element_shape, dtype=element_dtype) for size in (3, 4)])
    free = {0: torch.export.Dim.DYNAMIC}
    with symbolic_shapes.patch(backed_size_oblivious=True):  # type: ignore[attr-defined]
        return torch.export.export(_OneInput(model), (example,), dynamic_shapes={"batch": [free, free]})


class _OneInput(nn.Module):
    """The model without its optional mask, which a packed batch has no use for."""

    def __init__(self, model: SetModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: SetBatch) -> torch.Tensor | SetBatch:
        return self.model(batch)
