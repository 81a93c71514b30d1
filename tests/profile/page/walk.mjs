// Follows the steps of a document on the page, word for word. Every sentence of a step is one that is known here: something
// to do, or something that the page must show. Labels are **bold** and found as a reader would find them.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { frames, openFile, openTab, read } from "./browser.mjs";

const plain = (text) => text.replace(/\u00a0/g, " ").trim();

export class Walk {
  constructor(browser, folder) {
    this.browser = browser;
    this.folder = folder;
    this.page = null;
    this.answer = null;  // the slowest stage, once the document has told
  }

  async follow(step) {
    let rest = step;
    while (rest) {
      const known = sentences.map(([pattern, act]) => ({ match: pattern.exec(rest), act })).find(({ match }) => match);
      assert.ok(known, `the reader does not know how to: "${rest}"`);
      await known.act(this, ...known.match.slice(1));
      rest = rest.slice(known.match[0].length).trim();
    }
  }

  async openPage(file) {
    await this.close();
    this.run = path.join(this.folder, path.dirname(file));
    this.page = await openFile(this.browser, path.join(this.folder, file), { tab: "", width: 1100, height: 760 });
    this.profile = JSON.parse(fs.readFileSync(path.join(this.run, "profile.json"), "utf8"));
  }

  async close() {
    this.page?.check();
    await this.page?.close();
    this.page = null;
  }

  section(title) { return this.page.getByRole("region", { name: title, exact: true }); }

  // Texts of a table, by the titles of its columns.
  async rows(section) {
    const table = section.locator("table").first();
    const titles = (await table.locator("thead th").allInnerTexts()).map(plain);
    const cells = await Promise.all((await table.locator("tbody tr").all()).map((row) => row.locator("td").allInnerTexts()));
    return cells.map((texts) => new Map(titles.map((title, i) => [title, plain(texts[i])])));
  }

  // Where a block of the call that is shown lies: "B5" is the backward pass of micro-batch 5.
  async block(label, lane) {
    const canvas = this.page.locator("#panel-trace canvas");
    await canvas.scrollIntoViewIfNeeded();
    await frames(this.page);
    const view = await canvas.evaluate((element) => ({ ...element.dataset }));
    const [from, to, gutter] = [view.from, view.to, view.gutter].map(Number);
    const { blocks } = this.profile.trace;
    const worker = this.profile.workers.device.findIndex((device) => `Device ${device}` === lane);
    const kind = { F: "forward", B: "backward" }[label[0]];
    const found = blocks.begin.findIndex((begin, i) => blocks.worker[i] === worker && blocks.kind[i] === kind &&
      begin >= from && begin < to && blocks.micro_batch[i] === Number(label.slice(1)));
    assert.ok(found >= 0, `the lane "${lane}" has a block "${label}"`);
    const box = await canvas.boundingBox();
    const tops = view.tops.split(" ").map(Number);
    const share = (blocks.begin[found] + blocks.duration[found] / 2 - from) / (to - from);
    return [box.x + gutter + share * (box.width - gutter), box.y + tops[tops.length - this.profile.workers.device.length + worker] + 10];
  }

  // Of the whole window, or of one part of the page with a heading.
  async picture(caption, file) {
    await this.page.mouse.move(0, 0);
    const section = this.section(caption);
    const isSection = (await section.count()) > 0;
    if (!isSection) await this.page.evaluate(() => scrollTo(0, 0));
    await frames(this.page);
    await (isSection ? section.first() : this.page).screenshot({ path: file });
  }
}

