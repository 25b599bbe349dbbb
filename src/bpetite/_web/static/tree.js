// The merge tree of one piece: its bytes at the bottom, a box for each merge, and a table of steps.

import {
  $, HUES, chip, element, figure, go, models, plural, question, row, saveAddress, state, term,
  textOf, tokenParts, tokenText, visible,
} from "./common.js";
import { Player } from "./player.js";

const REM = 16; // pixels
const LEAF = 40;
const LEVEL = 58;
const BOX = 24;
const CHARACTER = 8.6; // the width of a character of a box
const MAX_CHARACTERS = 60; // of the piece in words
const LABEL = 14; // below a box
const LEAD = () => ["A ", term("piece"), " begins as bytes, or as characters if the " +
  "vocabulary has byte fallback. Of all pairs of neighbours that are " +
  "merges, the lowest ", term("rank"), " is merged first, and so on until no pair is left."];
const INVITATION = "Click a token to see the merges that made it.";
const REASONS = {
  whole: "This piece is a token of the vocabulary, so it is taken whole: no merge makes it.",
  special: "A special token stands for its literal: no merge makes it, and nothing splits it.",
};

const askPiece = question();
let shown = null; // the answer of the server
let player = null;

export const treePlayer = () => (shown?.steps.length ? player : null);

export function hideTree() {
  askPiece.cancel();
  player?.stop();
  shown = null;
  $("made-body").hidden = true;
  $("made-lead").textContent = INVITATION;
}

// Show the piece of the chosen token; return the numbers of its first token and of the next piece's.
export async function showTree() {
  if (state.at === null) {
    hideTree();
    return null;
  }
  const found = await askPiece("/explain", { model: state.of, at: state.at }, state.text);
  if (!found || state.at === null) return null;
  shown = found;
  player ??= new Player("tree-player", "steps of the tree", "step", 900, (at) => {
    state.step = at;
    saveAddress();
    mark(at);
  });
  player.reset(shown.steps.length, state.step ?? shown.steps.length);
  const reason = REASONS[shown.kind] ??
    `This piece has ${plural(shown.bytes, "byte")}; a tree of at most ${shown.max_bytes} is drawn.`;
  const isMerged = shown.kind === "merged";
  $("made-lead").replaceChildren(...(isMerged ? LEAD() : [reason]));
  $("made-body").hidden = false;
  player.root.hidden = !shown.steps.length;
  $("tree").parentElement.hidden = !isMerged;
  $("merges").parentElement.hidden = !shown.steps.length;
  drawFacts();
  drawTree();
  drawTable();
  mark(player.at);
  return [shown.first, shown.first + shown.ids.length];
}

function drawFacts() {
  const number = state.at - shown.first;
  const id = shown.ids[number];
  const bytes = shown.tokens[id];
  const step = shown.steps[shown.roots[number] - shown.byte_ids.length];
  const characters = [...shown.piece];
  const beginning = characters.slice(0, MAX_CHARACTERS).join("");
  const isCut = characters.length > MAX_CHARACTERS;
  const piece = element("bdi", "mono", ...visible(beginning, true), isCut ? "…" : "");
  const count = shown.ids.length;
  const place = count > 1 ? `token ${figure(number + 1)} of ${figure(count)} in the piece ` : "the piece ";
  const { merges, name } = models()[state.of];
  const fact = (...parts) => element("span", "", ...parts);
  const bold = (text) => element("b", "", text);
  const look = element("button", "link", `in ${name}`);
  look.type = "button";
  look.addEventListener("click", () => go("vocabulary", { id }));
  $("facts").replaceChildren(
    chip(bytes, state.at),
    fact("id ", bold(figure(id))),
    fact(`${plural(bytes.split(" ").length, "byte")} `, element("b", "mono", bytes)),
    ...(step ? [fact("rank ", bold(figure(step.rank)), ` of ${figure(merges)}, from `,
      ...pair(step.pair))] : []),
    fact(place, piece),
    look,
  );
}

// The nodes of the tree: bytes or characters, then merges, each with its place.
function nodes() {
  const made = shown.byte_ids.map((id, at) => ({
    id, step: 0, x: (at + 0.5) * LEAF, level: 0, parts: [],
  }));
  shown.steps.forEach((step, index) => {
    const parts = step.parts.map((part) => made[part]);
    made.push({
      id: step.id,
      rank: step.rank,
      step: index + 1,
      x: (parts[0].x + parts[1].x) / 2,
      level: Math.max(...parts.map((part) => part.level)) + 1,
      parts,
    });
  });
  return made;
}

