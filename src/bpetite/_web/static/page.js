// The page sends typed text to the server and shows the answers: four views, one state, and keys.

import {
  $, VIEWS, copy, fail, go, readAddress, server, state, term,
} from "./common.js";
import { copyIds, focusToken, startTokens } from "./tokens.js";
import { startStream, streamPlayer } from "./stream.js";
import { startTraining, trainingPlayer } from "./training.js";
import { treePlayer } from "./tree.js";
import { startVocabulary } from "./vocabulary.js";

const ZOOMS = [1, 1.2, 1.45];
let zoom = 0;

function larger() {
  zoom = (zoom + 1) % ZOOMS.length;
  document.documentElement.style.setProperty("--zoom", ZOOMS[zoom]);
}

function toggleTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
}

const PLAYERS = { tokens: treePlayer, training: trainingPlayer, stream: streamPlayer };

function stop() {
  for (const player of Object.values(PLAYERS)) player()?.stop();
}

function show(view) {
  if (view !== state.view) stop();
  go(view);
}

const player = () => PLAYERS[state.view]?.();

const MOVES = { ArrowLeft: "back", ArrowRight: "next", Home: "first", End: "last" };

// Keys of the whole page; the tokens and the rows of the vocabulary have their own.
function key(event) {
  const { key, target } = event;
  if (key === "Escape") {
    stop();
    if (target.closest("#made")) focusToken();
    else if (target.matches("textarea, input, select")) target.blur();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (target.closest("textarea, select, dialog, input:not([type=checkbox], [type=range])")) return;
  const commands = {
    "/": () => {
      show("vocabulary");
      $("find").focus();
    },
    "?": () => $("help").showModal(),
    c: () => state.view === "tokens" && copyIds(),
    l: larger,
    d: toggleTheme,
    ",": () => player()?.move("back"),
    ".": () => player()?.move("next"),
  };
  if (commands[key]) commands[key]();
  else if (/^[1-4]$/.test(key)) show(VIEWS[key - 1]);
  else if (key === " " && !target.closest("button, input")) {
    if (!player()) return;
    player().toggle();
  } else if (MOVES[key] && ["training", "stream"].includes(state.view) && !target.closest("input, [role=tab]")) {
    const button = player().root.querySelector(`[data-do=${MOVES[key]}]`);
    if (!button.disabled) player().move(MOVES[key]);
  } else return;
  event.preventDefault();
}

function startTabs() {
  const tabs = VIEWS.map((view) => $(`tab-${view}`));
  tabs.forEach((tab, index) => {
    tab.addEventListener("click", () => show(VIEWS[index]));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const next = (index + step + tabs.length) % tabs.length;
      show(VIEWS[next]);
      tabs[next].focus();
    });
  });
}

function startOf() {
  for (const select of document.querySelectorAll("select.of")) {
    select.addEventListener("change", () => {
      stop();
      go(state.view, { of: Number(select.value), at: null, step: null, id: null, token: 0 });
    });
  }
}

async function start() {
  try {
    Object.assign(server, await (await fetch("/models")).json());
  } catch (error) {
    fail(error);
    return;
  }
  for (const word of document.querySelectorAll("dfn")) {
    word.replaceWith(term(word.dataset.of ?? word.textContent, word.textContent));
  }
  startTabs();
  startOf();
  startTokens();
  startVocabulary();
  startTraining();
  startStream();
  $("link").addEventListener("click", () => copy(location.href, $("link")));
  $("larger").addEventListener("click", larger);
  $("theme").addEventListener("click", toggleTheme);
  $("keys").addEventListener("click", () => $("help").showModal());
  document.addEventListener("keydown", key);
  addEventListener("hashchange", () => {
    stop();
    readAddress();
    go(state.view);
  });
  readAddress();
  await go(state.view);
}

start();
