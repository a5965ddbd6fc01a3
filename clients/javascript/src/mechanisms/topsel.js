/** TopSel: of public candidates those that suit a person's set are answered e^ε times as readily. */
import { low, only, packed, read, rule, upTo, whole } from "../mechanisms.js";
import { exact, hashSymbol, minus, ONE, stirred, STRIDE, twoLevel } from "../numbers.js";
import { signs } from "../schema.js";
import { index, wordOf } from "../wire.js";

const WORDS = 2 ** 32;

export function topsel({ schema, epsilon, options }) {
  const direct = options.mode === "direct";
  const law = (value) => rule(typeof value === "string" && /^[\d.,:/]+$/.test(value));
  const chosen = read(options, {
    mode: only("cover", "direct"),
    set_sizes: direct ? only(null) : law,
    padding: whole(0, direct ? 0 : schema.d),
    buckets: direct ? only(3) : whole(2, 2 * schema.d + options.padding),
    marked: direct ? only(1) : whole(1, options.buckets - 1),
    hashing: direct ? only(null) : only("partition", "hash"),
    kappa: options.hashing === "hash" ? exact : only(null),
    cohorts: direct ? only(schema.d) : whole(0, 1 << 24),
    refine: direct ? only(false) : only(true, false),
  });
  const { buckets, marked, cohorts } = chosen;
  const channel = twoLevel(buckets, marked, epsilon);
  const hits = direct ? stateOf(schema.d) : covered(schema, chosen);
  const respond = (pairs, word, coins, fingerprint) => {
    const held = pairs.map(([key, value]) => 2 * key + signs.draw(value, coins, key));
    const cohort = () => packed(low(index(word, cohorts), 32), 16);
    const hit = hits(held, direct || !cohorts ? word : wordOf(cohort(), fingerprint.subarray(16)));
    const others = without(upTo(buckets), hit);
    const more = marked - hit.length;
    const mine = more < 0 ? coins.subset(marked, hit) : [...hit, ...coins.subset(more, others)];
    const [told, rank] = channel.draw(coins);
    return told ? mine[rank] : without([...hit, ...others], mine)[rank];
  };
  return { ...channel, respond };
}

function without(list, some) {
  const taken = new Set(some);
  return list.filter((one) => !taken.has(one));
}

const stateOf = (d) => (held, word) => {
  const mine = held.find((one) => one >> 1 === index(word, d));
  return [mine === undefined ? 0 : 1 + (mine % 2)];
};

function covered(schema, { padding, buckets, kappa }) {
  const symbols = 2 * schema.d;
  const bucket = kappa ? hashed(buckets, kappa) : grid(buckets, Math.ceil((symbols + padding) / buckets));
  const apart = kappa ? 2 : 1; // dummies that are hashed must not be two signs of a key
  return (held, seed) => {
    const list = [...held];
    for (let dummy = 0; list.length < padding; dummy++) list.push(symbols + apart * dummy);
    return [...new Set(list.map((one) => bucket(seed, one)))].sort((a, b) => a - b);
  };
}

function hashed(buckets, kappa) {
  const [above, below] = minus(ONE, kappa);
  rule(kappa[0] >= 0n && above > 0n);
  const step = Math.min(Number((above * BigInt(WORDS)) / (below * BigInt(buckets - 1))), WORDS - 1);
  const shared = WORDS - (buckets - 1) * step;
  return (seed, one) => {
    const low = hashSymbol(seed, one - (one % 2), buckets);
    const beyond = one % 2 ? hashSymbol(seed, one, WORDS) - shared : -1;
    return beyond < 0 ? low : (low + 1 + Math.floor(beyond / step)) % buckets;
  };
}

/** A seeded permutation of a grid of symbols; each bucket is one stretch of it. */
function grid(buckets, each) {
  const symbols = buckets * each;
  if (each === 1) return (seed, one) => one;
  const rows = Math.floor(Math.sqrt(symbols - 1)) + 1;
  const columns = Math.ceil(symbols / rows);
  const rounds = 2 * Math.max(3, Math.ceil(20 / Math.log2(Math.max(2, Math.min(rows, columns)))));
  return (seed, one) => {
    const seeds = upTo(rounds).map((turn) => stirred((seed + BigInt(turn + 1)) * STRIDE));
    do {
      let [row, column] = [Math.floor(one / columns), one % columns];
      seeds.forEach((own, turn) => {
        if (turn % 2) column = (column + hashSymbol(own, row, columns)) % columns;
        else row = (row + hashSymbol(own, column, rows)) % rows;
      });
      one = row * columns + column;
    } while (one >= symbols);
    return Math.floor(one / each);
  };
}
