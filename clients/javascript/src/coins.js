/**
 * Randomness: uniform whole numbers from the bytes of Web Crypto, by rejection; nothing is kept ahead. Mechanisms know
 * these verbs and nothing else. They take the same bytes as the Python device does (src/keyveil/core/coins.py).
 */
import { refuse } from "./errors.js";

const LARGEST = 1 << 16; // bytes that getRandomValues gives at once

/** So many bytes from the operating system. @param {number} count @returns {Uint8Array} */
export function systemBytes(count) {
  const drawn = new Uint8Array(count);
  for (let at = 0; at < count; at += LARGEST) globalThis.crypto.getRandomValues(drawn.subarray(at, at + LARGEST));
  return drawn;
}

/** Coins over a source of bytes; tests give one of their own. */
export class Coins {
  /** @param {(count: number) => Uint8Array} [bytes] */
  constructor(bytes = systemBytes) {
    this.bytes = bytes;
  }

  /** A uniform whole number in [0, bound). @template {number | bigint} T @param {T} bound @returns {T} */
  below(bound) {
    return /** @type {any} */ (typeof bound === "bigint" ? this._large(bound) : this._small(/** @type {number} */ (bound)));
  }

  /** The same as `_large`, in numbers; bounds up to 2^48. */
  _small(bound) {
    if (!(bound >= 1)) refuse("coins/bound", `There is no number from 0 to below ${bound}.`);
    if (bound === 1) return 0;
    if (bound > 2 ** 48) return Number(this._large(BigInt(bound)));
    const [size, excess] = width(bound);
    for (;;) {
      const kept = Math.floor(whole(this.bytes(size)) / 2 ** excess);
      if (kept < bound) return kept;
    }
  }

  _large(bound) {
    if (bound < 1n) refuse("coins/bound", `There is no number from 0 to below ${bound}.`);
    if (bound === 1n) return 0n;
    const bits = (bound - 1n).toString(2).length;
    const size = (bits + 7) >> 3;
    for (;;) {
      let drawn = 0n;
      for (const byte of this.bytes(size).reverse()) drawn = (drawn << 8n) | BigInt(byte);
      drawn >>= BigInt(8 * size - bits);
      if (drawn < bound) return drawn;
    }
  }

  /** An index, with probability proportional to its weight. @param {bigint[]} weights @returns {number} */
  choose(weights) {
    return this.pick(weights.map((weight) => [1, weight]))[0];
  }

  /** True with probability numerator / denominator. @template {number | bigint} T @param {T} numerator @param {T} denominator */
  chance(numerator, denominator) {
    if (numerator < 0 || numerator > denominator) refuse("privacy/weights", "Weights must not be negative.");
    return this.below(denominator) < numerator;
  }

  /**
   * One of many outputs that come in runs of equal weight: [count, weight] each; gives [run, rank in it].
   * @param {[number, bigint][]} runs @returns {[number, number]}
   */
  pick(runs) {
    const masses = runs.map(([count, weight]) => BigInt(count) * weight);
    const total = masses.reduce((sum, mass) => sum + mass, 0n);
    if (masses.some((mass) => mass < 0n) || !total) refuse("privacy/weights", "Weights must not be negative.");
    let drawn = this.below(total);
    const run = masses.findIndex((mass) => drawn < mass || ((drawn -= mass), false));
    return [run, Number(drawn / runs[run][1])];
  }

  /** So many uniform numbers in [0, bound), up to 2^48: all are read, then those rejected again. @returns {number[]} */
  belowEach(bound, count) {
    const [size, excess] = width(bound);
    const numbers = new Array(count).fill(0);
    let places = size ? [...numbers.keys()] : [];
    while (places.length) {
      const octets = this.bytes(size * places.length);
      places = places.filter((place, at) => {
        numbers[place] = Math.floor(whole(octets.subarray(size * at, size * at + size)) / 2 ** excess);
        return numbers[place] >= bound;
      });
    }
    return numbers;
  }

  /** A uniform subset of [0, bound) with so many members, sorted; of more than half those are drawn that stay out. */
  subset(size, bound) {
    const few = Math.min(size, bound - size);
    const members = new Set();
    while (members.size < few) this.belowEach(bound, few - members.size).forEach((one) => members.add(one));
    if (few === size) return [...members].sort((a, b) => a - b);
    return Array.from({ length: bound }, (_, number) => number).filter((number) => !members.has(number));
  }

  /**
   * So many events of probability numerator / denominator: each compares a uniform number with that share, byte by
   * byte, until they differ. @param {bigint} numerator @param {bigint} denominator @param {number} count
   */
  chances(numerator, denominator, count) {
    if (numerator < 0n || numerator > denominator) refuse("privacy/weights", "Weights must not be negative.");
    const happened = new Array(count).fill(false);
    let [places, rest, first] = [[...happened.keys()], numerator, true];
    while (first || places.length) {
      const digit = Number((rest << 8n) / denominator);
      rest = (rest << 8n) % denominator;
      const octets = this.bytes(places.length);
      places = places.filter((place, at) => {
        happened[place] = octets[at] < digit;
        return rest && octets[at] === digit;
      });
      first = false;
    }
    return happened;
  }
}

/** Bytes that are read for a number below a bound of at most 2^48, and their low bits that are not used. */
function width(bound) {
  const bits = bound > 2 ** 31 ? BigInt(bound - 1).toString(2).length : 32 - Math.clz32(bound - 1);
  const size = (bits + 7) >> 3;
  return [size, 8 * size - bits];
}

/** The number that up to six bytes spell, the lowest first. */
const whole = (octets) => octets.reduceRight((number, byte) => number * 256 + byte, 0);
