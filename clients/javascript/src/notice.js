/**
 * Reading what a collector serves, as if it were hostile: sizes, spelling, hashes, and what its protocol may ask. Nothing
 * here depends on a record (src/keyveil/campaign/verification.py is the Python twin).
 */
import { canonical, hash, hex, parseJson, sha256, utf8 } from "./canonical.js";
import { reportBytes } from "./codecs.js";
import { isDay, daysBetween } from "./days.js";
import { demand, KeyveilError, refuse } from "./errors.js";
import { compare, logCeiling, ONE, parse, text, ZERO } from "./exact.js";
import { build, readEpsilon } from "./mechanisms.js";
import { once } from "./plan.js";
import { Schema } from "./schema.js";

const LIMITS = { bytes: 4 << 20, keys: 1 << 16, pairs: 1 << 8, number: 2 ** 32, work: 1 << 23, report: 1 << 16 };
const PAIRS = ["max_pairs", "padding", "set_sizes", "sizes", "most"]; // options that count pairs of a record
const ROUND = ["campaign", "epsilon", "keyveil", "mechanism", "options", "part", "report_bytes", "round"];

/** What a campaign's name looks like. */
export const NAME = /^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$/;

const rule = (holds, code) => demand(holds, `campaign/${code}`);
const limit = (holds) => demand(holds, "device/limits", "What is asked is more than this device computes.");
const isObject = (part) => typeof part === "object" && part !== null && !Array.isArray(part);
const isText = (given) => typeof given === "string" && [...given].length <= 2000;
const whole = (low, high) => (given) => Number.isSafeInteger(given) && given >= low && given <= high;

/** The fields of a campaign, and what each must be; those after `contact` may be left out. */
const FIELDS = {
  keyveil: (given) => given === 1,
  name: (given) => NAME.test(given),
  purpose: (given) => isText(given) && given.trim(),
  schema: isObject,
  protocol: (given) => isObject(given) && isText(given.name) && isText(given.epsilon),
  rounds: (given) => Array.isArray(given) && given.length > 0 && given.length <= 1000 && given.every(isWindow),
  min_reports: whole(1, 2 ** 40),
  enrolment: (given) => ["none", "token"].includes(given),
  retention_days: whole(0, 3650),
  contact: isText,
  reason: isText,
  every_days: whole(1, 3660),
  series_until: isDay,
  renew_days: whole(1, 3660),
  renew_from: isDay,
  one_in: whole(2, 1000),
  browser: (given) => given === true,
};
const NEEDED = Object.keys(FIELDS).slice(0, 10);
const CODES = { keyveil: "version", series_until: "dates", renew_from: "dates" };

/** The campaign of a name and its open round, from the bytes of `GET /v1/campaigns/{name}`. */
export async function readNotice(body, name, table, fetchKeys) {
  limit(body.length <= LIMITS.bytes);
  try {
    return await understood(parseJson(body), name, table, fetchKeys);
  } catch (reason) {
    if (reason instanceof KeyveilError) throw reason;
    return refuse("campaign/document", `What ${name} asks makes no sense to this device.`);
  }
}

async function understood(view, name, table, fetchKeys) {
  const { campaign: document, round } = view;
  rule(["campaign", "hash", "state", "round"].every((field) => field in view) && isObject(document), "document");
  refuseLarge(document);
  const campaign = readCampaign(document);
  campaign.schema = await Schema.read({ ...document.schema, keys: await keysOf(document.schema.keys, fetchKeys) });
  const protocol = Object.hasOwn(table, document.protocol.name) && table[document.protocol.name];
  demand(protocol, "mechanism/unknown", "This device does not know what the campaign asks.");
  campaign.hash = await hash(document);
  campaign.terms = await hash({ ...document, rounds: document.rounds.map(({ enough = null }) => enough) });
  campaign.several = Boolean(protocol.plan);
  rule(document.name === name && campaign.hash === view.hash, "changed");
  const open = round?.state === "open" ? await readRound(campaign, round, table, protocol) : null;
  demand(!protocol.stranger, "mechanism/unknown", `This device does not answer ${document.protocol.name}.`);
  return { campaign, round: open, state: `${view.state}` };
}

/** The keys of a schema; a list beside the document is fetched, and must have the hash that the document names. */
async function keysOf(keys, fetchKeys) {
  if (!isObject(keys)) return keys;
  rule(/^[0-9a-f]{64}$/.test(keys.sha256) && Number.isSafeInteger(keys.count), "dictionary");
  const bytes = await fetchKeys(keys.sha256);
  rule(hex(await sha256(bytes)) === keys.sha256, "dictionary");
  const names = parseJson(bytes);
  rule(names.length === keys.count, "dictionary");
  return names;
}

