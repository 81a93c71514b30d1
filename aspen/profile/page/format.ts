// Numbers as people read them: three digits that matter, and a unit.
function digits(value: number): string {
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  return value.toFixed(size >= 100 || value === 0 ? 0 : size >= 10 ? 1 : 2);
}

function scaled(value: number, step: number, units: string[]): string {
  let i = 0;
  let size = value;
  while (Math.abs(size) >= step && i + 1 < units.length) {
    size /= step;
    i += 1;
  }
  return `${digits(size)}\u00a0${units[i]}`;
}

export const time = (nanoseconds: number) =>
  Math.abs(nanoseconds) >= 1e9 ? `${digits(nanoseconds / 1e9)}\u00a0s` : scaled(nanoseconds, 1000, ["ns", "µs", "ms"]);
export const bytes = (value: number) =>
  Math.abs(value) < 1024 ? `${Math.round(value)}\u00a0B` : scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
export const flops = (value: number) => scaled(value, 1000, ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"]);
export const flopRate = (value: number) =>
  scaled(value, 1000, ["FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"]);
export const byteRate = (value: number) => `${bytes(value)}/s`;
export const percent = (share: number) => {
  const value = share * 100;
  return `${value.toFixed(value !== 0 && Math.abs(value) < 9.95 ? 1 : 0)}\u00a0%`;
};
export const count = (value: number) => Math.round(value).toLocaleString("en");
export const number = digits;
export const plural = (n: number, word: string) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;
