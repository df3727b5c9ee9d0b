# Convoy. `make help` lists the targets; one config.mk is read if present and may set any variable below.
#
# Sources are found by folder: adding a file edits nothing here. Everything built lies under build/ (variants, with SAN or without MPI,
# in a folder of their own there), but for ./convoy itself. Each object depends on its headers (-MMD) and on build/flags, a stamp of the exact compile command.
# make calls itself only for what must happen after something else: tests after setup, the sanitizer variant.

-include config.mk

MPI    ?= 1      # 0: no MPI; one rank only
SAN    ?=        # e.g. address,undefined: another build, under build/san-address-undefined
WERROR ?= 0      # 1: warnings are errors
V      ?= 0      # 1: show whole commands
ARGS   ?=        # for unit and check: --filter=TEXT, --op=TEXT, --list ...
override MPI    := $(strip $(MPI))
override SAN    := $(strip $(SAN))
override WERROR := $(strip $(WERROR))
override V      := $(strip $(V))

ifeq ($(origin CC),default)
CC := gcc
endif

comma    := ,
VARIANT  := $(if $(filter 1,$(MPI)),,/no-mpi)$(if $(SAN),/san-$(subst $(comma),-,$(SAN)))
B        := build$(VARIANT)
CONVOY   := $(if $(VARIANT),$(B)/convoy,convoy)
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wcast-qual -Wwrite-strings \
            -Wundef -Wpointer-arith -Wformat=2 -Wdouble-promotion -Wimplicit-fallthrough $(if $(filter 1,$(WERROR)),-Werror)
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer)
CPPFLAGS += -I. -D_GNU_SOURCE -DCONVOY_MPI=$(MPI)
# One line of flags for all files; the *_FLAGS come on top of it, by room.
ALL_FLAGS = -std=c17 -g -fopenmp $(WARNINGS) $(SANFLAGS) $(CPPFLAGS) $(CFLAGS)
PLAIN_FLAGS := -O2
CPU_FLAGS   := -O3 -fno-math-errno
# Decoded and augmented pixels must be the same on every machine: no fused multiply-add behind our back.
DATA_FLAGS  := -O3 -ffp-contract=off
LIBS        := -ldnnl -ljpeg -lspng -lyaml -lz -lm -lpthread
# Recursive (=) on purpose: mpicc is asked when a command needs it, which is after setup may have installed it.
MPI_CFLAGS = $(if $(filter 1,$(MPI)),$(patsubst -I%,-isystem %,$(shell mpicc --showme:compile)))
MPI_LIBS   = $(if $(filter 1,$(MPI)),$(shell mpicc --showme:link))

