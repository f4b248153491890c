"""The data: what was read, what is wrong with it, how large sets are."""

from __future__ import annotations

import numpy as np

from orderless.pages.charts import Series, line_chart
from orderless.pages.html import Html, element, join
from orderless.pages.parts import badge
from orderless.pages.scale import Scale
from orderless.studies.report.reported import ReportedFit

_KINDS = {"bad": ("makes figures wrong", "bad"), "warn": ("look at it", "warn"), "note": ("good to know", "")}


def problems_part(fit: ReportedFit) -> Html:
    """What is wrong with the data, or may be."""
    problems = fit.said["problems"]
    if not problems:
        looked = "samples that are there twice, tiny and empty sets, features that never change or have extreme values, labels"
        return element("p", f"Nothing was found. Looked for: {looked} that are missing or rare, sizes that go with the target.")
    entries = [
        element("li", badge(*_KINDS[problem["kind"]]), element("b", f"{problem['title']}."), " ", problem["text"])
        for problem in sorted(problems, key=lambda problem: list(_KINDS).index(problem["kind"]))
    ]
    return element("ul", entries, class_="problems")


def data_part(fit: ReportedFit) -> Html:
    """What was read, as it was told before training, and the sizes of sets."""
    lines = [element("li", _emphasised(line)) for line in fit.said["data"]["described"]]
    return join(element("ul", lines, class_="problems"), element("div", _sizes(fit), class_="charts"))


def _emphasised(line: str) -> Html:
    head, colon, rest = line.partition(": ")
    return join(element("b", f"{head}: "), rest) if colon and len(head) < 60 else join(line)


def _sizes(fit: ReportedFit) -> Html | None:
    """Sets from the smallest to the largest."""
    sizes = np.sort(np.array(fit.said["data"]["sizes"], dtype=np.float64))
    points = [(float(n + 1), float(size)) for n, size in enumerate(sizes)]
    wide = sizes[0] > 0 and sizes[-1] > 30 * sizes[0]
    scale = None if wide else Scale(0.0, 1.05 * float(sizes[-1]))
    return line_chart(
        "Sizes of sets", [Series(points, "elements")], x_name="sets, the smallest first", y_name="elements", y_scale=scale
    )
