// Memory: what is alive on a device over one step, the largest buffers at any moment, and where they lie.
import { bufferColour } from "./colours";
import { choice, h, section, simpleTable, withBar } from "./dom";
import * as format from "./format";
import { bytesAt, Liveness, liveness, totalAt } from "./liveness";
import { arenaMap, MemoryAxis, usageChart } from "./memory_charts";
import { devices, indices, Profile } from "./profile";

const swatch = (kind: string) => h("span", { class: "swatch", style: `background:${bufferColour(kind)}` });

function largest(profile: Profile, live: Liveness, at: number): HTMLElement {
  const { buffers } = profile.memory;
  const total = totalAt(live, at);
  const found = live.buffers.map((i) => ({ i, alive: bytesAt(profile, live, i, at) })).filter((row) => row.alive > 0)
    .sort((a, b) => b.alive - a.alive).slice(0, 15);
  const rows = found.map(({ i, alive }) => [
      h("span", { class: "long" }, buffers.name[i] || "–"), h("span", {}, swatch(buffers.kind[i]), buffers.kind[i]),
      h("span", { class: "long" }, buffers.module[i] || "–"),
      buffers.first[i] < 0 ? "always" : buffers.copies[i] > 1 ? `${buffers.copies[i]} micro-batches` : "for a while",
      withBar(alive / found[0].alive, format.bytes(alive)), format.percent(alive / total)]);
  const op = live.ops[at];
  return h("div", {},
    h("p", { class: "lead" }, `${format.bytes(total)} alive` + (op === undefined ? "." :
      ` while ${profile.ops.name[op]} runs${profile.ops.module[op] ? ` in ${profile.ops.module[op]}` : ""} ` +
      `(${profile.tasks.name[profile.ops.task[op]]}).`)),
    simpleTable("Largest buffers at the chosen op", ["Buffer", "Kind", "Module", "Alive", "Size", "Share"], rows, [4, 5]));
}

function offloaded(profile: Profile, device: number): HTMLElement {
  const { buffers } = profile.memory;
  const own = indices(buffers.name.length).filter((i) => buffers.on_host[i] && buffers.device[i] === device)
    .sort((a, b) => buffers.bytes[b] * buffers.copies[b] - buffers.bytes[a] * buffers.copies[a]);
  const total = own.reduce((sum, i) => sum + buffers.bytes[i] * buffers.copies[i], 0);
  return section("Kept off the device", own.length === 0
    ? h("p", { class: "lead" }, "Nothing: all of it lies on the device.")
    : h("div", {}, h("p", { class: "lead" }, `${format.bytes(total)} in ${format.plural(own.length, "buffer")} of host memory.`),
      simpleTable("Largest buffers in host memory", ["Buffer", "Kind", "Module", "Size"], own.slice(0, 20).map((i) => [
        h("span", { class: "long" }, buffers.name[i]), h("span", {}, swatch(buffers.kind[i]), buffers.kind[i]),
        h("span", { class: "long" }, buffers.module[i] || "–"), format.bytes(buffers.bytes[i] * buffers.copies[i])]), [3])));
}

function overview(profile: Profile): HTMLElement {
  const { memory } = profile.analysis;
  const { budget } = profile.memory;
  const most = Math.max(budget, ...memory.peak, 1);
  return section("Devices", simpleTable("Memory of each device",
    ["Device", "", "Peak", "Always live", "Not always live", "Reserved", "On the host", ...(budget > 0 ? ["Budget"] : [])],
    indices(memory.device.length).map((i) => [
      `Device ${memory.device[i]}`,
      h("span", { class: "stack", "aria-hidden": "true" },
        h("span", { class: "part-busy", style: `width:${(memory.always_live[i] / most) * 100}%` }),
        h("span", { class: "part-bubble", style: `width:${((memory.peak[i] - memory.always_live[i]) / most) * 100}%` })),
      format.bytes(memory.peak[i]), format.bytes(memory.always_live[i]), format.bytes(memory.peak[i] - memory.always_live[i]),
      format.bytes(memory.reserved[i]), format.bytes(memory.reserved_host[i]),
      ...(budget > 0 ? [`${memory.peak[i] > budget ? "over by" : "under by"} ${format.bytes(Math.abs(memory.peak[i] - budget))}`] : []),
    ]), [2, 3, 4, 5, 6, 7]));
}

function deviceView(profile: Profile, device: number): HTMLElement {
  const live = liveness(profile, device);
  const use = profile.analysis.memory;
  const peakOp = use.peak_op[use.device.indexOf(device)];
  const axis = new MemoryAxis(profile, live, peakOp >= 0 ? live.position[peakOp] : 0);
  const table = h("div", { "aria-live": "polite" }, largest(profile, live, axis.at));
  const title = h("h2", { id: "largest-buffers" }, "Largest buffers at the peak");
  axis.onChoose = (at) => {
    title.textContent = live.ops[at] === peakOp ? "Largest buffers at the peak" : "Largest buffers at the chosen op";
    table.replaceChildren(largest(profile, live, at));
  };
  const toolbar = h("div", { class: "toolbar" },
    h("div", { class: "choice", role: "group", "aria-label": "Zoom" },
      h("button", { type: "button", "aria-label": "Zoom out", onclick: () => axis.view.scale(1 / 0.6) }, "−"),
      h("button", { type: "button", "aria-label": "Zoom in", onclick: () => axis.view.scale(0.6) }, "+"),
      h("button", { type: "button", "aria-label": "Fit the whole step", onclick: () => axis.view.fit() }, "Fit")),
    h("button", { type: "button", class: "plain", onclick: () => axis.choose(peakOp >= 0 ? live.position[peakOp] : 0) }, "Go to peak"),
    h("p", { class: "hint" }, "Click, or use the arrow keys, to choose an op."));
  return h("div", { class: "view" },
    h("section", { "aria-label": "Memory over one step" }, toolbar,
      h("ul", { class: "legend" }, live.kinds.map((kind) => h("li", {}, swatch(kind), kind))),
      usageChart(axis, device, profile.memory.budget).element),
    h("section", { "aria-labelledby": "largest-buffers" }, title, table),
    section("Map of the arena", h("p", { class: "lead" }, "Every buffer at its offset, for as long as it is alive. " +
      "Pale: the same buffer for other micro-batches under way."), arenaMap(axis, device).element),
    offloaded(profile, device));
}

export function memoryView(profile: Profile): HTMLElement {
  const all = devices(profile);
  const place = h("div", {});
  const open = (device: number) => place.replaceChildren(deviceView(profile, device));
  const peak = all[profile.analysis.memory.peak.indexOf(Math.max(...profile.analysis.memory.peak))] ?? 0;
  open(peak);
  return h("div", { class: "view" },
    all.length > 1 ? h("div", { class: "toolbar" }, choice("Device",
      all.map((device) => ({ value: String(device), text: String(device) })), String(peak), (device) => open(Number(device)))) : null,
    place, overview(profile));
}
