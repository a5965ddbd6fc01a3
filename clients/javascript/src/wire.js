/** What docs/wire.md says of numbers, documents, days and ids. Nothing is rounded in favour of the collector. */

export class KeyveilError extends Error {
  constructor(code) {
    super(code);
    this.code = code;
  }
}

export function must(holds, code) {
  if (!holds) throw new KeyveilError(code);
}

export const isWhole = (low, high) => (given) => Number.isSafeInteger(given) && given >= low && given <= high;

/** Exact decimals are whole numbers of the smallest unit that a document may have. */
export const UNIT = 10n ** 1100n;

export function parse(given, places = 1100) {
  const [, whole, rest = ""] = /^(-?\d{1,400})(?:\.(\d{1,1100}))?$/.exec(given) ?? [];
  must(whole, "document/number");
  return BigInt(whole + rest.padEnd(places, "0"));
}

export const text = (number) => `${number}`.padStart(1101, "0").replace(/.{1100}$/, ".$&").replace(/\.?0+$/, "");

/** e^ε · 2^bits, rounded down. */
export function exp(epsilon, bits = 64n) {
  let [sum, order] = [0n, 0n];
  for (let term = 1n << (bits + 128n); term; term = (term * epsilon) / (UNIT * ++order)) sum += term;
  return sum >> 128n;
}

export const SCALE = 1n << 32n;

export const levels = (epsilon) => [exp(epsilon) >> 32n, SCALE];

/** The price: the logarithm of a ratio by a step of Halley's method, rounded up in the thirtieth digit. */
export function logCeiling([above, below]) {
  if (above <= below) return 0n;
  const near = parse(Math.log(Number(above) / Number(below)).toFixed(15));
  const [mine, other] = [above << 256n, below * exp(near, 256n)];
  const price = near + (2n * UNIT * (mine - other)) / (mine + other) + UNIT / 10n ** 42n; // the step errs by less
  const rest = 10n ** BigInt(`${price}`.length - 30);
  return price + rest - (price % rest);
}

export const utf8 = (text) => new TextEncoder().encode(text);
export const hex = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
export const unhex = (text) => Uint8Array.from(text.match(/../g), (pair) => parseInt(pair, 16));

export const fromBytes = (bytes) => BigInt(`0x${hex([...bytes].reverse())}`);

export const isObject = (part) => typeof part === "object" && part && !Array.isArray(part);

export const json = (document) =>
  JSON.stringify(document, (_, part) => {
    must(!(typeof part === "number" && Math.abs(part) > 2 ** 53), "document/number");
    must(!(typeof part === "string" && /\p{Surrogate}/u.test(part)), "document/text");
    return isObject(part) ? Object.fromEntries(Object.keys(part).sort().map((name) => [name, part[name]])) : part;
  });

/** Names that stand twice and floats are refused, since readers do not agree on them. */
export function parsed(bytes) {
  must(bytes.length <= 4 << 20, "device/limits");
  const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  const outside = (text) => text.replace(/"(?:[^"\\]|\\.)*"|\s/g, "");
  const read = JSON.parse(text);
  must(!/\d[.eE]/.test(outside(text)), "document/float");
  must(outside(text).length === outside(json(read)).length, "campaign/document");
  return read;
}

export const sha256 = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));

export const print = (document) => sha256(utf8(json(document)));
export const hash = async (document) => hex(await print(document));

export async function idOf(secret, ...parts) {
  const key = await crypto.subtle.importKey("raw", unhex(secret), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", key, utf8(json(parts)))).subarray(0, 16);
}

/** SipHash-2-4. */
export function wordOf(id, key) {
  const words = (bytes) => [fromBytes(bytes.subarray(0, 8)), fromBytes(bytes.subarray(8, 16))];
  const start = ["somepseu", "dorandom", "lygenera", "tedbytes"];
  const state = BigUint64Array.from(start, (text, at) => BigInt(`0x${hex(utf8(text))}`) ^ words(key)[at % 2]);
  const turn = (at, places) => {
    state[at] = (state[at] << places) | (state[at] >> (64n - places));
  };
  const mix = (to, from, places) => {
    state[to] += state[from];
    turn(from, places);
    state[from] ^= state[to];
  };
  const round = () => {
    mix(0, 1, 13n);
    mix(2, 3, 16n);
    turn(0, 32n);
    mix(0, 3, 21n);
    mix(2, 1, 17n);
    turn(2, 32n);
  };
  for (const word of [...words(id), 16n << 56n]) {
    state[3] ^= word;
    round();
    round();
    state[0] ^= word;
  }
  state[2] ^= 0xffn;
  round();
  round();
  round();
  round();
  return state[0] ^ state[1] ^ state[2] ^ state[3];
}

export const index = (word, bound) => Number(((word >> 32n) * BigInt(bound)) >> 32n);

export const dayOf = (time) => new Date(time).toJSON()?.slice(0, 10);
export const isDay = (given) => dayOf(given) === given && given > "0001";
export const span = (first, last) => (new Date(last) - new Date(first)) / 864e5;

export const period = ({ renew_days: days, renew_from: from }, day) =>
  days ? dayOf(864e5 * days * Math.floor(span(from, day) / days) + Date.parse(from)) : null;
