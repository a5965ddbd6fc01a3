/** Whole thresholds of single bits that keep ε, rounded so that they never tell more. */
import { refuse } from "./errors.js";
import { ceilDivide, expFloor, keeps, RESOLUTION } from "./exact.js";

/** How many of RESOLUTION draws of a binary randomised response must lie. */
export const lieThreshold = (epsilon) => ceilDivide(RESOLUTION << 64n, expFloor(epsilon) + (1n << 64n));

/** The smallest whole number in [low, high] at which a channel keeps ε, where larger ones spend less. */
export function tightest(spends, epsilon, low, high) {
  if (!keeps(spends(high), epsilon)) refuse("privacy/no-threshold");
  while (low < high) {
    const middle = (low + high) / 2n;
    if (keeps(spends(middle), epsilon)) high = middle;
    else low = middle + 1n;
  }
  return low;
}
