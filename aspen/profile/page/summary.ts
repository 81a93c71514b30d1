// Summary: the run in numbers, and what to look at first.
import { h, section, simpleTable, withBar } from "./dom";
import * as format from "./format";
import { Advice, indices, Profile } from "./profile";

export function figure(id: string, name: string, value: string, ...note: (string | Node)[]): HTMLElement {
  const [number, unit] = value.split("\u00a0");
  return h("div", { class: "figure", id: `figure-${id}` }, h("dt", {}, name),
    h("dd", { class: "value" }, number, unit ? h("span", { class: "unit" }, `\u00a0${unit}`) : null), h("dd", { class: "note" }, note));
}

function figures(profile: Profile): HTMLElement {
  const { run, analysis, machine } = profile;
  const peak = Math.max(0, ...analysis.memory.peak);
  const where = analysis.memory.device[analysis.memory.peak.indexOf(peak)];
  const perStep = run.training
    ? `${format.plural(run.gradient_accumulation, "micro-batch").replace("batchs", "batches")} and an update`
    : "one device iteration";
  const waiting = analysis.ramp + analysis.bubble;
  return h("dl", { class: "figures" },
    figure("step", "Step time", format.time(analysis.iteration), perStep),
    figure("rate", "Throughput", `${format.number(analysis.samples_per_second)}\u00a0samples/s`,
      `median of ${format.plural(analysis.calls, "call")}: ${format.time(analysis.call_duration)}`),
    figure("flops", "Compute", format.flopRate(analysis.flops_per_second),
      machine.all.flops_per_second > 0
        ? `${format.percent(analysis.share_of_peak)} of ${format.flopRate(machine.all.flops_per_second)}`
        : "peak not known"),
    figure("memory", "Peak memory", format.bytes(peak), profile.memory.budget > 0
      ? `device ${where}; budget ${format.bytes(profile.memory.budget)}` : `device ${where ?? 0}, of one replica`),
    figure("waiting", "Devices waiting", format.percent(waiting),
      `${format.percent(analysis.ramp)} ramp, ${format.percent(analysis.bubble)} bubble`),
    figure("host", "Between calls", format.percent(analysis.host_share),
      `${format.percent(analysis.loading_share)} waiting for data`));
}

export function adviceList(advice: Advice): HTMLElement {
  if (advice.title.length === 0) {
    return h("p", { class: "empty" }, "Nothing stands out: no stage, buffer, host call or data loader holds this run back.");
  }
  return h("ol", { class: "advice" }, indices(advice.title.length).map((i) => h("li", {},
    h("div", { class: "advice-head" }, h("h3", {}, advice.title[i]),
      advice.gain[i] > 0 ? h("span", { class: "chip good" }, `about ${format.percent(advice.gain[i])} less time`) : null,
      advice.saved_bytes[i] > 0 ? h("span", { class: "chip good" }, `saves ${format.bytes(advice.saved_bytes[i])}`) : null,
      h("span", { class: `chip sure-${advice.confidence[i]}` }, `${advice.confidence[i]} confidence`)),
    h("p", {}, advice.why[i]),
    h("p", { class: "how" }, h("span", {}, "How: "), advice.how[i]))));
}

function compilation(profile: Profile): HTMLElement {
  const { name, duration } = profile.compilation;
  const total = indices(name.length).filter((i) => !name[i].includes("/")).reduce((t, i) => t + duration[i], 0);
  const rows = indices(name.length).map((i) => {
    const depth = name[i].split("/").length - 1;
    return [h("span", { style: `padding-left:${depth * 1.25}em` }, name[i].split("/").pop()!),
      withBar(total > 0 ? duration[i] / total : 0, format.time(duration[i]))];
  });
  return section("Compilation",
    h("p", { class: "lead" }, profile.from_cache
      ? "The program was compiled earlier and loaded from the executable cache."
      : `${format.time(total)} in all, before the first step.`),
    simpleTable("Phases of the compilation", ["Phase", "Time"], rows, [1]));
}

function devices(profile: Profile): HTMLElement {
  const { workers, analysis } = profile;
  const rows = indices(workers.device.length).map((i) => {
    const use = analysis.memory.device.indexOf(workers.device[i]);
    const share = analysis.workers.worker.indexOf(i);
    return [`Device ${workers.device[i]}`, String(workers.replica[i]), String(workers.crew[i]), String(workers.num_threads[i]),
      share >= 0 ? format.percent(analysis.workers.busy[share]) : "–",
      use >= 0 ? format.bytes(analysis.memory.peak[use]) : "–"];
  });
  return section("Devices", simpleTable("Devices of all replicas",
    ["Device", "Replica", "Thread", "Kernel threads", "Busy", "Peak memory"], rows, [1, 2, 3, 4, 5]));
}

function details(profile: Profile): HTMLElement {
  const { run, machine } = profile;
  const pairs: [string, string][] = [
    ["Execution", run.execution], ["Replicas", format.count(run.replicas)],
    ["Gradient accumulation", format.count(run.gradient_accumulation)],
    ["Device iterations", format.count(run.device_iterations)],
    ["Micro-batch", format.plural(run.micro_batch_size, "sample")],
    ["Processor", `${machine.processor}, ${format.plural(machine.num_cpus, "cpu")}`],
    ["Backend", run.backend], ["Aspen", run.aspen], ["Recorded", run.created.replace("T", " ").replace("Z", " UTC")],
  ];
  return section("Run", h("dl", { class: "pairs" },
    pairs.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
}

function options(profile: Profile): HTMLElement | null {
  const { name, value } = profile.run.options;
  if (name.length === 0) return null;
  return section("Options", h("p", { class: "lead" }, "Those that differ from their defaults."),
    h("dl", { class: "pairs" }, indices(name.length).flatMap((i) => [h("dt", {}, name[i]), h("dd", {}, value[i])])));
}

export function summaryView(profile: Profile): HTMLElement {
  return h("div", { class: "view" }, figures(profile),
    section("What to look at first", adviceList(profile.analysis.advice)),
    h("div", { class: "columns" }, details(profile), options(profile)),
    h("div", { class: "columns" }, devices(profile), compilation(profile)));
}
