// Operators: every op of the program with its time, traffic and rate, or all of one kind or module together.
import { choice, h, search, select, withBar } from "./dom";
import * as format from "./format";
import { deviceOfOp, devices, indices, max, Profile, sum, totalOpTime } from "./profile";
import { DataTable, TableColumn } from "./table";

// A row of the table: one op, or several together.
interface Group {
  name: string; module: string; ops: number[];
  duration: number; calls: number; flops: number; bytes: number; limit: number;   // of all calls
}

type Grouping = "op" | "name" | "module";

function group(profile: Profile, name: string, module: string, ops: number[]): Group {
  const { ops: table, analysis } = profile;
  const total = (value: (op: number) => number) => sum(ops.map(value));
  return { name, module, ops, duration: total((op) => table.duration[op]), calls: total((op) => table.calls[op]),
    flops: total((op) => table.flops[op] * table.calls[op]),
    bytes: total((op) => (table.bytes_read[op] + table.bytes_written[op]) * table.calls[op]),
    limit: total((op) => (analysis.op_limits[op] ?? 0) * table.calls[op]) };
}

function groups(profile: Profile, by: Grouping): Group[] {
  const { ops } = profile;
  if (by === "op") return indices(ops.name.length).map((op) => group(profile, ops.name[op], ops.module[op], [op]));
  const together = new Map<string, number[]>();
  for (const op of indices(ops.name.length)) {
    const key = by === "name" ? ops.name[op] : ops.module[op];
    const list = together.get(key);
    if (list) list.push(op);
    else together.set(key, [op]);
  }
  return [...together].map(([key, list]) => by === "name"
    ? group(profile, key, "", list) : group(profile, format.plural(list.length, "op"), key, list));
}

const badge = (text: string, style = "") => h("span", { class: `badge ${style}` }, text);

export function badges(profile: Profile, ops: number[]): HTMLElement[] {
  const { ops: table } = profile;
  const result = [];
  if (ops.length === 1 && table.num_parts[ops[0]] > 1) result.push(badge(`fused ${table.num_parts[ops[0]]}`));
  if (ops.some((op) => table.calls_host[op])) result.push(badge("host", "warning"));
  if (ops.length === 1 && table.is_copy[ops[0]]) result.push(badge("copy"));
  return result;
}

function columns(profile: Profile, rows: Group[], by: Grouping): TableColumn[] {
  const total = totalOpTime(profile);
  const of = (row: number) => rows[row];
  const where = (row: number) => {
    const own = new Set(of(row).ops.map((op) => deviceOfOp(profile, op)));
    return own.size === 1 ? [...own][0] : -1;
  };
  const pass = (row: number) => {
    const own = new Set(of(row).ops.map((op) => profile.ops.pass[op]));
    return own.size === 1 ? [...own][0] : "all";
  };
  const share = (row: number) => (total > 0 ? of(row).duration / total : 0);
  const largest = max(indices(rows.length).map(share), 1e-12);
  const efficiency = (row: number) => (of(row).duration > 0 ? of(row).limit / of(row).duration : 0);
  const perSecond = (value: number, row: number) => (of(row).duration > 0 ? value / (of(row).duration * 1e-9) : 0);
  const each = (value: number, row: number) => (of(row).calls > 0 ? value / of(row).calls : 0);
  const all: TableColumn[] = [
    { title: "Op", width: "minmax(6.5rem,1fr)", value: (row) => of(row).name,
      show: (row) => h("span", { class: "op-name", title: of(row).name }, h("span", {}, of(row).name), ...badges(profile, of(row).ops)) },
    { title: "Module", width: "minmax(6rem,1.6fr)", value: (row) => of(row).module,
      show: (row) => h("span", { class: "tail", title: of(row).module }, h("bdi", {}, of(row).module || "–")) },
    { title: "Device", width: "3.4rem", numeric: true, minor: true, value: where, show: (row) => (where(row) < 0 ? "all" : String(where(row))) },
    { title: "Pass", width: "5.1rem", minor: true, value: pass, show: pass },
    { title: "Calls", width: "3.8rem", numeric: true, minor: true, value: (row) => of(row).calls, show: (row) => format.count(of(row).calls) },
    { title: "Time", width: "4.7rem", numeric: true, value: (row) => of(row).duration, show: (row) => format.time(of(row).duration) },
    { title: "Share", width: "6rem", numeric: true, minor: true, value: share,
      show: (row) => withBar(share(row) / largest, format.percent(share(row))) },
    { title: "A call", width: "4.7rem", numeric: true, minor: true, explain: "Mean time of one call",
      value: (row) => each(of(row).duration, row), show: (row) => format.time(each(of(row).duration, row)) },
    { title: "Bytes", width: "4.8rem", numeric: true, minor: true, explain: "Read and written by one call",
      value: (row) => each(of(row).bytes, row), show: (row) => format.bytes(each(of(row).bytes, row)) },
    { title: "FLOPs", width: "6rem", numeric: true, minor: true, explain: "Of one call",
      value: (row) => each(of(row).flops, row), show: (row) => format.flops(each(of(row).flops, row)) },
    { title: "Rate", width: "6.6rem", numeric: true, minor: true, explain: "What it achieves",
      value: (row) => perSecond(of(row).flops, row), show: (row) => format.flopRate(perSecond(of(row).flops, row)) },
    { title: "Of limit", width: "4.1rem", numeric: true, minor: true,
      explain: "Time at the limit of the processor or its memory, whichever is closer, over the time it took",
      value: efficiency, show: (row) => (of(row).limit > 0 ? format.percent(efficiency(row)) : "–") },
  ];
  return by === "name" ? all.filter((column) => column.title !== "Module") : all;
}

