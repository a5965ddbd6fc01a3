/** `pilot`: some tell how many pairs they hold, and the others are asked with a cap that fits. */
import { unhex } from "./canonical.js";
import { demand } from "./errors.js";
import { parse, text } from "./exact.js";
import { assignments, holds, parting } from "./groups.js";
import { held } from "./held.js";

/** Gives the test of which ids, one for each device, a round asks. */
async function plan({ document: { protocol }, schema, hash }, { round, mechanism, options, part }, planned) {
  const { then = "ssr", share = "0.05", most = Math.min(schema.d, 32), max_pairs = null, theta = 0 } = protocol;
  demand(`${theta}` === "0", "mechanism/unknown", "This device does not answer a pilot about rare keys.");
  const edges = [[parse("0"), parse(share)], [parse(share), parse("1")]][round - 1] ?? [];
  planned(`${edges.map(text)}` === `${part}` && mechanism === ["set-size", then][round - 1]);
  if (round === 1) planned(options.most === most);
  else held({ max_pairs, ...assignments(protocol.options)[""] }, options, planned, schema);
  const word = await parting(unhex(hash));
  return (id) => holds(edges, word(id));
}

export const pilot = { plan };
