// SPDX-License-Identifier: Apache-2.0
//
// The overlap timeline: a compute and a communication lane, what of the communication hides and what stays exposed.

import { percent, seconds, threeDigits, ticks, times } from "./format.js";
import { timeline } from "./model.js";
import { hatch, line, Picture, rect, shape, text } from "./svg.js";
import { Sentence, showNumbers, Slider } from "./controls.js";

const TIMELINE_EXAMPLE = { compute: 0.1, comm: 0.08, beside: 0.7, slowCompute: 1, slowComm: 1 };
const LANE = 38;

export class TimelineWidget {
  constructor(root) {
    this.state = { id: "timeline", ...TIMELINE_EXAMPLE };
    this.case = null;
    this.numbers = root.querySelector(".numbers");
    this.note = root.querySelector(".from-case");
    this.sentence = new Sentence(root.querySelector(".verdict"), root.querySelector(".spoken"));
    const changed = () => this.update();
    const time = { low: 1e-7, high: 100, steps: 900, round: threeDigits, format: seconds };
    const slow = { low: 0.5, high: 12, step: 0.05, format: times };
    this.sliders = [
      new Slider(this.state, changed, { name: "compute", label: "Compute, alone", ...time }),
      new Slider(this.state, changed, { name: "comm", label: "Communication, alone", ...time }),
      new Slider(this.state, changed, {
        name: "beside",
        label: "Overlap fraction",
        hint: "the part of the communication that may run beside compute; the rest waits for both",
        low: 0,
        high: 1,
        step: 0.01,
        format: percent,
      }),
      new Slider(this.state, changed, { name: "slowCompute", label: "Compute slowed", ...slow }),
      new Slider(this.state, changed, {
        name: "slowComm",
        label: "Communication slowed",
        hint: "contention: how many times slower each runs while both do",
        ...slow,
      }),
    ];
    root.querySelector(".sliders").append(...this.sliders.map((slider) => slider.row));
    this.picture = new Picture(root.querySelector("figure"), (width) => drawTimeline(width, this.state, this.result, this.case));
    this.update();
  }

  // A measured case: its times, and the slowdowns that explain its step, or the part that it hid where there are none.
  start(measured) {
    this.case = measured;
    Object.assign(this.state, measured ? timelineFromCase(measured) : TIMELINE_EXAMPLE);
    this.note.textContent = measured ? slowdownNote(measured) : "";
    this.update();
  }

  update() {
    this.result = timeline(this.state);
    for (const slider of this.sliders) slider.show();
    showNumbers(this.numbers, timelineNumbers(this.result, this.case));
    this.sentence.say(timelineSentence(this.state, this.result));
    this.picture.redraw();
  }
}

function timelineFromCase({ compute, comm, slowCompute, slowComm, hiddenFraction }) {
  if (slowCompute !== null && slowComm !== null) return { compute, comm, beside: 1, slowCompute, slowComm };
  return { compute, comm, beside: Math.min(1, Math.max(0, hiddenFraction ?? 0)), slowCompute: 1, slowComm: 1 };
}

function slowdownNote({ slowCompute, slowComm, slowdownSource }) {
  if (slowCompute === null || slowComm === null) {
    return "This case has no slowdowns: its overlap fraction is the part of the communication that it hid.";
  }
  return slowdownSource === "fluid"
    ? "The slowdowns were solved from this case’s own spans, so its step comes out by itself; move them to see what less contention would give."
    : `The slowdowns are of their own measurement (${slowdownSource}): how far the step here is from the measured one tests the model.`;
}

function timelineNumbers(r, measured) {
  const rows = [
    ["Step", seconds(r.step), "compute and communication together"],
    ["Exposed", seconds(r.exposed), "step − compute: on the wall clock"],
    ["Hidden share", percent(r.hiddenShare), "of what could hide; below 0 is worse than serial"],
    ["Speedup", times(r.speedup), `over one after the other; at most ${times(r.bound)}`],
  ];
  if (measured) rows.push(["Measured step", seconds(measured.step), intervalOf(measured)]);
  return rows;
}

function intervalOf({ stepLow, stepHigh, status }) {
  const interval = stepLow === null || stepHigh === null ? "" : `95 % interval ${seconds(stepLow)} to ${seconds(stepHigh)}`;
  return [interval, status === "ok" ? "" : status].filter(Boolean).join("; ");
}

export function timelineSentence(state, r) {
  const contended = r.pays === "no" ? " Running both at once is slower than taking turns: each slows the other too much." : "";
  // To a billionth: rounding is no verdict.
  if (r.step > r.serial * (1 + 1e-9)) return `Worse than serial by ${seconds(r.step - r.serial)}.${contended}`;
  if (r.step < r.ideal * (1 - 1e-9)) return "Shorter than the longer part alone: with a slowdown below 1, one helps the other.";
  if (r.overlap <= r.serial * 1e-9) return `Nothing hides: ${seconds(r.exposed)} of communication stays exposed.${contended}`;
  if (r.step <= r.ideal * (1 + 1e-9)) {
    return r.exposed <= r.ideal * 1e-9
      ? "All of the communication hides: the step is as long as compute alone."
      : `As good as it can be: compute is too short to hide the other ${seconds(r.exposed)}.`;
  }
  const slowed = state.slowCompute > 1 || state.slowComm > 1 ? ", contention included" : "";
  return `${seconds(r.overlap)} of ${seconds(state.comm)} communication hides; ${seconds(r.exposed)} stays exposed${slowed}.`;
}

