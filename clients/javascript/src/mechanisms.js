/** A mechanism from the options of a round's document: its program, its fingerprint, its codec and its ratio. */
import { canonical, sha256, utf8 } from "./canonical.js";
import { demand, refuse } from "./errors.js";
import { compare, fraction, keeps, parse, text } from "./exact.js";
import { publicWord } from "./words.js";

/** Under this name a table has the program of all that have the option `overflow`. */
export const OVERFLOW = Symbol("overflow");

/** Build a named mechanism with the programs of a table; `epsilon` is text. */
export async function build(asked, table) {
  const { name, schema, options, epsilon: stated } = asked;
  const epsilon = readEpsilon(stated);
  const beside = Object.hasOwn(options, "overflow") && table[OVERFLOW];
  const program = beside || (Object.hasOwn(table, name) && table[name]);
  if (typeof program !== "function") refuse("mechanism/unknown", "This device does not know what is asked.");
  const made = await program({ ...asked, epsilon, stated, build: (other) => build({ schema, epsilon: stated, ...other }, table) });
  const mechanism = made.fingerprint ? made : await alone(made, asked);
  demand(keeps(mechanism.ratio, epsilon), "privacy/exceeded", `${name} tells more than the epsilon that it states.`);
  return { ...mechanism, name };
}

/** ε as a document spells it, within its range. */
export function readEpsilon(given) {
  const decimal = typeof given === "string" && /^-?\d+(\.\d+)?$/.test(given);
  const epsilon = decimal ? parse(given) : refuse("epsilon/invalid");
  demand(epsilon[0] > 0n, "epsilon/invalid");
  demand(compare(epsilon, fraction(32)) <= 0, "epsilon/too-large");
  demand(compare(epsilon, fraction(1, 1000)) >= 0, "epsilon/too-small");
  demand(text(epsilon) === given, "campaign/document");
  return epsilon;
}

/** A program by itself; how its tallies are read (`estimator`) has no part in its fingerprint. */
async function alone(made, { name, schema, epsilon, options: { estimator, ...options } }) {
  const fingerprint = await printed({ mechanism: name, epsilon, options, schema: schema.hash });
  const respond = (pairs, id, coins) => made.respond(pairs, publicWord(id, fingerprint), coins, fingerprint);
  return { ...made, fingerprint, respond, encode: made.codec.encode };
}

/** The fingerprint of what a document says. */
export const printed = (document) => sha256(utf8(canonical(document)));
