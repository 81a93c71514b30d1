// The drawing of the execution trace: a lane for each device of each replica, blocks above, their ops below.
import { drawing, Drawing, fitText, ticks } from "./canvas";
import { BlockColouring, blockColour, mix, opColour, textOn, theme, Theme } from "./colours";
import * as format from "./format";
import { Profile } from "./profile";
import * as tooltip from "./tooltip";
import { describe, Item, lastCall, opAt, Track, tracksOf, window as tracedWindow } from "./tracks";
import { steer, View } from "./view";

const axisHeight = 26, blockHeight = 30, opHeight = 16, gap = 10;

export class Timeline {
  readonly drawing: Drawing;
  readonly view: View;
  readonly tracks: Track[];
  colouring: BlockColouring = "micro-batch";
  showsPath = false;
  onSelect: (item: Item) => void = () => {};
  private readonly path: Set<number>;
  private track = -1;
  private item = -1;

  constructor(private readonly profile: Profile) {
    this.tracks = tracksOf(profile);
    this.path = new Set(profile.analysis.critical_path);
    const [begin, end] = tracedWindow(profile);
    const margin = (end - begin) * 0.01;
    this.view = new View(begin - margin, end + margin, 200, () => this.drawing.redraw());
    const workers = this.tracks.filter((track) => track.isWorker).length;
    this.drawing = drawing(
      `Execution trace: ${format.plural(workers, "device lane")}, ${format.time(end - begin)}. Arrow keys move between ` +
      "blocks and lanes, plus and minus zoom, 0 shows all, Enter zooms to the block.",
      () => axisHeight + this.tracks.reduce((total, track) => total + this.heightOf(track), 0),
      (context, width) => this.draw(context, width));
    const { canvas } = this.drawing;
    steer(canvas, this.view, () => this.gutter());
    canvas.addEventListener("pointermove", (event) => this.hover(event));
    canvas.addEventListener("pointerleave", tooltip.hide);
    canvas.addEventListener("click", (event) => this.click(event));
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", tooltip.hide);
    this.showLastCall();
  }

  // Of many calls one cannot see anything at once; the last has warmed up.
  showLastCall(): void {
    const [begin, end] = lastCall(this.profile);
    const margin = (end - begin) * 0.01;
    this.view.set(begin - margin, end + margin);
  }

  private gutter() { return this.drawing.width() < 640 ? 52 : 148; }
  private heightOf(track: Track) { return track.isWorker ? blockHeight + opHeight + gap : 20 + gap; }
  private x(at: number, width: number) {
    return this.gutter() + ((at - this.view.from) / this.view.span) * (width - this.gutter());
  }

  private draw(context: CanvasRenderingContext2D, width: number): void {
    const colours = theme();
    this.drawAxis(context, width, colours);
    const tops: number[] = [];
    let top = axisHeight;
    this.tracks.forEach((track, i) => {
      tops.push(top);
      context.fillStyle = colours.line;
      context.fillRect(0, top - gap / 2, width, 1);
      context.save();
      context.beginPath();
      context.rect(this.gutter(), top - 3, width - this.gutter(), this.heightOf(track));
      context.clip();
      this.drawTrack(context, track, i, top, width, colours);
      context.restore();
      context.fillStyle = colours.text;
      context.textBaseline = "middle";
      context.textAlign = "left";
      const name = this.gutter() < 100 ? track.short : track.name;
      context.fillText(fitText(context, name, this.gutter() - 12), 4, top + (track.isWorker ? blockHeight : 20) / 2);
      top += this.heightOf(track);
    });
    // Where things are, for tests and for who looks at the document.
    Object.assign(this.drawing.canvas.dataset, { from: this.view.from, to: this.view.to, gutter: this.gutter(), tops: tops.join(" ") });
  }

  private drawAxis(context: CanvasRenderingContext2D, width: number, colours: Theme): void {
    context.textBaseline = "middle";
    context.textAlign = "center";
    const start = tracedWindow(this.profile)[0];
    for (const tick of ticks(this.view.from - start, this.view.to - start, (width - this.gutter()) / 110)) {
      const x = this.x(tick + start, width);
      if (x < this.gutter()) continue;
      context.fillStyle = colours.line;
      context.fillRect(x, axisHeight - 6, 1, 1e4);
      context.fillStyle = colours.muted;
      if (x > this.gutter() + 20 && x < width - 24) context.fillText(format.time(tick), x, 10);
    }
  }

  private drawTrack(context: CanvasRenderingContext2D, track: Track, index: number, top: number, width: number,
    colours: Theme): void {
    let shown = -1;  // pixels up to which something was drawn: what is too thin to see is drawn once
    const height = track.isWorker ? blockHeight : 20;
    track.items.forEach((item, i) => {
      const left = this.x(item.begin, width);
      const right = this.x(item.begin + item.duration, width);
      const isSelected = index === this.track && i === this.item;
      if (right < this.gutter() || left > width || (right - shown < 0.5 && !isSelected)) return;
      shown = right;
      const wide = Math.max(right - left, 0.75);
      const colour = this.colourOf(item, colours);
      context.fillStyle = colour;
      context.fillRect(left, top, wide > 3 ? wide - 1 : wide, height);
      if (wide > 18) {
        context.fillStyle = textOn(colour);
        context.textAlign = "center";
        const [from, to] = [Math.max(left, this.gutter()), Math.min(right, width)];
        const label = fitText(context, item.label, to - from - 6);
        if (label) context.fillText(label, (from + to) / 2, top + height / 2 + 0.5);
      }
      if (isSelected || (this.showsPath && this.path.has(item.block))) {
        context.strokeStyle = isSelected ? colours.accent : colours.text;
        context.lineWidth = 2;
        context.strokeRect(left + 1, top + 1, Math.max(wide - 3, 1), height - 2);
      }
      if (track.isWorker && wide > 12) this.drawOps(context, item, top + blockHeight + 1, width, colours.panel);
    });
  }

