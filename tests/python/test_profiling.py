"""enableProfiling: the folder of a run and what its profile tells."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
import torch
from torch import nn

import poptorch

MICRO_BATCHES = 10  # per weight update, as in the tutorial on pipelining
STAGES = ("B1", "B2", "B3", "B4")


class ConvLayer(nn.Module):
    def __init__(self, in_channels, num_filters, kernel_size, pool_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, num_filters, kernel_size=kernel_size)
        self.pool = nn.MaxPool2d(kernel_size=pool_size)
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.relu(self.pool(self.conv(x)))


class Network(nn.Module):
    """The network of the tutorial on pipelining, with its loss."""

    def __init__(self):
        super().__init__()
        self.layer1 = ConvLayer(1, 10, 5, 2)
        self.layer2 = ConvLayer(10, 20, 5, 2)
        self.layer3 = nn.Linear(320, 256)
        self.layer3_act = nn.ReLU()
        self.layer4 = nn.Linear(256, 10)
        self.loss = nn.CrossEntropyLoss()

    def forward(self, x, labels):
        with poptorch.Block("B1"):
            x = self.layer1(x)
        with poptorch.Block("B2"):
            x = self.layer2(x)
        with poptorch.Block("B3"):
            x = self.layer3_act(self.layer3(x.view(-1, 320)))
        with poptorch.Block("B4"):
            x = self.layer4(x)
            loss = self.loss(x, labels)
        return x, loss


def options_for(folder, strategy=None):
    options = poptorch.Options().showCompilationProgressBar(False).randomSeed(3)
    if folder is not None:
        options.enableProfiling(str(folder))
    if strategy is not None:
        options.setExecutionStrategy(strategy)
    return options


def pipeline():
    return poptorch.PipelinedExecution(*(poptorch.Stage(name).ipu(i) for i, name in enumerate(STAGES)))


def one_device():
    return poptorch.PipelinedExecution(poptorch.Stage(*STAGES).ipu(0))


def trainer_for(options):
    torch.manual_seed(1)
    model = Network()
    options.Training.gradientAccumulation(MICRO_BATCHES)
    return poptorch.trainingModel(model, options, poptorch.optim.AdamW(model.parameters(), lr=0.001))


def batch(size=8, count=MICRO_BATCHES):
    generator = torch.Generator().manual_seed(4)
    return (torch.randn(count * size, 1, 28, 28, generator=generator),
            torch.randint(0, 10, (count * size,), generator=generator))


def trained(options, calls, size=8):
    trainer = trainer_for(options)
    results = [trainer(*batch(size)) for _ in range(calls)]
    trainer.destroy()
    return results, trainer.state_dict()


def profile_in(folder):
    return json.loads((folder / "profile.json").read_text())


def rows(table):
    return [dict(zip(table, row)) for row in zip(*table.values())]


@pytest.fixture(scope="module")
def pipelined(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pipelined")
    results, state = trained(options_for(folder, pipeline()), 3)
    return folder / "training", results, state


# -- the folder -------------------------------------------------------------------------------------------------------
def test_the_folder_holds_the_profile_under_both_names_and_the_trace(pipelined):
    folder = pipelined[0]
    assert (folder / "profile.pop").read_bytes() == (folder / "profile.json").read_bytes()
    assert json.loads((folder / "trace.json").read_text())["traceEvents"]
    assert not list(folder.glob("*.unfinished"))
    if (folder / "report.html").exists():  # a build without a bundler has no page
        assert '<script id="profile"' in (folder / "report.html").read_text()
    profile = profile_in(folder)
    assert profile["format"] == "aspen-profile" and profile["run"]["complete"]
    assert profile["run"]["model"] == "training" and profile["run"]["execution"] == "pipelined"
    assert len(profile["calls"]["begin"]) == 3 and profile["calls"]["samples"] == [80, 80, 80]
    assert {(task["stage"], task["device"]) for task in rows(profile["tasks"])} == {(i, i) for i in range(4)}


def test_the_model_name_is_the_folder(tmp_path):
    model = poptorch.inferenceModel(nn.ReLU(), options_for(tmp_path).modelName("mine"))
    model(torch.ones(2, 2))
    model.destroy()
    assert (tmp_path / "mine" / "profile.pop").exists()
    assert profile_in(tmp_path / "mine")["run"]["model"] == "mine"


def test_inference_has_a_name_of_its_own_and_two_at_once_have_two_folders(tmp_path):
    models = [poptorch.inferenceModel(nn.ReLU(), options_for(tmp_path)) for _ in range(2)]
    for model in models:
        model(torch.ones(2, 2))
    for model in models:
        model.destroy()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["inference", "inference_2"]
    assert not profile_in(tmp_path / "inference")["run"]["training"]


def test_the_environment_chooses_the_folder_with_a_warning(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", json.dumps({"autoReport.directory": str(tmp_path / "chosen")}))
    options = options_for(tmp_path / "mine")
    assert "autoReport.directory of POPLAR_ENGINE_OPTIONS overrides" in capfd.readouterr().err
    model = poptorch.inferenceModel(nn.ReLU(), options)
    model(torch.ones(2, 2))
    model.destroy()
    assert (tmp_path / "chosen" / "inference" / "profile.pop").exists() and not (tmp_path / "mine").exists()


def test_the_environment_alone_asks_for_a_profile(tmp_path, monkeypatch):
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", json.dumps({"autoReport.all": "true",
                                                            "autoReport.directory": str(tmp_path)}))
    model = poptorch.inferenceModel(nn.ReLU(), options_for(None))
    model(torch.ones(2, 2))
    model.destroy()
    assert (tmp_path / "inference" / "profile.pop").exists()


def test_nothing_is_written_unless_it_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = poptorch.inferenceModel(nn.ReLU(), options_for(None))
    model(torch.ones(2, 2))
    model.destroy()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_a_warning_with_its_path(tmp_path, capfd):
    (tmp_path / "file").write_text("in the way")
    model = poptorch.inferenceModel(nn.ReLU(), options_for(tmp_path / "file"))
    assert torch.equal(model(torch.ones(2, 2)), torch.ones(2, 2))
    model.destroy()
    log = capfd.readouterr().err
    assert "could not be written" in log and str(tmp_path / "file" / "inference") in log


def test_a_directory_that_is_no_name_is_an_error(monkeypatch):
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"autoReport.all": "true", "autoReport.directory": 3}')
    with pytest.raises(poptorch.Error, match="autoReport.directory is 3; expected the name of a folder"):
        poptorch.inferenceModel(nn.ReLU(), options_for(None))(torch.ones(2, 2))


# -- what is measured -------------------------------------------------------------------------------------------------
def events(folder, category=None):
    found = [event for event in json.loads((folder / "trace.json").read_text())["traceEvents"] if event["ph"] == "X"]
    found.sort(key=lambda event: event["ts"])
    return [event for event in found if category is None or event["cat"] in category]


def blocks_of(folder, call, device):
    """Kind and micro-batch of the blocks that compute, by begin."""
    return [(event["cat"], event["args"]["micro-batch"]) for event in events(folder, ("forward", "backward", "update"))
            if event["args"]["call"] == call and event["tid"] == device and event["pid"] == 0]


@pytest.mark.parametrize("call", (0, 2))
def test_the_trace_of_a_pipeline_is_the_figure_of_the_tutorial(pipelined, call):
    for device in range(len(STAGES)):
        *blocks, update = blocks_of(pipelined[0], call, device)
        assert update == ("update", MICRO_BATCHES - 1)
        kinds = "".join("F" if kind == "forward" else "B" for kind, _ in blocks)
        ahead = len(STAGES) - device  # micro-batches that go forward before the first comes back
        steady = MICRO_BATCHES - ahead
        assert kinds == "F" * ahead + "BF" * steady + "B" * ahead, device  # ramp-up, one of each, ramp-down
        for kind in ("forward", "backward"):
            assert [number for of, number in blocks if of == kind] == list(range(MICRO_BATCHES))


def test_a_stage_waits_for_the_one_before_it(pipelined):
    computed = {(event["cat"], event["tid"], event["args"]["micro-batch"]): event
                for event in events(pipelined[0], ("forward", "backward")) if event["args"]["call"] == 1}
    for micro_batch in range(MICRO_BATCHES):
        for device in range(len(STAGES) - 1):
            for kind, first, then in (("forward", device, device + 1), ("backward", device + 1, device)):
                before, after = computed[kind, first, micro_batch], computed[kind, then, micro_batch]
                assert before["ts"] + before["dur"] <= after["ts"] + 1e-3


def sums(profile):
    """Per call: the blocks of all workers and the duration, in nanoseconds."""
    total = [0] * len(profile["calls"]["begin"])
    for block in rows(profile["trace"]["blocks"]):
        total[block["call"]] += block["duration"]
    return list(zip(total, profile["calls"]["duration"]))


@pytest.mark.parametrize("strategy", (one_device, pipeline))
def test_blocks_on_one_thread_add_up_to_the_time_of_a_call(tmp_path, monkeypatch, strategy):
    monkeypatch.setenv("ASPEN_NUM_THREADS", "1")
    trained(options_for(tmp_path, strategy()), 8, size=32)
    profile = profile_in(tmp_path / "training")
    assert {worker["crew"] for worker in rows(profile["workers"])} == {0}
    shares = [blocks / duration for blocks, duration in sums(profile)]
    assert all(share <= 1 for share in shares)
    assert sorted(shares)[len(shares) // 2] >= 0.95, shares


def test_workers_do_one_thing_at_a_time(pipelined):
    profile = profile_in(pipelined[0])
    ends = {}
    calls = rows(profile["calls"])
    for block in rows(profile["trace"]["blocks"]):
        call = calls[block["call"]]
        assert block["begin"] >= ends.get(block["worker"], 0)
        ends[block["worker"]] = block["begin"] + block["duration"]
        assert call["begin"] <= block["begin"] and ends[block["worker"]] <= call["begin"] + call["duration"]


def test_ops_know_their_module_and_line_and_lie_within_their_block(pipelined):
    profile = profile_in(pipelined[0])
    ops, durations = rows(profile["ops"]), profile["trace"]["op_durations"]
    assert {"model/layer1/conv", "layer1/conv"} & {op["module"] for op in ops}
    assert any("test_profiling.py:" in op["source"] for op in ops)
    assert all(op["flops"] > 0 for op in ops if op["name"] in ("conv", "dot"))
    timed = 0
    for block in rows(profile["trace"]["blocks"]):
        if block["op_durations"] < 0:
            continue
        of_block = durations[block["op_durations"]:block["op_durations"] + block["num_ops"]]
        assert sum(of_block) <= block["duration"] + 1000
        timed += 1
    assert timed > 0
    assert all(op["calls"] > 0 and op["shortest"] * op["calls"] <= op["duration"] for op in ops)


def test_memory_is_that_of_the_plan(tmp_path):
    trainer = trainer_for(options_for(tmp_path, pipeline()))
    trainer(*batch())
    planned = {memory["device"]: memory["planned"] for memory in trainer._core.memory() if memory["replica"] == 0}
    trainer.destroy()
    memory = profile_in(tmp_path / "training")["memory"]
    regions = dict.fromkeys(planned, 0)
    for region in rows(memory["regions"]):
        regions[region["device"]] += 0 if region["on_host"] else region["bytes"]
    assert regions == planned
    weights = {buffer["name"] for buffer in rows(memory["buffers"]) if buffer["kind"] == "weight"}
    assert weights == {name for name, _ in Network().named_parameters()}


def test_results_are_the_same_bit_for_bit(pipelined):
    results, state = trained(options_for(None, pipeline()), 3)
    for (output, loss), (profiled_output, profiled_loss) in zip(results, pipelined[1]):
        assert torch.equal(output, profiled_output) and torch.equal(loss, profiled_loss)
    for name, value in state.items():
        assert torch.equal(value, pipelined[2][name]), name


def test_compilation_and_the_machine_are_described(pipelined):
    profile = profile_in(pipelined[0])
    phases = dict(zip(profile["compilation"]["name"], profile["compilation"]["duration"]))
    assert phases["compilation"] >= phases["compilation/passes"] >= phases["compilation/passes/differentiate"] > 0
    assert phases["capture"] > 0 and phases["compilation/memory plan"] > 0
    assert profile["machine"]["thread"]["flops_per_second"] > 1e9
    assert profile["machine"]["all"]["bytes_per_second"] > 1e8
    options = dict(zip(profile["run"]["options"]["name"], profile["run"]["options"]["value"]))
    assert options["Training.gradient_accumulation"] == str(MICRO_BATCHES)


def test_trace_points_and_waits_for_data_are_in_the_trace(tmp_path):
    options = options_for(tmp_path)
    data = torch.utils.data.TensorDataset(torch.ones(12, 2))
    model = poptorch.inferenceModel(nn.ReLU(), options)
    channel = poptorch.profiling.Channel("program")
    for (x,) in poptorch.DataLoader(options, data, batch_size=2):
        model(x)
        with channel.tracepoint("after the call"):
            time.sleep(0.002)
    model.destroy()
    names = [event["name"] for event in events(tmp_path / "inference", ("host",))]
    assert names.count("after the call") == 6
    assert "modelCompilation" in names and "graphPreprocessing" in names and "__next__" in names
    assert sum(profile_in(tmp_path / "inference")["calls"]["loading"]) > 0


def test_programs_from_the_cache_and_from_files_are_profiled(tmp_path):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    x = torch.ones(2, 4)
    profiles = []
    for name in ("made", "found", "exported", "loaded"):
        options = options_for(tmp_path / name).enableExecutableCaching(str(tmp_path / "cache"))
        run = poptorch.inferenceModel(model, options)
        if name == "exported":
            run.compileAndExport(str(tmp_path / "file"), x)
        if name == "loaded":
            run.loadExecutable(str(tmp_path / "file"))
        run(x)
        run.destroy()
        profiles.append(profile_in(tmp_path / name / "inference"))
    # What is exported is captured from another line of this file, and ops carry theirs.
    assert [profile["from_cache"] for profile in profiles] == [False, True, False, True]
    static = ("name", "module", "text", "flops", "bytes_read", "bytes_written")
    for profile in profiles[1:]:
        for key in ("tasks", "memory"):
            assert profile[key] == profiles[0][key]
        assert all(profile["ops"][key] == profiles[0]["ops"][key] for key in static)
    assert "loading" in profiles[3]["compilation"]["name"]


def test_a_profile_goes_on_after_a_detach(tmp_path):
    model = poptorch.inferenceModel(nn.ReLU(), options_for(tmp_path))
    model(torch.ones(2, 2))
    model.detachFromDevice()
    model(torch.ones(2, 2))
    model.destroy()
    assert len(profile_in(tmp_path / "inference")["calls"]["begin"]) == 2


# -- how it ends ------------------------------------------------------------------------------------------------------
PROGRAM = textwrap.dedent("""
    import poptorch, sys, torch
    model = poptorch.inferenceModel(torch.nn.Linear(8, 8), poptorch.Options().enableProfiling("profile"))
    while True:
        model(torch.ones(4, 8))
        if sys.argv[1] == "end":
            break
        print("called", flush=True)
""")


def started(tmp_path, how):
    return subprocess.Popen([sys.executable, "-c", PROGRAM, how], cwd=tmp_path, stdout=subprocess.PIPE, text=True)


def test_a_profile_is_complete_when_the_process_ends(tmp_path):
    with started(tmp_path, "end") as process:
        assert process.wait(timeout=120) == 0
    assert profile_in(tmp_path / "profile/inference")["run"]["complete"]


def test_a_process_that_is_killed_leaves_a_readable_profile(tmp_path):
    folder = tmp_path / "profile/inference"
    with started(tmp_path, "go on") as process:
        try:
            assert process.stdout.readline() == "called\n"
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:  # what is written after the first call
                if (folder / "trace.json").exists() and profile_in(folder)["calls"]["begin"]:
                    break
                process.stdout.readline()
        finally:
            os.kill(process.pid, signal.SIGKILL)
    profile = profile_in(folder)
    assert not profile["run"]["complete"] and profile["calls"]["begin"] and profile["ops"]["name"]
    assert events(folder)
