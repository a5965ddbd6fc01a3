/** A mechanism from the options of a round: program, fingerprint, codec and ratio. */
import { canonical, fromBytes, sha256, utf8 } from "./canonical.js";
import { demand } from "./errors.js";
import { atMost, keeps, parse } from "./exact.js";

/** Under these names a table has the program of all with the option `overflow`, and what holds a round to a campaign. */
export const [OVERFLOW, HELD] = [Symbol("overflow"), Symbol("held")];

export async function build(asked, table) {
  const { name, schema, options, epsilon: stated } = asked;
  const epsilon = readEpsilon(stated);
  const program = (Object.hasOwn(options, "overflow") && table[OVERFLOW]) || (Object.hasOwn(table, name) && table[name]);
  demand(typeof program === "function", "mechanism/unknown");
  const made = await program({ ...asked, epsilon, stated, build: (other) => build({ schema, epsilon: stated, ...other }, table) });
  const mechanism = made.fingerprint ? made : await alone(made, asked);
  demand(keeps(mechanism.ratio, epsilon), "privacy/exceeded");
  return { ...mechanism, name };
}

export function readEpsilon(given) {
  demand(typeof given === "string" && /^\d+(\.\d+)?$/.test(given) && Number(given), "epsilon/invalid");
  const epsilon = parse(given);
  demand(atMost(epsilon, [32n, 1n]), "epsilon/too-large");
  demand(atMost([1n, 1000n], epsilon), "epsilon/too-small");
  return epsilon;
}

/** A program by itself; how its tallies are read (`estimator`) has no part in its fingerprint. */
async function alone(made, { name, schema, epsilon, options: { estimator, ...options } }) {
  const fingerprint = await printed({ mechanism: name, epsilon, options, schema: schema.hash });
  const respond = (pairs, id, coins) => made.respond(pairs, publicWord(id, fingerprint), coins, fingerprint);
  return { ...made, fingerprint, respond, encode: made.codec.encode };
}

export const printed = (document) => sha256(utf8(canonical(document)));

// -- options, each in its one resolved spelling

export const rule = (holds, name) => demand(holds, "mechanism/option", `This device does not take the option ${name} so.`);

/** Every option by its own reader. */
export function read(given, takes) {
  for (const name in given) rule(Object.hasOwn(takes, name), name);
  return Object.fromEntries(Object.entries(takes).map(([name, take]) => [name, take(given[name], name)]));
}

const reader = (fits) => (value, name) => (rule(fits(value), name), value);
export const whole = (low, high) => reader((value) => Number.isSafeInteger(value) && value >= low && value <= high);
export const only = (...known) => reader((value) => known.includes(value));
export const orNull = (take) => (value, name) => (value === null ? null : take(value, name));

export const binned = ({ mostLevels }, { bins }) => ({
  bins: orNull(mostLevels ? only(2, mostLevels) : whole(2, 256)),
  rounding: bins === null ? only(undefined) : only("grid", ...(mostLevels ? [] : ["cell"])),
});

// -- what follows from a report's id, and need not be sent (docs/wire.md, "Ids and words")

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

export const publicIndex = (word, bound) => Number(((word >> 32n) * BigInt(bound)) >> 32n);
