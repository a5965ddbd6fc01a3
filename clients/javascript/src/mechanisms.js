/** A mechanism from the options of a round's document: its program, its fingerprint, and groups side by side. */
import { canonical, hex, sha256, utf8 } from "./canonical.js";
import { pad, reportBytes } from "./codecs.js";
import { refuse } from "./errors.js";
import { add, compare, divide, fraction, keeps, ONE, parse, subtract, text, ZERO } from "./exact.js";
import { exactly, wrong } from "./options.js";
import { overflow, setSize } from "./mechanisms/sizes.js";
import { holds, publicWord } from "./words.js";

/**
 * @typedef {object} Mechanism
 * @property {string} name
 * @property {Uint8Array} fingerprint
 * @property {import("./exact.js").Fraction} ratio the largest ratio of the probabilities of one report
 * @property {import("./codecs.js").Codec} codec
 * @property {number | undefined} cap pairs of a record that count at most
 * @property {(pairs: import("./schema.js").Pairs, id: Uint8Array, coins: import("./coins.js").Coins) => any} respond
 * @property {(payload: any, id: Uint8Array) => Uint8Array} encode
 */

/** Every mechanism needs the overflow question beside it, and `pilot` asks for sizes first. */
const ALWAYS = { overflow, "set-size": setSize };

/**
 * @param {{name: string, schema: import("./schema.js").Schema, epsilon: string, options: Record<string, any>}} asked
 * @param {Record<string, Function>} table from names to programs
 * @returns {Promise<Mechanism>}
 */
export async function build(asked, table) {
  const { name, schema, options } = asked;
  const epsilon = readEpsilon(asked.epsilon);
  const made =
    "overflow" in options && name !== "overflow"
      ? await besideOverflow(asked, table)
      : name === "split"
        ? await groups(asked, table)
        : program(name, table)({ schema, epsilon, options });
  const whole = { name, schema: schema.hash, epsilon: asked.epsilon };
  const mechanism = made.parts ? await sideBySide(made, asked, table) : await alone(made, options, whole);
  if (!keeps(mechanism.ratio, epsilon)) refuse("privacy/exceeded", `${name} tells more than the epsilon that it states.`);
  return mechanism;
}

/** ε as a document spells it, within its range. */
export function readEpsilon(given) {
  const epsilon = typeof given === "string" && !given.includes("/") ? parse(given) : refuse("epsilon/invalid", "Epsilon is an exact decimal.");
  if (epsilon[0] <= 0n) refuse("epsilon/invalid", "Epsilon must be greater than zero.");
  if (compare(epsilon, fraction(32)) > 0) refuse("epsilon/too-large", `Epsilon ${given} protects nobody.`);
  if (compare(epsilon, fraction(1, 1000)) < 0) refuse("epsilon/too-small", `Epsilon ${given} leaves nothing to learn.`);
  return epsilon;
}

function program(name, table) {
  const known = Object.hasOwn(table, name) ? table[name] : Object.hasOwn(ALWAYS, name) ? ALWAYS[name] : null;
  return known ?? refuse("mechanism/unknown", `This device does not know the mechanism ${String(name).slice(0, 60)}.`);
}

async function alone(made, options, { name, schema, epsilon }) {
  const kept = Object.entries(options).filter(([option]) => !(made.readings ?? []).includes(option));
  const fingerprint = await printed({ mechanism: name, epsilon, options: Object.fromEntries(kept), schema });
  const respond = (pairs, id, coins) => made.respond(pairs, publicWord(id, fingerprint), coins, fingerprint);
  return { ...made, name, fingerprint, respond, encode: (payload) => made.codec.encode(payload) };
}

const printed = (document) => sha256(utf8(canonical(document)));

/** The main mechanism, and where its cap can be exceeded the overflow question to a share of the people. */
async function besideOverflow({ name, schema, epsilon, options }, table) {
  const { overflow: given, ...rest } = options;
  const share = exactly(given, "overflow");
  if (share[0] <= 0n || compare(share, ONE) >= 0) wrong("overflow is a share of the people between 0 and 1.");
  if (rest.estimator === "published") wrong("An overflow group stands beside unbiased estimates only.");
  const main = await build({ name, schema, epsilon, options: rest }, table);
  const parts = [{ share: subtract(ONE, share), made: main }];
  if (main.cap === undefined || main.cap >= schema.d) return { cap: main.cap, parts };
  return { cap: main.cap, parts: [...parts, { share, name: "overflow", options: { max_pairs: main.cap } }] };
}

/** The groups of `split`, in their one spelling: whole shares, every option, and a cap that all have in common. */
async function groups({ schema, epsilon, options }, table) {
  const { groups: named, group_options: own, max_pairs: common = null, ...strange } = options;
  const entries = String(named).split(",").map((entry) => /^([a-z0-9-]{1,40}):([1-9]\d{0,14})$/.exec(entry));
  if (Object.keys(strange).length || entries.includes(null)) wrong("The groups of split look like ssr:1,kvue:1.");
  const listed = /** @type {RegExpExecArray[]} */ (entries).map(([, name, share]) => ({ name, share: fraction(BigInt(share)) }));
  const names = listed.map((group) => group.name);
  const keys = Object.keys(own ?? {});
  if (new Set(names).size < names.length || keys.length !== names.length || keys.some((name) => !names.includes(name)))
    wrong("Every group of split stands once, with its options.");
  const caps = new Set();
  const parts = [];
  for (const { name, share } of listed) {
    if ("max_pairs" in own[name] && common !== null) wrong("A cap that all groups share stands once.");
    const at = (options) => build({ name, schema, epsilon, options }, table);
    const made = await (common === null || UNCAPPED.has(name) ? at(own[name]) : at({ ...own[name], max_pairs: common }));
    if (made.cap !== undefined) caps.add(made.cap);
    parts.push({ share, made });
  }
  if (common === null ? caps.size === 1 : !caps.has(common)) wrong("A cap that all groups share stands once.");
  return { parts, cap: caps.size ? Math.max(...caps) : undefined };
}

const UNCAPPED = new Set(["kvue", "topsel", "block"]);

/** Mechanisms side by side: the id of a report decides which of them it answers; all reports have one length. */
async function sideBySide({ parts, cap }, { name, schema, epsilon }, table) {
  const made = [];
  for (const part of parts) made.push(part.made ?? (await build({ name: part.name, schema, epsilon, options: part.options }, table)));
  const total = parts.reduce((sum, part) => add(sum, part.share), ZERO);
  const shares = parts.map((part) => divide(part.share, total));
  const listed = shares.map((share, at) => [text(share), hex(made[at].fingerprint)]);
  const fingerprint = await printed({ mechanism: name, epsilon, parts: listed, schema: schema.hash });
  const key = (await sha256(Uint8Array.of(...fingerprint, ...utf8("part")))).subarray(0, 16);
  const edges = shares.reduce((list, share) => [...list, add(list[list.length - 1], share)], [ZERO]);
  const of = (id) => {
    const word = publicWord(id, key);
    return made[shares.findIndex((_, at) => holds([edges[at], edges[at + 1]], word))];
  };
  const longest = Math.max(...made.map((part) => reportBytes(part.codec)));
  return {
    name,
    fingerprint,
    cap,
    ratio: made.map((part) => part.ratio).reduce((most, one) => (compare(one, most) > 0 ? one : most)),
    codec: { longest, varies: false, encode: () => refuse("report/group", "A report of groups has an id.") },
    respond: (pairs, id, coins) => of(id).respond(pairs, id, coins),
    encode: (payload, id) => pad(of(id).encode(payload, id), longest, of(id).codec.varies),
  };
}
