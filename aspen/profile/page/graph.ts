// Graph: the modules of the model as a tree with their time and memory, down to the ops and their text form.
import { h, withBar } from "./dom";
import * as format from "./format";
import { badges } from "./operators";
import { indices, Profile, totalOpTime } from "./profile";

interface Module {
  name: string; path: string; children: Map<string, Module>; ops: number[];
  duration: number; variables: number; activations: number;   // with everything within
  numOps: number;
}

const variableKinds = new Set(["weight", "optimizer state", "accumulator", "variable"]);

function newModule(name: string, path: string): Module {
  return { name, path, children: new Map(), ops: [], duration: 0, variables: 0, activations: 0, numOps: 0 };
}

// The modules from the root to a path.
function along(root: Module, path: string): Module[] {
  const result = [root];
  for (const part of path.split("/").filter((each) => each)) {
    const parent = result[result.length - 1];
    let child = parent.children.get(part);
    if (!child) parent.children.set(part, child = newModule(part, parent.path ? `${parent.path}/${part}` : part));
    result.push(child);
  }
  return result;
}

export function moduleTree(profile: Profile): Module {
  const root = newModule(profile.run.model, "");
  const { ops, memory: { buffers } } = profile;
  for (const op of indices(ops.name.length)) {
    const chain = along(root, ops.module[op]);
    chain[chain.length - 1].ops.push(op);
    for (const module of chain) {
      module.duration += ops.duration[op];
      module.numOps += 1;
    }
  }
  for (const i of indices(buffers.name.length)) {
    const bytes = buffers.bytes[i] * buffers.copies[i];
    const isVariable = variableKinds.has(buffers.kind[i]);
    if (!isVariable && buffers.kind[i] !== "stash") continue;
    for (const module of along(root, buffers.module[i])) {
      if (isVariable) module.variables += bytes;
      else module.activations += bytes;
    }
  }
  return root;
}

class Tree {
  readonly element = h("div", { role: "tree", "aria-label": "Modules", class: "tree" });
  private readonly open = new Set<string>([""]);
  private current = "";
  private visible: { module: Module; depth: number }[] = [];

  constructor(private readonly root: Module, private readonly total: number, private readonly onSelect: (module: Module) => void) {
    let module = root;  // opened down to where there is a choice
    while (module.children.size === 1) {
      module = [...module.children.values()][0];
      this.open.add(module.path);
    }
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.paint();
  }

  private paint(focus = false): void {
    this.visible = [];
    const walk = (module: Module, depth: number) => {
      this.visible.push({ module, depth });
      if (!this.open.has(module.path)) return;
      for (const child of module.children.values()) walk(child, depth + 1);
    };
    walk(this.root, 0);
    this.element.replaceChildren(...this.visible.map(({ module, depth }) => this.row(module, depth)));
    if (focus) (this.element.querySelector("[tabindex='0']") as HTMLElement | null)?.focus();
  }

  private row(module: Module, depth: number): HTMLElement {
    const isOpen = this.open.has(module.path);
    const share = this.total > 0 ? module.duration / this.total : 0;
    const isCurrent = module.path === this.current;
    return h("div", { role: "treeitem", class: "tree-row", tabindex: isCurrent ? "0" : "-1", "aria-level": depth + 1,
      "aria-expanded": module.children.size > 0 ? String(isOpen) : null, "aria-selected": String(isCurrent),
      onclick: () => this.choose(module, true) },
      h("span", { class: "tree-name", style: `padding-left:${depth * 1.1}em` },
        h("span", { class: "arrow", "aria-hidden": "true" }, module.children.size > 0 ? (isOpen ? "▾" : "▸") : ""), module.name,
        h("span", { class: "muted" }, ` ${format.plural(module.numOps, "op")}`)),
      h("span", { class: "number" }, withBar(share, format.time(module.duration))),
      h("span", { class: "number share" }, format.percent(share)),
      h("span", { class: "number minor" }, format.bytes(module.variables)),
      h("span", { class: "number minor" }, format.bytes(module.activations)));
  }

  private choose(module: Module, toggles = false): void {
    this.current = module.path;
    if (toggles) this.toggle(module);
    this.onSelect(module);
    this.paint(true);
  }

  private toggle(module: Module): void {
    if (!this.open.delete(module.path)) this.open.add(module.path);
  }

  private key(event: KeyboardEvent): void {
    const at = this.visible.findIndex(({ module }) => module.path === this.current);
    const { module, depth } = this.visible[Math.max(at, 0)];
    const isOpen = this.open.has(module.path) && module.children.size > 0;
    const go = (to: number) => this.choose(this.visible[Math.min(Math.max(to, 0), this.visible.length - 1)].module);
    const parent = () => {
      for (let i = at; i >= 0; --i) if (this.visible[i].depth < depth) return go(i);
    };
    const act = {
      ArrowDown: () => go(at + 1), ArrowUp: () => go(at - 1), Home: () => go(0), End: () => go(this.visible.length - 1),
      ArrowRight: () => (isOpen ? go(at + 1) : this.choose(module, module.children.size > 0)),
      ArrowLeft: () => (isOpen ? this.choose(module, true) : parent()),
      Enter: () => this.choose(module, true), " ": () => this.choose(module, true),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }
}

function opList(profile: Profile, module: Module): HTMLElement {
  const { ops } = profile;
  const shown = module.ops.slice().sort((a, b) => ops.duration[b] - ops.duration[a]).slice(0, 60);
  return h("div", {}, h("h2", {}, module.path || module.name),
    h("p", { class: "lead" }, module.ops.length === 0
      ? `No ops of its own; ${format.plural(module.numOps, "op")} in what it contains.`
      : `${format.plural(module.ops.length, "op")} of its own` + (shown.length < module.ops.length ? `, the ${shown.length} longest:` : ":")),
    h("ul", { class: "op-list" }, shown.map((op) => h("li", {}, h("details", {},
      h("summary", {}, h("span", {}, ops.name[op], ...badges(profile, [op])), h("span", { class: "muted" }, ops.pass[op]),
        h("span", { class: "number" }, format.time(ops.duration[op]))),
      h("pre", { tabindex: "0", "aria-label": "Text form" }, ops.text[op]),
      h("p", { class: "muted" }, `${ops.source[op] || "no source line"} · ${profile.tasks.name[ops.task[op]]}`))))));
}

export function graphView(profile: Profile): HTMLElement {
  const root = moduleTree(profile);
  const chosen = h("div", { class: "chosen side", "aria-live": "polite" }, opList(profile, root));
  const tree = new Tree(root, totalOpTime(profile), (module) => chosen.replaceChildren(opList(profile, module)));
  return h("div", { class: "view graph" },
    h("section", { "aria-label": "Modules" },
      h("div", { class: "tree-row tree-head", "aria-hidden": "true" }, h("span", {}, "Module"), h("span", { class: "number" }, "Time"),
        h("span", { class: "number share" }, "Share"), h("span", { class: "number minor" }, "Weights, state"),
        h("span", { class: "number minor" }, "Activations kept")),
      tree.element),
    h("section", { "aria-label": "Ops of the module" }, chosen));
}
