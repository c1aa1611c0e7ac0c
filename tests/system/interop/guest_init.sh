#!/bin/sh
# The guest's first process: one address of each family, rxe on it, and a door for commands.
# shellcheck source=tests/system/interop/guest_base.sh
. /base
# An address that is still looking for its double cannot be a GID: with one guest there is no double.
for scope in all default eth0; do echo 0 >/proc/sys/net/ipv6/conf/$scope/accept_dad; done
echo 1 >/proc/sys/net/ipv6/conf/eth1/disable_ipv6
ip link set eth0 mtu "$(setting uroce.mtu)" up
ip addr add "$(setting uroce.ipv4)" dev eth0
ip addr add "$(setting uroce.ipv6)" dev eth0 nodad
ip link set eth1 up
ip addr add "$(setting uroce.control)" dev eth1
rdma link add rxe0 type rxe netdev eth0 || echo "guest: no rxe"
# The link-local address comes with the carrier, a moment later.
tries=0
until grep -q '^fe80.* eth0$' /proc/net/if_inet6 || [ "$tries" = 50 ]; do
  tries=$((tries + 1))
  sleep 0.1
done
serve
