/** Mechanisms side by side: the id of a report decides which of them it answers, and all reports have one length. */
import { hex, sha256, utf8 } from "./canonical.js";
import { pad, reportBytes } from "./codecs.js";
import { add, atMost, ceilDivide, parse, subtract, text } from "./exact.js";
import { printed, publicWord, rule } from "./mechanisms.js";
import { held } from "./held.js";

const [ZERO, ONE] = [[0n, 1n], [1n, 1n]];

export const exactly = (value, name) => {
  rule(typeof value === "string" && text(parse(value)) === value, name);
  return parse(value);
};

/** The word that parts people by their ids. */
export async function parting(hash) {
  const key = await sha256(Uint8Array.of(...hash, ...utf8("part")));
  return (id) => publicWord(id, key);
}

export function holds([start, stop], word) {
  const bound = ([above, below]) => ceilDivide(above << 32n, below);
  return bound(start) <= word >> 32n && word >> 32n < bound(stop);
}

export async function sideBySide(parts, { name, schema, stated }, cap) {
  const listed = parts.map(({ share, made }) => [text(share), hex(made.fingerprint)]);
  const fingerprint = await printed({ mechanism: name, epsilon: stated, parts: listed, schema: schema.hash });
  const word = await parting(fingerprint);
  const edges = parts.reduce((list, { share }) => [...list, add(list.at(-1), share)], [ZERO]);
  const of = (id) => parts.find((_, at) => holds([edges[at], edges[at + 1]], word(id))).made;
  const longest = Math.max(...parts.map(({ made }) => reportBytes(made.codec)));
  return {
    fingerprint,
    cap,
    ratio: parts.map(({ made }) => made.ratio).reduce((most, one) => (atMost(one, most) ? most : one)),
    codec: { longest, varies: false },
    respond: (pairs, id, coins) => of(id).respond(pairs, id, coins),
    encode: (payload, id) => pad(of(id).encode(payload, id), longest, of(id).codec.varies),
  };
}

/** Where the cap can be exceeded, a share of the people has the overflow question. */
export async function beside(asked) {
  const { overflow, ...options } = asked.options;
  const share = exactly(overflow, "overflow");
  rule(!atMost(share, ZERO) && !atMost(ONE, share) && options.estimator !== "published", "overflow");
  const main = await asked.build({ name: asked.name, options });
  if (!(main.cap < asked.schema.d)) return sideBySide([{ share: ONE, made: main }], asked, main.cap);
  const other = await asked.build({ name: "overflow", options: { max_pairs: main.cap } });
  return sideBySide([{ share: subtract(ONE, share), made: main }, { share, made: other }], asked, main.cap);
}

/** The groups of `split`, in their one spelling. */
export async function split(asked) {
  const { groups, group_options: own, max_pairs: common, ...strange } = asked.options;
  const listed = `${groups}`.split(",").map((entry) => /^([a-z0-9-]{1,40}):([1-9]\d{0,14})$/.exec(entry) ?? []);
  const names = listed.map(([, name]) => name);
  rule(!names.includes(undefined) && !Object.keys(strange).length && new Set(names).size === names.length, "groups");
  rule(`${Object.keys(own ?? {}).sort()}` === `${[...names].sort()}`, "group_options");
  const total = listed.reduce((sum, [, , share]) => sum + BigInt(share), 0n);
  const parts = [];
  const caps = new Set();
  for (const [, name, share] of listed) {
    rule(common === undefined || !("max_pairs" in own[name]), "max_pairs");
    const shared = common === undefined || UNCAPPED.includes(name) ? {} : { max_pairs: common };
    const made = await asked.build({ name, options: { ...own[name], ...shared } });
    if (made.cap !== undefined) caps.add(made.cap);
    parts.push({ share: [BigInt(share), total], made });
  }
  rule(common === undefined ? caps.size !== 1 : caps.has(common), "max_pairs");
  return sideBySide(parts, asked, caps.size ? Math.max(...caps) : undefined);
}

const UNCAPPED = ["kvue", "topsel", "block"];

/** As a campaign writes them: an object, or a text such as "ssr.bins=4; kvue.bins=2". */
export function assignments(given = {}) {
  if (typeof given !== "string") return { "": given, ...given };
  const own = { "": {} };
  for (const entry of given.split(";").filter((one) => one.trim())) {
    const [, group = "", name, value] = /^\s*(?:(.*)\.)?(\w+)\s*=\s*(.*?)\s*$/s.exec(entry) ?? rule(false, "options");
    (own[group] ??= {})[name] = value;
  }
  return own;
}

split.held = ({ groups, options, max_pairs }, told, planned, schema) => {
  const shares = (named) => {
    const listed = `${named}`.split(",").map((entry) => entry.trim().split(/\s*:\s*/));
    const total = listed.map(([, share]) => parse(share)).reduce(add);
    return listed.map(([name, share]) => `${name} ${text([parse(share)[0] * total[1], parse(share)[1] * total[0]])}`);
  };
  planned(`${shares(groups)}` === `${shares(told.groups)}`);
  for (const [name, own] of Object.entries(told.group_options)) {
    const common = max_pairs === undefined || UNCAPPED.includes(name) ? {} : { max_pairs };
    held({ ...common, ...assignments(options)[name] }, { max_pairs: told.max_pairs, ...own }, planned, schema);
  }
};
