// What the tests of the page share: a headless Chromium, pages that complain about every error, and the examples.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";

const setting = (name) => {
  if (!process.env[name]) throw new Error(`${name} is not set: run tests/profile/page/run_tests.py`);
  return process.env[name];
};
export const examples = setting("PAGE_EXAMPLES");
const screenshots = setting("PAGE_SCREENSHOTS");
export const pictures = setting("PAGE_PICTURES");   // where those of docs/profiling.md are made
export const programs = setting("PAGE_PROGRAMS");   // folders of python and aspen-report, as in PATH
export const bundle = setting("PAGE_BUNDLE");       // the page as the build has made it
export const root = fileURLToPath(new URL("../../..", import.meta.url));
const require = createRequire(path.join(setting("PAGE_PACKAGES"), "node_modules", "."));
const { chromium } = require("playwright-core");
const axeSource = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const launch = () => chromium.launch({
  executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
  args: process.getuid() === 0 ? ["--no-sandbox"] : [],  // the sandbox is not for root
});

export const profileOf = (run) => JSON.parse(fs.readFileSync(path.join(examples, run, "profile.json"), "utf8"));

export const open = (browser, run, options) => openFile(browser, path.join(examples, run, "report.html"), options);

// Opens a page; `check` after the test fails on anything the console said.
export async function openFile(browser, file, { tab = "summary", width = 1280, height = 800, scheme = "light" } = {}) {
  const page = await browser.newPage({ viewport: { width, height }, colorScheme: scheme, reducedMotion: "reduce" });
  const errors = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && errors.push(message.text()));
  page.on("pageerror", (error) => errors.push(String(error.stack ?? error)));
  page.on("request", (request) => request.url().startsWith("file:") || errors.push(`asked for ${request.url()}`));
  await page.goto(`${pathToFileURL(file)}${tab && `#${tab}`}`);
  await page.waitForFunction(() => performance.getEntriesByName("report-drawn").length > 0);
  page.check = () => assert.deepEqual(errors, [], "the console is silent");
  return page;
}

export async function openTab(page, title) {
  await page.getByRole("tab", { name: title }).click();
  await page.waitForTimeout(60);
}

export const frames = (page) => page.evaluate(() =>
  new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));

export async function screenshot(page, name) {
  await frames(page);
  await page.screenshot({ path: path.join(screenshots, `${name}.png`), fullPage: true });
}

// Findings of axe that matter, as lines.
export async function accessibility(page) {
  await page.evaluate(axeSource);
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return found.violations.filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join(" | ")}`);
}

// "4.06 s" and the like, back as a number of nanoseconds, bytes or FLOP/s, and how far rounding may be off.
export function read(text) {
  const match = /^([−-]?[\d,.]+)\s*(.*)$/u.exec(text.replace(/\u00a0/g, " ").trim());
  assert.ok(match, `"${text}" is a number with a unit`);
  const factors = { ns: 1, "µs": 1e3, ms: 1e6, s: 1e9, B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, "%": 0.01,
    "FLOP/s": 1, "MFLOP/s": 1e6, "GFLOP/s": 1e9, "TFLOP/s": 1e12, "samples/s": 1, "": 1 };
  assert.ok(match[2] in factors, `"${match[2]}" is a unit`);
  return Number(match[1].replace(/,/g, "").replace("−", "-")) * factors[match[2]];
}

export function assertShows(text, value, what) {
  const shown = read(text);
  const tolerance = Math.max(Math.abs(value) * 0.006, text.includes("%") ? 0.0051 : 0.5);
  assert.ok(Math.abs(shown - value) <= tolerance, `${what}: the page shows ${text}, profile.json says ${value}`);
}
