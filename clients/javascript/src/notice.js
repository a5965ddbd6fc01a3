/**
 * Reading what a collector serves, as if it were hostile: sizes, spelling, hashes, and what its protocol may ask. Nothing
 * here depends on a record (src/keyveil/campaign/verification.py is the Python twin).
 */
import { canonical, daysBetween, hash, hex, isDay, parseJson, sha256, utf8 } from "./canonical.js";
import { reportBytes } from "./codecs.js";
import { demand, KeyveilError } from "./errors.js";
import { atMost, logCeiling, parse, text } from "./exact.js";
import { build, HELD, readEpsilon } from "./mechanisms.js";
import { Schema } from "./schema.js";

const LIMITS = { bytes: 4 << 20, keys: 1 << 16, pairs: 1 << 8, number: 2 ** 32, work: 1 << 23, report: 1 << 16 };
const PAIRS = ["max_pairs", "padding", "set_sizes", "sizes", "most"]; // options that count pairs of a record
const ROUND = ["campaign", "epsilon", "keyveil", "mechanism", "options", "part", "report_bytes", "round"];

export const NAME = /^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$/;

const rule = (holds, code) => demand(holds, `campaign/${code}`);
const limit = (holds) => demand(holds, "device/limits", "What is asked is more than this device computes.");
const isObject = (part) => part !== null && typeof part === "object" && !Array.isArray(part);
const isText = (given) => typeof given === "string" && [...given].length <= 2000;
const whole = (low, high) => (given) => Number.isSafeInteger(given) && given >= low && given <= high;

