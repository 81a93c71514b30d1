// What is alive in the memory of one device while each of its ops runs.
import { bufferOrder } from "./colours";
import { deviceOfOp, indices, Profile, sum } from "./profile";

export interface Liveness {
  ops: number[];                    // of the device, in the order they run
  position: Int32Array;             // by op of any device, and once more: how many of `ops` come before it
  buffers: number[];                // of the device, not on the host
  kinds: string[];                  // that there are, always-live ones first
  bytes: Float64Array[];            // by kind and position
  always: number[];                 // by kind: bytes that are always alive
}

export function liveness(profile: Profile, device: number): Liveness {
  const { buffers } = profile.memory;
  const ops = indices(profile.ops.name.length).filter((op) => deviceOfOp(profile, op) === device);
  const position = new Int32Array(profile.ops.name.length + 1);
  for (const op of ops) position[op + 1] = 1;
  for (let op = 0; op < profile.ops.name.length; ++op) position[op + 1] += position[op];
  const own = indices(buffers.name.length).filter((i) => buffers.device[i] === device && !buffers.on_host[i]);
  const kinds = bufferOrder.filter((kind) => own.some((i) => buffers.kind[i] === kind));
  const length = Math.max(ops.length, 1);
  const bytes = kinds.map(() => new Float64Array(length + 1));
  const always = kinds.map(() => 0);
  for (const i of own) {
    const kind = kinds.indexOf(buffers.kind[i]);
    const isAlways = buffers.first[i] < 0;
    always[kind] += buffers.bytes[i] * (isAlways ? buffers.copies[i] : buffers.copies[i] - 1);
    if (isAlways) continue;
    bytes[kind][position[buffers.first[i]]] += buffers.bytes[i];
    bytes[kind][position[buffers.last[i] + 1]] -= buffers.bytes[i];
  }
  bytes.forEach((column, kind) => {
    let alive = always[kind];
    for (let i = 0; i < length; ++i) column[i] = alive += column[i];
  });
  return { ops, position, buffers: own, kinds, bytes, always };
}

export const totalAt = (live: Liveness, at: number) => sum(live.bytes.map((column) => column[at]));

// Bytes of a buffer that are alive while the op at a position runs.
export function bytesAt(profile: Profile, live: Liveness, buffer: number, at: number): number {
  const { buffers } = profile.memory;
  if (buffers.first[buffer] < 0) return buffers.bytes[buffer] * buffers.copies[buffer];
  const isAlive = live.position[buffers.first[buffer]] <= at && at < live.position[buffers.last[buffer] + 1];
  return buffers.bytes[buffer] * (buffers.copies[buffer] - (isAlive ? 0 : 1));
}
