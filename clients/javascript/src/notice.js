/**
 * Reading what a collector serves, as if it were hostile: sizes, spelling, hashes, and what its protocol may ask. Nothing
 * here depends on a record (docs/wire.md; src/keyveil/campaign/verification.py is the Python twin).
 */
import { canonical, hash, hex, parseJson, sha256, unhex } from "./canonical.js";
import { reportBytes } from "./codecs.js";
import { KeyveilError, refuse } from "./errors.js";
import { compare, logCeiling, ONE, parse, text, ZERO } from "./exact.js";
import { build, readEpsilon } from "./mechanisms.js";
import { Schema } from "./schema.js";

const NAME = /^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$/;
const DAY = /^\d{4}-\d\d-\d\d$/;
const LIMITS = { bytes: 4 << 20, keys: 1 << 16, pairs: 1 << 8, number: 2 ** 32, work: 1 << 23, report: 1 << 16 };
const PAIRS = ["max_pairs", "padding", "set_sizes", "sizes", "most"];
const NEEDED = ["keyveil", "name", "purpose", "schema", "protocol", "rounds", "min_reports", "enrolment", "retention_days", "contact"];
const OPTIONAL = ["reason", "every_days", "series_until", "renew_days", "renew_from", "one_in", "browser"];
const ROUND = ["campaign", "epsilon", "keyveil", "mechanism", "options", "part", "report_bytes", "round"];

const wrong = (code, sentence) => refuse(`campaign/${code}`, sentence);

/** @typedef {Awaited<ReturnType<typeof readNotice>>} Notice */

