// Execution trace: the timeline, the block that was chosen, and where the time of devices and stages goes.
import { blockKindColour } from "./colours";
import { choice, h, section, simpleTable, withBar } from "./dom";
import * as format from "./format";
import { indices, Profile, sum } from "./profile";
import { Timeline } from "./timeline";
import { describe, Item } from "./tracks";

function details(profile: Profile, item: Item): HTMLElement {
  const text = describe(profile, item);
  const { blocks, op_durations: durations } = profile.trace;
  const first = item.block < 0 ? -1 : blocks.op_durations[item.block];
  const rows = first < 0 ? [] : indices(blocks.num_ops[item.block])
    .sort((a, b) => durations[first + b] - durations[first + a]).slice(0, 12)
    .map((i) => {
      const op = blocks.first_op[item.block] + i;
      return [profile.ops.name[op], profile.ops.module[op] || "–", profile.ops.source[op] || "–",
        withBar(durations[first + i] / item.duration, format.time(durations[first + i]))];
    });
  return h("div", {}, h("h3", {}, text.title),
    h("p", { class: "lead" }, text.rows.map(([name, value]) => `${name}: ${value}`).join(" · ")),
    rows.length > 0 ? simpleTable("Longest ops of the block", ["Longest ops", "Module", "Source", "Time"], rows, [3]) : null);
}

function toolbar(timeline: Timeline): HTMLElement {
  const button = (text: string, label: string, act: () => void) =>
    h("button", { type: "button", "aria-label": label, onclick: act }, text);
  const path = h("button", { type: "button", "aria-pressed": "false", onclick: () => {
    timeline.showsPath = !timeline.showsPath;
    path.setAttribute("aria-pressed", String(timeline.showsPath));
    timeline.drawing.redraw();
  } }, "Critical path");
  return h("div", { class: "toolbar" },
    h("div", { class: "choice", role: "group", "aria-label": "Zoom" },
      button("−", "Zoom out", () => timeline.view.scale(1 / 0.6)), button("+", "Zoom in", () => timeline.view.scale(0.6)),
      button("Fit", "Fit the whole trace", () => timeline.view.fit()),
      button("Last call", "Last call", () => timeline.showLastCall())),
    choice("Colour by", [{ value: "micro-batch", text: "Micro-batch" }, { value: "kind", text: "Kind" },
      { value: "stage", text: "Stage" }], timeline.colouring, (value) => {
      timeline.colouring = value;
      timeline.drawing.redraw();
    }),
    h("div", { class: "choice" }, path),
    h("p", { class: "hint" }, "Drag to move, Ctrl + wheel to zoom, click for details."));
}

const parts: [keyof Profile["analysis"]["workers"], string, string][] = [
  ["busy", "Computing", "part-busy"], ["transfer", "Transfers", "part-transfer"], ["shared", "Thread with another device", "part-shared"],
  ["ramp", "Ramp", "part-ramp"], ["bubble", "Bubble", "part-bubble"]];

function workerShares(profile: Profile): HTMLElement {
  const { workers } = profile.analysis;
  const legend = h("ul", { class: "legend" },
    parts.map(([, name, style]) => h("li", {}, h("span", { class: `swatch ${style}` }), name)));
  const rows = indices(workers.worker.length).map((i) => {
    const worker = workers.worker[i];
    const device = `device ${profile.workers.device[worker]}`;
    const name = profile.run.replicas > 1 ? `Replica ${profile.workers.replica[worker]}, ${device}` : `D${device.slice(1)}`;
    return [name, h("span", { class: "stack", "aria-hidden": "true" },
      parts.map(([key, , style]) => h("span", { class: style, style: `width:${workers[key][i] * 100}%` }))),
      ...parts.map(([key]) => format.percent(workers[key][i]))];
  });
  return section("How devices spend the time",
    h("p", { class: "lead" }, "Ramp: the pipeline fills and empties, once per weight update. Bubble: waiting in between. " +
      `On average ${format.percent(profile.analysis.ramp)} ramp and ${format.percent(profile.analysis.bubble)} bubble.`),
    legend,
    simpleTable("Shares of the time of each device",
      ["Device", "", "Computing", "Transfers", "Shared thread", "Ramp", "Bubble"], rows, [2, 3, 4, 5, 6]));
}

