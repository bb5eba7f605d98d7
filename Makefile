# One thread, passive waiting: small models on a shared machine run several times faster so. Override from outside.
export OMP_NUM_THREADS ?= 1
export OMP_WAIT_POLICY ?= passive
export PIP_DISABLE_PIP_VERSION_CHECK ?= 1

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
COMPAT := .venv-compat
PACKAGES := comlrl_envs comlrl_learners
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help train test slow lint format types docs compat clean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 20

train: $(VENV)/.installed  ## train two tiny agents on writing/length_ratio (CPU, offline); more options: ARGS="--max_steps 5"
	HF_HUB_OFFLINE=1 $(BIN)/comlrl-train magrpo --config examples/length_ratio.yaml $(ARGS)

test: $(VENV)/.installed-dev  ## run the tests but the slow ones
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -m "not slow" -n 2 $(ARGS)

slow: $(VENV)/.installed-dev  ## run the slow tests
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -m slow -n 2 $(ARGS)

lint: $(VENV)/.installed-dev  ## check style and docstrings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.installed-dev  ## mend what can be mended by a program
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.installed-dev  ## check the types of both packages
	$(BIN)/mypy

docs: $(VENV)/.installed-dev  ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

compat: $(COMPAT)/.installed  ## test the environments on the oldest supported PettingZoo, without torch
	@$(COMPAT)/bin/python -c 'import comlrl_envs, importlib.util as u; assert u.find_spec("torch") is None, "torch is in $(COMPAT)"'
	HF_HUB_OFFLINE=1 $(COMPAT)/bin/python -m pytest -m "not slow" -n 2 tests/envs $(ARGS)

clean:  ## remove the virtual environments and all that was built
	rm -rf $(VENV) $(COMPAT) build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find $(PACKAGES) tests examples -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python $(COMPAT)/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) was not found: pass PYTHON=/path/to/python (3.10 or newer)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "Python 3.10 or newer is needed, $(PYTHON) is $$($(PYTHON) --version 2>&1): pass PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv $(patsubst %/bin/python,%,$@)

# A torch that is already in the environment stays: its own release takes the place of the pinned one.
$(VENV)/constraints.txt: constraints.txt | $(VENV)/bin/python
	@kept=$$($(BIN)/python -c 'import importlib.metadata as m; print("torch==" + m.version("torch"))' 2>/dev/null || true); \
	if [ -n "$$kept" ]; then echo "keeping $$kept"; { grep -v '^torch==' constraints.txt; echo "$$kept"; } >$@; \
	else cp constraints.txt $@; fi

$(VENV)/.installed: pyproject.toml $(VENV)/constraints.txt
	$(BIN)/python -m pip install --quiet -c $(VENV)/constraints.txt -e ".[learners]"
	@touch $@

$(VENV)/.installed-dev: pyproject.toml $(VENV)/constraints.txt
	$(BIN)/python -m pip install --quiet -c $(VENV)/constraints.txt -e ".[learners,trl,torchrl,openai,qa,reasoning,tools,dev]"
	@touch $(VENV)/.installed $@

$(COMPAT)/.installed: pyproject.toml constraints.txt | $(COMPAT)/bin/python
	grep -vE '^(pettingzoo|gymnasium)==' constraints.txt >$(COMPAT)/constraints.txt
	$(COMPAT)/bin/python -m pip install --quiet -c $(COMPAT)/constraints.txt -e ".[qa]" pytest pytest-xdist hypothesis pettingzoo==1.26.1 gymnasium==1.2.2
	@touch $@
