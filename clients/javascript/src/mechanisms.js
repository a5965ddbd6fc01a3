/** What mechanisms are made of, draw from and write with (docs/wire.md). */
import { demand, expFloor, hex, isWhole, levels, parse, printed, publicWord, text } from "./wire.js";

/** A program gives {ratio, codec, respond}; one of several mechanisms has its fingerprint and encoding, too. */
export async function build(asked, table) {
  const { name, schema, options, epsilon } = asked;
  demand(Object.hasOwn(table, name), "mechanism/unknown");
  const made = await table[name]({ ...asked, table });
  const [above, below] = made.ratio;
  demand(above << 256n <= expFloor(epsilon, 256n) * below, "privacy/exceeded");
  if (made.fingerprint) return { ...made, name };
  const { estimator, ...told } = options; // how its tallies are read has no part in a fingerprint
  const fingerprint = await printed({ mechanism: name, epsilon: text(epsilon), options: told, schema: schema.hash });
  const respond = (pairs, id, coins) => made.respond(pairs, publicWord(id, fingerprint), coins, fingerprint);
  const encode = (payload, id, size = made.codec.size) => packed(made.codec.bits(payload), size, made.codec.varies);
  return { ...made, name, fingerprint, respond, encode };
}

/** The only place where randomness is drawn for a record. */
export const drawn = ({ encode, respond }, pairs, id, coins) => hex(encode(respond(pairs, id, coins), id));

export function readEpsilon(given) {
  demand(typeof given === "string" && /^\d+(\.\d+)?$/.test(given) && Number(given), "epsilon/invalid");
  const epsilon = parse(given);
  demand(epsilon <= parse("32"), "epsilon/too-large");
  demand(epsilon >= parse("0.001"), "epsilon/too-small");
  return epsilon;
}

export const rule = (holds) => demand(holds, "mechanism/option");

export function read(given, takes) {
  rule(Object.keys(given).every((name) => Object.hasOwn(takes, name)));
  return Object.fromEntries(Object.entries(takes).map(([name, take]) => [name, take(given[name])]));
}

const reader = (fits) => (value) => (rule(fits(value)), value);
export const whole = (low, high) => reader(isWhole(low, high));
export const only = (...known) => reader((value) => known.includes(value));

/** The true state weighs e^ε times as much as each other one. */
export function trueState(states, epsilon) {
  const [high, low] = levels(epsilon);
  const draw = (state, coins) => coins.choose(upTo(states).map((one) => (one === state ? high : low)));
  return { ratio: [high, low], draw };
}

export const upTo = (count) => [...Array(count).keys()];

export function without(list, some) {
  const taken = new Set(some);
  return list.filter((one) => !taken.has(one));
}

/** By halves, so that long numbers are multiplied seldom. */
function product(first, last) {
  if (first >= last) return first > last ? 1n : BigInt(first);
  const middle = (first + last) >> 1;
  return product(first, middle) * product(middle + 1, last);
}

const ways = (n, k) => product(n - k + 1, n) / product(1, k);

/** All subsets of one size: weight e^ε if one meets what a person holds, else 1. */
export function subset(symbols, size, held, epsilon) {
  const [high, low] = levels(epsilon);
  const [others, counts] = [symbols - held, upTo(Math.min(held, size) + 1)];
  const work = counts.reduce((sum, hit) => sum + Math.min(size - hit, others - size + hit) ** 2, 0);
  demand(work <= 2 ** 32, "device/limits"); // of long numbers: about a second
  const hits = counts.map((hit) => (hit ? high : low) * ways(held, hit) * ways(others, size - hit));
  const draw = (mine, coins) => {
    const hit = coins.choose(hits);
    return [...coins.subset(hit, mine), ...coins.subset(size - hit, without(upTo(symbols), mine))].sort((a, b) => a - b);
  };
  return { ratio: hits[0] ? [high, low] : [1n, 1n], draw };
}

export const capped = (pairs, cap, coins) => (pairs.length <= cap ? pairs : coins.subset(cap, pairs));

export const heldSymbols = (pairs, cap, labels, coins) => capped(pairs, cap, coins).map(([key, value]) => labels.count * key + labels.draw(value, coins, key));

// -- codecs: the size of a padded payload, whether lengths vary, and the bits of a payload, the lowest first

/** Padded bytes; where lengths vary an end mark tells where a payload stops. */
export function packed(bits, size, varies) {
  const bytes = new Uint8Array(size);
  bits.forEach((bit, at) => (bytes[at >> 3] |= bit << (at & 7)));
  if (varies) bytes[(bits.length + 7) >> 3] = 0x80;
  return bytes;
}

export const ones = (count) => Array(count).fill(1);
export const low = (number, size) => upTo(size).map((place) => (number >> place) & 1);
export const rice = (number, shift) => [...ones(number >> shift), 0, ...low(number, shift)];

export function symbol(outputs) {
  const size = outputs > 1 ? ((outputs - 1).toString(2).length + 7) >> 3 : 0;
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
  let shift = 0;
  for (let other = 1; other < 32; other++) if (cost(other) < cost(shift)) shift = other;
  let [tail, unary] = [1, 0];
  for (let place = 0; place < symbols; place++) {
    tail *= Math.max(0, 1 - size / (everything - place));
    if ((place + 1) % 2 ** shift === 0) unary += tail;
  }
  const most = shift ? Math.min(size, symbols) : Math.max(0, size - dummies);
  const bits = (payload) => [...ones(size - payload.length), 0, ...payload.flatMap((member, at) => rice(member - (at ? payload[at - 1] + 1 : 0), shift))];
  const absent = (size * dummies) / everything;
  return varying(1 + size + most * shift + ((symbols - most) >> shift), bits, 1 + absent + (size - absent) * (1 + shift + unary));
}

/** Of patterns of three symbols: fewer members have shorter codes. */
export const TRIPLES = ["00", "010", "011", "101", "100", "110", "1110", "1111"];

export function denseMembers(symbols, size, dummies) {
  const everything = symbols + dummies;
  const mean = (width) => {
    let total = 0;
    for (let pattern = 0; pattern < 1 << width; pattern++) {
      let [chance, there, absent] = [1, size, everything - size];
      for (let place = 0; place < width; place++) chance *= ((pattern >> place) & 1 ? there-- : absent--) / (everything - place);
      total += chance * TRIPLES[pattern].length;
    }
    return total;
  };
  const triples = Math.ceil(symbols / 3);
  const bits = (payload) => {
    const patterns = Array(triples).fill(0);
    for (const member of payload) patterns[Math.floor(member / 3)] |= 1 << (member % 3);
    return patterns.flatMap((pattern) => [...TRIPLES[pattern]].map(Number));
  };
  const average = (symbols > 2 && Math.floor(symbols / 3) * mean(3)) + (symbols % 3 && mean(symbols % 3));
  return varying(2 * triples + Math.min(size, 2 * triples), bits, average);
}

export function members(...given) {
  const [gaps, dense] = [realMembers(...given), denseMembers(...given)];
  return gaps.average <= dense.average ? gaps : dense;
}
