/** What a record may hold: keys and ranges; a record becomes pairs [key, z] with z / 2^16 on [-1, 1]. */
import { hash } from "./canonical.js";
import { refuse } from "./errors.js";
import { add, compare, divide, fraction, parse, spelled, subtract, text } from "./exact.js";

/** Values live on z / GRID with z from -GRID to GRID. */
export const GRID = 1 << 16;

const FIELDS = ["keys", "low", "high", "map", "other", "levels"];
const wrong = (code, sentence) => refuse(`schema/${code}`, sentence);

/** @typedef {{why: string, key: string, sentence: string}} Ignored a part of a record that does not count as it is */
/** @typedef {[number, number][]} Pairs */

export class Schema {
  /** From the complete document of a schema, in its one spelling. @returns {Promise<Schema>} */
  static async read(document) {
    const made = new Schema(document);
    made.hash = await hash(document);
    return made;
  }

  constructor(document) {
    if (!document || Object.keys(document).some((name) => !FIELDS.includes(name)))
      wrong("document", "This device knows schemas of keys, low, high, map, other and levels.");
    this.hash = "";
    this.other = document.other ?? null;
    const { keys } = document;
    if (Array.isArray(keys)) {
      if (!keys.length || keys.some((name) => typeof name !== "string")) wrong("name", "Key names are strings.");
      this.names = keys;
      if (this.other !== null && !keys.includes(this.other)) wrong("document", "The key for all others is a key.");
    } else {
      if (!Number.isSafeInteger(keys) || keys < 1) wrong("keys", "Keys are a list of names or a count.");
      this.names = Array.from({ length: keys }, (_, number) => String(number));
      if (this.other !== null && !this.names.includes(this.other)) this.names.push(this.other);
    }
    /** @type {Map<string, number>} */
    this.places = new Map(this.names.map((name, place) => [name, place]));
    if (this.places.size < this.names.length) wrong("duplicate", "A key is listed more than once.");
    this.d = this.names.length;
    const [low, high] = [this._each(document.low, bound), this._each(document.high, bound)];
    const maps = this._each(document.map ?? "linear", known);
    if (document.map === "linear") wrong("map", "The usual map is not named.");
    const rows = Math.max(low.length, high.length, maps.length);
    const at = (list, row) => list[list.length === 1 ? 0 : row];
    this.ranges = Array.from({ length: rows }, (_, row) => range(at(low, row), at(high, row), at(maps, row)));
    /** @type {(number[] | null)[]} the levels of each key on the grid, one row if all are alike */
    this.levels = this._levels(document.levels ?? null);
    this.mostLevels = Math.max(...this.levels.map((row) => row?.length ?? 0));
  }

  /** One entry for all keys, or one for each; equal entries are one entry. */
  _each(given, take) {
    if (!Array.isArray(given)) return [take(given)];
    if (given.length !== this.d) wrong("length", `${given.length} ranges or maps are given for ${this.d} keys.`);
    if (given.every((entry) => entry === given[0])) wrong("document", "Equal ranges of all keys are written once.");
    return given.map(take);
  }

  _levels(given) {
    if (given === null) return [null];
    const alike = !given.some((row) => row === null || Array.isArray(row));
    const rows = alike ? [given] : given;
    if (!alike && rows.length !== this.d) wrong("length", "Levels are given for all keys or for each.");
    const one = alike && this.ranges.length === 1;
    return Array.from({ length: one ? 1 : this.d }, (_, key) => {
      const row = rows[alike ? 0 : key];
      if (row === null) return null;
      if (row.length < 2 || row.length > 256) wrong("levels", "A key has from 2 to 256 levels.");
      const exact = row.map(bound);
      const { low, high } = this.range(key);
      if (compare(exact[0], low) || compare(exact[exact.length - 1], high))
        wrong("levels", "A range reaches from the lowest to the highest level.");
      const placed = exact.map((level) => this._place(key, Number(text(level))));
      if (placed.some((z, at) => at && z <= placed[at - 1])) wrong("levels", "Levels rise and can be told apart.");
      return placed;
    });
  }

