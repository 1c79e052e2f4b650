"use strict";
// Renders Markdown as elements. Text only becomes text nodes, so a model cannot inject markup. Pictures become links:
// the page loads nothing.

function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

const kFence = /^ {0,3}(`{3,}|~{3,})\s*([^\s`]*)[^`]*$/;
const kHeading = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const kRule = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const kItem = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const kQuote = /^ {0,3}> ?(.*)$/;
const kTableRule = /^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;

function closesFence(line, fence) {
  const text = line.trim();
  return text.length >= fence.length && text === fence[0].repeat(text.length);
}

function beginsTable(lines, at) {
  return at + 1 < lines.length && lines[at].includes("|") && lines[at + 1].includes("-") && kTableRule.test(lines[at + 1]) &&
    lines[at + 1].includes("|");
}

// Sources of top-level blocks, to rerender only changed ones.
function blocksOf(text) {
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  const blocks = [];
  let at = 0;
  const take = (end) => {
    blocks.push(lines.slice(at, end).join("\n"));
    at = end;
  };
  while (at < lines.length) {
    const line = lines[at];
    if (!line.trim()) {
      ++at;
      continue;
    }
    const fence = kFence.exec(line);
    let end = at + 1;
    if (fence) {
      while (end < lines.length && !closesFence(lines[end], fence[1])) ++end;
      take(Math.min(end + 1, lines.length));
    } else if (kHeading.test(line) || kRule.test(line)) {
      take(end);
    } else if (beginsTable(lines, at)) {
      while (end < lines.length && lines[end].includes("|")) ++end;
      take(end);
    } else if (kQuote.test(line)) {
      while (end < lines.length && lines[end].trim() && (kQuote.test(lines[end]) || !startsBlock(lines, end))) ++end;
      take(end);
    } else if (kItem.test(line)) {
      take(endOfList(lines, at));
    } else {
      while (end < lines.length && lines[end].trim() && !startsBlock(lines, end)) ++end;
      take(end);
    }
  }
  return blocks;
}

function startsBlock(lines, at) {
  const line = lines[at];
  return kFence.test(line) || kHeading.test(line) || kRule.test(line) || kQuote.test(line) || kItem.test(line) ||
    beginsTable(lines, at);
}

// A list includes indented lines, further items, and empty lines before them.
function endOfList(lines, at) {
  let end = at + 1;
  let fence = null;
  for (; end < lines.length; ++end) {
    const line = lines[end];
    if (fence) {
      if (closesFence(line, fence)) fence = null;
      continue;
    }
    if (!line.trim()) {
      let next = end + 1;
      while (next < lines.length && !lines[next].trim()) ++next;
      if (next < lines.length && (/^\s{2,}/.test(lines[next]) || kItem.test(lines[next]))) continue;
      break;
    }
    const opens = kFence.exec(line.trimStart());
    if (/^\s{2,}/.test(line) && opens) fence = opens[1];
    else if (kRule.test(line) || (!/^\s{2,}/.test(line) && !kItem.test(line) && startsBlock(lines, end))) break;
  }
  return end;
}

function renderBlock(source, depth = 0) {
  const lines = source.split("\n");
  const first = lines[0];
  const fence = kFence.exec(first);
  if (fence) return codeBlock(lines, fence);
  const heading = kHeading.exec(first);
  if (heading) return element("h" + heading[1].length, "", inline(heading[2]));
  if (kRule.test(first)) return element("hr");
  if (beginsTable(lines, 0)) return table(lines);
  if (depth < 12 && kQuote.test(first)) {
    const inner = lines.map((line) => (kQuote.exec(line) || [line, line])[1]).join("\n");
    return element("blockquote", "", ...blocksOf(inner).map((block) => renderBlock(block, depth + 1)));
  }
  if (depth < 12 && kItem.test(first)) return list(lines, depth);
  const paragraph = element("p");
  lines.forEach((line, i) => {
    if (i > 0) paragraph.append(element("br"));
    paragraph.append(inline(line.trim()));
  });
  return paragraph;
}

function codeBlock(lines, fence) {
  const closed = lines.length > 1 && closesFence(lines[lines.length - 1], fence[1]);
  const text = lines.slice(1, closed ? -1 : undefined).join("\n");
  const block = element("pre");
  if (fence[2]) block.append(element("div", "language", fence[2]));
  block.append(element("code", "", text), copyButton(() => text));
  return block;
}

function copyButton(textOf) {
  const button = element("button", "", "Copy");
  button.type = "button";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(textOf());
      button.textContent = "Copied";
    } catch {
      button.textContent = "The browser did not allow it"; // needs https on other machines
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  return button;
}

function cellsOf(line) {
  const cells = [""];
  const text = line.trim().replace(/^\|/, "").replace(/\|$/, "");
  for (let i = 0; i < text.length; ++i) {
    if (text[i] === "\\" && text[i + 1] === "|") cells[cells.length - 1] += text[++i];
    else if (text[i] === "|") cells.push("");
    else cells[cells.length - 1] += text[i];
  }
  return cells.map((cell) => cell.trim());
}

function table(lines) {
  const sides = cellsOf(lines[1]).map((rule) =>
    rule.endsWith(":") ? (rule.startsWith(":") ? "center" : "right") : "");
  const row = (line, name) => element("tr", "",
    ...cellsOf(line).slice(0, sides.length).map((cell, i) => element(name, sides[i], inline(cell))));
  return element("div", "table", element("table", "", element("thead", "", row(lines[0], "th")),
    element("tbody", "", ...lines.slice(2).map((line) => row(line, "td")))));
}

function list(lines, depth) {
  const marker = kItem.exec(lines[0]);
  const numbered = /\d/.test(marker[2]);
  const made = element(numbered ? "ol" : "ul");
  if (numbered && parseInt(marker[2], 10) !== 1) made.start = parseInt(marker[2], 10);
  const indent = marker[1].length;
  let item = null;
  const finish = () => {
    if (!item) return;
    const li = element("li");
    const task = /^\[([ xX])\]\s+/.exec(item[0]);
    if (task) {
      item[0] = item[0].slice(task[0].length);
      const box = element("input");
      box.type = "checkbox";
      box.disabled = true;
      box.checked = task[1] !== " ";
      li.className = "task";
      li.append(box, " ");
    }
    const blocks = blocksOf(item.join("\n"));
    if (blocks.length > 0 && !startsBlock(blocks[0].split("\n"), 0)) {
      blocks[0].split("\n").forEach((line, i) => {
        if (i > 0) li.append(element("br"));
        li.append(inline(line.trim()));
      });
      blocks.shift();
    }
    li.append(...blocks.map((block) => renderBlock(block, depth + 1)));
    made.append(li);
  };
  let inside = 0; // column of the item's text
  for (const line of lines) {
    const at = kItem.exec(line);
    if (at && at[1].length < Math.max(inside, indent + 2)) {
      finish();
      item = [at[3]];
      inside = line.length - at[3].length;
    } else {
      const spaces = line.length - line.trimStart().length;
      item.push(line.slice(Math.min(spaces, inside)));
    }
  }
  finish();
  return made;
}

const kMarks = [["**", "strong"], ["__", "strong"], ["~~", "del"], ["*", "em"], ["_", "em"]];
const isWord = (c) => c !== undefined && /[\p{L}\p{N}]/u.test(c);

// Not after a space, and "_" not within a word. -1: none.
function closingMark(text, mark, from) {
  for (let at = text.indexOf(mark, from); at >= 0; at = text.indexOf(mark, at + 1)) {
    if (at === from || /\s/.test(text[at - 1])) continue;
    if (mark.length === 1 && (text[at + 1] === mark || text[at - 1] === mark)) continue;
    if (mark[0] === "_" && isWord(text[at + mark.length])) continue;
    return at;
  }
  return -1;
}

function safeAddress(address) {
  try {
    return ["http:", "https:", "mailto:"].includes(new URL(address).protocol) ? address : null;
  } catch {
    return null;
  }
}

function link(address, ...content) {
  const made = element("a", "", ...content);
  made.href = address;
  made.target = "_blank";
  made.rel = "noopener noreferrer";
  return made;
}

// [text](address), optionally with "!"; else null.
function linkAt(text, from, depth) {
  const start = text[from] === "!" ? from + 1 : from;
  if (text[start] !== "[") return null;
  const close = text.indexOf("](", start);
  const end = close < 0 ? -1 : text.indexOf(")", close);
  if (end < 0 || text.slice(start, close).includes("\n")) return null;
  const address = safeAddress(text.slice(close + 2, end).trim().split(/\s/)[0].replace(/^<|>$/g, ""));
  return address ? {end: end + 1, node: link(address, inline(text.slice(start + 1, close) || address, depth + 1))} : null;
}

function inline(text, depth = 0) {
  const made = document.createDocumentFragment();
  if (depth > 12) {
    made.append(text);
    return made;
  }
  let plain = "";
  const unclosed = new Set(); // marks without a closing one
  const add = (node) => {
    if (plain) made.append(plain);
    plain = "";
    made.append(node);
  };
  for (let i = 0; i < text.length;) {
    const c = text[i];
    if (c === "\\" && /[!-/:-@[-`{-~]/.test(text[i + 1] || "")) {
      plain += text[i + 1];
      i += 2;
      continue;
    }
    if (c === "`") {
      const ticks = /^`+/.exec(text.slice(i, i + 20))[0];
      const end = unclosed.has(ticks) ? -1 : text.indexOf(ticks, i + ticks.length);
      if (end >= 0) {
        add(element("code", "", text.slice(i + ticks.length, end).replace(/^ (.*\S.*) $/, "$1")));
        i = end + ticks.length;
        continue;
      }
      unclosed.add(ticks);
      plain += ticks;
      i += ticks.length;
      continue;
    }
    const found = c === "[" || c === "!" ? linkAt(text, i, depth) : null;
    if (found) {
      add(found.node);
      i = found.end;
      continue;
    }
    if (c === "h" && !isWord(text[i - 1])) {
      const address = /^https?:\/\/[^\s<>"'`)\]]+[^\s<>"'`)\].,;:!?*_]/.exec(text.slice(i, i + 2000));
      if (address && safeAddress(address[0])) {
        add(link(address[0], address[0]));
        i += address[0].length;
        continue;
      }
    }
    const mark = kMarks.find(([name]) => text.startsWith(name, i));
    if (mark) {
      const [name, tag] = mark;
      const opens = !/\s/.test(text[i + name.length] || " ") && !(name[0] === "_" && isWord(text[i - 1]));
      const end = opens && !unclosed.has(name) ? closingMark(text, name, i + name.length) : -1;
      if (end >= 0) {
        add(element(tag, "", inline(text.slice(i + name.length, end), depth + 1)));
        i = end + name.length;
        continue;
      }
      if (opens) unclosed.add(name);
      plain += name;
      i += name.length;
      continue;
    }
    plain += c;
    ++i;
  }
  if (plain) made.append(plain);
  return made;
}

// For growing text: unchanged blocks keep their elements.
function showMarkdown(target, text) {
  const blocks = blocksOf(text);
  const shown = target.shownBlocks || [];
  let same = 0;
  while (same < blocks.length && same < shown.length && blocks[same] === shown[same]) ++same;
  while (target.childNodes.length > same) target.lastChild.remove();
  target.append(...blocks.slice(same).map((block) => renderBlock(block)));
  target.shownBlocks = blocks;
}
