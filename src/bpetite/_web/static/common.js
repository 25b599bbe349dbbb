// What all views share: the state, the address, the server, and how text and bytes are shown. All
// text enters the page as text nodes, never as HTML.

export const HUES = 4;

export const $ = (id) => document.getElementById(id);
export const size = (text) => new TextEncoder().encode(text).length;
export const figure = new Intl.NumberFormat("en").format;
export const plural = (count, noun) => `${figure(count)} ${noun}${count === 1 ? "" : "s"}`;

export function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

export function row(cells, className = "") {
  return element("tr", className, ...cells);
}

// White space and other invisible characters

const INVISIBLE = /[\p{C}\p{Z}\u{fe00}-\u{fe0f}\u{e0100}-\u{e01ef}]|^\p{M}/gu;
const SYMBOLS = { " ": "·", "\n": "↵\n", "\t": "→\t" };

function symbol(character) {
  if (SYMBOLS[character]) return SYMBOLS[character];
  if (/\p{M}/u.test(character) && !/[\u{fe00}-\u{fe0f}\u{e0100}-\u{e01ef}]/u.test(character)) {
    return `◌${character}`; // else it would join the previous character, of another token
  }
  return `\\u{${character.codePointAt(0).toString(16)}}`;
}

// A symbol is left to right, whatever the text around it is; `flat` leaves out line ends and tabs.
export function visible(text, flat = false) {
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(INVISIBLE)) {
    if (found.index > end) parts.push(text.slice(end, found.index));
    const shown = symbol(found[0]);
    const mark = element("span", "mark", flat ? shown.replace(/[\n\t]/, "") : shown);
    mark.dir = "ltr";
    parts.push(mark);
    end = found.index + found[0].length;
  }
  if (end < text.length) parts.push(text.slice(end));
  return parts;
}

// Tokens, whose bytes arrive in hexadecimal

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export const fromHex = (hex) => Uint8Array.from(hex.split(" "), (byte) => parseInt(byte, 16));
export const toHex = (byte) => byte.toString(16).padStart(2, "0").toUpperCase();

// The text of a token, or null if its bytes are no whole characters.
export function textOf(hex) {
  try {
    return strict.decode(fromHex(hex));
  } catch {
    return null;
  }
}

export function tokenParts(hex) {
  const text = textOf(hex);
  return text === null ? [hex] : visible(text, true);
}

export const tokenText = (hex) =>
  tokenParts(hex).map((part) => part.textContent ?? part).join("");

// A token as a chip; a click calls `target`, or shows the token in the vocabulary if that is an id.
export function chip(hex, hue = 0, target = null) {
  const className = `chip hue-${hue % HUES}${textOf(hex) === null ? " hex" : ""}`;
  const made = element(target === null ? "span" : "button", className, ...tokenParts(hex));
  made.dir = "auto";
  if (target !== null) {
    made.type = "button";
    made.title = typeof target === "function" ? hex : `id ${figure(target)}: ${hex}`;
    const act = typeof target === "function" ? target : () => go("vocabulary", { id: target });
    made.addEventListener("click", act);
  }
  return made;
}

// Words with a definition, which appears under the pointer and at the focus

const TERMS = {
  pattern: "The regular expression that cuts a text into pieces.",
  piece: "A stretch of text that is encoded by itself: the pattern cuts a text into pieces, such " +
    "as words, and no token crosses from one piece into the next.",
  rank: "The place of a merge in the order in which merges were learnt. The lowest rank is merged " +
    "first.",
};

export function term(name, word = name) {
  const made = element("span", "term", word, element("span", "definition", TERMS[name]));
  made.tabIndex = 0;
  return made;
}

// The state, all of which is in the address

export const VIEWS = ["tokens", "vocabulary", "training", "stream"];
const MAX_LINK_BYTES = 4000; // longer addresses are cut by mail and chat programs
const KEPT_TEXT = "bpetite text";

export const EXAMPLES = {
  "Many scripts":
    "Tokens are bytes, not characters: naïve café, Привет, 你好，世界。\nनमस्ते, שלום, 안녕하세요 🙂 " +
    "👩‍👩‍👧 🇫🇷 <b>not bold</b><|endoftext|>",
  English: "The hen then met the ten unbelievable men: 1,234,567 of them,  and two spaces.",
  Code: "def train(self, corpus):\n    return [len(piece) for piece in corpus]\n",
  "Right to left": "שלום עולם\tمرحبا بالعالم \u200b123 abc",
};

