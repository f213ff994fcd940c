# `make demo` and `make test` do all set-up on a fresh machine: Python 3.11+ with venv and headers, make, a C++ compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml CMakeLists.txt $(wildcard src/streamgmm/kernels/*.h src/streamgmm/kernels/*.cpp) \
           $(wildcard src/streamgmm/*/__init__.py)
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: demo test soak bench paper results pictures lint develop stubs clean

demo: $(VENV)/.installed
	$(BIN)/streamgmm demo --out runs/demo

test: $(VENV)/.developed lint
	$(BIN)/python -m pytest -m "not soak" -n 2 --dist loadfile

soak: $(VENV)/.developed
	$(BIN)/python -m pytest -m soak -s tests

# Peers that are missing are named in the report; PyTorch is large, so it is left to you: pip install torch
bench: $(VENV)/.developed
	-$(PIP) install "river>=0.21" gmmx
	$(BIN)/python -m bench

paper: $(VENV)/.developed
	$(BIN)/streamgmm paper all

results: $(VENV)/.developed
	$(BIN)/python docs/assemble.py

# the pictures of the README; needs Chromium
pictures: $(VENV)/.developed
	$(BIN)/python docs/draw.py

lint: $(VENV)/.developed
	$(BIN)/ruff check src tests bench docs
	$(BIN)/ruff format --check src tests bench docs
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

stubs: $(VENV)/.developed
	$(BIN)/python -m nanobind.stubgen -m streamgmm.kernels._native -o src/streamgmm/kernels/_native.pyi

develop: $(VENV)/.developed

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python $(SOURCES)
	@echo "Installing streamgmm into $(VENV): the first time this takes about a minute."
	$(PIP) install --editable ".[plots]"
	@touch $@

$(VENV)/.developed: $(BIN)/python $(SOURCES)
	@echo "Installing streamgmm with its tools into $(VENV): the first time this takes a minute or two."
	$(PIP) install --editable ".[all,dev]"
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) build dist
