/** Requests that do not tell who asks, and a stored report that is sent with the same bytes until it arrives. */
import { demand, KeyveilError, parseJson, unhex } from "./wire.js";

const QUIET = { credentials: "omit", referrerPolicy: "no-referrer", cache: "no-store", redirect: "error" };

/** A collector at an address such as https://collector.example; plain HTTP only on this machine. */
export function http(address) {
  const { protocol, hostname, username, origin, pathname } = new URL(address);
  const local = protocol === "http:" && /^(localhost|127\.0\.0\.1|\[::1\]|.*\.localhost)$/.test(hostname);
  demand(!username, "transport/address");
  demand(protocol === "https:" || local, "transport/plain");
  const request = async (method, path, body, headers) => {
    let [size, pieces] = [0, []];
    try {
      const answer = await fetch(origin + pathname.replace(/\/+$/, "") + path, { method, body, headers, signal: AbortSignal.timeout(120_000), ...QUIET });
      for (let reader = answer.body?.getReader(), piece; reader && !(piece = await reader.read()).done; pieces.push(piece.value))
        demand((size += piece.value.length) <= 8 << 20, "transport/too-large");
      return { status: answer.status, headers: answer.headers, body: new Uint8Array(await new Blob(pieces).arrayBuffer()) };
    } catch (reason) {
      throw reason instanceof KeyveilError ? reason : new KeyveilError("transport/unreachable");
    }
  };
  return { request };
}

function said({ body }) {
  try {
    return parseJson(body);
  } catch {
    return null;
  }
}

export function problemCode(answer) {
  const code = /^application\/problem\+json\s*(;|$)/.test(answer.headers.get("content-type")) && said(answer)?.code;
  return /^[a-z0-9-]{1,40}\/[a-z0-9-]{1,40}$/.test(code) ? code : null;
}

/** Seconds; a drawn report leaves at a multiple of `pace` after the reading. */
export const PATIENCE = { tries: 5, first: 1, longest: 60, pace: 0.25 };

export const PASSING = ["campaign/unknown", "round/unknown", "round/waiting"];

export function batch({ round, document, report, payload }) {
  const bytes = unhex(`4b56520100000000000001000000${document}${report}${payload}`);
  const view = new DataView(bytes.buffer);
  view.setUint16(4, round, true);
  view.setUint32(6, payload.length / 2, true);
  return bytes;
}

export async function deliver(parcel, { transport, coins, patience: { tries, first, longest }, sleep, now }) {
  for (let pause = first; ; pause = Math.min(2 * pause, longest)) {
    const { after = 0, ...heard } = await attempt(parcel, transport, now);
    const wait = Math.max(pause * (1 - coins.below(512) / 1024), after);
    if (heard.state !== "waiting" || --tries < 1 || wait > longest) return heard;
    await sleep(wait);
  }
}

async function attempt(parcel, transport, now) {
  const headers = { "Content-Type": "application/vnd.keyveil.reports" };
  if (parcel.token) headers.Authorization = `Bearer ${parcel.token}`;
  const waiting = (code, after) => ({ state: "waiting", code, after });
  try {
    const answer = await transport.request("POST", `/v1/campaigns/${parcel.name}/reports`, batch(parcel), headers);
    const code = problemCode(answer);
    if (answer.status === 200) return judged(said(answer), parcel.report) ?? waiting("transport/answer");
    const passing = [408, 425, 429].includes(answer.status) || PASSING.includes(code);
    if (code && /^4/.test(answer.status) && !passing) return { state: "refused", code };
    const after = answer.headers.get("retry-after"); // seconds, or a date
    return waiting(code ?? "transport/status", Number(after) || (Date.parse(after) - now()) / 1000 || 0);
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
  return { state: "refused", code: code.replace(/[^ -~]/g, " ").slice(0, 80) };
}