function drawTimeline(width, state, r, measured) {
  const end = Math.max(r.step, r.serial, measured?.step ?? 0, measured?.stepHigh ?? 0);
  const right = width - 1;
  const x = (time) => 0.5 + (right * time) / end;
  const [computeY, commY, bracketY] = [22, 22 + LANE + 26, 22 + 2 * LANE + 26 + 12];
  const shapes = [shape("defs", {}, hatch("timeline-exposed", "exposed"), hatch("timeline-stretch", "compute"))];
  const words = []; // over every line

  const bar = (from, to, y, kind, name, fill = "") => {
    if (!(to > from)) return;
    const attributes = { class: `bar ${kind}` };
    if (fill) attributes.fill = `url(#${fill})`;
    shapes.push(rect(x(from), y, x(to) - x(from), LANE, attributes));
    if (x(to) - x(from) > 9 * name.length + 8) {
      words.push(text((x(from) + x(to)) / 2, y + LANE / 2 + 5, name, { class: `inside on-${kind}`, "text-anchor": "middle" }));
    }
  };
  words.push(text(0, computeY - 7, "compute", { class: "lane halo" }));
  words.push(text(0, commY - 7, "communication", { class: "lane halo" }));
  bar(0, Math.min(state.compute, r.computeEnd), computeY, "compute", "compute");
  bar(state.compute, r.computeEnd, computeY, "stretch", "slowed", "timeline-stretch");
  // Beside a compute that it slows, communication is out of sight but not off the wall clock: that is the slowed part.
  const beside = r.computeEnd > state.compute ? "beside compute" : "hidden";
  bar(0, Math.min(r.besideEnd, r.computeEnd), commY, "comm", beside);
  bar(r.computeEnd, r.besideEnd, commY, "exposed", "exposed", "timeline-exposed");
  bar(r.restStart, r.step, commY, "exposed", "exposed", "timeline-exposed");

  // Right of the end of compute alone everything is on the wall clock because of communication.
  shapes.push(line(x(state.compute), computeY - 4, x(state.compute), bracketY + 10, { class: "mark" }));
  if (x(r.step) - x(state.compute) > 1) {
    shapes.push(
      line(x(state.compute), bracketY + 5, x(r.step), bracketY + 5, { class: "exposed-line" }),
      line(x(r.step), bracketY, x(r.step), bracketY + 10, { class: "exposed-line" }),
    );
  }
  shapes.push(...words);
  const exposed = `exposed ${seconds(r.exposed)}`;
  const middle = (x(state.compute) + x(r.step)) / 2;
  const reach = 4 * exposed.length; // half of its width, about
  shapes.push(
    text(Math.min(Math.max(middle, reach), right - reach), bracketY + 24, exposed, { class: "exposed-words", "text-anchor": "middle" }),
  );

  // The step between its bounds, all from the same zero.
  const wide = width > 400;
  const rulers = [
    [`max (compute, comm)${wide ? ": the least possible" : ""}`, r.ideal, "ruler"],
    ["step", r.step, r.step > r.serial * (1 + 1e-9) ? "ruler worse" : "ruler step"],
    [`compute + comm${wide ? ": one after the other" : ""}`, r.serial, "ruler"],
  ];
  if (measured) rulers.splice(2, 0, ["measured step", measured.step, "ruler measured"]);
  let y = bracketY + 52;
  for (const [name, time, kind] of rulers) {
    shapes.push(text(0, y, name, { class: "small" }), text(right, y, seconds(time), { class: "small value", "text-anchor": "end" }));
    shapes.push(line(0, y + 9, x(time), y + 9, { class: kind }), line(x(time), y + 4, x(time), y + 14, { class: kind }));
    if (kind === "ruler measured" && measured.stepLow !== null && measured.stepHigh !== null) {
      shapes.push(rect(x(measured.stepLow), y + 5, x(measured.stepHigh) - x(measured.stepLow), 8, { class: "interval" }));
    }
    y += 34;
  }
  shapes.push(...timeAxis(x, end, width, y - 6));
  const label = `Timeline. Compute alone ${seconds(state.compute)}, communication alone ${seconds(state.comm)}. ${timelineSentence(state, r)} Step ${seconds(r.step)}, between ${seconds(r.ideal)} and ${seconds(r.serial)}.`;
  return { height: y + 26, label, shapes };
}

export function timeAxis(x, end, width, y) {
  const shapes = [line(0, y, width, y, { class: "axis" })];
  for (const at of ticks(end, Math.max(2, Math.floor(width / 110)))) {
    const anchor = x(at) < 12 ? "start" : x(at) > width - 24 ? "end" : "middle";
    shapes.push(line(x(at), y, x(at), y + 5, { class: "axis" }));
    shapes.push(text(x(at), y + 19, seconds(at), { class: "tick", "text-anchor": anchor }));
  }
  return shapes;
}
