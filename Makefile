# Everything a newcomer needs: each target makes its own environment in .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Tests that need PyTorch have an environment of their own, so that the others go without it.
TORCH := $(VENV)/torch

# Bytecode is written wherever the shell says otherwise: the tests start many programs, and each
# would compile all that it imports, in three times the time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all test-newer test-torch lint format docs bench bench-retrieval bench-advise clean

demo: $(READY)
	$(BIN)/duckplets demo

# Each process takes a stretch of the files, and the one that is done first helps the other.
SUITE = $(BIN)/python -m pytest -n 3 --dist worksteal --ignore=tests/adapters

test: $(READY)
	$(SUITE)

# The slow tests in full.
test-all: $(READY)
	DUCKPLETS_THOROUGH=1 $(SUITE) --timeout=1800
	DUCKPLETS_BY_ROWS=1 $(SUITE) tests/sources tests/ingest tests/freeze

# The newest DuckDB, which pip brings unless an extra asks for the wheel of an extension: a part of
# the suite, from its own package beside the environment. What needs the extension is skipped.
NEWER := $(VENV)/duckdb-2.0.0
test-newer: $(NEWER)/.ready
	PYTHONPATH=$(NEWER) $(BIN)/python -m pytest -n 2 tests/db tests/pools tests/conditions \
		tests/ingest/test_records.py tests/ingest/test_splits.py \
		tests/runs/test_sampler.py tests/cli/test_terminal.py

# One thread each: two of them on a busy machine took six times as long.
test-torch: $(TORCH)/.ready
	OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 $(TORCH)/bin/python -m pytest -n 3 tests/adapters

# The last line counts sentences that are hard to read, in percent of each scope.
lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python docs/prose.py --max-house 3 --max-hard 8

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# All pages and the reference, in site/, and the map of folders in docs/design.md. What builds them
# lies beside the environment.
DOCS := $(VENV)/docs
docs: $(DOCS)/.ready
	$(BIN)/python docs/file_map.py
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=$(DOCS) PATH="$(BIN):$$PATH" $(BIN)/python -m mkdocs build --quiet

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/run.py > benchmarks/results.json
	$(BIN)/python benchmarks/mining.py > benchmarks/mining.json
	$(BIN)/python benchmarks/text_in.py > benchmarks/text_in.json
	$(BIN)/python benchmarks/serving.py --sources 4000 > benchmarks/serving.json
	$(BIN)/python benchmarks/scale.py > benchmarks/scale.json
	$(BIN)/python benchmarks/simulate_ranks.py > benchmarks/simulate_ranks.json
	$(BIN)/python benchmarks/report.py

# Ten minutes, with PyTorch: what docs/retrieval.md shows.
bench-retrieval: $(TORCH)/.ready
	$(BIN)/python benchmarks/retrieval_set.py $(VENV)/wordnet
	OMP_NUM_THREADS=1 $(TORCH)/bin/python examples/retrieval.py $(VENV)/wordnet --steps 400 --out benchmarks/retrieval.json
	$(BIN)/python benchmarks/retrieval_report.py

# Three hours, with PyTorch, run by run, so that it can be stopped: what docs/advise.md shows. The
# corpora come as benchmarks/teach_corpora.py says, and with apt-get install manpages manpages-dev.
bench-advise: $(TORCH)/.ready
	OMP_NUM_THREADS=1 $(TORCH)/bin/python benchmarks/advise.py

clean:
	rm -rf $(VENV) site .mypy_cache .ruff_cache .pytest_cache .hypothesis

# The lock file pins what is installed; the package itself is installed in place.
$(READY): pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --no-deps --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	touch $@

$(NEWER)/.ready: $(READY)
	$(BIN)/python -m pip install --quiet --no-deps --target $(NEWER) duckdb==2.0.0
	touch $@

$(DOCS)/.ready: $(READY) requirements-docs.lock
	rm -rf $(DOCS)
	$(BIN)/python -m pip install --quiet --no-compile --no-deps --require-hashes --target $(DOCS) -r requirements-docs.lock
	touch $@

# PyTorch comes from wherever pip finds this version, so there is no hash for it. It is installed
# by itself: a package that asks for it might bring the newest, with gigabytes for GPUs.
$(TORCH)/.ready: pyproject.toml requirements.lock requirements-torch.lock
	$(PYTHON) -m venv $(TORCH)
	$(TORCH)/bin/python -m pip install --quiet --no-compile --no-deps torch==2.13.0
	$(TORCH)/bin/python -m pip install --quiet --no-compile --no-deps --require-hashes \
		-r requirements.lock -r requirements-torch.lock
	$(TORCH)/bin/python -m pip install --quiet --no-deps --editable .
	touch $@

$(VENV)/.bench: $(READY)
	$(BIN)/python -m pip install --quiet 'grain>=0.2.18,<0.3' 'bm25s>=0.3.16' 'numba>=0.60'
	touch $@
