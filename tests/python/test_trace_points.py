"""profiling.Channel: trace points of a program and of the library, in a file that viewers of traces read."""

import json
import os
import pathlib
import subprocess
import sys
import textwrap

PROGRAM = textwrap.dedent("""
    import poptorch, torch

    class Worker:
        def work(self, x):
            "Documentation."
            return x + 1

    channel = poptorch.profiling.Channel("program")
    worker = Worker()
    assert channel.instrument(worker, "work") is worker
    assert worker.work(3) == 4 and worker.work.__doc__ == "Documentation."
    with channel.tracepoint('outer "quoted"'):
        worker.work(1)
    options = poptorch.Options().showCompilationProgressBar(False)
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(2, 2)
        def forward(self, x):
            return poptorch.identity_loss(self.fc(x), "mean")
    model = Net()
    trainer = poptorch.trainingModel(model, options)
    data = torch.utils.data.TensorDataset(torch.ones(4, 2))
    for x, in poptorch.DataLoader(options, data, batch_size=2):
        trainer(x)
    trainer.copyWeightsToHost()
    poptorch.inferenceModel(torch.nn.ReLU(), options)(torch.ones(1, 2))
    trainer.destroy()
""")


def run(tmp_path, options, check=True):
    environment = {key: value for key, value in os.environ.items() if key != "PVTI_OPTIONS"}
    if options is not None:
        environment["PVTI_OPTIONS"] = options
    return subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=check, timeout=120,
                          cwd=tmp_path, env=environment)


def events_in(folder):
    (path,) = pathlib.Path(folder).glob("poptorch_*.json")
    return json.loads(path.read_text().rstrip().rstrip(",") + "]")  # the closing bracket may be missing


def test_trace_points_are_written_if_the_environment_asks_for_them(tmp_path):
    run(tmp_path, json.dumps({"enable": "true", "directory": str(tmp_path / "new")}))
    events = events_in(tmp_path / "new")
    own = [event for event in events if event["cat"] == "program"]
    assert [event["name"] for event in own] == ["work", "work", 'outer "quoted"']  # in the order of their ends
    inner, outer = own[1:]
    assert outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 1e-3
    assert all(event["ph"] == "X" and event["dur"] >= 0 for event in events)
    of = {channel: [event["name"] for event in events if event["cat"] == channel]
          for channel in ("poptorch.trainingModel", "poptorch.inferenceModel", "poptorch.DataLoader")}
    assert of["poptorch.trainingModel"] == ["graphPreprocessing", "modelCompilation", "modelExecution", "modelExecution",
                                            "copyWeightsToHost", "destroy"]
    assert of["poptorch.inferenceModel"] == ["graphPreprocessing", "modelCompilation", "modelExecution"]
    assert of["poptorch.DataLoader"] == ["__iter__"] + 3 * ["__next__"]  # two items, and the end


def test_the_trace_is_in_the_working_directory_unless_another_is_named(tmp_path):
    run(tmp_path, '{"enable": "true"}')
    assert events_in(tmp_path)


def test_nothing_is_written_unless_it_is_asked_for(tmp_path):
    for options in (None, "", "{}", '{"enable": "false"}', json.dumps({"directory": str(tmp_path)})):
        run(tmp_path, options)
        assert list(tmp_path.iterdir()) == []


def test_malformed_options_of_traces_are_an_error(tmp_path):
    result = run(tmp_path, "{enable}", check=False)
    assert result.returncode != 0 and "[PVTI_OPTIONS] line 1 is not JSON: expected" in result.stderr
