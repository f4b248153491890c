"""Files in and out: publishers' formats, downloads, and the memory-mapped store of sets."""

from orderless.io.errors import DataError, MissingDataError
from orderless.io.store import SetStore, StoreWriter, open_or_build

__all__ = ["DataError", "MissingDataError", "SetStore", "StoreWriter", "open_or_build"]
