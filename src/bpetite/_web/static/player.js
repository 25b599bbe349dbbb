// Steps from 0 to a last one, played or by hand.

import { $, figure } from "./common.js";

const stillness = matchMedia("(prefers-reduced-motion: reduce)");

export class Player {
  constructor(place, label, noun, pause, draw) {
    this.root = $("player-template").content.cloneNode(true).firstElementChild;
    this.root.setAttribute("aria-label", label);
    $(place).append(this.root);
    this.range = this.root.querySelector("input");
    this.pace = this.root.querySelector("select");
    this.noun = noun; // of a step
    this.pause = pause; // milliseconds, at medium pace
    this.draw = draw;
    this.at = 0;
    this.timer = 0;
    this.root.addEventListener("click", (event) => {
      const command = event.target.closest("button")?.dataset.do;
      if (command === "play") this.toggle();
      else if (command) this.move(command);
    });
    this.range.addEventListener("input", () => this.jump(Number(this.range.value)));
    this.pace.addEventListener("change", () => this.timer && this.run());
    this.reset(0, 0);
  }

  get last() {
    return Number(this.range.max);
  }

  // Show steps from 0 to `last`, without a call of `draw`.
  reset(last, at) {
    this.stop();
    this.range.max = last;
    this.at = Math.min(at, last);
    this.show();
  }

  // Draw a step, unless it is already drawn: there may be nothing to draw yet.
  set(at) {
    const next = Math.min(Math.max(at, 0), this.last);
    if (next === this.at) return;
    this.at = next;
    this.show();
    this.draw(this.at);
  }

  show() {
    this.range.value = this.at;
    this.root.querySelector("output").textContent =
      `${this.noun} ${figure(this.at)} of ${figure(this.last)}`;
    const limits = { first: 0, back: 0, next: this.last, last: this.last };
    for (const [command, limit] of Object.entries(limits)) {
      this.root.querySelector(`[data-do=${command}]`).disabled = this.at === limit;
    }
    this.root.querySelector("[data-do=play]").disabled = this.last === 0;
  }

  move(command) {
    this.jump({ first: 0, back: this.at - 1, next: this.at + 1, last: this.last }[command]);
  }

  jump(at) {
    this.stop();
    this.set(at);
  }

  toggle() {
    if (this.timer) this.stop();
    else if (this.last) this.play();
  }

  play() {
    if (stillness.matches) {
      this.set(this.last);
      return;
    }
    if (this.at === this.last) this.set(0);
    this.label("Pause");
    this.run();
  }

  run() {
    clearInterval(this.timer);
    this.timer = setInterval(() => {
      this.set(this.at + 1);
      if (this.at === this.last) this.stop();
    }, this.pause * Number(this.pace.value));
  }

  stop() {
    clearInterval(this.timer);
    this.timer = 0;
    this.label("Play");
  }

  label(text) {
    this.root.querySelector("[data-do=play]").textContent = text;
  }
}
