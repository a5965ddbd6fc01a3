/** SSR: a set of symbols that meets what a person holds e^ε times as readily as one that does not. */
import { heldSymbols, labelsOf, subset } from "../channels.js";
import { members } from "../codecs.js";
import { binned, only, read, whole } from "../mechanisms.js";

export function ssr({ schema, epsilon, options }) {
  const takes = { max_pairs: whole(1, schema.d), size: whole(1, 256 * schema.d), goal: only("both") };
  const chosen = read(options, { ...takes, ...binned(schema, options) });
  return subsetResponse({ schema, epsilon, labels: labelsOf(schema, chosen), ...chosen });
}

/** Dummies fill up small records and are not sent. */
export function subsetResponse({ schema, epsilon, labels, max_pairs: cap, size }) {
  const symbols = labels.count * schema.d;
  whole(1, symbols - 1)(size, "size");
  const channel = subset(symbols + cap, size, cap, epsilon);
  const respond = (pairs, word, coins) => {
    const held = heldSymbols(pairs, cap, labels, coins);
    for (let dummy = symbols; held.length < cap; dummy++) held.push(dummy);
    return channel.draw(held, coins).filter((symbol) => symbol < symbols);
  };
  return { cap, ratio: channel.ratio, codec: members(symbols, size, cap), respond };
}
