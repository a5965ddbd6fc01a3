/** Answers of two weights, and thresholds of single bits, rounded so that they never tell more. */
import { demand } from "./errors.js";
import { ceilDivide, expFloor, levels, RESOLUTION } from "./exact.js";

export const lieThreshold = (epsilon) => ceilDivide(RESOLUTION << 64n, expFloor(epsilon) + (1n << 64n));

/** The smallest number at which a channel keeps ε, where larger ones spend less. */
export function tightest(spends, epsilon, low, high) {
  const most = expFloor(epsilon, 256n);
  const keeps = ([above, below]) => above << 256n <= most * below;
  demand(keeps(spends(high)), "privacy/no-threshold");
  while (low < high) {
    const middle = (low + high) / 2n;
    if (keeps(spends(middle))) high = middle;
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
