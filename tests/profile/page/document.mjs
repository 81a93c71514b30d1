// A chapter of a document, as what a reader does: files to save, commands to run, steps on the page, pictures to see.
//
//   Save this as `name`:      the code block that follows is a file
//   ```console                lines with "$ " are commands
//   1. ...                    a step; what is indented belongs to it
//   ![caption](path)          a picture of what the page shows at this point
//
// Other paragraphs explain, and nothing is done about them.
import assert from "node:assert/strict";

export function chapter(document, title) {
  const lines = document.split("\n");
  const begin = lines.indexOf(`## ${title}`);
  assert.ok(begin >= 0, `the document has a chapter "${title}"`);
  const length = lines.slice(begin + 1).findIndex((line) => line.startsWith("## "));
  return lines.slice(begin + 1, length < 0 ? undefined : begin + 1 + length);
}

const picture = /^\s*!\[([^\]]*)\]\(([^)]*)\)$/;

export function parts(lines) {
  const found = [];
  let file = null, step = null;
  for (let i = 0; i < lines.length; ++i) {
    const line = lines[i];
    if (line.startsWith("```")) {
      const end = lines.indexOf("```", i + 1);
      const text = lines.slice(i + 1, end);
      if (line === "```console") found.push({ kind: "commands", lines: text.filter((each) => each.startsWith("$ ")).map((each) => each.slice(2)) });
      else if (file) found.push({ kind: "file", name: file, text: `${text.join("\n")}\n` });
      else assert.fail(`a reader does not know what to do with the block "${text[0]}"`);
      [file, step, i] = [null, null, end];
    } else if (picture.test(line)) {
      const [, caption, path] = picture.exec(line);
      found.push({ kind: "picture", caption, path });
    } else if (/^\d+\. /.test(line)) {
      step = { kind: "step", text: line.replace(/^\d+\. /, "") };
      found.push(step);
    } else if (step && line.startsWith("   ")) {
      step.text += ` ${line.trim()}`;
    } else {
      if (line.trim()) step = null;
      file = /as `([^`]+)`:$/.exec(line)?.[1] ?? (line.trim() ? null : file);
    }
  }
  return found;
}
