// The view of tokens: a text, its tokens in each vocabulary, their ids, and the tree of one piece.

import {
  $, EXAMPLES, HUES, copy, element, fail, figure, ask, go, isTooLong, models, onView, plural,
  question, saveAddress, say, server, size, state, term, visible,
} from "./common.js";
import { hideTree, showTree } from "./tree.js";

const TYPING_PAUSE = 60; // milliseconds without a key before a request
const BYTES_PER_PAUSE = 4096; // each adds a millisecond
const MAX_LISTED_IDS = 400;
const HINT = "Point at a token. A click or Enter shows how it is made.";

class Panel {
  constructor(model, number) {
    this.number = number;
    this.name = model.name;
    this.section = $("model-template").content.cloneNode(true).firstElementChild;
    this.find("h2").textContent = model.name;
    this.find(".figures").append(plural(model.ids, "id"),
      ...(model.pattern ? [", ", term("pattern"), ` ${model.pattern}`] : []));
    this.list = this.find(".tokens");
    this.list.setAttribute("aria-label", `Tokens of ${model.name}`);
    this.tokens = []; // the elements
    this.groups = []; // of each token: its characters, with all their tokens
    this.current = 0; // the token that Tab moves to
    this.describe();
    this.list.addEventListener("pointerover", (event) => this.describe(this.token(event.target)));
    this.list.addEventListener("pointerleave", () => this.describe(this.focused()));
    this.list.addEventListener("focusin", (event) => this.describe(this.token(event.target)));
    this.list.addEventListener("focusout", () => this.describe());
    this.list.addEventListener("click", (event) => this.click(event.target));
    this.list.addEventListener("keydown", (event) => this.key(event));
    this.find(".copy").addEventListener("click", () => this.copyIds());
    this.find(".remove").hidden = number < server.models.length;
    this.find(".remove").addEventListener("click", () =>
      go("tokens", { learnt: null, of: 0, at: null, step: null }));
  }

  find(selector) {
    return this.section.querySelector(selector);
  }

  show({ tokens, bytes, groups }) {
    const hadFocus = this.focused();
    this.section.classList.remove("stale");
    this.find(".count").textContent = plural(tokens, "token");
    const ids = groups.flatMap(([, ids]) => ids.map(([id]) => id));
    const each = tokens ? `${(bytes / tokens).toFixed(2)} bytes per token` : "";
    const isCut = ids.length < tokens;
    const cut = isCut ? `; the first ${figure(ids.length)} are shown` : "";
    this.find(".each").textContent = each + cut;
    this.showIds(ids.slice(0, MAX_LISTED_IDS), tokens);
    const shown = document.createDocumentFragment();
    this.tokens = [];
    this.groups = [];
    for (const [text, ids, special] of groups) {
      const first = this.tokens.length;
      if (/^\s/.test(text)) shown.append(element("wbr")); // break lines before a space
      shown.append(this.group(text, ids, special));
      for (const each of ids) this.groups.push({ text, ids, special, first, each });
    }
    this.list.replaceChildren(shown);
    this.current = Math.min(this.current, Math.max(this.tokens.length - 1, 0));
    if (this.tokens.length) this.tokens[this.current].tabIndex = 0;
    if (hadFocus) this.go(this.current);
    this.describe(this.focused());
    this.mark();
  }

  // The element of one or more whole characters: a token, or a frame with a brick for each token.
  group(text, ids, special) {
    const isShared = ids.length > 1;
    const tokens = ids.map((_, part) => {
      const token = element(isShared ? "i" : "span", `hue-${this.tokens.length % HUES}`);
      token.setAttribute("role", "option");
      token.dataset.number = this.tokens.length;
      token.tabIndex = -1;
      if (isShared) token.setAttribute("aria-label", `${text}, token ${part + 1} of ${ids.length}`);
      this.tokens.push(token);
      return token;
    });
    if (!isShared) {
      tokens[0].classList.add("token");
      if (special) tokens[0].className = "token special";
      tokens[0].append(...visible(text));
      return tokens[0];
    }
    const character = element("span", "character", ...visible(text));
    const frame = element("span", "token shared", character, element("span", "bricks", ...tokens));
    frame.setAttribute("role", "group");
    frame.setAttribute("aria-label", text);
    return frame;
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
    this.list.querySelector("[aria-selected]")?.removeAttribute("aria-selected");
    if (state.of === this.number) this.tokens[state.at]?.setAttribute("aria-selected", "true");
  }

