# `make demo` and `make test` do all set-up on a fresh machine: Python 3.11+ with venv and headers, make, a C++ compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
KERNEL := $(sort $(wildcard $(addprefix src/streamgmm/native/, *.h *.cpp */*.h */*.cpp)))
SOURCES := pyproject.toml CMakeLists.txt $(KERNEL) $(wildcard src/streamgmm/*/__init__.py)
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: demo test test-services soak bench paper results pictures docs dist test-oldest lint sanitize valgrind develop stubs clean

demo: $(VENV)/.installed
	$(BIN)/streamgmm demo --out runs/demo

test: $(VENV)/.developed lint
	$(BIN)/python -m pytest -m "not soak and not services" -n 2 --dist loadfile
	@echo "Tests that take longer, or need a browser or a broker: make test-services"

# What needs a browser, a broker or a cluster, and what takes long; where one is missing, its tests are skipped with the reason.
test-services: $(VENV)/.clustered
	$(BIN)/python -m pytest -m "services and not soak" -n 2 --dist loadfile

soak: $(VENV)/.clustered
	$(BIN)/python -m pytest -m soak -s tests

# Peers that are missing are named in the report; PyTorch is large, so it is left to you: pip install torch pomegranate.
# The variable opens scikit-learn's own path to PyTorch.
bench: $(VENV)/.developed
	-$(PIP) install "river>=0.21" gmmx faiss-cpu
	SCIPY_ARRAY_API=1 $(BIN)/python -m bench

paper: $(VENV)/.developed
	$(BIN)/streamgmm paper all

results: $(VENV)/.developed
	$(BIN)/python docs/assemble.py

# the pictures of the README; needs Chromium
pictures: $(VENV)/.developed
	$(BIN)/python docs/draw.py

# The site, without network. Pages of the API and of the examples are generated, so that none outlives its name.
docs: $(VENV)/.documented
	rm -rf docs/_build docs/api/*.rst docs/examples docs/commands.md docs/sg_execution_times.rst
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going --nitpicky -q -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

# The packages of a release: sources, and a wheel for this machine
dist: $(VENV)/.developed
	rm -rf dist
	$(BIN)/python -m build --outdir dist .

# The oldest versions of everything that we claim to work with, in an environment of their own. uv resolves to the lower
# bounds of pyproject.toml; warnings of old packages are not errors here.
OLDEST := build/oldest
EXTRAS := plots dashboard kafka redis mqtt parquet river metrics onnx cloud
test-oldest:
	$(PYTHON) -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python -m pip --quiet --disable-pip-version-check install uv
	$(OLDEST)/bin/uv pip install --quiet --python $(OLDEST)/bin/python --index-strategy unsafe-best-match \
	    --resolution lowest-direct --only-binary :all: --requirements pyproject.toml $(addprefix --extra ,$(EXTRAS))
	$(OLDEST)/bin/python -m pip --quiet --disable-pip-version-check install pytest pytest-xdist hypothesis pandas
	$(OLDEST)/bin/python -m pip --quiet --disable-pip-version-check install --no-deps .
	$(OLDEST)/bin/python -m pytest tests -o filterwarnings= -m "not source and not soak and not services" \
	    -n 2 --dist loadfile

lint: $(VENV)/.developed
	$(BIN)/ruff check src tests bench docs examples
	$(BIN)/ruff format --check src tests bench docs examples
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/clang-format --dry-run --Werror $(KERNEL)
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/zizmor --offline --quiet .github/workflows
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/idea.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.citation-file-format CITATION.cff

stubs: $(VENV)/.developed
	$(BIN)/python -m nanobind.stubgen -m streamgmm.native._native -o src/streamgmm/native/_native.pyi

# The kernel under AddressSanitizer and UBSan, for every vector width of this machine; needs GCC. The editable install in
# $(VENV) would import the plain extension, so the tests get an environment of their own. It sees the other packages of
# $(VENV) through plain paths in a .pth file, which does not run the .pth files there.
SANITIZE := build/sanitize
SANITIZED := LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
             ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 $(SANITIZE)/venv/bin/python
SITE_PACKAGES := import sysconfig; print(sysconfig.get_path("purelib"))

sanitize: $(VENV)/.developed
	CXX=$(CXX) $(PIP) install --no-deps --upgrade --target $(SANITIZE)/package . -C build-dir=$(SANITIZE)/cmake \
	    -C install.strip=false -C cmake.define.STREAMGMM_SANITIZE=ON
	$(BIN)/python -m venv --without-pip $(SANITIZE)/venv
	{ echo "$(CURDIR)/$(SANITIZE)/package"; $(BIN)/python -c '$(SITE_PACKAGES)'; } \
	    > "$$($(SANITIZE)/venv/bin/python -c '$(SITE_PACKAGES)')/streamgmm.pth"
	$(SANITIZED) -m pytest tests/kernels
	for width in $$($(SANITIZED) -c 'from streamgmm import native; print(*native.widths())'); do \
	    STREAMGMM_WIDTH=$$width $(SANITIZED) -m pytest tests/laws || exit 1; \
	done

# Needs valgrind; it knows no AVX-512, so the widest kernels are left to the sanitizers.
valgrind: $(VENV)/.developed
	$(BIN)/python -m tests.kernels.under_valgrind

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

# Ray is large, and only these tests need it.
$(VENV)/.clustered: $(VENV)/.developed
	$(PIP) install "ray[data]>=2.52"
	@touch $@

# Sphinx is only needed for the site. The package is there already, so pip adds what its extra names.
$(VENV)/.documented: $(VENV)/.developed
	$(PIP) install "streamgmm[docs]"
	@touch $@

clean:
	rm -rf $(VENV) build dist docs/_build