ROOMS := base kernels kernels/ops kernels/cpu models models/graph data trainer trainer/comm trainer/exec
LIB   := $(filter-out trainer/main.c,$(wildcard $(addsuffix /*.c,$(ROOMS))))
ifneq ($(MPI),1)
LIB   := $(filter-out trainer/comm/comm_mpi.c,$(LIB))
endif
REF   := $(wildcard kernels/ref/*.c)
UNIT  := tests/test_main.c $(wildcard tests/unit/*.c)
CHECK := $(wildcard tests/check/*.c)
TOOLS := $(wildcard tests/tools/make_*.c)
HELPERS := $(filter-out $(TOOLS),$(wildcard tests/tools/*.c))
HEADERS := $(wildcard $(addsuffix /*.h,$(ROOMS) kernels/ref tests tests/unit tests/check tests/tools))

objects  = $(patsubst %.c,$(B)/obj/%.o,$(1))
LIB_OBJ := $(call objects,$(LIB))
TEST_LIBS := $(B)/libtest.a $(B)/libconvoy.a
ALL_OBJ := $(LIB_OBJ) $(call objects,trainer/main.c $(REF) $(UNIT) $(CHECK) $(TOOLS) $(HELPERS))
TOOL_BINARIES := $(patsubst tests/tools/%.c,$(B)/%,$(TOOLS))

ifeq ($(V),1)
Q :=
say = @:
else
Q := @
say = @echo "$(1) $(2)"
endif

.DELETE_ON_ERROR:
.SUFFIXES:
.SECONDARY:
.PHONY: all build tools test demo setup unit check e2e asan lint format docs clean help FORCE

all: $(CONVOY) ## build ./convoy (the default)

build: $(CONVOY) $(B)/unit $(B)/check tools ## build ./convoy, the test programs and the tools

tools: $(TOOL_BINARIES) # tests/tools/make_NAME.c is a program, the other files there are shared by tests

# ---- objects and binaries ----

$(B)/obj/%.o: ROOM_FLAGS := $(PLAIN_FLAGS)
$(B)/obj/kernels/cpu/%.o: ROOM_FLAGS := $(CPU_FLAGS)
$(B)/obj/data/%.o: ROOM_FLAGS := $(DATA_FLAGS)
$(B)/obj/trainer/comm/comm_mpi.o: ROOM_FLAGS = $(PLAIN_FLAGS) $(MPI_CFLAGS)

$(B)/obj/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_FLAGS) $(ROOM_FLAGS) -MMD -MP -c $< -o $@

COMMAND_LINES = $(CC) $(ALL_FLAGS) | $(PLAIN_FLAGS) | $(CPU_FLAGS) | $(DATA_FLAGS) | $(MPI_CFLAGS) | $(LDFLAGS) $(LIBS)

# Rewritten only if its content changes, so that objects are rebuilt then and only then.
$(B)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(COMMAND_LINES)' | cmp -s - $@ || echo '$(COMMAND_LINES)' > $@

define link
$(call say,LD,$@)
$(Q)$(CC) $(SANFLAGS) -fopenmp $(LDFLAGS) $(filter %.o %.a,$^) -o $@ $(LIBS) $(MPI_LIBS)
endef

# Archives, so that each program takes what it needs and a half-written room breaks only those that use it.
$(B)/libconvoy.a: $(LIB_OBJ)
$(B)/libtest.a: $(call objects,$(REF) $(HELPERS))
%.a:
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar qcs $@ $^

$(CONVOY): $(call objects,trainer/main.c) $(B)/libconvoy.a
	$(link)

$(B)/unit: $(call objects,$(UNIT)) $(TEST_LIBS)
	$(link)

$(B)/check: $(call objects,$(CHECK)) $(TEST_LIBS)
	$(link)

$(TOOL_BINARIES): $(B)/%: $(B)/obj/tests/tools/%.o $(TEST_LIBS)
	$(link)

-include $(ALL_OBJ:.o=.d)

# ---- what one does with them ----

test: ## set up, build, lint, run every test; ends with one line "N passed, N failed"
	@scripts/setup.sh
	@scripts/test.sh build lint unit check e2e

demo: ## set up, build, make a small dataset of JPEGs and train on it with two ranks
	@scripts/setup.sh
	@$(MAKE) --no-print-directory -j$$(nproc) all tools
	@scripts/demo.sh

setup: ## install missing packages (apt; says what it installs)
	@scripts/setup.sh

unit: $(B)/unit tools ## unit tests; ARGS=--filter=TEXT
	@$(B)/unit $(if $(SAN),--timeout=300) $(ARGS)

check: $(B)/check ## operations against the float64 reference; ARGS="--op=conv --bench"
	@$(B)/check $(ARGS)

e2e: $(CONVOY) tools ## whole runs with mpirun; ARGS="tests/e2e/x.sh" for one
	@scripts/e2e.sh $(ARGS)

asan: ## unit and check under the address and undefined-behaviour sanitizers
	@scripts/test.sh --san=address,undefined build unit check

lint: ## layers, headers, forbidden words, form
	@CC='$(CC)' CPPFLAGS='$(CPPFLAGS)' scripts/lint.sh

format: ## rewrite all C files with clang-format
	clang-format -i $(LIB) trainer/main.c $(REF) $(UNIT) $(CHECK) $(TOOLS) $(HELPERS) $(HEADERS)

docs: convoy ## write the generated pages (docs/config.md)
	@mkdir -p docs
	@./convoy inspect config --markdown > docs/config.md.new && mv docs/config.md.new docs/config.md

clean: ## remove everything built
	rm -rf build convoy

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo; echo "  variables: MPI=0|1  SAN=address,undefined  WERROR=1  V=1  CC=...  CFLAGS=...  ARGS=..."
