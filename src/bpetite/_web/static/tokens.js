// The view of tokens: a text, its tokens in each vocabulary, their ids, and the tree of one piece.

import {
  $, EXAMPLES, HUES, copy, element, fail, figure, ask, isTooLong, onView, plural, question,
  saveAddress, say, server, size, state, visible,
} from "./common.js";
import { hideTree, showTree } from "./tree.js";

const TYPING_PAUSE = 60; // milliseconds without a key before a request
const BYTES_PER_PAUSE = 4096; // each adds a millisecond
const MAX_LISTED_IDS = 400;
const HINT = "Point at a token, or use the arrow keys. Click or Enter shows how it was made.";

class Panel {
  constructor(model, number) {
    this.number = number;
    this.name = model.name;
    this.section = $("model-template").content.cloneNode(true).firstElementChild;
    this.find("h2").textContent = model.name;
    this.find(".figures").textContent =
      plural(model.ids, "id") + (model.pattern ? `, pattern ${model.pattern}` : "");
    this.list = this.find(".tokens");
    this.list.setAttribute("aria-label", `Tokens of ${model.name}`);
    this.groups = [];
    this.current = 0; // the token that Tab moves to
    this.describe();
    this.list.addEventListener("pointerover", (event) => this.describe(this.token(event.target)));
    this.list.addEventListener("pointerleave", () => this.describe(this.focused()));
    this.list.addEventListener("focusin", (event) => this.describe(this.token(event.target)));
    this.list.addEventListener("focusout", () => this.describe());
    this.list.addEventListener("click", (event) => this.click(event.target));
    this.list.addEventListener("keydown", (event) => this.key(event));
    this.find(".copy").addEventListener("click", () => this.copyIds());
  }

  find(selector) {
    return this.section.querySelector(selector);
  }

  show({ tokens, bytes, groups }) {
    const hadFocus = this.focused();
    this.section.classList.remove("stale");
    this.groups = groups;
    this.count = tokens;
    this.find(".count").textContent = plural(tokens, "token");
    const ids = groups.flatMap(([, ids]) => ids.map(([id]) => id));
    const each = tokens ? `${(bytes / tokens).toFixed(2)} bytes per token` : "";
    const isCut = ids.length < tokens;
    const cut = isCut ? `; the first ${figure(ids.length)} are shown` : "";
    this.find(".each").textContent = each + cut;
    this.showIds(ids.slice(0, MAX_LISTED_IDS), tokens);
    const shown = document.createDocumentFragment();
    let number = 0;
    groups.forEach(([text, ids, special], index) => {
      const token = this.group(text, ids, special, number);
      token.dataset.index = index;
      if (/^\s/.test(text)) shown.append(element("wbr")); // break lines before a space
      shown.append(token);
      number += ids.length;
    });
    this.list.replaceChildren(shown);
    this.tokens = this.list.querySelectorAll(".token");
    this.current = Math.min(this.current, Math.max(groups.length - 1, 0));
    if (groups.length) this.tokens[this.current].tabIndex = 0;
    if (hadFocus) this.go(this.tokens[this.current]);
    this.describe(this.focused());
    this.mark();
  }

  group(text, ids, special, number) {
    const token = element("span", "token", ...visible(text));
    token.setAttribute("role", "option");
    token.dataset.number = number; // of its first token
    token.tabIndex = -1;
    if (special) token.classList.add("special");
    if (ids.length === 1) {
      token.classList.add(`hue-${number % HUES}`);
      return token;
    }
    const bricks = ids.map((_, part) => {
      const brick = element("i", `hue-${(number + part) % HUES}`);
      brick.dataset.number = number + part;
      return brick;
    });
    const below = element("span", "bricks", ...bricks);
    below.setAttribute("aria-hidden", "true");
    const character = element("span", "character", ...visible(text));
    token.classList.add("shared");
    token.replaceChildren(character, below);
    return token;
  }

  showIds(ids, count) {
    const code = this.find("code");
    const more = ids.length < count ? ` … ${figure(count - ids.length)} more` : "";
    code.textContent = ids.join(" ") + more;
    this.find(".copy").disabled = count === 0;
  }

  async copyIds() {
    try {
      const ids = await (await ask("/ids", { model: this.number }, state.text)).json();
      await copy(ids.join(" "), this.find(".copy"));
    } catch (error) {
      fail(error);
    }
  }

  // Mark the token whose tree is shown.
  mark() {
    for (const marked of this.list.querySelectorAll("[aria-selected]")) {
      marked.removeAttribute("aria-selected");
    }
    if (state.of !== this.number || state.at === null) return;
    const index = [...this.tokens].findLastIndex(({ dataset }) => Number(dataset.number) <= state.at);
    this.tokens[index]?.setAttribute("aria-selected", "true");
  }

  // Underline the tokens of the piece that is shown.
  markPiece(range) {
    for (const token of this.tokens ?? []) {
      const number = Number(token.dataset.number);
      const isIn = range && state.of === this.number && number >= range[0] && number < range[1];
      token.classList.toggle("peer", Boolean(isIn));
    }
  }

  token(target) {
    return target.closest?.(".token");
  }

  focused() {
    return this.list.contains(document.activeElement) ? this.token(document.activeElement) : null;
  }

