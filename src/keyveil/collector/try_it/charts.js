/** Pictures as SVG, made of attributes and classes only, since the page allows no inline styles. */

function element(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}

/** A bar for what was drawn, a line for the exact probability, a short one for that of the other record. */
export function bar(drawn, exact, other, most) {
  const at = (share) => (100 * share) / most;
  return element(
    "svg",
    { viewBox: "0 0 104 20", preserveAspectRatio: "none", "aria-hidden": "true" },
    element("rect", { class: "bar", x: 0, y: 4, width: at(drawn), height: 12 }),
    element("line", { class: "exact", x1: at(exact), x2: at(exact), y1: 1, y2: 19, "vector-effect": "non-scaling-stroke" }),
    element("line", { class: "other", x1: at(other), x2: at(other), y1: 6, y2: 14, "vector-effect": "non-scaling-stroke" }),
  );
}

/** Odds in words, such as 2.7 : 1. */
export const times = (odds) => (odds >= 1 ? `${short(odds)}\u00a0:\u00a01` : `1\u00a0:\u00a0${short(1 / odds)}`);

function short(number) {
  if (number >= 1e6) {
    const [digits, power] = number.toExponential(0).split("e+");
    return `${digits}·10${[...power].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(digit)]).join("")}`;
  }
  return number >= 100 ? number.toFixed(0) : String(Number(number.toPrecision(2)));
}

/** Where odds lie between one over e^epsilon and e^epsilon, on a logarithmic scale; so many pixels wide. */
export function gauge(odds, epsilon, width) {
  const [left, right] = [34, width - 34];
  const middle = (left + right) / 2;
  const at = middle + ((right - left) * Math.log(odds)) / (2 * epsilon);
  const tick = (x, text) => [
    element("line", { class: "axis", x1: x, x2: x, y1: 10, y2: 30 }),
    element("text", { x, y: 48, "text-anchor": "middle" }, text),
  ];
  return element(
    "svg",
    { width, height: 54, role: "img", "aria-label": `Odds ${times(odds)}, within ${times(Math.exp(epsilon))}` },
    element("line", { class: "axis", x1: left, x2: right, y1: 20, y2: 20 }),
    ...tick(left, times(Math.exp(-epsilon))),
    ...tick(middle, "1 : 1"),
    ...tick(right, times(Math.exp(epsilon))),
    element("circle", { class: "needle", cx: at, cy: 20, r: 8 }),
  );
}

/** Two courses of the logarithm of odds over a hundred reports; so many pixels wide. */
export function course(fresh, standing, epsilon, width) {
  const all = [...fresh, ...standing, epsilon, -epsilon];
  const [least, most] = [Math.min(...all), Math.max(...all)];
  const [left, right, height] = [42, width - 4, 220];
  const x = (place) => left + ((right - left) * place) / (fresh.length - 1);
  const y = (log) => 10 + ((height - 40) * (most - log)) / (most - least);
  const line = (name, logs) => element("polyline", { class: name, points: logs.map((log, place) => `${x(place)},${y(log)}`).join(" ") });
  const level = (log, text, label = y(log) + 4) => [
    element("line", { class: "limit", x1: left, x2: right, y1: y(log), y2: y(log) }),
    element("text", { x: left - 6, y: label, "text-anchor": "end" }, text),
  ];
  return element(
    "svg",
    { width, height, role: "img", "aria-label": "Odds of a collector over a hundred reports" },
    ...level(epsilon, "e^ε", Math.min(y(epsilon) + 4, y(0) - 8)),
    ...level(0, "even", Math.max(y(0) + 4, y(epsilon) + 12)),
    line("fresh-line", fresh),
    line("standing-line", standing),
    element("text", { x: left, y: height - 4 }, "1st report"),
    element("text", { x: right, y: height - 4, "text-anchor": "end" }, "100th"),
  );
}
