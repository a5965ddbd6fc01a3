/**
 * Documents: JSON in, one spelling out, and its SHA-256 (docs/wire.md, "Documents and their hashes").
 * Readers must agree about every byte of a document, so names that stand twice and floats are refused.
 */
import { demand } from "./errors.js";

export const utf8 = (text) => new TextEncoder().encode(text);
export const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
export const unhex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));

/** The whole number that bytes spell, the lowest first. */
export const fromBytes = (bytes) => bytes.reduceRight((number, byte) => (number << 8n) | BigInt(byte), 0n);

export const sha256 = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));

/** The hash of a document: its version. */
export const hash = async (document) => hex(await sha256(utf8(canonical(document))));

const byCodePoint = (one, other) => (hex(utf8(one)) < hex(utf8(other)) ? -1 : 1);

/** The canonical text of a document. */
export function canonical(part) {
  if (Array.isArray(part)) return `[${part.map(canonical)}]`;
  if (part && typeof part === "object") {
    const names = Object.keys(part).sort(byCodePoint);
    return `{${names.map((name) => `${canonical(name)}:${canonical(part[name])}`)}}`;
  }
  demand(typeof part !== "number" || Math.abs(part) <= 2 ** 53, "document/number");
  demand(!/\p{Surrogate}/u.test(part), "document/text");
  return JSON.stringify(part);
}

/** What the bytes of a document say. */
export function parseJson(bytes) {
  const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  let names = -1; // the reviver is also called for the whole, under no name
  const read = JSON.parse(text, function (name, value) {
    if (!Array.isArray(this)) names++;
    return value;
  });
  const outside = text.replace(/"(?:[^"\\]|\\.)*"/g, ""); // of strings
  demand(names === outside.split(":").length - 1, "campaign/document", "A name stands twice in the document.");
  demand(!/\d[.eE]/.test(outside), "document/float");
  return read;
}
