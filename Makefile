# Short forms of the commands `nmt COMMAND key=value …`, for example
#   make train EXPERIMENT=wmt14_en_de_base GPUS=8 ARGS="training.max_updates=50000"

THIS := $(lastword $(MAKEFILE_LIST))
SHELL := /bin/bash
MAKEFLAGS += --no-print-directory
PYTHON ?= python3
VENV ?= .venv
BENCH ?= training decoding data
BIN := $(VENV)/bin
NMT := $(BIN)/python -m nmt

# Values of variables are passed through the environment: to the shell, and to Hydra as ${oc.env:NAME}, which
# takes any text as it is. make must not expand the values, because a file may be called $(shell rm).en. Only
# ARGS is not quoted: the shell splits it into words, which have Hydra's grammar.
VARIABLES := EXPERIMENT EXERCISE GPUS SEEDS DRY_RUN DATA GENERAL FILE TEXT MODEL FROM OUT HOST PORT TEST BASELINE FORMAT SOURCE TARGET SWEEP SCALE RESULT BENCH KILLS SIGNALS TROUBLES ARGS
ifeq ($(origin SCALE),command line)
ifneq ($(value SWEEP)$(value EXPERIMENT),table3)
$(error SCALE= selects the experiment of SWEEP=table3: leave it out for other sweeps, or with EXPERIMENT=)
endif
endif
GIVEN := $(strip $(foreach name,$(filter-out ARGS,$(VARIABLES)),$(if $(filter command,$(firstword $(origin $(name)))),$(if $(value $(name)),$(name)))))
$(foreach name,$(VARIABLES),$(eval override $(name) := $$(value $(name))))
ifeq ($(EXPERIMENT),)
# SWEEP=table3 has an experiment for each SCALE: laptop_scale or paper_scale.
override EXPERIMENT := $(if $(filter table3,$(SWEEP)),$(or $(SCALE),laptop)_scale,$(if $(DATA),own_text,phrasebook_en_de))
endif
override PYTHON := $(value PYTHON)
export $(VARIABLES) PYTHON
# With this variable, each process would compile the modules again.
unexport PYTHONDONTWRITEBYTECODE

# Reject variables that are unknown or that the targets do not use.
KNOWN := $(VARIABLES) PYTHON VENV
UNKNOWN := $(filter-out $(KNOWN) MAKE%,$(foreach name,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(name)))),$(name))))
ifneq ($(UNKNOWN),)
NAME := $(firstword $(UNKNOWN))
UPPER := $(shell printf %s '$(subst ','\'',$(NAME))' | tr a-z A-Z)
NEAR := $(firstword $(filter $(UPPER) $(UPPER)%,$(KNOWN)))
FORM := $(if $(findstring .,$(NAME)),write ARGS="$(NAME)=VALUE",$(if $(NEAR),write $(NEAR)=VALUE,the variables are $(KNOWN); keys of the configuration are given as ARGS="training.max_updates=100"))
$(error $(NAME)= is not a variable of this Makefile: $(FORM))
endif
TARGETS := help install prepare train adapt translate subwords attend lesson backtranslate score evaluate sweep sweep-report reproduce report export import bench soak golden test check format install-tracking install-sweeps install-data install-ray install-exchange install-serve install-docs dashboard serve docs
GOALS := $(filter $(TARGETS),$(MAKECMDGOALS))
ifneq ($(and $(GOALS),$(GIVEN)),)
# The ## comment of a target lists its variables. Before version 4.3, make took a # inside $(shell …)
# for the start of a comment, so H stands for it.
H := \#
USED := $(shell sed -nE '$(foreach goal,$(GOALS),s/^$(goal):[^$(H)]*$(H)$(H) //p;)' '$(THIS)' | grep -oE '[A-Z_]+=')
UNUSED := $(firstword $(filter-out $(USED),$(addsuffix =,$(GIVEN))))
ifneq ($(UNUSED),)
$(error $(UNUSED) has no effect on make $(GOALS), which uses $(or $(USED),no variables))
endif
endif

.DEFAULT_GOAL := help
.PHONY: $(TARGETS)

help:  ## List the targets and their variables
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/' | expand -t 25

# $(call install,FILE) installs the packages of a requirements file. Each module is compiled when it is
# first imported; most are never used.
install = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -r $(1)

install: $(VENV)/.installed  ## Create .venv and install the requirements

