// Colours of drawings: safe for the colour-blind (after Okabe and Ito), a set for each theme.
const microBatches = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c7ae6", "#8f8f00"];

const bufferKinds: Record<string, string> = {
  "weight": "#0072b2", "optimizer state": "#56b4e9", "accumulator": "#8c7ae6", "variable": "#7a8794",
  "constant": "#a9b4bf", "stash": "#e69f00", "activation": "#f0cf65", "gradient": "#d55e00", "workspace": "#cc79a7",
  "input": "#009e73", "output": "#6cc5a3",
};
const blockKinds: Record<string, string> = {
  forward: "#56b4e9", backward: "#e69f00", update: "#009e73", input: "#cc79a7", output: "#8c7ae6",
  exchange: "#d55e00", transfer: "#7a8794",
};

const channels = (colour: string) => [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
const hex = (rgb: number[]) => `#${rgb.map((c) => Math.round(c).toString(16).padStart(2, "0")).join("")}`;

export function mix(a: string, b: string, share: number): string {
  const [from, to] = [channels(a), channels(b)];
  return hex(from.map((c, i) => c + (to[i] - c) * share));
}

// Black or white, whichever is easier to read on it.
export function textOn(colour: string): string {
  const [r, g, b] = channels(colour).map((c) => ((c / 255) ** 2.2));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.28 ? "#10161d" : "#ffffff";
}

export interface Theme { background: string; panel: string; text: string; muted: string; line: string; accent: string }

export function theme(): Theme {
  const style = getComputedStyle(document.documentElement);
  const get = (name: string) => style.getPropertyValue(`--${name}`).trim();
  return { background: get("background"), panel: get("panel"), text: get("text"), muted: get("muted"),
    line: get("line"), accent: get("accent") };
}

export type BlockColouring = "micro-batch" | "kind" | "stage";

// A forward block is the light and a backward block the strong tone of its micro-batch.
export function blockColour(by: BlockColouring, kind: string, microBatch: number, stage: number, panel: string): string {
  const isStep = kind === "forward" || kind === "backward";
  if (by === "kind" || !isStep) return blockKinds[kind] ?? blockKinds.transfer;
  const strong = microBatches[(by === "stage" ? stage : microBatch) % microBatches.length] ?? blockKinds.transfer;
  return kind === "forward" ? mix(strong, panel, 0.45) : strong;
}

export const bufferColour = (kind: string) => bufferKinds[kind] ?? "#7a8794";
export const bufferOrder = Object.keys(bufferKinds);
export const blockKindColour = (kind: string) => blockKinds[kind] ?? blockKinds.transfer;

export function opColour(name: string, callsHost: boolean): string {
  if (callsHost) return "#d55e00";
  let hash = 0;
  for (let i = 0; i < name.length; ++i) hash = (hash * 31 + name.charCodeAt(i)) >>> 0;
  return microBatches[hash % microBatches.length];
}
