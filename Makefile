# Two commands are all a newcomer needs: `make demo` and `make test`. `make help` lists the rest.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Test files side by side, one worker a core up to four; a file stays whole, so that its tests share what they set up.
WORKERS ?= $(shell n=$$(nproc 2>/dev/null || echo 2); [ $$n -gt 4 ] && n=4; echo $$n)
# COVERAGE=1: what is run is written down for `make coverage` (costs some 15 % more time).
COVER = $(if $(COVERAGE),--cov --cov-report=)
PARALLEL = -n $(WORKERS) --dist loadfile
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export INSTANTSTART_SKIP_UI := 1

.DEFAULT_GOAL := help
.PHONY: access fuzz help setup setup-test mlflow ui demo test coverage test-all test-slow lint types contracts bench lock clean docs weather weather-report kube-reference

help: ## List the verbs
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

$(VENV)/pyvenv.cfg:
	@tools/make-venv $(PYTHON) $(VENV)

$(VENV)/.run: $(VENV)/pyvenv.cfg locks/run.txt pyproject.toml
	@echo "Installing what running needs into $(VENV), by locks/run.txt (minutes, the first time) ..."
	@$(BIN)/python -m pip install -q --require-hashes -r locks/run.txt
	@$(BIN)/python -m pip install -q --no-deps -e .
	@touch $@

$(VENV)/.test: $(VENV)/pyvenv.cfg locks/test.txt pyproject.toml
	@echo "Installing what testing needs into $(VENV), by locks/test.txt (minutes, the first time) ..."
	@$(BIN)/python -m pip install -q --require-hashes -r locks/test.txt
	@$(BIN)/python -m pip install -q --no-deps -e .
	@touch $@ $(VENV)/.run

setup: $(VENV)/.run ## Install what running needs into .venv

setup-test: $(VENV)/.test ## Install what testing needs, too
	@tools/ensure-chromium
	@tools/make-mlflow $(BIN)/python || true

mlflow: setup ## Install what the sandbox's real MLflow servers need into the cache folder (600 MB; without it they say so)
	@tools/make-mlflow $(BIN)/python

ui: ## Build the console (Node from this machine, else from PyPI; without either the rest still works)
	@tools/build-ui $(BIN)/python

demo: setup ui ## An empty sandbox account becomes a verified cluster; the console stays open on port 3099
	@$(BIN)/instantstart demo

test: setup-test ui ## Lint, types, contracts and every test that is not slow
	@$(MAKE) --no-print-directory lint types contracts
	@tools/test-ui
	@$(BIN)/python -m pytest -q -m "not slow" $(PARALLEL) $(COVER) $(PYTEST_ARGS) --ignore=tests/e2e; others=$$?; \
	$(BIN)/python -m pytest -q -m "not slow" $(COVER) $(if $(COVERAGE),--cov-append) $(PYTEST_ARGS) tests/e2e && exit $$others

coverage: setup-test ## Fail when less of base, operations and rules was run by `make test COVERAGE=1` than the floors say
	@$(BIN)/python tools/check_coverage.py

test-all: setup-test ui ## The slow tests, too: crash enumeration, twenty kills, weather
	$(BIN)/python -m pytest -q $(PYTEST_ARGS)

test-slow: setup-test ## Only the slow tests
	$(BIN)/python -m pytest -q -m slow $(PYTEST_ARGS)

weather: setup-test ## Today's share of the kills and weathers (MINUTES=20; all of them: hours)
	$(if $(filter all,$(MINUTES)),INSTANTSTART_WEATHER=all,INSTANTSTART_WEATHER_MINUTES=$(or $(MINUTES),20)) \
	$(BIN)/python -m pytest -q -m slow $(PYTEST_ARGS) tests/weather

fuzz: setup-test ## 20,000 random, wrong and hostile requests to a real server with a ready cluster (ARGS="--tags training --seed 7")
	@$(BIN)/python -m tests.breach.fuzz $(ARGS)

access: setup-test ## Ask every route, tool and command as every kind of caller, and write the table of who may do what
	@$(BIN)/python -m tests.breach.access

lint: ## Style, complexity, house rules
	$(BIN)/ruff check src tests tools recipes
	$(BIN)/ruff format --check src tests tools recipes

types: ## mypy, strict
	$(BIN)/mypy

contracts: ## Who may import whom
	$(BIN)/lint-imports --config .importlinter

bench: setup-test ## Measure: pipeline, reaction, start, memory, catalogue; prints figures and ratios
	$(BIN)/python -m tests.bench

docs: setup-test ## Write the generated tables of docs/ anew
	$(BIN)/python tools/generate_docs.py
	$(BIN)/python tools/generate_policies.py

weather-report: setup-test ## Take what the weather's runs found into the ledger, and draw docs/weather-report.md
	$(BIN)/python -m tests.weather.ledger

kube-reference: setup-test ## Start a real Kubernetes on loopback for the differential tests (ARGS=--stop ends it)
	@PYTHON=$(abspath $(BIN)/python) tools/kube-reference $(ARGS)

lock: ## Write the lock files anew from pyproject.toml
	tools/lock $(BIN)/python

clean: ## Remove what make made here (the demo's state, too)
	rm -rf $(VENV) .instantstart src/instantstart/web ui/node_modules ui/dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
