/** Campaigns that are not for browsers may leave options out: what their rounds then may say. */
import { canonical } from "./canonical.js";
import { parse, text } from "./exact.js";

/** To what was said, and to what is usual; collectors choose only what is not listed. */
export function held({ levels, goal, ...said }, told, planned, { mostLevels }) {
  const usual = { split: "tight", estimator: "unbiased", cells: 4096, weights: null, overflow: null, value_epsilon: null };
  const wanted = { ...usual, bins: levels ?? (goal ? told.bins : mostLevels || null), rounding: told.bins ? "grid" : null };
  for (const name in { ...said, ...told }) {
    const value = said[name] ?? wanted[name];
    const spent = ["goal", "set_sizes", "sizes", "expected"].includes(name); // a round names what follows from them
    planned(spent || value === undefined || same(value, told[name] ?? null));
  }
}

/** As documents, or as numbers in two spellings. */
const same = (...both) => {
  const [one, other] = both.map((value) => (/^[\d./]+$/.test(value) ? text(parse(value)) : canonical(value)));
  return one === other;
};
