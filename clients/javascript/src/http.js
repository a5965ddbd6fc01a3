/** Requests that do not tell who asks; a stored report is sent with the same bytes until it arrives. */
import { low, packed } from "./mechanisms.js";
import { canonical, demand, hex, KeyveilError, parseJson, unhex } from "./wire.js";

const QUIET = { credentials: "omit", referrerPolicy: "no-referrer", cache: "no-store", redirect: "error" };

/** Plain HTTP only on this machine. */
export function http(address) {
  const { protocol, hostname, username } = new URL(address);
  const local = protocol === "http:" && /^(localhost|127\.0\.0\.1|\[::1\]|.*\.localhost)$/.test(hostname);
  demand(!username, "transport/address");
  demand(protocol === "https:" || local, "transport/plain");
  const request = async (method, path, body, headers) => {
    let [size, pieces] = [0, []];
    try {
      const answer = await fetch(new URL(`.${path}`, address), { method, body, headers, signal: AbortSignal.timeout(120_000), ...QUIET });
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
  const sizes = packed([...low(round, 16), ...low(payload.length / 2, 32)], 6);
  return unhex(`4b565201${hex(sizes)}01000000${document}${report}${payload}`);
}

export async function deliver(parcel, { transport, coins, patience: { tries, first, longest }, sleep, now }) {
  for (let pause = first; ; pause = Math.min(2 * pause, longest)) {
    const { after, ...heard } = await attempt(parcel, transport, now);
    const wait = Math.max(pause * (1 - coins.below(512) / 1024), after || 0);
    if (heard.state !== "waiting" || --tries < 1 || wait > longest) return heard;
    await sleep(wait);
  }
}

async function attempt({ name, token, ...parcel }, transport, now) {
  const headers = { "Content-Type": "application/vnd.keyveil.reports", ...(token && { Authorization: `Bearer ${token}` }) };
  let after;
  try {
    const answer = await transport.request("POST", `/v1/campaigns/${name}/reports`, batch(parcel), headers);
    if (answer.status === 200) return judged(said(answer), parcel.report);
    const [code, when] = [problemCode(answer), answer.headers.get("retry-after")];
    after = Number(when) || (Date.parse(when) - now()) / 1000; // seconds, or a date
    const passing = [408, 425, 429].includes(answer.status) || PASSING.includes(code);
    demand(code && /^4/.test(answer.status) && !passing, code ?? "transport/status");
    return { state: "refused", code };
  } catch (reason) {
    if (reason instanceof KeyveilError) return { state: "waiting", code: reason.code, after };
    throw reason;
  }
}

/** An answer is believed only if it is well-formed and about this very report. */
function judged(answer, id) {
  const one = (accepted, duplicates, ...refused) => canonical({ accepted, duplicates, refused });
  const [told, code] = [canonical(answer), answer?.refused?.[0]?.code];
  if ([one(1, 0), one(0, 1)].includes(told)) return { state: "sent", code: null };
  demand(typeof code === "string" && told === one(0, 0, { id, code }), "transport/answer");
  return { state: "refused", code: code.replace(/[^ -~]/g, " ").slice(0, 80) };
}
