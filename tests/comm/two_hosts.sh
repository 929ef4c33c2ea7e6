#!/bin/bash
# The communicator's tests on two hosts that are network namespaces with a wire between them, and then the wire cut while
# all ranks are in collectives. Needs root, ip and mpirun; says what is missing and ends with 77 (skipped) otherwise.
#
#   tests/comm/two_hosts.sh build/tests/comm_hosts_test [build/bin/gpt]
set -uf
program=$(realpath "$1")
skip() { echo "skipped: $1"; exit 77; }
[ "$(id -u)" = 0 ] || skip "only root makes network namespaces"
for tool in ip unshare mpirun; do command -v $tool >/dev/null || skip "there is no $tool on this machine"; done

folder=$(mktemp -d) tag=reshard$$
ip netns add ${tag}a 2>/dev/null || { rm -r "$folder"; skip "network namespaces are not allowed here"; }
clean() {
  for host in a b; do
    ip netns pids $tag$host 2>/dev/null | xargs -r kill -9 2>/dev/null
    ip netns del $tag$host 2>/dev/null
  done
  rm -rf "$folder"
}
trap clean EXIT
ip netns add ${tag}b && ip link add a0 netns ${tag}a type veth peer name b0 netns ${tag}b || skip "no virtual wires here"
ip -n ${tag}a addr add 10.77.0.1/24 dev a0 && ip -n ${tag}b addr add 10.77.0.2/24 dev b0
for host in a b; do
  ip -n $tag$host link set lo up
  ip -n $tag$host link set ${host}0 up
done

# As ssh: a host's name, then a command for its shell. Each host has a name of its own.
cat > "$folder/agent" <<'AGENT'
#!/bin/sh
host=$1; shift
exec ip netns exec "$host" unshare --uts sh -c "hostname $host; $*"
AGENT
chmod +x "$folder/agent"
on_both() {
  "$folder/agent" ${tag}a exec env "$@" mpirun --allow-run-as-root --oversubscribe --bind-to none -n 4 \
    --host ${tag}a:2,${tag}b:2 --mca plm_rsh_agent "$folder/agent" --mca oob_tcp_if_include 10.77.0.0/24 \
    --mca btl_tcp_if_include 10.77.0.0/24 -x RESHARD_TEST_CUT $program $arguments
}

arguments='--gtest_brief=1 --gtest_filter=*Collectives*:*a_collective_that_returned*'
on_both A=1 > "$folder/out" 2>&1 || { cat "$folder/out"; echo "the tests fail on two hosts"; exit 1; }
grep -c PASSED "$folder/out" | sed 's/$/ processes on two hosts have passed/'

# Training, against threads: the same losses to the bit.
if [ -x "${2:-}" ]; then
  cat > "$folder/job.toml" <<'JOB'
[strategy]
plugin = "zero3"
[mesh]
ranks = 4
[train]
steps = 6
global_batch = 8
[model]
layers = 2
width = 32
heads = 2
sequence = 32
[sample]
tokens = 0
[plugins]
manifest = "/dev/null"
JOB
  train="train $folder/job.toml --data $(dirname "$0") --json"
  "$2" $train "$folder/threads.json" > "$folder/out" 2>&1 || { cat "$folder/out"; exit 1; }
  program="$2 $train $folder/hosts.json --set mesh.communicator=mpi" arguments=
  on_both A=1 > "$folder/out" 2>&1 || { cat "$folder/out"; echo "training fails on two hosts"; exit 1; }
  losses() { grep -o '"loss_hex": "[^"]*"' "$1"; }
  [ "$(losses "$folder/hosts.json" | wc -l)" = 6 ] && [ "$(losses "$folder/hosts.json")" = "$(losses "$folder/threads.json")" ] ||
    { echo "losses on two hosts differ from those of threads"; exit 1; }
  echo "training on two hosts has the losses of threads"
  program=$(realpath "$1")
fi

arguments='--gtest_brief=1 --gtest_filter=HostCutOff.*'
on_both RESHARD_TEST_CUT="$folder" > "$folder/out" 2>&1 &
for _ in $(seq 100); do
  [ "$(find "$folder" -name '*.begun' | wc -l)" = 4 ] && break
  sleep 0.1
done
[ "$(find "$folder" -name '*.begun' | wc -l)" = 4 ] || { cat "$folder/out"; echo "the ranks did not begin"; exit 1; }
ip -n ${tag}a link set a0 down
cut=$(date +%s%N)
for _ in $(seq 200); do
  [ "$(find "$folder" -name '*.done' | wc -l)" = 4 ] && break
  sleep 0.05
done
echo "$((($(date +%s%N) - cut) / 1000000)) ms after the cut, with a limit of 2 s:"
failed=0
for rank in 0 1 2 3; do
  text=$(cat "$folder/$rank.end" 2>/dev/null)
  echo "  $text"
  other=$([ $rank -lt 2 ] && echo "[23] on ${tag}b" || echo "[01] on ${tag}a")
  echo "$text" | grep -q "^rank $rank, reduce-scatter of unit h.1: rank $other did not come to reduce-scatter of unit h.1, collective [0-9]*, within 2 s" || failed=1
done
[ $failed = 0 ] || echo "a rank says something else"
exit $failed
