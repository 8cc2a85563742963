# A private Slurm for a test: key, socket, ports, state and logs under $slurm; sourced, not run.
# `slurm_up NODES CPUS` starts it, the script's exit stops it. Everything that asks it has a time limit.
skip() { echo "skipped: $*"; exit 77; }
failures=0
fail() { echo "FAIL: $*" >&2; failures=$((failures + 1)); }
shoal=${SHOAL_BIN:?}
build=${SHOAL_BUILD_DIR:?}
[ -z "${SHOAL_SANITIZE:-}" ] || skip "MPI libraries are not built for sanitizers"
[ "$(id -u)" = 0 ] || skip "a private Slurm needs root"
PATH=$PATH:/usr/sbin:/sbin
for tool in munged slurmctld slurmd srun sbatch; do
  command -v $tool >/dev/null || skip "no $tool (tools/bootstrap --optional)"
done
work=$(mktemp -d)
slurm=$work/slurm
chmod 755 "$work"

slurm_down() {
  if [ -f "$slurm/slurm.conf" ]; then
    timeout 5 scancel --state=RUNNING --state=PENDING -u "$(id -un)" 2>/dev/null
    local pids
    pids=$(cat "$slurm"/slurmctld.pid "$slurm"/slurmd-*.pid 2>/dev/null)
    timeout 10 scontrol shutdown 2>/dev/null
    for pid in $pids; do
      for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
      kill -9 "$pid" 2>/dev/null
    done
    # a failed step may leave its daemon; they are known by this test's spool folder
    for pid in $(pgrep slurmstepd); do
      grep -qF "$slurm" "/proc/$pid/environ" 2>/dev/null && kill -9 "$pid"
    done
    munged --stop --socket="$slurm/munge/sock" >/dev/null 2>&1
  fi
  [ -n "${KEEP:-}" ] || rm -rf "$work"
}
trap slurm_down EXIT

slurm_up() {
  local nodes=$1 cpus=$2 host port
  host=$(hostname -s)
  port=$((21000 + $$ % 20000))
  mkdir -p "$slurm"/{munge,state,log,spool}
  (umask 077 && head -c 128 /dev/urandom >"$slurm/munge/key")
  cat >"$slurm/slurm.conf" <<X
ClusterName=shoal
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort=$port
AuthType=auth/munge
AuthInfo=socket=$slurm/munge/sock
CredType=cred/munge
StateSaveLocation=$slurm/state
SlurmdSpoolDir=$slurm/spool/%n
SlurmctldPidFile=$slurm/slurmctld.pid
SlurmdPidFile=$slurm/slurmd-%n.pid
SlurmctldLogFile=$slurm/log/slurmctld.log
SlurmdLogFile=$slurm/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
MinJobAge=300
KillWait=2
MpiDefault=none
TmpFS=$slurm/tmp-%n
X
  for i in $(seq "$nodes"); do
    echo "NodeName=n$i NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + i)) CPUs=$cpus RealMemory=1000 State=UNKNOWN"
    mkdir -p "$slurm/tmp-n$i" "$slurm/spool/n$i"
  done >>"$slurm/slurm.conf"
  echo "PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE OverSubscribe=FORCE:4 State=UP" >>"$slurm/slurm.conf"
  echo 'CgroupPlugin=cgroup/v1' >"$slurm/cgroup.conf"
  export SLURM_CONF=$slurm/slurm.conf
  munged --force --socket="$slurm/munge/sock" --key-file="$slurm/munge/key" --log-file="$slurm/log/munged.log" \
    --pid-file="$slurm/munge/pid" --seed-file="$slurm/munge/seed" >"$work/munged" 2>&1 ||
    skip "munged does not start: $(tail -1 "$work/munged")"
  slurmctld -f "$slurm/slurm.conf" >"$work/ctld" 2>&1 || skip "slurmctld does not start: $(tail -1 "$work/ctld")"
  for i in $(seq "$nodes"); do
    slurmd -N n$i -f "$slurm/slurm.conf" >"$work/slurmd" 2>&1 || skip "slurmd does not start: $(tail -1 "$work/slurmd")"
  done
  for _ in $(seq 150); do
    timeout 5 sinfo -h -o '%T %D' 2>/dev/null | grep -q "^idle $nodes" && return
    sleep 0.1
  done
  skip "Slurm's nodes do not become idle: $(timeout 5 sinfo -h -o '%T %D' 2>&1)"
}
