// A peer of `./dev bench models`: runs a model in ONNX Runtime as often as it is told and answers with the seconds.
// node onnx_peer.js <module> <model.onnx> <threads> <inputs.json>; then a number of runs on each line of stdin.
const fs = require("fs");
const readline = require("readline");
const [modulePath, modelPath, threads, inputsPath] = process.argv.slice(2);
const ort = require(modulePath);

function tensorOf({ type, shape, file }) {
  const bytes = fs.readFileSync(file);
  const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
  return new ort.Tensor(type, type === "int64" ? new BigInt64Array(buffer) : new Float32Array(buffer), shape);
}

async function main() {
  const session = await ort.InferenceSession.create(modelPath, {
    intraOpNumThreads: Number(threads), interOpNumThreads: 1, executionMode: "sequential",
    graphOptimizationLevel: "all", logSeverityLevel: 3,
  });
  const feeds = {};
  JSON.parse(fs.readFileSync(inputsPath)).forEach((input, n) => { feeds[session.inputNames[n]] = tensorOf(input); });
  const first = await session.run(feeds);
  console.log(JSON.stringify(Array.from(first[session.outputNames[0]].data.slice(0, 64))));
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const start = process.hrtime.bigint();
    for (let n = 0; n < Number(line); ++n) await session.run(feeds);
    console.log(Number(process.hrtime.bigint() - start) / 1e9);
  }
}

main();
