// A table of any length: sortable by its heads, and only the rows that can be seen are in the document.
import { h } from "./dom";

export interface TableColumn {
  title: string;
  width: string;             // of a CSS grid
  numeric?: boolean;
  minor?: boolean;           // left out on narrow screens
  explain?: string;
  value: (row: number) => number | string;   // to sort by
  show: (row: number) => Node | string;
}

const rowHeight = 34;

export class DataTable {
  readonly element: HTMLElement;
  private readonly body: HTMLElement;
  private readonly space: HTMLElement;
  private readonly heads: HTMLElement[];
  private rows: number[] = [];
  private selected = -1;

  constructor(label: string, private readonly columns: TableColumn[], private sortBy: number, private descending: boolean,
    private readonly onSelect: (row: number) => void = () => {}, maxRows = 16) {
    const narrow = columns.filter((column) => !column.minor);
    this.heads = columns.map((column, i) => h("div", { role: "columnheader", class: this.classOf(column) },
      h("button", { type: "button", title: column.explain ?? null, onclick: () => this.sort(i) }, column.title)));
    this.space = h("div", { class: "table-space", role: "rowgroup" });
    const head = h("div", { role: "rowgroup", class: "table-head" }, h("div", { class: "table-row", role: "row" }, this.heads));
    this.body = h("div", { class: "table-body", tabindex: "0", role: "table", "aria-label": label,
      style: `max-height:${rowHeight * (maxRows + 1)}px`, onscroll: () => this.paint(),
      onkeydown: (event: KeyboardEvent) => this.key(event) }, head, this.space);
    this.element = h("div", { class: "data-table",
      style: `--columns:${columns.map((c) => c.width).join(" ")};--narrow:${narrow.map((c) => c.width).join(" ")}` }, this.body);
    new ResizeObserver(() => this.paint()).observe(this.body);
  }

  setRows(rows: number[]): void {
    this.rows = rows.slice();
    this.selected = -1;
    this.order();
    this.body.scrollTop = 0;
    this.paint();
  }

  private classOf(column: TableColumn) {
    return `${column.numeric ? "number" : ""} ${column.minor ? "minor" : ""}`.trim();
  }

  private sort(column: number): void {
    this.descending = column === this.sortBy ? !this.descending : !!this.columns[column].numeric;
    this.sortBy = column;
    this.selected = -1;
    this.order();
    this.paint();
  }

  private order(): void {
    const { value } = this.columns[this.sortBy];
    const sign = this.descending ? -1 : 1;
    const keys = new Map(this.rows.map((row) => [row, value(row)]));
    this.rows.sort((a, b) => {
      const [x, y] = [keys.get(a)!, keys.get(b)!];
      return (x < y ? -1 : x > y ? 1 : a - b) * (x === y ? 1 : sign);
    });
    this.heads.forEach((head, i) =>
      head.setAttribute("aria-sort", i !== this.sortBy ? "none" : this.descending ? "descending" : "ascending"));
  }

  private paint(): void {
    this.body.setAttribute("aria-rowcount", String(this.rows.length + 1));
    this.space.style.height = `${this.rows.length * rowHeight}px`;
    const visible = Math.max(this.body.clientHeight, rowHeight);
    const first = Math.max(0, Math.floor(this.body.scrollTop / rowHeight) - 4);
    const last = Math.min(this.rows.length, Math.ceil((this.body.scrollTop + visible) / rowHeight) + 4);
    const painted = [];
    for (let i = first; i < last; ++i) painted.push(this.row(i));
    this.space.replaceChildren(...painted);
    if (this.rows.length > 0) return;
    this.space.style.height = `${rowHeight}px`;
    this.space.replaceChildren(h("div", { role: "row", class: "empty" }, h("div", { role: "cell" }, "Nothing matches.")));
  }

  private row(i: number): HTMLElement {
    const row = this.rows[i];
    return h("div", { class: `table-row${i === this.selected ? " selected" : ""}`, role: "row", "aria-rowindex": i + 2,
      style: `top:${i * rowHeight}px`, onclick: () => this.select(i) },
      this.columns.map((column) => {
        const content = column.show(row);
        return h("div", { role: "cell", class: this.classOf(column),
          title: typeof content === "string" ? content : null }, content);
      }));
  }

  private select(i: number): void {
    this.selected = i;
    this.paint();
    this.onSelect(this.rows[i]);
  }

  private key(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 12, PageUp: -12, Home: -1e9, End: 1e9 }[event.key];
    if (step === undefined || this.rows.length === 0) return;
    event.preventDefault();
    const next = Math.min(Math.max(this.selected + step, 0), this.rows.length - 1);
    const [top, bottom] = [next * rowHeight, (next + 1) * rowHeight];
    const room = this.body.clientHeight - rowHeight;  // under the head
    if (top < this.body.scrollTop) this.body.scrollTop = top;
    if (bottom > this.body.scrollTop + room) this.body.scrollTop = bottom - room;
    this.select(next);
  }
}
