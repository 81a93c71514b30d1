// Elements in one expression.
type Child = Node | string | null | undefined | false;
type Properties = Record<string, unknown>;

// Keys that begin with "on" are listeners, `class` and attributes are set as they are; null and false leave one out.
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K, properties: Properties = {}, ...children: (Child | Child[])[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value as EventListener);
    else if (key === "style") element.style.cssText = String(value);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

let numSections = 0;

export function section(title: string, ...children: (Child | Child[])[]): HTMLElement {
  const id = `section-${++numSections}`;
  return h("section", { "aria-labelledby": id }, h("h2", { id }, title), ...children);
}

// A number with a bar of its share beside it.
export const withBar = (share: number, text: string) =>
  h("span", { class: "with-bar" },
    h("span", { class: "bar", "aria-hidden": "true" }, h("span", { style: `width:${Math.max(0, Math.min(1, share)) * 100}%` })),
    h("span", { class: "bar-text" }, text));

// A choice of one among a few.
export function choice<T extends string>(
  label: string, options: { value: T; text: string }[], value: T, onChange: (value: T) => void): HTMLElement {
  const buttons = options.map((option) =>
    h("button", { type: "button", "aria-pressed": String(option.value === value), onclick: () => {
      for (const [i, button] of buttons.entries()) {
        button.setAttribute("aria-pressed", String(options[i].value === option.value));
      }
      onChange(option.value);
    } }, option.text));
  return h("div", { class: "choice", role: "group", "aria-label": label }, h("span", { class: "choice-label" }, label), buttons);
}

export function select(
  label: string, options: { value: string; text: string }[], onChange: (value: string) => void): HTMLElement {
  const element = h("select", { onchange: () => onChange(element.value) },
    options.map((option) => h("option", { value: option.value }, option.text)));
  return h("label", { class: "field" }, h("span", {}, label), element);
}

export function search(label: string, placeholder: string, onChange: (value: string) => void): HTMLElement {
  const input = h("input", { type: "search", placeholder, oninput: () => onChange(input.value) });
  return h("label", { class: "field" }, h("span", {}, label), input);
}

// A small table; numbers are right-aligned by the class of their column.
export function simpleTable(caption: string, head: string[], rows: (string | Node)[][], numeric: number[] = []) {
  const cell = (tag: "td" | "th", i: number, content: string | Node) =>
    h(tag, { class: numeric.includes(i) ? "number" : null, scope: tag === "th" ? "col" : null }, content);
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, head.map((title, i) => cell("th", i, title)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((content, i) => cell("td", i, content)))))));
}
