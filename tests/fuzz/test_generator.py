"""The generator of random modules and its judge: deterministic, complete, and able to fail."""

import faulthandler
import os
import signal
import subprocess
import sys

import torch
from random_modules import generate, ingredients, judge, shrink, training
from random_modules.program import Program


def test_the_same_seed_gives_the_same_module():
    first = generate.generate(5).text()
    generate.generate(6)
    torch.manual_seed(99)
    assert generate.generate(5).text() == first


def test_every_ingredient_is_used():
    used = {kind for seed in range(150) for kind in generate.generate(seed).kinds}
    assert not [kind.__name__ for kind in ingredients.FORWARD if kind not in used]


def untrained(cls, config):
    """Stands in for a poptorch that leaves the weights alone."""
    return training.state_of(training.make(cls))


def test_a_difference_is_found_and_made_small(monkeypatch):
    program = generate.generate(5)
    monkeypatch.setattr(training, "train_poptorch", untrained)
    failure = judge.failure_of(program)
    assert failure.kind == "mismatch" and "parameter" in failure.details
    small = shrink.shrink(program, failure.kind)
    assert len(small.forward) < len(program.forward)
    assert judge.failure_of(small).kind == "mismatch"


def test_a_crash_is_a_failure(monkeypatch):
    def crash(cls, config):
        faulthandler.disable()  # this one is expected
        os.kill(os.getpid(), signal.SIGSEGV)

    monkeypatch.setattr(training, "train_poptorch", crash)
    failure = judge.failure_of(generate.generate(5), alone=True)
    assert failure.kind == f"Crash: by signal {int(signal.SIGSEGV)}"


def test_a_script_stands_alone(tmp_path):
    program = Program(0, setup=["self.w0 = nn.Parameter(torch.ones(3))", "self.m0 = RunningMean(3)"],
                      forward=["v1 = self.m0(x0 * self.w0)"], losses=["v1.pow(2).mean()"],
                      config=generate.generate(5).config | {"inputs": [("float", (3,))]})
    script = tmp_path / "module.py"
    script.write_text(program.script("by hand"))
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert ran.stdout.splitlines()[-1] == "equal", ran.stdout + ran.stderr
