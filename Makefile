# Convoy. `make help` lists the targets; one config.mk is read if present and may set any variable
# below.
#
# Sources are found by folder: adding a file edits nothing here. Everything built lies under build/
# (variants, with SAN or without MPI, in a folder of their own there), but for ./convoy itself. Each
# object depends on its headers (-MMD) and on build/flags, a stamp of the exact compile command.
# make calls itself only for what must happen after something else: tests after setup, the sanitizer
# variant.

-include config.mk

MPI    ?= 1      # 0: no plugin for MPI; one rank only
PNG    ?= auto   # 0: no libspng, PNG files are refused; auto: if it is there
HWLOC  ?= auto   # 0: no hwloc, ranks are not bound to CPUs; auto: if it is there
CUDA   ?= auto   # 0: CPU only; 1: an error if the toolkit, cuDNN or NCCL is missing; auto: if there
EMU    ?= 0      # 1: another build, under build/emu: the CUDA backend on the CPU (tests/emu)
DEBUG  ?= 0      # 1: another build, under build/debug, for gdb: nothing optimised
SAN    ?=        # e.g. address,undefined: another build, under build/san-address-undefined
WERROR ?= 0      # 1: warnings are errors
V      ?= 0      # 1: show whole commands
ARGS   ?=        # for unit and ops: --filter=TEXT, --op=TEXT, --list ...
override MPI    := $(strip $(MPI))
override CUDA   := $(strip $(CUDA))
override EMU    := $(strip $(EMU))
override DEBUG  := $(strip $(DEBUG))
override SAN    := $(strip $(SAN))
override WERROR := $(strip $(WERROR))
override V      := $(strip $(V))

ifeq ($(origin CC),default)
CC := gcc
endif

comma    := ,
hash     := \#
# VARIANT=/NAME on the command line is a build of its own under build/NAME, such as one
# for a single kind of GPU).
VARIANT  := $(if $(filter 1,$(MPI)),,/no-mpi)$(if $(filter 1,$(EMU)),/emu)
VARIANT  := $(VARIANT)$(if $(filter 1,$(DEBUG)),/debug)
VARIANT  := $(VARIANT)$(if $(SAN),/san-$(subst $(comma),-,$(SAN)))
VARIANT  := $(VARIANT)$(if $(filter 0,$(PNG)),/no-png)$(if $(filter 0,$(HWLOC)),/no-hwloc)
B        := build$(VARIANT)
CONVOY   := $(if $(VARIANT),$(B)/convoy,convoy)
include cuda.mk
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla \
            -Wcast-qual -Wwrite-strings -Wundef -Wpointer-arith -Wformat=2 -Wdouble-promotion \
            -Wimplicit-fallthrough -Wswitch-enum $(if $(filter 1,$(WERROR)),-Werror)
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer)
# CPPFLAGS, CFLAGS and LDFLAGS are the user's: they come behind ours, and take nothing of them away.
OWN_CPPFLAGS := $(EMU_CPPFLAGS) -I. -D_GNU_SOURCE -DCONVOY_CUDA=$(HAVE_CUDA)
# has, VARIABLE HEADER: 0 or 1 of a library that may be missing
has = $(if $(filter auto,$(strip $(1))),$(shell echo '\#include <$(2)>' | \
        $(CC) $(CPPFLAGS) $(CFLAGS) -E -x c - > /dev/null 2>&1 && echo 1 || echo 0),$(strip $(1)))
override PNG   := $(call has,$(PNG),spng.h)
override HWLOC := $(call has,$(HWLOC),hwloc.h)
OWN_CPPFLAGS += $(if $(filter 0,$(PNG)),-DCONVOY_NO_PNG)
OWN_CPPFLAGS += $(if $(filter 0,$(HWLOC)),-DCONVOY_NO_HWLOC)
# What a fault of ours in reading what others wrote has to get past (docs/security.md); asked of the
# compiler where not every one has it. The sanitizers find more by themselves.
takes     = $(if $(shell $(CC) -Werror -O2 $(1) -include stdlib.h -x c -c /dev/null \
              -o /dev/null 2> /dev/null || echo no),$(2),$(1))
