"""What the benchmarks that compare with PyTorch share: a fair environment, turns, and the limits of the machine.

The parent process imports no torch. It asks for the environment in which eager PyTorch is fastest, measures what the
machine can do at most, and starts a child for every number of threads: OpenBLAS reads its settings when it is loaded.
The child measures, and refuses to do so where torch runs on the reference BLAS.
"""
import ctypes
import functools
import json
import math
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
THREAD_SETTINGS = ("ASPEN_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
CORE_TYPES = ("", "Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids")  # of OpenBLAS; "": its own choice
REFERENCE_BLAS = """[bench] torch runs on the reference BLAS ({path}), beside which anything looks fast; a comparison
with PyTorch needs an optimised BLAS. On Debian: apt-get install libopenblas0-pthread; where several are installed,
update-alternatives --config libblas.so.3-x86_64-linux-gnu chooses."""


def seconds_of(run, repeats=1):
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - start) / repeats


def alternate(sides, windows, window_seconds, most_seconds=math.inf):
    """The best seconds of one call of each side, which is a function without arguments."""
    timed = [lambda repeats, side=side: repeats * seconds_of(side, repeats) for side in sides]
    return alternate_timed(timed, windows, window_seconds, most_seconds)


def alternate_timed(sides, windows, window_seconds, most_seconds=math.inf):
    """The best seconds of one call of each side, which is told how often to run and returns the seconds that took.

    Sides take turns, so that a busy machine slows all alike, until there were so many windows or the seconds are used
    up (but at least three). The call before each window is not counted: it brings back what the others drove from the
    caches. With several threads there is a rest before it, in which the threads of the others stop spinning for work:
    those of OpenBLAS do so for 2^26 cycles, some 26 ms.
    """
    sides = list(sides)
    repeats = [max(1, round(window_seconds / min(side(1) for _ in range(3)))) for side in sides]
    rest = 0.04 if os.environ.get("ASPEN_NUM_THREADS", "1") != "1" else 0
    best, start = [math.inf] * len(sides), time.perf_counter()
    for window in range(windows):
        if window >= 3 and time.perf_counter() - start > most_seconds:
            break
        for n, side in enumerate(sides):
            time.sleep(rest)
            side(1)
            best[n] = min(best[n], side(repeats[n]) / repeats[n])
    return best


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


# ---- The baseline

def gflops_of_blas():
    """Of products of matrices, large and small, by the BLAS that torch of Debian loads. Has a process of its own."""
    blas, plain, one = ctypes.CDLL("libblas.so.3"), ctypes.c_char_p(b"N"), ctypes.byref(ctypes.c_float(1.0))
    rates = []
    for m, n, k in ((512, 512, 512), (100, 16, 972), (128, 128, 64)):
        a, b, c = ((ctypes.c_float * size)(*[0.5] * size) for size in (m * k, k * n, m * n))
        rows, columns, inner = (ctypes.byref(ctypes.c_int(size)) for size in (m, n, k))
        product = functools.partial(blas.sgemm_, plain, plain, rows, columns, inner, one, a, rows, b, inner, one, c,
                                    rows)
        rates.append(2 * m * n * k / min(seconds_of(product) for _ in range(30)) / 1e9)
    return geometric_mean(rates)


@functools.lru_cache
def fastest_core_type():
    """The setting of OPENBLAS_CORETYPE with which products of matrices are fastest: OpenBLAS does not know every CPU,
    and then takes slow kernels. A type whose instructions the CPU lacks ends its process and drops out."""
    if "OPENBLAS_CORETYPE" in os.environ:
        return os.environ["OPENBLAS_CORETYPE"]
    rates = {}
    for core_type in CORE_TYPES * 2:
        settings = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OPENBLAS_CORETYPE": core_type}
        if not core_type:
            del settings["OPENBLAS_CORETYPE"]
        probe = subprocess.run([sys.executable, __file__], env=settings, capture_output=True, text=True)
        if probe.returncode == 0:
            rates[core_type] = max(rates.get(core_type, 0), float(probe.stdout))
    # Equals within the noise are settled in favour of what OpenBLAS chooses itself.
    fastest = max(rates, key=rates.get, default="")
    return "" if rates.get("", 0) > 0.97 * rates.get(fastest, 1) else fastest


@functools.lru_cache
def onednn_settings():
    """What oneDNN has to be told to run here: 2.6 ends the process where a hypervisor shows the tile instructions of a
    CPU and hides their sizes. Poptorch sees to that itself, torch does not."""
    product = "import torch; one = torch.ones(64, 64, dtype=torch.bfloat16); print(one @ one)"
    for settings in {}, {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}:
        if subprocess.run([sys.executable, "-c", product], env={**os.environ, **settings},
                          capture_output=True).returncode == 0:
            return settings
    return {}


def environment(threads):
    """Of a child that measures with so many threads."""
    settings = {**os.environ, **onednn_settings(), **{name: str(threads) for name in THREAD_SETTINGS}}
    if core_type := fastest_core_type():
        settings["OPENBLAS_CORETYPE"] = core_type
    return settings


def blas_of_torch():
    """The file that torch's products of matrices come from: where its library finds sgemm."""
    maps = [line.split() for line in pathlib.Path("/proc/self/maps").read_text().splitlines()]
    torch_path = next(fields[-1] for fields in maps if "/libtorch_cpu.so" in fields[-1])
    address = ctypes.cast(ctypes.CDLL(torch_path).sgemm_, ctypes.c_void_p).value
    for fields in maps:
        begin, end = (int(part, 16) for part in fields[0].split("-"))
        if begin <= address < end:
            return os.path.realpath(fields[-1])


