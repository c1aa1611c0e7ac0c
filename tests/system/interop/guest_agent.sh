#!/bin/sh
# One command for the guest: its text as one line of base64 comes in; out go "pid N", what it prints, and "exit N".
# It gets a process group of its own, named by that pid, by which it can be ended from another connection.
read -r text || exit 0
echo "$text" | base64 -d >/tmp/command.$$
setsid sh /tmp/command.$$ </dev/null 2>&1 &
child=$!
echo "pid $child"
wait "$child"
code=$?
rm -f /tmp/command.$$
printf '\nexit %d\n' "$code"
