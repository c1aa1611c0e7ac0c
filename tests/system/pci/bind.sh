#!/bin/sh
# bind DRIVER ADDRESS: gives a PCI device to a driver, whoever has it now.
device=/sys/bus/pci/devices/$2
[ ! -e "$device/driver" ] || echo "$2" >"$device/driver/unbind" || exit 1
echo "$1" >"$device/driver_override"
echo "$2" >/sys/bus/pci/drivers_probe
[ -e "/sys/bus/pci/drivers/$1/$2" ] || { echo "$1 does not take $2" && dmesg | tail -n 3 && exit 1; }
