/** What mechanisms are made of, draw from and write with (docs/wire.md). */
import { exp, hex, isWhole, levels, must, parse, print, text, wordOf } from "./wire.js";

/** A program gives {ratio, codec, respond}; mechanisms side by side have their fingerprint and encoding, too. */
export async function build(asked, table) {
  const { schema, epsilon, options, name } = asked;
  must(Object.hasOwn(table, name), "mechanism/unknown");
  const made = await table[name]({ ...asked, table });
  const [above, below] = made.ratio;
  must(above << 256n <= exp(epsilon, 256n) * below, "privacy/exceeded");
  if (made.fingerprint) return { ...made, name };
  const { estimator, ...told } = options; // how its tallies are read has no part in a fingerprint
  const fingerprint = await print({ mechanism: name, epsilon: text(epsilon), options: told, schema: schema.hash });
  const respond = (pairs, id, coins) => made.respond(pairs, wordOf(id, fingerprint), coins, fingerprint);
  const encode = (payload, id, size = made.codec.size) => packed(made.codec.bits(payload), size, made.codec.varies);
  return { ...made, name, fingerprint, respond, encode };
}

/** The only place where randomness is drawn for a record. */
export const drawn = (made, pairs, id, coins) => hex(made.encode(made.respond(pairs, id, coins), id));

export function readEpsilon(given) {
  must(/^\d+(\.\d+)?$/.test(given) && Number(given), "epsilon/invalid");
  const epsilon = parse(given);
  must(epsilon <= parse("32"), "epsilon/too-large");
  must(epsilon >= parse("0.001"), "epsilon/too-small");
  return epsilon;
}

export const rule = (holds) => must(holds, "mechanism/option");

export function read(given, takes) {
  rule(Object.keys(given).every((name) => Object.hasOwn(takes, name)));
  return Object.fromEntries(Object.entries(takes).map(([name, take]) => [name, take(given[name])]));
}

const reader = (fits) => (value) => (rule(fits(value)), value);
export const whole = (low, high) => reader(isWhole(low, high));
export const only = (...known) => reader((value) => known.includes(value));

export function trueState(states, epsilon) {
  const [high, low] = levels(epsilon);
  const draw = (state, coins) => coins.choose(upTo(states).map((one) => (one === state ? high : low)));
  return { ratio: [high, low], draw };
}

export const upTo = (count) => [...Array(count).keys()];

/** By halves, so that long numbers are multiplied seldom. */
function times(first, last) {
  if (first >= last) return first > last ? 1n : BigInt(first);
  const middle = (first + last) >> 1;
  return times(first, middle) * times(middle + 1, last);
}

const ways = (n, k) => times(n - k + 1, n) / times(1, k);

/** All subsets of one size: weight e^ε if one meets what a person holds, else 1. */
export function subset(symbols, size, held, epsilon) {
  const [high, low] = levels(epsilon);
  const rest = symbols - held;
  const takes = upTo(Math.min(held, size) + 1);
  const work = takes.map((hit) => Math.min(size - hit, rest - size + hit) ** 2).reduce((sum, one) => sum + one);
  must(work <= 2 ** 32, "device/limits"); // about a second
  const hits = takes.map((hit) => (hit ? high : low) * ways(held, hit) * ways(rest, size - hit));
  const draw = (mine, coins) => {
    const hit = coins.choose(hits);
    return [...coins.subset(hit, mine), ...coins.subset(size - hit, upTo(symbols).filter((one) => !mine.includes(one)))].sort((a, b) => a - b);
  };
  return { ratio: [hits[0] ? high : low, low], draw };
}

export const capped = (pairs, cap, coins) => coins.subset(Math.min(cap, pairs.length), pairs);

export const symbolsOf = (pairs, cap, labels, coins) => capped(pairs, cap, coins).map(([key, value]) => labels.count * key + labels.draw(value, coins, key));

// -- codecs: the size of a padded payload, whether lengths vary, and the bits of a payload, the lowest first

export function packed(bits, size, varies) {
  const bytes = new Uint8Array(size);
  bits.forEach((bit, at) => (bytes[at >> 3] |= bit << (at & 7)));
  if (varies) bytes[(bits.length + 7) >> 3] = 0x80;
  return bytes;
}

export const ones = (count) => Array(count).fill(1);
export const low = (number, size) => upTo(size).map((place) => (number >> place) & 1);
export const rice = (number, shift) => [...ones(number >> shift), 0, ...low(number, shift)];

export function symbol(count) {
  const size = count > 1 ? ((count - 1).toString(2).length + 7) >> 3 : 0;
  return { size, varies: false, bits: (payload) => low(payload, 8 * size) };
}

export const varying = (longest, bits, average) => ({ size: ((longest + 7) >> 3) + 1, varies: true, bits, average });

/** Sets of symbols: how many are missing in unary, then the gaps in Rice code. */
function realMembers(symbols, size, dummies) {
  const everything = symbols + dummies;
  const cost = (shift) => {
    const step = (1 - size / everything) ** (2 ** shift);
    return shift + step / (1 - step);
  };
  const shift = upTo(32).reduce((best, other) => (cost(other) < cost(best) ? other : best));
  let [chance, sum] = [1, 0];
  for (let at = 0; at < symbols; at++) {
    chance *= Math.max(0, 1 - size / (everything - at));
    if (!((at + 1) % 2 ** shift)) sum += chance;
  }
  const most = shift ? Math.min(size, symbols) : Math.max(0, size - dummies);
  const bits = (payload) => [...ones(size - payload.length), 0, ...payload.flatMap((one, at) => rice(one - (at ? payload[at - 1] + 1 : 0), shift))];
  const absent = (size * dummies) / everything;
  return varying(1 + size + most * shift + ((symbols - most) >> shift), bits, 1 + absent + (size - absent) * (1 + shift + sum));
}

/** Of patterns of three symbols: fewer members have shorter codes. */
export const TRIPLES = ["00", "010", "011", "101", "100", "110", "1110", "1111"];

export function denseMembers(symbols, size, dummies) {
  const everything = symbols + dummies;
  const mean = (count) => {
    let sum = 0;
    for (let pattern = 0; pattern < 1 << count; pattern++) {
      let [chance, there, rest] = [1, size, everything - size];
      for (let at = 0; at < count; at++) chance *= ((pattern >> at) & 1 ? there-- : rest--) / (everything - at);
      sum += chance * TRIPLES[pattern].length;
    }
    return sum;
  };
  const triples = Math.ceil(symbols / 3);
  const bits = (payload) => {
    const list = new Uint8Array(triples);
    for (const one of payload) list[Math.floor(one / 3)] |= 1 << (one % 3);
    return [...list].flatMap((pattern) => [...TRIPLES[pattern]].map(Number));
  };
  const average = (symbols > 2 && Math.floor(symbols / 3) * mean(3)) + (symbols % 3 && mean(symbols % 3));
  return varying(2 * triples + Math.min(size, 2 * triples), bits, average);
}

export function members(...given) {
  const [gaps, dense] = [realMembers(...given), denseMembers(...given)];
  return gaps.average <= dense.average ? gaps : dense;
}
