#!/bin/sh
# What every guest's first process begins with: the kernel's file systems, modules, and what the harness says.
export PATH=/bin HOME=/
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
mount -t tmpfs shm /dev/shm
while read -r module; do
  insmod "/modules/$module" || echo "guest: no module $module"
done </modules/order

# What the harness says on the kernel's command line, as NAME=VALUE.
setting() {
  # shellcheck disable=SC2013  # words are what is wanted
  for word in $(cat /proc/cmdline); do
    case $word in "$1="*) echo "${word#*=}" ;; esac
  done
}

# A door for commands, when all is ready.
serve() {
  echo "guest-ready $(uname -r)"
  while :; do nc -ll -p 7000 -e /agent; done
}

# shellcheck disable=SC3045  # dash has it
ulimit -l unlimited
ip link set lo up
