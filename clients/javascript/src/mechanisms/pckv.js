/** PCKV: one sampled pair of a padded record; its key and sign are perturbed together (Gu et al. 2020). */
import { labelledKeys, symbol } from "../codecs.js";
import { ceilDivide, compare, divide, expFloor, fraction, levels, lieThreshold, RESOLUTION, subtract, tightest } from "../exact.js";
import { signs } from "../labels.js";
import { exactly, only, read, unsaid, whole, wrong } from "../options.js";

function sampled({ schema, epsilon, options }) {
  const chosen = read(options, {
    max_pairs: whole(1, schema.d),
    split: only("tight", "paper"),
    estimator: only("unbiased", "published"),
    value_epsilon: unsaid(exactly),
  });
  const tight = chosen.split === "tight";
  const least = fraction(1, 1000);
  const sign = chosen.value_epsilon ?? (tight ? epsilon : divide(epsilon, fraction(2)));
  if (compare(sign, least) < 0 && chosen.value_epsilon) wrong("value_epsilon leaves nothing for the value.");
  if (compare(sign, tight ? epsilon : subtract(epsilon, least)) > 0) wrong("value_epsilon leaves nothing for the key.");
  const sample = (pairs, coins) => pairs[coins.below(Math.max(pairs.length, chosen.max_pairs))] ?? null;
  return { ...chosen, tight, sign, sample, cap: chosen.max_pairs };
}

/** PCKV-GRR: one symbol out of all keys and dummies, with a sign. */
export function pckvGrr(asked) {
  const { cap, tight, sign, sample, value_epsilon: given } = sampled(asked);
  const { schema, epsilon } = asked;
  const keys = schema.d + cap;
  const places = BigInt(cap);
  const ratio = ([own, lie, low]) => {
    const blanket = (places - 1n) * low;
    return fraction(own + blanket, (lie < low ? lie : low) + blanket);
  };
  const weights = () => {
    if (tight && given === null) {
      const sharp = (1n << 64n) + places * (expFloor(epsilon) - (1n << 64n));
      return [sharp >> 32n, RESOLUTION, RESOLUTION];
    }
    const [truth] = levels(sign);
    if (tight) return [truth, RESOLUTION, tightest((low) => ratio([truth, RESOLUTION, low]), epsilon, 1n, truth)];
    const [key, own] = [expFloor(subtract(epsilon, sign)), expFloor(sign)]; // both signs share the weight of the key
    const below = (own + (1n << 64n)) << 32n;
    return [(2n * key * own) / below, ceilDivide(2n * key << 64n, below), RESOLUTION];
  };
  const [own, lie, low] = weights();
  const none = 2 * schema.d; // the symbol that stands for all dummies
  const respond = (pairs, word, coins) => {
    const pair = sample(pairs, coins);
    const input = pair ? 2 * pair[0] + signs.draw(pair[1], coins, pair[0]) : none;
    const [run, rank] = coins.pick([[1, own], [1, lie], [2 * keys - 2, low]]);
    return Math.min([input, input ^ 1, rank + (rank >= (input & ~1) ? 2 : 0)][run], none);
  };
  return { cap, readings: ["estimator"], ratio: ratio([own, lie, low]), codec: symbol(none + 1), respond };
}

/** PCKV-UE: every key says plus, minus or nothing; the sampled one leans to its truth. */
export function pckvUe(asked) {
  const { cap, tight, sign, sample } = sampled(asked);
  const { schema, epsilon } = asked;
  const lie = lieThreshold(sign);
  const factor = (fake) => [
    [2n * (RESOLUTION - fake), fake, fake],
    [RESOLUTION, RESOLUTION - lie, lie],
    [RESOLUTION, lie, RESOLUTION - lie],
  ];
  const ratioOf = ([cold, , plus]) => {
    const [silent, unlikely, likely] = plus.map((own, at) => fraction(own, cold[at]));
    return divide(likely, compare(unlikely, silent) < 0 ? unlikely : silent);
  };
  const fake = tight
    ? tightest((low) => ratioOf(factor(low)), epsilon, 1n, RESOLUTION / 2n)
    : lieThreshold(subtract(epsilon, sign));
  const rows = factor(fake);
  const respond = (pairs, word, coins) => {
    const pair = sample(pairs, coins);
    const own = pair ? coins.choose(rows[1 + signs.draw(pair[1], coins, pair[0])]) : 0;
    const others = Array.from({ length: schema.d }, (_, key) => key).filter((key) => key !== pair?.[0]);
    const speaks = coins.chances(2n * fake, 2n * RESOLUTION, others.length);
    const keys = others.filter((_, at) => speaks[at]);
    const plus = coins.chances(1n, 2n, keys.length);
    const said = [...keys.map((key, at) => 2 * key + (plus[at] ? 1 : 0)), ...(pair && own ? [2 * pair[0] + own - 1] : [])];
    return said.sort((a, b) => a - b);
  };
  const share = Number(fake) / Number(RESOLUTION);
  return { cap, readings: ["estimator"], ratio: ratioOf(rows), codec: labelledKeys(schema.d, 2, share), respond };
}
