"""Recurrent layers: a loop of the program beside the same steps one after the other, and eager. `./dev bench recurrent`

The loop is what torch.nn.LSTM and its like become; the steps are written out in the model, with the product of all inputs
before them as in the loop. All train on one thread and take turns in one process; the best turn of each counts. What
control_flow.h calls kLongestUnrolled follows from this.
"""
import os
import time

from harness import measure

TURNS, SECONDS_PER_TURN = 5, 0.4
os.environ.update(measure.environment(threads=1))  # before torch loads its BLAS

import poptorch  # noqa: E402
import torch  # noqa: E402

CASES = [  # kind, batch, width, steps, whether the steps are also written out
    *(("LSTM", 16, 128, steps, True) for steps in (3, 4, 8, 64)),
    ("GRU", 16, 128, 64, True),
    ("RNN", 1, 16, 64, True),
    ("LSTM", 16, 128, 1600, False),
]


class Looped(torch.nn.Module):
    def __init__(self, kind, width):
        super().__init__()
        torch.manual_seed(0)
        self.layer = getattr(torch.nn, kind)(width, width)

    def sequence(self, x):
        return self.layer(x)[0]

    def forward(self, x):
        return poptorch.identity_loss(self.sequence(x).square(), "mean")


class WrittenOut(Looped):
    """The same, step by step."""

    def sequence(self, x):
        layer = self.layer
        h = c = torch.zeros(x.shape[1:])
        outputs = []
        for projected in torch.nn.functional.linear(x, layer.weight_ih_l0, layer.bias_ih_l0):
            hidden = torch.nn.functional.linear(h, layer.weight_hh_l0, layer.bias_hh_l0)
            if isinstance(layer, torch.nn.LSTM):
                i, f, g, o = (projected + hidden).chunk(4, 1)
                c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                h = o.sigmoid() * c.tanh()
            elif isinstance(layer, torch.nn.GRU):
                (r, z, n), (hr, hz, hn) = projected.chunk(3, 1), hidden.chunk(3, 1)
                n = (n + (r + hr).sigmoid() * hn).tanh()
                h = n + (z + hz).sigmoid() * (h - n)
            else:
                h = (projected + hidden).tanh()
            outputs.append(h)
        return torch.stack(outputs)


def seconds_of(step, best):
    start, count = time.perf_counter(), 0
    while count == 0 or time.perf_counter() - start < SECONDS_PER_TURN:
        step()
        count += 1
    return min(best, (time.perf_counter() - start) / count)


def trainer_of(model, x):
    options = poptorch.Options().showCompilationProgressBar(False)
    trainer = poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), lr=0.01))
    start = time.perf_counter()
    trainer.compile(x)
    return trainer, time.perf_counter() - start


def main():
    torch.set_num_threads(1)
    print("eager: " + ", ".join(f"{name} {value}" for name, value in measure.describe_baseline().items()))
    print(f"training, one thread, best of {TURNS} turns, milliseconds a step, load {os.getloadavg()[0]:.1f}")
    print(f"{'layer':24}{'loop':>9}{'written':>9}{'eager':>9}{'written/loop':>14}{'eager/loop':>12}{'compile s':>11}")
    missed = 0
    for kind, batch, width, steps, is_written in CASES:
        x = torch.randn(steps, batch, width)
        looped, compile_seconds = trainer_of(Looped(kind, width), x)
        eager = Looped(kind, width)
        optimizer = torch.optim.SGD(eager.parameters(), lr=0.01)

        def eager_step(x=x, eager=eager, optimizer=optimizer):
            optimizer.zero_grad()
            eager(x).backward()
            optimizer.step()

        runs = [lambda looped=looped, x=x: looped(x), eager_step]
        if is_written:
            written, _ = trainer_of(WrittenOut(kind, width), x)
            runs.append(lambda written=written, x=x: written(x))
        best = [float("inf")] * len(runs)
        for _ in range(TURNS):
            best = [seconds_of(run, seconds) for run, seconds in zip(runs, best)]
        loop, theirs, written = best[0], best[1], best[2] if is_written else float("nan")
        too_slow = is_written and steps == 64 and written < loop
        missed += too_slow
        print(f"{f'{kind} {batch} x {width}, {steps} steps':24}{loop * 1e3:9.3f}{written * 1e3:9.3f}{theirs * 1e3:9.3f}"
              f"{written / loop:14.2f}{theirs / loop:12.2f}{compile_seconds:11.3f}{'   missed' * too_slow}", flush=True)
    return missed


if __name__ == "__main__":
    raise SystemExit(main())