function details(profile: Profile, chosen: Group): HTMLElement {
  const { ops } = profile;
  const op = chosen.ops[0];
  if (chosen.ops.length > 1) {
    return h("div", { class: "chosen" }, h("h3", {}, chosen.module || chosen.name),
      h("p", { class: "lead" }, `${format.plural(chosen.ops.length, "op")}, ${format.time(chosen.duration)} in all.`));
  }
  const pairs: [string, string][] = [["Module", ops.module[op] || "–"], ["Source", ops.source[op] || "–"],
    ["Task", profile.tasks.name[ops.task[op]]], ["Kernel", ops.kernel[op] || "the only one"],
    ["Shortest and longest", `${format.time(ops.shortest[op])} – ${format.time(ops.longest[op])}`],
    ["Reads and writes", `${format.bytes(ops.bytes_read[op])}, ${format.bytes(ops.bytes_written[op])}`],
    ["At the limit", profile.analysis.op_limits[op] > 0 ? `${format.time(profile.analysis.op_limits[op])} a call` : "not known"]];
  return h("div", { class: "chosen" }, h("h3", {}, ops.name[op], ...badges(profile, [op])),
    h("dl", { class: "pairs" }, pairs.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
    h("pre", { tabindex: "0", "aria-label": "Text form" }, ops.text[op]));
}

export function operatorsView(profile: Profile): HTMLElement {
  let by: Grouping = "op";
  let rows: Group[] = [];
  const filter = { name: "", module: "", device: "", pass: "", only: "" };
  const place = h("div", {}), chosen = h("div", { "aria-live": "polite" }), found = h("p", { class: "lead", role: "status" });
  let table: DataTable;

  const matches = (op: number) => {
    const { ops } = profile;
    return ops.name[op].toLowerCase().includes(filter.name) && ops.module[op].toLowerCase().includes(filter.module) &&
      (!filter.device || deviceOfOp(profile, op) === Number(filter.device)) && (!filter.pass || ops.pass[op] === filter.pass) &&
      (!filter.only || (filter.only === "host" ? ops.calls_host[op] : ops.num_parts[op] > 1));
  };
  const apply = () => {
    const kept = indices(rows.length).filter((row) => rows[row].ops.some(matches));
    const time = sum(kept.map((row) => rows[row].duration));
    found.textContent = `${format.plural(kept.length, by === "op" ? "op" : "row")}, ${format.time(time)}, ` +
      `${format.percent(time / Math.max(totalOpTime(profile), 1))} of the time of all ops.`;
    chosen.replaceChildren();
    table.setRows(kept);
  };
  const make = (grouping: Grouping) => {
    by = grouping;
    rows = groups(profile, by);
    const all = columns(profile, rows, by);
    table = new DataTable("Operators", all, all.findIndex((column) => column.title === "Time"), true,
      (row) => chosen.replaceChildren(details(profile, rows[row])));
    place.replaceChildren(table.element);
    apply();
  };
  const lower = (key: "name" | "module") => (value: string) => {
    filter[key] = value.trim().toLowerCase();
    apply();
  };
  const set = (key: "device" | "pass" | "only") => (value: string) => {
    filter[key] = value;
    apply();
  };
  const any = { value: "", text: "All" };
  make("op");
  return h("div", { class: "view" }, h("section", { "aria-label": "Operators" },
    h("div", { class: "toolbar" },
      choice("Rows", [{ value: "op", text: "Each op" }, { value: "name", text: "By kind" }, { value: "module", text: "By module" }], by, make),
      search("Name", "dot", lower("name")), search("Module", "encoder/layers/0", lower("module")),
      select("Device", [any, ...devices(profile).map((device) => ({ value: String(device), text: String(device) }))], set("device")),
      select("Pass", [any, ...[...new Set(profile.ops.pass)].map((pass) => ({ value: pass, text: pass }))], set("pass")),
      select("Only", [any, { value: "host", text: "host calls" }, { value: "fused", text: "fused groups" }], set("only"))),
    found, place, chosen));
}
