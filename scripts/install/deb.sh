#!/usr/bin/env bash
# deb.sh PROGRAM FOLDER - what `make deb` does: FOLDER/convoy_VERSION_ARCH.deb of what install.sh
# puts into /usr. It depends on the packages that PROGRAM's libraries are from here, so it is for
# this release of Debian or Ubuntu; the libraries of CUDA and MPI are opened at run time and are no
# dependency.
# DEBFULLNAME and DEBEMAIL say whose package it is.
set -euo pipefail
umask 022
for tool in dpkg-deb dpkg-shlibdeps; do
    command -v $tool > /dev/null && continue
    echo "deb: $tool is missing; apt-get install dpkg-dev" >&2
    exit 78
done
program=$(realpath "$1") folder=$(realpath "$2")
cd "$(dirname "$0")/../.."
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -c safe.directory='*' log -1 --format=%ct \
    2> /dev/null || stat -c %Y base/version.h)}
export SOURCE_DATE_EPOCH
version=$("$program" --version | sed -n '1s/^convoy //p') || {
    echo "deb: $program does not start: docs/running.md says where its libraries must be" >&2
    exit 78
}
# A commit's name says nothing of order, its day does.
version=${version/+/\~git$(date -u +%Y%m%d -d "@$SOURCE_DATE_EPOCH").}
arch=$(dpkg --print-architecture)
person="${DEBFULLNAME:-$(id -un)} <${DEBEMAIL:-$(id -un)@$(hostname)}>"
work=$folder/deb root=$folder/deb/debian/convoy
rm -rf "$work"
mkdir -p "$root/DEBIAN" "$root/usr/share/lintian/overrides"

DESTDIR=$root ZSH_FOLDER=share/zsh/vendor-completions \
    scripts/install/install.sh "$program" /usr > /dev/null
cd "$root/usr/share"
rm convoy/installed-files
gzip -9n man/man?/*
{
    echo 'Copyright of Convoy: its authors, who have stated no licence yet. On Debian the texts of'
    echo 'Apache-2.0, GPL-3 and LGPL-2.1 are in /usr/share/common-licenses. Of others:'
    echo
    sed 1,2d doc/convoy/docs/licences.md
} > doc/convoy/copyright
printf 'convoy (%s) unstable; urgency=medium\n\n  * Built from this commit.\n\n -- %s  %s\n' \
    "$version" "$person" "$(date -uR -d "@$SOURCE_DATE_EPOCH")" |
    gzip -9n > doc/convoy/changelog.gz
# The report of a hang tells where each thread was, by the names in the program.
echo 'convoy: unstripped-binary-or-object [usr/bin/convoy]' > lintian/overrides/convoy

cd "$work"
printf 'Source: convoy\n\nPackage: convoy\nArchitecture: any\n' > debian/control
depends=$(dpkg-shlibdeps -O debian/convoy/usr/bin/convoy | sed -n 's/^shlibs:Depends=//p')
cat > "$root/DEBIAN/control" << END
Package: convoy
Version: $version
Architecture: $arch
Maintainer: $person
Installed-Size: $(du -ks --exclude=DEBIAN "$root" | cut -f 1)
Depends: $depends
Recommends: openmpi-bin | mpich
Suggests: openssh-client, python3
Section: science
Priority: optional
Description: trains image classifiers, on one machine or many
 Convoy trains ResNets and EfficientNets on folders of JPEG files or other
 formats, on the CPU or on NVIDIA GPUs, alone or over MPI. A run that is
 stopped anywhere continues bit for bit.
END
cd "$root"
find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum > DEBIAN/md5sums
dpkg-deb --root-owner-group --build "$root" "$folder/convoy_${version}_$arch.deb" > /dev/null
rm -rf "$work"
echo "made $folder/convoy_${version}_$arch.deb"
