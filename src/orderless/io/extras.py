"""Optional libraries: imported where they are used, and named with their extra where they are missing."""

from __future__ import annotations

import importlib
from types import ModuleType


def require(module: str, extra: str) -> ModuleType:
    """Imports an optional library, or says in one line how to install it.

    Args:
        module: The module, such as `h5py` or `PIL.Image`.
        extra: The extra of this package that brings it along, such as `io`.

    Raises:
        ImportError: If the library is not installed. A library that is there but broken raises what it raises itself.
    """
    library = module.split(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != library:
            raise  # something that the library itself needs: not for us to explain
        raise ImportError(f"{library} is needed here but not installed: pip install 'orderless[{extra}]'", name=library) from None
