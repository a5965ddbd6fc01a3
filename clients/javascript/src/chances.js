/** Answers of two weights, single bits: events of one probability, and whole thresholds that keep ε, rounded so that they never tell more. */
import { demand } from "./errors.js";
import { ceilDivide, expFloor, keeps, levels, RESOLUTION } from "./exact.js";

/** So many events of probability numerator / denominator: each compares a uniform number with it, byte by byte. */
export function chances(coins, numerator, denominator, count) {
  demand(numerator >= 0n && numerator <= denominator, "privacy/weights");
  const happened = Array(count).fill(false);
  let [open, rest] = [[...happened.keys()], numerator];
  do {
    const digit = Number((rest << 8n) / denominator);
    rest = (rest << 8n) % denominator;
    const octets = coins.bytes(open.length);
    open = open.filter((place, at) => {
      happened[place] = octets[at] < digit;
      return rest && octets[at] === digit;
    });
  } while (open.length);
  return happened;
}

/** How many of RESOLUTION draws of a binary randomised response must lie. */
export const lieThreshold = (epsilon) => ceilDivide(RESOLUTION << 64n, expFloor(epsilon) + (1n << 64n));

/** The smallest whole number in [low, high] at which a channel keeps ε, where larger ones spend less. */
export function tightest(spends, epsilon, low, high) {
  demand(keeps(spends(high), epsilon), "privacy/no-threshold");
  while (low < high) {
    const middle = (low + high) / 2n;
    if (keeps(spends(middle), epsilon)) high = middle;
    else low = middle + 1n;
  }
  return low;
}

/** Of `outputs` answers `marked` have weight e^ε, the others 1; draws [whether marked, rank among those]. */
export function twoLevel(outputs, marked, epsilon) {
  const [high, low] = levels(epsilon);
  const draw = (coins) => {
    const [run, rank] = coins.pick([[marked, high], [outputs - marked, low]]);
    return [run === 0, rank];
  };
  return { ratio: marked && marked < outputs ? [high, low] : [1n, 1n], draw };
}
