"""Options that more than one verb has, in the words of their help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orderless.cli.errors import UsageError

# of every verb
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Seed = Annotated[int, typer.Option(help="Seed of everything that is drawn at random.")]

# how to compute
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
Compile = Annotated[bool, typer.Option("--compile", help="Trace the network with torch.compile.")]
CudaGraphs = Annotated[bool, typer.Option("--cuda-graphs", help="Record each step once and replay it; needs a GPU.")]

# the paper's tasks
TaskName = Annotated[str, typer.Argument(metavar="TASK[@SOURCE]", help="A task of `orderless data list`, and where from.")]
DataDir = Annotated[Path | None, typer.Option(help="Folder with the publishers' files. Default: $ORDERLESS_DATA.")]
CacheDir = Annotated[
    Path | None, typer.Option(help="Folder for prepared tasks. Default: $ORDERLESS_CACHE or ~/.cache/orderless.")
]
TrainSets = Annotated[int | None, typer.Option(help="Sets for training. Default: as in the paper.")]
TestSets = Annotated[int | None, typer.Option(help="Sets for testing. Default: as in the paper.")]
SetSize = Annotated[int | None, typer.Option(help="Elements of every set. Default: as in the paper.")]

# runs of a recipe
RecipeName = Annotated[str | None, typer.Argument(metavar="[NAME|FILE.toml]", help="A recipe. Without one, they are listed.")]
Only = Annotated[
    list[str] | None,
    typer.Option(metavar="AXIS=VALUE,...", help="Only cells with these values, such as task=normal_var. May be repeated."),
]
Seeds = Annotated[str | None, typer.Option(metavar="0,1", help="Other seeds than the recipe's.")]
Quick = Annotated[bool, typer.Option("--quick", help="Shrink data, epochs and seeds as `quick` of the recipe says.")]
Jobs = Annotated[int, typer.Option(help="Runs side by side, each in a process of its own.")]
Out = Annotated[Path, typer.Option(help="Folder for results and renderings. Tables and figures share it.")]
Results = Annotated[list[Path] | None, typer.Option(metavar="FILE", help="Result lines to be shown as well. May be repeated.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="List the runs that this command would do, and which are done.")]
NoRun = Annotated[bool, typer.Option("--no-run", help="Render what is there of the runs that this command would do.")]
PrecisionName = Annotated[
    str | None, typer.Option("--precision", help="32-true, tf32 or bf16-mixed. Other runs than the recipe's.")
]

# people's own files, and how they are read
Data = Annotated[Path, typer.Argument(metavar="DATA", help="A long table (.csv, .parquet), .h5ad, .h5, or a folder of .fcs.")]
SetId = Annotated[str | None, typer.Option(metavar="COL", help="Column that says which set a row belongs to. Not for FCS.")]
Labels = Annotated[Path | None, typer.Option(metavar="FILE", help="CSV or Parquet with one row per set, joined by name.")]
LabelId = Annotated[str | None, typer.Option(metavar="COL", help="Column of --labels with the names of sets. Default: detected.")]
Features = Annotated[
    str | None,
    typer.Option(metavar="A,B", help="Only these features, in this order. A name with a comma goes in quotes of its own."),
]
Ignore = Annotated[str | None, typer.Option(metavar="A,B", help="Columns to leave out.")]
Layer = Annotated[str | None, typer.Option(help="AnnData: a layer to read instead of X.")]
Missing = Annotated[str | None, typer.Option(help="NaN in elements: error, drop or indicator. Default: error.")]
Transform = Annotated[str | None, typer.Option(help="FCS: arcsinh, logicle or none. Default: arcsinh.")]
Cofactor = Annotated[float | None, typer.Option(help="FCS: of arcsinh; 150 is common for fluorescence. Default: 5.")]
Compensate = Annotated[bool | None, typer.Option("--compensate/--no-compensate", help="FCS: take out spillover. Default: yes.")]
SampleCache = Annotated[
    Path | None, typer.Option("--cache-dir", help="Folder for what was read. Default: $ORDERLESS_CACHE or ~/.cache/orderless.")
]

# what is to be learned from them, and how
Group = Annotated[
    str | None,
    typer.Option(metavar="COL", help="Sets of one group are kept together. Default: a column like patient or donor; none: off."),
]
Covariates = Annotated[
    str | None, typer.Option(metavar="A,B", help="Columns of sets that the model gets beside elements, such as age.")
]
Split = Annotated[str | None, typer.Option(metavar="COL", help="Your own split: a column with train and test, or with folds.")]
TaskKind = Annotated[str, typer.Option("--task", help="classification, regression, or auto: inferred from the target.")]
ModelName = Annotated[str, typer.Option("--model", help="A network: deep_sets++, set_transformer++, ...")]
EstimatorOptions = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="An option of the estimator, such as depth or epochs. May be repeated."),
]
MaxElements = Annotated[
    int | None, typer.Option(help="Elements of a set in a training epoch, at most. Predictions take all. Default: by size.")
]
Folds = Annotated[int, typer.Option(help="Folds of the cross-validation.")]
Repeats = Annotated[int, typer.Option(help="Number of repeats of the cross-validation.")]


def check_seed(seed: int) -> None:
    """Fails where not all that draws takes the seed: scikit-learn and NumPy's older generators want 32 bits."""
    if not 0 <= seed < 2**32:
        raise UsageError(f"--seed must be a whole number from 0 to {2**32 - 1}, got {seed}.")