/** Refuse sizes that are too large before anything of that size is made. */
function refuseLarge({ schema, protocol }) {
  const { keys, low, high, levels } = schema;
  const count = isObject(keys) ? keys.count : (keys.length ?? keys);
  rule(typeof keys !== "string", "document");
  limit(!(count > LIMITS.keys));
  const most = Array.isArray(levels) ? Math.max(levels.length, ...levels.map((row) => row?.length ?? 0)) : 2;
  const counted = protocol.name === "pilot" ? { most: Math.min(count, 32) } : {}; // unless it says another
  refuseNumbers([low, high, levels, { ...counted, ...protocol }], count, most);
}

/** Refuse whole numbers that are too large, also those in a text such as "ssr.max_pairs=3; ssr.bins=4". */
function refuseNumbers(part, keys, bins = 2) {
  let pairs = 1;
  const visit = (one, called) => {
    if (Array.isArray(one)) one.forEach((entry) => visit(entry, called));
    else if (isObject(one)) Object.entries(one).forEach(([name, entry]) => (visit(name, called), visit(entry, name)));
    else if (typeof one === "number") {
      const counted = PAIRS.includes(called);
      limit(Math.abs(one) <= (counted ? LIMITS.pairs : LIMITS.number));
      if (counted) pairs = Math.max(pairs, one);
      if (called === "bins") bins = Math.max(bins, one);
    } else if (typeof one === "string") {
      limit(!/[eE][+-]?[\d_]{3,}/.test(one));
      for (const entry of one.normalize("NFKC").split(/[;,]/)) {
        const [value, option] = entry.split("=").reverse();
        called = option?.split(".").at(-1).trim() ?? called;
        if (/^\s*[+-]?[\d_]+\s*(:|$)/.test(value)) visit(parseInt(value.replaceAll("_", "")), called);
      }
    }
  };
  visit(part, "");
  limit(!(keys * bins * pairs > LIMITS.work));
}

/** A campaign from its complete document; `starts` and `ends` are empty unless every round names its days. */
function readCampaign(document) {
  rule(utf8(canonical(document)).length <= 1 << 20, "document");
  rule(FIELDS.keyveil(document.keyveil), "version");
  rule(NEEDED.every((field) => field in document), "document");
  for (const field in document) {
    rule(Object.hasOwn(FIELDS, field), "document");
    rule(FIELDS[field](document[field]), CODES[field] ?? field.replace("_", "-"));
  }
  const { protocol, rounds, every_days: every, series_until: last, renew_days: renew, renew_from: from, one_in } = document;
  const [opens, closes] = ["opens", "closes"].map((end) => rounds.map((window) => window[end]));
  const until = closes.every(Boolean) ? [...closes].sort().at(-1) : null;
  const dated = until && opens.every(Boolean);
  const [starts, ends] = dated ? [[...opens].sort()[0], until] : ["", ""];
  rounds.forEach(({ opens: first = "9" }, at) => rule(first >= (closes.slice(0, at).findLast(Boolean) ?? ""), "dates"));
  rule((renew === undefined) === (from === undefined) && !(renew && one_in), "periods");
  rule(every ? dated && daysBetween(starts, ends) < every && ends <= (last ?? ends) : !last, "every");
  return { document, name: document.name, epsilon: readEpsilon(protocol.epsilon), starts, ends, until };
}

function isWindow(window) {
  rule(isObject(window) && Object.keys(window).every((name) => ["opens", "closes", "enough"].includes(name)), "rounds");
  const { opens, closes, enough = 1 } = window;
  rule([opens, closes].every((day) => day === undefined || isDay(day)) && !(opens > closes), "dates");
  rule(FIELDS.min_reports(enough), "enough");
  return true;
}

async function readRound(campaign, { document, hash: stated, number: told }, table, protocol) {
  rule(isObject(document) && `${Object.keys(document).sort()}` === `${ROUND}` && document.keyveil === 1, "round");
  const { round: number, mechanism: name, options, epsilon, part, report_bytes: size } = document;
  refuseNumbers([options, part], campaign.schema.d);
  rule(document.campaign === campaign.hash, "changed");
  rule(whole(1, 1000)(number) && isObject(options) && typeof epsilon === "string", "round");
  const planned = (holds) => rule(holds, "round");
  planned(protocol.plan || !Object.hasOwn(table, name) || name === campaign.document.protocol.name);
  const mechanism = await build({ name, schema: campaign.schema, epsilon, options }, table);
  rule(Array.isArray(part) && part.length === 2 && part.every((one) => /^-?\d+([./]\d+)?$/.test(one)), "round");
  const [start, stop] = part.map(parse);
  const within = compare(ZERO, start) <= 0 && compare(start, stop) < 0 && compare(stop, ONE) <= 0;
  demand(within, "protocol/part");
  rule(`${[start, stop].map(text)}` === `${part}` && size === reportBytes(mechanism.codec), "round");
  limit(size <= LIMITS.report);
  const own = await hash(document);
  rule(own === stated && number === told, "changed");
  planned(epsilon === campaign.document.protocol.epsilon);
  const seats = await (protocol.plan ?? once)(campaign, document, planned, table);
  return { document, hash: own, number, mechanism, seats, cost: logCeiling(mechanism.ratio) };
}
