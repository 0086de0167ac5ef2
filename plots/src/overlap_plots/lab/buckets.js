// SPDX-License-Identifier: Apache-2.0
//
// The U-curve of gradient buckets: the backward pass, the buckets that it fires, the tail; and the exposed time over the
// size of a bucket.

import { bandwidth, bytes, count, digits, percent, seconds, threeDigits } from "./format.js";
import { bestBucketCount, bottomOfCurve, bucketCount, bucketSpans, exposedTime, wireTime } from "./model.js";
import { hatch, line, path, Picture, rect, shape, text } from "./svg.js";
import { Sentence, showNumbers, Slider } from "./controls.js";
import { timeAxis } from "./timeline.js";

const MIB = 2 ** 20;
// 7 billion gradients of two bytes on 64 ranks; PyTorch's default bucket.
const BUCKET_EXAMPLE = { layers: 32, gradients: 14e9, backward: 0.1, latency: 50e-6, bandwidth: 360e9, ranks: 64, bucket: 25 * MIB };
const MOST_BUCKETS = 16384;

export class BucketWidget {
  constructor(root) {
    this.state = { id: "buckets", ...BUCKET_EXAMPLE };
    this.numbers = root.querySelector(".numbers");
    this.sentence = new Sentence(root.querySelector(".verdict"), root.querySelector(".spoken"));
    this.note = root.querySelector(".from-case");
    const changed = () => this.update();
    const add = (options) => new Slider(this.state, changed, options);
    this.bucket = add({
      name: "bucket",
      label: "Bucket size",
      hint: "gradients are sent in equal buckets of at most this",
      low: 1 / MOST_BUCKETS,
      high: 1,
      steps: 420,
      format: bytes,
    });
    this.sliders = [
      this.bucket,
      add({ name: "gradients", label: "Gradients", low: 2 ** 16, high: 2 ** 38, steps: 352, round: Math.round, format: bytes }),
      add({ name: "backward", label: "Backward time", low: 1e-5, high: 10, steps: 600, round: threeDigits, format: seconds }),
      add({ name: "layers", label: "Layers", low: 1, high: 128, step: 1, format: (n) => digits(n) }),
      add({ name: "latency", label: "Latency of a bucket, α", low: 1e-7, high: 0.01, steps: 500, round: threeDigits, format: seconds }),
      add({ name: "bandwidth", label: "Bus bandwidth", low: 1e8, high: 1e13, steps: 500, round: threeDigits, format: bandwidth }),
      add({ name: "ranks", label: "Ranks", low: 2, high: 4096, steps: 176, round: Math.round, format: (n) => digits(n, 4) }),
    ];
    root.querySelector(".sliders").append(...this.sliders.map((slider) => slider.row));
    this.lanes = new Picture(root.querySelector("figure.lanes"), (width) => drawLanes(width, this.state, this.result));
    this.curve = new Picture(root.querySelector("figure.curve"), (width) => drawCurve(width, this.state, this.result));
    this.update();
  }

  start(measured) {
    const usable = measured !== null && measured.collective === "all_reduce" && measured.ranks > 1;
    Object.assign(this.state, usable ? bucketsFromCase(measured) : BUCKET_EXAMPLE);
    this.note.textContent = measured === null ? "" : caseNote(measured, usable);
    this.update();
  }

  update() {
    const { state } = this;
    state.bucket = Math.min(state.gradients, Math.max(state.gradients / MOST_BUCKETS, state.bucket));
    this.bucket.range(state.gradients / MOST_BUCKETS, state.gradients);
    this.result = bucketResult(state);
    for (const slider of this.sliders) slider.show();
    showNumbers(this.numbers, bucketNumbers(state, this.result));
    this.sentence.say(bucketSentence(state, this.result));
    this.lanes.redraw();
    this.curve.redraw();
  }
}

// A bucket of a quarter of the message; latency and bandwidth as fitted to the run's sizes, or as this one shows.
function bucketsFromCase({ compute, bytes: gradients, ranks, latency, bandwidth: fitted, busBandwidth }) {
  return {
    layers: BUCKET_EXAMPLE.layers,
    gradients,
    backward: compute,
    ranks,
    latency: latency ?? BUCKET_EXAMPLE.latency,
    bandwidth: fitted ?? busBandwidth,
    bucket: gradients / 4,
  };
}

