#!/usr/bin/env bash
# Runs a program as so many processes; 77, which skips the test, where mpirun can start none here.
#   under_mpirun.sh PROCESSES PROGRAM [ARGUMENTS]
set -u
processes=$1
shift
start=(mpirun -n "$processes" --oversubscribe --bind-to none)
[[ $(id -u) -eq 0 ]] && start+=(--allow-run-as-root)
if ! said=$("${start[@]}" true 2>&1); then
  echo "mpirun cannot start $processes processes here: $said"
  exit 77
fi
exec "${start[@]}" "$@"
