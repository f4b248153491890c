# From nothing but Python and make: every target builds .venv itself when it is missing or older than its pins.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BUILT := $(VENV)/.built
PYTEST := $(BIN)/python -m pytest
unexport PYTHONDONTWRITEBYTECODE # tests begin a hundred processes, each of which would compile all of orderless

.PHONY: help demo test coverage test-all lint types format bench docs clean
.DEFAULT_GOAL := help

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BUILT): pyproject.toml constraints.txt
	@echo "building $(VENV) (a minute or two)"
	$(PYTHON) -m venv --clear $(VENV)
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $@

demo: $(BUILT) ## Train shallow and deep networks, show them beside the published figures, and write a report; minutes
	$(BIN)/orderless table demo --quick --jobs 2 --out demo --cache-dir demo/cache
	$(BIN)/orderless report demo --title "What depth does" --out demo/report.html --cache-dir demo/cache

# What torch's compiler traces is tested apart: it would trace the checks of shapes as well.
TRACED := -m traced -p no:jaxtyping -o addopts="--import-mode=importlib --strict-markers -ra"

test: lint types ## Lint, types, tests
	$(PYTEST) -n 2 -m "not full and not traced"
	$(PYTEST) -n 2 $(TRACED)

coverage: $(BUILT) ## The tests again, in twice the time, failing where they leave more than a twentieth of the lines unseen
	rm -f .coverage .coverage.*
	$(PYTEST) -n 2 --cov --cov-report= -m "not full and not traced"
	$(PYTEST) -n 2 --cov --cov-append --cov-report=term $(TRACED)

test-all: test ## The tests, then every legal combination of options
	$(PYTEST) -n 2 -m "full"

lint: $(BUILT) ## Check style
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(BUILT) ## Check types
	$(BIN)/mypy

format: $(BUILT) ## Put the code into house style
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(BUILT) ## Measure the ops, models, loading and training here, after their tests; rows go to bench/results.jsonl
	$(BIN)/python bench/run.py
	$(BIN)/python bench/loading.py
	$(BIN)/python bench/training.py

docs: $(BUILT) ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean: ## Remove what can be built again
	rm -rf $(VENV) site demo .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .hypothesis
