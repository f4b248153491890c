"""Channels of a cytometer that say something of the measurement rather than of the cell, told by their names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from orderless.io.tables import name_key

# time, number and length of the event, calibration beads; and barcodes, which say which sample a cell is from, so that a network
# would learn the samples by heart
_NAMES = re.compile(r"time|event(number|num|nr|no|length|)|celllength|beads?\d*|barcode\d*|bc\d+")


def is_not_of_cells(name: str) -> bool:
    """Whether a channel of cytometry has such a name, whatever its capitals, spaces and punctuation."""
    return _NAMES.fullmatch(name_key(name)) is not None


def tell_not_of_cells(features: Sequence[str]) -> list[str]:
    """That features of a file which does not say what it is of are called so: in a table, `time` may be what matters."""
    names = [name for name in features if is_not_of_cells(name)]
    if not names:
        return []
    return [
        f"features whose names are of the measurement rather than of cells, if this is cytometry: ignore={names!r} leaves "
        f"{'it' if len(names) == 1 else 'them'} out, as is done with FCS files."
    ]