  // Underline the tokens of the piece that is shown.
  markPiece(range) {
    for (const peer of this.list.querySelectorAll(".peer")) peer.classList.remove("peer");
    if (!range || state.of !== this.number) return;
    for (const token of this.tokens.slice(...range)) token.closest(".token").classList.add("peer");
  }

  // The token of an element: the first one if the element is a character of several tokens.
  token(target) {
    const selector = "[role=option]";
    return target.closest?.(selector) ?? target.closest?.(".shared")?.querySelector(selector);
  }

  focused() {
    return this.list.contains(document.activeElement) ? this.token(document.activeElement) : null;
  }

  go(number) {
    this.tokens[this.current].tabIndex = -1;
    this.current = number;
    const token = this.tokens[number];
    token.tabIndex = 0;
    token.setAttribute("aria-label", this.words(number).join(", "));
    token.focus();
  }

  click(target) {
    const token = this.token(target);
    if (!token) return;
    this.go(Number(token.dataset.number));
    choose(this.number, this.current);
  }

  // The facts of a token in words, after its characters.
  words(number) {
    const { text, ids, special, first, each: [id, bytes] } = this.groups[number];
    const part = ids.length > 1 ? [`token ${number - first + 1} of ${ids.length}`] : [];
    return [text, ...(special ? ["special"] : []), ...part, `id ${figure(id)}`, bytes];
  }

  describe(token) {
    const detail = this.find(".detail");
    if (!token) {
      detail.replaceChildren(HINT);
      return;
    }
    const [text, ...words] = this.words(Number(token.dataset.number));
    detail.replaceChildren(
      element("bdi", "", ...visible(text, true).slice(0, 100)),
      ...words.map((each) => element("span", "", each.slice(0, 150))),
    );
  }

  key(event) {
    if (!this.focused() || event.ctrlKey || event.metaKey || event.altKey) return;
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
    if (to) this.go(Math.min(Math.max(to(), 0), last));
    else if (event.key === "Enter") choose(this.number, this.current, true);
    else return;
    event.preventDefault();
  }

  // The token nearest to the current one, on the next line (step 1) or the previous one (-1).
  line(step) {
    const place = (index) => this.tokens[index].closest(".token").getClientRects()[0];
    const from = place(this.current);
    let best = this.current;
    let bestTop = null;
    let nearest = Infinity;
    for (let index = this.current + step; this.tokens[index]; index += step) {
      const box = place(index);
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
  $("size").textContent = `${plural([...text].length, "character")}, ${figure(size(text))} of at ` +
    `most ${plural(server.maxBytes, "byte")}`;
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
  Object.assign(state, { text, at: null, step: null, token: 0 });
  for (const panel of panels) panel.section.classList.add("stale");
  hideTree();
}

export function copyIds() {
  panels[state.of].copyIds();
}

// Go back from the tree to its token.
export function focusToken() {
  panels[state.of].go(state.at);
}

function startPanels() {
  panels = models().map((model, number) => new Panel(model, number));
  $("models").replaceChildren(...panels.map((panel) => panel.section));
}

export function startTokens() {
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
    if (models().some(({ name }, index) => panels[index]?.name !== name)
      || panels.length !== models().length) startPanels();
    if ($("text").value !== state.text) $("text").value = state.text;
    $("ordinary").checked = state.ordinary === 1;
    return tokenise();
  });
}
