"""Files in and out: publishers' formats, downloads, and the memory-mapped store of sets."""

from orderless.io.errors import DataError, MissingDataError
from orderless.io.store import SetStore, open_or_build
from orderless.io.store_writer import StoreWriter

__all__ = ["DataError", "MissingDataError", "SetStore", "StoreWriter", "open_or_build"]
