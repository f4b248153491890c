"""The rows of the bench as Markdown: goals beside what was reached, every contender, and time by size, depth and width."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from orderless.experiments.bench.goals import GOALS, Goal
from orderless.experiments.bench.rows import COMPILED, OURS, RELEASED, Measurement, newest
from orderless.experiments.naming import title_of_model
from orderless.experiments.render import markdown_grid
from orderless.numbers import count, plain

CONTENDERS: Final[Mapping[str, str]] = {
    OURS: "orderless",
    "orderless-eager": "orderless, without CUDA graphs",
    "orderless-compiled": "orderless, layers without kernels compiled",
    "orderless-tf32": "orderless, TF32",
    "orderless-float32": "orderless, float32",
    "reference": "orderless, without kernels",
    RELEASED: "the authors' computation",
    "plain": "written plainly",
    COMPILED: "written plainly, compiled",
    "pyg": "PyTorch Geometric",
}
SWEEPS: Final[Mapping[str, str]] = {"size": "elements of a set", "depth": "layers", "width": "width"}
_DIGITS: Final = 3
_TIMES: Final = "\N{MULTIPLICATION SIGN}"
_NOTHING: Final = "-"

Cases = Mapping[str, Mapping[str, Measurement]]


@dataclass(frozen=True)
class GoalLine:
    """A goal and what was measured about it, as texts for a table, in its order.

    Attributes:
        reached: Whether ours is within the bound.
    """

    title: str
    released: str
    compiled: str
    ours: str
    goal: str
    floor: str
    times_released: str
    times_compiled: str
    reached: bool


def to_markdown(rows: Sequence[Measurement]) -> str:
    """All tables, with what they were measured on."""
    cases = newest(rows)
    parts = []
    if lines := goal_lines(rows):
        head = [
            "",
            "authors' computation",
            "plain, compiled",
            "ours",
            "goal",
            "floor",
            "authors / ours",
            "compiled / ours",
            "reached",
        ]
        body = [
            [
                *(line.title, line.released, line.compiled, f"**{line.ours}**", line.goal, line.floor),
                *(line.times_released, line.times_compiled, "yes" if line.reached else "no"),
            ]
            for line in lines
        ]
        parts += ["## Goals", _table(head, body)]
    if everyone := _everyone(cases):
        parts += ["## Every contender", everyone]
    for group, what in SWEEPS.items():
        if tables := _sweep(cases, group):
            parts += [f"## Time by {what}", *tables]
    parts.append(say_where(cases))
    return "\n\n".join(parts) + "\n"


def goal_lines(rows: Sequence[Measurement]) -> list[GoalLine]:
    """The goals whose cases were measured."""
    cases = newest(rows)
    found = (_goal_line(goal, cases) for goal in GOALS)
    return [line for line in found if line is not None]


def say_where(cases: Cases) -> str:
    """Machine and versions, and the share of our cases that ran by kernels."""
    shown = [row for contenders in cases.values() for row in contenders.values()]
    places: dict[str, dict[str, None]] = {}  # runs by machine, in their order
    for row in shown:
        machine = f"{row.device}, torch {row.torch}, {f'Triton {row.triton}, ' if row.triton else ''}orderless {row.orderless}"
        places.setdefault(machine, {})[f"{f' at {row.git_rev}' if row.git_rev else ''}, run {row.run}"] = None
    speeds = sorted(row.copy_gb_per_s for row in shown if row.copy_gb_per_s)
    copied = f" A copy moved {' to '.join(dict.fromkeys(plain(v, 3) for v in (speeds[0], speeds[-1])))} GB/s." if speeds else ""
    expected = [row for row in shown if row.expects_fused and row.error is None]
    fused = (
        f" {sum(bool(row.fused) for row in expected)} of {len(expected)} of our measurements ran by kernels." if expected else ""
    )
    measured = "; ".join(machine + ";".join(runs) for machine, runs in places.items())
    return f"Measured on {measured}.{copied}{fused}"


# ------------------------------------------------------------------------------------------------------- goals


def _goal_line(goal: Goal, cases: Cases) -> GoalLine | None:
    contenders = cases.get(goal.case, {})
    base = cases.get(goal.relative_to, {})
    ours = contenders.get(OURS)
    if ours is None:
        return None

    def say(name: str) -> str:
        return _say(goal, contenders.get(name), base.get(name))

    pyg = f" (PyG {say('pyg')})" if "pyg" in contenders else ""
    return GoalLine(
        goal.title,
        say(RELEASED) + pyg,
        say(COMPILED),
        say(OURS),
        _say_bound(goal),
        _say_floor(goal, ours, base.get(OURS)),
        _say_times(goal, ours, contenders.get(RELEASED)),
        _say_times(goal, ours, contenders.get(COMPILED)),
        _is_reached(goal, ours, contenders, base.get(OURS)),
    )


def _say(goal: Goal, row: Measurement | None, base: Measurement | None) -> str:
    """A contender's figure, in the unit of the goal."""
    if row is None:
        return _NOTHING
    if row.error is not None:
        return say_failure(row)
    value = _value(goal, row, base)
    if goal.kind == "times a case":
        return f"{_ms(row)} ms" if value is None else f"{plain(value, _DIGITS)} {_TIMES} ({_ms(row)} ms)"
    if goal.kind == "GiB":
        return _NOTHING if value is None else f"{plain(value, _DIGITS)} GiB"
    return f"{_ms(row)} ms"


