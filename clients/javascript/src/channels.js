/** What mechanisms draw from: whole weights over a constant total, and labels that stand for values without bias. */
import { levels } from "./exact.js";
import { GRID, rounded } from "./schema.js";

export function trueState(states, epsilon) {
  const [high, low] = levels(epsilon);
  const draw = (state, coins) => coins.choose(Array.from({ length: states }, (_, one) => (one === state ? high : low)));
  return { ratio: [high, low], draw };
}

function choose(n, k) {
  let ways = BigInt(k >= 0 && k <= n);
  for (let at = 1; at <= Math.min(k, n - k); at++) ways = (ways * BigInt(n - at + 1)) / BigInt(at);
  return ways;
}

/** All subsets of one size: weight e^ε if one meets what a person holds, else 1. */
export function subset(symbols, size, held, epsilon) {
  const [high, low] = levels(epsilon);
  const hits = Array.from({ length: Math.min(held, size) + 1 }, (_, hit) =>
    (hit ? high : low) * choose(held, hit) * choose(symbols - held, size - hit),
  );
  const draw = (mine, coins) => {
    const hit = coins.choose(hits);
    const own = coins.subset(hit, held).map((place) => mine[place]);
    const gaps = [...mine].sort((a, b) => a - b);
    let passed = 0; // ranks among the other symbols rise, so the held ones below them do too
    const foreign = coins.subset(size - hit, symbols - held).map((rank) => {
      while (gaps[passed] <= rank + passed) passed++;
      return rank + passed;
    });
    return [...own, ...foreign].sort((a, b) => a - b);
  };
  return { ratio: hits[0] ? [high, low] : [1n, 1n], draw };
}

export const capped = (pairs, cap, coins) =>
  pairs.length <= cap ? pairs : coins.subset(cap, pairs.length).map((place) => pairs[place]);

export const heldSymbols = (pairs, cap, labels, coins) =>
  capped(pairs, cap, coins).map(([key, value]) => labels.count * key + labels.draw(value, coins, key));

/** The sign of a value: 0 minus, 1 plus. */
export const signs = { count: 2, draw: (value, coins) => Number(coins.chance(GRID + value, 2 * GRID)) };

/** Without bins signs, otherwise cells or points of the range. */
export function labelsOf(schema, { bins, rounding }) {
  if (!bins) return signs;
  const cell = (value) => Math.min(Math.floor(((GRID + value) * bins) / (2 * GRID)), bins - 1);
  const equal = Array.from({ length: bins }, (_, place) => rounded((2 * GRID * place) / (bins - 1)) - GRID);
  const point = (value, coins, key) => {
    const row = (bins === schema.mostLevels && schema.levelsOf(key)) || equal;
    const lower = Math.max(row.findLastIndex((one) => one <= value), 0);
    const [rest, step] = [value - row[lower], row[lower + 1] - row[lower]];
    return lower + Number(rest > 0 && rest < step && coins.chance(rest, step));
  };
  return { count: bins, draw: rounding === "cell" ? cell : point };
}
