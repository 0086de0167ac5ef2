// SPDX-License-Identifier: Apache-2.0
//
// Sliders with a name, a value in words and a keyboard, and the two ways in which results are told: as a list of numbers,
// and as a sentence that screen readers speak once it has settled.

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// A slider over `state[name]`. With `steps` it is logarithmic: so many equal ratios from low to high, and `round` makes of a
// position's value what can be said in a few digits; else it moves by `step`. A value that was set from outside is kept
// exactly until the slider is moved.
export class Slider {
  constructor(state, onChange, { name, label, hint, low, high, step, steps, round = (value) => value, format }) {
    Object.assign(this, { state, name, steps, format });
    this.input = element("input", { type: "range", id: `${state.id}-${name}`, step: steps ? 1 : step });
    this.output = element("output", { for: this.input.id });
    this.label = element("label", { for: this.input.id }, label);
    this.row = element("div", { class: "slider" }, this.label, this.output, this.input);
    if (hint) {
      const words = element("p", { class: "hint", id: `${this.input.id}-hint` }, hint);
      this.input.setAttribute("aria-describedby", words.id);
      this.row.append(words);
    }
    this.range(low, high);
    this.input.addEventListener("input", () => {
      const position = Number(this.input.value);
      state[name] = round(steps ? this.low * (this.high / this.low) ** (position / steps) : position);
      onChange(name);
    });
  }

  range(low, high) {
    Object.assign(this, { low, high });
    this.input.min = this.steps ? 0 : low;
    this.input.max = this.steps ?? high;
  }

  show() {
    const value = this.state[this.name];
    const words = this.format(value);
    this.input.value = this.steps ? (this.steps * Math.log(value / this.low)) / Math.log(this.high / this.low) : value;
    this.input.setAttribute("aria-valuetext", words);
    this.output.textContent = words;
    const { min, max } = this.input;
    this.input.style.setProperty("--filled", `${(100 * (this.input.value - min)) / (max - min)}%`);
  }
}

// rows: [term, value, what it is]. The list keeps its elements, so that nothing flickers.
export function showNumbers(list, rows) {
  if (list.children.length !== rows.length) {
    list.replaceChildren(
      ...rows.map(() => element("div", {}, element("dt"), element("dd"), element("dd", { class: "what" }))),
    );
  }
  rows.forEach(([term, value, what], i) => {
    const [dt, dd, explanation] = list.children[i].children;
    dt.textContent = term;
    dd.textContent = value;
    explanation.textContent = what;
  });
}

// A sentence in view at once, and spoken when it has not changed for a while: a slider on its way says nothing.
export class Sentence {
  constructor(seen, spoken, settle = 500) {
    Object.assign(this, { seen, spoken, settle, timer: 0 });
  }

  say(words) {
    this.seen.textContent = words;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.spoken.textContent = words;
    }, this.settle);
  }

  // Without a word for who listens: an animation on its way.
  show(words) {
    this.seen.textContent = words;
    clearTimeout(this.timer);
  }
}
