# What a developer needs. Everything is installed into .venv, and the control plane's binaries into ~/.cache/flamectl-operator.
# `make help` prints the line that begins with ## above each target.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
# What `make test` and `make unit` run, for example: make unit TESTS=tests/unit/planning
TESTS ?= tests
# Of the control plane, see tools/controlplane/README.md; the default is the newest.
export KUBERNETES_VERSION
# Compiled modules are kept, even where the environment forbids it: each process of a test run would compile all of them anew.
export PYTHONDONTWRITEBYTECODE :=
# End-to-end tests mostly wait, so there are more of them at a time than there are cores.
WORKERS ?= 8
# Options of pip where .venv is made.
PIP_FLAGS ?=
# What runs the tests; tools.retry runs those that failed once more.
PYTEST ?= pytest

# Whether `make test` runs the scenarios on a real node as well; empty for no.
NODE ?= $(if $(filter tests,$(TESTS)),yes)
# What `make test-node` runs.
NODE_TESTS ?= tests/node

.DEFAULT_GOAL := help
.PHONY: help setup check unit test test-node node-packages demo generate

## List these targets.
help:
	@awk '/^## / {text = substr($$0, 4); next} \
		/^[a-z-]+:/ && text {sub(/:.*/, "", $$1); printf "make %-13s %s\n", $$1, text} {text = ""}' $(MAKEFILE_LIST)

## Create or renew .venv from the lock file.
setup: $(INSTALLED)

$(INSTALLED): requirements/dev.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet $(PIP_FLAGS) --no-deps --require-hashes --requirement requirements/dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

## Check style, types, and the walls between the rooms.
check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

## Run the tests that need no control plane.
unit: TESTS = tests/unit
unit: setup
	$(BIN)/python -m pytest --numprocesses auto $(TESTS)

## Run all tests on a local control plane, which is built once.
test: setup
	$(BIN)/python -m tools.controlplane run -- $(BIN)/python -m $(PYTEST) --numprocesses $(WORKERS) --dist worksteal $(TESTS)
	$(if $(NODE),$(MAKE) test-node)

## Run the scenarios on a real node, or say why none runs.
test-node: setup
	$(BIN)/python -m tools.node run --or-skip -- $(BIN)/python -m pytest $(NODE_TESTS)

## Install the Debian packages for a real node (as root).
node-packages: setup
	$(BIN)/python -m tools.node packages --install

## Show a FlameCluster live; ARGS=--keep keeps it up.
demo: setup
	$(BIN)/python -m tools.demo $(ARGS)

## Write the generated files: CRD, chart, lock files.
generate: setup
	$(BIN)/flamectl-operator crd > config/crd/flame.xflops.io_flameclusters.yaml
	$(BIN)/python -m tools.chart
	$(BIN)/python -m tools.chart_readme
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--custom-compile-command "make generate" pyproject.toml --output-file requirements/run.txt
	$(BIN)/python -m tools.sbom
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--custom-compile-command "make generate" pyproject.toml --group dev --constraints requirements/run.txt \
		--output-file requirements/dev.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--custom-compile-command "make generate" --group pyproject.toml:build --constraints requirements/dev.txt \
		--output-file requirements/build.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--custom-compile-command "make generate" --group pyproject.toml:go --output-file requirements/go.txt
