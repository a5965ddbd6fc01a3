/** How many pairs a record has, and how far above a cap: questions that tell of no key. */
import { read, symbol, trueState, whole } from "../mechanisms.js";
import { chances, lieThreshold, oneOf } from "../numbers.js";
import { noisyBits } from "../sparse.js";
import { expFloor, RESOLUTION } from "../wire.js";

export function overflow({ schema, epsilon, options }) {
  const { max_pairs: cap } = read(options, { max_pairs: whole(1, schema.d - 1) });
  const channel = trueState(3, epsilon);
  const respond = (pairs, word, coins) => {
    const surplus = Math.min(Math.max(pairs.length - cap, 0), 2 * cap);
    const far = coins.chance(surplus, 2 * cap);
    return channel.draw(surplus ? 1 + Number(far) : 0, coins);
  };
  return { ratio: channel.ratio, codec: symbol(3), respond };
}

/** The size question of a pilot; `most` stands for itself and all above. */
export function setSize({ schema, epsilon, options }) {
  const { most } = read(options, { most: whole(1, schema.d) });
  const few = BigInt(most - 1) << 64n < 3n * expFloor(epsilon);
  const oracle = (few ? oneOf : unary)(most + 1, epsilon);
  return { ...oracle, respond: (pairs, word, coins) => oracle.draw(Math.min(pairs.length, most), coins) };
}

function unary(outputs, epsilon) {
  const [lie, half] = [lieThreshold(epsilon), RESOLUTION / 2n];
  const draw = (truth, coins) => {
    const bits = chances(coins, lie, RESOLUTION, outputs - 1); // of all other answers, then of the true one
    bits.splice(truth, 0, ...chances(coins, half, RESOLUTION, 1));
    return bits.map(Number);
  };
  const ones = [half + BigInt(outputs - 1) * lie, RESOLUTION];
  return { ratio: [RESOLUTION - lie, lie], codec: noisyBits(outputs, ones), draw };
}
