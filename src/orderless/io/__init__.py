"""Files in and out: people's own files, publishers' formats, downloads, and the memory-mapped store of sets."""

from orderless.io.errors import DataError, MissingDataError
from orderless.io.labels import join_labels
from orderless.io.memory_sets import MemorySets
from orderless.io.open_samples import open_samples
from orderless.io.samples import Samples
from orderless.io.store import SetStore, open_or_build
from orderless.io.store_writer import StoreWriter

__all__ = [
    "DataError",
    "MemorySets",
    "MissingDataError",
    "Samples",
    "SetStore",
    "StoreWriter",
    "join_labels",
    "open_or_build",
    "open_samples",
]
