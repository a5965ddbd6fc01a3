/**
 * Exact numbers: fractions of BigInts as [numerator, denominator], e^ε rounded down and logarithms rounded up, so that
 * nothing rounds in favour of the collector (src/keyveil/core/epsilon.py is the Python twin).
 */
import { demand } from "./errors.js";

/** Weight of an unmarked output, and denominator for single bits. */
export const RESOLUTION = 1n << 32n;

/** A whole number, a decimal, or a quotient such as "1/3". */
export function parse(given) {
  const [, whole, rest = "", below] = /^(-?\d{1,400})(?:\.(\d{1,1100})|\/(0*[1-9]\d{0,400}))?$/.exec(given) ?? [];
  demand(whole, "document/number");
  return [BigInt(whole + rest), below ? BigInt(below) : 10n ** BigInt(rest.length)];
}

const gcd = (a, b) => (b ? gcd(b, a % b) : a < 0n ? -a : a);

/** The one spelling: a decimal where it is one, "a/b" otherwise. */
export function text([a, b]) {
  const [above, below] = [a / gcd(a, b), b / gcd(a, b)];
  const places = below.toString(2).length;
  const shifted = 10n ** BigInt(places) * above;
  if (shifted % below) return `${above}/${below}`;
  const digits = `${shifted / below}`.replace("-", "").padStart(places + 1, "0");
  return `${above < 0n ? "-" : ""}${digits.slice(0, -places)}.${digits.slice(-places)}`.replace(/\.?0*$/, "");
}

export const add = ([a, b], [c, d]) => [a * d + c * b, b * d];
export const subtract = (one, [a, b]) => add(one, [-a, b]);
export const atMost = ([a, b], [c, d]) => a * d <= c * b;

export const ceilDivide = (a, b) => (a + b - 1n) / b;

/** e^ε · 2^bits, rounded down. */
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

export const keeps = (ratio, epsilon) => ratio[0] << 256n <= expFloor(epsilon, 256n) * ratio[1];

/** Whole weights [high, low] whose ratio is at most e^ε. */
export const levels = (epsilon) => [expFloor(epsilon) >> 32n, RESOLUTION];

/** The price of a report: the logarithm of a ratio, rounded up in the thirtieth digit. */
export function logCeiling([above, below]) {
  if (above <= below) return [0n, 1n];
  const bits = 320n;
  const log = (a, b) => {
    const step = ((a - b) << bits) / (a + b); // ln(a/b) = 2·artanh((a - b)/(a + b))
    let sum = 0n;
    for (let power = step, order = 1n; power; power = (power * step * step) >> (2n * bits), order += 2n) sum += power / order;
    return 2n * sum;
  };
  let doublings = 0n;
  while (above >= below << (doublings + 1n)) doublings++;
  const scaled = doublings * log(2n, 1n) + log(above, below << doublings) + (1n << 20n);
  let scale = 1n;
  while ((scaled * scale) >> bits < 10n ** 29n) scale *= 10n;
  return [ceilDivide(scaled * scale, 1n << bits), scale];
}
