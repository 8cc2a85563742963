#!/usr/bin/env bash
# Two hosts as network namespaces, each with its own sshd, hostname and address: `shoal run --cluster` with
# AutoDist's file trains across them as one rank does, over each MPI; a host that falls silent ends the job.
# labels: slow
set -u
. "${SHOAL_SOURCE_DIR:?}/tests/mpi_lib.sh"
[ "$(id -u)" = 0 ] || skip "network namespaces need root"
PATH=$PATH:/usr/sbin:/sbin
for tool in ip sshd ssh ssh-keygen unshare nsenter; do command -v $tool >/dev/null || skip "no $tool"; done

id=$$
hosts="s$id-1 s$id-2"
number() { echo "${1##*-}"; }
mountpoint -q /run/netns && mounted=yes || mounted=no  # `ip netns add` mounts it when it is the first
down() {
  for host in $hosts; do
    [ -f "$work/sshd$(number "$host").pid" ] && kill "$(cat "$work/sshd$(number "$host").pid")" 2>/dev/null
    # what is still running there: only processes of this test's own namespaces
    for pid in $(ip netns pids "$host" 2>/dev/null); do kill -9 "$pid" 2>/dev/null; done
    ip netns del "$host" 2>/dev/null
  done
  [ $mounted = yes ] || [ -n "$(ls /run/netns 2>/dev/null)" ] || umount /run/netns 2>/dev/null
  rm -rf "$work"
}
trap down EXIT
# Not `ip -n` and `ip netns exec`: they mount, and so fail where / is a chroot's.
net() {  # HOST COMMAND...: with its network
  nsenter --net="/run/netns/$1" "${@:2}"
}
on() {  # HOST COMMAND...: as if typed there. A host is called by its address: MPI finds it without /etc/hosts
  net "$1" unshare --uts sh -c 'hostname '"10.77.0.$(number "$1")"'; exec "$@"' sh "${@:2}"
}
ip netns add s$id-1 2>"$work/err" || skip "no network namespaces: $(cat "$work/err")"
ip netns add s$id-2
ip link add v$id-1 netns s$id-1 type veth peer name v$id-2 netns s$id-2 2>"$work/err" ||
  skip "no veth: $(cat "$work/err")"
mkdir -p /run/sshd
ssh-keygen -q -t ed25519 -N '' -f "$work/host_key"
ssh-keygen -q -t ed25519 -N '' -f "$work/id"
cp "$work/id.pub" "$work/authorized_keys"
chmod 755 "$work"
for host in $hosts; do
  i=$(number "$host")
  net "$host" ip link set lo up
  net "$host" ip addr add 10.77.0.$i/24 dev v$id-$i
  net "$host" ip link set v$id-$i up
  cat >"$work/sshd$i.conf" <<X
Port 2222
ListenAddress 10.77.0.$i
HostKey $work/host_key
PidFile $work/sshd$i.pid
AuthorizedKeysFile $work/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
UsePAM no
StrictModes no
X
  on "$host" "$(command -v sshd)" -f "$work/sshd$i.conf" -E "$work/sshd$i.log"
done
cat >"$work/spec.yml" <<X
nodes:
  - address: 10.77.0.1
    cpus: [0, 1]
    chief: true
  - address: 10.77.0.2
    cpus: [0, 1]
    ssh_config: conf
ssh:
  conf:
    username: root
    port: 2222
    key_file: $work/id
    shared_envs: {SHOAL_HOSTS_TEST: together}
X

ssh="ssh -o UserKnownHostsFile=/dev/null -o GlobalKnownHostsFile=/dev/null -o LogLevel=ERROR"
run() {  # MPI ARGS...
  local mpi=$1
  shift
  on s$id-1 timeout -k 5 120 "$shoal" run --cluster "$work/spec.yml" --mpi "$mpi" --ssh "$ssh" "$@" </dev/null
}

