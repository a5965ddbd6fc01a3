/** Documents: JSON in, one spelling out, and its SHA-256 (docs/wire.md, "Documents and their hashes"); bytes and days. */
import { demand } from "./errors.js";

export const utf8 = (text) => new TextEncoder().encode(text);
export const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
export const unhex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));

/** The lowest byte first. */
export const fromBytes = (bytes) => bytes.reduceRight((number, byte) => (number << 8n) | BigInt(byte), 0n);

export const sha256 = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));

export const hash = async (document) => hex(await sha256(utf8(canonical(document))));

export async function derivedId(secret, ...parts) {
  const key = await crypto.subtle.importKey("raw", unhex(secret), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", key, utf8(canonical(parts)))).subarray(0, 16);
}

/** Names are sorted by code point, as their bytes are. */
export function canonical(part) {
  if (Array.isArray(part)) return `[${part.map(canonical)}]`;
  if (part && typeof part === "object") {
    const names = Object.keys(part).sort((one, other) => (hex(utf8(one)) < hex(utf8(other)) ? -1 : 1));
    return `{${names.map((name) => `${canonical(name)}:${canonical(part[name])}`)}}`;
  }
  demand(typeof part !== "number" || Math.abs(part) <= 2 ** 53, "document/number");
  demand(!/\p{Surrogate}/u.test(part), "document/text");
  return JSON.stringify(part);
}

/** Names that stand twice and floats are refused, since readers do not agree on them. */
export function parseJson(bytes) {
  const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  let names = -1; // the reviver is also called for the whole, under no name
  const read = JSON.parse(text, function (name, value) {
    if (!Array.isArray(this)) names++;
    return value;
  });
  const outside = text.replace(/"(?:[^"\\]|\\.)*"/g, ""); // of strings
  demand(names === outside.split(":").length - 1, "campaign/document");
  demand(!/\d[.eE]/.test(outside), "document/float");
  return read;
}

const DAY = 864e5; // milliseconds
const [FIRST, LAST] = ["0001-01-01", "9999-12-31"].map(Date.parse);
const spelled = (moment) => new Date(Math.min(Math.max(moment, FIRST), LAST)).toISOString().slice(0, 10);

export const isDay = (given) => /^\d{4}-\d\d-\d\d$/.test(given) && Date.parse(given) >= FIRST && spelled(Date.parse(given)) === given;

export const daysBetween = (first, last) => (Date.parse(last) - Date.parse(first)) / DAY;

export const dayAfter = (day, count) => spelled(Date.parse(day) + count * DAY);

export function periodOf({ renew_days: days, renew_from: from }, day) {
  if (!days) return null;
  const start = Math.floor(daysBetween(from, day) / days) * days;
  return { first: dayAfter(from, start), last: dayAfter(from, start + days - 1) };
}
