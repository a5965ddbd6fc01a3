/** Mechanisms side by side: a report's id decides which one it answers, and all reports have one length. */
import { build, rule } from "./mechanisms.js";
import { add, atMost, fraction, ONE, some, spelled, subtract, ZERO } from "./numbers.js";
import { ceilDivide, hex, printed, publicWord, sha256, text, UNIT, utf8 } from "./wire.js";

export async function parting(hash) {
  const key = await sha256(Uint8Array.of(...hash, ...utf8("part")));
  const bound = ([above, below]) => ceilDivide(above << 32n, below);
  return ([start, stop]) => (id) => {
    const place = publicWord(id, key) >> 32n;
    return bound(start) <= place && place < bound(stop);
  };
}

export const nested = (asked) => (name, options) => build({ ...asked, name, options }, asked.table);

export async function sideBySide(parts, { name, schema, epsilon }, cap) {
  const listed = parts.map(([share, { fingerprint }]) => [spelled(share), hex(fingerprint)]);
  const fingerprint = await printed({ mechanism: name, epsilon: text(epsilon), parts: listed, schema: schema.hash });
  const holds = await parting(fingerprint);
  let start = ZERO;
  const tests = parts.map(([share]) => holds([start, (start = add(start, share))]));
  const made = parts.map((part) => part[1]);
  const of = (id) => made[tests.findIndex((mine) => mine(id))];
  const longest = Math.max(...made.map(({ codec }) => codec.size));
  return {
    fingerprint,
    cap,
    ratio: made.map(({ ratio }) => ratio).reduce((most, one) => (atMost(one, most) ? most : one)),
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
  return sideBySide([[subtract(ONE, share), main], [share, question]], asked, max_pairs);
};

const UNCAPPED = ["kvue", "topsel", "block"];

export const common = (name, max_pairs) => (!max_pairs || UNCAPPED.includes(name) ? {} : { max_pairs });

export async function split(asked) {
  const { groups, group_options: own, max_pairs, ...strange } = asked.options;
  const listed = `${groups}`.split(",").map((entry) => /^([a-z0-9-]{1,40}):([1-9]\d{0,14})$/.exec(entry) ?? []);
  const names = listed.map(([, name]) => name);
  rule(!Object.keys(strange).length && `${Object.keys(own ?? {}).sort()}` === `${[...names].sort()}`);
  const total = listed.reduce((sum, [, , share]) => sum + BigInt(share), 0n);
  const [parts, caps] = [[], new Set()];
  for (const [, name, share] of listed) {
    rule(max_pairs === null || !("max_pairs" in own[name]));
    const made = await nested(asked)(name, { ...own[name], ...common(name, max_pairs) });
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
