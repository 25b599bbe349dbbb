// The view of training: a small text, the pairs of each step, the winner, and the pieces it changes.

import {
  $, chip, element, figure, go, isTooLong, onView, plural, question, row, saveAddress, say, server,
  size, state, toHex, tokenParts,
} from "./common.js";
import { Player } from "./player.js";

const TYPING_PAUSE = 120; // milliseconds
const STEP_PAUSE = 1600;
const BAR = 4; // rem, of the winner

const askTraining = question();
let found = null;
let timer = 0;
let player = null;

export const trainingPlayer = () => player;

const hexOf = (id) => (id < 256 ? toHex(id) : found.tokens[id]);
const pairOf = (left, right) => [chip(hexOf(left), 0), " ", chip(hexOf(right), 1)];

async function train() {
  say("");
  player.stop();
  $("corpus-size").textContent =
    `${figure(size(state.corpus))} of at most ${plural(server.maxTrainingBytes, "byte")}`;
  $("trained").hidden = isTooLong(state.corpus, server.maxTrainingBytes);
  if ($("trained").hidden) {
    askTraining.cancel();
    return;
  }
  const answer = await askTraining("/training", {}, state.corpus);
  if (!answer) return;
  found = answer;
  player.reset(found.states.length - 1, state.merge);
  draw(player.at);
}

function draw(at) {
  state.merge = at;
  saveAddress();
  const now = found.states[at];
  const [winner] = now.pairs;
  const pieces = now.ids.map((ids, index) => piece(ids, found.counts[index], winner, at));
  $("pieces").replaceChildren(...pieces);
  $("winner").replaceChildren(...sentence(now, winner, at));
  $("pairs").replaceChildren(...now.pairs.map(([left, right, count], index) => {
    const bar = element("span", "share");
    bar.style.width = `${(BAR * count) / winner[2]}rem`;
    const note = index === 0 ? "wins" : count === winner[2] ? "ties" : "";
    return row([
      element("td", "", ...pairOf(left, right)),
      element("td", "number quiet", `${figure(left)}, ${figure(right)}`),
      element("td", "number", figure(count), bar),
      element("td", "quiet", note),
    ], index ? "" : "now");
  }));
  const others = now.all_pairs - now.pairs.length;
  $("more-pairs").textContent = others ? `and ${plural(others, "more pair")}` : "";
  $("token-count").textContent = figure(now.tokens);
  $("id-count").textContent = figure(256 + at);
  $("use").textContent = `Use ${at === 1 ? "this merge" : `these ${figure(at)} merges`} in Tokens`;
  const learnt = Array.from({ length: at }, (_, rank) => {
    const made = chip(hexOf(256 + rank), rank === at - 1 ? 1 : 0, () => player.jump(rank));
    made.title = `id ${256 + rank}: show how it was learnt`;
    return element("li", "", element("small", "", String(rank)), made);
  });
  if (!at) learnt.push(element("li", "quiet", "No merge yet: 256 single bytes."));
  $("learnt").replaceChildren(...learnt);
}

function piece(ids, count, winner, at) {
  const made = element("span", "piece");
  for (let index = 0; index < ids.length; index++) {
    const isWinner = winner && ids[index] === winner[0] && ids[index + 1] === winner[1];
    made.append(cell(ids[index], at, isWinner ? " left" : ""));
    if (isWinner) made.append(cell(ids[++index], at, " right"));
  }
  if (count > 1) made.append(element("sup", "", `×${figure(count)}`));
  return made;
}

function cell(id, at, side) {
  const kind = id < 256 ? " byte" : id === 255 + at ? " new" : "";
  return element("span", `cell${kind}${side}`, ...tokenParts(hexOf(id)));
}

function sentence(now, winner, at) {
  if (!winner) return ["No pair is left: every piece is one token, so training ends."];
  const [left, right, count] = winner;
  const made = `The merge has rank ${at} and makes the id ${256 + at}.`;
  if (!now.ties) return [...pairOf(left, right), ` has the highest count, ${figure(count)}. ${made}`];
  const [otherLeft, otherRight] = now.pairs[1];
  const why = left !== otherLeft
    ? [`${left} is less than ${otherLeft}, the first id of `, ...pairOf(otherLeft, otherRight)]
    : [`both begin with ${left}, and ${right} is less than ${otherRight}, the second id of `,
      ...pairOf(otherLeft, otherRight)];
  const others = now.ties === 1 ? "so has one other pair" : `so have ${figure(now.ties)} other pairs`;
  return [
    ...pairOf(left, right), ` has the highest count, ${figure(count)}, and ${others}. `,
    "The smallest ids win: ", ...why, `. ${made}`,
  ];
}

export function startTraining() {
  player = new Player("training-player", "steps of training", "merge", STEP_PAUSE, draw);
  $("corpus").addEventListener("input", () => {
    Object.assign(state, { corpus: $("corpus").value, merge: 0, learnt: null, of: 0 });
    player.stop();
    clearTimeout(timer);
    timer = setTimeout(train, TYPING_PAUSE);
  });
  $("use").addEventListener("click", () =>
    go("tokens", { learnt: player.at, of: server.models.length, at: null, step: null, id: null }));
  onView("training", () => {
    if ($("corpus").value !== state.corpus) $("corpus").value = state.corpus;
    return train();
  });
}
