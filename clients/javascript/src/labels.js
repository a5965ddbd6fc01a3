/** What a report may say of a value: its sign, its cell, or a point of its range; drawn without bias. */
import { GRID, rounded } from "./schema.js";

/**
 * @typedef {{count: number, draw: (value: number, coins: import("./coins.js").Coins, key: number) => number}} Labels
 */

/** The sign: 0 minus, 1 plus. @type {Labels} */
export const signs = { count: 2, draw: (value, coins) => (coins.chance(GRID + value, 2 * GRID) ? 1 : 0) };

/** One label for any value. @type {Labels} */
export const presence = { count: 1, draw: () => 0 };

/** The labels of options `bins` and `rounding`; resolved, so with bins there is a rounding. @returns {Labels} */
export function labelsOf(schema, bins, rounding) {
  if (bins === null) return signs;
  if (rounding === "cell")
    return { count: bins, draw: (value) => Math.min(Math.floor(((GRID + value) * bins) / (2 * GRID)), bins - 1) };
  const equal = Array.from({ length: bins }, (_, place) => rounded((2 * GRID * place) / (bins - 1)) - GRID);
  const row = (key) => (bins === schema.mostLevels ? (schema.levelsOf(key) ?? equal) : equal);
  return { count: bins, draw: (value, coins, key) => between(row(key), value, coins) };
}

/** A value between two points becomes one of them at random. */
function between(row, value, coins) {
  const above = row.findIndex((point) => point > value);
  const lower = Math.min(Math.max((above < 0 ? row.length : above) - 1, 0), row.length - 2);
  const [rest, step] = [value - row[lower], row[lower + 1] - row[lower]];
  return lower + (rest > 0 && rest < step ? coins.chance(rest, step) : rest >= step ? 1 : 0) * 1;
}

/** Round a value to one of 0…top, without bias. */
export function roundTo(value, top, coins) {
  const [floor, rest] = [Math.floor(((GRID + value) * top) / (2 * GRID)), ((GRID + value) * top) % (2 * GRID)];
  return floor + (rest && coins.chance(rest, 2 * GRID) ? 1 : 0);
}
