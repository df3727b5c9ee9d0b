# cuda.mk - what the Makefile needs to know about CUDA: where it is, how .cu files are compiled,
# what the CPU build leaves out.
#
# Found by itself: CUDA_HOME, else the folder above nvcc on PATH, else /usr/local/cuda. cuDNN and
# NCCL lie beside it, in the system's folders, or under CUDNN_HOME and NCCL_HOME.
# CUDA_WHEELS=.../site-packages/nvidia takes what NVIDIA's Python packages installed there. The
# libraries are opened at run time; only the CUDA runtime is linked, statically, so ./convoy starts
# where there is none of them. The binary keeps the folders in which they were found (RUNPATH):
# LD_LIBRARY_PATH comes before them, what the system has, maybe for another CUDA, after them.

CUDA_WHEELS ?=
empty :=
space := $(empty) $(empty)
WHEEL_HOMES := cu13 cuda_runtime cuda_nvcc cublas cudnn nccl
WHEEL_HOMES := $(wildcard $(addprefix $(CUDA_WHEELS)/,$(WHEEL_HOMES)))
WHEEL_HOMES := $(if $(CUDA_WHEELS),$(WHEEL_HOMES))
WHEEL_NVCC  := $(firstword $(wildcard $(addsuffix /bin/nvcc,$(WHEEL_HOMES))))
# Unset, or set to nothing in the environment; or the environment speaks of another toolkit than the
# wheels that were asked for.
ifneq ($(if $(CUDA_HOME),$(if $(WHEEL_NVCC),$(filter environment,$(origin CUDA_HOME))),unset),)
CUDA_HOME   := $(WHEEL_NVCC) $(realpath $(shell command -v nvcc 2>/dev/null))
CUDA_HOME   := $(firstword $(patsubst %/bin/nvcc,%,$(CUDA_HOME)) $(wildcard /usr/local/cuda))
endif
NVCC        ?= $(CUDA_HOME)/bin/nvcc
CUDNN_HOME  ?=
NCCL_HOME   ?=

# Where headers and libraries are looked for; the compiler and the loader know the system's folders
# by themselves.
CUDA_HOMES    := $(filter-out $(CUDA_HOME),$(CUDNN_HOME) $(NCCL_HOME) $(WHEEL_HOMES)) $(CUDA_HOME)
CUDA_HOMES    := $(filter-out /usr,$(CUDA_HOMES))
CUDA_INCLUDES := $(wildcard $(addsuffix /include,$(CUDA_HOMES)))
CUDA_ISYSTEM  := $(addprefix -isystem ,$(CUDA_INCLUDES))
LIB_FOLDERS   := lib64 lib targets/x86_64-linux/lib targets/sbsa-linux/lib
library_folder = $(firstword $(wildcard $(addprefix $(1)/,$(LIB_FOLDERS))))
CUDA_FOLDERS  := $(foreach h,$(CUDA_HOMES),$(call library_folder,$(h)))
# $(call find_header,NAME): its full name, or nothing
find_header    = $(firstword $(wildcard $(addsuffix /$(1), \
                   $(CUDA_INCLUDES) /usr/include /usr/local/include)))
NEEDED_HEADERS := cuda_runtime_api.h cudnn_graph.h cublasLt.h nccl.h
CUDA_MISSING   := $(foreach h,$(NEEDED_HEADERS),$(if $(call find_header,$(h)),,$(h)))
CUDA_MISSING   := $(strip $(if $(wildcard $(NVCC)),,nvcc) $(CUDA_MISSING))
# "13.0", from the runtime's header
cuda_release   = $(shell awk '$$2 == "CUDART_VERSION" \
                   { print int($$3 / 1000) "." int($$3 % 1000 / 10) }' \
                   $(call find_header,cuda_runtime_api.h))
