# gpuward: every target sets up what it needs. Python 3.11 or later and make are all that must be there.
SHELL := /bin/sh
.DEFAULT_GOAL := help
PYTHONS := $(shell sh tools/pythons.sh)
MAIN_PYTHON := $(firstword $(PYTHONS))
OTHERS := $(wordlist 2,99,$(PYTHONS))
BIN := .venv/bin
STAMP := .venv/.installed
# Workers of the test run; each has a control plane, and more than a small machine has cores is not faster.
JOBS ?= 2

.PHONY: help demo demo-server demo-watch test test-main test-others check format docs docs-site bench real-parts lock clean

help: ## show what can be made
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(STAMP) ## a pretend fleet falls ill, and controllers and agents work on it (a minute, touches nothing here)
	@$(BIN)/python -m gpuward.sim fleet

demo-server: $(STAMP) ## a pretend GPU server falls ill, and the agent of one server works on it
	@$(BIN)/python -m gpuward.sim server

demo-watch: $(STAMP) ## a pretend GPU server falls ill, and gpuward only tells
	@$(BIN)/python -m gpuward.sim watch

test: check test-main ## every check and every test, on the first Python found

test-main: $(STAMP) real-parts ## all tests on the first Python found, with coverage
	$(BIN)/pytest -n $(JOBS) --dist loadgroup --cov --cov-report=term:skip-covered --cov-report=xml:.coverage.xml
	$(BIN)/python tools/pure_coverage.py .coverage.xml

test-others: ## all but the long tests on every other Python found
	@set -e; for python in $(OTHERS); do \
		venv=.venv-$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
		echo "== tests on $$($$python --version) =="; \
		sh tools/install.sh $$python $$venv; \
		$$venv/bin/pytest -q -n $(JOBS) --dist loadgroup -m "not long"; \
	done

check: $(STAMP) ## formatting, lint, types, the house, generated pages
	$(BIN)/ruff format --check src tests tools bench
	$(BIN)/ruff check src tests tools bench
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/pages.py --check

format: $(STAMP) ## put the code in shape
	$(BIN)/ruff format src tests tools bench
	$(BIN)/ruff check --fix src tests tools bench

docs: $(STAMP) ## write the pages that come from the rows and the commands
	$(BIN)/python tools/pages.py

docs-site: $(STAMP) ## build the documentation as a site, broken links are errors
	@sh tools/install.sh $(MAIN_PYTHON) .venv-docs docs
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --quiet

bench: $(STAMP) ## speed and memory, as ratios in one run
	$(BIN)/python bench/bench.py

real-parts: ## the real programs that tests use: installed where that is possible
	@sh tools/real_parts.sh

lock: $(STAMP) ## resolve the pinned versions again
	sh tools/lock.sh

clean: ## take away all that was made
	rm -rf .venv .venv-* build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* .import_linter_cache

$(STAMP): requirements.lock pyproject.toml tools/install.sh
	@sh tools/install.sh $(MAIN_PYTHON) .venv