function caseNote(measured, usable) {
  if (!usable) return "Example numbers: this case is no all_reduce over several ranks.";
  if (measured.latency === null) {
    return "Bandwidth as this case's size reached it, latency included; α is an example: this run has no second size to tell them apart.";
  }
  return `α and bandwidth fitted to this run's ${measured.fitSizes} sizes; off by up to ${percent(measured.fitError)}.`;
}

function bucketResult(state) {
  const curve = { backward: state.backward, wire: wireTime(state.gradients, state.ranks, state.bandwidth), latency: state.latency };
  const buckets = bucketCount(state.gradients, Math.ceil(state.bucket));
  const best = Math.min(bestBucketCount(curve), MOST_BUCKETS);
  return {
    curve,
    buckets,
    spans: bucketSpans(curve, buckets),
    exposed: exposedTime(curve, buckets),
    best,
    bestExposed: exposedTime(curve, best),
    bottom: bottomOfCurve(curve),
  };
}

function bucketNumbers(state, r) {
  const communication = r.curve.wire + r.buckets * r.curve.latency;
  return [
    ["Exposed", seconds(r.exposed), "after the backward pass has ended"],
    ["Buckets", digits(r.buckets, 5), `of ${bytes(state.gradients / r.buckets)}, ${count(state.layers / r.buckets, "layer")} each`],
    ["Communication", seconds(communication), `${seconds(r.curve.wire)} on the wire, the rest latency`],
    ["Best bucket", bytes(state.gradients / r.best), `${count(r.best, "bucket")}, ${seconds(r.bestExposed)} exposed`],
  ];
}

export function bucketSentence(state, r) {
  const size = bytes(state.gradients / r.buckets);
  const more = r.exposed / r.bestExposed;
  if (more < 1.01) return `At the bottom of the U: buckets of ${size} leave ${seconds(r.exposed)} exposed.`;
  const side = r.buckets > r.best ? "too many buckets, the latency of each adds up" : "too few buckets, the last begins late";
  return `${seconds(r.exposed)} exposed with buckets of ${size}: ${side}. The best, ${bytes(state.gradients / r.best)}, leaves ${seconds(r.bestExposed)}.`;
}

function drawLanes(width, state, r) {
  const step = state.backward + r.exposed;
  const right = width - 1;
  const x = (time) => 0.5 + (right * time) / step;
  const [backwardY, commY, height] = [22, 102, 36];
  const shapes = [shape("defs", {}, hatch("buckets-exposed", "exposed"))];
  const wide = width > 400;
  const names = [
    text(0, backwardY - 7, `backward, ${count(state.layers, "layer")}`, { class: "lane halo" }),
    text(0, commY - 21, `all_reduce of each bucket${wide ? ", sent when it is full" : ""}`, { class: "lane halo" }),
  ];
  const apart = x(state.backward) > 5 * state.layers; // wide enough for a gap between them
  for (let i = 0; i < state.layers; ++i) {
    const from = x((state.backward * i) / state.layers);
    const to = x((state.backward * (i + 1)) / state.layers);
    shapes.push(rect(from, backwardY, to - from, height, { class: `bar compute${i % 2 ? " odd" : ""}${apart ? "" : " close"}` }));
  }
  // Buckets too narrow to see apart are one bar.
  for (const { start, end } of visibleRuns(r.spans, step / right)) {
    const middle = Math.min(Math.max(start, state.backward), end);
    if (middle > start) shapes.push(rect(x(start), commY, x(middle) - x(start), height, { class: "bar comm" }));
    if (end > middle) {
      shapes.push(rect(x(middle), commY, x(end) - x(middle), height, { class: "bar exposed", fill: "url(#buckets-exposed)" }));
    }
  }
  if (r.buckets * 9 < width) {
    for (const { ready } of r.spans) {
      const at = x(ready);
      shapes.push(shape("path", { d: `M${at - 4} ${commY - 11}h8l-4 8z`, class: "fire" }));
    }
  }
  const bracketY = commY + height + 8;
  shapes.push(line(x(state.backward), backwardY - 4, x(state.backward), bracketY + 10, { class: "mark" }));
  if (x(step) - x(state.backward) > 1) {
    shapes.push(
      line(x(state.backward), bracketY + 5, x(step), bracketY + 5, { class: "exposed-line" }),
      line(x(step), bracketY, x(step), bracketY + 10, { class: "exposed-line" }),
    );
  }
  shapes.push(...names);
  shapes.push(text(right, bracketY + 26, `exposed ${seconds(r.exposed)}`, { class: "exposed-words", "text-anchor": "end" }));
  shapes.push(...timeAxis(x, step, width, bracketY + 42));
  const label = `Backward pass of ${seconds(state.backward)} over ${count(state.layers, "layer")}, ${count(r.buckets, "bucket")} sent as they fill. ${bucketSentence(state, r)}`;
  return { height: bracketY + 66, label, shapes };
}

