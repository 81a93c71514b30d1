"""RecoverableError and UnrecoverableError: what the system does not give a device."""

import os
import subprocess
import sys
import textwrap

import pytest


def run(program):
    text = "import poptorch, torch\n" + textwrap.dedent(program)
    result = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.split()


def test_no_memory_for_a_device_is_repaired_by_a_reset():
    """The device gets its memory in the second attempt, when there is some again."""
    assert run("""
        import resource

        model = torch.nn.Linear(8192, 8192, bias=False)  # 256 MiB
        x = torch.ones(1, 8192)
        expected = model(x)
        options = poptorch.Options().showCompilationProgressBar(False)
        executor = poptorch.inferenceModel(model, options)
        with open("/proc/self/statm", encoding="ascii") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (now + (128 << 20), hard))
        try:
            executor(x)
        except poptorch.RecoverableError as error:
            assert isinstance(error, poptorch.Error) and not isinstance(error, poptorch.UnrecoverableError)
            assert "no memory for the" in error.message and "bytes were asked for" in error.message
            print(error.recovery_action, error.type)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
        torch.testing.assert_close(executor(x), expected)
        print("repaired")
    """) == ["IPU_RESET", "poptorch_device_error", "repaired"]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="threads are pinned where there are two cpus or more")
def test_a_cpu_that_the_system_refuses_is_unrecoverable():
    """A filter of system calls refuses sched_setaffinity: nothing that a program can reset."""
    assert run("""
        import ctypes, struct

        replicas, rows, width = 2, 256, 512
        options = poptorch.Options().replicationFactor(replicas).showCompilationProgressBar(False)
        executor = poptorch.inferenceModel(torch.nn.Linear(width, width), options)
        executor(torch.ones(replicas * rows, width))  # with what it needs all is well
        executor.detachFromDevice()

        SCHED_SETAFFINITY, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER = 203, 38, 22, 2
        code = [(0x20, 0, 0, 0), (0x15, 0, 1, SCHED_SETAFFINITY), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
        program = b"".join(struct.pack("HBBI", *line) for line in code)
        memory = ctypes.create_string_buffer(program)
        header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code), ctypes.addressof(memory)))
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
        assert libc.prctl(PR_SET_SECCOMP, FILTER, header, 0, 0) == 0
        try:
            executor(torch.ones(replicas * rows, width))
        except poptorch.UnrecoverableError as error:
            assert "a thread cannot be moved to cpu" in error.message
            print("UnrecoverableError", error.type)
    """) == ["UnrecoverableError", "poptorch_device_error"]
