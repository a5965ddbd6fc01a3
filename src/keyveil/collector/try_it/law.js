/** The exact law of a report: the client's own program, run once for every way in which its coins can fall. */
import { Coins } from "./client/src/coins.js";
import { hex } from "./client/src/wire.js";

const MOST = 64; // outcomes of one uniform draw; a larger one would not be meant to be enumerated

/** Coins that fall in every way, one after the other; `odds` is the probability of the present one. */
class PathCoins extends Coins {
  constructor() {
    super(() => {
      throw new Error("A program that reads bytes cannot be enumerated.");
    });
    this.path = [];
    this._restart();
  }

  _restart() {
    [this.at, this.odds] = [0, 1];
  }

  /** Go to the next way; false if there is none. */
  next() {
    while (this.path.length && this.path.at(-1).chosen + 1 === this.path.at(-1).count) this.path.pop();
    if (this.path.length) this.path.at(-1).chosen++;
    this._restart();
    return this.path.length > 0;
  }

  /** One of some answers [answer, probability]. */
  _one(all) {
    const possible = all.filter(([, chance]) => chance > 0);
    if (this.at === this.path.length) this.path.push({ chosen: 0, count: possible.length });
    const [answer, chance] = possible[this.path[this.at++].chosen];
    this.odds *= chance;
    return answer;
  }

  pick(runs) {
    const total = runs.reduce((sum, [count, weight]) => sum + count * Number(weight), 0);
    const ranks = ([count, weight], run) => Array.from({ length: count }, (_, rank) => [[run, rank], Number(weight) / total]);
    return this._one(runs.flatMap(ranks));
  }
  choose(weights) {
    return this.pick(weights.map((weight) => [1, weight]))[0];
  }
  chance(numerator, denominator) {
    const share = Number(numerator) / Number(denominator);
    return this._one([[true, share], [false, 1 - share]]);
  }
  below(bound) {
    if (bound > MOST) throw new Error(`A draw below ${bound} cannot be enumerated.`);
    const one = typeof bound === "bigint" ? BigInt : Number;
    return this._one(Array.from({ length: Number(bound) }, (_, number) => [one(number), 1 / Number(bound)]));
  }
  belowEach(bound, count) {
    return Array.from({ length: count }, () => this.below(bound));
  }
  subset(size, list) {
    const sets = Array.from({ length: 2 ** list.length }, (_, bits) => list.filter((_, place) => (bits >> place) & 1));
    const right = sets.filter((set) => set.length === size);
    return this._one(right.map((set) => [set, 1 / right.length]));
  }
}

/** What can be sent for some pairs at an id: from the bytes in hexadecimal to {payload, probability}. */
export function law(mechanism, pairs, id) {
  const found = new Map();
  const coins = new PathCoins();
  do {
    const payload = mechanism.respond(pairs, id, coins);
    const bytes = hex(mechanism.encode(payload, id));
    found.set(bytes, { payload, probability: (found.get(bytes)?.probability ?? 0) + coins.odds });
  } while (coins.next());
  return found;
}
