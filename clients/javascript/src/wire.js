/** What docs/wire.md says of numbers, documents, days and ids. Nothing is rounded in favour of the collector. */

export class KeyveilError extends Error {
  constructor(code) {
    super(`Refused: ${code}.`);
    this.code = code;
  }
}

export function demand(holds, code) {
  if (!holds) throw new KeyveilError(code);
}

export const isWhole = (low, high) => (given) => Number.isSafeInteger(given) && given >= low && given <= high;

/** Exact decimals are whole numbers of the smallest unit that a document may have. */
const PLACES = 1100;
export const UNIT = 10n ** BigInt(PLACES);

export function parse(given, places = PLACES) {
  const [, whole, rest = ""] = /^(-?\d{1,400})(?:\.(\d{1,1100}))?$/.exec(given) ?? [];
  demand(whole, "document/number");
  return BigInt(whole + rest.padEnd(places, "0"));
}

export const text = (number) =>
  `${number}`.replace(/\d+/, (all) => `${all.slice(0, -PLACES) || 0}.${all.slice(-PLACES).padStart(PLACES, "0")}`.replace(/\.?0+$/, ""));

export const ceilDivide = (a, b) => (a + b - 1n) / b;

/** e^ε · 2^bits, rounded down. */
export function expFloor(epsilon, bits = 64n) {
  let [term, total] = [1n << (bits + 128n), 0n];
  for (let order = 1n; term; order++) {
    total += term;
    term = (term * epsilon) / (UNIT * order);
  }
  return total >> 128n;
}

export const RESOLUTION = 1n << 32n;

export const levels = (epsilon) => [expFloor(epsilon) >> 32n, RESOLUTION];

/** The price of a report: the logarithm of a ratio by a step of Halley's method, rounded up in the thirtieth digit. */
export function logCeiling([above, below]) {
  if (above <= below) return 0n;
  const near = parse(Math.log(Number(above) / Number(below)).toFixed(15));
  const [mine, other] = [above << 256n, below * expFloor(near, 256n)];
  const price = near + (2n * UNIT * (mine - other)) / (mine + other) + UNIT / 10n ** 42n; // the step errs by less
  const rest = 10n ** BigInt(`${price}`.length - 30);
  return ceilDivide(price, rest) * rest;
}

export const utf8 = (text) => new TextEncoder().encode(text);
export const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
export const unhex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));

export const fromBytes = (bytes) => BigInt(`0x${hex([...bytes].reverse())}`);

export const isObject = (part) => part !== null && typeof part === "object" && !Array.isArray(part);

export const canonical = (document) =>
  JSON.stringify(document, (_, part) => {
    demand(typeof part !== "number" || Math.abs(part) <= 2 ** 53, "document/number");
    demand(!/\p{Surrogate}/u.test(part), "document/text");
    return isObject(part) ? Object.fromEntries(Object.keys(part).sort().map((name) => [name, part[name]])) : part;
  });

/** Names that stand twice and floats are refused, since readers do not agree on them. */
export function parseJson(bytes) {
  demand(bytes.length <= 4 << 20, "device/limits");
  const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  const outside = (said) => said.replace(/"(?:[^"\\]|\\.)*"|\s/g, "");
  const read = JSON.parse(text);
  demand(!/\d[.eE]/.test(outside(text)), "document/float");
  demand(outside(text).length === outside(canonical(read)).length, "campaign/document");
  return read;
}

export const sha256 = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));

export const printed = (document) => sha256(utf8(canonical(document)));
export const hash = async (document) => hex(await printed(document));

export async function derivedId(secret, ...parts) {
  const key = await crypto.subtle.importKey("raw", unhex(secret), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", key, utf8(canonical(parts)))).subarray(0, 16);
}

/** SipHash-2-4. */
export function publicWord(id, key) {
  const halves = (bytes) => [fromBytes(bytes.subarray(0, 8)), fromBytes(bytes.subarray(8, 16))];
  const start = ["somepseu", "dorandom", "lygenera", "tedbytes"];
  const state = BigUint64Array.from(start, (text, at) => BigInt(`0x${hex(utf8(text))}`) ^ halves(key)[at % 2]);
  const turn = (at, places) => (state[at] = (state[at] << places) | (state[at] >> (64n - places)));
  const mix = (to, from, places) => {
    state[to] += state[from];
    state[from] = turn(from, places) ^ state[to];
  };
  const rounds = (count) => {
    for (; count; count--) {
      mix(0, 1, 13n);
      mix(2, 3, 16n);
      turn(0, 32n);
      mix(0, 3, 21n);
      mix(2, 1, 17n);
      turn(2, 32n);
    }
  };
  for (const word of [...halves(id), 16n << 56n]) {
    state[3] ^= word;
    rounds(2);
    state[0] ^= word;
  }
  state[2] ^= 0xffn;
  rounds(4);
  return state.reduce((one, other) => one ^ other);
}

export const publicIndex = (word, bound) => Number(((word >> 32n) * BigInt(bound)) >> 32n);

const DAY = 864e5;

export const dayOf = (time) => new Date(time).toJSON()?.slice(0, 10);
export const isDay = (given) => given > "0001" && dayOf(given) === given;
export const daysBetween = (first, last) => (Date.parse(last) - Date.parse(first)) / DAY;

export const periodOf = ({ renew_days: days, renew_from: from }, day) =>
  days ? dayOf(Date.parse(from) + Math.floor(daysBetween(from, day) / days) * days * DAY) : null;
