// SPDX-License-Identifier: Apache-2.0
//
// Small helpers for pictures. Text is always set as text, never parsed.

const NAMESPACE = "http://www.w3.org/2000/svg";

export function shape(name, attributes = {}, ...children) {
  const element = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

export function text(x, y, words, attributes = {}) {
  return shape("text", { x, y, ...attributes }, words);
}

export function rect(x, y, width, height, attributes = {}) {
  return shape("rect", { x, y, width: Math.max(0, width), height, ...attributes });
}

export function line(x1, y1, x2, y2, attributes = {}) {
  return shape("line", { x1, y1, x2, y2, ...attributes });
}

export function path(points, attributes = {}) {
  const d = points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(2)} ${y.toFixed(2)}`).join("");
  return shape("path", { d, ...attributes });
}

// Diagonal lines over a colour: what is exposed or stretched is told by texture as well as by colour.
export function hatch(id, kind) {
  return shape(
    "pattern",
    { id, width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    rect(0, 0, 7, 7, { class: `fill-${kind}` }),
    line(0, 0, 0, 7, { class: "hatching" }),
  );
}

// A picture that fills its figure and is drawn again when that changes width; its words are for who cannot see it.
export class Picture {
  constructor(figure, draw) {
    this.figure = figure;
    this.draw = draw;
    this.width = 0;
    new ResizeObserver(() => {
      if (Math.round(figure.clientWidth) !== this.width) this.redraw();
    }).observe(figure);
  }

  redraw() {
    this.width = Math.round(this.figure.clientWidth);
    if (this.width < 1) return;
    const { height, label, shapes } = this.draw(this.width);
    const picture = shape(
      "svg",
      { width: this.width, height, viewBox: `0 0 ${this.width} ${height}`, role: "img", "aria-label": label },
      ...shapes,
    );
    this.figure.replaceChildren(picture);
  }
}
