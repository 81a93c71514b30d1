// The data of the page, as docs/profile-format.md describes it.
type Column<T> = T[];

export interface Ops {
  name: Column<string>; module: Column<string>; source: Column<string>; text: Column<string>; kernel: Column<string>;
  pass: Column<string>; task: Column<number>; num_parts: Column<number>; calls_host: Column<boolean>;
  is_copy: Column<boolean>; flops: Column<number>; bytes_read: Column<number>; bytes_written: Column<number>;
  calls: Column<number>; duration: Column<number>; shortest: Column<number>; longest: Column<number>;
}

export interface Blocks {
  worker: Column<number>; call: Column<number>; kind: Column<string>; task: Column<number>;
  micro_batch: Column<number>; begin: Column<number>; duration: Column<number>; first_op: Column<number>;
  num_ops: Column<number>; op_durations: Column<number>;
}

export interface Buffers {
  name: Column<string>; module: Column<string>; kind: Column<string>; device: Column<number>; on_host: Column<boolean>;
  op: Column<number>; offset: Column<number>; bytes: Column<number>; copies: Column<number>; stride: Column<number>;
  first: Column<number>; last: Column<number>;
}

export interface Advice {
  topic: Column<string>; title: Column<string>; why: Column<string>; how: Column<string>; confidence: Column<string>;
  gain: Column<number>; saved_bytes: Column<number>;
}

interface Peak { flops_per_second: number; bytes_per_second: number }

export interface Analysis {
  calls: number; call_duration: number; iteration: number; samples_per_second: number; flops_per_iteration: number;
  flops_per_second: number; share_of_peak: number; host_share: number; loading_share: number; ramp: number;
  bubble: number;
  workers: { worker: Column<number>; busy: Column<number>; transfer: Column<number>; ramp: Column<number>;
    bubble: Column<number>; shared: Column<number> };
  stages: { stage: Column<number>; device: Column<number>; forward: Column<number>; backward: Column<number>;
    update: Column<number> };
  memory: { device: Column<number>; reserved: Column<number>; always_live: Column<number>; peak: Column<number>;
    peak_op: Column<number>; reserved_host: Column<number> };
  op_limits: number[];
  critical_path: number[];
  advice: Advice;
}

export interface Profile {
  version: number;
  run: { model: string; aspen: string; created: string; backend: string; execution: string; training: boolean;
    complete: boolean; replicas: number; gradient_accumulation: number; device_iterations: number;
    micro_batch_size: number; options: { name: Column<string>; value: Column<string> } };
  machine: { processor: string; num_cpus: number; thread: Peak; all: Peak };
  compilation: { name: Column<string>; duration: Column<number> };
  from_cache: boolean;
  workers: { replica: Column<number>; device: Column<number>; crew: Column<number>; num_threads: Column<number> };
  tasks: { name: Column<string>; section: Column<string>; device: Column<number>; stage: Column<number>;
    phase: Column<number>; first_op: Column<number>; num_ops: Column<number> };
  ops: Ops;
  calls: { begin: Column<number>; duration: Column<number>; loading: Column<number>; samples: Column<number> };
  trace: { blocks: Blocks; op_durations: number[];
    host: { track: Column<string>; name: Column<string>; begin: Column<number>; duration: Column<number> } };
  memory: { budget: number;
    regions: { name: Column<string>; device: Column<number>; on_host: Column<boolean>; offset: Column<number>;
      bytes: Column<number> };
    buffers: Buffers };
  analysis: Analysis;
}

// What changed from one run to another, made by aspen/profile/compare.h.
export interface Comparison {
  numbers: { name: Column<string>; unit: Column<string>; before: Column<number>; after: Column<number>;
    more_is_better: Column<boolean> };
  ops: { name: Column<string>; module: Column<string>; pass: Column<string>; before: Column<number>;
    after: Column<number> };
  buffers: { name: Column<string>; kind: Column<string>; before: Column<number>; after: Column<number> };
  options: { name: Column<string>; before: Column<string>; after: Column<string> };
}

function parse<T>(id: string): T | null {
  const element = document.getElementById(id);
  if (!element) return null;
  const data = JSON.parse(element.textContent || "") as T;
  element.remove();  // the text is not needed any more
  return data;
}

export const loadProfile = () => parse<Profile>("profile");
export const loadComparison = () => parse<Comparison>("comparison");

export const indices = (length: number) => Array.from({ length }, (_, i) => i);
export const sum = (values: Iterable<number>) => {
  let total = 0;
  for (const value of values) total += value;
  return total;
};

export const max = (values: Iterable<number>, least = 0) => {
  let most = least;
  for (const value of values) if (value > most) most = value;
  return most;
};

// Time an op took in the whole run, as a part of all ops.
export const totalOpTime = (profile: Profile) => sum(profile.ops.duration);

export const deviceOfOp = (profile: Profile, op: number) => profile.tasks.device[profile.ops.task[op]];

export const devices = (profile: Profile) => profile.analysis.memory.device;