function svg(name, attributes, ...children) {
  const made = document.createElementNS($("tree").namespaceURI, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function drawTree() {
  const tree = $("tree");
  if (shown.kind !== "merged") {
    tree.replaceChildren();
    return;
  }
  const all = nodes();
  const top = Math.max(...all.map((node) => node.level));
  const width = shown.byte_ids.length * LEAF;
  const height = top * LEVEL + BOX + LABEL + 24;
  tree.setAttribute("viewBox", `0 0 ${width} ${height}`);
  tree.setAttribute("width", `${width / REM}rem`); // larger type, larger tree
  tree.setAttribute("height", `${height / REM}rem`);
  tree.setAttribute("aria-label", `The merges of ${JSON.stringify(shown.piece)}, in the table below`);
  const y = (node) => (top - node.level) * LEVEL + 14;
  const hue = new Map(shown.roots.map((root, index) => [root, (shown.first + index) % HUES]));
  const edges = all.flatMap((node) =>
    node.parts.map((part) => {
      const from = y(node) + BOX + LABEL + 4;
      const middle = (from + y(part)) / 2;
      const path = `M${node.x} ${from}C${node.x} ${middle} ${part.x} ${middle} ${part.x} ${y(part)}`;
      return svg("path", { class: "edge", d: path, "data-step": node.step });
    }),
  );
  const boxes = all.map((node, number) => {
    const isLeaf = !node.parts.length;
    const bytes = shown.tokens[node.id];
    const isText = textOf(bytes) !== null;
    const label = isLeaf && !isText ? bytes : tokenText(bytes);
    const w = Math.min(Math.max(label.length * CHARACTER + 12, 28), isLeaf ? LEAF - 4 : Infinity);
    const below = isLeaf ? (isText ? bytes : "") : `rank ${figure(node.rank)}`;
    const group = svg("g", { class: "node", "data-step": node.step },
      svg("rect", { x: node.x - w / 2, y: y(node), width: w, height: BOX, rx: 4 }),
      svg("text", { x: node.x, y: y(node) + 17 }, label),
      svg("text", { class: "small", x: node.x, y: y(node) + BOX + LABEL }, below),
      svg("title", {}, `id ${figure(node.id)}: ${shown.tokens[node.id]}`),
    );
    if (hue.has(number)) group.classList.add(`hue-${hue.get(number)}`);
    group.classList.toggle("chosen", number === shown.roots[state.at - shown.first]);
    group.addEventListener("click", () => go("vocabulary", { id: node.id }));
    return group;
  });
  tree.replaceChildren(...edges, ...boxes);
}

function pair(ids) {
  return ids.flatMap((id, index) => [...(index ? [" "] : []), chip(shown.tokens[id], index, id)]);
}

function drawTable() {
  let ids = [...shown.byte_ids];
  let places = ids.map((_, node) => node);
  const rows = shown.steps.map((step, index) => {
    const at = places.indexOf(step.parts[0]);
    places.splice(at, 2, shown.byte_ids.length + index);
    ids.splice(at, 2, step.id);
    const waits = step.lost && ids.some((id, at) => id === step.lost[0] && ids[at + 1] === step.lost[1]);
    const fate = waits ? "waits" : "its part is taken";
    const lost = step.lost ? [...pair(step.lost), ` rank ${figure(step.lost_rank)}: ${fate}`]
      : ["no other pair is a merge"];
    const after = ids.map((id, place) =>
      element("span", place === at ? "now" : "", ...tokenParts(shown.tokens[id])));
    const jump = element("button", "jump", String(index + 1));
    jump.type = "button";
    jump.addEventListener("click", () => player.jump(index + 1));
    return row([
      element("td", "", jump),
      element("td", "", ...pair(step.pair)),
      element("td", "number", figure(step.rank)),
      element("td", "number", figure(step.id)),
      element("td", "mono quiet", shown.tokens[step.id]),
      element("td", "quiet", ...lost),
      element("td", "after mono", ...after),
    ]);
  });
  const end = element("td", "quiet", ids.length > 1
    ? `No pair of the ${figure(ids.length)} tokens is a merge: the piece is done.`
    : "One token is left: the piece is done.");
  end.colSpan = 6;
  rows.push(row([element("td"), end]));
  $("merges").querySelector("tbody").replaceChildren(...rows);
}

function mark(at) {
  const view = $("tree").parentElement;
  for (const part of $("tree").children) {
    const step = Number(part.dataset.step);
    part.classList.toggle("off", step > at);
    part.classList.toggle("now", step === at && at > 0);
  }
  const now = $("tree").querySelector(".node.now");
  if (now && view.scrollWidth > view.clientWidth) {
    const [box, place] = [now.getBoundingClientRect(), view.getBoundingClientRect()];
    view.scrollLeft += box.left + box.width / 2 - place.left - place.width / 2;
  }
  [...$("merges").querySelector("tbody").rows].forEach((each, index) => {
    each.classList.toggle("now", index + 1 === at);
    each.classList.toggle("off", Math.min(index + 1, shown.steps.length) > at);
  });
}
