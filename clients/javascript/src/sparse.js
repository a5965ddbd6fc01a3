/** Codecs of a few keys among many, and of bits of which few are ones (docs/wire.md, "Payloads"). */
import { denseMembers, low, ones, rice, TRIPLES, varying } from "./mechanisms.js";

export function labelledKeys(keys, labels, share) {
  let shift = 0;
  for (let silence = 1 - share; silence + silence * silence > 1 && 2 ** shift < keys; silence *= silence) shift++;
  const short = 31 - Math.clz32(labels);
  const spare = 2 ** (short + 1) - labels;
  const labelled = (label) => (label < spare ? low(label, short) : [...low((label + spare) >> 1, short), (label + spare) & 1]);
  const bits = (payload) => {
    let next = 0;
    const said = payload.flatMap((spoken) => {
      const [key, gap] = [Math.floor(spoken / labels), Math.floor(spoken / labels) - next];
      next = key + 1;
      return [...rice(gap, shift), ...labelled(spoken % labels)];
    });
    return next < keys ? [...said, ...ones(((keys - next - 1) >> shift) + 1)] : said;
  };
  return varying(keys * (1 + shift + short + Number(spare < labels)) + 1, bits);
}

export function noisyBits(length, [above, below]) {
  const bytes = (length + 7) >> 3;
  const [part, whole] = [above, below * BigInt(length)];
  const rare = 3n * part < whole;
  const triple = (width) => byThrees(width, part, whole);
  const average = BigInt(Math.floor(length / 3)) * triple(3) + (length % 3 ? triple(length % 3) : 0n);
  if (length <= 8 || (!rare && average >= BigInt(8 * bytes - 5) * whole ** 3n)) return { size: bytes, varies: false, bits: (payload) => payload };
  const places = rare ? labelledKeys(length, 1, Number(part) / Number(whole)) : denseMembers(length, length, length);
  const bits = (payload) => {
    const short = [0, ...places.bits(payload.flatMap((bit, place) => (bit ? [place] : [])))];
    return short.length > length ? [1, ...payload] : short;
  };
  return varying(length + 1, bits);
}

/** Mean bits times whole³; exact, because a choice of form rests on it. */
function byThrees(width, part, whole) {
  let total = 0n;
  for (let pattern = 0; pattern < 1 << width; pattern++) {
    let term = BigInt(TRIPLES[pattern].length) * whole ** BigInt(3 - width);
    for (let place = 0; place < width; place++) term *= (pattern >> place) & 1 ? part : whole - part;
    total += term;
  }
  return total;
}
