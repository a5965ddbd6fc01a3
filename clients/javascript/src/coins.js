/** Uniform whole numbers from the bytes of Web Crypto, by rejection (docs/wire.md, "Draws"). */
import { demand, fromBytes } from "./wire.js";

const LARGEST = 1 << 16; // bytes that Web Crypto gives at once

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
    const [drawn] = this.belowEach(bound, 1);
    return typeof bound === "bigint" ? drawn : Number(drawn);
  }

  /** All are read, and those that were too large again. */
  belowEach(bound, count) {
    const top = BigInt(bound) - 1n;
    demand(top >= 0n, "coins/bound");
    const drawn = Array(count).fill(0n);
    const bits = top.toString(2).length;
    const size = (bits + 7) >> 3;
    for (let open = top ? [...drawn.keys()] : []; open.length; ) {
      const octets = this.bytes(size * open.length);
      open = open.filter((place, at) => {
        drawn[place] = fromBytes(octets.subarray(size * at, size * at + size)) >> BigInt(8 * size - bits);
        return drawn[place] > top;
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
    return this.below(denominator) < numerator;
  }

  /** Some of a list, in its order; of more than half those are drawn that stay out. */
  subset(size, list) {
    const few = Math.min(size, list.length - size);
    const drawn = new Set();
    while (drawn.size < few) this.belowEach(list.length, few - drawn.size).forEach((place) => drawn.add(Number(place)));
    return list.filter((_, place) => drawn.has(place) === (few === size));
  }
}
