/** Sending a stored report until the collector has it: the same bytes every time, with growing and jittered pauses. */
import { unhex } from "./canonical.js";
import { KeyveilError } from "./errors.js";
import { problemCode } from "./transport.js";

/** How often to try at once, and pauses in seconds; a drawn report leaves at a multiple of `pace` after the reading. */
export const PATIENCE = { tries: 5, first: 1, longest: 60, pace: 0.25 };

/** Problems that may pass by themselves, whatever their status. */
export const PASSING = ["campaign/unknown", "round/unknown", "round/waiting"];

/** One report in the packed form of docs/wire.md. */
export function packed({ round, document, report, payload }) {
  const [bytes, size] = [unhex(`4b56520100000000000001000000${document}${report}${payload}`), payload.length / 2];
  const view = new DataView(bytes.buffer);
  view.setUint16(4, round, true);
  view.setUint32(6, size, true);
  return bytes;
}

/** What became of a parcel: sent, refused for good, or still waiting. */
export async function deliver(parcel, { transport, coins, patience, sleep, now }) {
  for (let attempts = 1, pause = patience.first; ; attempts++, pause = Math.min(2 * pause, patience.longest)) {
    const { after = 0, ...heard } = await attempt(parcel, transport, now);
    const wait = Math.max((pause * (1 + coins.below(1 << 20) / (1 << 20))) / 2, after);
    if (heard.state !== "waiting" || attempts >= patience.tries || wait > patience.longest) return { ...heard, attempts };
    await sleep(wait);
  }
}

const waiting = (code, after) => ({ state: "waiting", code, after });

async function attempt(parcel, transport, now) {
  const headers = { "Content-Type": "application/vnd.keyveil.reports" };
  if (parcel.token) headers.Authorization = `Bearer ${parcel.token}`;
  try {
    const answer = await transport.request("POST", `/v1/campaigns/${parcel.name}/reports`, packed(parcel), headers);
    if (answer.status === 200) return read(answer, parcel);
    const code = problemCode(answer);
    const passing = [408, 425, 429].includes(answer.status) || PASSING.includes(code);
    if (code && answer.status >= 400 && answer.status < 500 && !passing) return { state: "refused", code };
    const after = answer.headers.get("retry-after") ?? "";
    const date = (Date.parse(after) - now()) / 1000;
    return waiting(code ?? "transport/status", /^\d+$/.test(after) ? Number(after) : date > 0 ? date : 0);
  } catch (reason) {
    if (!(reason instanceof KeyveilError)) throw reason;
    return waiting(reason.code);
  }
}

/** An answer is believed only if it is well-formed and about this very report. */
function read({ body }, { report }) {
  try {
    const said = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
    const { accepted, duplicates, refused } = said;
    const [one] = refused;
    const told = `${Object.keys(said).sort()} ${accepted} ${duplicates} ${refused.length}`;
    if (/^accepted,duplicates,refused (1 0|0 1) 0$/.test(told)) return { state: "sent", code: null };
    if (/^accepted,duplicates,refused 0 0 1$/.test(told) && one.id === report && typeof one.code === "string")
      return { state: "refused", code: one.code.replace(/[^\x20-\x7e]/g, " ").slice(0, 80) };
  } catch {
    // nonsense: it is not known whether the report arrived
  }
  return waiting("transport/answer");
}
