"""The folder of a fit: what it belongs to, and a folder for each member of the ensemble.

work_dir/
  fit.json        a fingerprint of data and parameters, and the seed
  member-0/       checkpoints and history of the first network, and so on
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from orderless.estimators.sets_input import GivenSets
from orderless.files import write_text
from orderless.io.errors import DataError
from orderless.io.reading import describe, reading
from orderless.version import __version__

_FIT = "fit.json"


def open_work_dir(folder: str | Path, fingerprint: Mapping[str, str], seed: int, *, keep_seed: bool) -> tuple[Path, int]:
    """The folder, and the seed to go on with: that of the fit in it, where the caller's own is not binding.

    Args:
        folder: Where checkpoints go.
        fingerprint: Of data and parameters.
        seed: Of this fit.
        keep_seed: The seed is asked for, so a fit with another one is another fit.

    Raises:
        ValueError: If the folder holds another fit.
        DataError: If it cannot be told which fit it holds.
    """
    folder = Path(folder).expanduser()
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"work_dir={str(folder)!r} is a file: name a folder, which may not exist yet.")
    said = folder / _FIT
    if said.exists():
        before = _read(said)
        now = {**fingerprint, "orderless": __version__, **({"seed": seed} if keep_seed else {})}
        differ = [name for name, value in now.items() if before.get(name) != value]
        if differ:
            raise ValueError(
                f"work_dir={str(folder)!r} holds another fit: its {', '.join(differ)} differ. A fit that was stopped is resumed "
                "with the same data and parameters; for another one choose another folder."
            )
        return folder, before["seed"]
    if folder.exists() and any(folder.glob("member-*")):
        raise ValueError(f"work_dir={str(folder)!r} holds members of a fit but no {_FIT}: choose another folder, or empty it.")
    folder.mkdir(parents=True, exist_ok=True)
    write_text(said, json.dumps({**fingerprint, "orderless": __version__, "seed": seed}, indent=1))
    return folder, seed


def _read(path: Path) -> dict[str, Any]:
    """What a fit said of itself."""
    expected = "the JSON that a fit wrote"
    with reading(path, expected):
        content = path.read_bytes()
    try:
        said = json.loads(content)
        if not isinstance(said, dict) or type(said.get("seed")) is not int:
            raise ValueError("there is no seed")
    except (ValueError, RecursionError) as error:
        fix = f"Delete {path.parent} to fit from the beginning, or choose another work_dir."
        raise DataError(path, expected=expected, found=f"something else ({describe(error)})", fix=fix) from None
    return said


def fingerprint_of(sets: GivenSets, params: Mapping[str, Any], **arrays: Any) -> dict[str, str]:
    """Digests by name of what a fit depends on: the elements, the parameters, and further arrays."""
    elements = hashlib.sha256(np.ascontiguousarray(sets.sizes).tobytes() + repr(sets.features).encode())
    for number in range(len(sets)):
        for block in sets.stored.blocks(number):
            elements.update(np.ascontiguousarray(block).tobytes())
    digests = {name: hashlib.sha256(_bytes(value)).hexdigest()[:32] for name, value in arrays.items()}
    said = json.dumps({name: repr(value) for name, value in sorted(params.items())})
    return {"elements": elements.hexdigest()[:32], "parameters": hashlib.sha256(said.encode()).hexdigest()[:32], **digests}


def _bytes(values: Any) -> bytes:
    if values is None:
        return b"none"
    array = np.asarray(values)
    return repr(array.tolist()).encode() if array.dtype.kind in "OUS" else np.ascontiguousarray(array).tobytes()
