/** Apart: some people tell which keys they hold, the others what their values are, each with the whole ε. */
import { nested, sideBySide } from "../groups.js";
import { capped, only, read, rule, whole } from "../mechanisms.js";
import { exact, minus, ONE, some, stirred, STRIDE, twoLevel } from "../numbers.js";
import { GRID } from "../schema.js";
import { subsets } from "./ssr.js";

const VALUES = { unit: whole(1, 1024), weight: whole(0, 1024), radius: whole(1, 1 << 14), rows: whole(2, 256), marked: whole(1, 255) };

export async function apart(asked) {
  const { schema, options } = asked;
  const dense = options.mode === "dense";
  const { mode, typical, presence, set_sizes, expected, size, max_pairs, ...values } = read(options, {
    mode: only("sparse", "dense"),
    max_pairs: dense ? only(null) : whole(1, schema.d),
    ...{ typical: exact, presence: some, set_sizes: only(null), expected: only(null) },
    size: whole(1, schema.d),
    ...VALUES,
  });
  rule(schema.d > 1);
  const one = nested(asked);
  const who = await (dense ? one("block", { width: size, states: 2 }) : one("presence-group", { max_pairs, size }));
  const what = await one("value-projection", { max_pairs: max_pairs ?? schema.d, ...values });
  return sideBySide([[presence, who], [minus(ONE, presence), what]], asked, max_pairs ?? undefined);
}

export const presenceGroup = ({ schema, epsilon, options }) => {
  const chosen = read(options, { max_pairs: whole(1, schema.d), size: whole(1, schema.d - 1) });
  return subsets({ schema, epsilon, labels: { count: 1, draw: () => 0 }, ...chosen });
};

const FILLERS = 4; // coordinates that nobody reads; then the one that counts pairs, then the keys

/** One of some public directions, those along the vector of values e^ε times as readily. */
export function projection({ schema, epsilon, options }) {
  const { max_pairs: cap, rows, marked, ...scales } = read(options, { max_pairs: whole(1, schema.d), ...VALUES });
  whole(1, rows - 1)(marked);
  const channel = twoLevel(rows, marked, epsilon);
  const each = Math.ceil((FILLERS + 1 + schema.d) / 4);
  const respond = (pairs, word, coins) => {
    const vector = vectorOf(capped(pairs, cap, coins), scales);
    const [hit, rank] = channel.draw(coins);
    const along = Array.from({ length: rows }, (_, row) => inner(vector, word, row * each));
    const list = [...along.keys()].sort((a, b) => along[b] - along[a] || a - b);
    return list[hit ? rank : marked + rank];
  };
  return { ...channel, cap, respond };
}

/** [coordinate, number] each, cut or filled up to one length. */
function vectorOf(pairs, { unit, weight, radius }) {
  const squares = (list) => list.reduce((sum, one) => sum + one * one, 0);
  let numbers = [weight * pairs.length, ...pairs.map(([, value]) => Math.floor((2 * value * unit + GRID) / (2 * GRID)))];
  if (squares(numbers) > radius ** 2) {
    const length = Math.ceil(Math.sqrt(squares(numbers)));
    numbers = numbers.map((one) => Math.sign(one) * Math.floor((2 * Math.abs(one) * radius + length) / (2 * length)));
  }
  const filler = Math.floor(Math.sqrt(Math.floor(Math.max(radius ** 2 - squares(numbers), 0) / FILLERS)));
  const places = [FILLERS, ...pairs.map(([key]) => FILLERS + 1 + key)];
  return [...Array.from({ length: FILLERS }, (_, place) => [place, filler]), ...numbers.map((one, at) => [places[at], one])];
}

function inner(vector, word, first) {
  let [sum, bits] = [0, 0n];
  for (const [place, number] of vector) {
    if (!place || place >= FILLERS) bits = stirred(word + BigInt(first + (place >> 2) + 1) * STRIDE);
    let lane = Number((bits >> BigInt(16 * (place & 3))) & 0xffffn);
    let ones = -8;
    for (; lane; lane &= lane - 1) ones++;
    sum += ones * number;
  }
  return sum;
}
