# Untried: a recipe for Spack, written from its documentation.
#
# Put into a repository of recipes (spack repo create), with git set to where the sources are:
#
#   mkdir -p REPO/packages/convoy && cp scripts/spack/package.py REPO/packages/convoy
#   spack repo add REPO && spack install convoy
from spack.package import *


class Convoy(MakefilePackage):
    """Trains image classifiers on one or many hosts: CPUs through oneDNN, GPUs through CUDA."""

    git = "file:///path/to/convoy"

    version("main", branch="main")

    variant("mpi", default=True, description="Several ranks, by Open MPI")
    variant("png", default=True, description="Read PNG files")
    variant("hwloc", default=True, description="Bind ranks to the CPUs near their GPUs")
    variant("cuda", default=False, description="GPUs, with cuDNN and NCCL")

    depends_on("c", type="build")
    depends_on("cxx", type="build", when="+cuda")
    depends_on("gmake", type="build")
    depends_on("onednn@2.6: cpu_runtime=omp")
    depends_on("libjpeg-turbo@2.1:")
    depends_on("libyaml")
    depends_on("zlib-api")
    depends_on("libspng", when="+png")
    depends_on("hwloc@2:", when="+hwloc")
    depends_on("openmpi@4:", when="+mpi")
    depends_on("cuda@12:", when="+cuda")
    depends_on("cudnn@9:", when="+cuda")
    depends_on("nccl", when="+cuda")

    @property
    def settings(self):
        spec = self.spec
        on = {name: "1" if "+" + name in spec else "0" for name in ("mpi", "png", "hwloc", "cuda")}
        made = ["CC=" + spack_cc, "PREFIX=" + self.prefix, "DNNL_HOME=" + spec["onednn"].prefix]
        made += ["%s=%s" % (name.upper(), value) for name, value in on.items()]
        if "+cuda" in spec:
            made += ["CUDA_HOME=" + spec["cuda"].prefix, "CUDNN_HOME=" + spec["cudnn"].prefix,
                     "NCCL_HOME=" + spec["nccl"].prefix]
        return made

    def build(self, spec, prefix):
        make(*self.settings, "all")

    def install(self, spec, prefix):
        make(*self.settings, "install")
