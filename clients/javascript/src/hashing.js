/** Seeded hashes of symbols and seeded streams of bits (src/keyveil/kernels/hashing.py). */
export const STRIDE = 0x9e3779b97f4a7c15n; // of splitmix64
const MASK = (1n << 64n) - 1n;

export function hashSymbol(seed, value, g) {
  let spread = (seed * STRIDE) & MASK;
  spread ^= spread >> 32n;
  const [low, high] = [Number(spread & 0xffffffffn), Number(spread >> 32n)];
  let x = Math.imul(value ^ (value >>> 16) ^ low, 0x21f0aaad);
  x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
  x ^= (x >>> 15) ^ high;
  return Number((BigInt(Math.imul(x, 0xd35a2d97) >>> 0) * BigInt(g)) >> 32n);
}

/** The output of splitmix64 at a state. */
export function stirred(word) {
  let bits = word & MASK;
  bits = ((bits ^ (bits >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
  bits = ((bits ^ (bits >> 27n)) * 0x94d049bb133111ebn) & MASK;
  return bits ^ (bits >> 31n);
}
