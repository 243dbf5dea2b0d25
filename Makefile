# make run    install, then serve the page on the embedded default
# make test   install, then run the tests (a browser is installed where it is missing)
# make test-all  every test, the long suites whole, part by part; PART=browser for one part
# make check  lint, types (of the JavaScript too) and every test
# make test-matrix  all families against the oldest and newest supported transformers
# make test-pythons  the package installed and tried on each supported Python that is found here
# make gpu-check  every family on CUDA with random weights: time and peak memory as JSON
# make bench  measure times, FLOPs and memory; ARGS="PART…" for some (docs/bench.md)
# make fuzz   100,000 hostile cases of each reader
# make mutants  plant small faults in the core, which its tests must notice; ARGS="MODULE…" for some
# make study  make a study of the shipped clips of a camera, and serve it to raters
# make space-check  start the app as a CPU Space does, and check it in a browser
# make browser-model  build the embedded model for browsers, which the static sites include
# make gallery  write the shipped examples as a static site; ARGS="OUT TRACES…" for others
# make mcp    install beside, then serve the page with tools for MCP clients (docs/mcp.md)
# make mcp-check  use every tool of that server with the official client
# make vllm   install vLLM for the CPU beside, then serve the embedded model with it (docs/remote.md)
# make vllm-check  hold a real vLLM on this CPU against the same weights in this process
# make learn  write the course as a static site, and as a zip to hand out; ARGS="OUT --zip"
# make release-check  build a clean clone, test it, check versions, hashes and sizes
# make lock   write locks/ anew: every package that is installed, with its hashes
# make weights  train the embedded models again
# make everyday  train the embedded model for clips of a camera again
# make backbone  train the backbone alone, with another SEED; nothing that ships is touched
VENV := .venv
BIN := $(VENV)/bin
MCP := .venv-mcp
VLLM := .venv-vllm
PYTHON ?= python3
ARGS ?=
# more than the cores: the browser's tests wait for the page much of their time
WORKERS ?= 3
# many processes start: without its caches each would compile every module anew
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-all mcp mcp-check vllm vllm-check test-matrix test-pythons gpu-check fuzz mutants \
  space-check browser-model gallery release-check check lint bench backbone weights everyday learn study lock clean

run: $(VENV)/.ready
	$(BIN)/python app.py $(ARGS)

# WORKERS=0 runs them in one process, as --pdb needs; how they are shared out: tests/conftest.py
PYTEST := $(BIN)/python -m pytest -n $(WORKERS)
test test-all: export OMP_NUM_THREADS ?= 1

test: $(VENV)/.ready-dev
	@scripts/browser.sh
	$(PYTEST) -m "not long" $(ARGS)

# a check that is run whole notes in docs/verified.md that it passed; one with ARGS does not
VERIFIED = $(if $(ARGS),,$(BIN)/python -m scripts.verified $(1))

# the long suites too, of which `make test` runs a named sample; the parts: scripts/verified.py
PART ?= all
test-all: $(VENV)/.ready-dev
	@scripts/browser.sh
	$(if $(ARGS),$(PYTEST) $(ARGS),$(BIN)/python -m scripts.verified part $(PART) $(PYTEST))

# ARGS="--port 7861" where 7860 is taken
mcp: $(MCP)/.ready
	$(MCP)/bin/python app.py --mcp $(ARGS)

# about a minute
mcp-check: $(MCP)/.ready-dev $(VENV)/.ready-dev
	$(call VERIFIED,mcp-check) $(MCP)/bin/python -m pytest tests/security/test_mcp.py tests/macd_ui/test_mcp.py $(ARGS)

