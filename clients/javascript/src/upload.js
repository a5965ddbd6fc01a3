/** Sending a stored report until it arrives: the same bytes every time, with growing pauses. */
import { unhex } from "./canonical.js";
import { KeyveilError } from "./errors.js";
import { problemCode, said } from "./transport.js";

/** Seconds; a drawn report leaves at a multiple of `pace` after the reading. */
export const PATIENCE = { tries: 5, first: 1, longest: 60, pace: 0.25 };

/** Problems that may pass by themselves. */
export const PASSING = ["campaign/unknown", "round/unknown", "round/waiting"];

export function packed({ round, document, report, payload }) {
  const bytes = unhex(`4b56520100000000000001000000${document}${report}${payload}`);
  const view = new DataView(bytes.buffer);
  view.setUint16(4, round, true);
  view.setUint32(6, payload.length / 2, true);
  return bytes;
}

export async function deliver(parcel, { transport, coins, patience, sleep, now }) {
  for (let attempts = 1, pause = patience.first; ; attempts++, pause = Math.min(2 * pause, patience.longest)) {
    const { after = 0, ...heard } = await attempt(parcel, transport, now);
    const wait = Math.max((pause * (1 + coins.below(1 << 20) / (1 << 20))) / 2, after);
    if (heard.state !== "waiting" || attempts >= patience.tries || wait > patience.longest) return { ...heard, attempts };
    await sleep(wait);
  }
}

async function attempt(parcel, transport, now) {
  const headers = { "Content-Type": "application/vnd.keyveil.reports" };
  if (parcel.token) headers.Authorization = `Bearer ${parcel.token}`;
  const waiting = (code, after) => ({ state: "waiting", code, after });
  try {
    const answer = await transport.request("POST", `/v1/campaigns/${parcel.name}/reports`, packed(parcel), headers);
    const code = problemCode(answer);
    if (answer.status === 200) return judged(said(answer), parcel.report) ?? waiting("transport/answer");
    const passing = [408, 425, 429].includes(answer.status) || PASSING.includes(code);
    if (code && answer.status >= 400 && answer.status < 500 && !passing) return { state: "refused", code };
    const after = answer.headers.get("retry-after") ?? "";
    return waiting(code ?? "transport/status", /^\d+$/.test(after) ? Number(after) : (Date.parse(after) - now()) / 1000 || 0);
  } catch (reason) {
    if (reason instanceof KeyveilError) return waiting(reason.code);
    throw reason;
  }
}

/** An answer is believed only if it is well-formed and about this very report. */
function judged(answer, report) {
  const { accepted, duplicates, refused, ...more } = answer ?? {};
  const counted = JSON.stringify([accepted, duplicates, refused?.length, Object.keys(more).length]);
  const { id, code } = refused?.[0] ?? {};
  if (["[1,0,0,0]", "[0,1,0,0]"].includes(counted)) return { state: "sent", code: null };
  if (counted !== "[0,0,1,0]" || id !== report || typeof code !== "string") return null;
  return { state: "refused", code: code.replace(/[^\x20-\x7e]/g, " ").slice(0, 80) };
}
