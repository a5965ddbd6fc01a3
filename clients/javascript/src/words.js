/** What follows from a report's id: SipHash-2-4 of it, indices, parts of the people, and seeded hashes of symbols. */
import { sha256, utf8 } from "./canonical.js";
import { ceilDivide } from "./exact.js";

const MASK = (1n << 64n) - 1n;
const turn = (word, places) => ((word << places) | (word >> (64n - places))) & MASK;

/** A whole number from bytes, the lowest first. @param {Uint8Array} bytes */
export const fromBytes = (bytes) => bytes.reduceRight((number, byte) => (number << 8n) | BigInt(byte), 0n);

/** The 64-bit SipHash-2-4 of a report's id under a key of sixteen bytes. @returns {bigint} */
export function publicWord(id, key) {
  const [low, high] = [fromBytes(key.subarray(0, 8)), fromBytes(key.subarray(8, 16))];
  let a = low ^ 0x736f6d6570736575n;
  let b = high ^ 0x646f72616e646f6dn;
  let c = low ^ 0x6c7967656e657261n;
  let d = high ^ 0x7465646279746573n;
  const rounds = (count) => {
    for (; count; count--) {
      [a, c] = [(a + b) & MASK, (c + d) & MASK];
      [b, d] = [turn(b, 13n) ^ a, turn(d, 16n) ^ c];
      a = turn(a, 32n);
      [a, c] = [(a + d) & MASK, (c + b) & MASK];
      [d, b] = [turn(d, 21n) ^ a, turn(b, 17n) ^ c];
      c = turn(c, 32n);
    }
  };
  for (const word of [fromBytes(id.subarray(0, 8)), fromBytes(id.subarray(8, 16)), 16n << 56n]) {
    d ^= word;
    rounds(2);
    a ^= word;
  }
  c ^= 0xffn;
  rounds(4);
  return a ^ b ^ c ^ d;
}

/** The index below a bound that a word stands for. @param {bigint} word @param {number} bound */
export const publicIndex = (word, bound) => Number(((word >> 32n) * BigInt(bound)) >> 32n);

/** The word that parts people, by the hash of what they take part in. @param {Uint8Array} id @param {Uint8Array} key */
export async function partingWord(id, key) {
  return publicWord(id, (await sha256(Uint8Array.of(...key, ...utf8("part")))).subarray(0, 16));
}

/** Whether a part [start, stop] of the people has the person with this parting word. */
export function holds([start, stop], word) {
  const bound = ([above, below]) => ceilDivide(above << 32n, below);
  return bound(start) <= word >> 32n && word >> 32n < bound(stop);
}

/** The hash of a symbol into [0, g) under a seed of 64 bits (src/keyveil/kernels/hashing.py). */
export function hashSymbol(seed, value, g) {
  let spread = (seed * 0x9e3779b97f4a7c15n) & MASK;
  spread ^= spread >> 32n;
  const [low, high] = [Number(spread & 0xffffffffn), Number(spread >> 32n)];
  let x = Math.imul(value ^ (value >>> 16) ^ low, 0x21f0aaad);
  x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
  x ^= (x >>> 15) ^ high;
  return Number((BigInt(Math.imul(x, 0xd35a2d97) >>> 0) * BigInt(g)) >> 32n);
}
