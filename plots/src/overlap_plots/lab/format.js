// SPDX-License-Identifier: Apache-2.0
//
// Numbers as people read them. Pure; three significant digits unless said otherwise, and no line break before a unit.

const SI = [
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
  [1, ""],
  [1e-3, "m"],
  [1e-6, "µ"],
  [1e-9, "n"],
];
const IEC = [
  [2 ** 40, "TiB"],
  [2 ** 30, "GiB"],
  [2 ** 20, "MiB"],
  [2 ** 10, "KiB"],
  [1, "B"],
];

// 123.4 is "123", 25.06 is "25.1", 4 is "4": no exponent, no trailing zeros, a true minus.
export function digits(value, significant = 3) {
  if (value === 0) return "0";
  const magnitude = Math.floor(Math.log10(Math.abs(value)));
  const decimals = Math.min(12, Math.max(0, significant - 1 - magnitude));
  return String(Number(value.toFixed(decimals))).replace("-", "−");
}

export function threeDigits(value) {
  return Number(value.toPrecision(3));
}

export function seconds(time) {
  if (time === Infinity) return "never";
  return withPrefix(time, "s");
}

export function bandwidth(bytesPerSecond) {
  return withPrefix(bytesPerSecond, "B/s");
}

function withPrefix(value, unit) {
  const [factor, prefix] = SI.find(([f]) => Math.abs(value) >= 0.9995 * f) ?? [1, ""];
  return `${digits(value / factor)}\u00a0${prefix}${unit}`;
}

export function bytes(size) {
  const [factor, unit] = IEC.find(([f]) => size >= f) ?? [1, "B"];
  return `${digits(size / factor, 4)}\u00a0${unit}`;
}

export function percent(fraction) {
  return `${digits(Number((100 * fraction).toFixed(1)), 3)}\u00a0%`;
}

// Seconds of the lab, which have no prefix: "4 s", "0.25 s".
export function wholeSeconds(time) {
  return `${digits(time)}\u00a0s`;
}

export function times(factor) {
  return `${factor.toFixed(2)}×`;
}

export function count(number, noun) {
  const words = Number.isInteger(number) ? String(number) : digits(number);
  return `${words} ${noun}${words === "1" ? "" : "s"}`;
}

// Round positions for the ticks of an axis from 0 to `most`, at about `wanted` of them.
export function ticks(most, wanted) {
  const rough = most / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const found = [];
  for (let i = 0; i * step <= most * 1.0001; ++i) found.push(Number((i * step).toPrecision(12)));
  return found;
}
