// Comparison: what changed from the run before to this one.
import { h, section, simpleTable } from "./dom";
import * as format from "./format";
import { Comparison, indices } from "./profile";
import { figure } from "./summary";

const units: Record<string, (value: number) => string> = { ns: format.time, bytes: format.bytes, share: format.percent,
  "flop/s": format.flopRate, "samples/s": (value) => `${format.number(value)}\u00a0samples/s` };

// Shares differ by points: one of 0.1 % that became 0.2 % has not doubled in any way that matters.
function change(before: number, after: number, unit = ""): string {
  if (unit === "share") {
    const points = (after - before) * 100;
    return Math.abs(points) < 0.05 ? "same" : `${points > 0 ? "+" : "−"}${Math.abs(points).toFixed(1)}\u00a0points`;
  }
  if (before === 0) return after === 0 ? "same" : "new";
  if (after === 0) return "gone";
  const share = after / before - 1;
  return Math.abs(share) < 0.0005 ? "same" : `${share > 0 ? "+" : "−"}${format.percent(Math.abs(share))}`;
}

function verdict(before: number, after: number, moreIsBetter: boolean, unit = ""): string {
  const difference = Math.abs(after - before);
  if (difference <= (unit === "share" ? 0.005 : 0.005 * Math.abs(before))) return "chip";
  return after > before === moreIsBetter ? "chip good" : "chip warning";
}

interface Changes { before: number[]; after: number[] }

function differences(title: string, none: string, changes: Changes, grows: boolean, heads: string[],
  names: (i: number) => string[], show: (value: number) => string): HTMLElement {
  const { before, after } = changes;
  const rows = indices(before.length).filter((i) => after[i] > before[i] === grows).slice(0, 15).map((i) => [...names(i),
    show(before[i]), show(after[i]), `${grows ? "+" : "−"}${show(Math.abs(after[i] - before[i]))}`,
    h("span", { class: verdict(before[i], after[i], false) }, change(before[i], after[i]))]);
  const first = heads.length;
  return section(title, rows.length === 0 ? h("p", { class: "lead" }, none)
    : simpleTable(`${title}: the largest differences`, [...heads, "Before", "After", "Difference", "Change"], rows,
      [first, first + 1, first + 2, first + 3]));
}

export function compareView(comparison: Comparison): HTMLElement {
  const { numbers, ops, buffers, options } = comparison;
  const opChanges = (title: string, none: string, grows: boolean) => differences(title, none, ops, grows,
    ["Op", "Module", "Pass"], (i) => [ops.name[i], ops.module[i] || "–", ops.pass[i]], format.time);
  const bufferChanges = (title: string, none: string, grows: boolean) => differences(title, none, buffers, grows,
    ["Buffer", "Kind"], (i) => [buffers.name[i], buffers.kind[i]], format.bytes);
  return h("div", { class: "view" },
    h("dl", { class: "figures" }, indices(numbers.name.length).map((i) => {
      const show = units[numbers.unit[i]] ?? format.number;
      return figure(`compare-${i}`, numbers.name[i], show(numbers.after[i]), `before ${show(numbers.before[i])} `,
        h("span", { class: verdict(numbers.before[i], numbers.after[i], numbers.more_is_better[i], numbers.unit[i]) },
          change(numbers.before[i], numbers.after[i], numbers.unit[i])));
    })),
    options.name.length > 0 ? section("Options that changed", simpleTable("Options that changed", ["Option", "Before", "After"],
      indices(options.name.length).map((i) => [options.name[i], options.before[i] || "default", options.after[i] || "default"]))) : null,
    opChanges("What got slower", "No op got slower.", true), bufferChanges("What grew", "No buffer grew.", true),
    opChanges("What got faster", "No op got faster.", false), bufferChanges("What shrank", "No buffer shrank.", false));
}
