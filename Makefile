# `make` lists the targets. Every target sets up what it needs; a repeated set-up does nothing.
SHELL := /bin/sh
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The Python to make .venv with; empty: that of .venv, else the first new enough one on PATH.
PYTHON ?=
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/installed
SOURCES := $(wildcard service workers simulation migrations examples bench scripts tests)
PYTEST_ARGS ?=
BENCH_ARGS ?=

.PHONY: help
help: ## List the targets
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-18s %s\n", $$1, $$2}'

.PHONY: setup
setup: $(STAMP) ## Make .venv with everything (PYTHON=/path/to/python3 to choose)
	@:

# A Python that is named is compared with that of .venv each time.
.PHONY: named-python
$(STAMP): requirements/dev.txt pyproject.toml $(if $(PYTHON),named-python)
	@sh scripts/setup.sh $(STAMP) "$$PYTHON"

.PHONY: demo
demo: $(STAMP) ## Run the main job: two gangs of six on eight GPUs
	@$(PY) -m examples.demo

.PHONY: up
up: $(STAMP) ## Run the whole stack on this machine
	@$(VENV)/bin/muster up

.PHONY: check
check: $(STAMP) ## Lint, format check, types, layers, structure
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy $(SOURCES)
	MYPYPATH=examples $(VENV)/bin/mypy examples/allreduce_train.py examples/allreduce_ranks.py
	$(VENV)/bin/lint-imports
	$(PY) -m pytest -q tests/unit/test_structure.py tests/unit/test_requirements.py

.PHONY: format
format: $(STAMP) ## Format the code and apply safe lint fixes
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

.PHONY: test
test: $(STAMP) ## Run the tests (PYTEST_ARGS='-k word' to choose)
	$(PY) -m pytest -n 2 --dist loadgroup $(PYTEST_ARGS)

.PHONY: faults
faults: $(STAMP) ## Kill, freeze and starve a stack under load (PYTEST_ARGS to choose)
	$(PY) -m pytest tests/faults -n 2 --dist loadgroup $(PYTEST_ARGS)

.PHONY: test-streams
test-streams: $(STAMP) ## Play days of random streams and replays on a virtual clock, and check each cycle
	$(PY) -m pytest tests/simulation -n 2 --dist loadgroup $(PYTEST_ARGS)

.PHONY: suite-check
suite-check: $(STAMP) ## Run a small scale of a peer's performance suite, with its checker
	$(PY) -m pytest tests/suite -n 2 --dist loadgroup $(PYTEST_ARGS)

.PHONY: chaos
chaos: $(STAMP) ## Kill parts of a stack at random, 200 times (SEED= and KILLS= to choose)
	$(PY) -m pytest -s tests/faults/test_random_kills.py --seed $(or $(SEED),new) --kills $(or $(KILLS),200)

.PHONY: test-redis
test-redis: $(STAMP) ## Run the inventory tests on a Redis server from the system
	@if [ -x "$${MUSTER_TEST_REDIS:-/usr/bin/redis-server}" ]; then \
		MUSTER_TEST_REDIS="$${MUSTER_TEST_REDIS:-/usr/bin/redis-server}" $(PY) -m pytest tests/integration/inventory tests/integration/test_fixtures.py $(PYTEST_ARGS); \
	else \
		echo "skipped: no $${MUSTER_TEST_REDIS:-/usr/bin/redis-server} here (Debian: apt-get install redis-server)"; \
	fi

.PHONY: test-traces
test-traces: $(STAMP) ## Replay traces and compare with a reference (MUSTER_TRACES= to name their folder; PYTEST_ARGS=--all-rows for all)
	$(PY) -m pytest tests/traces -n 2 $(PYTEST_ARGS)

.PHONY: test-browser
test-browser: $(STAMP) ## Open pages in Chromium; pictures are kept in build/browser
	@if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then \
		$(PY) -m pytest tests/browser $(PYTEST_ARGS); \
	else \
		echo "skipped: no Chromium with its driver here (Debian: apt-get install chromium chromium-driver)"; \
	fi

.PHONY: openapi
openapi: $(STAMP) ## Write openapi/openapi.json from the code
	@mkdir -p openapi
	@$(PY) -m service.api.openapi > openapi/openapi.json.new
	@mv openapi/openapi.json.new openapi/openapi.json

.PHONY: docs
docs: $(STAMP) ## Write the table of settings in docs/operations.md from the code
	@PYTHONPATH=. $(PY) scripts/settings_table.py

.PHONY: migrate
migrate: $(STAMP) ## Bring the database of MUSTER_DATABASE_URL to the newest schema
	@$(VENV)/bin/muster migrate

.PHONY: bench
bench: $(STAMP) ## Measure, store and compare with the limits (BENCH_ARGS='cycle --scale 0.2' to choose)
	@$(PY) -m bench $(BENCH_ARGS)

.PHONY: bench-check
bench-check: $(STAMP) ## Compare with the stored ratios: has anything got slower? (BENCH_ARGS='--plant 30' to see that it tells)
	@$(PY) -m bench check $(BENCH_ARGS)

.PHONY: plots
plots: $(STAMP) ## Draw the pictures of the stored benchmarks
	@$(PY) -m bench.page.charts

.PHONY: requirements
requirements: $(STAMP) ## Pin requirements/*.txt anew from pyproject.toml
	@sh scripts/pin_requirements.sh $(PY)
