/** Requests to a collector: nothing that tells who asks, no cookies, no referrer, no cache, no redirects. */
import { demand, KeyveilError } from "./errors.js";

const LARGEST = 8 << 20; // bytes of an answer
const QUIET = { credentials: "omit", referrerPolicy: "no-referrer", cache: "no-store", redirect: "error" };

/** A collector at an address such as https://collector.example; plain HTTP only on this machine. */
export class HttpTransport {
  constructor(address, timeout = 120_000) {
    const { protocol, hostname, username, origin, pathname } = new URL(address);
    const local = protocol === "http:" && /^(localhost|127\.0\.0\.1|\[::1\]|.*\.localhost)$/.test(hostname);
    demand(!username, "transport/address", "The collector's address must not hold a password.");
    demand(protocol === "https:" || local, "transport/plain", "Another machine is asked over https.");
    this.address = origin + pathname.replace(/\/+$/, "");
    this.timeout = timeout;
  }

  async request(method, path, body, headers) {
    const [stop, pieces] = [new AbortController(), []];
    const timer = setTimeout(() => stop.abort(), this.timeout);
    try {
      const answer = await fetch(this.address + path, { method, body, headers, signal: stop.signal, ...QUIET });
      let size = 0;
      for (let reader = answer.body?.getReader(), piece; reader && !(piece = await reader.read()).done; ) {
        pieces.push(piece.value);
        demand((size += piece.value.length) <= LARGEST, "transport/too-large");
      }
      return { status: answer.status, headers: answer.headers, body: new Uint8Array(await new Blob(pieces).arrayBuffer()) };
    } catch (reason) {
      throw reason instanceof KeyveilError ? reason : new KeyveilError("transport/unreachable", "The collector did not answer.");
    } finally {
      clearTimeout(timer);
      stop.abort();
    }
  }
}

export function said({ body }) {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch {
    return null;
  }
}

/** The code of a problem document (RFC 9457), if an answer is one. */
export function problemCode(answer) {
  const code = /^application\/problem\+json\s*(;|$)/.test(answer.headers.get("content-type")) && said(answer)?.code;
  return /^[a-z0-9-]{1,40}\/[a-z0-9-]{1,40}$/.test(code) ? code : null;
}