# SERVE=folder for another model, PORT=8001 for another port. 6 GB, Linux; it starts in about a minute.
# Without TORCHDYNAMO_DISABLE the first request compiles C++ for minutes.
SERVE ?= $(CURDIR)/assets/toyworld/backbone
vllm: PORT ?= 8000
vllm: export VLLM_CPU_KVCACHE_SPACE ?= 1
vllm: export TORCHDYNAMO_DISABLE ?= 1
vllm: export VLLM_NO_USAGE_STATS ?= 1
vllm: $(VLLM)/.ready
	$(VLLM)/bin/python $(VLLM)/bin/vllm serve $(SERVE) --host 127.0.0.1 --port $(PORT) --dtype float32 --enforce-eager \
	  --max-model-len 2048 --max-logprobs -1 --trust-request-mm-kwargs --enable-scale-out \
	  --limit-mm-per-prompt '{"video":1,"image":0}' $(ARGS)

# starts a vLLM on this CPU for each of five models. ARGS="--record" writes what the tests play again,
# ARGS="--questions 8 --family embedded" is a short one, ARGS="--url vllm:http://HOST:PORT" asks another
vllm-check: $(VLLM)/.ready $(VENV)/.ready-dev
	$(call VERIFIED,vllm-check) $(BIN)/python -m bench.vllm_check $(ARGS)

# the family tests against the oldest and the newest supported transformers
test-matrix: $(VENV)/.ready-dev
	$(call VERIFIED,test-matrix) $(BIN)/python -m scripts.matrix 5.17.0 5.23.0 $(ARGS)

# 6 GB for each Python while it is tried; ARGS="--resolve" only asks the lock file
test-pythons: $(VENV)/.ready-dev
	$(call VERIFIED,test-pythons) $(BIN)/python -m scripts.pythons $(ARGS)

# about five minutes on a GPU and no download; ARGS="--device cpu" takes the same way on a CPU
gpu-check: $(VENV)/.ready
	$(BIN)/python -m bench.gpu_check $(ARGS)

# CASES="1000000" for a longer one; the same cases every time
fuzz: $(VENV)/.ready-dev
	MACD_FUZZ_CASES=$(or $(CASES),100000) $(BIN)/python -m pytest tests/fuzz -s $(ARGS)

# two to twelve minutes a module beside other work; mutmut stays out of the other commands
mutants: $(VENV)/.ready-dev
	$(BIN)/pip install --quiet -c constraints.txt mutmut==3.8.1
	$(BIN)/python -m scripts.mutants $(ARGS)

# about a minute; ARGS="--port 0" where 7860 is taken, --json for figures
space-check: $(VENV)/.ready-dev
	@scripts/browser.sh
	$(call VERIFIED,space-check) $(BIN)/python -m bench.space_check $(ARGS)

# its runtime comes from npm's registry, by its hash; without the registry the sites do without it
browser-model: $(VENV)/.ready
	$(BIN)/python -m macd_ui.engine $(ARGS)

gallery: $(VENV)/.ready
	$(BIN)/python -m macd_ui.engine --optional
	$(BIN)/python -m macd_ui.gallery $(or $(ARGS),runs/gallery assets/examples)

# ARGS="--quick" without the tests, "--final" for the commit to be tagged; the clone goes into a temporary folder
release-check: $(VENV)/.ready-dev
	$(BIN)/python -m scripts.release_check $(ARGS)

check: lint test

lint: $(VENV)/.ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python scripts/check_types.py
	$(BIN)/lint-imports --no-cache

bench: $(VENV)/.ready-dev
	$(BIN)/python -m bench $(ARGS)
	$(BIN)/python -m bench.report

# three parts, two hours on two idle cores; resumes where it was stopped.
# TRAIN="--compile" where there is a C++ compiler
SEED ?= 123
TRAINED ?= runs/seed$(SEED)
TRAIN_BACKBONE = $(BIN)/python -m toyworld.train_backbone --seed $(SEED) $(TRAIN)
backbone: $(VENV)/.ready
	$(TRAIN_BACKBONE) --out $(TRAINED)/first
	$(TRAIN_BACKBONE) --out $(TRAINED)/second --steps 2200 --rate 1.5e-3 --continue-from $(TRAINED)/first
	$(TRAIN_BACKBONE) --out $(TRAINED) --steps 1000 --rate 8e-4 --continue-from $(TRAINED)/second

