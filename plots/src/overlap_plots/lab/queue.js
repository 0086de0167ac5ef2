// SPDX-License-Identifier: Apache-2.0
//
// The queue lab: guess what becomes of a backlog, then play it; the prediction is shown when it is asked for.

import { digits, seconds, ticks, wholeSeconds } from "./format.js";
import { backlogAt, drainTime, growthRate, md1, mm1, outputRate } from "./model.js";
import { line, path, Picture, shape, text } from "./svg.js";
import { Sentence, showNumbers, Slider } from "./controls.js";

const QUEUE_EXAMPLE = { arrival: 4, service: 3, initial: 4 };
const END = 60; // seconds of the lab
const SPEED = 1.5; // seconds of the lab a second

export class QueueWidget {
  constructor(root) {
    this.state = { id: "queue", ...QUEUE_EXAMPLE };
    this.time = 0;
    this.playing = false;
    this.predicting = false;
    this.frame = 0;
    this.stillness = window.matchMedia("(prefers-reduced-motion: reduce)");
    this.numbers = root.querySelector(".numbers");
    this.means = root.querySelector(".means");
    this.note = root.querySelector(".from-case");
    this.sentence = new Sentence(root.querySelector(".verdict"), root.querySelector(".spoken"), 50);
    const rate = { low: 0.1, high: 10, step: 0.1, format: (r) => `${digits(r)} a second` };
    const changed = () => this.reset();
    this.sliders = [
      new Slider(this.state, changed, { name: "arrival", label: "Arrival rate, λ", ...rate }),
      new Slider(this.state, changed, { name: "service", label: "Service rate, μ", ...rate }),
      new Slider(this.state, changed, {
        name: "initial",
        label: "Backlog at the start, Q₀",
        low: 0,
        high: 20,
        step: 1,
        format: (n) => digits(n),
      }),
    ];
    root.querySelector(".sliders").append(...this.sliders.map((slider) => slider.row));
    this.buttons = Object.fromEntries([...root.querySelectorAll("button")].map((button) => [button.name, button]));
    this.buttons.reset.addEventListener("click", () => this.reset());
    this.buttons.play.addEventListener("click", () => (this.playing ? this.pause() : this.play()));
    this.buttons.step.addEventListener("click", () => this.step());
    this.buttons.predict.addEventListener("click", () => {
      this.predicting = !this.predicting;
      this.show(true);
    });
    this.picture = new Picture(root.querySelector("figure"), (width) => drawBacklog(width, this.state, this.time, this.predicting));
    this.show(true);
  }

  // One work unit is a collective of the case, one arrives for each GEMM: the load is t_comm / t_compute.
  start(measured) {
    this.note.textContent = "";
    Object.assign(this.state, QUEUE_EXAMPLE);
    if (measured) {
      const load = measured.comm / measured.compute;
      this.state.arrival = QUEUE_EXAMPLE.service * load;
      this.note.textContent =
        `One collective of this case for each of its GEMMs: a load of ${digits(load)}. ` +
        `A second here stands for ${seconds(QUEUE_EXAMPLE.service * measured.comm)}, in which ${QUEUE_EXAMPLE.service} are served.`;
      const [slowest, fastest] = [Number(this.sliders[0].input.min), Number(this.sliders[0].input.max)];
      if (this.state.arrival < slowest || this.state.arrival > fastest) {
        this.note.textContent += " That is beyond these sliders, which stop at their end.";
        this.state.arrival = Math.min(fastest, Math.max(slowest, this.state.arrival));
      }
    }
    this.reset();
  }

  reset() {
    this.pause();
    this.time = 0;
    this.show(true);
  }

  step() {
    this.pause();
    this.time = Math.min(END, Math.floor(this.time + 1e-9) + 1);
    this.show(true);
  }

  play() {
    if (this.time >= END) this.time = 0;
    this.playing = true;
    this.show(false);
    let before = performance.now();
    const advance = (now) => {
      if (!this.playing) return;
      const passed = ((now - before) / 1000) * SPEED;
      // Who asked for less motion sees whole seconds instead of a glide.
      if (!this.stillness.matches || passed >= 1) {
        this.time = Math.min(END, this.time + (this.stillness.matches ? 1 : passed));
        before = now;
        this.show(false);
      }
      if (this.time >= END) this.pause();
      else this.frame = requestAnimationFrame(advance);
    };
    this.frame = requestAnimationFrame(advance);
  }

  pause() {
    if (!this.playing) return;
    this.playing = false;
    cancelAnimationFrame(this.frame);
    this.show(true);
  }

