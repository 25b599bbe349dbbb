// The page sends typed text to the server and shows the tokens that come back. All text enters the
// page as text nodes, never as HTML.

const TYPING_PAUSE = 60; // milliseconds without a key before a request
const MAX_ROWS = 1000; // of the replay's table; older rows are removed
const HUES = 5;
const HINT = "Point at a token; or Tab to the tokens and use the arrow keys.";

const $ = (id) => document.getElementById(id);
const size = (text) => new TextEncoder().encode(text).length;
const figure = new Intl.NumberFormat("en").format;
const plural = (count, noun) => `${figure(count)} ${noun}${count === 1 ? "" : "s"}`;

function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
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

function visible(text) {
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(INVISIBLE)) {
    if (found.index > end) parts.push(text.slice(end, found.index));
    parts.push(element("span", "mark", symbol(found[0])));
    end = found.index + found[0].length;
  }
  if (end < text.length) parts.push(text.slice(end));
  return parts;
}

// The server

async function ask(path, text, signal) {
  const answer = await fetch(path, { method: "POST", body: text, signal });
  if (!answer.ok) throw new Error(await answer.text());
  return answer;
}

async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const whole = (waiting + value).split("\n\n");
      waiting = whole.pop();
      yield whole.map((event) => JSON.parse(event.slice(event.indexOf("data: ") + 6)));
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function fail(error) {
  if (error.name === "AbortError") return;
  $("alert").textContent =
    error instanceof TypeError ? "The server does not answer; was it stopped?" : error.message;
}

function tooLong(text) {
  const bytes = size(text);
  $("size").textContent = `${plural([...text].length, "character")}, ${plural(bytes, "byte")}`;
  if (bytes <= maxBytes) return false;
  $("alert").textContent = `The text has ${figure(bytes)} bytes; ${figure(maxBytes)} can be sent.`;
  return true;
}

const options = () => ($("ordinary").checked ? "ordinary=1" : "ordinary=0");

// The tokens of a model

class Panel {
  constructor(model) {
    this.section = $("model-template").content.cloneNode(true).firstElementChild;
    this.find(".bar h2").textContent = model.name;
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
    this.list.addEventListener("click", (event) => this.go(this.token(event.target)));
    this.list.addEventListener("keydown", (event) => this.key(event));
  }

  find(selector) {
    return this.section.querySelector(selector);
  }

  show({ tokens, bytes, groups }) {
    const hadFocus = this.focused();
    this.groups = groups;
    this.find(".count").textContent = plural(tokens, "token");
    const each = tokens ? `${(bytes / tokens).toFixed(2)} bytes per token` : "";
    const shownTokens = groups.reduce((sum, [, ids]) => sum + ids.length, 0);
    this.find(".each").textContent = each + (shownTokens < tokens ? "; the first are shown" : "");
    const shown = document.createDocumentFragment();
    groups.forEach(([text, ids, special], index) => {
      const token = element("span", `token hue-${index % HUES}`, ...visible(text));
      token.setAttribute("role", "option");
      token.dataset.index = index;
      token.tabIndex = -1;
      if (special) token.classList.add("special");
      if (ids.length > 1) {
        token.classList.add("shared");
        const strokes = element("span", "strokes", ...ids.map(() => element("i")));
        strokes.setAttribute("aria-hidden", "true");
        token.append(strokes);
      }
      if (/^\s/.test(text)) shown.append(element("wbr")); // break lines before a space
      shown.append(token);
    });
    this.list.replaceChildren(shown);
    this.tokens = this.list.querySelectorAll(".token");
    this.current = Math.min(this.current, Math.max(groups.length - 1, 0));
    if (groups.length) this.tokens[this.current].tabIndex = 0;
    if (hadFocus) this.go(this.tokens[this.current]);
    this.describe(this.focused());
  }

  token(target) {
    return target.closest?.(".token");
  }

  focused() {
    return this.list.contains(document.activeElement) ? this.token(document.activeElement) : null;
  }

