# Every target sets up what it needs: a fresh machine with Python 3.11+, git and make is enough.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
REPO   ?= .
TASK   ?= PieceTable.save loses entries when two processes save at once

.PHONY: demo test soak lint docs benchmark clean

$(VENV)/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "cicl needs Python 3.11 or later: make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable . --group test
	touch $@

demo: $(VENV)/.ready ## choose context for TASK in REPO and show why
	@$(BIN)/cicl select "$(TASK)" --repo "$(REPO)" --budget 900
	@echo
	@$(BIN)/cicl select "$(TASK)" --repo "$(REPO)" --budget 900 --explain

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint ## types, lint, layers, documentation snippets and the suite: under 3 minutes on 2 cores
	$(BIN)/python -m pytest -m "not soak"

soak: $(VENV)/.ready ## what needs minutes: kills, floods, large trees
	$(BIN)/python -m pytest -m soak

clean:
	rm -rf $(VENV) build dist site .hypothesis .mypy_cache .ruff_cache