$(VENV)/.installed: requirements.txt
	@$$PYTHON -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: $$($$PYTHON --version 2>&1) is too old: Python 3.11 or later is needed; name one with PYTHON=python3.12" >&2; exit 2; }
	@echo "creating $(VENV) and installing requirements.txt (once; some minutes)" >&2
	@$$PYTHON -m venv $(VENV)
	@$(call install,requirements.txt)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps \
	  --config-settings editable_mode=compat -e .
	@$(NMT) train --help > /dev/null  # compiles what commands import
	@touch $@

install-tracking: $(VENV)/.installed-tracking  ## Install tensorboard and wandb-workspaces

install-sweeps: $(VENV)/.installed-sweeps  ## Install the Optuna sweeper and the launcher of parallel runs

install-data: $(VENV)/.installed-data  ## Install packages for cleaning=strict and corpus=opus

install-ray: $(VENV)/.installed-ray  ## Install Ray for prepare.executor=ray and cluster=ray

install-exchange: $(VENV)/.installed-exchange  ## Install transformers and ONNX, for export and import

install-serve: $(VENV)/.installed-serve  ## Install FastAPI and uvicorn, for make serve

install-docs: $(VENV)/.installed-docs  ## Install mkdocs, for make docs

$(VENV)/.installed-dev: requirements-tracking.txt requirements-sweeps.txt requirements-data.txt requirements-ray.txt requirements-exchange.txt requirements-serve.txt requirements-docs.txt

$(VENV)/.installed-%: requirements-%.txt $(VENV)/.installed
	@echo "installing $< (once)" >&2
	@$(call install,$<)
	@touch $@

# $(call key,NAME,VARIABLE) is NAME=VALUE, read from the environment, and no word if VARIABLE is empty.
key = $${$(2):+'$(1)=$${oc.env:$(2)}'}
# Arguments that several commands share.
experiment = "experiment=$$EXPERIMENT" $(call key,corpus.path,DATA)
gpus = $(call key,training.num_processes,GPUS)
dry_run = $(if $(filter-out 0 false no,$(DRY_RUN)),run.dry_run=true)
model = $(call key,model,MODEL) $(call key,out,OUT)

prepare: install  ## Clean the text, learn subwords, write shards        EXPERIMENT= DATA= DRY_RUN=1 ARGS=
	@$(NMT) prepare $(experiment) $(dry_run) $(ARGS)

train: install  ## Train, choose the best checkpoint, score it         EXPERIMENT= DATA= GPUS= SEEDS=1,2,3 DRY_RUN=1 ARGS=
	@$(NMT) train $(if $(SEEDS),--multirun "training.seed=$$SEEDS") $(experiment) $(gpus) $(dry_run) $(ARGS)

adapt: install  ## Fine-tune a model on your own text                  MODEL= DATA= GENERAL= GPUS= OUT= DRY_RUN=1 ARGS=
	@$(NMT) adapt 'data=$${oc.env:DATA}' $(call key,initial_model,MODEL) $(call key,general,GENERAL) $(call key,out,OUT) $(gpus) $(dry_run) $(ARGS)

translate: install  ## Translate a file line by line, or one text          FILE= or TEXT=, MODEL= OUT= ARGS=
	@test -z "$$TEXT" || test -z "$$FILE" || { echo "error: give FILE= or TEXT=, not both" >&2; exit 2; }
	@if test -n "$$TEXT"; then printf '%s\n' "$$TEXT" | $(NMT) translate file=- $(model) $(ARGS); \
	  else $(NMT) translate 'file=$${oc.env:FILE}' $(model) $(ARGS); fi

serve: $(VENV)/.installed-serve  ## Serve models: a web page and an HTTP API            MODEL="A B" HOST=127.0.0.1 PORT=8000 ARGS=
	@$(NMT) serve $(call key,model,MODEL) $(call key,host,HOST) $(call key,port,PORT) $(ARGS)

subwords: install  ## Show the pieces of a text                           TEXT= MODEL= ARGS=side=target
	@$(NMT) subwords 'text=$${oc.env:TEXT}' $(call key,model,MODEL) $(ARGS)

attend: install  ## Show the attention of all layers and heads          TEXT= MODEL= OUT=FOLDER ARGS="layer=3"
	@$(NMT) attend 'text=$${oc.env:TEXT}' $(model) $(ARGS)

lesson: install  ## Run the code of docs/lesson.md, or check an exercise EXERCISE=1 OUT=
	@$(BIN)/python -m docs.lesson $(call key,exercise,EXERCISE) $(call key,out,OUT) $(ARGS)

