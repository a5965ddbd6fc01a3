/**
 * Documents: strict JSON in, one spelling out, and its SHA-256. A name that stands twice, a float, and text that is not
 * Unicode are refused, because readers would not agree about them (docs/wire.md, "Documents and their hashes").
 */
import { refuse } from "./errors.js";

const encoder = new TextEncoder();

/** The bytes of a text in UTF-8. */
export const utf8 = (text) => encoder.encode(text);

/** @param {Uint8Array} bytes */
export const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** @param {string} text @returns {Uint8Array} */
export const unhex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));

/** @param {Uint8Array} bytes @returns {Promise<Uint8Array>} */
export const sha256 = async (bytes) => new Uint8Array(await globalThis.crypto.subtle.digest("SHA-256", bytes));

/** The hash of a document: its version. @returns {Promise<string>} */
export const hash = async (document) => hex(await sha256(utf8(canonical(document))));

const byCodePoint = (a, b) => {
  const [x, y] = [Array.from(a), Array.from(b)];
  for (let at = 0; at < Math.min(x.length, y.length); at++)
    if (x[at] !== y[at]) return /** @type {number} */ (x[at].codePointAt(0)) - /** @type {number} */ (y[at].codePointAt(0));
  return x.length - y.length;
};

/** The canonical text of a document. */
export function canonical(part) {
  if (part === null || typeof part === "boolean") return String(part);
  if (typeof part === "number") {
    if (!Number.isInteger(part)) refuse("document/float", "A document holds no floats: write a decimal string.");
    if (Math.abs(part) > 2 ** 53) refuse("document/number", "A document holds whole numbers up to 2^53.");
    return String(part);
  }
  if (typeof part === "string") {
    if (/\p{Surrogate}/u.test(part)) refuse("document/text", "A document holds text that is not valid Unicode.");
    return JSON.stringify(part);
  }
  if (Array.isArray(part)) return `[${part.map(canonical).join(",")}]`;
  if (typeof part !== "object") refuse("document/type", `A document cannot hold a ${typeof part}.`);
  const names = Object.keys(part).sort(byCodePoint);
  return `{${names.map((name) => `${canonical(name)}:${canonical(part[name])}`).join(",")}}`;
}

const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const WORDS = /** @type {const} */ ([["true", true], ["false", false], ["null", null]]);
const DEEPEST = 64;

/** What strict JSON says; objects have no prototype, so that no name in them means anything else. */
export function parseJson(text) {
  let at = 0;
  const wrong = (why) => refuse("campaign/document", `The collector's answer is no JSON: ${why}.`);
  const token = (pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found) at = pattern.lastIndex;
    return found;
  };
  const next = (sign) => {
    token(SPACE);
    if (text[at] !== sign) return false;
    at++;
    token(SPACE);
    return true;
  };
  const listed = (end, entry) => {
    if (next(end)) return;
    do entry();
    while (next(","));
    if (!next(end)) wrong(`${end} is missing`);
  };
  const value = (depth) => {
    if (depth > DEEPEST) wrong("it is nested too deeply");
    token(SPACE);
    if (next("{")) {
      const made = Object.create(null);
      listed("}", () => {
        const name = token(STRING);
        if (!name || !next(":")) wrong("a name is missing");
        const key = JSON.parse(name[0]);
        if (key in made) wrong("a name stands twice");
        made[key] = value(depth + 1);
      });
      return made;
    }
    if (next("[")) {
      const made = [];
      listed("]", () => made.push(value(depth + 1)));
      return made;
    }
    const string = token(STRING);
    if (string) return JSON.parse(string[0]);
    const number = token(NUMBER);
    if (number) {
      const read = Number(number[0]);
      if (number[1] || number[2]) refuse("document/float", "A document holds no floats: write a decimal string.");
      if (Math.abs(read) > 2 ** 53) refuse("document/number", "A document holds whole numbers up to 2^53.");
      return read + 0;
    }
    for (const [word, meant] of WORDS) if (text.startsWith(word, at)) return (at += word.length), meant;
    return wrong("a value is missing");
  };
  const whole = value(0);
  token(SPACE);
  return at === text.length ? whole : wrong("something follows it");
}
