/** Apart: some people tell which keys they hold, the others what their values are, each with the whole ε. */
import { capped, twoLevel } from "../channels.js";
import { symbol } from "../codecs.js";
import { ONE, subtract } from "../exact.js";
import { presence } from "../labels.js";
import { exactly, only, read, whole, wrong } from "../options.js";
import { GRID } from "../schema.js";
import { subsetResponse } from "./ssr.js";
import { stirred } from "./topsel.js";

export function apart({ schema, options }) {
  const dense = options.mode === "dense";
  const { mode, typical, presence: share, set_sizes, expected, size, max_pairs, ...values } = read(options, {
    mode: only("sparse", "dense"),
    max_pairs: dense ? only(null) : whole(1, schema.d),
    typical: exactly,
    presence: exactly,
    set_sizes: only(null),
    expected: only(null),
    size: whole(1, schema.d),
    unit: whole(1, 1024),
    weight: whole(0, 1024),
    radius: whole(1, 1 << 14),
    rows: whole(2, 256),
    marked: whole(1, 255),
  });
  if (schema.d < 2) wrong("apart takes two keys or more.");
  const most = dense ? schema.d : max_pairs;
  const who = dense
    ? { name: "block", options: { width: size, states: 2 } }
    : { name: "presence-group", options: { max_pairs, size } };
  const what = { name: "value-projection", options: { max_pairs: most, ...values } };
  return { parts: [{ share, ...who }, { share: subtract(ONE, share), ...what }], cap: dense ? undefined : most };
}

/** The presence group: a subset of keys that meets the held ones e^ε times as readily. */
export const presenceGroup = ({ schema, epsilon, options }) =>
  subsetResponse({ schema, epsilon, labels: presence, ...read(options, { max_pairs: whole(1, schema.d), size: whole(1, schema.d) }) });

const FILLERS = 4; // coordinates that nobody reads; then the one that counts pairs, then the keys

/** The value group: one of some public directions, those that lie along the vector of values e^ε times as readily. */
export function valueProjection({ schema, epsilon, options }) {
  const { max_pairs: cap, unit, weight, radius, rows, marked } = read(options, {
    max_pairs: whole(1, schema.d),
    unit: whole(1, 1024),
    weight: whole(0, 1024),
    radius: whole(1, 1 << 14),
    rows: whole(2, 256),
    marked: whole(1, 255),
  });
  whole(1, rows - 1)(marked, "marked");
  const channel = twoLevel(rows, marked, epsilon);
  const perRow = Math.ceil((FILLERS + 1 + schema.d) / 4);
  const respond = (pairs, word, coins) => {
    const vector = vectorOf(capped(pairs, cap, coins), unit, weight, radius);
    const [hit, rank] = channel.draw(coins);
    const along = Array.from({ length: rows }, (_, row) => inner(vector, word, row * perRow));
    const order = along.map((_, row) => row).sort((a, b) => along[b] - along[a] || a - b);
    return order[hit ? rank : marked + rank];
  };
  return { cap, ratio: channel.ratio, codec: symbol(rows), respond };
}

/** The values of a record as a vector of whole numbers, cut or filled up to one length: [coordinate, number] each. */
function vectorOf(pairs, unit, weight, radius) {
  let control = weight * pairs.length;
  let numbers = pairs.map(([, value]) => Math.floor((2 * value * unit + GRID) / (2 * GRID)));
  const squares = () => numbers.reduce((sum, one) => sum + one * one, control * control);
  if (squares() > radius * radius) {
    const root = Math.floor(Math.sqrt(squares()));
    const length = Math.max(root + (root * root < squares() ? 1 : 0), 1);
    const cut = (part) => Math.sign(part) * Math.floor((2 * Math.abs(part) * radius + length) / (2 * length));
    [control, numbers] = [cut(control), numbers.map(cut)];
  }
  const filler = Math.floor(Math.sqrt(Math.floor(Math.max(radius * radius - squares(), 0) / FILLERS)));
  return [
    ...Array.from({ length: FILLERS }, (_, place) => [place, filler]),
    [FILLERS, control],
    ...pairs.map(([key], at) => [FILLERS + 1 + key, numbers[at]]),
  ];
}

/** The inner product of a vector with a public direction, whose coordinates are sums of sixteen bits less eight. */
function inner(vector, word, first) {
  let sum = 0;
  for (const [place, number] of vector) {
    const bits = stirred(word + BigInt(first + (place >> 2) + 1) * 0x9e3779b97f4a7c15n);
    let lane = Number((bits >> BigInt(16 * (place & 3))) & 0xffffn);
    let ones = -8;
    for (; lane; lane &= lane - 1) ones++;
    sum += ones * number;
  }
  return sum;
}