HARDENED := -fPIE -fstack-protector-strong
OPTIMISED := $(lastword $(if $(filter 1,$(DEBUG)),-O0,-O2) $(filter -O%,$(CFLAGS)))
HARDENED += -U_FORTIFY_SOURCE
ifneq ($(OPTIMISED),-O0)
HARDENED += $(call takes,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3,-D_FORTIFY_SOURCE=2)
endif
HARDENED += $(call takes,-fcf-protection,)
HARDENED := $(if $(SAN),,$(HARDENED))
LINK_HARDENED := $(if $(SAN),,-pie -Wl,-z,relro,-z,now,-z,noexecstack)
# One line of flags for all files; behind it the *_FLAGS, by room, and then the user's.
ALL_FLAGS = -std=c17 -g -fopenmp $(WARNINGS) $(SANFLAGS) $(HARDENED) $(OWN_CPPFLAGS)
DEBUG_FLAGS := $(if $(filter 1,$(DEBUG)),-O0 -g3)
LAST_FLAGS = $(DEBUG_FLAGS) $(CPPFLAGS) $(CFLAGS)
PLAIN_FLAGS := -O2
# Where there are fused multiply-adds loops are to use them: e^x and erf are little else. But what
# each rank computes for itself has to be the same on all, whatever their instruction sets.
CPU_FLAGS   := -O3 -fno-math-errno -ffp-contract=fast
ALIKE_FLAGS := $(CPU_FLAGS) -ffp-contract=off
ALIKE       := update muon trust lerp scale loss_scale grad_norm
# Decoded and augmented pixels must be the same on every machine: no fused multiply-add behind our
# back.
DATA_FLAGS  := -O3 -ffp-contract=off
# Another oneDNN than the system's: the folder above its include and lib; by itself what
# scripts/setup.sh --onednn3 has fetched. DNNL_HOME= takes the system's.
DNNL_HOME   ?= $(wildcard .onednn3)
override DNNL_HOME := $(strip $(DNNL_HOME))
DNNL_LIB    := $(if $(DNNL_HOME),$(call library_folder,$(DNNL_HOME)))
DNNL_MISSING := $(if $(wildcard $(DNNL_HOME)/include/oneapi/dnnl/dnnl.h),,oneapi/dnnl/dnnl.h) \
                $(if $(wildcard $(DNNL_LIB)/libdnnl.so),,libdnnl.so)
ifneq ($(DNNL_HOME),)
ifneq ($(strip $(DNNL_MISSING)),)
$(error DNNL_HOME=$(DNNL_HOME), but not found there: $(strip $(DNNL_MISSING)))
endif
OWN_CPPFLAGS += -isystem $(DNNL_HOME)/include
endif
LIBS        := $(addprefix -L,$(DNNL_LIB)) -ldnnl -ljpeg $(if $(filter 1,$(PNG)),-lspng) -lyaml \
               $(if $(filter 1,$(HWLOC)),-lhwloc) -lz -lm -lpthread -ldl
# A plugin for each binary interface of MPI libraries whose compiler and mpi.h are there; mpicc may
# be of either. Asked again each time: make reads this before setup may have installed it, too.
mpi_compiler = $(if $(filter 1,$(MPI)),$(shell for c in $(1) mpicc; do \
                 echo '$(hash)include <mpi.h>' | $$c -E -dM -x c - 2> /dev/null | \
                 grep -q '^$(hash)define $(2)' && echo $$c && break; done))
OMPI_CC  := $(call mpi_compiler,mpicc.openmpi,OPEN_MPI )
MPICH_CC := $(call mpi_compiler,mpicc.mpich,MPI_COMM_WORLD .*0x44000000)
mpi_includes = $(if $(1),$(patsubst -I%,-isystem %,$(filter -I%,$(shell $(1) $(2)))))
OMPI_CFLAGS  := $(call mpi_includes,$(OMPI_CC),--showme:compile)
MPICH_CFLAGS := $(call mpi_includes,$(MPICH_CC),-compile-info)
MPI_PLUGINS  := $(if $(OMPI_CC),$(B)/libconvoy_mpi_ompi.so)
MPI_PLUGINS  += $(if $(MPICH_CC),$(B)/libconvoy_mpi_mpich.so)
MPI_SAYS     := $(if $(OMPI_CC),Open MPI) $(if $(MPICH_CC),MPICH)
MPI_SAYS     := $(subst MPI MPICH,MPI and MPICH,$(strip $(MPI_SAYS)))
# Where a program of the build tree finds libraries (RUNPATH); one that is installed has none.
MPI_LINK    := $(if $(OMPI_CC),$(shell $(OMPI_CC) --showme:link))
MPI_LINK    += $(if $(MPICH_CC),$(shell $(MPICH_CC) -link-info))
MPI_RUN     := $(filter -Wl$(comma)-rpath% -Wl$(comma)/%,$(MPI_LINK))
RUN_FOLDERS := $(MPI_RUN) $(CUDA_RUN) $(addprefix -Wl$(comma)-rpath$(comma),$(abspath $(DNNL_LIB)))
RUN_FOLDERS += $(if $(strip $(MPI_PLUGINS)),-Wl$(comma)-rpath$(comma)$(abspath $(B)))
PREFIX  ?= /usr/local
DESTDIR ?=

