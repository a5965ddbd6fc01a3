/** PCKV: one sampled pair of a padded record; its key and sign are perturbed together (Gu et al. 2020). */
import { only, read, rule, symbol, whole } from "../mechanisms.js";
import { atMost, chances, lies, tightest, up } from "../numbers.js";
import { signs } from "../schema.js";
import { labelledKeys } from "../sparse.js";
import { exp, levels, parse, SCALE, text } from "../wire.js";

const LEAST = parse("0.001"); // ε that a key or a value is left with

function sampled({ schema, epsilon, options }) {
  const { max_pairs: cap, split, value_epsilon: given } = read(options, {
    max_pairs: whole(1, schema.d),
    split: only("tight", "paper"),
    estimator: only("unbiased", "published"),
    value_epsilon: (value) => (value === undefined ? null : (rule(text(parse(value)) === value), parse(value))),
  });
  const tight = split === "tight";
  const sign = given ?? (tight ? epsilon : epsilon / 2n);
  rule(given === null || given >= LEAST);
  rule(sign <= (tight ? epsilon : epsilon - LEAST));
  return { cap, tight, given, sign, sample: (pairs, coins) => pairs[coins.below(Math.max(pairs.length, cap))] };
}

export function pckvGrr(asked) {
  const [{ schema, epsilon }, { cap, tight, given, sign, sample }] = [asked, sampled(asked)];
  const size = BigInt(cap);
  const ratio = ([own, lie, low]) => {
    const others = (size - 1n) * low;
    return [own + others, (lie < low ? lie : low) + others];
  };
  const weights = () => {
    if (tight && !given) return [((1n << 64n) + size * (exp(epsilon) - (1n << 64n))) >> 32n, SCALE, SCALE];
    const [truth] = levels(sign);
    if (tight) return [truth, SCALE, tightest((low) => ratio([truth, SCALE, low]), epsilon, 1n, truth)];
    const [key, mine] = [exp(epsilon - sign), exp(sign)];
    const below = (mine + (1n << 64n)) << 32n;
    return [(2n * key * mine) / below, up(2n * key << 64n, below), SCALE];
  };
  const [own, lie, low] = weights();
  const none = 2 * schema.d;
  const respond = (pairs, word, coins) => {
    const pair = sample(pairs, coins);
    const input = pair ? 2 * pair[0] + signs.draw(pair[1], coins) : none;
    const [run, rank] = coins.pick([[1, own], [1, lie], [2 * (schema.d + cap - 1), low]]);
    return Math.min([input, input ^ 1, rank + (rank >= (input & ~1) ? 2 : 0)][run], none);
  };
  return { cap, ratio: ratio([own, lie, low]), codec: symbol(none + 1), respond };
}

/** PCKV-UE: every key says plus, minus or nothing; the sampled one leans to its truth. */
export function pckvUe(asked) {
  const [{ schema, epsilon }, { cap, tight, sign, sample }] = [asked, sampled(asked)];
  const lie = lies(sign);
  const truth = [SCALE, lie, SCALE - lie];
  const ratio = (fake) => {
    const list = [2n * (SCALE - fake), fake, fake].map((cold, at) => [truth[at], cold]);
    const [none, unlikely, likely] = list;
    const least = atMost(unlikely, none) ? unlikely : none;
    return [likely[0] * least[1], likely[1] * least[0]];
  };
  const fake = tight ? tightest(ratio, epsilon, 1n, SCALE / 2n) : lies(epsilon - sign);
  const respond = (pairs, word, coins) => {
    const pair = sample(pairs, coins);
    const plus = pair && signs.draw(pair[1], coins);
    const own = pair ? coins.choose(plus ? truth : [truth[0], truth[2], truth[1]]) : 0;
    const others = [...Array(schema.d).keys()].filter((key) => key !== pair?.[0]);
    const speaks = chances(coins, 2n * fake, 2n * SCALE, others.length);
    const keys = others.filter((_, at) => speaks[at]);
    const signed = chances(coins, 1n, 2n, keys.length);
    const said = keys.map((key, at) => 2 * key + Number(signed[at]));
    return (own ? [...said, 2 * pair[0] + own - 1] : said).sort((a, b) => a - b);
  };
  const share = Number(fake) / Number(SCALE);
  return { cap, ratio: ratio(fake), codec: labelledKeys(schema.d, 2, share), respond };
}
