/** What a record may hold: keys and ranges; a record becomes pairs [key, z] with z / 2^16 on [-1, 1]. */
import { hash } from "./canonical.js";
import { demand } from "./errors.js";
import { compare, parse, text } from "./exact.js";

/** Values live on z / GRID with z from -GRID to GRID. */
export const GRID = 1 << 16;

const FIELDS = ["keys", "low", "high", "map", "other", "levels"];
const rule = (holds, code, sentence) => demand(holds, `schema/${code}`, sentence);

export class Schema {
  /** From the complete document of a schema, in its one spelling. */
  static async read(document) {
    const known = document && Object.keys(document).every((name) => FIELDS.includes(name));
    rule(known, "document", `This device knows schemas of ${FIELDS.join(", ")}.`);
    demand(document.map !== "linear", "campaign/document");
    const made = new Schema(document);
    made.hash = await hash(document);
    return made;
  }

  constructor({ keys, low, high, map = "linear", other, levels }) {
    const named = Array.isArray(keys);
    if (named) rule(keys.length && keys.every((name) => typeof name === "string"), "name");
    else rule(Number.isSafeInteger(keys) && keys > 0, "keys");
    this.names = named ? keys : Array.from({ length: keys }, (_, number) => `${number}`);
    if (other !== undefined && !this.names.includes(other)) {
      rule(!named && typeof other === "string", "document");
      this.names = [...this.names, other];
    }
    this.d = this.names.length;
    this.places = new Map(this.names.map((name, place) => [name, place]));
    rule(this.places.size === this.d, "duplicate");
    this.other = this.places.get(other);
    const columns = [this.#column(low, bound), this.#column(high, bound), this.#column(map, (name) => name)];
    const rows = Math.max(...columns.map((column) => column.length));
    this.ranges = Array.from({ length: rows }, (_, row) => range(...columns.map((column) => of(column, row))));
    this.levels = levels === undefined ? [null] : this.#levels(levels);
    this.mostLevels = Math.max(...this.levels.map((row) => row?.length ?? 0));
  }

  /** One entry for all keys, or one for each; equal entries are written once. */
  #column(given, take) {
    const each = Array.isArray(given);
    rule(!each || given.length === this.d, "length");
    rule(!each || given.some((entry) => entry !== given[0]), "document");
    return (each ? given : [given]).map(take);
  }

  /** The levels of each key on the grid, one row if all are alike; null for a key that has none. */
  #levels(given) {
    const each = given.some((row) => row === null || Array.isArray(row));
    rule(!each || given.length === this.d, "length");
    return Array.from({ length: each ? this.d : this.ranges.length }, (_, key) => {
      const row = each ? given[key] : given;
      if (row === null) return null;
      const ends = row.length > 1 && row.length <= 256 && [row[0], row.at(-1)].map(bound);
      const { low, high } = of(this.ranges, key);
      rule(ends && !compare(ends[0], low) && !compare(ends[1], high), "levels");
      const placed = row.map((level) => this.#place(key, float(bound(level))));
      rule(placed.every((z, at) => !at || z > placed[at - 1]), "levels");
      return placed;
    });
  }

  /** The levels of a key on the grid, if it has some. */
  levelsOf(key) {
    return of(this.levels, key);
  }

  #place(key, value) {
    const { middle, half, scale } = of(this.ranges, key);
    const unit = (scale(value) - middle) / half;
    return unit <= -1 ? -GRID : unit >= 1 ? GRID : rounded(unit * GRID);
  }

  /** The pairs of any record that count, and what does not; nothing is raised, because a missing report would tell. */
  look(record) {
    const [pairs, ignored] = [new Map(), []];
    const note = (why, key, sentence) => ignored.push({ why, key, sentence });
    for (const [key, given] of entriesOf(record) ?? [[Symbol()]]) {
      const name = ["string", "bigint"].includes(typeof key) || Number.isSafeInteger(key) ? `${key}` : null;
      const [place, shown] = [name === null ? undefined : (this.places.get(name) ?? this.other), `${name}`.slice(0, 60)];
      const value = ["number", "boolean", "bigint"].includes(typeof given) ? Number(given) : NaN;
      if (typeof key === "symbol") note("record", "", "A record maps keys to numbers; this counts as empty.");
      else if (place === undefined) note("unknown", shown, `Nobody asks about '${shown}': it counts as nothing.`);
      else if (!Number.isFinite(value)) note("unreadable", shown, `'${shown}' has no number: it counts as nothing.`);
      else {
        const z = this.#place(place, value);
        const { low, high } = of(this.ranges, place);
        const nearest = Math.min(Math.max(value, float(low)), float(high));
        pairs.set(place, z);
        if (nearest !== value) note("clamped", shown, `'${shown}' counts as ${nearest}.`);
        else if (this.levelsOf(place)?.includes(z) === false)
          note("rounded", shown, `'${shown}' is rounded at random to one of two levels.`);
      }
    }
    return { pairs: [...pairs].sort((a, b) => a[0] - b[0]), ignored };
  }
}

/** The entries of a Map or an object; nothing for what is no record, or raises when it is looked at. */
function entriesOf(record) {
  try {
    if (record instanceof Map) return [...record];
    return record && typeof record === "object" && !Array.isArray(record) ? Object.entries(record) : null;
  } catch {
    return null;
  }
}

/** The entry of a key in a list that has one for all keys, or one for each. */
const of = (list, key) => list[list.length > 1 ? key : 0];

const float = (number) => Number(text(number));

/** To the nearest whole number; halves to the even one. */
export function rounded(number) {
  const [below, rest] = [Math.floor(number), number - Math.floor(number)];
  return below + Number(rest > 0.5 || (rest === 0.5 && below % 2 !== 0));
}

/** A bound of values: a whole number, or a decimal string, in its one spelling. */
function bound(given) {
  demand(given !== undefined, "campaign/document");
  rule(!`${given}`.includes("/"), "range");
  const value = parse(given);
  const whole = value[1] === 1n && Math.abs(Number(value[0])) <= 2 ** 53;
  demand(given === (whole ? Number(value[0]) : text(value)), "campaign/document");
  return value;
}

function range(low, high, map) {
  rule(compare(low, high) < 0, "range");
  rule(["linear", "log"].includes(map), "map");
  const scale = map === "log" ? (value) => (value > 0 ? Math.log(value) : -Infinity) : (value) => value;
  rule(map !== "log" || low[0] > 0n, "log");
  const half = (sign) => {
    const [above, below] = [high[0] * low[1] + sign * low[0] * high[1], 2n * high[1] * low[1]];
    const logarithm = (scale(float(high)) + Number(sign) * scale(float(low))) / 2;
    return map === "log" ? logarithm : float([above, below]);
  };
  const [middle, width] = [half(1n), half(-1n)];
  rule(width > Math.abs(middle) * 2 ** -50 && Number.isFinite(width), "range");
  return { low, high, scale, middle, half: width };
}
