"""The page about a fit: how good it is beside simple models, how it was trained, what is wrong with the data, how to use it."""

from orderless.studies.report.page import write_fit_report

__all__ = ["write_fit_report"]
