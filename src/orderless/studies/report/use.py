"""How to predict with the bundle, and how it was made."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from orderless.pages.html import Html, element, join, prose
from orderless.studies.fit_folder import BUNDLE
from orderless.studies.report.reported import ReportedFit


def use_part(fit: ReportedFit) -> Html:
    """The shell's way, Python's way, and what the bundle expects."""
    schema, bundle = fit.model.schema_, fit.folder / BUNDLE
    covariates = " --labels covariates.csv" if schema.covariates else ""
    shell = f"orderless predict {shlex.quote(str(bundle))} NEW_DATA --out predictions.csv{covariates}"
    told = ", covariates=their_covariates" if schema.covariates else ""
    answer = "predict_proba" if hasattr(fit.model, "classes_") else "predict"
    python = "\n".join(
        [
            "from orderless.estimators import load_bundle",
            f"model = load_bundle({str(bundle)!r})",
            f"model.{answer}(sets{told})  # a list of (n, {schema.num_features}) arrays, or Samples of orderless.io",
        ]
    )
    expects = f"It expects {schema.num_features} features by name: {', '.join(schema.features or ())}."
    if schema.covariates:
        expects += f" Beside them, for each set: {', '.join(schema.covariates)}."
    note = "Files are read as those of training were. A column that is missing is an error; others are left out."
    return join(
        element("pre", element("code", shell)),
        element("pre", element("code", python)),
        element("p", expects),
        element("p", prose(note), class_="note"),
    )


def settings_part(fit: ReportedFit) -> Html:
    """Settings, data and versions."""
    settings = fit.said["settings"]
    of_data = {
        "source": fit.said["data"]["source"],
        **({"labels": fit.said["data"]["labels"]} if fit.said["data"].get("labels") else {}),
        "sets": f"{fit.said['data']['num_sets']:,}",
        "elements": f"{fit.said['data']['num_elements']:,}",
        "target": settings["target"],
        "group": settings["group"] or "none",
        "covariates": ", ".join(settings["covariates"] or []) or "none",
        "fingerprint": settings["data"],
    }
    reading = {name: _shown(value) for name, value in settings["reading"].get("options", {}).items() if name != "features"}
    how = {"network": settings["model"], **{name: _shown(value) for name, value in settings["options"].items()}}
    how |= {"date": fit.said["date"]} if fit.said.get("date") else {}
    how |= {"max elements": _shown(settings["max_elements"]), "seed": _shown(settings["seed"])}
    if settings["evaluate"]:
        split = {"split": settings["split"]} if settings["split"] else {}
        how |= split or {"folds": _shown(settings["num_folds"]), "repeats": _shown(settings["num_repeats"])}
    lists = {"Data": of_data, "Reading": reading, "Fit": how, "Versions": fit.said["versions"]}
    shown = element("div", [_list(head, values) for head, values in lists.items() if values], class_="settings")
    if not (command := fit.said.get("command")):
        return shown
    return join(element("p", "To fit it again, to another folder (--out):"), element("pre", element("code", command)), shown)


def _list(head: str, values: Mapping[str, Any]) -> Html:
    pairs = [join(element("dt", name), element("dd", str(value))) for name, value in values.items()]
    return element("div", element("h4", head), element("dl", pairs))


def _shown(value: Any) -> str:
    return "none" if value is None else ("yes" if value else "no") if isinstance(value, bool) else str(value)
