/** Fractions, thresholds of single bits, and hashes, rounded so that they tell no more. */
import { rule, symbol } from "./mechanisms.js";
import { exp, levels, must, parse, SCALE, text, UNIT } from "./wire.js";

export const [ZERO, ONE] = [[0n, 1n], [1n, 1n]];

/** A decimal, or a quotient such as "1/3", as [numerator, denominator]. */
export function fraction(given) {
  const [above, below = UNIT] = `${given}`.split("/").map((part) => parse(part));
  must(below > 0n, "document/number");
  return [above, below];
}

export const add = ([a, b], [c, d]) => [a * d + c * b, b * d];
export const minus = (one, [a, b]) => add(one, [-a, b]);
export const atMost = ([a, b], [c, d]) => a * d <= c * b;

export const up = (a, b) => (a + b - 1n) / b;
export const gcd = (a, b) => (b ? gcd(b, a % b) : a);

export function spelled([a, b]) {
  const [above, below] = [a / gcd(a, b), b / gcd(a, b)];
  return UNIT % below ? `${above}/${below}` : text((above * UNIT) / below);
}

export const exact = (value) => {
  rule(typeof value === "string" && /^\d+(\.\d+|\/[1-9]\d*)?$/.test(value) && spelled(fraction(value)) === value);
  return fraction(value);
};

export function some(value) {
  const share = exact(value);
  rule(share[0] > 0n && !atMost(ONE, share));
  return share;
}

export const lies = (epsilon) => up(SCALE << 64n, exp(epsilon) + (1n << 64n));

/** The least number at which a channel keeps ε; larger ones spend less. */
export function tightest(spends, epsilon, low, high) {
  const most = exp(epsilon, 256n);
  const keeps = ([above, below]) => above << 256n <= most * below;
  must(keeps(spends(high)), "privacy/no-threshold");
  while (low < high) {
    const middle = (low + high) / 2n;
    if (keeps(spends(middle))) high = middle;
    else low = middle + 1n;
  }
  return low;
}

/** Of `outputs` answers `marked` weigh e^ε, the others 1; draws [whether marked, rank among those]. */
export function twoLevel(outputs, marked, epsilon) {
  const [high, low] = levels(epsilon);
  const draw = (coins) => {
    const [run, rank] = coins.pick([[marked, high], [outputs - marked, low]]);
    return [!run, rank];
  };
  return { ratio: marked && marked < outputs ? [high, low] : ONE, codec: symbol(outputs), draw };
}

export function oneOf(outputs, epsilon) {
  const channel = twoLevel(outputs, 1, epsilon);
  const draw = (truth, coins) => {
    const [hit, rank] = channel.draw(coins);
    return hit ? truth : rank + Number(rank >= truth);
  };
  return { ...channel, draw };
}

/** So many events of one chance: uniform numbers are compared with it, byte by byte, until they differ. */
export function chances(coins, rest, total, count) {
  const hits = Array(count).fill(false);
  let open = [...hits.keys()];
  do {
    const digit = Number((rest << 8n) / total);
    rest = (rest << 8n) % total;
    const bytes = coins.bytes(open.length);
    open = open.filter((place, at) => {
      hits[place] = bytes[at] < digit;
      return rest && bytes[at] === digit;
    });
  } while (open.length);
  return hits;
}

// -- seeded hashes (src/keyveil/kernels/hashing.py)

export const STRIDE = 0x9e3779b97f4a7c15n;
const wrapped = (word) => BigInt.asUintN(64, word);

export function hashSymbol(seed, value, g) {
  const word = wrapped(seed * STRIDE);
  const [high, low] = [Number(word >> 32n), Number(BigInt.asUintN(32, word ^ (word >> 32n)))];
  let x = Math.imul(value ^ (value >>> 16) ^ low, 0x21f0aaad);
  x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
  x ^= (x >>> 15) ^ high;
  return Number((BigInt(Math.imul(x, 0xd35a2d97) >>> 0) * BigInt(g)) >> 32n);
}

export function stirred(word) {
  let bits = wrapped(word);
  bits = wrapped((bits ^ (bits >> 30n)) * 0xbf58476d1ce4e5b9n);
  bits = wrapped((bits ^ (bits >> 27n)) * 0x94d049bb133111ebn);
  return bits ^ (bits >> 31n);
}
