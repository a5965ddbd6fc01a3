/** A campaign in words for the person who decides. */
import { text, UNIT } from "../wire.js";

const NAMED = 12;

/** ε for people: six places, rounded up; what is stored and compared is exact. */
const PLACE = UNIT / 1000000n;
const shown = (epsilon) => text(((epsilon + PLACE - 1n) / PLACE) * PLACE);

export const reasons = {
  "budget/exceeded": "This would exceed what the device may release.",
  "campaign/changed": "This is not what was agreed to.",
  "consent/signal": "This browser asks not to be tracked.",
  "device/clock": "The clock is far ahead: set it, or say that it is right.",
  "device/limits": "This is more than a device reads or computes.",
  "device/mechanism": "Not every record could answer this.",
  "device/options": "This device reads only campaigns for browsers.",
  "enrolment/needed": "A token is needed.",
  "mechanism/unknown": "This device does not know how to answer this.",
  "report/withdrawn": "Consent was withdrawn, and what had begun by then is not answered.",
  "round/closed": "It is not open today.",
  "storage/fleeting": "This campaign is not for browsers that may forget.",
};

export function explained({ notice: { campaign, round }, spent, consent, agreed, durable, clock, refusal }) {
  const { document, schema, several, ends, until, hash } = campaign;
  const { name, purpose, protocol, contact, enrolment, retention_days, min_reports, every_days, series_until, renew_days, one_in } = document;
  const keys = schema.names.slice(0, NAMED).join(", ") + (schema.d > NAMED ? `, and ${schema.d - NAMED} that are not named here` : "");
  const each = renew_days
    ? `one report is drawn for each ${renew_days} days and sent to every campaign in them, even if what you have changes`
    : `${one_in ? `one in ${one_in}, chosen by a coin,` : "each"} is answered anew, until a cap ends it`;
  const often = (every_days ? `, at most every ${every_days} days` : "") + (series_until ? `, until ${series_until}` : "");
  const lines = {
    Why: purpose,
    What: `which of ${schema.d} keys you have (${keys}), and their values`,
    "How often": `one report${several ? " in each round that asks you, all within the same epsilon" : ""}`,
    Until: until ?? "no last day is named",
    Later: ends && `campaigns with the same terms go on under your consent${often}; ${each}, at epsilon ${protocol.epsilon} a time`,
    Privacy: `epsilon ${protocol.epsilon} for the whole campaign (${protocol.name})`,
    Now: round ? `round ${round.number} costs epsilon ${shown(round.cost)}, computed here from ${round.mechanism.name}` : "nothing is asked",
    Leaves: round && `a random id and a randomised answer of ${round.document.report_bytes} bytes, whatever you have`,
    Kept: `single reports for at most ${retention_days} days; nothing is shown before ${min_reports} people have reported`,
    Enrolment: enrolment,
    Contact: contact || "none is named",
    Spent: spent.map(({ cap, spent, limit }) => `${cap.replace("_", " ")}: ${shown(spent)} of ${limit}`).join("; "),
    Consent: consent === "given" && !agreed ? "given to something else: this campaign has changed" : (consent ?? "not given yet"),
    Storage: !durable && "This browser may forget what was spent: each clearing of its data can cost one more epsilon a round",
    Clock: clock && `it was once at ${clock}: until then no period of a cap ends`,
    Verdict: refusal && (reasons[refusal] ?? refusal),
  };
  const page = Object.entries(lines).filter(([, said]) => said);
  return [`${name} (${hash.slice(0, 8)}…)`, ...page.map(([what, said]) => `${what}: ${said.replace(/[\p{C}\p{Z}]/gu, " ")}`)].join("\n");
}
