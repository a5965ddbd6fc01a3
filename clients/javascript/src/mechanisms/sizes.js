/** Questions that tell of no key: how many pairs a record has, and how far above a cap. */
import { read, symbol, trueState, whole } from "../mechanisms.js";
import { chances, lies, oneOf } from "../numbers.js";
import { noisyBits } from "../sparse.js";
import { exp, SCALE } from "../wire.js";

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
  const few = BigInt(most - 1) << 64n < 3n * exp(epsilon);
  const made = (few ? oneOf : unary)(most + 1, epsilon);
  return { ...made, respond: (pairs, word, coins) => made.draw(Math.min(pairs.length, most), coins) };
}

function unary(states, epsilon) {
  const [lie, half] = [lies(epsilon), SCALE / 2n];
  const draw = (truth, coins) => {
    const bits = chances(coins, lie, SCALE, states - 1); // of all other answers, then of the true one
    bits.splice(truth, 0, ...chances(coins, half, SCALE, 1));
    return bits.map(Number);
  };
  const ones = [half + BigInt(states - 1) * lie, SCALE];
  return { ratio: [SCALE - lie, lie], codec: noisyBits(states, ones), draw };
}
