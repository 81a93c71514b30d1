// The two drawings of a device's memory over one step: bytes alive by kind, and the map of the arena by offset.
import { drawing, Drawing, fitText, ticks } from "./canvas";
import { bufferColour, mix, theme } from "./colours";
import * as format from "./format";
import { Liveness, totalAt } from "./liveness";
import { max, Profile, sum } from "./profile";
import * as tooltip from "./tooltip";
import { steer, View } from "./view";

const left = 76, bottom = 24, top = 14;

// What both share: an axis of ops, a position that is chosen.
export class MemoryAxis {
  readonly view: View;
  at: number;
  private readonly drawings: Drawing[] = [];
  onChoose: (at: number) => void = () => {};

  constructor(readonly profile: Profile, readonly live: Liveness, peak: number) {
    this.at = peak;
    this.view = new View(0, Math.max(live.ops.length, 1), 4, () => this.redraw());
  }
  add(drawing: Drawing): void {
    this.drawings.push(drawing);
    steer(drawing.canvas, this.view, () => left);
    drawing.canvas.addEventListener("click", (event) => this.choose(this.positionOf(drawing, event)));
    drawing.canvas.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10 }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      this.choose(this.at + step);
      this.view.reveal(this.at, this.at + 1);
    });
  }
  redraw(): void { this.drawings.forEach((each) => each.redraw()); }
  choose(at: number): void {
    this.at = Math.min(Math.max(at, 0), Math.max(this.live.ops.length - 1, 0));
    this.onChoose(this.at);
    this.redraw();
  }
  x(position: number, width: number) { return left + ((position - this.view.from) / this.view.span) * (width - left); }
  positionOf(drawing: Drawing, event: MouseEvent): number {
    const box = drawing.canvas.getBoundingClientRect();
    const share = (event.clientX - box.left - left) / (box.width - left);
    return Math.min(Math.max(Math.floor(this.view.from + share * this.view.span), 0), Math.max(this.live.ops.length - 1, 0));
  }
  opRows(at: number): [string, string][] {
    const op = this.live.ops[at];
    if (op === undefined) return [];
    const { ops, tasks } = this.profile;
    return [["Op", ops.name[op]], ["Module", ops.module[op] || "–"], ["Task", tasks.name[ops.task[op]]]];
  }
  // Names of tasks under the axis, lines where they begin, and the position that is chosen.
  drawTasks(context: CanvasRenderingContext2D, width: number, height: number): void {
    const colours = theme();
    const { ops } = this.live;
    context.textBaseline = "middle";
    context.textAlign = "left";
    for (let i = 0; i < ops.length;) {
      const task = this.profile.ops.task[ops[i]];
      let end = i;
      while (end < ops.length && this.profile.ops.task[ops[end]] === task) end += 1;
      const [from, to] = [Math.max(this.x(i, width), left), Math.min(this.x(end, width), width)];
      if (to > left && from < width) {
        context.fillStyle = colours.line;
        context.fillRect(from, top, 1, height - top);
        context.fillStyle = colours.muted;
        const label = fitText(context, this.profile.tasks.name[task], to - from - 10);
        if (label.length > 2) context.fillText(label, from + 5, height - bottom / 2 + 2);
      }
      i = end;
    }
    const x = this.x(this.at + 0.5, width);
    if (x < left) return;
    context.fillStyle = colours.text;
    context.fillRect(x - 0.75, top, 1.5, height - bottom - top);
  }
}

function drawScale(context: CanvasRenderingContext2D, width: number, height: number, most: number, y: (bytes: number) => number) {
  const colours = theme();
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (const tick of ticks(0, most, (height - bottom) / 44, 2)) {
    context.fillStyle = colours.line;
    context.fillRect(left, y(tick), width - left, 1);
    context.fillStyle = colours.muted;
    context.fillText(format.bytes(tick), left - 8, y(tick));
  }
}

export function usageChart(axis: MemoryAxis, device: number, budget: number): Drawing {
  const { live } = axis;
  const length = Math.max(live.ops.length, 1);
  const totals = Float64Array.from({ length }, (_, i) => totalAt(live, i));
  const peak = max(totals);
  const showsBudget = budget > 0 && budget < peak * 3;
  const most = Math.max(peak, showsBudget ? budget : 0) * 1.06;
  const chart = drawing(`Memory of device ${device} alive over one step: at most ${format.bytes(peak)}, ` +
    `${format.bytes(sum(live.always))} of it always${budget > 0 ? `; budget ${format.bytes(budget)}` : ""}. Arrow keys choose an op; the table below shows what is alive then.`, () => 280,
  (context, width, height) => {
    const colours = theme();
    const y = (bytes: number) => height - bottom - (bytes / most) * (height - bottom - top);
    drawScale(context, width, height, most, y);
    context.save();
    context.beginPath();
    context.rect(left, 0, width - left, height);
    context.clip();
    const [from, to] = [Math.max(Math.floor(axis.view.from), 0), Math.min(Math.ceil(axis.view.to), length)];
    const below = new Float64Array(length);
    live.kinds.forEach((kind, k) => {
      context.fillStyle = bufferColour(kind);
      context.beginPath();
      for (let i = from; i < to; ++i) {
        context.lineTo(axis.x(i, width), y(below[i] + live.bytes[k][i]));
        context.lineTo(axis.x(i + 1, width), y(below[i] + live.bytes[k][i]));
      }
      for (let i = to - 1; i >= from; --i) {
        context.lineTo(axis.x(i + 1, width), y(below[i]));
        context.lineTo(axis.x(i, width), y(below[i]));
        below[i] += live.bytes[k][i];
      }
      context.fill();
    });
    axis.drawTasks(context, width, height);
    const always = sum(live.always);
    const line = (bytes: number, text: string, colour: string, dash: number[], above: boolean) => {
      context.strokeStyle = context.fillStyle = colour;
      context.lineWidth = 1.5;
      context.setLineDash(dash);
      context.beginPath();
      context.moveTo(left, y(bytes));
      context.lineTo(width, y(bytes));
      context.stroke();
      context.setLineDash([]);
      context.textAlign = "right";
      const wide = context.measureText(text).width;
      context.fillStyle = colours.panel;
      context.globalAlpha = 0.85;
      context.fillRect(width - wide - 12, y(bytes) + (above ? -19 : 3), wide + 10, 16);
      context.globalAlpha = 1;
      context.fillStyle = colours.text;
      context.fillText(text, width - 7, y(bytes) + (above ? -11 : 11));
    };
    const isOver = showsBudget && always > budget;  // names stand on the sides that the lines turn away from each other
    line(always, `always live ${format.bytes(always)}`, colours.text, [2, 3], isOver);
    if (showsBudget) line(budget, `budget ${format.bytes(budget)}`, "#d55e00", [8, 4], !isOver);
    context.restore();
  });
  Object.assign(chart.canvas.dataset, { left, top, bottom, most });
  axis.add(chart);
  chart.canvas.addEventListener("pointermove", (event) => {
    if (event.buttons > 0) return tooltip.hide();
    const at = axis.positionOf(chart, event);
    tooltip.show(event.clientX, event.clientY, `${format.bytes(totals[at])} alive`, [...axis.opRows(at),
      ...live.kinds.map((kind, k): [string, string] => [kind, format.bytes(live.bytes[k][at])]).reverse()]);
  });
  chart.canvas.addEventListener("pointerleave", tooltip.hide);
  return chart;
}

