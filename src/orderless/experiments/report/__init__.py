"""Reports: one HTML page about one run or many, which needs no network and no other file."""

from orderless.experiments.report.page import write_report
from orderless.experiments.report.runs import ReportedRun, find_runs, read_run

__all__ = ["ReportedRun", "find_runs", "read_run", "write_report"]
