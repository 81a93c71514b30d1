// One tooltip for the whole page, near the pointer or what has the focus; it never leaves the window.
import { h } from "./dom";

const element = h("div", { class: "tooltip", role: "tooltip", hidden: true });

export function show(x: number, y: number, title: string, rows: [string, string][]): void {
  if (!element.isConnected) document.body.append(element);
  element.replaceChildren(h("strong", {}, title),
    h("dl", {}, rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
  element.hidden = false;
  const box = element.getBoundingClientRect();
  const left = x + 14 + box.width > innerWidth - 8 ? x - 14 - box.width : x + 14;
  const top = y + 16 + box.height > innerHeight - 8 ? y - 12 - box.height : y + 16;
  element.style.left = `${Math.max(8, left)}px`;
  element.style.top = `${Math.max(8, top)}px`;
}

export function hide(): void {
  element.hidden = true;
}

addEventListener("keydown", (event) => {
  if (event.key === "Escape") hide();
});
addEventListener("scroll", hide, { passive: true });
