/** Whole weights over a constant total: what several mechanisms draw from, each with its largest ratio. */
import { fraction, levels, ONE } from "./exact.js";

/** Of `outputs` answers `marked` have weight e^ε, the others 1; draws [whether marked, rank among those]. */
export function twoLevel(outputs, marked, epsilon) {
  const [high, low] = levels(epsilon);
  const draw = (coins) => {
    const [run, rank] = coins.pick([[marked, high], [outputs - marked, low]]);
    return [run === 0, rank];
  };
  return { ratio: marked && marked < outputs ? fraction(high, low) : ONE, draw };
}

/** The true one of so many states with weight e^ε, each other one with weight 1. */
export function trueState(states, epsilon) {
  const [high, low] = levels(epsilon);
  const draw = (state, coins) => coins.choose(Array.from({ length: states }, (_, one) => (one === state ? high : low)));
  return { ratio: fraction(high, low), draw };
}

/** Binomial coefficient. */
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
  return { ratio: hits[0] ? fraction(high, low) : ONE, draw };
}

/** At most `cap` pairs of a record, a uniform choice where there are more. */
export const capped = (pairs, cap, coins) =>
  pairs.length <= cap ? pairs : coins.subset(cap, pairs.length).map((place) => pairs[place]);

/** The symbols of a capped record: its keys with labels. */
export const heldSymbols = (pairs, cap, labels, coins) =>
  capped(pairs, cap, coins).map(([key, value]) => labels.count * key + labels.draw(value, coins, key));
