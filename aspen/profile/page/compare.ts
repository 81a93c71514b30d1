// Comparison: what changed from the run before to this one.
import { h, section, simpleTable } from "./dom";
import * as format from "./format";
import { Comparison, indices } from "./profile";

const units: Record<string, (value: number) => string> = { ns: format.time, bytes: format.bytes, share: format.percent,
  "flop/s": format.flopRate, "samples/s": (value) => `${format.number(value)}\u00a0samples/s` };

const change = (before: number, after: number) => {
  if (before === 0) return after === 0 ? "same" : "new";
  if (after === 0) return "gone";
  const share = after / before - 1;
  return Math.abs(share) < 0.0005 ? "same" : `${share > 0 ? "+" : "−"}${format.percent(Math.abs(share))}`;
};

function verdict(before: number, after: number, moreIsBetter: boolean): string {
  if (Math.abs(after - before) <= 0.005 * Math.abs(before)) return "chip";
  return after > before === moreIsBetter ? "chip good" : "chip warning";
}

function differences(title: string, lead: string, none: string, names: (i: number) => string[], heads: string[],
  before: number[], after: number[], show: (value: number) => string): HTMLElement {
  const rows = indices(before.length).map((i) => [...names(i), show(before[i]), show(after[i]),
    `${after[i] >= before[i] ? "+" : "−"}${show(Math.abs(after[i] - before[i]))}`,
    h("span", { class: verdict(before[i], after[i], false) }, change(before[i], after[i]))]);
  const first = heads.length;
  return section(title, rows.length === 0 ? h("p", { class: "empty" }, none) : h("div", {}, h("p", { class: "lead" }, lead),
    simpleTable(title, [...heads, "Before", "After", "Difference", "Change"], rows, [first, first + 1, first + 2, first + 3])));
}

export function compareView(comparison: Comparison): HTMLElement {
  const { numbers, ops, buffers, options } = comparison;
  return h("div", { class: "view" },
    h("dl", { class: "figures" }, indices(numbers.name.length).map((i) => {
      const show = units[numbers.unit[i]] ?? format.number;
      return h("div", { class: "figure" }, h("dt", {}, numbers.name[i]), h("dd", { class: "value" }, show(numbers.after[i])),
        h("dd", { class: "note" }, `before ${show(numbers.before[i])} `,
          h("span", { class: verdict(numbers.before[i], numbers.after[i], numbers.more_is_better[i]) },
            change(numbers.before[i], numbers.after[i]))));
    })),
    options.name.length > 0 ? section("Options that changed", simpleTable("Options that changed", ["Option", "Before", "After"],
      indices(options.name.length).map((i) => [options.name[i], options.before[i] || "default", options.after[i] || "default"]))) : null,
    differences("Time", "Time of one device iteration in all replicas, largest difference first.", "No op became slower or faster.",
      (i) => [ops.name[i], ops.module[i] || "–", ops.pass[i]], ["Op", "Module", "Pass"], ops.before, ops.after, format.time),
    differences("Memory", "Buffers of all devices of a replica, largest difference first.", "No buffer grew or shrank.",
      (i) => [buffers.name[i], buffers.kind[i]], ["Buffer", "Kind"], buffers.before, buffers.after, format.bytes));
}
