# Two commands do everything from a fresh clone with Python >= 3.11 and make: `make run` and `make test`. `make help` lists the rest.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
JOBS ?= 2

TASK ?= pendulum
SEARCH ?= abs
SEED ?= 0
EPISODES ?= 300
RUNS ?= runs
RUN = $(RUNS)/$(TASK)/$(SEARCH)/seed-$(SEED)

# Two BLAS threads on small matrices are slower than one, and workers share the cores already.
export OMP_NUM_THREADS = 1
export OPENBLAS_NUM_THREADS = 1

.DEFAULT_GOAL := help
.PHONY: help run test lint format docs clean

help: ## say what can be made
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):[^#]*## /  make \1\t/' | expand -t 16

run: $(VENV)/.installed ## train a policy on a task, say what was learned, and write a report
	@if test -e $(RUN)/config.yaml; \
	then echo "Going on with the run in $(RUN); for a new one: make run SEED=1"; $(BIN)/abps resume $(RUN) --episodes $(EPISODES); \
	else $(BIN)/abps train $(TASK) --search $(SEARCH) --seed $(SEED) --episodes $(EPISODES) --runs $(RUNS); fi
	@$(BIN)/abps report $(RUN)
	@$(BIN)/abps evaluate $(RUN) --episodes 10
	@echo "Look at it: open $(RUN)/report.html in a browser. Every other command: $(BIN)/abps --help"

test: $(VENV)/.installed-test ## run the tests
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(if $(COVERAGE),--cov=abps --cov-report=term:skip-covered) $(TESTS)

lint: $(VENV)/.installed-test ## check format, style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

format: $(VENV)/.installed-test ## format the code and mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.installed-docs ## write docs/settings.md anew, build the site into site/, and check the documentation
	$(BIN)/python docs/generate_settings.py
	$(BIN)/python -m sphinx -W --keep-going -q -c docs -b html . site
	$(if $(CI),,$(BIN)/python -m pytest -n $(JOBS) tests/docs)
	@echo "Look at it: open site/index.html in a browser."

clean: ## remove the environment and caches; runs are kept
	rm -rf $(VENV) build dist site .pytest_cache .ruff_cache .hypothesis
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "abps needs Python 3.11 or newer, and found none; name one with: make PYTHON=/path/to/python3 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The stamps are newer than pyproject.toml once everything it names is installed, so that a second call starts at once.
$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,docs]'
	@touch $@ $(VENV)/.installed-test $(VENV)/.installed
