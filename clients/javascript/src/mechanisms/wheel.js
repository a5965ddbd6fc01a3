/** Wheel: a cell of a circle on which each held symbol covers an arc; covered cells weigh e^ε times as much. */
import { only, read, symbol, symbolsOf, whole } from "../mechanisms.js";
import { hashSymbol } from "../numbers.js";
import { signs } from "../schema.js";
import { levels } from "../wire.js";

const CIRCLES = Array.from({ length: 15 }, (_, power) => 4 << power);

export function wheel({ schema, epsilon, options }) {
  const takes = { max_pairs: whole(1, schema.d), cells: only(...CIRCLES), arc: whole(1, 1 << 16) };
  const { max_pairs: cap, cells, arc } = read(options, takes);
  whole(1, Math.floor((cells - 1) / cap))(arc);
  const [high, low] = levels(epsilon);
  const reserve = BigInt(cap * arc);
  const total = reserve * high + (BigInt(cells) - reserve) * low;
  const respond = (pairs, word, coins) => {
    const places = symbolsOf(pairs, cap, signs, coins).map((one) => hashSymbol(word, one, cells)).sort((a, b) => a - b);
    if (!places.length) return coins.below(cells);
    const gaps = places.map((start, at) => (places[at + 1] ?? places[0] + cells) - start);
    const covered = gaps.map((gap) => Math.min(arc, gap));
    const sum = (list) => list.reduce((sum, one) => sum + one);
    const inside = coins.chance(BigInt(sum(covered)) * high, total);
    const rooms = inside ? covered : gaps.map((gap, at) => gap - covered[at]);
    let rank = coins.below(sum(rooms));
    const at = rooms.findIndex((one) => rank < one || ((rank -= one), false));
    return (places[at] + rank + (inside ? 0 : covered[at])) % cells;
  };
  return { cap, ratio: [high, low], codec: symbol(cells), respond };
}
