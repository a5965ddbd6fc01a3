/**
 * Randomness: uniform whole numbers from the bytes of Web Crypto, by rejection; nothing is kept ahead. Mechanisms know
 * these verbs and nothing else, and each reads its bytes as the Python device does (docs/wire.md, "Draws").
 */
import { fromBytes } from "./canonical.js";
import { demand } from "./errors.js";

const LARGEST = 1 << 16; // bytes that getRandomValues gives at once

function systemBytes(count) {
  const drawn = new Uint8Array(count);
  for (let at = 0; at < count; at += LARGEST) crypto.getRandomValues(drawn.subarray(at, at + LARGEST));
  return drawn;
}

export class Coins {
  constructor(bytes = systemBytes) {
    this.bytes = bytes;
  }

  below(bound) {
    return this.belowEach(bound, 1)[0];
  }

  /** Uniform below a bound and of its type: all are read, and those that were too large again. */
  belowEach(bound, count) {
    const [top, type] = [BigInt(bound) - 1n, typeof bound === "bigint" ? BigInt : Number];
    demand(top >= 0n, "coins/bound");
    const drawn = Array(count).fill(type(0));
    const bits = top.toString(2).length;
    const size = (bits + 7) >> 3;
    for (let open = top ? [...drawn.keys()] : []; open.length; ) {
      const octets = this.bytes(size * open.length);
      open = open.filter((place, at) => {
        const number = fromBytes(octets.subarray(size * at, size * at + size)) >> BigInt(8 * size - bits);
        drawn[place] = type(number);
        return number > top;
      });
    }
    return drawn;
  }

  /** One of many outputs that come in runs [count, weight]; gives [run, rank in it]. */
  pick(runs) {
    const masses = runs.map(([count, weight]) => BigInt(count) * weight);
    demand(masses.every((mass) => mass >= 0n), "privacy/weights");
    let rest = this.below(masses.reduce((sum, mass) => sum + mass));
    const run = masses.findIndex((mass) => rest < mass || ((rest -= mass), false));
    return [run, Number(rest / runs[run][1])];
  }

  choose(weights) {
    return this.pick(weights.map((weight) => [1, weight]))[0];
  }

  chance(numerator, denominator) {
    demand(numerator >= 0 && numerator <= denominator, "privacy/weights");
    return this.below(denominator) < numerator;
  }

  /** Each compares a uniform number with the share, byte by byte, until they differ. */
  chances(numerator, denominator, count) {
    demand(numerator >= 0n && numerator <= denominator, "privacy/weights");
    const happened = Array(count).fill(false);
    let [open, rest] = [[...happened.keys()], numerator];
    do {
      const digit = Number((rest << 8n) / denominator);
      rest = (rest << 8n) % denominator;
      const octets = this.bytes(open.length);
      open = open.filter((place, at) => {
        happened[place] = octets[at] < digit;
        return rest && octets[at] === digit;
      });
    } while (open.length);
    return happened;
  }

  /** A uniform subset, sorted; of more than half those are drawn that stay out. */
  subset(size, bound) {
    const few = Math.min(size, bound - size);
    const members = new Set();
    while (members.size < few) this.belowEach(bound, few - members.size).forEach((one) => members.add(one));
    return [...Array(bound).keys()].filter((one) => members.has(one) === (few === size));
  }
}
