/** Days in their one spelling, such as 2026-11-20, and periods of them; all of them UTC. */
const DAY = 864e5; // milliseconds
const [FIRST, LAST] = ["0001-01-01", "9999-12-31"].map(Date.parse);

const spelled = (moment) => new Date(Math.min(Math.max(moment, FIRST), LAST)).toISOString().slice(0, 10);

export const isDay = (given) => /^\d{4}-\d\d-\d\d$/.test(given) && !isNaN(Date.parse(given)) && spelled(Date.parse(given)) === given;

/** Days from one day to another. */
export const daysBetween = (first, last) => Math.round((Date.parse(last) - Date.parse(first)) / DAY);

/** The day so many days after another, within the years 1 to 9999. */
export const dayAfter = (day, count) => spelled(Date.parse(day) + count * DAY);

/** The period of a day under the terms of a campaign, or nothing. */
export function periodOf({ renew_days: days, renew_from: from }, day) {
  if (!days) return null;
  const start = Math.floor(daysBetween(from, day) / days) * days;
  return { first: dayAfter(from, start), last: dayAfter(from, start + days - 1) };
}
