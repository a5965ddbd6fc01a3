/** Whole weights over a constant total: what several mechanisms draw from. */
import { fraction, levels } from "./exact.js";

/** The true one of so many states with weight e^ε, each other one with weight 1. */
export function trueState(states, epsilon) {
  const [high, low] = levels(epsilon);
  const rows = Array.from({ length: states }, (_, state) =>
    Array.from({ length: states }, (_, output) => (output === state ? high : low)),
  );
  return { ratio: fraction(high, low), draw: (state, coins) => coins.choose(rows[state]) };
}

/** Of `outputs` answers `marked` have weight e^ε, the others 1; draws [whether marked, rank among those]. */
export function twoLevel(outputs, marked, epsilon) {
  const [high, low] = levels(epsilon);
  const draw = (coins) => {
    const [run, rank] = coins.pick([[marked, high], [outputs - marked, low]]);
    return /** @type {[boolean, number]} */ ([run === 0, rank]);
  };
  return { ratio: marked > 0 && marked < outputs ? fraction(high, low) : fraction(1), draw };
}

const choose = (n, k) => {
  if (k < 0 || k > n) return 0n;
  let ways = 1n;
  for (let at = 1; at <= Math.min(k, n - k); at++) ways = (ways * BigInt(n - at + 1)) / BigInt(at);
  return ways;
};

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
    const foreign = coins.subset(size - hit, symbols - held);
    let passed = 0; // ranks rise, so the held symbols below them do too
    for (let at = 0; at < foreign.length; at++) {
      while (passed < gaps.length && gaps[passed] <= foreign[at] + passed) passed++;
      foreign[at] += passed;
    }
    return [...own, ...foreign].sort((a, b) => a - b);
  };
  return { ratio: hits[0] ? fraction(high, low) : fraction(1), draw };
}

/** At most `cap` pairs of a record, a uniform choice where there are more. */
export const capped = (pairs, cap, coins) =>
  pairs.length <= cap ? pairs : coins.subset(cap, pairs.length).map((place) => pairs[place]);

/** The symbols of a capped record: its keys with labels. */
export const heldSymbols = (pairs, cap, labels, coins) =>
  capped(pairs, cap, coins).map(([key, value]) => labels.count * key + labels.draw(value, coins, key));
