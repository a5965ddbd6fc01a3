/** Requests to a collector: nothing that tells who asks, no cookies, no referrer, no cache, no redirects. */
import { demand, KeyveilError, refuse } from "./errors.js";

const LARGEST = 8 << 20; // bytes of an answer
const QUIET = { credentials: "omit", referrerPolicy: "no-referrer", cache: "no-store", redirect: "error" };

export class HttpTransport {
  /** @param {string} address of the collector, such as https://collector.example; plain HTTP only on this machine */
  constructor(address, timeout = 120_000) {
    const { protocol, hostname, username, password, origin, pathname } = new URL(address);
    const local = /^(localhost|127\.0\.0\.1|\[::1\]|.*\.localhost)$/.test(hostname);
    demand(!username && !password, "transport/address", "The collector's address must not hold a password.");
    demand(protocol === "https:" || (protocol === "http:" && local), "transport/plain", "Another machine is asked over https.");
    this.address = `${origin}${pathname.replace(/\/+$/, "")}`;
    this.timeout = timeout;
  }

  async request(method, path, body, headers) {
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(), this.timeout);
    try {
      const answer = await fetch(this.address + path, { method, body, headers, signal: stop.signal, ...QUIET });
      const pieces = [];
      let size = 0;
      for (let reader = answer.body?.getReader(), piece; reader && !(piece = await reader.read()).done; ) {
        pieces.push(piece.value);
        size += piece.value.length;
        demand(size <= LARGEST, "transport/too-large", "The collector's answer is too large.");
      }
      const whole = new Uint8Array(await new Blob(pieces).arrayBuffer());
      return { status: answer.status, headers: answer.headers, body: whole };
    } catch (reason) {
      if (reason instanceof KeyveilError) throw reason;
      return refuse("transport/unreachable", "The collector did not answer.");
    } finally {
      clearTimeout(timer);
      stop.abort();
    }
  }
}

/** The code of a problem document (RFC 9457), if an answer is one. */
export function problemCode({ headers, body }) {
  if (!/^application\/problem\+json\s*(;|$)/.test(headers.get("content-type"))) return null;
  try {
    const { code } = JSON.parse(new TextDecoder().decode(body));
    return /^[a-z0-9-]{1,40}\/[a-z0-9-]{1,40}$/.test(code) ? code : null;
  } catch {
    return null;
  }
}