export function arenaMap(axis: MemoryAxis, device: number): Drawing {
  const { live, profile } = axis;
  const { buffers, regions } = profile.memory;
  const own = regions.name.map((_, i) => i).filter((i) => regions.device[i] === device && !regions.on_host[i]);
  const most = Math.max(1, ...own.map((i) => regions.offset[i] + regions.bytes[i]));
  const span = (i: number): [number, number] => buffers.first[i] < 0
    ? [0, live.ops.length] : [live.position[buffers.first[i]], live.position[buffers.last[i] + 1]];
  const map = drawing(`Map of the memory of device ${device}: ${format.plural(live.buffers.length, "buffer")} by offset ` +
    `over one step, ${format.bytes(most)} in ${format.plural(own.length, "region")}.`, () => 320, (context, width, height) => {
    const colours = theme();
    const y = (offset: number) => top + (offset / most) * (height - bottom - top);
    drawScale(context, width, height, most, y);
    context.save();
    context.beginPath();
    context.rect(left, 0, width - left, height);
    context.clip();
    for (const i of live.buffers) {
      const [from, to] = span(i).map((position) => axis.x(position, width));
      for (let copy = 0; copy < buffers.copies[i]; ++copy) {
        // The copies of other micro-batches are alive all the time, as far as a plan can tell.
        const [a, b] = copy === 0 ? [from, to] : [left, width];
        const offset = buffers.offset[i] + copy * buffers.stride[i];
        const tall = y(offset + buffers.bytes[i]) - y(offset);
        context.fillStyle = copy === 0 ? bufferColour(buffers.kind[i]) : mix(bufferColour(buffers.kind[i]), colours.panel, 0.55);
        context.fillRect(a, y(offset), Math.max(b - a, 0.5), Math.max(tall - (tall > 3 ? 0.5 : 0), 0.3));
      }
    }
    for (const i of own) {
      context.fillStyle = colours.text;
      context.fillRect(left, y(regions.offset[i]), width - left, 1);
      if (y(regions.bytes[i]) - y(0) < 14) continue;
      context.textAlign = "left";
      const wide = context.measureText(regions.name[i]).width;
      context.fillStyle = colours.panel;
      context.globalAlpha = 0.85;
      context.fillRect(left + 4, y(regions.offset[i]) + 3, wide + 8, 16);
      context.globalAlpha = 1;
      context.fillStyle = colours.text;
      context.fillText(regions.name[i], left + 8, y(regions.offset[i]) + 11);
    }
    axis.drawTasks(context, width, height);
    context.restore();
  });
  axis.add(map);
  const bufferAt = (event: MouseEvent) => {
    const at = axis.positionOf(map, event);
    const box = map.canvas.getBoundingClientRect();
    const offset = ((event.clientY - box.top - top) / (box.height - bottom - top)) * most;
    return live.buffers.find((i) => {
      const within = offset - buffers.offset[i];
      const copy = buffers.copies[i] > 1 ? Math.floor(within / Math.max(buffers.stride[i], 1)) : 0;
      if (within < 0 || copy >= buffers.copies[i] || within - copy * buffers.stride[i] > buffers.bytes[i]) return false;
      const [from, to] = span(i);
      return copy > 0 || (at >= from && at < to);
    });
  };
  map.canvas.addEventListener("pointermove", (event) => {
    const i = bufferAt(event);
    if (i === undefined || event.buttons > 0) return tooltip.hide();
    tooltip.show(event.clientX, event.clientY, buffers.name[i] || buffers.kind[i], [
      ["Kind", buffers.kind[i]], ["Size", format.bytes(buffers.bytes[i])],
      ...(buffers.copies[i] > 1 ? [["Copies", String(buffers.copies[i])] as [string, string]] : []),
      ["Offset", format.count(buffers.offset[i])], ["Module", buffers.module[i] || "–"]]);
  });
  map.canvas.addEventListener("pointerleave", tooltip.hide);
  return map;
}
