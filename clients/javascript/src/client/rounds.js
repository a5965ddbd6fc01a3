/** Beyond campaigns for browsers: several rounds, and options that are not named. */
import { isText, roundOf, rule } from "./campaign.js";
import { parting, shared, shares } from "../groups.js";
import { total, where } from "./ledger.js";
import { build, read, readEpsilon, rule as option } from "../mechanisms.js";
import { atMost, exact, fraction, ONE, spelled } from "../numbers.js";
import { Scales } from "../scales.js";
import { isObject, isWhole, json, must, parse, text, unhex, UNIT } from "../wire.js";

const planned = (holds) => rule(holds, "round");

const PAIRS = ["max_pairs", "padding", "set_sizes", "sizes", "most"];
const fits = (holds) => must(holds, "device/limits");

async function question({ schema, protocol, renew_days }, get, table) {
  const { keys, low, high, levels } = schema;
  const { name } = protocol;
  const count = isObject(keys) ? keys.count : (keys.length ?? keys);
  rule(typeof keys !== "string", "document");
  fits(!(count > 1 << 16));
  const most = Array.isArray(levels) ? Math.max(levels.length, ...levels.map((row) => row?.length ?? 0)) : 2;
  const counted = name === "pilot" && { most: Math.min(count, 32) };
  refuseNumbers([low, high, levels, { ...counted, ...protocol }], count, most);
  const read = await Scales.read(schema, get);
  must(Object.hasOwn(table, name), "mechanism/unknown");
  const several = Boolean(table[name].plan);
  rule(!several || !renew_days, "periods");
  return { schema: read, several };
}

/** Whole numbers with the names before them, also in texts. */
function refuseNumbers(part, keys, bins = 2) {
  let pairs = 1;
  const said = JSON.stringify(part).normalize("NFKC").replace(/(?<=\d)_/g, "");
  fits(!/\de[+-]?\d{3}/i.test(said));
  for (const [, name, rest] of `x${said}`.matchAll(/([a-z_]+)([^a-z_]*)/gi))
    for (const number of (rest.match(/(?<![.\d])\d+(?![.\d])/g) ?? []).map(Number)) {
      const counted = PAIRS.includes(name);
      fits(number <= (counted ? 1 << 8 : 2 ** 32));
      if (counted) pairs = Math.max(pairs, number);
      if (name === "bins") bins = Math.max(bins, number);
    }
  fits(!(keys * bins * pairs > 1 << 23));
}

async function round(campaign, view, table) {
  const { document } = view;
  const { schema, document: { protocol } } = campaign;
  planned(isObject(document));
  const { round: number, mechanism: name, options, epsilon, part } = document;
  refuseNumbers([options, part], schema.d);
  rule(document.campaign === campaign.hash, "changed");
  planned(isWhole(1, 1000)(number) && isObject(options) && isText(epsilon));
  const { plan = once, stranger } = table[protocol.name];
  planned(campaign.several || !Object.hasOwn(table, name) || name === protocol.name);
  const mechanism = await build({ name, schema, epsilon: readEpsilon(epsilon), options }, table);
  planned(Array.isArray(part) && part.length === 2 && part.every((one) => /^-?\d+([./]\d+)?$/.test(one)));
  const ends = part.map(fraction);
  must(ends[0][0] >= 0n && !atMost(ends[1], ends[0]) && atMost(ends[1], ONE), "protocol/part");
  const made = await roundOf(campaign, view, mechanism, { round: number, mechanism: name, options, part: ends.map(spelled), epsilon: protocol.epsilon });
  must(!stranger, "mechanism/unknown");
  return { ...made, admit: (state) => order(state, campaign, made), ...(await plan(campaign, document, table, made)) };
}

function order(state, { series, hash }, { number, hash: own }) {
  const seen = ((state.met ??= {})[`${series} ${hash}`] ??= {});
  const known = seen[number];
  must((known ?? own) === own, "round/changed");
  must(known || Math.max(0, ...Object.keys(seen)) < number, "round/order");
  seen[number] = own;
}

/** Everybody is asked once. */
function once({ document: { protocol, browser }, schema }, { round, mechanism, options, part }, table) {
  const { name, epsilon, ...said } = protocol;
  planned(round === 1 && mechanism === name && `${part}` === "0,1");
  if (browser) planned(json(said) === json(options));
  else (table[name].held ?? held)(said, options, schema);
}

