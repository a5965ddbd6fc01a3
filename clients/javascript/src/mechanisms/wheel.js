/** Wheel: a cell of a circle on which each held symbol covers an arc; covered cells weigh e^ε times as much. */
import { heldSymbols, only, read, symbol, whole } from "../mechanisms.js";
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
    const starts = heldSymbols(pairs, cap, signs, coins).map((one) => hashSymbol(word, one, cells)).sort((a, b) => a - b);
    if (!starts.length) return coins.below(cells);
    const gaps = starts.map((start, at) => (starts[at + 1] ?? starts[0] + cells) - start);
    const covered = gaps.map((gap) => Math.min(arc, gap));
    const sum = (list) => list.reduce((whole, one) => whole + one);
    const inside = coins.chance(BigInt(sum(covered)) * high, total);
    const rooms = inside ? covered : gaps.map((gap, at) => gap - covered[at]);
    let rank = coins.below(sum(rooms));
    const at = rooms.findIndex((room) => rank < room || ((rank -= room), false));
    return (starts[at] + rank + (inside ? 0 : covered[at])) % cells;
  };
  return { cap, ratio: [high, low], codec: symbol(cells), respond };
}
