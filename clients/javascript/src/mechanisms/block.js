/** Block: randomised response on the states of a few neighbouring keys at once. */
import { read, rule, whole } from "../mechanisms.js";
import { oneOf } from "../numbers.js";
import { GRID } from "../schema.js";
import { publicIndex } from "../wire.js";

export function block({ schema, epsilon, options }) {
  const { width, states } = read(options, { width: whole(1, Math.min(schema.d, 20)), states: whole(2, 5) });
  const cells = states ** width;
  rule(cells <= Math.min(1 << 20, Math.floor((1 << 23) / schema.d)));
  const answer = oneOf(cells, epsilon);
  const respond = (pairs, word, coins) => {
    const [held, first] = [new Map(pairs), publicIndex(word, schema.d)];
    let cell = 0;
    for (let place = width - 1; place >= 0; place--) {
      const value = held.get((first + place) % schema.d);
      cell = states * cell + (value === undefined ? 0 : 1 + roundTo(value, states - 2, coins));
    }
    return answer.draw(cell, coins);
  };
  return { ...answer, respond };
}

function roundTo(value, top, coins) {
  const [whole, rest] = [Math.floor(((GRID + value) * top) / (2 * GRID)), ((GRID + value) * top) % (2 * GRID)];
  return whole + Number(rest > 0 && coins.chance(rest, 2 * GRID));
}
