/** WSR: one symbol of all pairs of key and label, or nothing; what a person holds weighs e^ε times as much. */
import { heldSymbols } from "../channels.js";
import { symbol } from "../codecs.js";
import { fraction, levels } from "../exact.js";
import { labelsOf } from "../labels.js";
import { agree, binned, orNothing, read, whole, wrong } from "../options.js";

export function wsr({ schema, epsilon, options }) {
  const weight = (value, name) => {
    if (!Array.isArray(value) || value.length !== schema.d) wrong(`${name} are one for each key.`);
    value.forEach((one) => whole(1, 1 << 20)(one, name));
    const [least, most] = [Math.min(...value), Math.max(...value)];
    const common = value.reduce((a, b) => (b ? gcd(b, a % b) : a));
    if (most > 1000 * least || most === 1 || common > 1) wrong(`${name} are unlike, without a common factor.`);
    return value;
  };
  const { max_pairs: cap, weights, ...rest } = read(options, {
    max_pairs: whole(1, schema.d),
    weights: orNothing(weight),
    ...binned(schema),
  });
  agree(rest);
  const labels = labelsOf(schema, rest.bins, rest.rounding);
  const beta = (weights ?? new Array(schema.d).fill(1)).map(BigInt);
  const sum = (list) => list.reduce((total, one) => total + one, 0n);
  const reserve = sum([...beta].sort((a, b) => (a < b ? 1 : a > b ? -1 : 0)).slice(0, cap));
  const [high, low] = levels(epsilon);
  const total = low * BigInt(labels.count) * sum(beta) + high * reserve;
  const respond = (pairs, word, coins) => {
    const held = heldSymbols(pairs, cap, labels, coins);
    const masses = held.map((one) => (high - low) * beta[Math.floor(one / labels.count)]);
    const everywhere = low * BigInt(labels.count) * sum(beta); // weight low·β on every symbol, the rest on nothing
    const layer = coins.choose([everywhere, ...masses, total - everywhere - sum(masses)]);
    if (layer === 0) return labels.count * coins.choose(beta) + coins.below(labels.count);
    return held[layer - 1] ?? labels.count * schema.d;
  };
  return { cap, ratio: fraction(high, low), codec: symbol(labels.count * schema.d + 1), respond };
}

const gcd = (a, b) => (b ? gcd(b, a % b) : a);