def _value(goal: Goal, row: Measurement, base: Measurement | None) -> float | None:
    if goal.kind == "GiB":
        return None if row.peak_mib is None else row.peak_mib / 1024
    if goal.kind == "times a case":
        return None if base is None or not base.p50_ms or row.p50_ms is None else row.p50_ms / base.p50_ms
    return row.p50_ms


def _say_bound(goal: Goal) -> str:
    if goal.kind == "times the authors' speed":
        return f"{goal.bound:g} {_TIMES} faster"
    return f"≤ {goal.bound:g} {_TIMES if goal.kind == 'times a case' else goal.kind}"


def _say_floor(goal: Goal, ours: Measurement, base: Measurement | None) -> str:
    if goal.kind == "times a case":
        return "" if base is None else f"{plain(ours.num_elements / base.num_elements, 2)} {_TIMES}"
    return f"{plain(ours.least_ms, 2)} ms" if goal.kind != "GiB" and ours.least_ms else ""


def _say_times(goal: Goal, ours: Measurement, other: Measurement | None) -> str:
    ratio = _times(goal, ours, other)
    return "" if ratio is None else f"{plain(ratio, _DIGITS)} {_TIMES}"


def _times(goal: Goal, ours: Measurement, other: Measurement | None) -> float | None:
    """How many times the other's time, or memory, is ours."""
    if other is None or other.error is not None or ours.error is not None:
        return None
    if goal.kind == "GiB":
        return other.peak_mib / ours.peak_mib if other.peak_mib and ours.peak_mib else None
    if other.contender in ours.times_faster_than:
        return ours.times_faster_than[other.contender]
    return other.p50_ms / ours.p50_ms if other.p50_ms and ours.p50_ms else None


def _is_reached(goal: Goal, ours: Measurement, contenders: Mapping[str, Measurement], base: Measurement | None) -> bool:
    if goal.kind == "times the authors' speed":
        ratio = _times(goal, ours, contenders.get(RELEASED))
        return ratio is not None and ratio >= goal.bound
    value = None if ours.error is not None else _value(goal, ours, base)
    return value is not None and value <= goal.bound


# ------------------------------------------------------------------------------------------------------- the other tables


def _everyone(cases: Cases) -> str:
    head = ["case", "contender", "in", "ms", "p20", "p80", "peak MiB", "of copy speed", "by"]
    body = []
    for case, contenders in cases.items():
        for row in sorted(contenders.values(), key=place_of):
            if row.group in SWEEPS:
                continue
            name = CONTENDERS.get(row.contender, row.contender)
            if row.error is not None:
                body.append([case, name, row.dtype, say_failure(row), "", "", "", "", ""])
                continue
            peak = "" if row.peak_mib is None else count(round(row.peak_mib))
            share = "" if row.of_copy_bandwidth is None else f"{row.of_copy_bandwidth:.0%}"
            times = [plain(value, _DIGITS) for value in (row.p50_ms, row.p20_ms, row.p80_ms) if value is not None]
            body.append([case, name, row.dtype, *times, peak, share, row.backend or ""])
    return _table(head, body, labels=3) if body else ""


def place_of(row: Measurement) -> int:
    """The contender's place among all."""
    return list(CONTENDERS).index(row.contender) if row.contender in CONTENDERS else len(CONTENDERS)


def swept(row: Measurement) -> int | None:
    """What differs within the group of a case."""
    return {"size": row.largest_set, "depth": row.depth, "width": row.width}.get(row.group)


def sweep_rows(cases: Cases, group: str) -> dict[str, list[Measurement]]:
    """The measurements of a group of cases, by network."""
    found: dict[str, list[Measurement]] = {}
    for contenders in cases.values():
        for row in contenders.values():
            if row.group == group and swept(row) is not None:
                found.setdefault(row.network, []).append(row)
    return found


def sweep_title(rows: Iterable[Measurement], group: str) -> str:
    """Network, and its depth where that is the same: `Deep Sets++ 50`."""
    row = next(iter(rows))
    return title_of_model(row.network) if group == "depth" else f"{title_of_model(row.network)} {row.depth}"


def _sweep(cases: Cases, group: str) -> list[str]:
    tables = []
    for rows in sweep_rows(cases, group).values():
        values = sorted({value for row in rows if (value := swept(row)) is not None})
        elements = {swept(row): row.num_elements for row in rows}
        head = [f"{sweep_title(rows, group)}, training step, ms", *(count(value) for value in values)]
        names = [name for name in CONTENDERS if any(row.contender == name for row in rows)]
        at = {(row.contender, swept(row)): row for row in rows}
        body = [[CONTENDERS[name], *(_cell(at.get((name, value))) for value in values)] for name in names]
        if group == "size":
            body.append(["elements in all sets", *(count(elements[value]) for value in values)])
        tables.append(_table(head, body))
    return tables


def _cell(row: Measurement | None) -> str:
    if row is None:
        return _NOTHING
    return say_failure(row) if row.error is not None else _ms(row)


def say_failure(row: Measurement) -> str:
    """Why there is no time, in a word or two."""
    return "out of memory" if "OutOfMemory" in (row.error or "") else "failed"


def _ms(row: Measurement) -> str:
    return _NOTHING if row.p50_ms is None else plain(row.p50_ms, _DIGITS)


def _table(head: Sequence[str], body: Sequence[Sequence[str]], labels: int = 1) -> str:
    """A table whose columns lean to the right, but for the first `labels`."""
    return markdown_grid(head, body, to_left=[i < labels for i in range(len(head))])
