/** WSR: one symbol of all pairs of key and label, or nothing; what a person holds weighs e^ε times as much. */
import { read, rule, symbol, symbolsOf, whole } from "../mechanisms.js";
import { gcd } from "../numbers.js";
import { levels } from "../wire.js";

export function wsr({ schema, epsilon, options }) {
  const labels = schema.labels(options);
  const { max_pairs: cap, weights } = read(options, { max_pairs: whole(1, schema.d), weights: weighed(schema), ...labels.takes });
  const beta = (weights ?? Array(schema.d).fill(1)).map(BigInt);
  const sum = (list) => list.reduce((sum, one) => sum + one, 0n);
  const reserve = sum([...beta].sort((a, b) => Number(b - a)).slice(0, cap));
  const [high, low] = levels(epsilon);
  const everywhere = low * BigInt(labels.count) * sum(beta);
  const respond = (pairs, word, coins) => {
    const held = symbolsOf(pairs, cap, labels, coins);
    const weights = held.map((one) => (high - low) * beta[Math.floor(one / labels.count)]);
    const run = coins.choose([everywhere, ...weights, high * reserve - sum(weights)]);
    if (run === 0) return labels.count * coins.choose(beta) + coins.below(labels.count);
    return held[run - 1] ?? labels.count * schema.d;
  };
  return { cap, ratio: [high, low], codec: symbol(labels.count * schema.d + 1), respond };
}

/** Not all alike, and without a common factor. */
const weighed = ({ d }) => (value) => {
  if (value === null) return null;
  rule(Array.isArray(value) && value.length === d);
  value.forEach(whole(1, 1 << 20));
  const [least, most] = [Math.min(...value), Math.max(...value)];
  rule(most <= 1000 * least && most > 1 && value.reduce(gcd) === 1);
  return value;
};
