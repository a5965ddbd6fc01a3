/** TopSel: some of the public candidates suit a person's set, and one of those is answered e^ε times as readily. */
import { twoLevel } from "../channels.js";
import { symbol } from "../codecs.js";
import { fraction, ONE, subtract } from "../exact.js";
import { signs } from "../labels.js";
import { exactly, only, orNothing, read, whole, wrong } from "../options.js";
import { hashSymbol, publicIndex, publicWord } from "../words.js";

const WORDS = 2 ** 32;
const MASK = (1n << 64n) - 1n;

export function topsel({ schema, epsilon, options }) {
  const direct = options.mode === "direct";
  const law = (value, name) => (typeof value === "string" && value.length < 5000 ? value : wrong(`${name} is a law.`));
  const chosen = read(options, {
    mode: only("cover", "direct"),
    set_sizes: direct ? only(null) : law,
    padding: whole(0, direct ? 0 : schema.d),
    buckets: direct ? only(3) : whole(2, 1 << 24),
    marked: direct ? only(1) : whole(1, 1 << 24),
    hashing: direct ? only(null) : only("partition", "hash"),
    kappa: orNothing(exactly),
    cohorts: direct ? only(schema.d) : whole(0, 1 << 24),
    refine: direct ? only(false) : only(true, false),
  });
  const { buckets, marked, cohorts } = chosen;
  whole(1, buckets - 1)(marked, "marked");
  const channel = twoLevel(buckets, marked, epsilon);
  const hits = direct ? stateOf(schema.d) : covered(schema, chosen);
  const respond = (pairs, word, coins, fingerprint) => {
    const held = pairs.map(([key, value]) => 2 * key + signs.draw(value, coins, key));
    const cohort = () => Uint8Array.from({ length: 16 }, (_, at) => (publicIndex(word, cohorts) / 256 ** at) & 255);
    const seed = direct || !cohorts ? word : publicWord(cohort(), fingerprint.subarray(16));
    const hit = hits(held, seed);
    const taken = new Set(hit);
    const others = Array.from({ length: buckets }, (_, bucket) => bucket).filter((bucket) => !taken.has(bucket));
    const mine =
      hit.length > marked
        ? coins.subset(marked, hit.length).map((place) => hit[place])
        : [...hit, ...coins.subset(marked - hit.length, others.length).map((place) => others[place])];
    const [told, rank] = channel.draw(coins);
    if (told) return mine[rank];
    const marks = new Set(mine);
    return [...hit, ...others].filter((bucket) => !marks.has(bucket))[rank];
  };
  return { ratio: channel.ratio, codec: symbol(buckets), respond };
}

/** Direct mode: the state of one public key. */
const stateOf = (d) => (held, word) => {
  const key = publicIndex(word, d);
  const own = held.find((one) => one >> 1 === key);
  return [own === undefined ? 0 : 1 + (own % 2)];
};

/** Cover mode: the buckets of the held symbols, and of dummies where small sets are padded. */
function covered(schema, { padding, buckets, hashing, kappa }) {
  const symbols = 2 * schema.d;
  if ((hashing === "hash") !== (kappa !== null)) wrong("kappa belongs to a hash.");
  const bucket = kappa ? signHash(buckets, kappa) : partition(buckets, Math.ceil((symbols + padding) / buckets));
  const apart = kappa ? 2 : 1; // dummies that are hashed must not be two signs of a key
  return (held, seed) => {
    const filled = [...held];
    for (let dummy = 0; filled.length < padding; dummy++) filled.push(symbols + apart * dummy);
    return [...new Set(filled.map((one) => bucket(seed, one)))].sort((a, b) => a - b);
  };
}

/** A hash in which both signs of a key share a bucket with probability kappa. */
function signHash(buckets, kappa) {
  const [above, below] = subtract(ONE, kappa);
  if (kappa[0] < 0n || above <= 0n) wrong("kappa is from 0 to below 1.");
  const step = Math.min(Number((above * BigInt(WORDS)) / (below * BigInt(buckets - 1))), WORDS - 1);
  const shared = WORDS - (buckets - 1) * step;
  return (seed, one) => {
    const low = hashSymbol(seed, one - (one % 2), buckets);
    const beyond = one % 2 ? hashSymbol(seed, one, WORDS) - shared : -1;
    return beyond < 0 ? low : (low + 1 + Math.floor(beyond / step)) % buckets;
  };
}

/** A balanced partition: a seeded permutation of a grid of symbols, each bucket one stretch of it. */
function partition(buckets, each) {
  const symbols = buckets * each;
  if (each === 1) return (seed, one) => one;
  const rows = isqrt(symbols - 1) + 1;
  const columns = Math.ceil(symbols / rows);
  const rounds = 2 * Math.max(3, Math.ceil(20 / Math.log2(Math.max(2, Math.min(rows, columns)))));
  return (seed, one) => {
    const seeds = Array.from({ length: rounds }, (_, turn) => stirred((seed + BigInt(turn + 1)) * 0x9e3779b97f4a7c15n));
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

const isqrt = (number) => {
  const root = Math.floor(Math.sqrt(number));
  return root * root > number ? root - 1 : (root + 1) ** 2 <= number ? root + 1 : root;
};

/** The output of splitmix64 at a state. */
export function stirred(word) {
  let bits = word & MASK;
  bits = ((bits ^ (bits >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
  bits = ((bits ^ (bits >> 27n)) * 0x94d049bb133111ebn) & MASK;
  return bits ^ (bits >> 31n);
}
