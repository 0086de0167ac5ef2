// SPDX-License-Identifier: Apache-2.0
//
// What the page does beside being read: light or dark, sorted tables, pictures that the keyboard can scroll.

import { themeButton } from "../lab/theme.js";

themeButton(document.getElementById("theme"));

// Ascending, then descending. What has a value comes before what has none, whichever way; equal rows keep their order.
function sortBy(table, column, direction) {
  const valued = (row) => {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
  };
  const body = table.tBodies[0];
  const numbers = [...body.rows].some((row) => valued(row) !== null);
  const order = (a, b) => {
    if (!numbers) return direction * a.cells[column].textContent.localeCompare(b.cells[column].textContent, "en", { numeric: true });
    const [left, right] = [valued(a), valued(b)];
    if (left === null || right === null) return (left === null) - (right === null);
    return direction * (left - right);
  };
  body.append(...[...body.rows].sort(order));
}

for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    if (table.tBodies[0].rows.length < 2) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const ascending = heading.getAttribute("aria-sort") !== "ascending";
      for (const other of headings) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      sortBy(table, column, ascending ? 1 : -1);
    });
  });
}

// A picture that is wider than the page scrolls, so the keyboard must reach it; one that fits is no stop on the way.
const pictures = [...document.querySelectorAll(".picture")];
const reach = () => {
  pictures.forEach((picture, at) => {
    if (picture.scrollWidth > picture.clientWidth) {
      picture.tabIndex = 0;
      picture.setAttribute("role", "region");
      const title = picture.closest("figure").querySelector("h4").textContent;
      picture.setAttribute("aria-label", `Picture ${at + 1}: ${title}`);
    } else {
      for (const name of ["tabindex", "role", "aria-label"]) picture.removeAttribute(name);
    }
  });
};
window.addEventListener("resize", reach);
window.addEventListener("load", reach);
for (const details of document.querySelectorAll("details")) details.addEventListener("toggle", reach);
reach();