ROOMS := base base/process kernels kernels/ops kernels/cpu $(CUDA_ROOMS) models models/graph \
         data $(wildcard data/*) $(wildcard trainer/*) $(wildcard trainer/*/*) \
         trainer/app/cmd/bench trainer/app/cmd/predict
LIB   := $(wildcard $(addsuffix /*.c,$(ROOMS))) $(EMU_SOURCES)
LIB   := $(filter-out trainer/app/main.c trainer/engine/comm/mpi_plugin.c $(CUDA_UNUSED),$(LIB))
APP   := $(filter trainer/app/%,$(LIB))
ifneq ($(HWLOC),1)
LIB   := $(filter-out trainer/engine/place/place_plan.c,$(LIB))
endif
REF   := $(wildcard kernels/ref/*.c)
UNITS := $(wildcard $(foreach f,. * */* */*/* */*/*/*,tests/unit/$(f)/test_*.c))
UNIT  := tests/test_main.c $(filter-out $(CUDA_UNUSED_TESTS),$(UNITS))
OPS   := $(wildcard tests/ops/*.c)
TOOLS := $(wildcard tests/tools/make_*.c)
SWEEP := $(wildcard tests/sweep/*.c)
PTXAS_OBJ := $(if $(filter 1,$(EMU)),,$(CUDA_OBJ))
DRIVER_SHIM := $(if $(filter 1,$(EMU)),,$(B)/driver_shim/libcuda.so.1)
DRIVER_SHIM := $(if $(filter 1,$(HAVE_CUDA)),$(DRIVER_SHIM))
SWEEP_PROGRAM := $(if $(DRIVER_SHIM),$(B)/cuda_sweep $(DRIVER_SHIM))
FUZZ  := $(filter-out tests/fuzz/fuzz_main.c,$(wildcard tests/fuzz/*.c))
HELPERS := $(filter-out $(TOOLS),$(wildcard tests/tools/*.c)) $(FUZZ)
HEADERS := $(wildcard $(addsuffix /*.h,$(ROOMS) kernels/ref tests $(addprefix tests/, \
             unit ops tools fuzz)))
CUDA_FILES := $(wildcard kernels/cuda/*.[ch] kernels/cuda/cudnn/*.[ch] \
                kernels/cuda/*.cu kernels/cuda/*.cuh \
                trainer/engine/comm/comm_nccl.c tests/emu/*.[ch] tests/emu/*.[ch]pp examples/*.c)

# The version is that of base/version.h, and a release the commit that carries it as a tag, v0.1.0.
# Any other commit is told too, to base/version.c alone, which is compiled again when it changes;
# nothing where the sources came without git. COMMIT=... on the command line says it in git's place.
VERSION := $(shell sed -n 's/^.define CONVOY_VERSION "\(.*\)"/\1/p' base/version.h)
GIT     := git -c safe.directory='*'
ifneq ($(origin COMMIT),command line)
COMMIT := $(if $(wildcard .git),$(shell $(GIT) describe --tags --exact-match --dirty \
            --match 'v$(VERSION)' 2>/dev/null | grep -qx 'v$(VERSION)' || \
            $(GIT) describe --always --abbrev=12 --dirty=.dirty --exclude='*' 2>/dev/null))
endif

objects  = $(patsubst %.c,$(B)/obj/%.o,$(1))
APP_OBJ := $(call objects,$(APP))
ENGINE_OBJ := $(call objects,$(filter-out $(APP),$(LIB))) $(CUDA_OBJ)
LIB_OBJ := $(ENGINE_OBJ) $(APP_OBJ)
OWN_LIBS := $(B)/libapp.a $(B)/libengine.a
TEST_LIBS := $(B)/libtest.a $(OWN_LIBS)
PROGRAM_SOURCES := trainer/app/main.c $(REF) $(UNIT) $(OPS) $(TOOLS) $(HELPERS) $(SWEEP) \
                   tests/fuzz/fuzz_main.c
ALL_OBJ := $(LIB_OBJ) $(call objects,$(PROGRAM_SOURCES))
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
.DEFAULT_GOAL := all
.PHONY: all build parts ptxas sweep sweepall tools test demo setup check unit ops caps e2e fuzz \
        mutants asan emu example libs install uninstall deb wheel dist lint format docs clean help \
        fuzz-long FORCE

all: parts $(CONVOY) $(MPI_PLUGINS) ## build ./convoy (the default)

build: parts $(CONVOY) $(B)/unit $(B)/ops tools ## build ./convoy, the test programs and the tools

# Said by make itself, so that a build with nothing to do runs no command.
parts:
	$(info convoy with $(or $(MPI_SAYS),no MPI), $(if $(DNNL_HOME),oneDNN from \
	$(DNNL_HOME)$(comma) )$(CUDA_SAYS))
	$(if $(filter 0,$(PNG)),$(info convoy without libspng: PNG files are refused))
	$(if $(filter 0,$(HWLOC)),$(info convoy without hwloc: ranks are not bound to CPUs))

# tests/tools/make_NAME.c is a program, the other files there are shared by tests
tools: $(TOOL_BINARIES) $(B)/fuzz_replay $(B)/slow_files.so $(DRIVER_SHIM)
tools: $(B)/fake_nvml/libnvidia-ml.so.1 $(MPI_PLUGINS)

# ---- objects and binaries ----

$(B)/obj/%.o: ROOM_FLAGS := $(PLAIN_FLAGS)
$(B)/obj/kernels/cpu/%.o: ROOM_FLAGS := $(CPU_FLAGS)
$(ALIKE:%=$(B)/obj/kernels/cpu/%.o): ROOM_FLAGS := $(ALIKE_FLAGS)
$(B)/obj/data/%.o: ROOM_FLAGS := $(DATA_FLAGS)
$(B)/obj/kernels/cuda/%.o: ROOM_FLAGS = $(PLAIN_FLAGS) $(CUDA_CFLAGS)
$(B)/obj/trainer/engine/comm/comm_nccl.o: ROOM_FLAGS = $(PLAIN_FLAGS) $(CUDA_CFLAGS)
$(B)/obj/base/version.o: ROOM_FLAGS = $(PLAIN_FLAGS) $(if $(COMMIT),-DCONVOY_COMMIT='"$(COMMIT)"')
SHIM_FLAGS = $(PLAIN_FLAGS) $(CUDA_CFLAGS) -DCONVOY_DRIVER_SHIM='"$(DRIVER_SHIM)"'
NVML_FLAGS = $(PLAIN_FLAGS) -DCONVOY_FAKE_NVML='"$(B)/fake_nvml/libnvidia-ml.so.1"'
$(B)/obj/tests/unit/kernels/cuda/%.o: ROOM_FLAGS = $(SHIM_FLAGS)
$(B)/obj/tests/sweep/%.o: ROOM_FLAGS = $(SHIM_FLAGS)
$(addprefix $(B)/obj/tests/unit/trainer/,app/monitor/test_monitor.o app/doctor/test_doctor.o \
  engine/energy/test_energy.o): ROOM_FLAGS = $(NVML_FLAGS)

$(B)/obj/%.o: %.c $(B)/flags | $(B)/headers
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_FLAGS) $(ROOM_FLAGS) $(LAST_FLAGS) -MMD -MP -c $< -o $@

CUDA_COMMANDS = $(if $(CUDA_OBJ),$(CUDA_CFLAGS) | $(NVCC) $(NVCC_FLAGS) $(GENCODE))
COMMAND_LINES = $(CC) $(ALL_FLAGS) $(LAST_FLAGS) | $(PLAIN_FLAGS) | $(CPU_FLAGS) | \
                $(ALIKE_FLAGS) | $(DATA_FLAGS) | $(OMPI_CFLAGS) | $(MPICH_CFLAGS) | \
                $(LINK_HARDENED) $(LDFLAGS) $(LIBS) | \
                $(if $(filter 1,$(EMU)),$(CXX) $(EMU_CXXFLAGS))

# Rewritten only if their content changes, so that objects are rebuilt then and only then.
.SECONDEXPANSION:
$(B)/commit: $$(if $$(subst x$$(COMMIT)x,,x$$(file < $$@)x),FORCE,$$(if $$(wildcard $$@),,FORCE))
	@mkdir -p $(@D)
	@echo '$(COMMIT)' > $@

$(B)/obj/base/version.o: $(B)/commit
# It has the file inside.
$(B)/obj/trainer/engine/files/imagenet_names.o: configs/names/imagenet1k.txt
$(B)/flags: $$(if $$(subst x$$(strip $$(COMMAND_LINES))x,,x$$(strip $$(file < $$@))x),FORCE)
	@mkdir -p $(@D)
	@echo '$(COMMAND_LINES)' > $@
# Another toolkit: what includes the headers of CUDA, cuDNN or NCCL is compiled again.
CUDA_SEEN := $(filter kernels/cuda/% %/comm_nccl.c tests/unit/kernels/cuda/%,$(LIB) $(UNIT))
CUDA_SEEN += $(SWEEP)
$(call objects,$(CUDA_SEEN)): $(B)/cuda_flags
$(B)/cuda_flags: $$(if $$(subst x$$(strip $$(CUDA_COMMANDS))x,,x$$(strip $$(file < $$@))x),FORCE)
	@mkdir -p $(@D)
	@echo '$(CUDA_COMMANDS)' > $@

# What must be there is asked for before anything is compiled. A header, its package on Debian and
# Ubuntu, and that on Fedora, Rocky and their like.
HEADERS_NEEDED := stdlib.h:libc6-dev:glibc-devel jpeglib.h:libjpeg-dev:libjpeg-turbo-devel \
                  $(if $(DNNL_HOME),,oneapi/dnnl/dnnl.h:libdnnl-dev:onednn-devel) \
                  $(if $(filter 1,$(PNG)),spng.h:libspng-dev:libspng-devel) \
                  $(if $(filter 1,$(HWLOC)),hwloc.h:libhwloc-dev:hwloc-devel) \
                  yaml.h:libyaml-dev:libyaml-devel zlib.h:zlib1g-dev:zlib-devel \
                  $(if $(filter 1,$(MPI)),$(if $(MPI_SAYS),,mpi.h:libopenmpi-dev:openmpi-devel))
$(B)/headers: $(B)/flags
	@COMPILE='$(CC) $(OWN_CPPFLAGS) $(CPPFLAGS) $(CFLAGS)' scripts/build/headers.sh \
	$(HEADERS_NEEDED)
	@touch $@

define link
$(call say,LD,$@)
$(Q)$(CC) $(SANFLAGS) $(LINK_HARDENED) -fopenmp $(LDFLAGS) $(filter %.o %.a,$^) -o $@ \
	$(ENGINE_LIBS)
endef

# Libraries that a program with the engine in it links; $(RUN_FOLDERS) is where they lie.
ENGINE_LIBS = -fopenmp $(LIBS) $(CUDA_LIBS) $(RUN_FOLDERS)

# Archives, so that each program takes what it needs and a half-written room breaks only those that
# use it.
$(B)/libengine.a: $(ENGINE_OBJ)
$(B)/libapp.a: $(APP_OBJ)
$(B)/libtest.a: $(call objects,$(REF) $(HELPERS))
%.a:
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar qcs $@ $^

# The engine for other programs: one object, of which they see what convoy.h declares.
$(B)/libconvoy.a: $(B)/libengine.a
	$(call say,AR,$@)
	$(Q)ld -r --whole-archive $< -o $(@:.a=.o)
	$(Q)objcopy --wildcard --keep-global-symbol='convoy_*' $(@:.a=.o)
	$(Q)rm -f $@ && ar qcs $@ $(@:.a=.o) && rm $(@:.a=.o)

# As somebody else would build it: with nothing of the tree but the header's folder and the library.
$(B)/example: examples/train.c $(B)/libconvoy.a trainer/engine/include/convoy.h
	$(call say,LD,$@)
	$(Q)$(CC) -std=c17 $(WARNINGS) $(SANFLAGS) -I trainer/engine/include $(CFLAGS) $(LDFLAGS) $< \
	$(B)/libconvoy.a $(ENGINE_LIBS) -o $@

$(CONVOY): $(call objects,trainer/app/main.c) $(OWN_LIBS)
	$(link)

$(B)/unit: $(call objects,$(UNIT)) $(TEST_LIBS)
	$(link)

$(B)/ops: $(call objects,$(OPS)) $(TEST_LIBS)
	$(link)

$(TOOL_BINARIES): $(B)/%: $(B)/obj/tests/tools/%.o $(TEST_LIBS)
	$(link)

$(B)/fuzz_replay: $(call objects,tests/fuzz/fuzz_main.c) $(TEST_LIBS)
	$(link)

# Linked with no MPI: trainer/engine/comm/mpi_plugin.c says why.
$(B)/libconvoy_mpi_ompi.so: PLUGIN_CFLAGS = $(OMPI_CFLAGS)
$(B)/libconvoy_mpi_mpich.so: PLUGIN_CFLAGS = $(MPICH_CFLAGS)
$(B)/libconvoy_mpi_%.so: trainer/engine/comm/mpi_plugin.c $(B)/flags | $(B)/headers
	@mkdir -p $(@D)/obj
	$(call say,LD,$@)
	$(Q)$(CC) $(filter-out -fopenmp,$(ALL_FLAGS)) $(PLAIN_FLAGS) -fPIC $(PLUGIN_CFLAGS) $(LAST_FLAGS) \
	-MMD -MP -MF $(B)/obj/$(@F).d -MT $@ -shared $(filter-out -pie,$(LINK_HARDENED)) $(LDFLAGS) \
	-Wl,-soname,$(@F) $< -o $@

-include $(MPI_PLUGINS:$(B)/%=$(B)/obj/%.d)

# ---- installing ----

# Without folders of this machine. Debug information is apart, in a file that gdb looks for by the
# build's number; names of functions stay, which the report of a hang tells.
INSTALLED := $(B)/install/convoy
INSTALLED_PLUGINS := $(MPI_PLUGINS:$(B)/%=$(B)/install/%)
$(INSTALLED_PLUGINS): $(B)/install/%.so: $(B)/%.so
	@mkdir -p $(@D)
	$(Q)objcopy --strip-all $< $@
$(INSTALLED): RUN_FOLDERS :=
$(INSTALLED): $(call objects,trainer/app/main.c) $(OWN_LIBS)
	@mkdir -p $(@D)
	$(link)
	$(Q)objcopy --only-keep-debug $@ $@.debug
	$(Q)objcopy --strip-debug --add-gnu-debuglink=$@.debug $@

# For clangd and other tools that want to know how each file is compiled.
compile_commands.json: FORCE
	@$(MAKE) --no-print-directory -nB V=1 MAKEFLAGS= build | scripts/build/compile_commands.sh > $@.new
	@mv $@.new $@

install deb wheel e2e: $(INSTALLED) $(INSTALLED_PLUGINS)
install: ## install into PREFIX (/usr/local), below DESTDIR if that is set
	@DESTDIR='$(DESTDIR)' scripts/install/install.sh $< '$(PREFIX)'

uninstall: ## remove what make install has put into PREFIX
	@DESTDIR='$(DESTDIR)' scripts/install/install.sh --remove '$(PREFIX)'

deb: ## make a package for this Debian or Ubuntu, build/convoy_VERSION_ARCH.deb
	@scripts/install/deb.sh $< $(B)

wheel: $(INSTALLED) ## make a Python wheel, for pip and no root, in dist/
	@scripts/install/wheel.py $< dist

DIST := $(B)/convoy-$(VERSION)
dist: ## make a source archive of the last commit with its checksum, build/convoy-VERSION.tar.gz
	@mkdir -p $(B)
	@$(GIT) archive --format=tar --prefix=convoy-$(VERSION)/ -o $(DIST).tar HEAD
	@gzip -9nf $(DIST).tar
	@cd $(B) && sha256sum convoy-$(VERSION).tar.gz > convoy-$(VERSION).tar.gz.sha256
	@echo "made $(DIST).tar.gz and its .sha256"

# ---- fuzzing: base, data and the targets once more, by clang, with coverage and sanitizers; one
# program a target ----

FUZZ_CC      ?= clang
FUZZ_TARGETS := $(patsubst tests/fuzz/fuzz_%.c,%,$(filter tests/fuzz/fuzz_%.c,$(FUZZ)))
FUZZ_TARGETS := $(filter-out util dataset,$(FUZZ_TARGETS))
FUZZED       := $(filter-out kernels/backend_cuda_absent.c,$(wildcard kernels/*.c))
FUZZED       += $(filter base/% data/% models/% kernels/ops/% $(addprefix trainer/engine/,config/% \
                  plan/% events/% exec/% files/%) $(addprefix trainer/app/,launch/% log/% \
                  report/%),$(LIB))
FUZZED       += trainer/app/cmd/top_screen.c
FUZZ_OBJ     := $(patsubst %.c,build/fuzz/obj/%.o,$(FUZZED) $(HELPERS))
FUZZ_FLAGS   := -std=c17 -g -O1 -ffp-contract=off -fno-omit-frame-pointer \
                -I. -D_GNU_SOURCE -DCONVOY_CUDA=0 \
                -fsanitize=address,undefined -fno-sanitize-recover=all

build/fuzz/obj/%.o: %.c
	@mkdir -p $(@D)
	$(call say,FUZZ_CC,$<)
	$(Q)$(FUZZ_CC) $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link -MMD -MP -c $< -o $@

build/fuzz/libfuzz.a: $(FUZZ_OBJ)

$(addprefix build/fuzz/,$(FUZZ_TARGETS)): build/fuzz/%: tests/fuzz/fuzz_main.c build/fuzz/libfuzz.a
	$(call say,FUZZ_CC,$@)
	$(Q)$(FUZZ_CC) $(FUZZ_FLAGS) -fsanitize=fuzzer -DFUZZ_TARGET=fuzz_$* $^ -o $@ \
	-ljpeg -lspng -lyaml -lz -lm -lpthread -ldl

-include $(FUZZ_OBJ:.o=.d)

# Wants the real cuDNN, on any machine. The shim is for it alone.
$(B)/cuda_sweep: $(call objects,$(SWEEP)) $(OWN_LIBS)
	$(link)

$(B)/driver_shim/libcuda.so.1: tests/driver_shim/driver_shim.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -std=c17 $(WARNINGS) -D_GNU_SOURCE -fPIC -shared -Wl,-soname,libcuda.so.1 $< -o $@ -ldl

# Preloaded by tests that want a slow storage; never linked.
$(B)/slow_files.so: tests/slow_files/slow_files.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -std=c17 -O2 $(WARNINGS) -D_GNU_SOURCE -fPIC -shared $< -o $@ -ldl

# In the place of the driver's library, for tests that watch GPUs; never linked.
$(B)/fake_nvml/libnvidia-ml.so.1: tests/fake_nvml/fake_nvml.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -std=c17 -O2 $(WARNINGS) -fPIC -shared -Wl,-soname,libnvidia-ml.so.1 $< -o $@

-include $(ALL_OBJ:.o=.d)

# ---- what one does with them ----

# Tests run side by side: threads that wait for others must not keep these from the processors.
export OMP_WAIT_POLICY ?= passive

# Where the toolkit is, setup's own builds are for this machine's GPUs alone: six kinds take a
# newcomer half an hour.
NATIVE := $(if $(filter undefined,$(origin CUDA_ARCHS)),CUDA_ARCHS=native)

test: ## set up, then as check
	@scripts/setup.sh
	@$(MAKE) --no-print-directory $(NATIVE) check

check: ## build, lint, run every test; ends with "N passed, N failed, N skipped"; installs nothing
	@scripts/test.sh build lint unit ops e2e example

demo: ## set up, build, make a small dataset of JPEGs and train on it with two ranks
	@scripts/setup.sh
	@$(MAKE) --no-print-directory -j$$(nproc) $(NATIVE) all $(B)/make_shapes
	@scripts/demo.sh

setup: ## install missing packages (apt; says what it installs)
	@scripts/setup.sh

# hwloc's plugin for PCI, which nothing here needs, does not give back what it takes.
# The logits of sixty networks are looked at in the plain build alone: half of the tests' time, and
# no layer that the tests of gradients have not.
unit: $(B)/unit tools ## unit tests; ARGS=--filter=TEXT
	@$(if $(SAN),HWLOC_PLUGINS_PATH=none) $(B)/unit $(if $(SAN),--timeout=300) \
	$(if $(SAN)$(DNNL_HOME),--without=golden.logits_of) $(ARGS)

ops: $(B)/ops ## operations against the float64 reference; ARGS="--op=conv --bench"
	@$(B)/ops $(ARGS)

caps: $(B)/unit $(B)/ops ## gradients and operations as with SSE4.1, AVX and AVX2 alone
	@scripts/dev/caps.sh

NO_CUDNN = echo 'skip sweep: no cuDNN in this build'; echo '0 passed, 0 failed, 1 skipped'
sweep: $(SWEEP_PROGRAM)
sweep: ## cuDNN engines for every network on described GPUs; ARGS="--gpu=h200 --model=resnet50"
	@$(if $(SWEEP_PROGRAM),$< $(ARGS),$(NO_CUDNN))

sweepall: $(SWEEP_PROGRAM)
sweepall: ## every engine that cuDNN offers for ResNets, in all precisions; ten minutes a GPU
	@$(if $(SWEEP_PROGRAM),$< --all --fuse=none --model='resnet*' $(ARGS),$(NO_CUDNN))

e2e: $(CONVOY) tools ## whole runs with mpirun; ARGS="tests/e2e/x.sh" for one
	@scripts/e2e.sh $(ARGS)

fuzz: $(addprefix build/fuzz/,$(FUZZ_TARGETS))
fuzz: ## fuzz every parser with libFuzzer (clang); FUZZ_RUNS=1000000 inputs each
	@scripts/dev/fuzz.sh $(FUZZ_TARGETS)

# The same number for each: what one of the slow ones lacks, no other makes up for.
fuzz-long: ## the same with ten million inputs in all; an hour or two
	@total=10000000; count=$(words $(FUZZ_TARGETS)); \
	FUZZ_RUNS=$$(((total + count - 1) / count)) $(MAKE) --no-print-directory fuzz

mutants: ## put 200 faults into the product, one at a time: do the tests notice? (an hour)
	@scripts/dev/mutants.py $(ARGS)

asan: ## unit, ops and the example under the address and undefined-behaviour sanitizers
	@scripts/test.sh SAN=address,undefined build unit ops example

emu: $(if $(SAN),,tools)
emu: ## unit tests, operations and whole runs on an emulated device (tests/emu); SAN=...: no runs
	@SAN='$(SAN)' scripts/dev/emu.sh

example: $(B)/example $(B)/make_shapes $(MPI_PLUGINS)
example: ## train with the engine in a program of its own: examples/train.c
	@scripts/dev/example.sh $(B)/example $(B)

libs: ## say what a program with libconvoy.a in it links
	@echo $(ENGINE_LIBS)

# Calls between rooms are read from the objects, if those are of today's sources.
LINTED := $(patsubst $(B)/obj/%,%,$(LIB_OBJ)) trainer/app/main.o
LINTED := $(filter base/%.o data/%.o kernels/%.o models/%.o trainer/%.o,$(LINTED))
lint: ## floors, names, what nobody needs, headers, forbidden words, form
	@if $(MAKE) -q $(addprefix $(B)/obj/,$(LINTED)) > /dev/null 2>&1; then built='$(LINTED)'; fi; \
	OBJECTS='$(B)/obj' BUILT="$$built" CC='$(CC)' CXX='$(CXX)' CPPFLAGS='$(OWN_CPPFLAGS)' \
	CUDA_ISYSTEM='$(if $(CUDA_MISSING),,$(CUDA_ISYSTEM))' scripts/lint.sh

NO_CUDA = echo 'skip ptxas: no CUDA in this build'; echo '0 passed, 0 failed, 1 skipped'
ptxas: $(PTXAS_OBJ)
ptxas: ## no CUDA kernel may spill registers, on any architecture; ARGS=--table lists them all
	@$(if $(PTXAS_OBJ),scripts/dev/ptxas.sh $(ARGS) $(PTXAS_OBJ:.o=.ptxas),$(NO_CUDA))

format: ## rewrite all C files with clang-format
	clang-format -i $(sort $(LIB) $(PROGRAM_SOURCES) $(HEADERS) $(CUDA_FILES) \
	$(UNITS) $(wildcard $(addsuffix /*.c,$(addprefix tests/,cover driver_shim slow_files fake_nvml))) \
	kernels/backend_cuda_absent.c)

docs: $(CONVOY) ## write the generated pages (docs/config.md)
	@mkdir -p docs
	@$(abspath $(CONVOY)) inspect config --markdown > docs/config.md.new
	@mv docs/config.md.new docs/config.md

clean: ## remove everything built
	rm -rf build convoy

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-9s %s\n", $$1, $$2 }' \
	$(firstword $(MAKEFILE_LIST))
	@echo; echo "  variables: MPI=0|1  CUDA=0|1|auto  PNG=0  HWLOC=0  EMU=1  DEBUG=1  WERROR=1  V=1"
	@echo "             SAN=address,undefined  CC=...  CPPFLAGS=...  CFLAGS=...  LDFLAGS=...  ARGS=..."
	@echo "             CUDA_HOME  CUDNN_HOME  NCCL_HOME  DNNL_HOME"
	@echo "             CUDA_WHEELS=.../site-packages/nvidia  CUDA_ARCHS=native|\"80 90\""
	@echo "             PREFIX  DESTDIR"
	@echo "  make compile_commands.json: how each C file is compiled, for clangd"
