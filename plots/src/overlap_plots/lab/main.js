// SPDX-License-Identifier: Apache-2.0
//
// Puts the page together: what was measured, where the numbers start from, light or dark.

import { seconds } from "./format.js";
import { MD1_ASSUMPTIONS, MM1_ASSUMPTIONS } from "./model.js";
import { element } from "./controls.js";
import { themeButton } from "./theme.js";
import { TimelineWidget } from "./timeline.js";
import { BucketWidget } from "./buckets.js";
import { QueueWidget } from "./queue.js";

const measured = JSON.parse(document.getElementById("measured").textContent);

const widgets = [
  new TimelineWidget(document.getElementById("timeline")),
  new BucketWidget(document.getElementById("buckets")),
  new QueueWidget(document.getElementById("queue")),
];
for (const [id, words] of [
  ["mm1-assumptions", MM1_ASSUMPTIONS],
  ["md1-assumptions", MD1_ASSUMPTIONS],
]) {
  document.getElementById(id).textContent = `${words}.`;
}

if (measured.run !== null) {
  document.getElementById("run").textContent = measured.run;
  const choice = document.getElementById("case");
  choice.append(element("option", { value: "" }, "Example numbers"));
  measured.cases.forEach(({ name }, index) => choice.append(element("option", { value: index }, name)));
  const told = document.getElementById("case-told");
  const start = () => {
    const chosen = choice.value === "" ? null : measured.cases[Number(choice.value)];
    for (const widget of widgets) widget.start(chosen);
    told.textContent = chosen
      ? `compute ${seconds(chosen.compute)}, communication ${seconds(chosen.comm)}, together ${seconds(chosen.step)}${chosen.remark}`
      : "The sliders of all three begin with numbers of a published example.";
  };
  choice.addEventListener("change", start);
  choice.value = measured.cases.length > 0 ? "0" : "";
  document.querySelector(".source").hidden = false;
  start();
}

themeButton(document.getElementById("theme"));
