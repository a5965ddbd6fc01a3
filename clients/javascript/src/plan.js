/** Holding a round to its campaign: every option that was named, and the usual ones where none was. */
import { canonical } from "./canonical.js";
import { parse } from "./exact.js";

/** A campaign of one round: everybody is asked, with the mechanism that it names. */
export function once({ document: { protocol, browser }, schema }, { round, mechanism, options, part }, planned, table) {
  const { name, epsilon, ...said } = protocol;
  planned(round === 1 && mechanism === name && `${part}` === "0,1");
  if (browser) planned(canonical(said) === canonical(options)); // such campaigns name every option
  else (table[name].held ?? held)(said, options, planned, schema);
}

const SPENT = ["goal", "set_sizes", "sizes", "expected"]; // a round names what follows from them

/** Hold a round's options to those that were said, and to the usual ones; collectors choose only what is not listed. */
export function held(said, told, planned, { mostLevels }) {
  const usual = { split: "tight", estimator: "unbiased", cells: 4096, weights: null, overflow: null, value_epsilon: null };
  if (said.levels) said = { ...said, bins: said.levels, levels: null };
  if (!said.goal) usual.bins = mostLevels || null;
  usual.rounding = told.bins ? "grid" : null;
  for (const name of Object.keys({ ...said, ...told })) {
    const wanted = said[name] ?? usual[name];
    planned(wanted === undefined || SPENT.includes(name) || same(wanted, told[name] ?? null));
  }
}

/** Whether two options are one: as documents, or as numbers in two spellings. */
function same(one, other) {
  if (canonical(one) === canonical(other)) return true;
  const numbers = [one, other].map((value) => /^[\d./]+$/.test(value) && `${parse(value)}`);
  return numbers[0] && numbers[0] === numbers[1];
}