function stageBalance(profile: Profile): HTMLElement | null {
  const { stages } = profile.analysis;
  if (stages.stage.length === 0) return null;
  const total = (i: number) => stages.forward[i] + stages.backward[i];
  const longest = Math.max(...indices(stages.stage.length).map(total));
  const mean = sum(indices(stages.stage.length).map(total)) / stages.stage.length;
  const rows = indices(stages.stage.length).map((i) => [
    `Stage ${stages.stage[i]}`, String(stages.device[i]),
    h("span", { class: "stack", "aria-hidden": "true" },
      h("span", { style: `width:${(stages.forward[i] / longest) * 100}%;background:${blockKindColour("forward")}` }),
      h("span", { style: `width:${(stages.backward[i] / longest) * 100}%;background:${blockKindColour("backward")}` })),
    format.time(stages.forward[i]), format.time(stages.backward[i]), format.time(total(i)),
    `${total(i) >= mean ? "+" : "−"}${format.percent(mean > 0 ? Math.abs(total(i) / mean - 1) : 0)}`, format.time(stages.update[i])]);
  return section("Balance of stages",
    h("p", { class: "lead" }, stages.stage.length > 1
      ? `A micro-batch takes ${format.time(longest)} in the longest stage, ${format.time(mean)} on average: ` +
        `the pipeline is ${format.percent(mean / longest)} balanced.`
      : "One stage: there is nothing to balance."),
    h("ul", { class: "legend" }, ["forward", "backward"].map((kind) => h("li", {},
      h("span", { class: "swatch", style: `background:${blockKindColour(kind)}` }), kind))),
    simpleTable("Time of a micro-batch in each stage",
      ["Stage", "Device", "", "Forward", "Backward", "Both", "Of mean", "Update"], rows, [1, 3, 4, 5, 6, 7]));
}

function criticalPath(profile: Profile): HTMLElement | null {
  const { blocks } = profile.trace;
  const path = profile.analysis.critical_path;
  if (path.length === 0) return null;
  const whole = sum(path.map((i) => blocks.duration[i]));
  const totals = new Map<string, { time: number; count: number }>();
  for (const i of path) {
    const worker = blocks.worker[i];
    const key = `${blocks.kind[i]}|${profile.workers.replica[worker]}|${profile.workers.device[worker]}`;
    const entry = totals.get(key) ?? { time: 0, count: 0 };
    totals.set(key, { time: entry.time + blocks.duration[i], count: entry.count + 1 });
  }
  const rows = [...totals].sort((a, b) => b[1].time - a[1].time).slice(0, 10).map(([key, entry]) => {
    const [kind, replica, device] = key.split("|");
    return [kind, device, replica, format.count(entry.count),
      withBar(entry.time / whole, format.time(entry.time))];
  });
  return section("Critical path",
    h("p", { class: "lead" }, `${format.plural(path.length, "block")} in a row decide how long the last traced call takes: ` +
      `${format.time(whole)}. What is not on the path can become slower, or faster, without a change.`),
    simpleTable("The critical path by kind and device", ["Kind", "Device", "Replica", "Blocks", "Time"], rows, [1, 2, 3, 4]));
}

export function traceView(profile: Profile): HTMLElement {
  if (profile.trace.blocks.begin.length === 0) {
    return h("div", { class: "view" }, h("p", { class: "empty" }, "No call was traced: the run ended before the first one did."));
  }
  const timeline = new Timeline(profile);
  const chosen = h("div", { class: "chosen", "aria-live": "polite" },
    h("p", { class: "lead" }, "Choose a block to see the ops it runs."));
  timeline.onSelect = (item) => chosen.replaceChildren(details(profile, item));
  return h("div", { class: "view" },
    h("section", { "aria-label": "Timeline" }, toolbar(timeline), timeline.drawing.element, chosen),
    workerShares(profile), stageBalance(profile), criticalPath(profile));
}
