"""Pictures of an evaluation: scores with intervals, ROC and precision-recall curves, calibration, confusion, parity, residuals.

Every picture is a PNG file and an SVG file of the same name.

Letters: N sets, R repeats, C classes, K targets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from orderless.evaluate.curves import (
    confusion,
    error_by_size,
    mean_prediction,
    precision_recall_curve,
    reliability,
    roc_curve,
)
from orderless.evaluate.drawing_parts import (
    GRID,
    LONGEST_NAME,
    choose_models,
    class_words,
    drawn_models,
    label_of,
    note_on,
    number_text,
    open_panels,
    open_square,
    put_legend,
    scatter,
    short_title,
    style_of,
)
from orderless.evaluate.evaluation import SHOWN, Evaluation
from orderless.evaluate.metrics import METRICS
from orderless.files import written_aside
from orderless.io.extras import require
from orderless.look import DPI, INK, SOFT, STYLE
from orderless.words import shortened

MOST_TARGETS: Final = 4  # of several, drawn below each other


def draw_evaluation(evaluation: Evaluation, folder: str | Path, *, models: Sequence[str] | None = None) -> dict[str, Path]:
    """Draws an evaluation into a folder, and gives the PNG files by name; an SVG file lies beside each.

    `scores` compares all models. Classification: `roc`, `precision_recall`, `calibration`, `confusion`. Regression: `parity`,
    `residuals`. Both: `set_size`, the error against the size of sets. A picture for which there are no predictions is left out.

    Args:
        evaluation: What `cross_validate` found.
        folder: Where to write. It is made if its parent is there; files of the same names are replaced.
        models: Which ones to draw, at most four. Default: of curves all; side by side the models that were given and the best
            baseline; where none was given, the baselines that look at sets.
    """
    folder = Path(folder)
    chosen = choose_models(evaluation, models)
    curves = drawn_models(evaluation) if models is None else chosen
    pictures: dict[str, Callable[[], Any]] = {"scores": lambda: _draw_scores(evaluation)}
    if any(np.isfinite(evaluation.models[name].output).any() for name in chosen):
        if evaluation.objective == "classification":
            pictures["roc"] = lambda: _draw_roc(evaluation, curves)
            pictures["precision_recall"] = lambda: _draw_precision_recall(evaluation, curves)
            pictures["calibration"] = lambda: _draw_calibration(evaluation, chosen)
            pictures["confusion"] = lambda: _draw_confusion(evaluation, chosen)
        else:
            pictures["parity"] = lambda: _draw_parity(evaluation, chosen)
            pictures["residuals"] = lambda: _draw_residuals(evaluation, chosen)
        pictures["set_size"] = lambda: _draw_set_size(evaluation, chosen)
    matplotlib = require("matplotlib", "plot")
    folder.mkdir(exist_ok=True)
    paths = {}
    for name, draw in pictures.items():
        with matplotlib.rc_context(STYLE):
            figure = draw()
            for kind, metadata in (("svg", {"Date": None}), ("png", {})):  # without the time of writing
                paths[name] = folder / f"{name}.{kind}"
                with written_aside(paths[name]) as beside:
                    figure.savefig(beside, format=kind, dpi=DPI, metadata=metadata)
    return paths


# ------------------------------------------------------------------------------------------------------- all models


def _draw_scores(evaluation: Evaluation) -> Any:
    """A row for each model, a panel for each metric: the value and both intervals."""
    metrics, rows = SHOWN[evaluation.objective], list(evaluation.models.values())
    lines = "Lines" if evaluation.groups is None else "Thick lines: over sets. Thin lines: over groups. Both"
    note = f"{note_on(evaluation)}\n{lines} are {100 * evaluation.confidence:g} % bootstrap intervals."
    figure, panels = open_panels(1, len(metrics), 3.0, 0.42 * len(rows) + 0.9, "Scores", note, left=2.9)
    for ax, name in zip(panels[0], metrics, strict=True):
        metric = METRICS[evaluation.objective][name]
        ax.set_title(f"{metric.title}, {'higher' if metric.higher_is_better else 'lower'} is better")
        for place, row in enumerate(rows):
            score, color = row.metrics[name], style_of(evaluation, row.name)["color"]
            if math.isnan(score.value):
                ax.annotate("no value", (0.5, place), xycoords=("axes fraction", "data"), ha="center", va="center", color=SOFT)
                continue
            wide, narrow = score.interval, score.over_sets
            ax.plot([wide.low, wide.high], [place, place], color=color, linewidth=1.6, alpha=0.55, solid_capstyle="butt")
            if score.over_groups is not None:
                ax.plot([narrow.low, narrow.high], [place, place], color=color, linewidth=4.5, alpha=0.45, solid_capstyle="butt")
            ax.plot([score.value], [place], "o", color=color, markersize=6.5 if not row.is_baseline else 5)
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.set_yticks(range(len(rows)), [row.title for row in rows] if ax is panels[0][0] else [""] * len(rows))
        ax.tick_params(axis="y", length=0)
        for label, row in zip(ax.get_yticklabels(), rows, strict=True):
            label.set(fontsize=9, color=INK if not row.is_baseline else SOFT, fontweight="normal" if row.is_baseline else "bold")
        ax.grid(axis="x", **GRID)
        ax.set_axisbelow(True)
        ax.spines["left"].set_visible(False)
    return figure


def _draw_roc(evaluation: Evaluation, curves: Sequence[str]) -> Any:
    note = "Sets are compared within their fold, whose scores come from one model."
    figure, ax = open_square("ROC", f"{note_on(evaluation)}\n{note}")
    ax.plot([0, 1], [0, 1], color="#BBBBBB", linewidth=1, linestyle=(0, (4, 3)))
    for name in curves:
        curve = roc_curve(evaluation, name)
        ax.plot(curve.x, curve.y, label=label_of(evaluation, name, "roc_auc"), **style_of(evaluation, name))
    ax.set_xlabel(f"false positive rate{class_words(evaluation)}")
    ax.set_ylabel("true positive rate")
    put_legend(ax, "area under the curve")
    return figure


def _draw_precision_recall(evaluation: Evaluation, curves: Sequence[str]) -> Any:
    figure, ax = open_square("Precision and recall", note_on(evaluation))
    tested = (evaluation.fold_numbers >= 0).any(0)
    assert evaluation.classes is not None
    shares = np.bincount(evaluation.target[tested], minlength=len(evaluation.classes)) / tested.sum()
    chance = shares[1] if len(shares) == 2 else shares.mean()
    ax.axhline(chance, color="#BBBBBB", linewidth=1, linestyle=(0, (4, 3)))
    for name in curves:
        curve = precision_recall_curve(evaluation, name)
        ax.plot(curve.x, curve.y, label=label_of(evaluation, name, "average_precision"), **style_of(evaluation, name))
    ax.set_xlabel(f"recall{class_words(evaluation)}")
    ax.set_ylabel("precision")
    put_legend(ax, "average precision")
    return figure


def _draw_set_size(evaluation: Evaluation, chosen: Sequence[str]) -> Any:
    what = "share of wrong answers" if evaluation.objective == "classification" else "mean absolute error"
    note = f"{note_on(evaluation)}\nBars: standard errors."
    figure, panels = open_panels(1, 1, 5.2, 3.4, "Error against set size", note, right=3.4, head=0.25)
    ax = panels[0][0]
    for place, name in enumerate(chosen):
        effect, style = error_by_size(evaluation, name), style_of(evaluation, name)
        size = effect.size * 1.015 ** (place - (len(chosen) - 1) / 2)  # side by side
        ax.errorbar(size, effect.error, effect.standard_error, color=style["color"], linewidth=style["linewidth"], marker="o",
                    markersize=4, capsize=0, elinewidth=1, label=evaluation.models[name].title)  # fmt: skip
    sizes = evaluation.sizes[evaluation.sizes > 0]
    if len(sizes) and sizes.max() > 5 * sizes.min():
        ax.set_xscale("log")
        ticker = require("matplotlib.ticker", "plot")
        ax.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5), numticks=9))
        ax.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.0f}"))
        ax.xaxis.set_minor_formatter(ticker.NullFormatter())
    ax.set_ylim(bottom=0)
    ax.set_xlabel("elements of a set, in bins with as many sets each")
    ax.set_ylabel(what)
    ax.grid(axis="y", **GRID)
    put_legend(ax)
    return figure


# ------------------------------------------------------------------------------------------------------- model by model


def _draw_calibration(evaluation: Evaluation, chosen: Sequence[str]) -> Any:
    assert evaluation.classes is not None
    two = len(evaluation.classes) == 2
    event = f"class {evaluation.classes[1]}" if two else "the answer is right"
    figure, panels = open_panels(
        2, len(chosen), 2.75, (2.75, 0.8), "Calibration", f"{note_on(evaluation)}\nBars: 95 % Wilson intervals."
    )
    for column, name in enumerate(chosen):
        found, color = reliability(evaluation, name), style_of(evaluation, name)["color"]
        ax, below = panels[0][column], panels[1][column]
        score = evaluation.models[name].metrics["calibration_error"]
        ax.set_title(f"{short_title(evaluation, name)}\ncalibration error {number_text(score.value)}")
        ax.plot([0, 1], [0, 1], color="#BBBBBB", linewidth=1, linestyle=(0, (4, 3)))
        ax.vlines(found.probability, found.low, found.high, color=color, linewidth=1.4, alpha=0.5)
        ax.plot(found.probability, found.share, "o-", color=color, markersize=4.5, linewidth=1.4)
        ax.set_xlim(-0.02, 1.02)
        ax.set_ylim(-0.02, 1.02)
        ax.set_xticks([0, 0.5, 1], ["", "", ""])
        ax.grid(**GRID)
        below.bar(found.probability, found.count, width=0.06, color=color, alpha=0.6)
        below.set_xlim(-0.02, 1.02)
        below.set_xticks([0, 0.5, 1])
        below.set_xlabel(f"probability: {event}")
        if column == 0:
            ax.set_ylabel("how often it was so")
            below.set_ylabel("sets")
    return figure


def _draw_confusion(evaluation: Evaluation, chosen: Sequence[str]) -> Any:
    assert evaluation.classes is not None
    names = [shortened(str(name), LONGEST_NAME) for name in evaluation.classes]
    C = len(names)
    side = min(2.2 + 0.12 * C, 5.0)
    averaged = ", averaged over repeats" if len(evaluation.fold_numbers) > 1 else ""
    note = f"{note_on(evaluation)}\nNumbers: sets{averaged}. Shade: share of the row."
    figure, panels = open_panels(1, len(chosen), side, side, "Confusion", note, left=0.75 + 0.06 * max(map(len, names)))
    for column, (ax, name) in enumerate(zip(panels[0], chosen, strict=True)):
        counts = confusion(evaluation, name)
        share = counts / np.maximum(counts.sum(1, keepdims=True), 1e-9)
        ax.imshow(share, cmap="Blues", vmin=0, vmax=1.15, aspect="equal")
        ax.set_title(short_title(evaluation, name))
        ax.set_xticks(range(C), names, rotation=0 if C * max(map(len, names)) < 24 else 60)
        ax.set_yticks(range(C), names if column == 0 else [""] * C)
        ax.tick_params(length=0)
        ax.set_xlabel("predicted")
        if column == 0:
            ax.set_ylabel("true")
        for spine in ax.spines.values():
            spine.set_visible(False)
        if C <= 12:
            for i, j in np.ndindex(C, C):
                text = f"{counts[i, j]:,.0f}" if float(counts[i, j]).is_integer() else f"{counts[i, j]:,.1f}"
                ax.text(
                    j, i, text, ha="center", va="center", fontsize=11 if C < 5 else 7, color="white" if share[i, j] > 0.6 else INK
                )
    return figure


def _draw_parity(evaluation: Evaluation, chosen: Sequence[str]) -> Any:
    def draw(ax: Any, true: Any, predicted: Any, color: str) -> None:
        both = np.concatenate([true, predicted])
        low, high = both.min(), both.max()
        pad = 0.04 * (high - low or 1)
        ax.plot([low - pad, high + pad], [low - pad, high + pad], color="#BBBBBB", linewidth=1, linestyle=(0, (4, 3)), zorder=0)
        scatter(ax, true, predicted, color)
        ax.set_xlim(low - pad, high + pad)
        ax.set_ylim(low - pad, high + pad)
        ax.set_aspect("equal")

    return _draw_targets(evaluation, chosen, "Parity", "predicted", draw, "true")


def _draw_residuals(evaluation: Evaluation, chosen: Sequence[str]) -> Any:
    def draw(ax: Any, true: Any, predicted: Any, color: str) -> None:
        ax.axhline(0, color="#BBBBBB", linewidth=1, linestyle=(0, (4, 3)), zorder=0)
        scatter(ax, predicted, predicted - true, color)
        most = 1.06 * max(abs(predicted - true).max(), 1e-12)
        ax.set_ylim(-most, most)

    return _draw_targets(evaluation, chosen, "Residuals", "predicted minus true", draw, "predicted")


def _draw_targets(
    evaluation: Evaluation,
    chosen: Sequence[str],
    title: str,
    y_label: str,
    draw: Callable[[Any, Any, Any, str], None],
    x_label: str,
) -> Any:
    K = min(evaluation.target.shape[1], MOST_TARGETS)
    some = "" if evaluation.target.shape[1] == K else f" The first {K} of {evaluation.target.shape[1]} targets."
    figure, panels = open_panels(K, len(chosen), 2.7, 2.7, title, f"{note_on(evaluation)}{some}", gap=0.75)
    for column, name in enumerate(chosen):
        prediction, color = mean_prediction(evaluation, name), style_of(evaluation, name)["color"]
        known = np.isfinite(prediction).all(1)
        for k in range(K):
            ax = panels[k][column]
            of = "" if K == 1 else f", target {k}"
            ax.set_title(f"{short_title(evaluation, name)}{of}\nR² {number_text(evaluation.models[name].metrics['r2'].value)}")
            ax.set_xlabel(x_label)
            if column == 0:
                ax.set_ylabel(y_label)
            ax.grid(**GRID)
            if known.any():
                draw(ax, evaluation.target[known, k], prediction[known, k], color)
    return figure
