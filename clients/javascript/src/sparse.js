/** Codecs of a few keys among many, and of bits of which few are ones (docs/wire.md, "Payloads"). */
import { denseMembers, low, ones, rice, varying } from "./mechanisms.js";

export function labelledKeys(keys, labels, share) {
  let shift = 0;
  for (let none = 1 - share; none + none * none > 1 && 2 ** shift < keys; none *= none) shift++;
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
  const average = BigInt(Math.floor(length / 3)) * mean(3n, part, whole) + (length % 3 ? mean(BigInt(length % 3), part, whole) : 0n);
  if (length <= 8 || (!rare && average >= BigInt(8 * bytes - 5) * whole ** 3n)) return { size: bytes, varies: false, bits: (payload) => payload };
  const places = rare ? labelledKeys(length, 1, Number(part) / Number(whole)) : denseMembers(length, length, length);
  const bits = (payload) => {
    const short = [0, ...places.bits(payload.flatMap((bit, place) => (bit ? [place] : [])))];
    return short.length > length ? [1, ...payload] : short;
  };
  return varying(length + 1, bits);
}

/** Of the dense code, times whole³. */
const mean = (size, part, whole) => 3n * whole ** 3n - (whole - part) ** size * whole ** (3n - size) + (size === 3n ? part * part * whole : 0n);