  go(token) {
    if (!token) return;
    this.tokens[this.current].tabIndex = -1;
    this.current = Number(token.dataset.index);
    token.tabIndex = 0;
    token.setAttribute("aria-label", this.words(token));
    token.focus();
  }

  click(target) {
    const token = this.token(target);
    if (!token) return;
    this.go(token);
    choose(this.number, Number(target.closest("[data-number]").dataset.number));
  }

  words(token) {
    const [text, ids] = this.groups[token.dataset.index];
    const parts = ids.map(([id, bytes]) => `id ${id}, bytes ${bytes}`);
    return `${JSON.stringify(text)}: ${parts.join("; ")}`;
  }

  describe(token) {
    const detail = this.find(".detail");
    if (!token) {
      detail.replaceChildren(HINT);
      return;
    }
    const [text, ids, special] = this.groups[token.dataset.index];
    const notes = [];
    if (special) notes.push(element("span", "", "special"));
    if (ids.length > 1) notes.push(element("span", "", `${ids.length} tokens:`));
    detail.replaceChildren(
      element("span", "", element("b", "", ...visible(text, true).slice(0, 100))),
      ...notes,
      ...ids.slice(0, 50).map(([id, bytes]) => element("span", "", `${id} (${bytes})`)),
    );
  }

  key(event) {
    const token = this.focused();
    if (!token || event.ctrlKey || event.metaKey || event.altKey) return;
    const last = this.tokens.length - 1;
    const forward = getComputedStyle(this.list).direction === "rtl" ? -1 : 1;
    const to = {
      ArrowRight: () => this.current + forward,
      ArrowLeft: () => this.current - forward,
      ArrowDown: () => this.line(1),
      ArrowUp: () => this.line(-1),
      Home: () => 0,
      End: () => last,
    }[event.key];
    if (to) this.go(this.tokens[Math.min(Math.max(to(), 0), last)]);
    else if (event.key === "Enter") choose(this.number, Number(token.dataset.number), true);
    else return;
    event.preventDefault();
  }

  // The token nearest to the current one, on the next line (step 1) or the previous one (-1).
  line(step) {
    const from = this.tokens[this.current].getClientRects()[0];
    let best = this.current;
    let bestTop = null;
    let nearest = Infinity;
    for (let index = this.current + step; this.tokens[index]; index += step) {
      const box = this.tokens[index].getClientRects()[0];
      if (Math.abs(box.top - from.top) < from.height) continue;
      bestTop ??= box.top;
      if (Math.abs(box.top - bestTop) > from.height) break;
      const distance = Math.abs(box.left - from.left);
      if (distance < nearest) [best, nearest] = [index, distance];
    }
    return best;
  }
}

let panels = [];
let timer = 0;
const askTokens = question();

// Show how a token was made; `move` brings the tree into view. A token of an old text has no tree.
async function choose(model, at, move = false) {
  if (panels[model].section.classList.contains("stale")) return;
  Object.assign(state, { of: model, at, step: null });
  panels.forEach((panel) => panel.mark());
  saveAddress();
  await showPiece();
  const place = $("made").getBoundingClientRect();
  if (move || place.top > innerHeight) $("made").scrollIntoView({ block: "nearest" });
  if (move) $("tree").parentElement.focus({ preventScroll: true });
}

export async function tokenise() {
  const text = state.text;
  saveAddress();
  say("");
  $("size").textContent = `${plural([...text].length, "character")}, ${plural(size(text), "byte")}`;
  for (const chip of $("examples").children) {
    chip.setAttribute("aria-pressed", EXAMPLES[chip.textContent] === text);
  }
  if (isTooLong(text, server.maxBytes)) {
    askTokens.cancel();
    for (const panel of panels) panel.show({ tokens: 0, bytes: 0, groups: [] });
    for (const panel of panels) panel.find(".count").textContent = "not counted";
    state.at = null;
    hideTree();
    return;
  }
  const answer = await askTokens("/tokens", {}, text);
  if (!answer) return;
  answer.forEach((tokens, index) => panels[index].show(tokens));
  if (state.at !== null && state.at >= answer[state.of].tokens) state.at = null;
  await showPiece();
}

async function showPiece() {
  const range = await showTree();
  panels.forEach((panel) => panel.markPiece(range));
}

function change(text) {
  Object.assign(state, { text, at: null, step: null });
  for (const panel of panels) panel.section.classList.add("stale");
  hideTree();
}

export function copyIds() {
  panels[state.of].copyIds();
}

export function startTokens() {
  panels = server.models.map((model, number) => new Panel(model, number));
  $("models").replaceChildren(...panels.map((panel) => panel.section));
  for (const [name, text] of Object.entries(EXAMPLES)) {
    const chip = element("button", "", name);
    chip.type = "button";
    chip.addEventListener("click", () => {
      change(text);
      $("text").value = text;
      tokenise();
    });
    $("examples").append(chip);
  }
  $("text").addEventListener("input", () => {
    change($("text").value);
    clearTimeout(timer);
    timer = setTimeout(tokenise, TYPING_PAUSE + state.text.length / BYTES_PER_PAUSE);
  });
  $("ordinary").addEventListener("change", () => {
    state.ordinary = Number($("ordinary").checked);
    change(state.text);
    tokenise();
  });
  onView("tokens", () => {
    if ($("text").value !== state.text) $("text").value = state.text;
    $("ordinary").checked = state.ordinary === 1;
    return tokenise();
  });
}
