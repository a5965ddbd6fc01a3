/** How payloads become bytes; every payload has exactly one encoding (docs/wire.md, "Payloads"). */
import { refuse } from "./errors.js";
import { add, compare, fraction, multiply, subtract } from "./exact.js";

/** @typedef {{longest: number, varies: boolean, encode: (payload: any) => Uint8Array}} Codec */

class Bits {
  constructor() {
    /** @type {number[]} */ this.octets = [];
    this.length = 0;
  }

  /** Add the lowest bits of a number, the first one lowest. */
  put(code, size) {
    for (let place = 0; place < size; place++, this.length++) {
      if (!(this.length & 7)) this.octets.push(0);
      if (Math.floor(code / 2 ** place) % 2) this.octets[this.length >> 3] |= 1 << (this.length & 7);
    }
  }

  ones(count) {
    for (; count > 0; count--) this.put(1, 1);
  }

  /** The Rice code of a number. */
  rice(number, shift) {
    this.ones(Math.floor(number / 2 ** shift));
    this.put(0, 1);
    this.put(number, shift);
  }

  bytes() {
    return Uint8Array.from(this.octets);
  }
}

/** One symbol out of so many. @returns {Codec} */
export function symbol(outputs) {
  const longest = Math.ceil(outputs > 1 ? (outputs - 1).toString(2).length / 8 : 0);
  const encode = (payload) => Uint8Array.from({ length: longest }, (_, at) => Math.floor(payload / 256 ** at) % 256);
  return { longest, varies: false, encode };
}

/** Keys that speak, each with a label: sorted symbols key · labels + label. */
export function labelledKeys(keys, labels, share) {
  let shift = 0;
  for (let silence = 1 - share; silence + silence * silence > 1 && 2 ** shift < keys; silence *= silence) shift++;
  const short = 31 - Math.clz32(labels);
  const spare = 2 ** (short + 1) - labels;
  const write = (payload, bits) => {
    let next = 0;
    for (const spoken of payload) {
      const [key, label] = [Math.floor(spoken / labels), spoken % labels];
      bits.rice(key - next, shift);
      if (label < spare) bits.put(label, short);
      else {
        bits.put((label + spare) >> 1, short);
        bits.put((label + spare) & 1, 1);
      }
      next = key + 1;
    }
    if (next < keys) bits.ones(Math.floor((keys - next - 1) / 2 ** shift) + 1);
  };
  const longest = Math.floor((keys * (1 + shift + short + (spare < labels ? 1 : 0)) + 8) / 8);
  return { longest, varies: true, write, encode: encoded(write) };
}

const encoded = (write) => (payload) => {
  const bits = new Bits();
  write(payload, bits);
  return bits.bytes();
};

/** How many are missing in unary, then the gaps in Rice code; with the average number of bits. */
function realMembers(symbols, size, dummies) {
  const everything = symbols + dummies;
  const stay = 1 - size / everything;
  const average = (shift) => {
    const step = stay ** (2 ** shift);
    return shift + step / (1 - step);
  };
  let shift = 0;
  for (let other = 1; other < 32; other++) if (average(other) < average(shift)) shift = other;
  let [tail, unary] = [1, 0];
  for (let low = 0; low < symbols; low++) {
    tail *= Math.max(0, 1 - size / (everything - low));
    if ((low + 1) % 2 ** shift === 0) unary += tail;
  }
  const absent = (size * dummies) / everything;
  const fewest = Math.max(0, size - dummies);
  let longest = 0;
  for (let members = fewest; members <= Math.min(size, symbols); members++) {
    const bits = 1 + size - members + members * (1 + shift) + Math.floor((symbols - members) / 2 ** shift);
    longest = Math.max(longest, (bits + 7) >> 3);
  }
  const encode = encoded((payload, bits) => {
    bits.ones(size - payload.length);
    bits.put(0, 1);
    let previous = -1;
    for (const member of payload) {
      bits.rice(member - previous - 1, shift);
      previous = member;
    }
  });
  return { longest, varies: true, encode, average: 1 + absent + (size - absent) * (1 + shift + unary) };
}