def describe_baseline():
    """What eager runs on, in the child. Ends the process where that is the reference BLAS."""
    import torch
    path = blas_of_torch()
    # Debian has each BLAS under the name libblas.so.3, in a folder that says whose it is.
    is_optimised = any(name in path for name in ("openblas", "blis", "atlas", "mkl", "libtorch"))
    if not is_optimised:
        sys.exit(REFERENCE_BLAS.format(path=path))
    config = torch.__config__.show()
    onednn = next((line.strip(" -") for line in config.splitlines() if "MKL-DNN" in line or "oneDNN" in line), "none")
    capability = next((line.split(": ")[1] for line in config.splitlines() if "CPU capability" in line), "unknown")
    return {"torch": torch.__version__, "blas": "/".join(path.split("/")[-2:]),
            "core_type": os.environ.get("OPENBLAS_CORETYPE", "own choice"), "onednn": onednn, "aten": capability}


# ---- The limits

class Limits:
    """What so many threads of this machine can do at most."""

    def __init__(self, facts):
        self.facts = facts

    @classmethod
    def measured(cls, threads):
        program = ROOT / "build/release/benchmarks/limits"
        if not program.exists():
            sys.exit(f"[bench] {program} is missing; expected the limits of the machine. ./dev build makes it.")
        return cls(json.loads(subprocess.run([program, str(threads)], check=True, stdout=subprocess.PIPE).stdout))

    def better(self, other):
        """The greater ones of two measurements: what a busy machine withheld at one time it may give at another."""
        facts = {**self.facts, "flops": max(self.facts["flops"], other.facts["flops"])}
        facts["bandwidth"] = [max(a, b, key=lambda point: point["rate"])
                              for a, b in zip(self.facts["bandwidth"], other.facts["bandwidth"])]
        return Limits(facts)

    def bandwidth(self, working_set):
        """Bytes in a second where so many bytes are touched again and again."""
        points = [(math.log(point["bytes"]), math.log(point["rate"])) for point in self.facts["bandwidth"]]
        size = min(max(math.log(max(working_set, 1)), points[0][0]), points[-1][0])
        for (x0, y0), (x1, y1) in zip(points, points[1:]):
            if size <= x1:
                return math.exp(y0 + (y1 - y0) * (size - x0) / (x1 - x0))

    def seconds(self, flops, moved, working_set=None):
        """The least that work takes which multiplies and adds so often and moves so many bytes."""
        return max(flops / self.facts["flops"], moved / self.bandwidth(working_set or moved))

    def __str__(self):
        return (f"{self.facts['flops'] / 1e9:.0f} GFLOP/s of float32 ({self.facts['instruction_set']}), "
                f"{self.bandwidth(8 << 20) / 1e9:.0f} GB/s within 8 MB, "
                f"{self.bandwidth(1 << 40) / 1e9:.0f} GB/s from memory")


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return "unknown"


def write_json(path, runs):
    """One result on a line, six digits of each number: what changes is what was measured."""
    def rounded(value):
        if isinstance(value, dict):
            return {key: rounded(item) for key, item in value.items()}
        if isinstance(value, list):
            return [rounded(item) for item in value]
        return float(f"{value:.6g}") if isinstance(value, float) else value

    parts = []
    for run in map(rounded, runs):
        head = {key: value for key, value in run.items() if key != "results"}
        lines = ",\n  ".join(json.dumps(result) for result in run["results"])
        parts.append(f'{json.dumps(head)[:-1]}, "results": [\n  {lines}]}}')
    pathlib.Path(path).write_text("[" + ",\n".join(parts) + "]\n")


def add_limits(run):
    """Gives each result of a child the share of the limit that we reach."""
    limits = Limits(run["limits"])
    for result in run["results"]:
        if "ours" in result:
            working_set = result["bytes"] * result.get("samples", 1)
            result["limit"] = limits.seconds(result["flops"], result["bytes"], working_set) / result["ours"]


def cpus_in_use(seconds=1.0):
    """By all programs, while this one waits."""
    def ticks():
        values = [int(word) for word in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
        return sum(values), values[3] + values[4]  # all, idle
    all_before, idle_before = ticks()
    time.sleep(seconds)
    all_after, idle_after = ticks()
    return os.cpu_count() * (1 - (idle_after - idle_before) / (all_after - all_before))


def in_child(script, threads, arguments):
    """Starts `script` with so many threads and --child, and adds to what it prints what it was measured on."""
    in_use = cpus_in_use()
    limits = Limits.measured(threads)
    command = [sys.executable, script, "--child", "--threads", str(threads), *arguments]
    child = subprocess.run(command, env=environment(threads), stdout=subprocess.PIPE, text=True)
    if child.returncode:
        sys.exit(child.returncode)
    baseline, results = json.loads(child.stdout)
    limits = limits.better(Limits.measured(threads))
    in_use = max(in_use, cpus_in_use())
    is_busy = in_use + threads > os.cpu_count() + 0.3
    if is_busy:
        print(f"the machine is busy (other programs use {in_use:.1f} of {os.cpu_count()} cpus): ratios are less "
              "certain, and those of several threads mean little, as threads that wait for each other wait their turn")
    print(f"{threads} thread{'s' * (threads > 1)} of {processor()}: {limits}", flush=True)
    print("eager: " + ", ".join(f"{name} {value}" for name, value in baseline.items()), flush=True)
    run = {"threads": threads, "processor": processor(), "is_busy": is_busy,
           "limits": limits.facts, "baseline": baseline, "results": results}
    add_limits(run)
    return run


if __name__ == "__main__":
    print(gflops_of_blas())
