# Everything here needs Python 3.11 or newer, and make; the rest is installed into .venv.
#   make demo    train the digits example and draw its predictions
#   make test    the whole test suite, one worker per core
#   make check   format, lint, types, layering, smoke tests: under a minute
#   make bench   compare with JAX and NumPy; writes benchmarks/RESULTS.md
#   make test-matrix  every pair of transformations beside JAX, and many triples: most of an hour
#   make fuzz    the random-program tests with many more examples
#   make oracle  ask JAX everything that the tests compare with, anew, for hours; writes tests/answers
#   make clean   remove what these targets made
# Another interpreter: make test PYTHON=python3.13

PYTHON ?= python3
VENV := .venv
COMMA := ,
ifeq ($(OS),Windows_NT)
PY := $(VENV)/Scripts/python.exe
else
PY := $(VENV)/bin/python
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test test-matrix check bench fuzz oracle clean

help:
	@$(PYTHON) -c "print(''.join(l[1:] for l in open('Makefile') if l.startswith('#   make')), end='')"

demo: $(VENV)/examples.stamp
	$(PY) examples/digits.py

test: $(VENV)/test.stamp
	$(PY) -m pytest -n auto --dist worksteal

check: $(VENV)/dev.stamp
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m pyright --pythonpath $(PY)
	$(PY) -m pytest -q tests/test_layering.py tests/test_smoke.py

bench: $(VENV)/bench.stamp
	$(PY) -m benchmarks

test-matrix: export COVECTOR_MATRIX = all
test-matrix: $(VENV)/test.stamp
	$(PY) -m pytest -n auto --dist worksteal tests/matrix

fuzz: $(VENV)/test.stamp
	$(PY) -m pytest -n auto --hypothesis-profile=fuzz tests/fuzz

oracle: export COVECTOR_ORACLE = write
oracle: export COVECTOR_MATRIX = all
oracle: $(VENV)/test.stamp
	$(PY) -m pytest -n auto --dist worksteal

clean:
	$(PYTHON) -c "import shutil; [shutil.rmtree(d, ignore_errors=True) for d in '$(VENV) build dist .pytest_cache .ruff_cache .hypothesis'.split()]"

# One environment; each stamp records that one target's extras are in it. A stamp is as new as the
# pyproject.toml that it was made from, so a changed dependency installs again.
$(VENV)/pyvenv.cfg:
	$(PYTHON) -c "import sys; sys.exit('Covector needs Python 3.11 or newer, this is ' + sys.version.split()[0] + '. Try: make PYTHON=python3.12' if sys.version_info < (3, 11) else 0)"
	$(PYTHON) -m venv $(VENV)

define install
$(PY) -m pip install --quiet --disable-pip-version-check --editable ".[$(1)]"
endef
define stamp
@$(PY) -c "import pathlib; pathlib.Path('$@').touch()"
endef

# The order-only dependency: pip writes into the environment, which must not make stamps old.
$(VENV)/examples.stamp: pyproject.toml | $(VENV)/pyvenv.cfg
	$(call install,examples)
	$(stamp)

# The suite runs the examples too.
$(VENV)/test.stamp: pyproject.toml | $(VENV)/pyvenv.cfg
	$(call install,test$(COMMA)examples)
	$(stamp)

$(VENV)/bench.stamp: pyproject.toml | $(VENV)/pyvenv.cfg
	$(call install,bench)
	$(stamp)

# The first run of pyright fetches its own program; do it here, so that `make check` stays short.
$(VENV)/dev.stamp: pyproject.toml | $(VENV)/pyvenv.cfg
	$(call install,dev)
	$(PY) -m pyright --version
	$(stamp)