// What can be said in a step.
const sentences = [
  [/^Open `([^`]+)` in a browser\./, (walk, file) => walk.openPage(file)],
  [/^Choose the tab \*\*([^*]+)\*\*\./, async (walk, title) => openTab(walk.page, title)],
  [/^The tab \*\*([^*]+)\*\* is open\./, async (walk, title) =>
    assert.equal(await walk.page.getByRole("tab", { selected: true }).innerText(), title)],
  [/^Press \*\*([^*]+)\*\*\./, async (walk, name) => {
    await walk.page.getByRole("button", { name, exact: true }).click();
    await frames(walk.page);
  }],
  [/^Press \*\*([^*]+)\*\* beside \*\*([^*]+)\*\*\./, async (walk, name, group) => {
    await walk.page.getByRole("group", { name: group, exact: true }).getByRole("button", { name, exact: true }).click();
    await frames(walk.page);
  }],
  [/^Type `([^`]+)` into \*\*([^*]+)\*\*\./, async (walk, text, field) => walk.page.getByLabel(field, { exact: true }).fill(text)],
  [/^Click the block \*\*(\w+)\*\* of the lane \*\*([^*]+)\*\*\./, async (walk, label, lane) =>
    walk.page.mouse.click(...await walk.block(label, lane))],
  [/^Rest the pointer on it: it is a "([^"]+)"\./, async (walk, title) =>
    assert.equal(await walk.page.getByRole("tooltip").locator("strong").innerText(), title)],
  [/^Click the module \*\*([^*]+)\*\*\./, async (walk, name) =>
    walk.page.getByRole("treeitem").filter({ hasText: new RegExp(`^[▸▾]?${name} \\d`) }).first().click()],
  [/^The first advice is "([^"]+)"\./, async (walk, title) =>
    assert.equal(await walk.page.locator(".advice h3").first().innerText(), title)],
  [/^It says how: `([^`]+)`\./, async (walk, code) => {
    const how = await walk.page.locator(".advice .how").first().innerText();
    assert.ok(how.includes(code), `the page says "${how}", not "${code}"`);
  }],
  [/^Under \*\*([^*]+)\*\*, \*\*([^*]+)\*\* is largest for "([^"]+)"\./, async (walk, title, column, name) => {
    const rows = await walk.rows(walk.section(title));
    assert.ok(rows.length > 1 && rows[0].has(column), `"${title}" has a column "${column}"`);
    const values = rows.map((row) => read(row.get(column)));
    assert.equal([...rows[values.indexOf(Math.max(...values))].values()][0], name, `largest ${column} of ${title}: ${values}`);
  }],
  [/^Under \*\*([^*]+)\*\*, the first row has "([^"]+)" as its \*\*([^*]+)\*\*\./, async (walk, title, value, column) =>
    assert.equal((await walk.rows(walk.section(title)))[0].get(column), value)],
  [/^Of the \*\*([^*]+)\*\*, the first is one of "([^"]+)"\./, async (walk, title, module) => {
    const table = walk.page.locator("section, .chosen > div").filter({ has: walk.page.locator("th", { hasText: new RegExp(`^${title}$`) }) });
    assert.equal((await walk.rows(table.last()))[0].get("Module"), module);
  }],
  [/^The first row of the table has "([^"]+)" as its \*\*([^*]+)\*\*\./, async (walk, value, column) => {
    const panel = walk.page.getByRole("tabpanel");
    const titles = (await panel.getByRole("columnheader").allInnerTexts()).map((text) => text.replace(/[ ↓↑]+$/, ""));
    assert.ok(titles.includes(column), `${titles} has ${column}`);
    const cells = await panel.locator(".table-space [role=row]").first().locator("> *").allInnerTexts();
    assert.equal(plain(cells[titles.indexOf(column)]), value);
  }],
  [/^\*\*([^*]+)\*\* is lower than before\./, async (walk, name) => {
    const figure = walk.page.locator(".figure").filter({ has: walk.page.locator("dt", { hasText: new RegExp(`^${name}$`, "i") }) });
    const [now, note] = [await figure.locator(".value").innerText(), await figure.locator(".note").innerText()];
    const before = /before (\S+\s\S+)/.exec(plain(note))[1];
    assert.ok(read(now) < read(before), `${name}: ${now}, before ${before}`);
  }],
  [/^So stage (\d+) is the slowest\./, (walk, stage) => {
    const { stages } = walk.profile.analysis;
    const times = stages.forward.map((time, i) => time + stages.backward[i]);
    assert.equal(stages.stage[times.indexOf(Math.max(...times))], Number(stage), `times of stages: ${times}`);
    walk.answer = Number(stage);
  }],
];