/** The campaign of a name and its open round, from the bytes of `GET /v1/campaigns/{name}`. */
export async function readNotice(body, name, table, fetchKeys) {
  if (body.length > LIMITS.bytes) refuse("device/limits", `The collector's document exceeds ${LIMITS.bytes} bytes.`);
  let view;
  try {
    view = parseJson(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch (reason) {
    if (reason instanceof KeyveilError) throw reason;
    wrong("document", "The collector's answer is no campaign.");
  }
  if (!isObject(view) || ["campaign", "hash", "state", "round"].some((field) => !(field in view)) || !isObject(view.campaign))
    wrong("document", "The collector's answer is no campaign.");
  try {
    return await understood(view, name, table, fetchKeys);
  } catch (reason) {
    if (reason instanceof KeyveilError) throw reason;
    return wrong("document", `What ${name} asks makes no sense to this device.`);
  }
}

const isObject = (part) => typeof part === "object" && part !== null && !Array.isArray(part);

async function understood(view, name, table, fetchKeys) {
  const { campaign: document } = view;
  const keys = await listOfKeys(document, fetchKeys);
  const campaign = readCampaign(document);
  const schema = await Schema.read({ ...document.schema, keys });
  if (!(document.protocol.name in table) && !["pilot", "split"].includes(document.protocol.name))
    refuse("mechanism/unknown", "This device does not know what the campaign asks.");
  const ownHash = await hash(document);
  if (document.name !== name) wrong("changed", `The collector served another campaign instead of ${name}.`);
  if (ownHash !== view.hash) wrong("changed", `The campaign ${name} does not have the hash that its collector says.`);
  const lasting = { ...document, rounds: document.rounds.map((window) => window.enough ?? null) };
  const whole = { ...campaign, document, schema, hash: ownHash, terms: await hash(lasting) };
  const open = view.round === null || view.round.state !== "open" ? null : await readRound(whole, view.round, table);
  return { campaign: whole, round: open, state: String(view.state) };
}

/** The names of the keys; a list beside the document is fetched, and must have the hash that the document names. */
async function listOfKeys(document, fetchKeys) {
  const { keys } = document.schema;
  const count = isObject(keys) ? keys.count : Array.isArray(keys) ? keys.length : keys;
  if (count > LIMITS.keys) refuse("device/limits", `${count} keys are more than this device reads.`);
  const { low, high, levels } = document.schema;
  const most = Array.isArray(levels) ? Math.max(2, levels.length, ...levels.map((row) => row?.length ?? 0)) : 2;
  const counted = document.protocol.name === "pilot" ? { most: Math.min(count, 32) } : {}; // unless it says another
  refuseNumbers([low ?? null, high ?? null, levels ?? null, { ...counted, ...document.protocol }], count, most);
  if (!isObject(keys) && !Array.isArray(keys) && typeof keys !== "number") wrong("document", "Keys are a list of names or a count.");
  if (!isObject(keys)) return keys;
  if (!/^[0-9a-f]{64}$/.test(keys.sha256) || !Number.isSafeInteger(count)) wrong("dictionary", "A list of keys has a sha256 and a count.");
  const bytes = await fetchKeys(keys.sha256);
  if (hex(await sha256(bytes)) !== keys.sha256) wrong("dictionary", "The list of keys is not the one that the campaign names.");
  const names = parseJson(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  if (!Array.isArray(names) || names.length !== count) wrong("dictionary", "The list of keys has another length.");
  return names;
}

/** Refuse numbers that are too large before anything of that size is made. */
function refuseNumbers(part, keys, bins = 2) {
  let pairs = 1;
  const much = (what) => refuse("device/limits", `${what} is more than this device computes.`);
  const visit = (one, called) => {
    if (Array.isArray(one)) one.forEach((entry) => visit(entry, called));
    else if (isObject(one)) Object.entries(one).forEach(([name, entry]) => (visit(name, called), visit(entry, name)));
    else if (typeof one === "number") number(one, called);
    else if (typeof one === "string") {
      if (/[eE][+-]?[\d_]{3,}/.test(one)) much("A number in a document");
      for (const entry of one.split(/[;,]/)) {
        const [, name = called, value] = /^(?:(?:.*\.)?\s*([^.=]*?)\s*=)?\s*([^:]*?)\s*(?::.*)?$/s.exec(entry) ?? [, called, ""];
        const plain = value.normalize("NFKC").replaceAll("_", "");
        if (/^[+-]?\d+$/.test(plain)) number(Number(plain), name);
        called = name;
      }
    }
  };
  const number = (value, called) => {
    const counted = PAIRS.includes(called);
    if (Math.abs(value) > (counted ? LIMITS.pairs : LIMITS.number)) much(`${value} for ${String(called).slice(0, 80)}`);
    if (counted) pairs = Math.max(pairs, value);
    if (called === "bins" || called === "levels") bins = Math.max(bins, value);
  };
  visit(part, "");
  if (keys * bins * pairs > LIMITS.work) much(`${pairs} pairs of ${keys} keys with ${bins} values`);
}

function readCampaign(document) {
  if (canonical(document).length > 1 << 20) wrong("document", "A campaign has at most 2^20 bytes.");
  if (document.keyveil !== 1) wrong("version", 'A campaign of this version says "keyveil": 1.');
  const missing = NEEDED.find((field) => !(field in document));
  const strange = Object.keys(document).find((field) => ![...NEEDED, ...OPTIONAL].includes(field));
  if (missing || strange) wrong("document", `The campaign ${missing ? `lacks ${missing}` : `has ${strange}`}.`);
  if (typeof document.name !== "string" || !NAME.test(document.name)) wrong("name", "A campaign's name looks like snack-survey.");
  for (const field of ["purpose", "contact", "reason"]) {
    const said = document[field] ?? "";
    if (typeof said !== "string" || [...said].length > 2000 || (field === "purpose" && !said.trim())) wrong(field, `The ${field} is a text.`);
  }
  if (!["none", "token"].includes(document.enrolment)) wrong("enrolment", "enrolment is none or token.");
  wholeNumber(document, "min_reports", 1, 2 ** 40);
  wholeNumber(document, "retention_days", 0, 3650);
  for (const [field, low, high] of [["every_days", 1, 3660], ["renew_days", 1, 3660], ["one_in", 2, 1000]])
    if (field in document) wholeNumber(document, field, low, high);
  if ("browser" in document && document.browser !== true) wrong("browser", "browser is true, or left out.");
  const { protocol, rounds } = document;
  if (!isObject(protocol) || typeof protocol.name !== "string" || typeof protocol.epsilon !== "string")
    wrong("protocol", "The protocol's name is a string, and so is its epsilon (exact decimal).");
  const epsilon = asEpsilon(protocol.epsilon);
  if (text(epsilon) !== protocol.epsilon) wrong("document", "The document is not in canonical form.");
  if (!Array.isArray(rounds) || !rounds.length || rounds.length > 1000) wrong("rounds", "A campaign lists 1 to 1000 rounds.");
  rounds.forEach(readWindow);
  const days = (end) => rounds.map((window) => window[end]);
  for (const field of ["series_until", "renew_from"]) if (field in document) readDay(document[field]);
  if ("renew_days" in document !== "renew_from" in document || ("renew_days" in document && ("one_in" in document || protocol.name === "pilot")))
    wrong("periods", "Periods need both renew_days and renew_from, one round, and no one_in.");
  const complete = [...days("opens"), ...days("closes")].every(Boolean);
  const [starts, ends] = complete ? [days("opens").sort()[0], days("closes").sort().at(-1)] : ["", ""];
  if ("every_days" in document && (!complete || daysBetween(starts, ends) >= document.every_days || ends > (document.series_until ?? ends)))
    wrong("every", "A campaign that returns names its days, and is over before it returns.");
  if ("series_until" in document && !("every_days" in document)) wrong("every", "A series that has a last day says how often it returns.");
  const until = days("closes").every(Boolean) ? days("closes").sort().at(-1) : null;
  return { name: document.name, epsilon, starts, ends, until };
}

/** ε of a document; what is no decimal is refused with the code that devices have for it. */
function asEpsilon(given) {
  return /^-?\d+(\.\d+)?$/.test(given) ? readEpsilon(given) : refuse("epsilon/invalid", "Epsilon is a finite decimal number.");
}

function wholeNumber(document, field, low, high) {
  const value = document[field];
  if (!Number.isSafeInteger(value) || value < low || value > high) wrong(field.replace("_", "-"), `${field} is from ${low} to ${high}.`);
}

function readWindow(window, at, all) {
  if (!isObject(window) || Object.keys(window).some((name) => !["opens", "closes", "enough"].includes(name)))
    wrong("rounds", "A round has opens, closes and enough, each of them if wanted.");
  for (const end of ["opens", "closes"]) if (end in window) readDay(window[end]);
  if ("enough" in window) wholeNumber(window, "enough", 1, 2 ** 40);
  const before = all.slice(0, at).map((one) => one.closes).filter(Boolean).at(-1);
  if (window.opens > window.closes || window.opens < before) wrong("dates", "Rounds follow each other.");
}

function readDay(given) {
  const made = typeof given === "string" && DAY.test(given) ? new Date(`${given}T00:00:00Z`) : new Date(NaN);
  if (Number.isNaN(made.getTime()) || made.toISOString().slice(0, 10) !== given) wrong("dates", "A day is written like 2026-11-20.");
}

/** Days from one day to another. */
export const daysBetween = (first, last) => Math.round((Date.parse(last) - Date.parse(first)) / 864e5);

/** The day so many days after another, within the years 1 to 9999. */
export const dayAfter = (day, count) => {
  const moment = Date.parse(day) + count * 864e5;
  return new Date(Math.min(Math.max(moment, Date.parse("0001-01-01")), Date.parse("9999-12-31"))).toISOString().slice(0, 10);
};

async function readRound(campaign, view, table) {
  const { document } = view;
  if (!isObject(document) || canonical(Object.keys(document).sort()) !== canonical(ROUND) || document.keyveil !== 1)
    wrong("round", `A round's document has ${ROUND.join(", ")}.`);
  refuseNumbers([document.options, document.part], campaign.schema.d);
  if (document.campaign !== campaign.hash) wrong("changed", "The round belongs to another campaign, or the campaign changed.");
  const { round: number, options, epsilon } = document;
  if (!Number.isSafeInteger(number) || number < 1 || number > 1000) wrong("round", "Rounds are counted from 1.");
  if (!isObject(options) || typeof epsilon !== "string") wrong("round", "A round's options are an object, and its epsilon a text.");
  if (text(asEpsilon(epsilon)) !== epsilon) wrong("round", "The round's document is not in canonical form.");
  const mechanism = await build({ name: document.mechanism, schema: campaign.schema, epsilon, options }, table);
  const part = readPart(document.part);
  if (document.report_bytes !== reportBytes(mechanism.codec)) wrong("round", "The round's document says another size of reports.");
  if (document.report_bytes > LIMITS.report) refuse("device/limits", "A report is larger than this device sends.");
  const ownHash = await hash(document);
  if (ownHash !== view.hash || number !== view.number) wrong("changed", `Round ${number} is not the one that its collector says.`);
  refuseUnplanned(campaign, document);
  return { document, hash: ownHash, number, mechanism, part, cost: logCeiling(mechanism.ratio) };
}

function readPart(given) {
  const made = Array.isArray(given) && given.length === 2 && given.every((one) => typeof one === "string" && /^-?\d+([./]\d+)?$/.test(one));
  if (!made) wrong("round", "The part of the people is two fractions, such as 0 and 0.05.");
  const [start, stop] = given.map(parse);
  if (compare(start, ZERO) < 0 || compare(start, stop) >= 0 || compare(stop, ONE) > 0) refuse("protocol/part", "People are parted within 0 to 1.");
  if (text(start) !== given[0] || text(stop) !== given[1]) wrong("round", "The round's document is not in canonical form.");
  return /** @type {const} */ ([start, stop]);
}

const SAID = ["size", "bins", "levels", "buckets", "marked", "cells", "arc", "width", "states", "mode", "split", "overflow", "value_epsilon"];

/** Hold the collector to its campaign: which mechanism, what price, whom it asks, and the options that were said. */
function refuseUnplanned({ document: { protocol }, schema }, { round: number, mechanism, epsilon, options, part }) {
  const unplanned = () => wrong("round", `Round ${number} is not what ${protocol.name} asks.`);
  const same = (said, told) => canonical(said) === canonical(told) || String(said) === String(told);
  if (epsilon !== protocol.epsilon) unplanned();
  if (protocol.name !== "pilot") {
    if (number !== 1 || mechanism !== protocol.name || part.join() !== "0,1") unplanned();
    for (const name of [...SAID, "max_pairs"]) {
      const told = options[name === "levels" ? "bins" : name];
      if (name in protocol && protocol[name] !== null && !same(protocol[name], told)) unplanned();
    }
    return;
  }
  const theta = protocol.theta ?? "0";
  if (theta !== "0" && theta !== 0) refuse("mechanism/unknown", "This device does not answer a pilot about rare keys.");
  const share = parse(protocol.share ?? "0.05");
  const edges = [[ZERO, share], [share, ONE]][number - 1];
  if (!edges || edges.map(text).join() !== part.join()) unplanned();
  if (number === 1 && (mechanism !== "set-size" || options.most !== (protocol.most ?? Math.min(schema.d, 32)))) unplanned();
  if (number === 2 && mechanism !== (protocol.then ?? "ssr")) unplanned();
  if (number === 2 && protocol.max_pairs && protocol.max_pairs !== options.max_pairs) unplanned();
}

/** The period of a day under the terms of a campaign, or nothing. */
export function periodOf({ renew_days: days, renew_from: from }, day) {
  if (days === undefined) return null;
  const start = Math.floor(daysBetween(from, day) / days) * days;
  return { first: dayAfter(from, start), last: dayAfter(from, start + days - 1) };
}

/** The id of what the parts name, under a device's secret: sixteen bytes of HMAC-SHA-256. */
export async function derivedId(secret, ...parts) {
  const key = await globalThis.crypto.subtle.importKey("raw", unhex(secret), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const mac = await globalThis.crypto.subtle.sign("HMAC", key, new TextEncoder().encode(canonical(parts)));
  return new Uint8Array(mac).subarray(0, 16);
}
