/** How many pairs a record has, and how far above a cap: questions that tell of no key. */
import { read, symbol, trueState, whole } from "../mechanisms.js";
import { chances, lieThreshold, oneOf } from "../numbers.js";
import { noisyBits } from "../sparse.js";
import { expFloor, RESOLUTION } from "../wire.js";

export function overflow({ schema, epsilon, options }) {
  const { max_pairs: cap, reach } = read(options, {
    max_pairs: whole(1, schema.d - 1),
    ...("reach" in options && { reach: whole(2 * options.max_pairs + 1, schema.d) }),
  });
  const steps = [[0, 2 * cap], ...(reach ? [[2 * cap, reach]] : [])];
  const channel = trueState(2 + steps.length, epsilon);
  const respond = (pairs, word, coins) => {
    const surplus = Math.max(pairs.length - cap, 0);
    let state = Number(surplus > 0);
    for (const [low, high] of steps) state += Number(coins.chance(Math.min(Math.max(surplus - low, 0), high - low), high - low));
    return channel.draw(state, coins);
  };
  return { ratio: channel.ratio, codec: symbol(2 + steps.length), respond };
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
