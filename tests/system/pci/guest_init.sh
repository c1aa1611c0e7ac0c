#!/bin/sh
# The guest's first process: hugepages, an address for commands, and a door for them. The cards that are tested stay
# without a driver until a test binds them.
# shellcheck source=tests/system/interop/guest_base.sh
. /base
chmod 755 / # EAL loads no drivers from below a directory that everybody may write to
mkdir -p /dev/hugepages /var/run
setting uroce.hugepages >/proc/sys/vm/nr_hugepages
mount -t hugetlbfs huge /dev/hugepages
ip link set eth0 up
ip addr add "$(setting uroce.control)" dev eth0
serve
