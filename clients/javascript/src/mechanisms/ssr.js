/** SSR: a set of symbols that meets what a person holds e^ε times as readily as one that does not. */
import { heldSymbols, members, only, read, subset, whole } from "../mechanisms.js";
import { demand } from "../wire.js";

export function ssr({ schema, epsilon, options }) {
  const labels = schema.labels(options);
  const takes = { max_pairs: whole(1, schema.d), size: whole(1, labels.count * schema.d - 1), goal: only("both"), ...labels.takes };
  return subsetResponse({ schema, epsilon, labels, ...read(options, takes) });
}

/** Dummies fill up small records; they are not sent. */
export function subsetResponse({ schema, epsilon, labels, max_pairs: cap, size }) {
  const symbols = labels.count * schema.d;
  demand(symbols * cap <= 1 << 23, "device/limits");
  const channel = subset(symbols + cap, size, cap, epsilon);
  const respond = (pairs, word, coins) => {
    const held = heldSymbols(pairs, cap, labels, coins);
    for (let dummy = symbols; held.length < cap; dummy++) held.push(dummy);
    return channel.draw(held, coins).filter((symbol) => symbol < symbols);
  };
  return { cap, ratio: channel.ratio, codec: members(symbols, size, cap), respond };
}