// Spans of which each is wider than a pixel and a half, or merged with what touches it.
function visibleRuns(spans, pixel) {
  const runs = [];
  for (const { start, end } of spans) {
    const last = runs.at(-1);
    if (last && start - last.end < pixel && end - last.start < 3 * pixel) last.end = end;
    else if (last && start - last.end < pixel && end - start < 1.5 * pixel) last.end = end;
    else runs.push({ start, end });
  }
  return runs;
}

function drawCurve(width, state, r) {
  const [left, top, right, bottom] = [52, 40, width - 10, 230]; // below the curve is room for a name
  const smallest = state.gradients / MOST_BUCKETS;
  const points = curvePoints(state, r.curve);
  const exposed = points.map(([, e]) => e);
  const low = Math.log10(Math.min(...exposed));
  const high = Math.log10(Math.max(...exposed));
  const x = (size) => left + ((right - left) * Math.log(size / smallest)) / Math.log(MOST_BUCKETS);
  const y = (time) => bottom - 34 - ((bottom - 34 - top) * (Math.log10(time) - low)) / (high - low);
  const shapes = [text(0, 14, `exposed time over bucket size${width > 400 ? ", both logarithmic" : ""}`, { class: "lane" })];

  for (let power = Math.ceil(low); power <= high; ++power) {
    shapes.push(line(left, y(10 ** power), right, y(10 ** power), { class: "grid" }));
    shapes.push(text(left - 6, y(10 ** power) + 4, seconds(10 ** power), { class: "tick", "text-anchor": "end" }));
  }
  const powers = Math.ceil(Math.log2(smallest));
  const stride = Math.max(1, Math.ceil(14 / Math.max(1, Math.floor((right - left) / 68))));
  for (let power = powers; 2 ** power <= state.gradients; power += stride) {
    shapes.push(line(x(2 ** power), bottom, x(2 ** power), bottom + 5, { class: "axis" }));
    const place = x(2 ** power) > right - 20 ? "end" : "middle";
    shapes.push(text(x(2 ** power), bottom + 19, bytes(2 ** power), { class: "tick", "text-anchor": place }));
  }
  shapes.push(line(left, bottom, right, bottom, { class: "axis" }));
  shapes.push(path(points.map(([size, e]) => [x(size), y(e)]), { class: "curve-line" }));

  const bestSize = state.gradients / r.best;
  const [bx, by] = [x(bestSize), y(r.bestExposed)];
  shapes.push(shape("path", { d: `M${bx} ${by - 8}l8 8l-8 8l-8 -8z`, class: "best" }));
  const [cx, cy] = [x(state.gradients / r.buckets), y(r.exposed)];
  shapes.push(shape("circle", { cx, cy, r: 6, class: "current" }));
  const anchor = (at) => ({ "text-anchor": at < left + 60 ? "start" : at > right - 60 ? "end" : "middle" });
  const together = Math.hypot(bx - cx, by - cy) < 28;
  if (!together) shapes.push(text(bx, by + 25, `best: ${bytes(bestSize)}`, { class: "small halo", ...anchor(bx) }));
  shapes.push(text(cx, cy - 13, together ? "now, at the best" : "now", { class: "small value halo", ...anchor(cx) }));
  const label = `Exposed time over bucket size from ${bytes(smallest)} to ${bytes(state.gradients)}, a U on logarithmic axes. Now ${bytes(state.gradients / r.buckets)} with ${seconds(r.exposed)}; best ${bytes(bestSize)} with ${seconds(r.bestExposed)}.`;
  return { height: bottom + 28, label, shapes };
}

function curvePoints(state, curve) {
  const counts = new Set();
  for (let i = 0; i <= 160; ++i) counts.add(Math.round(MOST_BUCKETS ** (i / 160)));
  return [...counts].map((n) => [state.gradients / n, exposedTime(curve, n)]);
}
