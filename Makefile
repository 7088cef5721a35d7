# `make run` and `make test` need nothing but Python 3.11-3.13; both call `setup`, which costs nothing
# when nothing changed. Pass more with ARGS: make run ARGS="debug=smoke".
SHELL := bash
PY := .venv/bin/python
# One process a core, four at most, each on one thread (tests/conftest.py).
PYTEST := $(PY) -m pytest -n auto --maxprocesses 4 --dist worksteal
ARGS ?=
# For scripts/setup.sh, which documents them: PYTHON, TORCH_INDEX, EXTRAS.
EXTRAS ?=
export PYTHON TORCH_INDEX EXTRAS

comma := ,
STAMP := .venv/.setup-stamp$(subst $(comma),-,$(EXTRAS))

.DEFAULT_GOAL := help
.PHONY: help setup run test test-slow lint format

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1	/' | expand -t 20

setup: $(STAMP) ## create or refresh .venv

# The interpreter too: an upgraded system can leave an environment without one.
$(PY): ;

$(STAMP): pyproject.toml constraints.txt scripts/setup.sh $(PY)
	@bash scripts/setup.sh
	@touch $@

run: setup ## the first experiment on the embedded model and data, then a question to the stable model
	$(PY) -m reflex.run experiment=order_averaging $(ARGS)
	@echo "The stable model answers examples/ticket.request.json:"
	@$(PY) -m reflex.answer examples/ticket.request.json run=stable

test: setup ## the fast tests (minutes, no GPU, no account)
	$(PYTEST) -m "not slow" $(ARGS)

test-slow: setup ## the tests marked slow (real model, whole commands)
	$(PYTEST) -m slow $(ARGS)

lint: setup ## ruff and mypy
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: setup ## fix what ruff can fix
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .
