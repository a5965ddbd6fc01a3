/** SSR: a set of symbols that meets what a person holds e^ε times as readily as one that does not. */
import { members, only, read, subset, symbolsOf, whole } from "../mechanisms.js";
import { must } from "../wire.js";

export function ssr({ schema, epsilon, options }) {
  const labels = schema.labels(options);
  const takes = { max_pairs: whole(1, schema.d), size: whole(1, labels.count * schema.d - 1), goal: only("both"), ...labels.takes };
  return subsets({ schema, epsilon, labels, ...read(options, takes) });
}

/** Dummies fill up small records; they are not sent. */
export function subsets({ schema, epsilon, labels, max_pairs: cap, size }) {
  const symbols = labels.count * schema.d;
  must(symbols * cap <= 1 << 23, "device/limits");
  const channel = subset(symbols + cap, size, cap, epsilon);
  const respond = (pairs, word, coins) => {
    const held = symbolsOf(pairs, cap, labels, coins);
    while (held.length < cap) held.push(symbols + held.length);
    return channel.draw(held, coins).filter((one) => one < symbols);
  };
  return { cap, ratio: channel.ratio, codec: members(symbols, size, cap), respond };
}
