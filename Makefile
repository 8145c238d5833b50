# The short form of the commands; each one is `python -m nmt.cli.<command> key=value …`.
#   make train EXPERIMENT=wmt14_en_de_base GPUS=8 ARGS="training.max_updates=50000"

SHELL := /bin/bash
# Only translations go to stdout, also where another make calls this one.
MAKEFLAGS += --no-print-directory
PYTHON ?= python3
VENV ?= .venv
EXPERIMENT ?= phrasebook_en_de
BENCH ?= training decoding data
ARGS ?=
BIN := $(VENV)/bin
RUN := $(BIN)/python -m nmt.cli

# File names reach the shell as variables, so that quotes and blanks in them are harmless.
export FILE MODEL OUT TEST BASELINE DATA FORMAT SOURCE TARGET

.DEFAULT_GOAL := help
.PHONY: help install prepare train translate backtranslate score evaluate sweep reproduce report export bench soak golden test check format

help:  ## What can be made
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):[^#]*## (.*)/  make \1\t\2/' | expand -t 22

install: $(VENV)/.installed  ## Make .venv and install what the commands need

# `--version` first: a Python that is too old is told apart from a failed installation.
$(VENV)/.installed: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: $$($(PYTHON) --version 2>&1) is too old: Python 3.11 or later is needed; name one with PYTHON=python3.12" >&2; exit 2; }
	@echo "making $(VENV) and installing requirements.txt (once; some minutes)" >&2
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed requirements-dev.txt
	@echo "installing requirements-dev.txt (once)" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

prepare: install  ## Clean the text, learn subwords, write shards        EXPERIMENT= ARGS=
	@$(RUN).prepare experiment=$(EXPERIMENT) $(ARGS)

train: install  ## Train, choose, score                                EXPERIMENT= GPUS= DRY_RUN= ARGS=
	@$(RUN).train experiment=$(EXPERIMENT) $(if $(GPUS),training.num_processes=$(GPUS)) $(if $(DRY_RUN),run.dry_run=true) $(ARGS)

translate: install  ## Translate a file line by line                       FILE= MODEL= OUT= ARGS=
	@$(RUN).translate $(if $(FILE),"file=$$FILE") $(if $(MODEL),"model=$$MODEL") $(if $(OUT),"out=$$OUT") $(ARGS)

backtranslate: install  ## Training pairs of text in the target language   FILE= MODEL= OUT= ARGS=
	@$(RUN).backtranslate $(if $(FILE),"file=$$FILE") $(if $(MODEL),"model=$$MODEL") $(if $(OUT),"out=$$OUT") $(ARGS)

score: install  ## How probable a model finds given translations       SOURCE= TARGET= MODEL= OUT= ARGS=
	@$(RUN).score $(if $(SOURCE),"source=$$SOURCE") $(if $(TARGET),"target=$$TARGET") $(if $(MODEL),"model=$$MODEL") $(if $(OUT),"out=$$OUT") $(ARGS)

evaluate: install  ## Score models on a test set, and compare them        TEST= MODEL= BASELINE= OUT= ARGS=
	@$(RUN).evaluate $(if $(TEST),"test=$$TEST") $(if $(MODEL),"model=$$MODEL") $(if $(BASELINE),"baseline=$$BASELINE") $(if $(OUT),"out=$$OUT") $(ARGS)

sweep: install  ## A grid of runs, then the ranked table               SWEEP= EXPERIMENT= ARGS=
	@test -n "$(SWEEP)" || { echo "error: SWEEP= is missing: name a file of conf/sweep, for example SWEEP=peak_lr" >&2; exit 2; }
	@$(RUN).train --multirun experiment=$(EXPERIMENT) sweep=$(SWEEP) run.name=$(SWEEP)_$(EXPERIMENT) $(ARGS)

reproduce: install  ## From checksums to a verdict on a figure          RESULT= DATA= GPUS= ARGS=
	@$(RUN).reproduce $(if $(RESULT),result=$(RESULT)) $(if $(DATA),"data=$$DATA") $(if $(GPUS),training.num_processes=$(GPUS)) $(ARGS)

report: prepare  ## The reports of the corpus and of a run              EXPERIMENT= MODEL= ARGS=
	@if test -n "$$MODEL" -o -e outputs/latest/result.json; then $(RUN).report $(if $(MODEL),"run=$$MODEL"); fi

export: install  ## A trained model in another program's form           MODEL= FORMAT= OUT=
	@$(RUN).export $(if $(FORMAT),"format=$$FORMAT") $(if $(MODEL),"model=$$MODEL") $(if $(OUT),"out=$$OUT") $(ARGS)

bench: $(VENV)/.installed-dev  ## Speed beside other programs              BENCH="training decoding data" ARGS=
# One that cannot run, as decoding without a trained model, keeps no other from it.
	@status=0; for name in $(BENCH); do $(BIN)/python -m benchmarks.$$name $(ARGS) || status=$$?; done; exit $$status

soak: $(VENV)/.installed-dev  ## Kill trainings, continue, compare             KILLS= SIGNALS= TROUBLES=
# Threads that wait by sleeping: whatever else runs on the machine then costs minutes, not hours.
	@OMP_WAIT_POLICY=passive $(BIN)/python -m benchmarks.soak $(if $(KILLS),kills=$(KILLS)) $(if $(SIGNALS),signals=$(SIGNALS)) $(if $(TROUBLES),troubles=$(TROUBLES)) $(ARGS)

golden: $(VENV)/.installed-dev  ## Write the golden losses again
	@$(BIN)/python -m tests.golden.refresh

test: $(VENV)/.installed-dev  ## All tests                                           ARGS=
# On all cores, file by file, those first that take long: much of the time of some is waiting.
	@$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder $(ARGS)

check: $(VENV)/.installed-dev  ## ruff, mypy and the layers of the house
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(VENV)/.installed-dev  ## Format the code
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .
