# Every target sets up what it needs: `make demo` and `make test` work in a fresh clone.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.ready
export SDL_VIDEODRIVER := dummy
export SDL_AUDIODRIVER := dummy

.PHONY: setup demo test test-slow test-kernels test-gpu lint docs bench clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	$(BIN)/pip install --quiet --no-deps --constraint constraints.txt memory-gym
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/python examples/demo.py

# A test file a core; matrix products of tests are too small for two.
test: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --maxprocesses 4 --dist loadfile

test-slow: $(STAMP)
	$(BIN)/pytest -m slow --timeout 1800

# The GPU's kernels, interpreted on a CPU. PyTorch for CPUs comes without Triton, which needs nothing else (700 MB).
test-kernels: $(STAMP)
	$(BIN)/python -c 'import triton' 2>/dev/null || \
	$(BIN)/pip install --quiet --no-deps --constraint constraints.txt triton
	TRITON_INTERPRET=1 $(BIN)/pytest -m gpu tests/models/test_fused.py

# On a machine without a package registry: make test-gpu GPU_PYTHON=python3, with the dependencies on PYTHONPATH.
# Only the files with such tests are read: the others may need packages that are not there.
GPU_PYTHON ?= $(BIN)/python
test-gpu:
	PYTHONPATH=src:$(PYTHONPATH) $(GPU_PYTHON) -m pytest -m gpu $$(grep -rl --include='*.py' 'mark\.gpu' tests)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@if command -v npm >/dev/null; then npx --yes --package typescript@5 tsc -p jsconfig.json; \
	else echo "npm is not here: the types of the studio's pages are not checked"; fi

# The documentation site, in build/site. A broken link or a warning is an error.
docs: $(STAMP)
	$(BIN)/python docs/build.py

bench: $(STAMP)
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv dist build .cache
