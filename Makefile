# Everything here works from a clean clone and needs only Python 3.11+ with venv, and make.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BROWSER_STAMP := $(VENV)/.browser
ARGS ?=
SEED ?=
TESTS ?=
KAFKA_TESTS ?= $(wildcard tests/integration/test_bus_*.py) tests/integration/test_embedded_apache.py tests/e2e
KAFKA_FAULTS ?= tests/fault/test_fault_broker.py tests/fault/test_fault_processes.py tests/fault/test_fault_sweep.py
CLUSTER_FAULTS ?= tests/fault/test_fault_cluster.py
UV_VERSION := $(shell sed -n 's/^uv==\([^ ]*\).*/\1/p' requirements.lock)

# everything stays under the checkout, caches included
export UV_CACHE_DIR := $(CURDIR)/.stanchion/cache/uv
export PIP_CACHE_DIR := $(CURDIR)/.stanchion/cache/pip
export UV_LINK_MODE := hardlink

.PHONY: help demo test dev check format test-kafka test-fault test-browser chromium bench bench-peers generate verify lock wheel clean

help:  ## Show this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-12s %s\n", $$1, $$2}'

$(STAMP): requirements.lock pyproject.toml
	@echo "· setting up $(VENV)" >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m uv --version >/dev/null 2>&1 || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION) || true
	@if $(BIN)/python -m uv --version >/dev/null 2>&1; then \
	   $(BIN)/python -m uv pip sync --quiet --compile-bytecode --python $(BIN)/python --require-hashes requirements.lock && \
	   $(BIN)/python -m uv pip install --quiet --python $(BIN)/python --no-deps -e . ; \
	 else \
	   $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements.lock && \
	   $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e . ; \
	 fi
	@$(BIN)/python -m compileall -q -j 0 stanchion services examples
	@touch $@

demo: $(STAMP)  ## Run the Research Report Studio on real sources, killing and freezing workers (ARGS="--sources DIR --topic '...'")
	@$(BIN)/python -m examples.studio.demo $(ARGS)

test: $(STAMP)  ## Run the tests on embedded servers (TESTS="tests/unit ...": only those)
	@$(BIN)/python $(if $(strip $(TESTS)),-m pytest,tests/lanes.py) $(ARGS) $(TESTS)

dev: $(STAMP)  ## Start everything locally and stay, with a task moving (ARGS="yourmodule:workflow")
	@$(BIN)/stanchion dev $(if $(ARGS),$(ARGS),examples.studio.workflow:studio --workers 2 --submit 'report topic="how connection pools recover from lost connections"')

check: $(STAMP)  ## Format, lint, types, import contracts, generated files
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(MAKE) --no-print-directory verify

format: $(STAMP)  ## Format the code and fix what lint can fix
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

$(BROWSER_STAMP): requirements-browser.lock $(STAMP)
	@if $(BIN)/python -m uv --version >/dev/null 2>&1; then \
	   $(BIN)/python -m uv pip install --quiet --python $(BIN)/python --no-deps --require-hashes -r requirements-browser.lock ; \
	 else \
	   $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-browser.lock ; \
	 fi
	@touch $@

test-browser: $(BROWSER_STAMP) chromium  ## Hold every page in a real Chromium; pictures go to .stanchion/browser (ARGS="-k tasks")
	@$(BIN)/python -m pytest $(ARGS) tests/browser

chromium:
	@bash tests/browser/install-chromium

test-kafka: $(STAMP)  ## Run what touches the broker against Apache Kafka: suites and faults on one node, killed leaders on three
	@$(BIN)/python -m pytest $(ARGS) --kafka apache $(KAFKA_TESTS)
	@$(if $(strip $(KAFKA_FAULTS)),$(BIN)/python -m pytest $(ARGS) --kafka apache --subset ci $(KAFKA_FAULTS))
	@$(if $(strip $(CLUSTER_FAULTS)),$(BIN)/python -m pytest $(ARGS) --kafka apache-3 $(CLUSTER_FAULTS))

test-fault: $(STAMP)  ## The whole product of failpoints, kill and freeze, and phases (SEED=...)
	@$(BIN)/python -m pytest $(ARGS) tests/fault --campaign full $(if $(SEED),--seed $(SEED))

bench: $(STAMP)  ## Measure; results as JSON and a table
	@$(BIN)/python -m benchmarks $(ARGS)

bench-peers: $(STAMP)  ## Measure beside peers, each in an environment of its own
	@$(BIN)/python -m benchmarks.peers $(ARGS)

lock: $(STAMP)  ## Pin the dependencies anew, for the oldest Python that is promised
	@$(BIN)/python -m uv pip compile pyproject.toml --group dev --all-extras --generate-hashes --no-header --quiet --python-version 3.11.0 -o requirements.lock
	@$(BIN)/python -m uv pip compile --group browser -c requirements.lock --generate-hashes --no-header --quiet --python-version 3.11.0 -o requirements-browser.lock

generate: $(STAMP)  ## Write what is generated: schema, reference pages
	@$(BIN)/python -m stanchion.db.render --write
	@$(BIN)/python -m stanchion.testing.reference --write

verify: $(STAMP)  ## Fail when a generated file is out of date
	@$(BIN)/python -m stanchion.db.render --check
	@$(BIN)/python -m stanchion.testing.reference --check

wheel: $(STAMP)  ## Build the wheel into dist/
	@$(BIN)/python -m uv build --quiet --wheel --out-dir dist

clean:  ## Remove everything that was made here
	@if test -x $(BIN)/python; then $(BIN)/python -m stanchion.embedded --clean || true; fi
	@rm -rf .stanchion $(VENV) dist build
