/** Reading what a collector serves, as if it were hostile; nothing here depends on a record (docs/device.md). */
import { build, readEpsilon } from "../mechanisms.js";
import { Schema } from "../schema.js";
import { hash, isDay, isObject, isWhole, json, KeyveilError, logCeiling, must, parsed, span, text } from "../wire.js";

const NAME = /^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$/;

export const rule = (holds, code) => must(holds, `campaign/${code}`);
export const isText = (given) => typeof given === "string" && [...given].length <= 2000;

const TERMS = {
  __proto__: null,
  keyveil: (given) => given === 1,
  name: (given) => NAME.test(given),
  purpose: (given) => isText(given) && given.trim(),
  schema: isObject,
  protocol: (given) => isText(given?.name) && given.name !== "auto" && isText(given.epsilon),
  rounds: (given) => Array.isArray(given) && given.every(isObject) && isWhole(1, 1000)(given.length),
  min_reports: isWhole(1, 2 ** 40),
  enrolment: (given) => ["none", "token"].includes(given),
  retention_days: isWhole(0, 3650),
  contact: isText,
  reason: isText,
  every_days: isWhole(1, 3660),
  series_until: isDay,
  renew_days: isWhole(1, 3660),
  renew_from: isDay,
  one_in: isWhole(2, 1000),
  browser: (given) => given === true,
};
const WINDOW = { __proto__: null, opens: isDay, closes: isDay, enough: isWhole(1, 2 ** 40) };

function check(given, takes, needed) {
  for (const name of [...Object.keys(takes).slice(0, needed), ...Object.keys(given)]) {
    const fits = takes[name];
    rule(fits && name in given, "document");
    rule(fits(given[name]), fits === isDay ? "dates" : name === "keyveil" ? "version" : name.replace("_", "-"));
  }
}

function termsOf(document) {
  rule(json(document).length <= 1 << 20, "document");
  check(document, TERMS, 10);
  const { rounds, every_days, series_until, renew_days, renew_from, one_in } = document;
  let day = "";
  for (const window of rounds) {
    check(window, WINDOW, 0);
    const { opens = day, closes = opens } = window;
    rule(day <= opens && opens <= closes, "dates");
    day = window.closes ?? day;
  }
  const opens = rounds.map(({ opens }) => opens).sort();
  const until = rounds.map(({ closes }) => closes).sort().at(-1) ?? null;
  const [starts, ends] = opens.at(-1) && until ? [opens[0], until] : [null, null]; // no day comes after null
  rule(!renew_days === !renew_from && !(renew_days && one_in), "periods");
  rule(every_days ? ends && span(starts, ends) < every_days && ends <= (series_until ?? ends) : !series_until, "every");
  const epsilon = readEpsilon(document.protocol.epsilon);
  rule(text(epsilon) === document.protocol.epsilon, "document");
  return { document, epsilon, starts, ends, until };
}

export async function readNotice(get, name, { mechanisms, reading, prefix }) {
  rule(NAME.test(name), "name");
  const body = await get(`campaigns/${name}`);
  try {
    const { campaign: document, hash: stated, state, round } = parsed(body);
    const campaign = { ...termsOf(document), name, series: prefix + name, hash: await hash(document) };
    campaign.terms = await hash({ ...document, rounds: document.rounds.map(({ enough = null }) => enough) });
    Object.assign(campaign, await reading.question(document, get, mechanisms));
    rule(document.name === name && campaign.hash === stated, "changed");
    return { campaign, state, round: round?.state === "open" ? await reading.round(campaign, round, mechanisms) : null };
  } catch (reason) {
    throw reason instanceof KeyveilError ? reason : new KeyveilError("campaign/document");
  }
}

export async function roundOf(campaign, { document, hash: stated, number }, mechanism, given) {
  must(mechanism.codec.size <= 1 << 16, "device/limits");
  rule(json(document) === json({ ...given, keyveil: 1, campaign: campaign.hash, report_bytes: mechanism.codec.size }), "round");
  const own = await hash(document);
  rule(own === stated && number === document.round, "changed");
  const { rounds } = campaign.document;
  const opens = rounds.slice(0, number).map((window) => window.opens ?? "").sort().at(-1);
  const closes = rounds[number - 1]?.closes ?? campaign.until;
  return { document, hash: own, number, mechanism, opens, closes, cost: logCeiling(mechanism.ratio) };
}

/** Campaigns for browsers name every option: their one round follows from them. */
async function round(campaign, view, table) {
  const { name, epsilon, ...options } = campaign.document.protocol;
  must(campaign.document.browser, "device/options");
  const mechanism = await build({ ...campaign, name, options }, table);
  return roundOf(campaign, view, mechanism, { round: 1, mechanism: name, epsilon, options, part: ["0", "1"] });
}

export const reading = { question: async ({ schema }) => ({ schema: await Schema.read(schema) }), round };