  show(spoken) {
    for (const slider of this.sliders) slider.show();
    const words = queueSentence(this.state, this.time, this.predicting);
    if (spoken) this.sentence.say(words);
    else this.sentence.show(words);
    showNumbers(this.numbers, queueNumbers(this.state, this.time));
    showMeans(this.means, this.state);
    this.buttons.play.textContent = this.playing ? "Pause" : "Play";
    this.buttons.step.disabled = this.time >= END;
    this.buttons.predict.setAttribute("aria-pressed", String(this.predicting));
    this.picture.redraw();
  }
}

function queueNumbers(state, time) {
  return [
    ["Time", `${time.toFixed(1)} s`, "since the start"],
    ["Backlog", backlogAt(state, time).toFixed(1), "work units queued"],
    ["Leaving", `${digits(outputRate(state, time))} a second`, "μ while there is a backlog, then λ"],
    ["Load, ρ", (state.arrival / state.service).toFixed(2), "λ / μ"],
  ];
}

export function queueSentence(state, time, predicting) {
  const now = `At ${wholeSeconds(time)} the backlog is ${digits(backlogAt(state, time))}.`;
  return predicting ? `${now} ${predictionSentence(state)}` : now;
}

function predictionSentence(state) {
  const growth = growthRate(state);
  const drained = drainTime(state);
  if (drained === 0) return "Prediction: it stays empty.";
  if (drained < Infinity) return `Prediction: it shrinks by ${digits(-growth)} a second and is empty after ${wholeSeconds(drained)}.`;
  return growth > 0 ? `Prediction: it grows by ${digits(growth)} a second and never drains.` : "Prediction: it stays as it is.";
}

function showMeans(table, state) {
  const models = [mm1(state), md1(state)];
  const rows = [
    ["inSystem", digits],
    ["timeInSystem", wholeSeconds],
    ["inQueue", digits],
    ["timeInQueue", wholeSeconds],
  ];
  rows.forEach(([name, format], i) => {
    models.forEach((means, j) => {
      table.tBodies[0].rows[i].cells[1 + j].textContent = means === null ? "unstable" : format(means[name]);
    });
  });
  table.classList.toggle("unstable", models[0] === null);
}

function drawBacklog(width, state, time, predicting) {
  const [left, top, right, bottom] = [34, 26, width - 12, 240];
  const last = Math.max(12, Math.min(END, 4 * Math.ceil((time + 1) / 4)));
  // Room for what was seen, not for what is to come: the axis gives nothing away until the prediction is asked for.
  const seen = Math.max(8, state.initial, backlogAt(state, time), predicting ? backlogAt(state, last) : 0);
  const most = ticks(seen * 1.15, 4).at(-1) + ticks(seen * 1.15, 4)[1];
  const x = (t) => left + ((right - left) * t) / last;
  const y = (q) => bottom - ((bottom - top) * q) / most;
  const shapes = [text(0, 14, "backlog, work units", { class: "lane" })];
  for (const q of ticks(most, 4)) {
    shapes.push(line(left, y(q), right, y(q), { class: q === 0 ? "axis" : "grid" }));
    shapes.push(text(left - 6, y(q) + 4, digits(q), { class: "tick", "text-anchor": "end" }));
  }
  for (const t of ticks(last, Math.min(12, Math.floor(width / 60)))) {
    shapes.push(line(x(t), bottom, x(t), bottom + 5, { class: "axis" }));
    shapes.push(text(x(t), bottom + 19, `${t} s`, { class: "tick", "text-anchor": t === last ? "end" : "middle" }));
  }
  const drained = drainTime(state);
  const corner = (until) => (drained < until ? [drained, until] : [until]);
  if (predicting) {
    shapes.push(path([0, ...corner(last)].map((t) => [x(t), y(backlogAt(state, t))]), { class: "prediction" }));
    const at = drained > 0 && drained < last ? drained : last;
    const words = drained < Infinity ? `empty from ${wholeSeconds(drained)} on` : `${digits(backlogAt(state, last))} after ${last} s`;
    const anchor = x(at) > right - 130 ? "end" : "start";
    shapes.push(text(x(at), y(backlogAt(state, at)) - 10, words, { class: "small", "text-anchor": anchor }));
  }
  const trace = [0, ...corner(time)].map((t) => [x(t), y(backlogAt(state, t))]);
  shapes.push(path([...trace, [x(time), y(0)], [x(0), y(0)]], { class: "area" }));
  shapes.push(path(trace, { class: "trace" }));
  shapes.push(shape("circle", { cx: x(time), cy: y(backlogAt(state, time)), r: 6, class: "current" }));
  return { height: bottom + 28, label: `Backlog over time. ${queueSentence(state, time, predicting)}`, shapes };
}
