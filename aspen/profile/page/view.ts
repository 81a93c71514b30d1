// The stretch of an axis that is shown: zoomed and moved by pointer, wheel, fingers and keys.
export class View {
  constructor(readonly begin: number, readonly end: number, private readonly least: number,
    private readonly changed: () => void) {
    this.from = begin;
    this.to = end;
  }
  from: number;
  to: number;
  get span() { return this.to - this.from; }
  get zoom() { return (this.end - this.begin) / this.span; }

  set(from: number, to: number): void {
    const span = Math.min(Math.max(to - from, this.least), this.end - this.begin);
    const middle = (from + to) / 2;
    this.from = Math.min(Math.max(middle - span / 2, this.begin), this.end - span);
    this.to = this.from + span;
    this.changed();
  }
  scale(factor: number, at = (this.from + this.to) / 2): void {
    this.set(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }
  move(by: number): void {
    const kept = Math.min(Math.max(by, this.begin - this.from), this.end - this.to);
    this.set(this.from + kept, this.to + kept);
  }
  fit(): void { this.set(this.begin, this.end); }
  // Makes sure that something can be seen.
  reveal(begin: number, end: number): void {
    if (begin >= this.from && end <= this.to) return;
    const middle = (begin + end) / 2;
    const span = Math.max(this.span, (end - begin) * 1.2);
    this.set(middle - span / 2, middle + span / 2);
  }
}

// left: pixels before the axis begins.
export function steer(canvas: HTMLCanvasElement, view: View, left: () => number): void {
  const perPixel = () => view.span / Math.max(canvas.clientWidth - left(), 1);
  const at = (x: number) => view.from + (x - canvas.getBoundingClientRect().left - left()) * perPixel();

  canvas.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      view.scale(Math.exp(Math.max(-80, Math.min(80, event.deltaY)) * 0.006), at(event.clientX));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      view.move((event.shiftKey ? event.deltaY : event.deltaX) * perPixel());
    }
  }, { passive: false });

  const pointers = new Map<number, number>();
  canvas.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, event.clientX);
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (before === undefined) return;
    if (pointers.size === 1) {
      view.move((before - event.clientX) * perPixel());
    } else {
      const other = [...pointers].find(([id]) => id !== event.pointerId)![1];
      const [was, is] = [Math.abs(before - other), Math.abs(event.clientX - other)];
      if (was > 4 && is > 4) view.scale(was / is, at((event.clientX + other) / 2));
    }
    pointers.set(event.pointerId, event.clientX);
  });
  for (const kind of ["pointerup", "pointercancel"] as const) {
    canvas.addEventListener(kind, (event) => pointers.delete(event.pointerId));
  }
  canvas.addEventListener("dblclick", (event) => view.scale(0.4, at(event.clientX)));
  canvas.addEventListener("keydown", (event) => {
    const act = {
      "+": () => view.scale(0.6), "=": () => view.scale(0.6), "-": () => view.scale(1 / 0.6), "0": () => view.fit(),
      "a": () => view.move(-view.span / 5), "d": () => view.move(view.span / 5),
    }[event.key];
    if (!act || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    act();
  });
}
