#!/bin/sh
# efa.sh VERSION - installs AWS's EFA user space while an image is built, and lets the loader find
# it: ssh passes no LD_LIBRARY_PATH on.
set -eu
apt-get update
DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ca-certificates curl
cd /tmp
curl -fsSO "https://efa-installer.amazonaws.com/aws-efa-installer-$1.tar.gz"
tar -xf "aws-efa-installer-$1.tar.gz"
(cd aws-efa-installer &&
    DEBIAN_FRONTEND=noninteractive ./efa_installer.sh -y --skip-kmod --skip-limit-conf --no-verify)
rm -rf aws-efa-installer* /var/lib/apt/lists/*

plugin=$(find /opt/amazon -name 'libnccl-net*.so' -print -quit)
if [ -z "$plugin" ]; then
    echo "efa: error: version $1 of the EFA installer has brought no plugin for NCCL" >&2
    exit 78
fi
for folder in /opt/amazon/efa/lib "$(dirname "$plugin")"; do
    echo "$folder"
done > /etc/ld.so.conf.d/convoy-efa.conf
ldconfig
