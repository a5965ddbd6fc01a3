/**
 * How payloads become bytes; every payload has exactly one encoding (docs/wire.md, "Payloads"). A codec has the
 * `longest` payload in bytes, whether lengths vary (`varies`), and `encode`. Bits are lists, the first one lowest.
 */
import { demand } from "./errors.js";

export const ones = (count) => Array(count).fill(1);

export const low = (number, size) => Array.from({ length: size }, (_, place) => (number >> place) & 1);

export const rice = (number, shift) => [...ones(number >> shift), 0, ...low(number, shift)];

export function packed(bits) {
  const bytes = new Uint8Array((bits.length + 7) >> 3);
  bits.forEach((bit, at) => (bytes[at >> 3] |= bit << (at & 7)));
  return bytes;
}

export function symbol(outputs) {
  const longest = outputs > 1 ? ((outputs - 1).toString(2).length + 7) >> 3 : 0;
  return { longest, varies: false, encode: (payload) => packed(low(payload, 8 * longest)) };
}

/** How many are missing in unary, then the gaps in Rice code. */
function realMembers(symbols, size, dummies) {
  const everything = symbols + dummies;
  const cost = (shift) => {
    const step = (1 - size / everything) ** (2 ** shift);
    return shift + step / (1 - step);
  };
  let shift = 0;
  for (let other = 1; other < 32; other++) if (cost(other) < cost(shift)) shift = other;
  let [tail, unary, longest] = [1, 0, 0];
  for (let low = 0; low < symbols; low++) {
    tail *= Math.max(0, 1 - size / (everything - low));
    if ((low + 1) % 2 ** shift === 0) unary += tail;
  }
  for (let members = Math.max(0, size - dummies); members <= Math.min(size, symbols); members++) {
    const bits = 1 + size - members + members * (1 + shift) + ((symbols - members) >> shift);
    longest = Math.max(longest, (bits + 7) >> 3);
  }
  const gaps = (payload) => payload.flatMap((member, at) => rice(member - (at ? payload[at - 1] + 1 : 0), shift));
  const encode = (payload) => packed([...ones(size - payload.length), 0, ...gaps(payload)]);
  const absent = (size * dummies) / everything;
  return { longest, varies: true, encode, average: 1 + absent + (size - absent) * (1 + shift + unary) };
}

/** Of patterns in which the first symbol is lowest. */
export const TRIPLES = ["00", "010", "011", "101", "100", "110", "1110", "1111"];

/** Three symbols at a time, fewer members in shorter codes. */
export function denseMembers(symbols, size, dummies) {
  const everything = symbols + dummies;
  const mean = (width) => {
    let total = 0;
    for (let pattern = 0; pattern < 1 << width; pattern++) {
      let [chance, there, absent] = [1, size, everything - size];
      for (let place = 0; place < width; place++)
        chance *= ((pattern >> place) & 1 ? there-- : absent--) / (everything - place);
      total += chance * TRIPLES[pattern].length;
    }
    return total;
  };
  const [whole, rest, triples] = [Math.floor(symbols / 3), symbols % 3, Math.ceil(symbols / 3)];
  const write = (payload) => {
    const patterns = Array(triples).fill(0);
    for (const member of payload) patterns[Math.floor(member / 3)] |= 1 << (member % 3);
    return patterns.flatMap((pattern) => [...TRIPLES[pattern]].map(Number));
  };
  const longest = (2 * triples + Math.min(size, 2 * triples) + 7) >> 3;
  const average = (whole && whole * mean(3)) + (rest && mean(rest));
  return { longest, varies: true, write, encode: (payload) => packed(write(payload)), average };
}

/** The form that is shorter on average. */
export function members(symbols, size, dummies) {
  const [gaps, dense] = [realMembers(symbols, size, dummies), denseMembers(symbols, size, dummies)];
  return gaps.average <= dense.average ? gaps : dense;
}

export const reportBytes = ({ longest, varies }) => longest + Number(varies);

/** Where sizes vary, an end mark tells where a payload stops. */
export function pad(payload, size, varies) {
  const marked = varies ? [...payload, 0x80] : payload;
  demand(marked.length <= size, "report/size");
  const padded = new Uint8Array(size);
  padded.set(marked);
  return padded;
}