  go(token) {
    if (!token) return;
    const before = this.tokens[this.current];
    before.tabIndex = -1;
    before.removeAttribute("aria-selected");
    this.current = Number(token.dataset.index);
    token.tabIndex = 0;
    token.setAttribute("aria-selected", "true");
    token.setAttribute("aria-label", this.words(token));
    token.focus();
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
      element("span", "", element("b", "", ...visible(text).slice(0, 100))),
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
    if (!to) return;
    event.preventDefault();
    this.go(this.tokens[Math.min(Math.max(to(), 0), last)]);
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

let asking = new AbortController();
let timer = 0;

async function tokenise() {
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  const text = $("text").value;
  $("alert").textContent = "";
  if (tooLong(text)) return;
  try {
    const answer = await (await ask(`/tokens?${options()}`, text, signal)).json();
    answer.forEach((tokens, index) => panels[index].show(tokens));
  } catch (error) {
    fail(error);
  }
}

// The replay

let playing = null;

// Append text to an output, with U+FFFD in spans of its own.
function add(output, text) {
  for (const part of text.split(/(\ufffd+)/u).filter(Boolean)) {
    const className = part[0] === "\ufffd" ? "lost" : "";
    const last = output.lastElementChild;
    if (last && last.className === className) last.firstChild.appendData(part);
    else output.append(element("span", className, part));
  }
}

// Scroll elements to their ends, once a frame: each look at a height lays out the whole page.
let frame = 0;
function follow(...elements) {
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    for (const shown of elements) shown.scrollTop = shown.scrollHeight;
  });
}

function row(number, step) {
  const streamed = step.streamed
    ? visible(step.streamed)
    : [element("span", "waiting", step.pending ? `pending ${step.pending}` : "")];
  const cells = [[figure(number)], [String(step.id)], [step.bytes], visible(step.alone), streamed];
  const made = element("tr", "", ...cells.map((cell) => element("td", "", ...cell)));
  if (step.alone.includes("\ufffd")) made.children[3].classList.add("lost");
  return made;
}

async function replay() {
  const text = $("text").value;
  $("alert").textContent = "";
  if (tooLong(text)) return;
  const stop = new AbortController();
  playing = stop;
  const [alone, output, rows] = [$("alone"), $("streamed"), $("steps").querySelector("tbody")];
  for (const part of [alone, output, rows, $("verdict")]) part.replaceChildren();
  $("steps").hidden = false;
  $("play").textContent = "Stop";
  document.body.classList.add("playing");
  let number = 0;
  let lost = 0;
  let streamed = "";
  let ended = false;
  try {
    const query = `model=${$("model").value}&pause=${$("pause").value}&${options()}`;
    for await (const steps of events(await ask(`/stream?${query}`, text, stop.signal))) {
      const added = document.createDocumentFragment();
      let aloneText = "";
      let newText = "";
      for (const step of steps) {
        newText += step.streamed;
        ended ||= !("id" in step);
        if (ended) break;
        number += 1;
        aloneText += step.alone;
        added.append(row(number, step));
      }
      lost += aloneText.split("\ufffd").length - 1;
      streamed += newText;
      add(alone, aloneText);
      add(output, newText);
      rows.append(added);
      while (rows.children.length > MAX_ROWS) rows.firstElementChild.remove();
      follow(alone, output, $("steps"));
    }
    if (!ended) throw new TypeError("the stream broke off");
    $("verdict").textContent = verdict(number, lost, streamed, text);
  } catch (error) {
    fail(error);
  } finally {
    playing = null;
    $("play").textContent = "Replay";
    document.body.classList.remove("playing");
  }
}

function verdict(number, lost, streamed, text) {
  const same =
    streamed === text.toWellFormed()
      ? "equals your text"
      : "is your text as this vocabulary normalises it";
  return `${plural(number, "token")}. The streamed text ${same}; decoded alone, the tokens have \ufffd ` +
    `${lost === 1 ? "once" : `${figure(lost)} times`}.`;
}

function toggle() {
  if (playing) playing.abort();
  else replay();
}

// Start

let maxBytes = Infinity;
let panels = [];

async function start() {
  try {
    const { models, max_bytes } = await (await fetch("/models")).json();
    maxBytes = max_bytes;
    panels = models.map((model) => new Panel(model));
    $("models").replaceChildren(...panels.map((panel) => panel.section));
    $("model").replaceChildren(...models.map((model, index) => new Option(model.name, index)));
    $("which").hidden = models.length === 1;
  } catch (error) {
    fail(error);
    return;
  }
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) $("pause").value = "0";
  $("text").addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(tokenise, TYPING_PAUSE);
  });
  $("text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) toggle();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && playing) playing.abort();
  });
  $("ordinary").addEventListener("change", tokenise);
  $("play").addEventListener("click", toggle);
  await tokenise();
}

start();