  range(key) {
    return this.ranges[this.ranges.length === 1 ? 0 : key];
  }

  /** The levels of a key on the grid, if it has some. */
  levelsOf(key) {
    return this.levels[this.levels.length === 1 ? 0 : key];
  }

  _place(key, value) {
    const { middle, half, logarithmic } = this.range(key);
    const unit = ((logarithmic ? (value > 0 ? Math.log(value) : -Infinity) : value) - middle) / half;
    return unit <= -1 ? -GRID : unit >= 1 ? GRID : rounded(unit * GRID);
  }

  /**
   * What counts of any record, and what does not; nothing is raised, because a missing report would tell.
   * @returns {{pairs: Pairs, ignored: Ignored[]}}
   */
  look(record) {
    /** @type {Ignored[]} */
    const ignored = [];
    const pairs = new Map();
    let entries;
    try {
      entries = record instanceof Map ? [...record] : isRecord(record) ? Object.entries(record) : null;
    } catch {
      entries = null;
    }
    if (!entries)
      return { pairs: [], ignored: [{ why: "record", key: "", sentence: "A record maps keys to numbers; this counts as empty." }] };
    for (const [key, given] of entries) {
      const name = typeof key === "string" ? key : Number.isSafeInteger(key) || typeof key === "bigint" ? String(key) : null;
      const known = name === null ? undefined : this.places.get(name);
      const place = known ?? (name === null || this.other === null ? undefined : this.places.get(this.other));
      const value = ["number", "boolean", "bigint"].includes(typeof given) ? Number(given) : NaN;
      const shown = String(name ?? typeof key).slice(0, 60);
      const note = (why, sentence) => ignored.push({ why, key: shown, sentence });
      if (place === undefined) note("unknown", `The campaign does not ask about '${shown}'; that counts as nothing.`);
      else if (!Number.isFinite(value)) note("unreadable", `The value of '${shown}' is no number; that counts as nothing.`);
      else {
        pairs.set(place, this._place(place, value));
        const [low, high] = [this.range(place).low, this.range(place).high].map((end) => Number(text(end)));
        if (value < low || value > high) note("clamped", `The value of '${shown}' counts as ${value < low ? low : high}.`);
        else if (this.levelsOf(place)?.includes(pairs.get(place)) === false)
          note("rounded", `The value of '${shown}' is rounded at random to one of two levels.`);
      }
    }
    return { pairs: [...pairs].sort((a, b) => a[0] - b[0]), ignored };
  }
}

const isRecord = (given) => typeof given === "object" && given !== null && !Array.isArray(given);

/** To the nearest whole number; halves to the even one. */
export function rounded(number) {
  const below = Math.floor(number);
  const rest = number - below;
  return rest < 0.5 || (rest === 0.5 && below % 2 === 0) ? below : below + 1;
}

function bound(given) {
  if (given === undefined) refuse("campaign/document", "A complete schema has both bounds of its range.");
  const value = typeof given === "string" && given.includes("/") ? wrong("range", "A bound is a decimal.") : parse(given);
  if (spelled(value) !== given) refuse("campaign/document", "A bound of the value range has one spelling.");
  return value;
}

function known(given) {
  return given === "linear" || given === "log" ? given : wrong("map", "There are the maps linear and log.");
}

function range(low, high, map) {
  if (compare(low, high) >= 0) wrong("range", `Low (${text(low)}) must be below high (${text(high)}).`);
  if (map === "log" && low[0] <= 0n) wrong("log", "A logarithmic range must begin above 0.");
  const two = fraction(2);
  const [start, end] = [low, high].map((one) => Math.log(Number(text(one))));
  const middle = map === "log" ? (start + end) / 2 : Number(text(divide(add(low, high), two)));
  const half = map === "log" ? (end - start) / 2 : Number(text(divide(subtract(high, low), two)));
  if (!(half > Math.abs(middle) * 2 ** -50) || !Number.isFinite(half)) wrong("range", "Doubles cannot resolve the range.");
  return { low, high, middle, half, logarithmic: map === "log" };
}
