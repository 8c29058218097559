# What a developer needs. Everything is installed into .venv, and the control plane's binaries into ~/.cache/flamectl-operator.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
# What `make test` runs, for example: make test TESTS=tests/unit/decisions
TESTS ?= tests
# End-to-end tests mostly wait, so there are more of them at a time than there are cores.
WORKERS ?= 6

.PHONY: setup check test demo generate

## Creates .venv with everything that is needed, from the lock file.
setup: $(INSTALLED)

$(INSTALLED): requirements/dev.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements/dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

## Style, types, and the walls between the rooms.
check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

## All tests, on a local control plane, which is built the first time (it takes some ten minutes).
test: setup
	$(BIN)/python -m tools.controlplane run -- $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal $(TESTS)

## Shows a FlameCluster live on a local control plane. `make demo ARGS=--keep` leaves it up to play with.
demo: setup
	$(BIN)/python -m tools.demo $(ARGS)

## Writes what is generated: the CRD from the models, parts of the Helm chart, the lock files from pyproject.toml.
generate: setup
	$(BIN)/flamectl-operator crd > config/crd/flame.xflops.io_flameclusters.yaml
	$(BIN)/python -m tools.chart
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--custom-compile-command "make generate" pyproject.toml --output-file requirements/run.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--custom-compile-command "make generate" pyproject.toml --group dev --constraints requirements/run.txt \
		--output-file requirements/dev.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--custom-compile-command "make generate" --group pyproject.toml:build --constraints requirements/dev.txt \
		--output-file requirements/build.txt