  private colourOf(item: Item, colours: Theme): string {
    const { blocks } = this.profile.trace;
    const task = item.block < 0 ? -1 : blocks.task[item.block];
    const colour = item.block < 0
      ? mix(colours.muted, colours.panel, 0.55)
      : blockColour(this.colouring, item.kind, Math.max(blocks.micro_batch[item.block], 0),
        task < 0 ? 0 : this.profile.tasks.stage[task], colours.panel);
    const isDimmed = this.showsPath && item.block >= 0 && !this.path.has(item.block);
    return isDimmed ? mix(colour, colours.panel, 0.75) : colour;
  }

  private drawOps(context: CanvasRenderingContext2D, item: Item, top: number, width: number, panel: string): void {
    const { blocks, op_durations: durations } = this.profile.trace;
    const { ops } = this.profile;
    const first = item.block < 0 ? -1 : blocks.op_durations[item.block];
    if (first < 0) return;
    const scale = (width - this.gutter()) / this.view.span;
    let left = this.x(item.begin, width);
    let start = left, longest = 0, longestOp = -1;
    for (let i = 0; i < blocks.num_ops[item.block] && start < width; ++i) {
      const duration = durations[first + i];
      left += duration * scale;
      if (duration >= longest) [longest, longestOp] = [duration, blocks.first_op[item.block] + i];
      if (left - start < 1 && i + 1 < blocks.num_ops[item.block]) continue;  // together with the next: too thin alone
      if (left > this.gutter()) {
        const colour = mix(opColour(ops.name[longestOp], ops.calls_host[longestOp]), panel, 0.4);
        context.fillStyle = colour;
        context.fillRect(start, top, Math.max(left - start - (left - start > 3 ? 1 : 0), 0.5), opHeight - 2);
        if (left - start > 40) {
          context.fillStyle = textOn(colour);
          context.textAlign = "left";
          context.fillText(fitText(context, ops.name[longestOp], left - start - 8), Math.max(start, this.gutter()) + 4, top + 7);
        }
      }
      start = left;
      longest = 0;
    }
  }

  private at(event: MouseEvent): { track: number; item: number; op: number; opDuration: number } | null {
    const box = this.drawing.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    if (x < this.gutter()) return null;
    const when = this.view.from + ((x - this.gutter()) / (box.width - this.gutter())) * this.view.span;
    let top = axisHeight;
    for (const [i, track] of this.tracks.entries()) {
      const within = y - top;
      if (within >= 0 && within < this.heightOf(track) - gap / 2) {
        const slack = (this.view.span / (box.width - this.gutter())) * 2;
        const item = track.items.findIndex((each) => when >= each.begin - slack && when <= each.begin + each.duration + slack);
        if (item < 0) return null;
        const found = track.isWorker && within > blockHeight && track.items[item].block >= 0
          ? opAt(this.profile, track.items[item].block, when) : { op: -1, duration: 0 };
        return { track: i, item, op: found.op, opDuration: found.duration };
      }
      top += this.heightOf(track);
    }
    return null;
  }

  private hover(event: PointerEvent): void {
    const found = this.at(event);
    this.drawing.canvas.style.cursor = found ? "pointer" : "default";
    if (!found || event.buttons > 0) return tooltip.hide();
    const text = describe(this.profile, this.tracks[found.track].items[found.item], found.op, found.opDuration);
    tooltip.show(event.clientX, event.clientY, text.title, text.rows);
  }

  private click(event: MouseEvent): void {
    const found = this.at(event);
    if (found) this.select(found.track, found.item);
  }

  private select(track: number, item: number): void {
    [this.track, this.item] = [track, item];
    this.onSelect(this.tracks[track].items[item]);
    this.drawing.redraw();
  }

  private key(event: KeyboardEvent): void {
    const [dx, dy] = [{ ArrowRight: 1, ArrowLeft: -1 }[event.key] ?? 0, { ArrowDown: 1, ArrowUp: -1 }[event.key] ?? 0];
    if (event.key === "Enter" && this.track >= 0) {
      const item = this.tracks[this.track].items[this.item];
      this.view.set(item.begin - item.duration * 0.05, item.begin + item.duration * 1.05);
      event.preventDefault();
    }
    if (dx === 0 && dy === 0) return;
    event.preventDefault();
    if (this.track < 0) {
      this.select(this.tracks.findIndex((track) => track.isWorker), 0);
    } else if (dx !== 0) {
      const { items } = this.tracks[this.track];
      this.select(this.track, Math.min(Math.max(this.item + dx, 0), items.length - 1));
    } else {
      const next = Math.min(Math.max(this.track + dy, 0), this.tracks.length - 1);
      const when = this.tracks[this.track].items[this.item].begin;
      const { items } = this.tracks[next];
      const after = items.findIndex((item) => item.begin + item.duration > when);
      this.select(next, after < 0 ? items.length - 1 : after);
    }
    this.showSelected();
  }

  // The tooltip beside what the keys have come to.
  private showSelected(): void {
    const item = this.tracks[this.track].items[this.item];
    this.view.reveal(item.begin, item.begin + item.duration);
    const box = this.drawing.canvas.getBoundingClientRect();
    const top = this.tracks.slice(0, this.track).reduce((total, track) => total + this.heightOf(track), axisHeight);
    const text = describe(this.profile, item);
    tooltip.show(box.left + this.x(item.begin + item.duration / 2, box.width), box.top + top + blockHeight, text.title, text.rows);
  }
}