backtranslate: install  ## Make training pairs from target-language text       FILE= MODEL= OUT= ARGS=
	@$(NMT) backtranslate 'file=$${oc.env:FILE}' $(model) $(ARGS)

score: install  ## Score given translations by their probability       SOURCE= TARGET= MODEL= OUT= ARGS=
	@$(NMT) score 'source=$${oc.env:SOURCE}' 'target=$${oc.env:TARGET}' $(model) $(ARGS)

evaluate: install  ## Score models on a test set, and compare them        TEST= MODEL="A B" BASELINE= OUT= ARGS=
	@$(NMT) evaluate $(call key,test,TEST) $(call key,baseline,BASELINE) $(model) $(ARGS)

sweep: install  ## Train a grid of runs, and rank them                 SWEEP= EXPERIMENT= DATA= GPUS= SCALE=paper|laptop DRY_RUN=1 ARGS=
	@test -n "$$SWEEP" || { echo "error: SWEEP= is missing: name a file of conf/sweep, for example SWEEP=peak_lr" >&2; exit 2; }
	@$(if $(and $(dry_run),$(filter table3,$(SWEEP))),$(NMT) table3 $(experiment) $(gpus),\
	  $(NMT) train --multirun $(experiment) "sweep=$$SWEEP" "run.name=$${SWEEP}_$$EXPERIMENT" $(gpus) $(dry_run)) $(ARGS)

sweep-report: install  ## Rank the runs of a sweep, at any time               SWEEP= ARGS=
	@test -n "$$SWEEP" || { echo "error: SWEEP= is missing: name a sweep in outputs/sweeps, or its folder" >&2; exit 2; }
	@$(NMT) sweep-report 'sweep=$${oc.env:SWEEP}' $(ARGS)

dashboard: $(VENV)/.installed-tracking  ## Write a workspace of wandb with the charts of the runs  ARGS=
	@$(NMT) dashboard $(ARGS)

reproduce: install  ## Train the seeds of a known score, compare the mean   RESULT= DATA= GPUS= ARGS=
	@$(NMT) reproduce 'result=$${oc.env:RESULT}' $(call key,data,DATA) $(gpus) $(ARGS)

report: install  ## Write the report of a completed run again           MODEL=
	@$(NMT) report $(call key,run,MODEL) $(ARGS)

export: install  ## Convert a model for another program                 MODEL= FORMAT=huggingface|onnx|ctranslate2|marian|argos OUT=FOLDER ARGS=
	@$(NMT) export $(call key,format,FORMAT) $(model) $(ARGS)

import: install  ## Import a Marian, OPUS-MT or Hugging Face model      FROM=FOLDER OUT= ARGS="check=FILE"
	@$(NMT) import 'folder=$${oc.env:FROM}' $(call key,out,OUT) $(ARGS)

docs: $(VENV)/.installed-docs  ## Write the documents and the reference as pages
# Without the variable, the theme advertises its successor.
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet && echo "written: outputs/docs/index.html" >&2

bench: $(VENV)/.installed-dev  ## Measure speed, also that of other programs          BENCH="training decoding data preparation" ARGS=
# If a benchmark cannot run, such as decoding without a model, the other benchmarks still run.
	@status=0; for name in $$BENCH; do $(BIN)/python -m "benchmarks.$$name" $(ARGS) || status=$$?; done; exit $$status

soak: $(VENV)/.installed-dev  ## Kill trainings, resume them, compare the results    KILLS= SIGNALS= TROUBLES= ARGS=
# Threads sleep while they wait. If they did not, other processes on the machine would slow this
# command down by hours instead of minutes.
	@OMP_WAIT_POLICY=passive $(BIN)/python -m benchmarks.soak $(call key,kills,KILLS) $(call key,signals,SIGNALS) $(call key,troubles,TROUBLES) $(ARGS)

golden: $(VENV)/.installed-dev  ## Replace the losses stored in tests/golden by those of the current code
	@$(BIN)/python -m tests.golden.refresh

test: $(VENV)/.installed-dev  ## Run all tests                                       ARGS=
# Tests run in parallel (see tests/conftest.py), each file in one process. The files start in
# alphabetical order, so the slow files of tests/end_to_end come first.
	@$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder $(ARGS)

check: $(VENV)/.installed-dev  ## Run ruff, mypy and the check of the package layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(VENV)/.installed-dev  ## Format the code
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .
