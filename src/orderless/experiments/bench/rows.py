"""The rows of the bench: one JSON line for each contender on each case, as `bench/run.py` writes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from orderless.io.errors import DataError
from orderless.io.reading import read_lines

OURS: Final = "orderless"
RELEASED: Final = "released"
COMPILED: Final = "compiled"
_EXPECTED: Final = "rows of `bench/run.py`, one JSON object a line"


@dataclass(frozen=True)
class Measurement:
    """One contender on one case.

    Attributes:
        run: Rows of one run may be compared.
        case: What was measured, by its name in `bench/cases.py`; the next ones say what that is.
        contender: Who computed it, by the name in `bench/contenders.py`.
        p50_ms: The median; `p20_ms` and `p80_ms` have a fifth of the calls below and above. None if it failed.
        peak_mib: Largest memory in use on a GPU: weights, gradients and the optimizer's state included.
        least_ms: What moving the least bytes would take at the speed of a copy, `copy_gb_per_s`.
        fused: Whether every op ran by kernels; None where the code is not ours. `expects_fused`: whether it should.
        times_faster_than: Median ratio to other contenders that took turns with it.
        error: Why there is no time.
    """

    run: str
    case: str
    group: str
    network: str
    direction: str
    num_sets: int
    num_elements: int
    largest_set: int
    width: int
    contender: str
    dtype: str
    device: str
    torch: str
    orderless: str
    in_features: int | None = None
    depth: int | None = None
    p20_ms: float | None = None
    p50_ms: float | None = None
    p80_ms: float | None = None
    peak_mib: float | None = None
    least_ms: float | None = None
    copy_gb_per_s: float | None = None
    of_copy_bandwidth: float | None = None
    backend: str | None = None
    expects_fused: bool = False
    fused: bool | None = None
    times_faster_than: Mapping[str, float] = field(default_factory=dict)
    triton: str | None = None
    git_rev: str = ""
    error: str | None = None


def read_measurements(path: str | Path) -> list[Measurement]:
    """The rows of a file, in its order; those of other benches in it are passed over, and so is a last line that is torn.

    Raises:
        DataError: If the file cannot be read, or a line of it is no row.
    """
    path = Path(path)
    lines = read_lines(path, _EXPECTED)
    found = []
    for number, text in enumerate(lines, start=1):
        try:
            row = json.loads(text)
        except ValueError:
            if number == len(lines):
                break  # a bench that was killed while it wrote
            raise _damaged(path, number, "something that is no JSON") from None
        if not isinstance(row, Mapping):
            raise _damaged(path, number, f"a {type(row).__name__}")
        if "case" in row:
            found.append(_measurement(path, number, row))
    if not found:
        raise DataError(path, expected=_EXPECTED, found="none of them", fix="Measure first: python bench/run.py.")
    return found


def newest(rows: Iterable[Measurement]) -> dict[str, dict[str, Measurement]]:
    """The contenders of each case, all of one run: the last one that measured ours, or else the last one.

    Where a run has several rows of a contender, the last that did not fail counts.
    """
    runs: dict[str, dict[str, dict[str, Measurement]]] = {}
    for row in rows:
        contenders = runs.setdefault(row.case, {}).setdefault(row.run, {})
        if row.error is None or contenders.get(row.contender, row).error is not None:
            contenders[row.contender] = row
    chosen = {}
    for case, by_run in runs.items():
        with_ours = [found for found in by_run.values() if OURS in found and found[OURS].error is None]
        chosen[case] = (with_ours or list(by_run.values()))[-1]
    return chosen


def _measurement(path: Path, number: int, row: Mapping[str, Any]) -> Measurement:
    known = {f.name: row[f.name] for f in fields(Measurement) if f.name in row}
    needed = [f.name for f in fields(Measurement) if f.default is MISSING and f.default_factory is MISSING]
    if missing := [name for name in needed if name not in known]:
        raise _damaged(path, number, f"a row without {', '.join(missing)}")
    if "error" not in row and not isinstance(row.get("p50_ms"), float | int):
        raise _damaged(path, number, "a row with neither a time nor an error")
    return Measurement(**known)


def _damaged(path: Path, number: int, found: str) -> DataError:
    return DataError(f"{path}, line {number}", expected=_EXPECTED, found=found, fix="Take that line out.")
