// A canvas as wide as its place, drawn again when that, the theme or what it shows changes.
import { h } from "./dom";

export interface Drawing {
  element: HTMLElement;
  canvas: HTMLCanvasElement;
  width(): number;
  redraw(): void;
}

const drawings = new Set<Drawing>();
export const redrawAll = () => drawings.forEach((drawing) => drawing.redraw());

export function drawing(
  label: string, height: () => number, draw: (context: CanvasRenderingContext2D, width: number, height: number) => void,
  interactive = true): Drawing {
  const canvas = h("canvas", interactive
    ? { tabindex: "0", role: "application", "aria-roledescription": "chart", "aria-label": label }
    : { role: "img", "aria-label": label });
  const element = h("div", { class: "drawing" }, canvas);
  let pending = false;
  const paint = () => {
    pending = false;
    const ratio = devicePixelRatio || 1;
    const [width, tall] = [element.clientWidth, height()];
    if (width === 0) return;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(tall * ratio);
    canvas.style.height = `${tall}px`;
    const context = canvas.getContext("2d")!;
    context.scale(ratio, ratio);
    context.font = "12px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
    draw(context, width, tall);
  };
  const result: Drawing = {
    element, canvas,
    width: () => element.clientWidth,
    redraw: () => {
      if (pending) return;
      pending = true;
      requestAnimationFrame(paint);
    },
  };
  new ResizeObserver(result.redraw).observe(element);
  drawings.add(result);
  return result;
}

export const fitText = (context: CanvasRenderingContext2D, text: string, width: number): string => {
  if (context.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 0 && context.measureText(`${text.slice(0, end)}…`).width > width) end -= 1;
  return end > 0 ? `${text.slice(0, end)}…` : "";
};

// Round numbers between two values, about so many.
export function ticks(from: number, to: number, about: number, base = 10): number[] {
  const raw = (to - from) / Math.max(about, 1);
  if (!(raw > 0)) return [from];
  const power = base === 10 ? 10 ** Math.floor(Math.log10(raw)) : 2 ** Math.floor(Math.log2(raw));
  const step = base === 10 ? [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw)! : power * (raw > power ? 2 : 1);
  const result = [];
  for (let tick = Math.ceil(from / step) * step; tick <= to + step * 1e-9; tick += step) result.push(tick);
  return result;
}
