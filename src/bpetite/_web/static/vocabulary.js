// The view of a vocabulary: its tokens in a table, and one token with its parts and wholes.

import {
  $, chip, element, figure, onView, plural, question, row as tableRow, saveAddress, state,
} from "./common.js";

const TYPING_PAUSE = 120; // milliseconds
const BAR = 3; // rem, of the most frequent token

const askRows = question();
const askDetail = question();
let timer = 0;
let ids = []; // of the rows in the table
let mostUses = 1;
let drawn = ""; // what the table shows

const drawing = () =>
  JSON.stringify([state.of, state.find, state.sort, state.show, state.text, state.ordinary,
    state.learnt]);

async function draw(start = 0) {
  const query = {
    model: state.of, find: state.find.replaceAll("·", " "), sort: state.sort, show: state.show, start,
  };
  if (!drawn) $("hits").textContent = "loading";
  const answer = await askRows("/vocabulary", query, state.text);
  if (!answer) return;
  const { found, rows, used } = answer;
  drawn = drawing();
  if (start === 0) {
    ids = [];
    mostUses = Math.max(1, ...rows.map((each) => each[5]));
    $("rows").replaceChildren();
    $("list").scrollTop = 0;
  }
  ids.push(...rows.map(([id]) => id));
  $("rows").append(...rows.map((each, index) => tokenRow(each, start + index)));
  const hits = `${plural(found, "token")} of ${figure(answer.ids)}`;
  $("hits").textContent = `${hits}; ${figure(used)} in your text`;
  $("nothing").hidden = found > 0;
  $("nothing").textContent = /^#[\d,]+$/.test(state.find) ? "No token has this id."
    : "No token has these bytes. A text with them is still encoded: by shorter tokens.";
  $("more").hidden = ids.length === found;
  $("more").textContent = `Show more of the other ${figure(found - ids.length)}`;
  if (state.id === null && ids.length) state.id = ids[0];
  await choose(state.id);
}

function tokenRow([id, bytes, script, rank, wholes, uses], index) {
  const count = element("td", "number", uses ? figure(uses) : "");
  if (uses) {
    const bar = element("span", "share");
    bar.style.width = `${(BAR * Math.min(uses, mostUses)) / mostUses}rem`;
    count.append(bar);
  }
  const made = tableRow([
    element("td", "number", figure(id)),
    element("td", "", chip(bytes, index)),
    element("td", "number", String(bytes.split(" ").length)),
    element("td", "wider", script),
    element("td", "number wider", rank === null ? "" : figure(rank)),
    element("td", "number wider", wholes ? figure(wholes) : ""),
    count,
  ]);
  made.dataset.id = id;
  made.tabIndex = -1;
  return made;
}

async function choose(id) {
  state.id = id;
  saveAddress();
  for (const each of $("rows").children) {
    const isChosen = Number(each.dataset.id) === id;
    each.classList.toggle("now", isChosen);
    each.tabIndex = isChosen ? 0 : -1;
  }
  if (!$("rows").querySelector(".now") && $("rows").firstElementChild) {
    $("rows").firstElementChild.tabIndex = 0;
  }
  if (id === null) {
    $("detail").replaceChildren();
    return;
  }
  const found = await askDetail("/token", { model: state.of, id }, state.text);
  if (found) drawDetail(found);
}

function drawDetail({ row, merges, tree, wholes: some, tokens }) {
  const [id, bytes, script, rank, wholes, uses] = row;
  const length = bytes.split(" ").length;
  const chips = (ids, all = ids.length) => element(
    "div", "chips",
    ...ids.map((each, index) => chip(tokens[each], index, each)),
    all > ids.length ? element("span", "quiet", `and ${figure(all - ids.length)} more`) : "",
  );
  const made = merges.map(([rank, left, right]) => element(
    "div", "chips", chip(tokens[left], 0, left), "+", chip(tokens[right], 1, right),
    element("span", "quiet", `rank ${figure(rank)}`),
  ));
  const unmade = script === "special" ? "A special token stands for its literal, and nothing splits it."
    : length === 1 ? "A single byte is a token from the start, so every text can be encoded."
    : "The token stands only for a piece that equals it.";
  const big = chip(bytes, 0);
  big.classList.add("big");
  $("detail").replaceChildren(
    big,
    element("p", "facts",
      element("span", "", "id ", element("b", "", figure(id))),
      ...(rank === null ? [] : [element("span", "", "rank ", element("b", "", figure(rank)))]),
      element("span", "", plural(length, "byte")), element("span", "", script)),
    element("p", "mono quiet", bytes),
    element("h3", "", ["No merge", "Learnt from the pair"][merges.length] ?? "Merges that make it"),
    ...(made.length ? made : [element("p", "quiet", unmade)]),
    ...(tree.length > 1 ? [element("h3", "", "All its merges, first to last"), chips(tree)] : []),
    element("h3", "", wholes ? `Part of ${plural(wholes, "token")}` : "Part of no other token"),
    ...(wholes ? [chips(some, wholes)] : []),
    element("h3", "", "In your text"),
    element("p", "quiet", uses ? plural(uses, "time") : "not used"),
  );
}

function move(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const at = ids.indexOf(Number(event.target.closest("tr")?.dataset.id)) + step;
  if (!step || ids[at] === undefined || event.target.closest("tr") === null) return;
  event.preventDefault();
  $("rows").children[at].focus();
  choose(ids[at]);
}

export function startVocabulary() {
  $("find").addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      Object.assign(state, { find: $("find").value, id: null });
      saveAddress();
      draw();
    }, TYPING_PAUSE);
  });
  for (const name of ["sort", "show"]) {
    $(name).addEventListener("change", () => {
      Object.assign(state, { [name]: $(name).value, id: null });
      saveAddress();
      draw();
    });
  }
  $("rows").addEventListener("click", (event) => {
    const chosen = event.target.closest("tr");
    if (!chosen) return;
    chosen.focus();
    choose(Number(chosen.dataset.id)).then(() => $("detail").scrollIntoView({ block: "nearest" }));
  });
  $("rows").addEventListener("keydown", move);
  $("more").addEventListener("click", () => draw(ids.length));
  onView("vocabulary", () => {
    for (const name of ["find", "sort", "show"]) $(name).value = state[name];
    return drawn === drawing() && state.id !== null ? choose(state.id) : draw();
  });
}
