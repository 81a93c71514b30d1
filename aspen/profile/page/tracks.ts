// What lies on the lanes of the execution trace: blocks of workers, calls and events of the host.
import * as format from "./format";
import { indices, Profile } from "./profile";

export interface Item {
  begin: number;
  duration: number;
  block: number;    // row of trace.blocks; -1: of the host
  label: string;
  kind: string;
}

export interface Track {
  name: string;
  short: string;
  items: Item[];    // by begin
  isWorker: boolean;
}

const letters: Record<string, string> = { forward: "F", backward: "B", update: "U", input: "in", output: "out",
  exchange: "X", transfer: "T" };

// The traced stretch of time; what the host did outside of it is left out.
export function window(profile: Profile): [number, number] {
  const { blocks } = profile.trace;
  if (blocks.begin.length === 0) return [0, 1];
  const traced = [...new Set(blocks.call)].filter((call) => call >= 0);
  const begin = Math.min(blocks.begin[0], ...traced.map((call) => profile.calls.begin[call] - profile.calls.loading[call]));
  let end = begin + 1;
  for (const i of indices(blocks.begin.length)) end = Math.max(end, blocks.begin[i] + blocks.duration[i]);
  for (const call of traced) end = Math.max(end, profile.calls.begin[call] + profile.calls.duration[call]);
  return [Math.max(0, begin), end];
}

// The last traced call of which there are ops, as they are recorded in some of them; everything if one call was traced.
export function lastCall(profile: Profile): [number, number] {
  const { call, op_durations: durations } = profile.trace.blocks;
  const traced = new Set(call);
  const withOps = call.filter((_, i) => durations[i] >= 0);
  const last = Math.max(...(withOps.length > 0 ? withOps : traced));
  if (traced.size < 2 || last < 0) return window(profile);
  return [profile.calls.begin[last], profile.calls.begin[last] + profile.calls.duration[last]];
}

function workerTracks(profile: Profile): Track[] {
  const { workers, trace: { blocks } } = profile;
  const many = profile.run.replicas > 1;
  const tracks: Track[] = indices(workers.device.length).map((i) => ({
    name: many ? `Replica ${workers.replica[i]}, device ${workers.device[i]}` : `Device ${workers.device[i]}`,
    short: many ? `R${workers.replica[i]} D${workers.device[i]}` : `D${workers.device[i]}`,
    items: [], isWorker: true }));
  for (const i of indices(blocks.begin.length)) {
    const kind = blocks.kind[i];
    const isStep = kind === "forward" || kind === "backward";
    tracks[blocks.worker[i]].items.push({ begin: blocks.begin[i], duration: blocks.duration[i], block: i, kind,
      label: letters[kind] + (isStep ? blocks.micro_batch[i] : "") });
  }
  return tracks;
}

function hostTracks(profile: Profile, from: number, to: number): Track[] {
  const calls: Track = { name: "Host: calls", short: "Calls", items: [], isWorker: false };
  for (const i of indices(profile.calls.begin.length)) {
    calls.items.push({ begin: profile.calls.begin[i], duration: profile.calls.duration[i], block: -1,
      label: `call ${i}`, kind: "call" });
  }
  const tracks = new Map([["", calls]]);
  const { host } = profile.trace;
  for (const i of indices(host.name.length)) {
    let track = tracks.get(host.track[i]);
    if (!track) {
      track = { name: `Host: ${host.track[i]}`, short: host.track[i], items: [], isWorker: false };
      tracks.set(host.track[i], track);
    }
    track.items.push({ begin: host.begin[i], duration: host.duration[i], block: -1, label: host.name[i], kind: "host" });
  }
  for (const track of tracks.values()) {
    track.items = track.items.filter((item) => item.begin < to && item.begin + item.duration > from);
    track.items.sort((a, b) => a.begin - b.begin);
  }
  return [...tracks.values()].filter((track) => track.items.length > 0);
}

export function tracksOf(profile: Profile): Track[] {
  const [from, to] = window(profile);
  return [...hostTracks(profile, from, to), ...workerTracks(profile)];
}

// The op of a block that runs at a time, and when: -1 if ops were not taken.
export function opAt(profile: Profile, block: number, at: number): { op: number; begin: number; duration: number } {
  const { blocks, op_durations: durations } = profile.trace;
  let begin = blocks.begin[block];
  const first = blocks.op_durations[block];
  if (first < 0) return { op: -1, begin, duration: 0 };
  for (let i = 0; i < blocks.num_ops[block]; ++i) {
    const duration = durations[first + i];
    if (at < begin + duration) return { op: blocks.first_op[block] + i, begin, duration };
    begin += duration;
  }
  return { op: -1, begin, duration: 0 };
}

const names: Record<string, string> = { forward: "Forward", backward: "Backward", update: "Weight update",
  input: "Inputs from the host", output: "Outputs to the host", exchange: "Exchange between replicas", transfer: "Transfer" };

export function describe(profile: Profile, item: Item, op = -1, opDuration = 0): { title: string; rows: [string, string][] } {
  if (item.block < 0) return { title: item.label, rows: [["Duration", format.time(item.duration)]] };
  const { blocks } = profile.trace;
  const task = blocks.task[item.block];
  const block = `${names[item.kind] ?? item.kind}${task >= 0 ? ` of stage ${profile.tasks.stage[task]}` : ""}`;
  const rows: [string, string][] = [];
  if (op >= 0) {
    const { ops } = profile;
    rows.push(["Duration", format.time(opDuration)]);
    if (ops.module[op]) rows.push(["Module", ops.module[op]]);
    if (ops.source[op]) rows.push(["Source", ops.source[op]]);
    rows.push(["Within", `${block}, ${format.time(item.duration)}`]);
  } else {
    rows.push(["Duration", format.time(item.duration)]);
    if (blocks.num_ops[item.block] > 0) rows.push(["Ops", format.count(blocks.num_ops[item.block])]);
  }
  if (blocks.micro_batch[item.block] >= 0) rows.push(["Micro-batch", String(blocks.micro_batch[item.block])]);
  return { title: op >= 0 ? profile.ops.name[op] : block, rows };
}
