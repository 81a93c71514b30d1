"""Makes the tables and plots of docs/performance.md from measurements. `./dev bench performance`

Measurements lie in docs/performance as JSON and are renewed by
    ./dev bench models --json docs/performance/models.json
    ./dev bench ops --json docs/performance/ops.json
    ./dev bench batches --json docs/performance/batches.json
    ./dev bench callgrind --json docs/performance/callgrind.json
Runs with several threads are left out where the machine was busy: threads that wait for each other then wait for the
scheduler, eager's more than ours. What stands between <!-- name --> and <!-- end --> in the document is replaced; the
rest is written by hand.
"""
import json
import re

from batches import BATCHES, gains
from harness import svg
from harness.measure import ROOT, Limits, geometric_mean

DOCUMENT, FOLDER = ROOT / "docs/performance.md", ROOT / "docs/performance"
PEERS = {"eager": "eager", "jit": "torch.jit, frozen", "onnx": "ONNX Runtime"}
SLOW = 1 / 1.1
SHOWN = 20  # operators at the slow end


def read_all(name):
    path = FOLDER / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else []


def read(name):
    """The runs of a benchmark that can be relied on."""
    return [run for run in read_all(name) if run["threads"] == 1 or not run["is_busy"]]


def table(header, rows):
    lines = [header, ["---"] + ["--:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def three_digits(number):
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def plural(threads):
    return f"{threads} thread" + "s" * (threads > 1)


def measured_on(name):
    """The machine, and what eager PyTorch ran on."""
    lines = []
    for run in read(name):
        baseline = run["baseline"]
        lines.append(f"- {plural(run['threads'])} of {run['processor']}: {Limits(run['limits'])}")
    lines.append(f"- eager: torch {baseline['torch']} with {baseline['blas']} (kernels for {baseline['core_type']}), "
                 f"{baseline['onednn'].split(' (Git')[0]}, ATen for {baseline['aten']}")
    if any(run["is_busy"] for run in read_all(name)):
        lines.append("- other programs were running on the machine: ratios are rough, shares of the limit are too "
                     "low, and there are no figures of several threads, which would flatter us")
    return "\n".join(lines)


def machine():
    return measured_on("models")


def operator_machine():
    return measured_on("ops")


def by_case(kind):
    """Results of models by name and batch, each by number of threads."""
    cases = {}
    for run in read("models"):
        for result in run["results"]:
            if result.get("kind") == kind:
                cases.setdefault((result["name"], result["batch"]), {})[run["threads"]] = result
    return cases


def training():
    rows = []
    for (name, batch), results in by_case("training").items():
        row = [name, str(batch)]
        for threads in (1, 2):
            result = results.get(threads)
            row += [three_digits(1 / result["ours"]), f"{result['eager'] / result['ours']:.2f}",
                    f"{result['limit']:.0%}"] if result else ["", "", ""]
        row.append(f"{results[1]['ours'] / results[2]['ours']:.2f}" if {1, 2} <= set(results) else "")
        rows.append(row)
    return table(["model", "batch", "1 thread: steps/s", "times eager", "of the limit", "2 threads: steps/s",
                  "times eager", "of the limit", "2 threads to 1"], rows)


def inference():
    rows = []
    for (name, batch), results in by_case("inference").items():
        row = [name, str(batch)]
        for threads in (1, 2):
            result = results.get(threads)
            if result:
                ratios = (f"{result[peer] / result['ours']:.2f}" for peer in PEERS if peer in result)
                row += [three_digits(result["ours"] * 1e3), " / ".join(ratios), f"{result['limit']:.0%}"]
            else:
                row += ["", "", ""]
        rows.append(row)
    return table(["model", "batch", "1 thread: ms", "times eager / jit / ONNX", "of the limit", "2 threads: ms",
                  "times eager / jit / ONNX", "of the limit"], rows)


def measured(run, kind):
    return [result for result in run["results"] if result["kind"] == kind and "ratio" in result]


def operators():
    rows = []
    for run in read("ops"):
        for kind in ("forward", "training"):
            ratios = [result["ratio"] for result in measured(run, kind)]
            rows.append([f"{kind}, {plural(run['threads'])}", str(len(ratios)), f"{geometric_mean(ratios):.2f}",
                         str(sum(ratio < SLOW for ratio in ratios)), f"{min(ratios):.2f}", f"{max(ratios):.1f}"])
    return table(["", "cases", "geometric mean, times eager", "slower than eager by more than 10 %", "slowest",
                  "fastest"], rows)


def slowest():
    rows = []
    for run in read("ops")[:1]:
        results = sorted(measured(run, "forward") + measured(run, "training"), key=lambda result: result["ratio"])
        rows = [[f"{result['name']}, {result['kind']}", three_digits(result["ours"] * 1e6),
                 three_digits(result["eager"] * 1e6), f"{result['ratio']:.2f}", f"{result['limit']:.0%}"]
                for result in results[:SHOWN]]
    return table([f"the slowest {SHOWN}, 1 thread", "ours, µs", "eager, µs", "times eager", "of the limit"], rows)


def instructions():
    counts = json.loads((FOLDER / "callgrind.json").read_text())
    rows = [[result["name"], result["kind"], str(result["batch"]), f"{result['instructions'] / 1e6:,.2f}"]
            for result in counts]
    return table(["model", "", "batch", "million instructions of a step"], rows)


def drawn(name, run, text):
    """Stores a plot and returns what shows it."""
    path = FOLDER / f"{name}_{run['threads']}.svg"
    path.write_text(text)
    return f"![{name}, {plural(run['threads'])}]({path.relative_to(DOCUMENT.parent)})"


def model_plots():
    images = []
    for run in read("models"):
        groups = []
        for result in run["results"]:
            if "ours" in result:
                ratios = {PEERS[peer]: result[peer] / result["ours"] for peer in PEERS if peer in result}
                kind = "" if result["kind"] == "inference" else " training"
                groups.append((f"{result['name']} b{result['batch']}{kind}", ratios))
        title = f"Models: how many times faster than the peer, {plural(run['threads'])}"
        images.append(drawn("models", run, svg.grouped_bars(title, groups, list(PEERS.values()))))
    return "\n\n".join(images)


def batch_plots():
    images = []
    for run in read("batches"):
        gain = gains(run["results"])
        groups = [(f"batch {batch}", {name: rates[batch] for name, rates in gain.items()}) for batch in BATCHES]
        title = f"Samples per second in training, batch {BATCHES[0]} being 1, {plural(run['threads'])}"
        images.append(drawn("batches", run, svg.grouped_bars(title, groups, list(gain))))
    return "\n\n".join(images)


def operator_plots():
    images = []
    for run in read("ops"):
        series = {kind: [result["ratio"] for result in measured(run, kind)] for kind in ("forward", "training")}
        title = f"Operators: how many times faster than eager, {plural(run['threads'])}"
        images.append(drawn("ops", run, svg.sorted_ratios(title, series)))
    return "\n\n".join(images)


PARTS = (machine, training, inference, model_plots, batch_plots, instructions, operator_machine, operators, slowest,
         operator_plots)


def main():
    text = DOCUMENT.read_text()
    for part in PARTS:
        pattern = re.compile(rf"(<!-- {part.__name__} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not pattern.search(text):
            raise SystemExit(f"[performance] {DOCUMENT} has no part <!-- {part.__name__} --> ... <!-- end -->")
        text = pattern.sub(lambda found, part=part: f"{found[1]}\n{part()}\n\n{found[2]}", text)
    DOCUMENT.write_text(text)
    print(f"wrote {DOCUMENT.relative_to(ROOT)} and the plots in {FOLDER.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
