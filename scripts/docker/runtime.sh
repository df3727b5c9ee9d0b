#!/bin/sh
# runtime.sh PACKAGES_FILE - makes an image of Debian or Ubuntu ready to run Convoy: the libraries
# it needs, mpirun, ssh in both directions, and the user mpiuser (1000), as whom the MPI operator of
# Kubernetes runs both. Run while the image is built.
set -eu
apt-get update
# shellcheck disable=SC2046 # a package a word
DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $(cat "$1") openmpi-bin \
    openssh-server openssh-client
rm -rf /var/lib/apt/lists/*

# In Ubuntu's images it has the number 1000.
if id ubuntu > /dev/null 2>&1; then userdel -r ubuntu; fi
useradd -m -u 1000 -s /bin/bash mpiuser
mkdir -p /run/sshd

# The operator mounts its keys over .ssh: a secret, owned by root, the same on all pods of a job.
cat > /home/mpiuser/.sshd_config << END
Port 2222
PidFile /home/mpiuser/sshd.pid
HostKey /home/mpiuser/.ssh/id_rsa
StrictModes no
UsePAM no
END
chown mpiuser:mpiuser /home/mpiuser/.sshd_config
cat > /etc/ssh/ssh_config.d/convoy.conf << END
Host *
    Port 2222
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    LogLevel ERROR
END
