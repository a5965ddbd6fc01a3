/** Mechanisms side by side: a report's id decides which one it answers, and all reports have one length. */
import { build, rule } from "./mechanisms.js";
import { add, atMost, fraction, minus, ONE, some, spelled, up, ZERO } from "./numbers.js";
import { hex, print, sha256, text, UNIT, utf8, wordOf } from "./wire.js";

export async function parting(hash) {
  const key = await sha256(Uint8Array.of(...hash, ...utf8("part")));
  const most = ([above, below]) => up(above << 32n, below);
  return ([start, stop]) => (id) => {
    const place = wordOf(id, key) >> 32n;
    return most(start) <= place && place < most(stop);
  };
}

export const nested = (asked) => (name, options) => build({ ...asked, name, options }, asked.table);

export async function sideBySide(parts, { name, schema, epsilon }, cap) {
  const listed = parts.map(([share, one]) => [spelled(share), hex(one.fingerprint)]);
  const fingerprint = await print({ mechanism: name, epsilon: text(epsilon), parts: listed, schema: schema.hash });
  const holds = await parting(fingerprint);
  let start = ZERO;
  const tests = parts.map(([share]) => holds([start, (start = add(start, share))]));
  const made = parts.map((part) => part[1]);
  const of = (id) => made[tests.findIndex((mine) => mine(id))];
  const longest = Math.max(...made.map((one) => one.codec.size));
  return {
    fingerprint,
    cap,
    ratio: made.map((one) => one.ratio).reduce((most, one) => (atMost(one, most) ? most : one)),
    codec: { size: longest, varies: false },
    respond: (pairs, id, coins) => of(id).respond(pairs, id, coins),
    encode: (payload, id, size = longest) => of(id).encode(payload, id, size),
  };
}

/** Where the cap can be exceeded, a share of the people has the overflow question. */
export const beside = (program) => async (asked) => {
  const { overflow, ...options } = asked.options;
  if (overflow === undefined) return program(asked);
  const share = some(overflow);
  rule(options.estimator !== "published");
  const one = nested(asked);
  const main = await one(asked.name, options);
  if (main.cap === asked.schema.d) return sideBySide([[ONE, main]], asked, main.cap);
  const [max_pairs, whole] = [main.cap, Number(asked.epsilon / UNIT)];
  const reach = whole < 3 ? 0 : Math.min(max_pairs * 2 ** whole, asked.schema.d - max_pairs);
  const question = await one("overflow", { max_pairs, ...(reach > 2 * max_pairs && { reach }) });
  return sideBySide([[minus(ONE, share), main], [share, question]], asked, max_pairs);
};

const UNCAPPED = ["kvue", "topsel", "block"];

export const shared = (name, max_pairs) => (!max_pairs || UNCAPPED.includes(name) ? {} : { max_pairs });

export async function split(asked) {
  const { groups, group_options: own, max_pairs, ...more } = asked.options;
  const list = `${groups}`.split(",").map((entry) => /^([a-z0-9-]{1,40}):([1-9]\d{0,14})$/.exec(entry) ?? []);
  const names = list.map(([, name]) => name);
  rule(!Object.keys(more).length && `${Object.keys(own ?? {}).sort()}` === `${[...names].sort()}`);
  const total = list.reduce((sum, [, , share]) => sum + BigInt(share), 0n);
  const [parts, caps] = [[], new Set()];
  for (const [, name, share] of list) {
    rule(max_pairs === null || !("max_pairs" in own[name]));
    const made = await nested(asked)(name, { ...own[name], ...shared(name, max_pairs) });
    if (made.cap !== undefined) caps.add(made.cap);
    parts.push([[BigInt(share), total], made]);
  }
  rule(max_pairs === null ? caps.size !== 1 : caps.has(max_pairs));
  return sideBySide(parts, asked, caps.size ? Math.max(...caps) : undefined);
}

export function shares(named) {
  const listed = `${named}`.split(",").map((entry) => entry.split(":").map((part) => part.trim()));
  const total = listed.map(([, share]) => fraction(share)).reduce(add);
  return `${listed.map(([name, share]) => `${name} ${spelled([fraction(share)[0] * total[1], fraction(share)[1] * total[0]])}`)}`;
}