# Compiler and headers must be of one version. The wheels of CUDA 12 hold headers and libraries but
# no nvcc, so another one may have been found.
ifneq ($(CUDA_WHEELS),)
ifeq ($(CUDA_MISSING),)
NVCC_RELEASE   := $(shell $(NVCC) --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
HEADER_RELEASE := $(cuda_release)
CUDA_MISSING   := $(if $(filter $(HEADER_RELEASE),$(NVCC_RELEASE)),,nvcc of CUDA \
                    $(HEADER_RELEASE): $(NVCC) is of $(NVCC_RELEASE))
endif
endif

ifeq ($(CUDA),1)
ifneq ($(CUDA_MISSING),)
$(error CUDA=1, but not found: $(CUDA_MISSING). Set CUDA_HOME, CUDNN_HOME, NCCL_HOME or \
        CUDA_WHEELS, or CUDA=0)
endif
endif
HAVE_CUDA := $(if $(filter 1,$(EMU)),1,$(if $(filter 0,$(CUDA)),0,$(if $(CUDA_MISSING),0,1)))

# Of these what the toolkit has: Volta went with CUDA 13, Blackwell (B200: 100, RTX 50: 120) came
# with 12.8. The last one is also kept as PTX, for GPUs newer than all of them, and so is 90, for
# those between.
CUDA_VERSION := $(if $(CUDA_MISSING),,$(cuda_release))
# native: what the GPUs of this machine need; where there is none, the newest server GPU.
ifeq ($(CUDA_ARCHS),native)
override CUDA_ARCHS := $(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader \
                         2>/dev/null | tr -d . | sort -nu | grep -x '[0-9]*')
NATIVE_SAYS := $(if $(CUDA_ARCHS),$(comma) that of the GPUs here,$(comma) as no GPU is here)
override CUDA_ARCHS := $(or $(CUDA_ARCHS),90)
else ifeq ($(origin CUDA_ARCHS),undefined)
CUDA_ARCHS := $(if $(CUDA_MISSING),,$(if $(filter 1,$(HAVE_CUDA)),$(shell $(NVCC) --list-gpu-arch)))
CUDA_ARCHS := $(filter $(CUDA_ARCHS:compute_%=%),70 75 80 86 89 90 100 120)
endif
CUDA_PTX := $(sort $(filter 90,$(CUDA_ARCHS)) $(lastword $(CUDA_ARCHS)))

# One line for whoever builds: what is in it and, of what is not, why.
ifeq ($(EMU),1)
CUDA_SAYS := the CUDA backend on a test double of the device (EMU=1)
else ifeq ($(HAVE_CUDA),1)
CUDA_SAYS := sm_{$(subst $(space),$(comma),$(strip $(CUDA_ARCHS)))}$(NATIVE_SAYS)
CUDA_SAYS := $(CUDA_SAYS), with cuDNN, cuBLASLt and NCCL
CUDA_SAYS := CUDA $(CUDA_VERSION) from $(CUDA_HOME) for $(CUDA_SAYS)
else ifeq ($(CUDA),0)
CUDA_SAYS := no CUDA (CUDA=0)
else
CUDA_SAYS := no CUDA (not found: $(CUDA_MISSING); CUDA_HOME, CUDNN_HOME, NCCL_HOME or \
             CUDA_WHEELS may name its folders)
endif

CUDA_SOURCES := $(wildcard kernels/cuda/*.cu)
CUDA_HEADERS := $(wildcard kernels/cuda/*.h kernels/cuda/*.cuh)
# What calls the libraries, which tests/emu stands for; shapes are arithmetic about them.
CUDA_LIBRARY_FILES := $(filter-out %_shape.c,$(wildcard kernels/cuda/cudnn/*.c))
ifeq ($(HAVE_CUDA),1)
CUDA_ROOMS := kernels/cuda kernels/cuda/cudnn
CUDA_UNUSED := kernels/backend_cuda_absent.c trainer/engine/comm/comm_nccl_absent.c
# X.cu.o, because an op's X.c may lie beside its kernels
CUDA_OBJ  := $(patsubst %.cu,$(B)/obj/%.cu.o,$(CUDA_SOURCES))
else
CUDA_UNUSED := trainer/engine/comm/comm_nccl.c
CUDA_UNUSED_TESTS := $(wildcard tests/unit/kernels/cuda/test_cuda_*.c)
endif

ifeq ($(EMU),1)
CUDA_UNUSED += $(CUDA_LIBRARY_FILES) trainer/engine/comm/comm_nccl.c
# they test the libraries themselves
CUDA_UNUSED_TESTS := $(patsubst kernels/cuda/cudnn/%.c,tests/unit/kernels/cuda/test_cuda_%.c, \
                       $(CUDA_LIBRARY_FILES))
EMU_SOURCES := $(wildcard tests/emu/*.c)
EMU_CPPFLAGS := -isystem tests/emu -DCONVOY_EMU=1
CXX ?= g++
CUDA_OBJ += $(patsubst %.cpp,$(B)/obj/%.o,$(wildcard tests/emu/*.cpp))
CUDA_LIBS := -lstdc++
else ifeq ($(HAVE_CUDA),1)
CUDA_CFLAGS := $(CUDA_ISYSTEM)
CUDA_LIBS   := $(addprefix -L,$(CUDA_FOLDERS)) -lcudart_static -ldl -lrt -lpthread
CUDA_RUN    := $(addprefix -Wl$(comma)-rpath$(comma),$(abspath $(CUDA_FOLDERS)))
endif

GENCODE    := $(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) \
              $(foreach a,$(CUDA_PTX),-gencode arch=compute_$(a),code=compute_$(a))
# Kernels and launchers use nothing of the C++ library, so that ./convoy does not need it. CUDA 12.8
# and 12.9 warn of every architecture that 13 has left, in every file. The host's half is hardened
# as C files are (HARDENED is known later); the compiler of CUDA 12 may not know the third level.
HOST_HARDENED = $(patsubst -D_FORTIFY_SOURCE=%,-D_FORTIFY_SOURCE=2,$(strip $(HARDENED)))
NVCC_FLAGS = -std=c++17 -O3 -lineinfo -Wno-deprecated-gpu-targets -Xptxas=-v \
              -Xcompiler=-Wall,-Wextra,-Wswitch-enum \
              -Xcompiler=-fno-exceptions,-fno-rtti,-fno-threadsafe-statics \
              $(addprefix -Xcompiler=,$(HOST_HARDENED)) \
              $(if $(filter 1,$(WERROR)),-Werror=all-warnings -Xcompiler=-Werror) $(CUDA_ISYSTEM)
# g++ takes rows of kernels for uninitialised that are never read. Where this machine can, a product
# and a sum round once, as nvcc has them.
EMU_CXXFLAGS := -std=c++17 -O2 -g -fopenmp -Wall -Wextra -Wswitch-enum -Wno-unknown-pragmas \
                -Wno-maybe-uninitialized $(if $(filter 1,$(WERROR)),-Werror) \
                $(if $(shell grep -wm1 fma /proc/cpuinfo 2>/dev/null),-mfma -ffp-contract=fast)

# What ptxas says of the kernels of X.cu is kept in X.cu.ptxas, for `make ptxas`.
ifeq ($(EMU),1)
$(B)/obj/%.cu.o: %.cu $(B)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(SANFLAGS) $(EMU_CXXFLAGS) $(OWN_CPPFLAGS) $(CPPFLAGS) -MMD -MP -x c++ -c $< -o $@
$(B)/obj/%.o: %.cpp $(B)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(SANFLAGS) $(EMU_CXXFLAGS) $(OWN_CPPFLAGS) $(CPPFLAGS) -MMD -MP -c $< -o $@
else
$(B)/obj/%.cu.o: %.cu $(B)/flags $(B)/cuda_flags | $(B)/headers
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCC_FLAGS) $(GENCODE) $(OWN_CPPFLAGS) $(CPPFLAGS) -MMD -MP -MF $(@:.o=.d) -MT $@ \
	-c $< -o $@ 2> $(@:.o=.ptxas); \
	status=$$?; grep -vE '^ptxas info|bytes stack frame' $(@:.o=.ptxas) >&2; exit $$status
endif
