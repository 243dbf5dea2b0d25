# make run    install, then serve the page on the embedded default
# make test   install, then run the tests (a browser is installed where it is missing)
# make test-all  every test, the long suites whole
# make check  lint, types and every test
# make test-matrix  the families against the oldest and newest supported transformers
# make gpu-check  every family on CUDA with random weights: time and peak memory as JSON
# make space-check  start the app as a CPU Space does, and check it in a browser
# make weights  train the embedded models again
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
ARGS ?=
export OMP_WAIT_POLICY := PASSIVE

.PHONY: run test test-all test-matrix gpu-check space-check check lint weights examples bench browser clean

run: $(VENV)/.ready
	$(BIN)/python app.py $(ARGS)

test: $(VENV)/.ready-dev browser
	$(BIN)/python -m pytest -m "not long" $(ARGS)

# the long suites too, of which `make test` runs a named sample
test-all: $(VENV)/.ready-dev browser
	$(BIN)/python -m pytest $(ARGS)

# the family tests against the oldest and the newest supported transformers
test-matrix: $(VENV)/.ready-dev
	scripts/matrix.sh 5.17.0 5.23.0

# about five minutes on a GPU and no download; ARGS="--device cpu" takes the same way on a CPU
gpu-check: $(VENV)/.ready
	$(BIN)/python -m bench.gpu_check $(ARGS)

# about a minute; ARGS="--port 0" where 7860 is taken, --json for figures
space-check: $(VENV)/.ready-dev browser
	$(BIN)/python -m bench.space_check $(ARGS)

check: lint test

lint: $(VENV)/.ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.ready-dev
	$(BIN)/python -m bench $(ARGS)
	$(BIN)/python -m bench.report

weights: $(VENV)/.ready
	$(BIN)/python -m toyworld.train_backbone
	$(BIN)/python -m toyworld.train_detector
	$(BIN)/python -m toyworld.make_assets all
	cp runs/backbone/log.jsonl docs/training/backbone.jsonl
	$(BIN)/python -m toyworld.training_curve

examples: $(VENV)/.ready
	$(BIN)/python -m toyworld.make_examples

browser:
	@scripts/browser.sh

$(VENV)/.ready: requirements.txt constraints.txt scripts/install.sh
	scripts/install.sh $(VENV) $(PYTHON) requirements.txt
	touch $@

$(VENV)/.ready-dev: requirements-dev.txt $(VENV)/.ready
	scripts/install.sh $(VENV) $(PYTHON) requirements-dev.txt
	touch $@

clean:
	rm -rf $(VENV) runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
