"""ASPEN_CPU_ISA holds the loops and oneDNN to an instruction set, or says why it cannot."""
import os
import subprocess
import sys

PROGRAM = """
import poptorch, torch
torch.manual_seed(0)
model, x = torch.nn.Conv2d(16, 32, 3).eval(), torch.randn(8, 16, 32, 32)
{first}
torch.testing.assert_close(poptorch.inferenceModel(model)(x), model(x).detach(), rtol=1e-4, atol=1e-5)
"""
USE_EAGER_FIRST = "model(x)"


def run(first="", **environment):
    return subprocess.run([sys.executable, "-c", PROGRAM.format(first=first)], capture_output=True, text=True,
                          env={**os.environ, **environment})


def test_a_cap_gives_the_same_numbers():
    result = run(ASPEN_CPU_ISA="baseline")
    assert result.returncode == 0, result.stderr


def test_a_cap_that_comes_too_late_for_onednn_names_the_way_out():
    result = run(USE_EAGER_FIRST, ASPEN_CPU_ISA="baseline")
    assert result.returncode != 0
    assert ("ASPEN_CPU_ISA=baseline came too late for oneDNN, which PyTorch has used in this process before; set "
            "DNNL_MAX_CPU_ISA=SSE41 as well.") in result.stderr
    result = run(USE_EAGER_FIRST, ASPEN_CPU_ISA="baseline", DNNL_MAX_CPU_ISA="SSE41")
    assert result.returncode == 0, result.stderr


def test_an_unknown_set_lists_the_known_ones():
    result = run(ASPEN_CPU_ISA="mmx")
    assert result.returncode != 0
    assert 'ASPEN_CPU_ISA is "mmx"; expected baseline, avx2 or avx512.' in result.stderr
