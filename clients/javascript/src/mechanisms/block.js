/** Block: the states of a few neighbouring keys at once, by randomised response over all their combinations. */
import { twoLevel } from "../channels.js";
import { symbol } from "../codecs.js";
import { roundTo } from "../labels.js";
import { read, whole, wrong } from "../options.js";
import { publicIndex } from "../words.js";

/** Randomised response over so many answers, of which the true one is drawn e^ε times as readily. */
export function oneOf(outputs, epsilon) {
  const channel = twoLevel(outputs, 1, epsilon);
  const draw = (truth, coins) => {
    const [hit, rank] = channel.draw(coins);
    return hit ? truth : rank + (rank >= truth ? 1 : 0);
  };
  return { ratio: channel.ratio, codec: symbol(outputs), draw };
}

export function block({ schema, epsilon, options }) {
  const { width, states } = read(options, { width: whole(1, Math.min(schema.d, 20)), states: whole(2, 5) });
  const cells = states ** width;
  if (cells > Math.min(1 << 20, Math.floor((1 << 23) / schema.d))) wrong("These are too many combinations to count.");
  const answer = oneOf(cells, epsilon);
  const respond = (pairs, word, coins) => {
    const [held, first] = [new Map(pairs), publicIndex(word, schema.d)];
    let cell = 0;
    for (let place = width - 1; place >= 0; place--) {
      const value = held.get((first + place) % schema.d);
      const state = value === undefined ? 0 : 1 + (states > 2 ? roundTo(value, states - 2, coins) : 0);
      cell = states * cell + state;
    }
    return answer.draw(cell, coins);
  };
  return { ratio: answer.ratio, codec: answer.codec, respond };
}
