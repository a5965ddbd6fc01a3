/**
 * Exact numbers: fractions of BigInts, decimals as documents spell them, e^ε rounded down and logarithms rounded up.
 * Nothing here rounds in favour of the collector (src/keyveil/core/epsilon.py is the Python twin).
 */
import { refuse } from "./errors.js";

/** @typedef {readonly [bigint, bigint]} Fraction numerator and positive denominator, without a common factor */

/** Weight of an unmarked output, and denominator of the probabilities of single bits. */
export const RESOLUTION = 1n << 32n;

const gcd = (a, b) => {
  while (b) [a, b] = [b, a % b];
  return a < 0n ? -a : a;
};

/** @param {bigint | number} above @param {bigint | number} [below] @returns {Fraction} */
export function fraction(above, below = 1n) {
  let [a, b] = [BigInt(above), BigInt(below)];
  if (b < 0n) [a, b] = [-a, -b];
  const common = gcd(a, b);
  return [a / common, b / common];
}

export const ZERO = fraction(0);
export const ONE = fraction(1);
export const add = (x, y) => fraction(x[0] * y[1] + y[0] * x[1], x[1] * y[1]);
export const subtract = (x, y) => fraction(x[0] * y[1] - y[0] * x[1], x[1] * y[1]);
export const multiply = (x, y) => fraction(x[0] * y[0], x[1] * y[1]);
export const divide = (x, y) => fraction(x[0] * y[1], x[1] * y[0]);

/** Negative, zero or positive, as x is below, equal to or above y. */
export const compare = (x, y) => {
  const difference = x[0] * y[1] - y[0] * x[1];
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
};

/** The quotient of whole numbers, rounded down. */
export const floorDivide = (a, b) => (a >= 0n ? a / b : -((b - 1n - a) / b));

/** The quotient of whole numbers, rounded up. */
export const ceilDivide = (a, b) => -floorDivide(-a, b);

/** The number that a document spells: a whole number, a decimal string, or "a/b" where fractions are allowed. */
export function parse(given) {
  if (typeof given === "number" && Number.isSafeInteger(given)) return fraction(given);
  const text = typeof given === "string" ? given : "";
  const decimal = /^(-?)(\d{1,400})(?:\.(\d{1,1100}))?$/.exec(text);
  if (decimal) {
    const [, sign, whole, rest = ""] = decimal;
    return fraction(BigInt(`${sign}${whole}${rest}`), 10n ** BigInt(rest.length));
  }
  const quotient = /^(-?\d{1,400})\/(\d{1,400})$/.exec(text);
  if (quotient && BigInt(quotient[2])) return fraction(BigInt(quotient[1]), BigInt(quotient[2]));
  return refuse("document/number", `${JSON.stringify(given) ?? "This"} is not a decimal number.`);
}

/** A fraction as a decimal string where it is one, as "a/b" otherwise. */
export function text([above, below]) {
  if (below === 1n) return String(above);
  let places = 0;
  let scale = 1n;
  for (let left = below; left % 10n === 0n || left % 2n === 0n || left % 5n === 0n; places++, scale *= 10n)
    left /= left % 10n === 0n ? 10n : left % 2n === 0n ? 2n : 5n;
  if (scale % below) return `${above}/${below}`;
  const digits = String((above < 0n ? -above : above) * (scale / below)).padStart(places + 1, "0");
  return `${above < 0n ? "-" : ""}${digits.slice(0, -places)}.${digits.slice(-places).replace(/0+$/, "")}`;
}

/** How a document spells a bound: a whole number, or a decimal string. */
export function spelled(value) {
  const size = value[0] < 0n ? -value[0] : value[0];
  return value[1] === 1n && size <= 2n ** 53n ? Number(value[0]) : text(value);
}

/** e^ε rounded down to a multiple of 2^-bits; the multiple is returned. */
export function expFloor([above, below], bits = 64n) {
  let term = 1n << (bits + 128n);
  let [order, over, total] = [1n, 1n, term];
  for (; term >= over || order * below <= above; order++) {
    term = (term * above) / (over * below);
    over = order;
    total += term / over;
  }
  return total >> 128n;
}

/** Whether a ratio of probabilities is certainly at most e^ε. */
export const keeps = (ratio, epsilon) => ratio[0] << 256n <= expFloor(epsilon, 256n) * ratio[1];

/** Whole weights [high, low] whose ratio is at most e^ε. @param {Fraction} epsilon @returns {[bigint, bigint]} */
export const levels = (epsilon) => [expFloor(epsilon) >> 32n, RESOLUTION];

/** How many of RESOLUTION draws of a binary randomised response must lie. */
export const lieThreshold = (epsilon) => ceilDivide(RESOLUTION << 64n, expFloor(epsilon) + (1n << 64n));

/** The smallest whole number in [low, high] at which a channel keeps ε, where larger ones spend less. */
export function tightest(spends, epsilon, low, high) {
  if (!keeps(spends(high), epsilon)) refuse("privacy/no-threshold", `No threshold up to ${high} keeps epsilon.`);
  while (low < high) {
    const middle = (low + high) / 2n;
    if (keeps(spends(middle), epsilon)) high = middle;
    else low = middle + 1n;
  }
  return low;
}

/** The natural logarithm of a ratio ≥ 1, rounded up in the thirtieth digit: the price of a report. */
export function logCeiling([above, below]) {
  if (above < below) refuse("privacy/ratio", "The largest ratio of probabilities cannot be below one.");
  if (above === below) return ZERO;
  const bits = 320n;
  const log = (a, b) => {
    const step = ((a - b) << bits) / (a + b); // ln(a/b) = 2·artanh((a - b)/(a + b))
    const square = (step * step) >> bits;
    let sum = 0n;
    for (let power = step, order = 1n; power; power = (power * square) >> bits, order += 2n) sum += power / order;
    return 2n * sum;
  };
  let doublings = 0n;
  while (above >= below << (doublings + 1n)) doublings++;
  const scaled = doublings * log(2n, 1n) + log(above, below << doublings) + (1n << 20n);
  let places = 0n;
  while ((scaled * 10n ** places) >> bits < 10n ** 29n) places++;
  return fraction(ceilDivide(scaled * 10n ** places, 1n << bits), 10n ** places);
}
