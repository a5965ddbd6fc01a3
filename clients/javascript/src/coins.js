/** Uniform whole numbers from the bytes of Web Crypto, by rejection (docs/wire.md, "Draws"). */
import { fromBytes, must } from "./wire.js";

const MOST = 1 << 16; // bytes that Web Crypto gives at once

function random(count) {
  const bytes = new Uint8Array(count);
  for (let at = 0; at < count; at += MOST) crypto.getRandomValues(bytes.subarray(at, at + MOST));
  return bytes;
}

export class Coins {
  constructor(bytes = random) {
    this.bytes = bytes;
  }

  below(bound) {
    const [drawn] = this.belowEach(bound, 1);
    return typeof bound === "bigint" ? drawn : Number(drawn);
  }

  /** All are read, and those that were too large again. */
  belowEach(bound, count) {
    const most = BigInt(bound) - 1n;
    must(most >= 0n, "coins/bound");
    const found = Array(count).fill(0n);
    const bits = most.toString(2).length;
    const size = (bits + 7) >> 3;
    for (let open = most ? [...found.keys()] : []; open.length; ) {
      const bytes = this.bytes(size * open.length);
      open = open.filter((place, at) => {
        found[place] = fromBytes(bytes.subarray(size * at, size * at + size)) >> BigInt(8 * size - bits);
        return found[place] > most;
      });
    }
    return found;
  }

  /** One of many outputs that come in runs [count, weight]; gives [run, rank in it]. */
  pick(runs) {
    const list = runs.map(([count, weight]) => BigInt(count) * weight);
    must(list.every((one) => one >= 0n), "privacy/weights");
    let rest = this.below(list.reduce((sum, one) => sum + one));
    const run = list.findIndex((one) => rest < one || ((rest -= one), false));
    return [run, Number(rest / runs[run][1])];
  }

  choose(weights) {
    return this.pick(weights.map((weight) => [1, weight]))[0];
  }

  chance(part, of) {
    return this.below(of) < part;
  }

  /** Of more than half of a list those are drawn that stay out. */
  subset(size, list) {
    const few = Math.min(size, list.length - size);
    const drawn = new Set();
    while (drawn.size < few) this.belowEach(list.length, few - drawn.size).forEach((place) => drawn.add(Number(place)));
    return list.filter((_, place) => drawn.has(place) === (few === size));
  }
}
