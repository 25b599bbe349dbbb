// The view of streams: the tokens of the text arrive one by one, decoded alone and by a stream.

import {
  $, chip, element, figure, isTooLong, onView, plural, question, row, saveAddress, server, state,
  visible,
} from "./common.js";
import { Player } from "./player.js";

const ROWS = 10; // of the table: the last tokens that arrived
const STEP_PAUSE = 120; // milliseconds

const askStream = question();
let found = null;
let player = null;

export const streamPlayer = () => player;

async function load() {
  player.stop();
  $("replay").hidden = true;
  if (isTooLong(state.text, server.maxBytes)) {
    askStream.cancel();
    return;
  }
  const answer = await askStream("/stream", { model: state.of }, state.text);
  if (!answer) return;
  found = answer;
  $("replay").hidden = false;
  $("strip").replaceChildren(...found.steps.map(([, bytes], index) => chip(bytes, index)));
  player.reset(found.steps.length, state.token);
  draw(player.at);
}

// Show a text up to its end, with U+FFFD in spans of its own.
function write(output, text) {
  const parts = text.split(/(\ufffd+)/u).filter(Boolean);
  output.replaceChildren(...parts.map((part) =>
    element("span", part[0] === "\ufffd" ? "lost" : "", part)));
  output.scrollTop = output.scrollHeight;
}

function draw(at) {
  state.token = at;
  saveAddress();
  const steps = found.steps.slice(0, at);
  const isLast = at === found.steps.length;
  const alone = steps.map((step) => step[2]).join("");
  const streamed = steps.map((step) => step[3]).join("") + (isLast ? found.rest : "");
  const lost = alone.split("\ufffd").length - 1;
  const pending = isLast ? "" : steps.at(-1)?.[4];
  write($("alone"), alone);
  write($("streamed"), streamed);
  $("lost").textContent = `\ufffd ${lost === 1 ? "once" : `${figure(lost)} times`}`;
  $("pending").textContent = pending ? `pending: ${pending}` : "no byte is pending";
  const isCut = found.steps.length < found.tokens;
  const cut = `The first ${figure(found.steps.length)} of ${plural(found.tokens, "token")} are replayed. `;
  $("verdict").textContent = (isCut ? cut : "") + (isLast ? verdict(streamed, isCut) : "");
  const first = Math.max(at - ROWS, 0);
  $("steps").replaceChildren(...steps.slice(first).map((step, index) => stepRow(first + index, step)));
  $("steps").lastElementChild?.classList.add("now");
  const strip = $("strip");
  strip.querySelector(".now")?.classList.remove("now");
  const now = strip.children[at - 1];
  now?.classList.add("now");
  strip.scrollTop = now ? now.offsetTop - strip.clientHeight / 2 : 0;
}

function stepRow(index, [id, bytes, alone, streamed, pending]) {
  const waiting = element("span", "quiet", pending && `pending ${pending}`);
  return row([
    element("td", "number", figure(index + 1)),
    element("td", "number", figure(id)),
    element("td", "mono quiet", bytes),
    element("td", "", element("span", alone.includes("\ufffd") ? "lost" : "", ...visible(alone, true))),
    element("td", "", ...(streamed ? visible(streamed, true) : [waiting])),
  ]);
}

function verdict(streamed, isCut) {
  const sent = state.text.toWellFormed();
  if (isCut && sent.startsWith(streamed.replace(/\ufffd$/u, ""))) {
    return "The streamed text begins as your text.";
  }
  return streamed === sent ? "The streamed text equals your text."
    : "The streamed text is your text as this vocabulary normalises it.";
}

export function startStream() {
  player = new Player("stream-player", "tokens of the stream", "token", STEP_PAUSE, draw);
  $("strip").addEventListener("click", (event) => {
    const at = [...$("strip").children].indexOf(event.target.closest(".chip"));
    if (at >= 0) player.jump(at + 1);
  });
  onView("stream", load);
}
