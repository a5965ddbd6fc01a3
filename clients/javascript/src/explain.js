/** A campaign in words for the person who decides: what, why, at what price, how often, until when, and to whom. */
import { shown, spelled } from "./ledger.js";

const KEYS = 12; // so many are named; of the others only their number

/** Text from elsewhere without control characters, so that it cannot steer what shows it. */
const plain = (text) => text.replace(/[\p{C}\p{Z}]/gu, " ");

/** The page that a person reads before agreeing, as `text`. */
export function explained({ notice: { campaign, round }, spent, consent, agreed, remarks, refusal }) {
  const { document, schema, hash, until } = campaign;
  const { protocol, purpose, contact, enrolment, retention_days, min_reports } = document;
  const more = schema.d > KEYS ? `, and ${schema.d - KEYS} that are not named here` : "";
  const changed = consent === "given" && !agreed ? "given to something else: this campaign has changed" : consent;
  const lines = {
    Why: purpose,
    What: `which of ${schema.d} keys you have (${schema.names.slice(0, KEYS).join(", ")}${more}), and their values`,
    "How often": campaign.several ? "one report in each round that asks you, all within the same epsilon" : "one report",
    Until: until ?? "no last day is named",
    ...later(campaign),
    Privacy: `epsilon ${protocol.epsilon} for the whole campaign (${protocol.name})`,
    Now: round ? `round ${round.number} costs epsilon ${shown(round.cost)}, computed here from ${round.mechanism.name}` : "nothing is asked",
    Leaves: `a random id and a randomised answer, as long for every record${round ? `: ${16 + round.document.report_bytes} bytes` : ""}`,
    Kept: `single reports for at most ${retention_days} days`,
    Shown: `nothing before ${min_reports} people have reported`,
    Enrolment: enrolment,
    Contact: contact || "none is named",
    Spent: spent.map(spelled).join("; "),
    Consent: changed ?? "not given yet",
    ...(remarks.length ? { Note: remarks.join(" ") } : {}),
    ...(refusal ? { Verdict: refusal } : {}),
  };
  const page = Object.entries(lines).map(([what, said]) => `${what.padEnd(12)} ${plain(said)}`);
  return { text: [`${document.name} (${hash.slice(0, 8)}…)`, "", ...page].join("\n") };
}

/** What goes on under the same consent, and what the whole series reveals and costs. */
function later({ ends, document: { protocol: { epsilon }, every_days, series_until, renew_days, one_in } }) {
  if (!ends) return {};
  const rhythm = `${every_days ? `, at most every ${every_days} days` : ""}${series_until ? `, until ${series_until}` : ""}`;
  const price = renew_days
    ? `One report is drawn at epsilon ${epsilon} for each ${renew_days} days and sent to every campaign in them, even if what you have changes: these can be linked to each other, not to you.`
    : one_in
      ? `You are asked in one of ${one_in} of them, chosen by a coin, each time at epsilon ${epsilon} for what you have then.`
      : `Each is answered anew at epsilon ${epsilon} for what you have then, until a cap ends it.`;
  return { Later: `campaigns with the same terms go on under your consent${rhythm}. ${price}` };
}
