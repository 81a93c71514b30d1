"""Checks operators in processes of their own, so that one that crashes or hangs is a failure like others."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading

SECONDS = 60  # for one check; most take a hundredth


def checks_of(operator, count):
    """(type, form, sample) of all checks of an operator, always in the same order. Further types get fewer samples."""
    from . import trial as trials

    for position, dtype in enumerate(operator.types()):
        samples = operator.samples(dtype, count if position == 0 else -(-count // 3))
        for sample in samples:
            for form in trials.forms_of(operator, dtype):
                trial = trials.Trial(operator, sample, dtype, form)
                if trial.is_possible():
                    yield trial


def work():
    """A worker: reads operators from stdin, writes a line when a check starts and a line with its outcome."""
    import torch
    from . import check, database, trial as trials

    torch.set_num_threads(1)
    operators = {operator.key: operator for operator in database.operators()}
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever operators print is not for the reader

    def say(**message):
        print(json.dumps(message), file=out, flush=True)

    say(ready=True)
    for line in sys.stdin:
        task = json.loads(line)
        for index, trial in enumerate(checks_of(operators[task["key"]], task["samples"])):
            if index < task["first"]:
                continue
            what = {"index": index, "form": trial.form, "dtype": str(trial.dtype).replace("torch.", ""),
                    "arguments": trial.sample.describe()}
            say(**what)
            signal.alarm(SECONDS)
            outcome = check.run(trial)
            signal.alarm(0)
            if outcome.status == trials.REFUSED and trial.form == trials.INPUT:
                constant = trials.Trial(trial.operator, trial.sample, trial.dtype, trials.CONSTANT)
                if constant.is_possible():
                    signal.alarm(SECONDS)
                    other = check.run(constant)
                    signal.alarm(0)
                    if other.status in trials.FAILURES:
                        outcome = trials.Outcome(other.status, f"with constants: {other.details}")
                    elif other.status in (trials.NATIVE, trials.HOST):
                        outcome.details += f"\n({other.status} where its integers are constants)"
            say(**what, status=outcome.status, details=outcome.details)
        say(done=task["key"])


class Worker:
    """A process that checks one operator after the other, and another one where it crashes."""

    def __init__(self, samples):
        self._samples, self._process = samples, None

    def _start(self):
        folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        environment = dict(os.environ)
        environment.setdefault("POPTORCH_LOG_LEVEL", "ERR")
        environment.setdefault("ASPEN_VERIFY", "1")
        self._process = subprocess.Popen([sys.executable, os.path.join(folder, "sweep.py"), "--work"],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        if not self._process.stdout.readline():
            raise RuntimeError("[ops] a process ended before its first check; see above")

    def checks(self, key):
        """The outcomes of one operator, in order."""
        first, outcomes = 0, []
        while True:
            if self._process is None:
                self._start()
            print(json.dumps({"key": key, "first": first, "samples": self._samples}), file=self._process.stdin,
                  flush=True)
            current = None
            for line in self._process.stdout:
                message = json.loads(line)
                if "done" in message:
                    return outcomes
                if "status" in message:
                    outcomes.append(message)
                    current = None
                else:
                    current = message
            code = self._process.wait()
            self._process = None
            if current is None:
                raise RuntimeError(f"[ops] a process ended with {code} between the checks of {key}; see above")
            status = "time-out" if code == -signal.SIGALRM else "crash"
            outcomes.append(dict(current, status=status, details=f"the process ended with {code}"))
            first = current["index"] + 1

    def close(self):
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait()


def sweep(keys, samples, jobs, note):
    """Checks all operators with `jobs` processes; note(key, outcomes) as they come."""
    tasks = queue.Queue()
    for key in keys:
        tasks.put(key)
    lock, errors = threading.Lock(), []

    def run():
        worker = Worker(samples)
        try:
            while True:
                key = tasks.get_nowait()
                outcomes = worker.checks(key)
                with lock:
                    note(key, outcomes)
        except queue.Empty:
            pass
        except Exception as error:  # shown by the caller
            errors.append(error)
        finally:
            worker.close()

    threads = [threading.Thread(target=run) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
