"""What the benchmarks share: work is counted rightly, limits lie between measurements, figures become a document."""
import json
import pathlib
import sys

import pytest
import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))

import batches  # noqa: E402
import performance  # noqa: E402
from harness import measure, svg  # noqa: E402
from harness.op_cases import CASES  # noqa: E402
from harness.op_runner import Sides  # noqa: E402
from harness.work import bytes_of, flops_of  # noqa: E402

LIMITS = {"flops": 1e11, "instruction_set": "avx2",
          "bandwidth": [{"bytes": 1 << 10, "rate": 1e11}, {"bytes": 1 << 30, "rate": 1e10}]}


def test_flops_of_products_and_convolutions():
    a, b = torch.randn(3, 4, 5), torch.randn(3, 5, 6)
    assert flops_of(lambda: a @ b) == 2 * 3 * 4 * 5 * 6
    x, w = torch.randn(2, 4, 8, 8, requires_grad=True), torch.randn(6, 2, 3, 3, requires_grad=True)
    forward = 2 * 2 * 6 * 6 * (6 * 2 * 3 * 3)
    assert flops_of(lambda: F.conv2d(x, w, groups=2)) == forward
    assert flops_of(lambda: F.conv2d(x, w, groups=2).sum().backward()) == 3 * forward
    assert flops_of(lambda: F.conv_transpose2d(x, torch.randn(4, 6, 2, 2), stride=2)) == 2 * 2 * 8 * 8 * (4 * 6 * 2 * 2)


def test_bytes_of_tensors_in_lists_and_modules():
    assert bytes_of([torch.zeros(3), (torch.zeros(2, dtype=torch.int64),)]) == 12 + 16
    assert bytes_of(torch.nn.Linear(2, 3)) == 4 * (6 + 3)


def test_the_limit_is_what_binds():
    limits = measure.Limits(LIMITS)
    assert limits.seconds(flops=1e11, moved=10) == pytest.approx(1)
    assert limits.seconds(flops=0, moved=1 << 40) == pytest.approx((1 << 40) / 1e10)
    assert 1e10 < limits.bandwidth(1 << 20) < 1e11
    assert limits.bandwidth(1) == pytest.approx(1e11)


def test_sides_take_turns_and_the_best_window_counts():
    seconds = {"a": iter([1.0] * 4 + [5.0, 1.0, 3.0, 1.0, 4.0]), "b": iter([2.0] * 9)}
    # Three calls to see how long they take, then in each window one that does not count and one that does.
    assert measure.alternate_timed([lambda n: next(seconds["a"]), lambda n: next(seconds["b"])], 3, 0.5) == [3.0, 2.0]


def test_names_of_operators_are_unique_and_there_are_enough():
    names = [case.name for case in CASES]
    assert len(names) == len(set(names)) and len(names) >= 150


@pytest.mark.parametrize("name", ["linear_small", "topk_5", "lstm_cell", "embedding_bag"])
@pytest.mark.parametrize("kind", ["forward", "training"])
def test_both_sides_of_an_operator_agree(name, kind):
    sides = Sides(next(case for case in CASES if case.name == name), kind)
    assert sides.agree()
    assert sides.work()[1] > 0


def test_figures_become_a_document(tmp_path, monkeypatch):
    monkeypatch.setattr(performance, "FOLDER", tmp_path)
    monkeypatch.setattr(performance, "DOCUMENT", tmp_path / "performance.md")
    monkeypatch.setattr(performance, "ROOT", tmp_path)
    parts = (f"<!-- {part.__name__} -->\n{'old' * (n % 2)}<!-- end -->\n" for n, part in enumerate(performance.PARTS))
    performance.DOCUMENT.write_text("".join(parts))
    head = {"processor": "one of many", "is_busy": False, "limits": LIMITS,
            "baseline": {"torch": "1", "blas": "a", "core_type": "b", "onednn": "c", "aten": "d"}}
    work = {"flops": 1e6, "bytes": 1000, "limit": 0.123456}
    step = {"name": "net", "kind": "training", "batch": 8, "ours": 0.5, "eager": 1.0, **work}
    call = {"name": "net", "kind": "inference", "batch": 1, "ours": 0.001, "eager": 0.002, "jit": 0.003, "onnx": 0.0005,
            **work}
    measure.write_json(tmp_path / "models.json", [{"threads": n, **head, "results": [step, call]} for n in (1, 2)])
    ops = [{"name": "relu", "kind": kind, "ours": 2.0, "eager": 1.0, "ratio": 0.5, **work}
           for kind in ("forward", "training")]
    runs = [{"threads": 1, **head, "results": ops}, {"threads": 2, **head, "is_busy": True, "results": ops}]
    measure.write_json(tmp_path / "ops.json", runs)
    (tmp_path / "callgrind.json").write_text(json.dumps([{"name": "net", "kind": "training", "batch": 8,
                                                          "instructions": 2.5e6}]))
    growing = [{**step, "batch": batch, "ours": batch / (batch + 16)} for batch in batches.BATCHES]
    measure.write_json(tmp_path / "batches.json", [{"threads": 1, **head, "results": growing}])
    performance.main()
    text = performance.DOCUMENT.read_text()
    assert "old" not in text
    assert "| net | 8 | 2 | 2.00 | 12% | 2 | 2.00 | 12% | 1.00 |" in text
    assert "| net | 1 | 1 | 2.00 / 3.00 / 0.50 | 12% |" in text
    assert "| relu, forward | 2,000,000 | 1,000,000 | 0.50 | 12% |" in text
    assert "| net | training | 8 | 2.50 |" in text
    assert (tmp_path / "ops_1.svg").read_text().startswith("<svg") and "](models_2.svg)" in text
    assert "](batches_1.svg)" in text and "batch 1024" in (tmp_path / "batches_1.svg").read_text()
    assert batches.gains(growing)["net"][1024] == pytest.approx((1024 + 16) / (16 + 16))
    assert text.count("1 thread of one of many") == 2 and text.count("2 threads of one of many") == 1
    # The machine was busy, and two threads want it for themselves.
    assert "ops_2.svg" not in text and "- other programs were running" in text


def test_a_ratio_of_one_is_drawn_in_the_middle():
    plot = svg.Plot("", 1 / 4, 4, 220, 100, left=0)
    assert plot.x(1) == pytest.approx(100) and plot.x(4) - plot.x(1) == pytest.approx(plot.x(1) - plot.x(1 / 4))