# writes over assets/toyworld
weights: TRAINED := runs/backbone
weights: backbone
	$(BIN)/python -m toyworld.train_detector
	$(BIN)/python -m toyworld.make_assets all
	cat $(TRAINED)/first/log.jsonl $(TRAINED)/second/log.jsonl $(TRAINED)/log.jsonl > docs/training/backbone.jsonl

# writes over assets/everyday; goes on where it was stopped
everyday: $(VENV)/.ready
	$(BIN)/python -m everyday.train --out runs/everyday/first --steps 1500 --rate 2e-3 --seed 7 --clips 24 \
	  --until 672
	$(BIN)/python -m everyday.train --out runs/everyday/second --steps 520 --rate 1.6e-3 --warm 10 --seed 8 \
	  --clips 24 --renew --continue-from runs/everyday/first/checkpoint.pt
	$(BIN)/python -m everyday.export runs/everyday/second/checkpoint.pt
	$(BIN)/python -m everyday.examples
	cat runs/everyday/first/log.jsonl runs/everyday/second/log.jsonl > docs/training/everyday.jsonl

learn: $(VENV)/.ready
	$(BIN)/python -m macd_ui.engine --optional
	$(BIN)/python -m macd_ui.learn $(or $(ARGS),runs/learn --zip)

# STUDY=file.db for another one, PORT=7861 where 7860 is taken; the link for a rater is printed first, the organiser's once
# CLIPS=folder [CREATE="--backbone …"]: of these clips and their questions instead of the shipped ones
study: PORT ?= 7860
STUDY ?= $(if $(CLIPS),runs/$(notdir $(patsubst %/,%,$(CLIPS)))-study.db,runs/study.db)
study: $(VENV)/.ready
	@mkdir -p $(dir $(STUDY))
	@test -f $(STUDY) || $(BIN)/python -m ratings create $(STUDY) --url http://127.0.0.1:$(PORT) $(if $(CLIPS),--clips $(CLIPS) $(CREATE),--examples --frames 8)
	@echo "rate at (after the server has started):"
	@$(BIN)/python -m ratings invite $(STUDY) --n 1 --url http://127.0.0.1:$(PORT)
	$(BIN)/python app.py --study $(STUDY) --only-study --port $(PORT) $(ARGS)

$(VENV)/.ready: locks/run.txt locks/uv.txt scripts/install.sh setup.py pyproject.toml
	scripts/install.sh $(VENV) $(PYTHON) locks/run.txt
	touch $@

$(VENV)/.ready-dev: locks/dev.txt $(VENV)/.ready
	scripts/install.sh $(VENV) $(PYTHON) locks/dev.txt
	touch $@

# its packages exclude some of the versions in $(VENV)
$(MCP)/.ready: locks/mcp.txt locks/uv.txt scripts/install.sh setup.py pyproject.toml
	scripts/install.sh $(MCP) $(PYTHON) locks/mcp.txt
	touch $@

$(MCP)/.ready-dev: $(MCP)/.ready
	$(MCP)/bin/pip install --quiet -c constraints.txt pytest pytest-timeout pytest-xdist hypothesis
	touch $@

$(VLLM)/.ready: locks/vllm.txt scripts/vllm.sh $(VENV)/.ready
	scripts/vllm.sh $(VLLM) $(VENV)/bin/uv $(PYTHON)
	touch $@

# after a change of requirements*.txt or constraints*.txt; asks PyPI for the hashes
lock: $(VENV)/.ready
	scripts/lock.sh

clean:
	rm -rf $(VENV) $(MCP) $(VLLM) runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@echo "The packages that were downloaded stay in pip's cache (about 5.6 GB): $(PYTHON) -m pip cache purge"
