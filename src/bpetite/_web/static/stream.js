// The view of streams: the tokens of the text arrive one by one, decoded alone and by a stream.

import {
  $, ask, element, fail, figure, isTooLong, onView, plural, say, server, state, visible,
} from "./common.js";

const MAX_ROWS = 1000; // of the replay's table; older rows are removed
const EXCERPT = 120; // characters
const INVITATION = "Press Play.";

let playing = null;
let played = null; // what the last replay was of

export function stopReplay() {
  playing?.abort();
}

export function toggleReplay() {
  if (playing) playing.abort();
  else replay();
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

// Append text to an output, with U+FFFD in spans of its own.
function add(output, text) {
  for (const part of text.split(/(\ufffd+)/u).filter(Boolean)) {
    const className = part[0] === "\ufffd" ? "lost" : "";
    const last = output.lastElementChild;
    if (last && last.className === className) last.firstChild.appendData(part);
    else output.append(element("span", className, part));
  }
}

// Scroll elements to their ends, once a frame: each look at a height lays out the whole page. At the
// end of a replay, its beginning is in view.
let frame = 0;
function follow(...elements) {
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    for (const shown of elements) shown.scrollTop = shown.scrollHeight;
  });
}

function rewind(...elements) {
  cancelAnimationFrame(frame);
  frame = 0;
  for (const shown of elements) shown.scrollTop = 0;
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
  const { text, of, ordinary } = state;
  say("");
  if (isTooLong(text, server.maxBytes)) return;
  const stop = new AbortController();
  playing = stop;
  played = JSON.stringify([text, of, ordinary]);
  const [alone, output, rows] = [$("alone"), $("streamed"), $("steps").querySelector("tbody")];
  for (const part of [alone, output, rows, $("verdict")]) part.replaceChildren();
  $("outputs").hidden = false;
  $("play").textContent = "Stop";
  document.body.classList.add("playing");
  let number = 0;
  let lost = 0;
  let streamed = "";
  let end = null;
  try {
    const query = { model: of, pause: $("pause").value };
    for await (const steps of events(await ask("/stream", query, text, stop.signal))) {
      const added = document.createDocumentFragment();
      let aloneText = "";
      let newText = "";
      for (const step of steps) {
        newText += step.streamed;
        if (!("id" in step)) {
          end = step;
          break;
        }
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
    if (!end) throw new TypeError("the stream broke off");
    $("verdict").textContent = verdict(number, end.tokens, lost, streamed, text);
    rewind(alone, output);
  } catch (error) {
    fail(error);
  } finally {
    playing = null;
    $("play").textContent = "Play";
    document.body.classList.remove("playing");
  }
}

function verdict(number, all, lost, streamed, text) {
  const isCut = number < all;
  const shown = (isCut ? `The first ${figure(number)} of ` : "") + plural(all, "token");
  const sent = text.toWellFormed();
  const same = isCut ? sent.startsWith(streamed.replace(/\ufffd$/u, "")) : streamed === sent;
  const equal = isCut ? "begins as your text" : "equals your text";
  const told = same ? equal : "is your text as this vocabulary normalises it";
  return `${shown}. The streamed text ${told}; decoded alone, the tokens have \ufffd ` +
    `${lost === 1 ? "once" : `${figure(lost)} times`}.`;
}

export function startStream() {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) $("pause").value = "0";
  $("play").addEventListener("click", toggleReplay);
  onView("stream", () => {
    const { text, of, ordinary } = state;
    const characters = [...new Intl.Segmenter().segment(text.slice(0, 4 * EXCERPT))];
    const excerpt = characters.slice(0, EXCERPT).map(({ segment }) => segment).join("");
    $("excerpt").textContent = excerpt + (excerpt.length < text.length ? "…" : "");
    if (played === JSON.stringify([text, of, ordinary])) return;
    stopReplay();
    played = null;
    $("outputs").hidden = true;
    $("verdict").textContent = INVITATION;
  });
}
