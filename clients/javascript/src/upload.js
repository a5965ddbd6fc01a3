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
  const [id, content] = [unhex(report), unhex(payload)];
  const bytes = new Uint8Array(46 + 16 + content.length);
  const view = new DataView(bytes.buffer);
  bytes.set([0x4b, 0x56, 0x52, 1]);
  view.setUint16(4, round, true);
  view.setUint32(6, content.length, true);
  view.setUint32(10, 1, true);
  bytes.set(unhex(document), 14);
  bytes.set(id, 46);
  bytes.set(content, 62);
  return bytes;
}

/** What became of a parcel: sent, refused for good, or still waiting. @returns {Promise<{state: string, code: string | null, attempts: number}>} */
export async function deliver(parcel, { transport, coins, patience, sleep }) {
  for (let attempts = 1, pause = patience.first; ; attempts++, pause = Math.min(2 * pause, patience.longest)) {
    const heard = await attempt(parcel, transport);
    if (heard.state !== "waiting") return { ...heard, attempts };
    const wait = Math.max((pause * (1 + coins.below(1 << 20) / (1 << 20))) / 2, heard.after);
    if (attempts >= patience.tries || wait > patience.longest) return { ...heard, attempts };
    await sleep(wait);
  }
}

async function attempt(parcel, transport) {
  const headers = { "Content-Type": "application/vnd.keyveil.reports" };
  if (parcel.token) headers.Authorization = `Bearer ${parcel.token}`;
  let answer;
  try {
    answer = await transport.request("POST", `/v1/campaigns/${parcel.name}/reports`, packed(parcel), headers);
  } catch (reason) {
    if (!(reason instanceof KeyveilError)) throw reason;
    return { state: "waiting", code: reason.code, after: 0 };
  }
  if (answer.status === 200) return read(answer, parcel);
  const code = problemCode(answer);
  const passing = [408, 425, 429].includes(answer.status) || PASSING.includes(code ?? "");
  if (code && answer.status >= 400 && answer.status < 500 && !passing) return { state: "refused", code, after: 0 };
  const after = answer.headers.get("retry-after") ?? "";
  const date = (Date.parse(after) - Date.now()) / 1000;
  return { state: "waiting", code: code ?? "transport/status", after: /^\d{1,9}$/.test(after) ? Number(after) : date > 0 ? date : 0 };
}

/** An answer is believed only if it is well-formed and about this very report. */
function read(answer, parcel) {
  try {
    const said = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(answer.body));
    const { accepted, duplicates, refused } = said;
    if (Object.keys(said).length === 3 && refused.length === 0 && [accepted, duplicates].sort().join() === "0,1")
      return { state: "sent", code: null, after: 0 };
    if (accepted === 0 && duplicates === 0 && refused.length === 1 && refused[0].id === parcel.report && typeof refused[0].code === "string")
      return { state: "refused", code: refused[0].code.replace(/[^\x20-\x7e]/g, " ").slice(0, 80), after: 0 };
  } catch {
    // nonsense: it is not known whether the report arrived
  }
  return { state: "waiting", code: "transport/answer", after: 0 };
}