/** Those after `contact` may be left out. */
const FIELDS = {
  keyveil: (given) => given === 1,
  name: (given) => NAME.test(given),
  purpose: (given) => isText(given) && given.trim(),
  schema: isObject,
  protocol: (given) => isObject(given) && isText(given.name) && given.name !== "auto" && isText(given.epsilon),
  rounds: (given) => Array.isArray(given) && given.length && given.length <= 1000 && given.every(isObject),
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
const WINDOW = { opens: isDay, closes: isDay, enough: whole(1, 2 ** 40) };
const CODES = { keyveil: "version", series_until: "dates", renew_from: "dates", opens: "dates", closes: "dates" };

function refuseFields(given, fields) {
  for (const name in given) {
    rule(Object.hasOwn(fields, name), "document");
    rule(fields[name](given[name]), CODES[name] ?? name.replace("_", "-"));
  }
}

export async function readNotice(get, name, table) {
  const body = await get(`campaigns/${name}`);
  limit(body.length <= LIMITS.bytes);
  try {
    return await understood(parseJson(body), name, table, get);
  } catch (reason) {
    throw reason instanceof KeyveilError ? reason : new KeyveilError("campaign/document", "This makes no sense to the device.");
  }
}

async function understood({ campaign: document, hash: stated, state, round }, name, table, get) {
  rule(isObject(document) && stated !== undefined && state && round !== undefined, "document");
  const { keys, low, high, levels } = document.schema;
  const count = isObject(keys) ? keys.count : (keys.length ?? keys);
  rule(typeof keys !== "string", "document");
  limit(!(count > LIMITS.keys));
  const most = Array.isArray(levels) ? Math.max(levels.length, ...levels.map((row) => row?.length ?? 0)) : 2;
  const counted = document.protocol.name === "pilot" && { most: Math.min(count, 32) }; // unless it says another
  refuseNumbers([low, high, levels, { ...counted, ...document.protocol }], count, most);
  const campaign = readCampaign(document);
  campaign.schema = await Schema.read({ ...document.schema, keys: isObject(keys) ? await dictionary(keys, get) : keys });
  const protocol = Object.hasOwn(table, document.protocol.name) && table[document.protocol.name];
  demand(protocol, "mechanism/unknown");
  campaign.hash = await hash(document);
  campaign.terms = await hash({ ...document, rounds: document.rounds.map(({ enough = null }) => enough) });
  campaign.several = Boolean(protocol.plan);
  rule(!campaign.several || !document.renew_days, "periods");
  rule(document.name === name && campaign.hash === stated, "changed");
  const open = round?.state === "open" ? await readRound(campaign, round, table, protocol) : null;
  demand(!protocol.stranger, "mechanism/unknown");
  return { campaign, round: open, state };
}

async function dictionary({ sha256: wanted, count }, get) {
  rule(/^[0-9a-f]{64}$/.test(wanted), "dictionary");
  const bytes = await get(`dictionaries/${wanted}`);
  rule(hex(await sha256(bytes)) === wanted && parseJson(bytes).length === count, "dictionary");
  return parseJson(bytes);
}

/** Whole numbers with the names before them, also in a text such as "ssr.max_pairs=3". */
function refuseNumbers(part, keys, bins = 2) {
  let pairs = 1;
  const said = JSON.stringify(part).normalize("NFKC").replace(/(?<=\d)_/g, "");
  limit(!/\de[+-]?\d{3}/i.test(said));
  for (const [, name, rest] of `x${said}`.matchAll(/([a-z_]+)([^a-z_]*)/gi))
    for (const number of (rest.match(/(?<![.\d])\d+(?![.\d])/g) ?? []).map(Number)) {
      const counted = PAIRS.includes(name);
      limit(number <= (counted ? LIMITS.pairs : LIMITS.number));
      if (counted) pairs = Math.max(pairs, number);
      if (name === "bins") bins = Math.max(bins, number);
    }
  limit(!(keys * bins * pairs > LIMITS.work));
}

/** `starts` and `ends` are empty unless every round names its days. */
function readCampaign(document) {
  rule(utf8(canonical(document)).length <= 1 << 20, "document");
  rule(document.keyveil === 1, "version");
  rule(Object.keys(FIELDS).slice(0, 10).every((field) => field in document), "document");
  refuseFields(document, FIELDS);
  const { protocol, rounds, every_days: every, series_until: last, renew_days: renew, renew_from: from, one_in } = document;
  let before = "";
  for (const window of rounds) {
    refuseFields(window, WINDOW);
    const { opens = before, closes = opens } = window;
    rule(before <= opens && opens <= closes, "dates");
    before = window.closes ?? before;
  }
  const days = (end) => rounds.map((window) => window[end]).sort();
  const until = days("closes").every(Boolean) ? days("closes").at(-1) : null;
  const dated = until && days("opens").every(Boolean);
  const [starts, ends] = dated ? [days("opens")[0], until] : ["", ""];
  rule(!renew === !from && !(renew && one_in), "periods");
  rule(every ? dated && daysBetween(starts, ends) < every && ends <= (last ?? ends) : !last, "every");
  const epsilon = readEpsilon(protocol.epsilon);
  rule(text(epsilon) === protocol.epsilon, "document");
  return { document, name: document.name, epsilon, starts, ends, until };
}

async function readRound(campaign, { document, hash: stated, number: told }, table, protocol) {
  rule(isObject(document) && `${Object.keys(document).sort()}` === `${ROUND}` && document.keyveil === 1, "round");
  const { round: number, mechanism: name, options, epsilon, part, report_bytes: size } = document;
  refuseNumbers([options, part], campaign.schema.d);
  rule(document.campaign === campaign.hash, "changed");
  const planned = (holds) => rule(holds, "round");
  planned(whole(1, 1000)(number) && isObject(options) && isText(epsilon));
  planned(protocol.plan || !Object.hasOwn(table, name) || name === campaign.document.protocol.name);
  const mechanism = await build({ name, schema: campaign.schema, epsilon, options }, table);
  planned(Array.isArray(part) && part.length === 2 && part.every((one) => /^-?\d+([./]\d+)?$/.test(one)));
  const [start, stop] = part.map(parse);
  demand(start[0] >= 0n && !atMost(stop, start) && atMost(stop, [1n, 1n]), "protocol/part");
  planned(`${[start, stop, parse(epsilon)].map(text)}` === `${[...part, epsilon]}` && size === reportBytes(mechanism.codec));
  limit(size <= LIMITS.report);
  const own = await hash(document);
  rule(own === stated && number === told, "changed");
  planned(epsilon === campaign.document.protocol.epsilon);
  const seats = await (protocol.plan ?? once)(campaign, document, planned, table);
  return { document, hash: own, number, mechanism, seats, cost: logCeiling(mechanism.ratio) };
}

/** Everybody is asked once; campaigns for browsers name every option. */
function once({ document: { protocol, browser }, schema }, { round, mechanism, options, part }, planned, table) {
  const { name, epsilon, ...said } = protocol;
  planned(round === 1 && mechanism === name && `${part}` === "0,1");
  const hold = table[name].held ?? table[HELD];
  demand(browser || hold, "device/options", "This device answers only campaigns for browsers, which name every option.");
  if (browser) planned(canonical(said) === canonical(options));
  else hold(said, options, planned, schema);
}
