/** Block: randomised response on the states of a few neighbouring keys at once. */
import { read, rule, whole } from "../mechanisms.js";
import { oneOf } from "../numbers.js";
import { GRID } from "../schema.js";
import { index } from "../wire.js";

export function block({ schema, epsilon, options }) {
  const { width: size, states } = read(options, { width: whole(1, Math.min(schema.d, 20)), states: whole(2, 5) });
  const cells = states ** size;
  rule(cells <= Math.min(1 << 20, Math.floor((1 << 23) / schema.d)));
  const channel = oneOf(cells, epsilon);
  const respond = (pairs, word, coins) => {
    const [held, first] = [new Map(pairs), index(word, schema.d)];
    let cell = 0;
    for (let place = size - 1; place >= 0; place--) {
      const value = held.get((first + place) % schema.d);
      cell = states * cell + (value === undefined ? 0 : 1 + roundTo(value, states - 2, coins));
    }
    return channel.draw(cell, coins);
  };
  return { ...channel, respond };
}

function roundTo(value, top, coins) {
  const [all, rest] = [Math.floor(((GRID + value) * top) / (2 * GRID)), ((GRID + value) * top) % (2 * GRID)];
  return all + Number(rest > 0 && coins.chance(rest, 2 * GRID));
}
