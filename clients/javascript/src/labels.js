/** What a report may say of a value: its sign, its cell, or a point of its range; drawn without bias. */
import { GRID, rounded } from "./schema.js";

/** The sign: 0 minus, 1 plus. */
export const signs = { count: 2, draw: (value, coins) => Number(coins.chance(GRID + value, 2 * GRID)) };

/** The labels of the options `bins` and `rounding`: without bins signs, otherwise points or cells. */
export function labelsOf(schema, { bins, rounding }) {
  if (!bins) return signs;
  if (rounding === "cell")
    return { count: bins, draw: (value) => Math.min(Math.floor(((GRID + value) * bins) / (2 * GRID)), bins - 1) };
  const equal = Array.from({ length: bins }, (_, place) => rounded((2 * GRID * place) / (bins - 1)) - GRID);
  const row = (key) => (bins === schema.mostLevels && schema.levelsOf(key)) || equal;
  return { count: bins, draw: (value, coins, key) => between(row(key), value, coins) };
}

/** A value between two points becomes one of them at random. */
function between(row, value, coins) {
  const lower = Math.max(row.findLastIndex((point) => point <= value), 0);
  const [rest, step] = [value - row[lower], row[lower + 1] - row[lower]];
  return lower + Number(rest > 0 && rest < step && coins.chance(rest, step));
}