/** To what was said and is usual; collectors choose only what is not listed. */
function held({ levels, goal, ...said }, told, { mostLevels }) {
  const usual = { split: "tight", estimator: "unbiased", cells: 4096, weights: null, overflow: null, value_epsilon: null };
  const given = { ...usual, bins: levels ?? (goal ? told.bins : mostLevels || null), rounding: told.bins ? "grid" : null };
  for (const name in { ...said, ...told }) {
    const value = said[name] ?? given[name];
    const paid = ["goal", "set_sizes", "sizes", "expected"].includes(name); // a round names what follows from them
    planned(paid || value === undefined || equal(value, told[name] ?? null));
  }
}

function equal(...both) {
  const [one, other] = both.map((value) => (/^[\d./]+$/.test(value) ? spelled(fraction(value)) : json(value)));
  return one === other;
}

/** An object, or a text such as "ssr.bins=4; kvue.bins=2". */
function assignments(given = {}) {
  if (typeof given !== "string") return { "": given, ...given };
  const mine = { __proto__: null, "": {} };
  for (const entry of given.split(";").filter((one) => one.trim())) {
    const [, group = "", name, value] = /^\s*(?:(.*)\.)?(\w+)\s*=\s*(.*?)\s*$/s.exec(entry) ?? option(false);
    (mine[group] ??= {})[name] = value;
  }
  return mine;
}

export function heldGroups({ groups, options, max_pairs }, told, schema) {
  planned(shares(groups) === shares(told.groups));
  for (const [name, own] of Object.entries(told.group_options))
    held({ ...shared(name, max_pairs), ...assignments(options)[name] }, { max_pairs: told.max_pairs, ...own }, schema);
}

/** `pilot`: some tell how many pairs they hold, the others are asked with a cap that fits. Gives whom a round asks. */
async function seats({ document: { protocol }, epsilon, schema, series, hash }, { round, mechanism, options, part }, table, { cost }) {
  const { then = "ssr", share = "0.05", most = Math.min(schema.d, 32), max_pairs = null, theta = 0 } = protocol;
  must(`${theta}` === "0", "mechanism/unknown");
  const edges = [["0", share], [share, "1"]][round - 1] ?? [];
  planned(`${edges.map((edge) => spelled(fraction(edge)))}` === `${part}` && mechanism === ["set-size", then][round - 1]);
  if (round === 1) planned(options.most === most);
  else held({ max_pairs, ...assignments(protocol.options)[""] }, options, schema);
  const due = ({ entries }) => {
    const begun = where(entries, { series, campaign: hash });
    must(cost + total(begun) <= epsilon, "budget/exceeded");
    return begun.length ? cost : epsilon; // at first all that may follow
  };
  return { due, whole: protocol.epsilon, seat: ["seat", series, hash], seats: (await parting(unhex(hash)))(edges.map(fraction)) };
}

/** What is set aside for later rounds of other campaigns that are agreed to. */
const aside = ({ entries, consents }, { series: own }, day) =>
  Object.entries(consents).flatMap(([series, { state, campaign }]) => {
    const known = where(entries, { series, campaign });
    const { whole, until, schema } = known[0] ?? {};
    const open = whole && series !== own && state === "given" && (until ?? day) >= day;
    return open ? [{ schema, day, epsilon: text(parse(whole) - total(known)) }] : [];
  });

// -- what this device does not answer is refused with the codes of other devices

const CHOOSY = "grr sue oue olh ss hr rappor shist duchi piecewise hybrid square-wave mean-est"; // cannot take every record
const OTHERS =
  "privkv f2m kvoh ioh moments marginals kv-sw krr-harmony shist-harmony rappor-meanest collision privkvm privkvm-plus " +
  "privkvm-star adaptive topsel-project privkvm-harmony privkvm-meanest hierarchy coordinates";

const refuse = (code) => {
  const stranger = () => must(false, code);
  return Object.assign(stranger, { stranger });
};
const named = (names, program) => Object.fromEntries(names.split(" ").map((name) => [name, program]));
const unknown = refuse("mechanism/unknown");
unknown.plan = unknown; // several rounds, of which some are known

function privkv({ schema, epsilon, options }) {
  const { key_epsilon, fake } = read(options, { key_epsilon: exact, fake: (means) => means });
  option(key_epsilon[0] >= 0n && atMost(key_epsilon, [epsilon, UNIT]) && fake.every((mean) => typeof mean === "number"));
  must([0, schema.d].includes(fake.length) && fake.every((mean) => Math.abs(mean) <= 1 << 16), "protocol/broadcast");
  return unknown();
}

export const pilot = { plan: seats };
export const others = { ...named(CHOOSY, refuse("device/mechanism")), ...named(OTHERS, unknown), "privkv-round": privkv };

export const reading = { question, round, aside };
