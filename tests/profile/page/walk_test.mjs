// docs/profiling.md, followed by a reader who has nothing else: its program is saved and run, its commands are typed, its
// steps are done on the page. The pictures that it shows are made on the way; `./dev page --pictures` keeps them.
import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { execFileSync } from "node:child_process";
import { after, before, test } from "node:test";
import { launch, pictures, programs, root } from "./browser.mjs";
import { chapter, parts } from "./document.mjs";
import { Walk } from "./walk.mjs";

const docs = path.join(root, "docs");
const walkThrough = parts(chapter(fs.readFileSync(path.join(docs, "profiling.md"), "utf8"), "A walk through the page"));
const skip = os.cpus().length < 2 && "two devices share the only cpu: nothing about their balance matters";
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "walk-"));
let browser;
before(async () => { browser = await launch(); });
after(async () => {
  await browser?.close();
  fs.rmSync(folder, { recursive: true });
});

function type(command) {
  const environment = { ...process.env, PATH: `${programs}:${process.env.PATH}`, ASPEN_IPU_LOCK: path.join(folder, "ipus.lock") };
  execFileSync("bash", ["-euc", command], { cwd: folder, env: environment, stdio: ["ignore", "pipe", "inherit"] });
}

const width = (file) => fs.readFileSync(file).readUInt32BE(16);  // in the header of a PNG

async function followDocument() {
  fs.readdirSync(folder).forEach((name) => fs.rmSync(path.join(folder, name), { recursive: true }));
  const walk = new Walk(browser, folder);
  for (const part of walkThrough) {
    if (part.kind === "file") fs.writeFileSync(path.join(folder, part.name), part.text);
    if (part.kind === "commands") part.lines.forEach(type);
    if (part.kind === "step") await walk.follow(part.text);
    if (part.kind !== "picture") continue;
    const made = path.join(pictures, path.basename(part.path));
    await walk.picture(part.caption, made);
    if (process.env.PAGE_RENEWS) continue;
    const kept = path.join(docs, part.path);
    assert.ok(fs.existsSync(kept), `${kept} is made by ./dev page --pictures`);
    assert.equal(width(kept), width(made), `${kept} is out of date: ./dev page --pictures`);
    assert.ok(fs.statSync(kept).size < 60_000, `${kept} is small`);
  }
  await walk.close();
  assert.equal(walk.answer, 0, "the document ends with the slowest stage");
}

// What the reader sees are times. Where others take the cpus for a while, the reader does it all again.
test("the steps of docs/profiling.md lead to the slowest stage", { skip, timeout: 300_000 }, async () => {
  for (let repeats = 2; ; --repeats) {
    try {
      return await followDocument();
    } catch (error) {
      if (repeats === 0) throw error;
    }
  }
});

test("words that the page does not have are noticed", { skip, timeout: 120_000 }, async () => {
  const walk = new Walk(browser, folder);
  const steps = walkThrough.filter((part) => part.kind === "step").map((part) => part.text);
  await walk.follow(steps.find((step) => step.startsWith("Open ")));
  const wrong = [["The tab **Summary** is open.", "Summary", "Overview"], ["Choose the tab **Execution trace**.", "trace", "trees"]];
  walk.page.setDefaultTimeout(2000);
  for (const [sentence, word, other] of wrong) {
    await walk.follow(sentence);
    await assert.rejects(walk.follow(sentence.replace(word, other)), `"${sentence}" with "${other}"`);
  }
  const balance = steps.find((step) => step.includes("**Balance of stages**"));
  await assert.rejects(walk.follow(balance.replace("Stage 0", "Stage 1")));
  await assert.rejects(walk.follow(balance.replace("Both", "All")));
  await assert.rejects(walk.follow("Look around."), /does not know how to/);
  await assert.rejects(walk.follow("So stage 1 is the slowest."));
  await walk.close();
});

test("every picture in docs/profiling is in the document", { skip: Boolean(process.env.PAGE_RENEWS) }, () => {
  const shown = walkThrough.filter((part) => part.kind === "picture").map((part) => path.basename(part.path));
  assert.deepEqual(fs.readdirSync(path.join(docs, "profiling")).sort(), shown.sort());
});
