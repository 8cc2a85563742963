"""gloo's side of bench/comm, through PyTorch: processes on this machine, hot caches only (Python has nothing
to flush with). Collectives that its gloo lacks are left out.

    gloo_peer.py RANKS SAMPLES MILLISECONDS FROM TO FACTOR
"""
import json, os, sys, tempfile, time
from datetime import timedelta

RANKS, SAMPLES, MILLISECONDS, FROM, TO, FACTOR = (int(a) for a in sys.argv[1:7])


def measure(dist, torch, rank):
    send, recv = torch.zeros(TO // 4), torch.zeros(TO // 4)

    def parts(buffer, count):
        return list(buffer[:count].chunk(RANKS))

    calls = {
        "broadcast": lambda n: dist.broadcast(recv[:n], 0),
        "all_reduce": lambda n: dist.all_reduce(recv[:n]),
        "all_gather": lambda n: dist.all_gather(parts(recv, n), send[:n // RANKS]),
        "reduce_scatter": lambda n: dist.reduce_scatter(recv[:n // RANKS], parts(send, n)),
        "all_to_all": lambda n: dist.all_to_all_single(recv[:n], send[:n]),
    }

    def sample(call, count, times):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(times):
            call(count)
        seconds = torch.tensor([(time.perf_counter() - start) / times], dtype=torch.float64)
        dist.all_reduce(seconds, dist.ReduceOp.MAX)
        return seconds.item()

    for name, call in calls.items():
        size = FROM
        while size <= TO:
            try:
                once = sample(call, size // 4, 2)
            except RuntimeError as error:
                if rank == 0:
                    print(f"gloo: no {name}: {str(error).splitlines()[0]}", file=sys.stderr)
                break
            times = max(1, min(1000, int(MILLISECONDS * 1e-3 / once)))
            seconds = sorted(sample(call, size // 4, times) for _ in range(SAMPLES))
            if rank == 0:
                print(json.dumps({"collective": name, "bytes": size, "us": seconds[SAMPLES // 2] * 1e6}))
            size *= FACTOR


def main():
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        children, rank = [], 0
        for i in range(1, RANKS):
            child = os.fork()
            if child == 0:
                rank = i
                break
            children.append(child)
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS,
                                timeout=timedelta(seconds=60))
        measure(dist, torch, rank)
        sys.stdout.flush()
        dist.barrier()
        if rank:
            os._exit(0)
        for child in children:
            os.waitpid(child, 0)


main()