const DEFAULTS = {
  text: EXAMPLES["Many scripts"],
  ordinary: 0,
  of: 0,
  at: null,
  step: null,
  find: "",
  sort: "uses",
  show: "all",
  id: null,
  corpus: "the hen then met the ten men",
  merge: 0,
  learnt: null, // merges of the corpus that one more vocabulary has
  token: 0,
};
const NUMBERS = ["ordinary", "of", "at", "step", "id", "merge", "learnt", "token"];
const OF_VIEW = {
  tokens: ["text", "ordinary", "of", "at", "step"],
  vocabulary: ["text", "ordinary", "of", "find", "sort", "show", "id"],
  training: ["corpus", "merge"],
  stream: ["text", "ordinary", "of", "token"],
};

export const state = { view: "tokens", ...DEFAULTS };
export const server = { models: [] }; // and its limits, once it has answered
const drawers = {};

export const models = () => state.learnt === null ? server.models : [...server.models, {
  name: `learnt in Training: ${plural(state.learnt, "merge")}`,
  ids: 257 + state.learnt, // single bytes, merges, and <|endoftext|>
  merges: state.learnt,
  pattern: "gpt2",
}];

export const onView = (view, draw) => (drawers[view] = draw);

export function go(view, change = {}) {
  Object.assign(state, change);
  state.view = view;
  for (const each of VIEWS) {
    $(each).hidden = each !== view;
    $(`tab-${each}`).setAttribute("aria-selected", each === view);
    $(`tab-${each}`).tabIndex = each === view ? 0 : -1;
  }
  for (const select of document.querySelectorAll("select.of")) {
    select.replaceChildren(...models().map(({ name }, index) => new Option(name, index)));
    select.hidden = models().length === 1;
    select.value = state.of;
  }
  say("");
  saveAddress();
  return drawers[view]();
}

export function saveAddress() {
  const query = new URLSearchParams();
  const learnt = state.learnt === null ? [] : ["learnt", "corpus"];
  for (const name of new Set([...OF_VIEW[state.view], ...learnt])) {
    const value = state[name];
    if (value === DEFAULTS[name] || value === null) continue;
    if (name === "text" && size(value) > MAX_LINK_BYTES) query.set("kept", 1);
    else query.set(name, value);
  }
  if (query.has("kept")) {
    try {
      sessionStorage.setItem(KEPT_TEXT, state.text);
    } catch {
      // Without storage, a reload loses a long text.
    }
  }
  const shown = query.toString();
  try {
    history.replaceState(null, "", `#${state.view}${shown && `?${shown}`}`);
  } catch {
    // Some browsers refuse a hundred changes in a short time; the next change has all of them.
  }
  $("link").disabled = query.has("kept");
  $("link").title = query.has("kept") ? "The text is too long for a link." : "";
}

function keptText() {
  try {
    return sessionStorage.getItem(KEPT_TEXT);
  } catch {
    return null;
  }
}

export function readAddress() {
  const [view, query = ""] = location.hash.slice(1).split("?");
  const found = new URLSearchParams(query);
  Object.assign(state, DEFAULTS, { view: VIEWS.includes(view) ? view : "tokens" });
  for (const [name, value] of found) {
    if (NUMBERS.includes(name)) state[name] = /^\d{1,9}$/.test(value) ? Number(value) : state[name];
    else if (name in DEFAULTS) state[name] = value;
  }
  if (found.has("kept")) state.text = keptText() ?? DEFAULTS.text;
  if (state.learnt > server.maxMerges) state.learnt = null;
  if (state.of >= models().length) state.of = 0;
  for (const name of ["sort", "show"]) {
    if (![...$(name).options].some((option) => option.value === state[name])) {
      state[name] = DEFAULTS[name];
    }
  }
}

// The server

export async function ask(path, query, text, signal) {
  const learnt = state.learnt === null ? {} : { corpus: state.corpus, merges: state.learnt };
  const known = { ordinary: state.ordinary, ...learnt, ...query };
  const address = `${path}?${new URLSearchParams(known)}`;
  const answer = await fetch(address, { method: "POST", body: text, signal });
  if (!answer.ok) throw new Error(await answer.text());
  return answer;
}

// A question that is asked again cancels its earlier answer; `undefined` means cancelled.
export function question() {
  let asking = new AbortController();
  const answer = async (path, query, text) => {
    asking.abort();
    asking = new AbortController();
    try {
      return await (await ask(path, query, text, asking.signal)).json();
    } catch (error) {
      fail(error);
      return undefined;
    }
  };
  answer.cancel = () => asking.abort();
  return answer;
}

export function fail(error) {
  if (error.name === "AbortError") return;
  say(error instanceof TypeError ? "The server does not answer; was it stopped?" : error.message);
}

export function say(alert) {
  $("alert").textContent = alert;
}

export function isTooLong(text, limit) {
  const bytes = size(text);
  if (bytes <= limit) return false;
  say(`The text has ${figure(bytes)} bytes; ${figure(limit)} can be sent.`);
  return true;
}

export async function copy(text, button) {
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    say("The browser does not let this page copy.");
  }
  setTimeout(() => (button.textContent = label), 1200);
}
