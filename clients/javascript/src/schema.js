/** What a record may hold: keys and ranges; a record becomes pairs [key, z] with z / 2^16 on [-1, 1]. */
import { hash } from "./canonical.js";
import { demand } from "./errors.js";
import { add, atMost, parse, subtract, text } from "./exact.js";

/** Values live on z / GRID with z from -GRID to GRID. */
export const GRID = 1 << 16;

const FIELDS = ["keys", "low", "high", "map", "other", "levels"];
const IGNORED = {
  record: "A record maps keys to numbers; this counts as empty.",
  unknown: "Nobody asks about this key: it counts as nothing.",
  unreadable: "This is no number: it counts as nothing.",
  clamped: "This lies outside the range, and counts as its end.",
  rounded: "This is rounded at random to one of two levels.",
};
const rule = (holds, code) => demand(holds, `schema/${code}`);
const float = (number) => Number(text(number));

/** Lists have one entry for all keys, or one for each. */
const of = (list, key) => list[list.length > 1 ? key : 0];

export class Schema {
  static async read(document) {
    rule(Object.keys(document).every((name) => FIELDS.includes(name)), "document");
    demand(document.map !== "linear", "campaign/document");
    return Object.assign(new Schema(document), { hash: await hash(document) });
  }

  constructor({ keys, low, high, map = "linear", other, levels }) {
    if (Array.isArray(keys)) rule(keys.length && keys.every((name) => typeof name === "string"), "name");
    else rule(Number.isSafeInteger(keys) && keys > 0, "keys");
    this.names = Array.isArray(keys) ? keys : Array.from({ length: keys }, (_, number) => `${number}`);
    if (other !== undefined && !this.names.includes(other)) {
      rule(this.names !== keys && typeof other === "string", "document");
      this.names.push(other);
    }
    this.d = this.names.length;
    this.places = new Map(this.names.map((name, place) => [name, place]));
    rule(this.places.size === this.d, "duplicate");
    this.other = this.places.get(other);
    const columns = [low, high, map].map((given) => {
      const each = Array.isArray(given);
      rule(!each || given.length === this.d, "length");
      rule(!each || given.some((entry) => entry !== given[0]), "document"); // equal ones are written once
      return each ? given : [given];
    });
    const rows = Math.max(...columns.map((column) => column.length));
    this.ranges = Array.from({ length: rows }, (_, row) => range(...columns.map((column) => of(column, row))));
    this.levels = levels === undefined ? [null] : this.#levels(levels);
    this.mostLevels = Math.max(...this.levels.map((row) => row?.length ?? 0));
  }

  /** One row if all are alike; null for a key that has none. */
  #levels(given) {
    const each = given.some((row) => row === null || Array.isArray(row));
    rule(!each || given.length === this.d, "length");
    return Array.from({ length: each ? this.d : this.ranges.length }, (_, key) => {
      const row = each ? given[key] : given;
      if (row === null) return null;
      const { low, high } = of(this.ranges, key);
      const placed = row.map((level) => this.#place(key, float(bound(level))));
      const rising = placed.every((z, at) => !at || z > placed[at - 1]);
      rule(row.length > 1 && row.length <= 256 && row[0] === low && row.at(-1) === high && rising, "levels");
      return placed;
    });
  }

  levelsOf(key) {
    return of(this.levels, key);
  }

  #place(key, value) {
    const { middle, half, scale } = of(this.ranges, key);
    const unit = (scale(value) - middle) / half;
    return rounded(Math.min(Math.max(unit, -1), 1) * GRID);
  }

  /** Nothing is raised, because a missing report would tell. */
  look(record) {
    const [pairs, ignored, entries] = [new Map(), [], entriesOf(record)];
    const note = (why, key = "") => ignored.push({ why, key: `${key}`.slice(0, 60), sentence: IGNORED[why] });
    if (!entries) note("record");
    for (const [key, given] of entries || []) {
      const named = ["string", "bigint"].includes(typeof key) || Number.isSafeInteger(key);
      const place = named ? (this.places.get(`${key}`) ?? this.other) : undefined;
      const value = ["number", "boolean", "bigint"].includes(typeof given) ? Number(given) : NaN;
      if (place === undefined) note("unknown", named ? key : typeof key);
      else if (!Number.isFinite(value)) note("unreadable", key);
      else {
        const [z, { low, high }] = [this.#place(place, value), of(this.ranges, place)];
        pairs.set(place, z);
        if (value < Number(low) || value > Number(high)) note("clamped", key);
        else if (this.levelsOf(place)?.includes(z) === false) note("rounded", key);
      }
    }
    return { pairs: [...pairs].sort((a, b) => a[0] - b[0]), ignored };
  }
}

/** Nothing for what is no record, or raises when it is looked at. */
function entriesOf(record) {
  try {
    return record instanceof Map ? [...record] : record && typeof record === "object" && !Array.isArray(record) && Object.entries(record);
  } catch {
    return null;
  }
}

/** Halves to the even one. */
export function rounded(number) {
  const [below, rest] = [Math.floor(number), number - Math.floor(number)];
  return below + Number(rest > 0.5 || (rest === 0.5 && below % 2 !== 0));
}

/** A whole number, or a decimal string, in its one spelling. */
function bound(given) {
  demand(given !== undefined, "campaign/document");
  const value = parse(given);
  const spelled = text(value);
  rule(!`${given}`.includes("/"), "range");
  demand(given === (/^-?\d{1,16}$/.test(spelled) && Number.isSafeInteger(Number(spelled)) ? Number(spelled) : spelled), "campaign/document");
  return value;
}

function range(low, high, map) {
  const ends = [low, high].map(bound);
  rule(!atMost(ends[1], ends[0]), "range");
  rule(["linear", "log"].includes(map), "map");
  rule(map === "linear" || ends[0][0] > 0n, "log");
  const scale = map === "log" ? (value) => (value > 0 ? Math.log(value) : -Infinity) : (value) => value;
  const [start, end] = ends.map((one) => scale(float(one)));
  const exactly = ([above, below]) => float([above, 2n * below]);
  const middle = map === "log" ? (start + end) / 2 : exactly(add(...ends));
  const half = map === "log" ? (end - start) / 2 : exactly(subtract(ends[1], ends[0]));
  rule(half > Math.abs(middle) * 2 ** -50 && Number.isFinite(half), "range");
  return { low, high, scale, middle, half };
}