// Length and bits (the first one lowest) of the code of each pattern of three symbols, the first one lowest.
const TRIPLES = [[2, 0], [3, 2], [3, 6], [3, 5], [3, 1], [3, 3], [4, 7], [4, 15]];

/** Three symbols at a time, in a prefix code in which fewer members are shorter. */
function denseMembers(symbols, size, dummies) {
  const everything = symbols + dummies;
  const of = (width) => {
    let total = 0;
    for (let pattern = 0; pattern < 1 << width; pattern++) {
      let [chance, there, absent] = [1, size, everything - size];
      for (let place = 0; place < width; place++) {
        const held = (pattern >> place) & 1;
        chance *= (held ? there : absent) / (everything - place);
        [there, absent] = [there - held, absent - (1 - held)];
      }
      total += chance * TRIPLES[pattern][0];
    }
    return total;
  };
  const [whole, rest, triples] = [Math.floor(symbols / 3), symbols % 3, Math.ceil(symbols / 3)];
  const write = (payload, bits) => {
    const there = new Uint8Array(symbols + 2);
    for (const member of payload) there[member] = 1;
    for (let first = 0; first < symbols; first += 3) {
      const [length, code] = TRIPLES[there[first] | (there[first + 1] << 1) | (there[first + 2] << 2)];
      bits.put(code, length);
    }
  };
  const longest = (2 * triples + Math.min(size, 2 * triples) + 7) >> 3;
  const average = (whole ? whole * of(3) : 0) + (rest ? of(rest) : 0);
  return { longest, varies: true, write, encode: encoded(write), average };
}

/** Of the forms of a set whose size varies, the one that is shorter on average. @returns {Codec} */
export function members(symbols, size, dummies) {
  const [gaps, dense] = [realMembers(symbols, size, dummies), denseMembers(symbols, size, dummies)];
  return gaps.average <= dense.average ? gaps : dense;
}

/** Bits of which so many are ones on average, where the payload is a list of zeros and ones. @returns {Codec} */
export function noisyBits(length, ones) {
  const size = (length + 7) >> 3;
  const plain = encoded((payload, bits) => payload.forEach((bit) => bits.put(bit, 1)));
  const fixed = { longest: size, varies: false, encode: plain };
  if (length <= 8) return fixed;
  const share = fraction(ones[0], ones[1] * BigInt(length));
  const rare = compare(share, fraction(1, 3)) < 0;
  const room = subtract(fraction(8 * size), fraction(5));
  if (!rare && compare(byThrees(length, share), room) >= 0) return fixed;
  const places = rare ? labelledKeys(length, 1, Number(share[0]) / Number(share[1])) : denseMembers(length, length, length);
  const encode = (payload) => {
    const bits = new Bits();
    bits.put(0, 1);
    places.write(payload.flatMap((bit, place) => (bit ? [place] : [])), bits);
    return bits.length > length ? plain([1, ...payload]) : bits.bytes();
  };
  return { longest: Math.floor(length / 8) + 1, varies: true, encode };
}

/** Bits that patterns of three take on average; exact, because a choice of form rests on it. */
function byThrees(length, share) {
  const average = (width) => {
    let total = fraction(0);
    for (let pattern = 0; pattern < 1 << width; pattern++) {
      let term = fraction(TRIPLES[pattern][0]);
      for (let place = 0; place < width; place++)
        term = multiply(term, (pattern >> place) & 1 ? share : subtract(fraction(1), share));
      total = add(total, term);
    }
    return total;
  };
  return add(multiply(fraction(Math.floor(length / 3)), average(3)), length % 3 ? average(length % 3) : fraction(0));
}

/** A payload at the fixed size of its round; an end mark tells where it stops if sizes vary. */
export function pad(payload, size, varies) {
  const length = payload.length + (varies ? 1 : 0);
  if (length > size) refuse("report/size", `A payload of ${payload.length} bytes does not fit into ${size}.`);
  const padded = new Uint8Array(size);
  padded.set(payload);
  if (varies) padded[payload.length] = 0x80;
  return padded;
}

/** The bytes of a codec in a round's fixed size. @param {Codec} codec */
export const reportBytes = (codec) => codec.longest + (codec.varies ? 1 : 0);