alone=$("$build/examples/mlp") || fail "mlp alone"
for family in $families; do
  run $family --no-prefix -- sh -c 'echo "$(hostname) $SHOAL_HOSTS_TEST"' >"$work/out" 2>"$work/err" ||
    { fail "$family: hostname"; cat "$work/err" >&2; }
  for host in $hosts; do
    [ "$(grep -c "^10.77.0.$(number "$host") together" "$work/out")" -eq 2 ] || { fail "$family: ranks on $host"; cat "$work/out" >&2; }
  done
  across=$(run $family --no-prefix -- "$build/examples/mlp" 2>"$work/err") ||
    { fail "$family: mlp across hosts"; cat "$work/err" >&2; }
  [ "$across" = "$alone" ] || fail "$family: mlp across hosts: '$across', alone: '$alone'"
  run $family -- "$build/tests/comm_conformance_test" join >"$work/out" 2>"$work/err" ||
    { fail "$family: conformance"; cat "$work/err" >&2; }
  [ "$(grep -c 'of 4 over mpi: well' "$work/out")" -eq 4 ] || fail "$family: conformance: not 4 ranks"
  for case in writers large; do
    run $family -- "$build/tests/comm_window_test" join $case >"$work/out" 2>"$work/err" ||
      { fail "$family: windows, $case"; cat "$work/err" >&2; }
    [ "$(grep -c 'of 4 over mpi: well' "$work/out")" -eq 4 ] || fail "$family: windows, $case: not 4 ranks"
  done
  # Words that mpirun also uses are a rank's own business.
  run $family --grace-ms 10 -- sh -c 'echo "MPI_ABORT was invoked on rank 0
lost communication, non-zero exit code, exited on signal, BAD TERMINATION" >&2; sleep 3; echo done' \
    >"$work/out" 2>"$work/err" || { fail "$family: a rank's words end the job"; cat "$work/err" >&2; }
  [ "$(grep -c done "$work/out")" -eq 4 ] || fail "$family: a rank's words: not 4 ranks"
  # Messages pass, and end nothing: SIGUSR2 would end Hydra.
  : >"$work/out"
  run $family -- bash -c 'trap "echo heard; exit 0" USR1; echo up; for _ in $(seq 600); do sleep 0.1; done' \
    >"$work/out" 2>"$work/err" &
  job=$!
  for _ in $(seq 300); do [ "$(grep -c up "$work/out")" -eq 4 ] && break; sleep 0.1; done
  launcher=
  for pid in $(pgrep -f "run --cluster $work/spec.yml"); do
    [ "$(readlink "/proc/$pid/exe")" = "$(readlink -f "$shoal")" ] && launcher=$pid
  done
  [ $family = openmpi ] || kill -USR2 $launcher
  kill -USR1 $launcher
  wait $job || { fail "$family: SIGUSR1: exit code $?"; cat "$work/err" >&2; }
  [ "$(grep -c heard "$work/out")" -eq 4 ] || fail "$family: SIGUSR1 does not reach every rank"
  # A rank's failure is the job's.
  run $family -n 3 -- sh -c 'exit 8' >"$work/out" 2>"$work/err" && fail "$family: a failed job ends with 0"
  grep -q 'ended with exit code' "$work/err" || { fail "$family: exit code"; cat "$work/err" >&2; }
done

# The line is cut in the middle: the watchdog names who waits, or mpirun loses its daemon; it does not hang.
case $families in
*openmpi*)
  start=$SECONDS
  : >"$work/out"
  run openmpi --timeout-ms 5000 -- "$build/tests/comm_failure_test" join cut \
    >"$work/out" 2>"$work/err" &
  job=$!
  for _ in $(seq 200); do grep -q 'up' "$work/out" && break; sleep 0.1; done
  net s$id-2 ip link set v$id-2 down
  wait $job && fail "a job without its network ends with 0"
  took=$((SECONDS - start))
  [ $took -lt 45 ] || fail "a cut line: $took s to the end"
  grep -qE 'DEADLINE: .*no progress in 5000 ms: rank . waits|lost communication' "$work/out" "$work/err" ||
    { fail "a cut line: no reason"; cat "$work/out" "$work/err" >&2; }
  ;;
esac
[ $failures -eq 0 ] && echo "hosts:$families: all well"
exit $((failures > 0))
