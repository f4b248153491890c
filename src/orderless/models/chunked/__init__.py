"""Networks on sets of any size: exact, in chunks of elements, for inference (`predict`) and training (`forward`).

    from orderless.models import chunked

    answer = chunked.predict(model, np.load("cells.npy", mmap_mode="r"))   # one set that stays on disk
    loss = loss_function(chunked.forward(model, batch), target)
    loss.backward()                                                        # the gradients of model(batch)

A network asks a few questions about each set as a whole (`questions.py`); everything else is done to each element alone
(`layers.py`). So it is computed in passes over chunks of elements, a pass a question (`passes.py`), with activations kept between
passes where there is room (`keep.py`).
"""

from orderless.models.chunked.calls import forward, predict
from orderless.models.chunked.source import Blocks, SourceChangedError

__all__ = ["Blocks", "SourceChangedError", "forward", "predict"]
