/** Requests that do not tell who asks; a report is sent with the same bytes until it arrives. */
import { low, packed } from "../mechanisms.js";
import { hex, json, KeyveilError, must, parsed, unhex } from "../wire.js";

export function http(address) {
  const { origin, username } = new URL(address);
  must(!username, "transport/address");
  must(/^(https:|http:\/\/(localhost|127\.0\.0\.1|\[::1\]|.*\.localhost)(:|$))/.test(origin), "transport/plain");
  const request = async (method, path, body, headers) => {
    const pieces = [];
    let size = 0;
    try {
      const answer = await fetch(new URL(`.${path}`, address), {
        ...{ method, body, headers, credentials: "omit", referrerPolicy: "no-referrer", cache: "no-store", redirect: "error" },
        signal: AbortSignal.timeout(120_000),
      });
      for (let reader = answer.body?.getReader(), piece; reader && !(piece = await reader.read()).done; pieces.push(piece.value))
        must((size += piece.value.length) <= 8 << 20, "transport/too-large");
      return { status: answer.status, headers: answer.headers, body: new Uint8Array(await new Blob(pieces).arrayBuffer()) };
    } catch (reason) {
      throw reason instanceof KeyveilError ? reason : new KeyveilError("transport/unreachable");
    }
  };
  return { request };
}

function said({ body }) {
  try {
    return parsed(body);
  } catch {}
}

export function problem(answer) {
  const code = /^application\/problem\+json\s*(;|$)/.test(answer.headers.get("content-type")) && said(answer)?.code;
  return /^[a-z0-9-]{1,40}\/[a-z0-9-]{1,40}$/.test(code) ? code : null;
}

/** Seconds; a drawn report leaves at a multiple of `pace` after the reading. */
export const PATIENCE = { tries: 5, first: 1, longest: 60, pace: 0.25 };

export const PASSING = ["campaign/unknown", "round/unknown", "round/waiting"];

export function batch({ round, document, report, payload }) {
  const sizes = [...low(round, 16), ...low(payload.length / 2, 32), 1];
  return unhex(`4b565201${hex(packed(sizes, 10))}${document}${report}${payload}`);
}

export async function send(entry, { transport, coins, patience: { tries, first, longest }, sleep, now }) {
  for (let pause = first; ; pause = Math.min(2 * pause, longest)) {
    const { after = 0, ...heard } = await sent(entry, transport, now());
    const wait = Math.max(pause * (1 - coins.below(512) / 1024), after);
    if (heard.state !== "waiting" || --tries < 1 || wait > longest) return heard;
    await sleep(wait);
  }
}

async function sent(entry, transport, now) {
  const { name, token } = entry;
  const headers = { "Content-Type": "application/vnd.keyveil.reports", ...(token && { Authorization: `Bearer ${token}` }) };
  let after;
  try {
    const answer = await transport.request("POST", `/v1/campaigns/${name}/reports`, batch(entry), headers);
    if (answer.status === 200) return read(said(answer), entry.report);
    const code = problem(answer);
    const when = answer.headers.get("retry-after");
    after = Number(when) || (Date.parse(when) - now) / 1000 || 0; // seconds, or a date
    must(code && /^4(?!08|25|29)/.test(answer.status) && !PASSING.includes(code), code ?? "transport/status");
    return { state: "refused", code };
  } catch (reason) {
    if (reason instanceof KeyveilError) return { state: "waiting", code: reason.code, after };
    throw reason;
  }
}

/** An answer is believed only if it is well-formed and about this very report. */
function read(answer, id) {
  const told = json(answer);
  const one = (accepted, duplicates, ...refused) => told === json({ accepted, duplicates, refused });
  if (one(1, 0) || one(0, 1)) return { state: "sent", code: null };
  const code = answer?.refused?.[0]?.code;
  must(typeof code === "string" && one(0, 0, { id, code }), "transport/answer");
  return { state: "refused", code: code.replace(/[^ -~]/g, " ").slice(0, 80) };
}
