/** What follows from a report's id, so that it need not be sent (docs/wire.md, "Ids and words"). */
import { fromBytes } from "./canonical.js";

const MASK = (1n << 64n) - 1n;
const turn = (word, places) => ((word << places) | (word >> (64n - places))) & MASK;
const halves = (bytes) => [fromBytes(bytes.subarray(0, 8)), fromBytes(bytes.subarray(8, 16))];

/** The 64-bit SipHash-2-4 of a report's id under a key of sixteen bytes. */
export function publicWord(id, key) {
  const [low, high] = halves(key);
  let [a, b] = [low ^ 0x736f6d6570736575n, high ^ 0x646f72616e646f6dn];
  let [c, d] = [low ^ 0x6c7967656e657261n, high ^ 0x7465646279746573n];
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
  for (const word of [...halves(id), 16n << 56n]) {
    d ^= word;
    rounds(2);
    a ^= word;
  }
  c ^= 0xffn;
  rounds(4);
  return a ^ b ^ c ^ d;
}

/** The index below a bound that a word stands for. */
export const publicIndex = (word, bound) => Number(((word >> 32n) * BigInt(bound)) >> 32n);
