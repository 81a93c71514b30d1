"""How long a model takes from capture to program, for training, against its size. `./dev bench compile [repeats]`

Every case is compiled in a process of its own, as by a user who waits for it; the best of several counts, since the load
of a machine only ever adds. Times are of the wall, beside the time of the cpus that the process was given: where the two
differ much, others were at work. The parts are what the log tells with POPTORCH_LOG_LEVEL=DEBUG; the rest is for the most
part memory that is handed out and weights that are copied into it.
"""
import json
import os
import re
import subprocess
import sys
import time

REPEATS = 3
LAYERS = (1, 4, 16, 64)
MOST_PER_LAYER = 0.010  # seconds
PARTS = {  # of the log
    "capture": r"captured .*: ([0-9.]+) ms",
    "passes": r"pass [a-z_]+: ([0-9.]+) ms",
    "plan": r"memory plan: ([0-9.]+) ms",
    "kernels": r"kernels: ([0-9.]+) ms",
}


def words(batch, length):
    import torch

    return torch.zeros(batch, length, dtype=torch.long), torch.zeros(batch, length, dtype=torch.long)


def images(batch, *shape):
    import torch

    return torch.randn(batch, *shape), torch.zeros(batch, dtype=torch.long)


def make(case):
    """The model of a case and its arguments."""
    import torch
    import networks

    name, _, number = case.partition(":")
    if name == "layers":
        return networks.Gpt(int(number), 256, 4, 1000, 64), words(2, 64)
    if name == "gpt":
        return networks.Gpt(12, 768, 12, 50257, 128), words(1, 128)
    if name == "ops":
        return networks.ManyOps(int(number)), (torch.randn(4, 16),)
    if name == "constants":
        return networks.ManyConstants(int(number)), (torch.randn(4, 256),)
    if name in ("lstm", "gru", "lstm2", "gru2"):
        kind, deep = name[:-1] if name.endswith("2") else name, name.endswith("2")
        settings = dict(num_layers=2, bidirectional=True, dropout=0.1) if deep else {}
        return networks.Recurrent(kind.upper(), **settings), (torch.randn(int(number), 4, 32),)
    if name == "ctc":
        lengths = torch.full((2,), int(number)), torch.full((2,), 30)
        return networks.Ctc(), (torch.randn(int(number), 2, 32), torch.ones(2, 30, dtype=torch.long), *lengths)
    if name == "cnn":
        return networks.TutorialCnn(), images(16, 1, 28, 28)
    return getattr(networks, name)(), images(8, 3, 64, 64)


CASES = [
    *((f"layers:{count}", f"transformer, d = 256, {count} layers", None) for count in LAYERS),
    ("ops:20000", "20,000 distinct ops", 4.0),
    ("constants:2000", "2,000 distinct constants", None),
    *((f"lstm:{count}", f"LSTM of {count} steps", 0.5) for count in (64, 1600)),
    ("lstm2:1600", "LSTM, 2 x 2 ways, dropout, 1600", 0.5),
    ("gru2:1600", "GRU, 2 x 2 ways, dropout, 1600", 0.5),
    ("ctc:1000", "CTC loss of 1000 steps", 0.5),
    ("cnn", "tutorial CNN, batch 16", 0.3),
    ("resnet18", "resnet18 64x64, batch 8", 2.0),
    ("resnet50", "resnet50 64x64, batch 8", 1.0),
    ("gpt", "GPT 12 x 768, 50257 words", 1.5),
]


def compile_once(case):
    """Compiles a case in this process and prints the times."""
    import poptorch
    import torch

    torch.manual_seed(0)
    model, arguments = make(case)
    loss = model

    class WithIdentityLoss(torch.nn.Module):
        """A loss that torch does not know as one."""

        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x):
            return poptorch.identity_loss(self.model(x), reduction="none")

    if len(arguments) == 1:
        loss = WithIdentityLoss()
    options = poptorch.Options().showCompilationProgressBar(False)
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    trainer = poptorch.trainingModel(loss.train(), options, optimizer)
    wall, cpu = time.perf_counter(), time.process_time()
    trainer.compile(*arguments)
    print(json.dumps({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}))


def measure(case, repeats):
    """The times of the best of several processes, in seconds."""
    best = None
    environment = dict(os.environ, POPTORCH_LOG_LEVEL="DEBUG")
    for _ in range(repeats):
        command = [sys.executable, __file__, "--case", case]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{case} failed:\n{done.stdout}{done.stderr}")
        times = json.loads(done.stdout.splitlines()[-1])
        log = done.stdout + done.stderr
        for part, line in PARTS.items():
            times[part] = sum(float(number) for number in re.findall(line, log)) / 1000
        times["rest"] = times["wall"] - sum(times[part] for part in PARTS)
        if best is None or times["wall"] < best["wall"]:
            best = times
    return best


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--case":
        return compile_once(sys.argv[2])
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else REPEATS
    columns = ["wall", "cpu", *PARTS, "rest"]
    print(f"best of {repeats}, {os.cpu_count()} cpus, load {os.getloadavg()[0]:.1f}")
    print(f"{'seconds to compile for training':34}" + "".join(f"{column:>9}" for column in columns) + f"{'target':>9}")
    missed, of_layers = 0, {}
    for case, title, target in CASES:
        times = measure(case, repeats)
        if case.startswith("layers:"):
            of_layers[int(case.partition(":")[2])] = times
        too_slow = target is not None and times["wall"] > target
        missed += too_slow
        row = "".join(f"{times[column]:9.3f}" for column in columns)
        print(f"{title:34}{row}{'' if target is None else f'< {target}':>9}{'   missed' * too_slow}", flush=True)
    for fewer, more in zip(LAYERS, LAYERS[1:]):
        slope = {
            clock: (of_layers[more][clock] - of_layers[fewer][clock]) / (more - fewer) for clock in ("wall", "cpu")
        }
        too_slow = more == LAYERS[-1] and slope["wall"] > MOST_PER_LAYER
        missed += too_slow
        print(
            f"{f'a layer, from {fewer} to {more}':34}{slope['wall']:9.4f}{slope['cpu']:9.4f}"
            f"{f'< {MOST_PER_LAYER}':>54}{'   missed' * too_slow}"
        )
    print(f"load {os.getloadavg()[0]:.1f}")
    return missed


if __name__ == "__main__":
    sys.exit(main())
